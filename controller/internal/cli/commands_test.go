package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// malformed has three mistakes, in three places.
const malformed = `{
  "formatVersion": "7",
  "version": "2.1",
  "nodes": [
	{
	  "node": {"codename": "node-1"},
	  "nodeGroupSubject": {"codename": "mainType"},
	  "alertRules": {"ram": {"minThreshold": 0.1, "maxThreshold": 90}},
	  "lables": ["mainNode"]
	}
  ]
}
`

type change = func(*apitest.State)

func refuses(s *apitest.State) {
	s.Refuse = map[string]*wire.Error{"node-2": wire.New(wire.CodeBadValue, "/priority", "at most 10 here")}
}

func trial(s *apitest.State) {
	s.Config.Trial = &view.Trial{Version: "2.1.0", Rev: 13, Deadline: apitest.Now.Add(90e9)}
}

func failed(s *apitest.State) {
	s.Config.State, s.Config.Error = "failed", wire.New(wire.CodeMalformed, "", "the file unit.json was altered")
	s.Config.Attempted = &view.Attempted{Version: "1.9.5", At: apitest.Now.Add(-time10), Who: "uid:1000(alice)",
		Error: wire.New(wire.CodeWrongState, "/version", "version 1.9.5 is lower than the installed 2.0.0")}
}

const time10 = 10 * 60e9

func hostile(s *apitest.State) {
	s.Nodes[1].Documents[wire.KindConfig].Last.Error.Message = "\x1b[2J\x1b[31mowned\nnode-9  mainType\u202e"
}

func empty(s *apitest.State) { *s = apitest.State{Config: view.SourceStatus{State: "absent"}} }

// identified gives node-1 an identity.
func identified(state string) change {
	return func(s *apitest.State) {
		id := &view.Identity{State: state, Joined: apitest.Now.Add(-time10), Expires: apitest.Now.AddDate(0, 3, 0)}
		switch state {
		case "revoked":
			id.Revoked, id.RevokedBy = apitest.Now.Add(-time10), "uid:1000(alice)"
		case "expired":
			id.State, id.Expires = "joined", apitest.Now.Add(-time10)
		}
		s.Nodes[0].Identity = id
	}
}

// TestCommands runs every command as a person does, for people and as JSON.
func TestCommands(t *testing.T) {
	good, next := "GOOD", "NEXT" // stand for files
	for _, c := range []struct {
		name  string
		args  string
		state change
	}{
		{"config-check", "config check GOOD", nil},
		{"config-check-refused-by-node", "config check GOOD", refuses},
		{"config-check-refused-by-rule", "config check OLD", nil},
		{"config-check-malformed", "config check BAD", nil},
		{"config-check-offline", "config check --offline GOOD", nil},
		{"config-check-offline-malformed", "config check --offline BAD", nil},
		{"config-apply", "config apply GOOD", nil},
		{"config-apply-silent", "config apply GOOD",
			func(s *apitest.State) { s.Silent = map[string]bool{"node-3": true} }},
		{"config-apply-try", "config apply GOOD --try 2m", nil},
		{"config-apply-try-iso", "config apply GOOD --try PT90S", nil},
		{"config-apply-skip-nodes", "config apply GOOD --skip-nodes", refuses},
		{"config-apply-refused", "config apply GOOD", refuses},
		{"config-apply-same", "config apply SAME", nil},
		{"config-apply-malformed", "config apply BAD", nil},
		{"config-apply-storage", "config apply GOOD", func(s *apitest.State) {
			s.Fail = map[string]error{"Submit": wire.New(wire.CodeStorage, "", "the disk is full")}
		}},
		{"config-confirm", "config confirm", trial},
		{"config-confirm-nothing", "config confirm", nil},
		{"config-status", "config status", nil},
		{"config-status-trial", "config status", trial},
		{"config-status-failed", "config status", failed},
		{"config-status-absent", "config status", empty},
		{"config-show", "config show", nil},
		{"config-show-version", "config show --version 1.9.0", nil},
		{"config-show-unknown", "config show --version 0.1.0", nil},
		{"config-show-node", "config show --node node-1", nil},
		{"config-show-node-misspelt", "config show --node nod-1", nil},
		{"config-history", "config history", nil},
		{"config-history-limit", "config history --limit 1", nil},
		{"config-history-empty", "config history", empty},
		{"config-diff", "config diff 1.9.0 NEXT", nil},
		{"config-diff-same", "config diff 2.0.0 2.0.0", nil},
		{"config-diff-unknown", "config diff 0.0.1 2.0.0", nil},
		{"config-rollback", "config rollback 1.9.0 --as 2.0.1", nil},
		{"config-rollback-low", "config rollback 1.9.0 --as 1.9.1", nil},
		{"config-rollback-unknown", "config rollback 0.0.1 --as 2.0.1", nil},
		{"config-rollback-no-as", "config rollback 1.9.0", nil},
		{"config-wait", "config wait", func(s *apitest.State) {
			s.Config.Progress = view.Progress{Nodes: 4, Online: 4, Installed: 4}
		}},
		{"config-wait-rejected", "config wait --within 2m", func(s *apitest.State) {
			s.Config.Progress = view.Progress{Nodes: 4, Online: 4, Installed: 3, Failed: 1, Missing: []view.Laggard{
				{Node: "node-2", Online: true, State: wire.StateRejected},
			}}
		}},
		{"config-wait-none", "config wait", empty},
		{"config-resolve", "config resolve GOOD --node node-1", nil},
		{"config-resolve-type", "config resolve GOOD --node node-7 --type mainType", nil},
		{"config-resolve-default", "config resolve GOOD --node node-7", nil},
		{"config-explain", "config explain --node node-1 /alertRules/ram/maxThreshold", nil},
		{"config-explain-lagging", "config explain --node node-2 /alertRules/ram/maxThreshold", nil},
		{"config-explain-default", "config explain --node node-3 /priority", nil},
		{"config-explain-default-of-entry", "config explain --node node-2 /priority", nil},
		{"config-explain-version", "config explain --node node-1 /version", nil},
		{"config-explain-whole", "config explain --node node-1 /", nil},
		{"config-explain-nothing-there", "config explain --node node-1 /alertRules/ram/maxTreshold", nil},
		{"config-restore", "config restore", failed},
		{"config-restore-nothing", "config restore", empty},
		{"nodes", "nodes", nil},
		{"nodes-hostile", "nodes", hostile},
		{"nodes-empty", "nodes", empty},
		{"node", "node node-2", nil},
		{"node-misspelt", "node node2", nil},
		{"node-joined", "node node-1", identified("joined")},
		{"node-revoked", "node node-1", identified("revoked")},
		{"node-expired", "node node-1", identified("expired")},
		{"node-enrolled", "node node-9", func(s *apitest.State) {
			s.Nodes = append(s.Nodes, view.Node{Node: "node-9", Identity: &view.Identity{State: "enrolled"}})
		}},
		{"nodes-awaited", "nodes", func(s *apitest.State) {
			s.Nodes = append(s.Nodes, view.Node{Node: "node-8", Identity: &view.Identity{State: "joined"}},
				view.Node{Node: "node-9", Identity: &view.Identity{State: "enrolled"}})
		}},
		{"node-enroll", "node enroll node-1", nil},
		{"node-enroll-ttl", "node enroll node-1 --ttl 1h", nil},
		{"node-enroll-no-door", "node enroll node-1", func(s *apitest.State) {
			s.Fail = map[string]error{"Enroll": wire.New(wire.CodeNotSupported, "",
				"this controller has no door to join by; start it with --listen-tls")}
		}},
		{"node-enroll-nobody", "node enroll no/de", nil},
		{"node-revoke", "node revoke node-1 --reason stolen", nil},
		{"node-revoke-unknown", "node revoke node1", nil},
		{"identity-certify", "identity certify cloud/eu --csr GOOD", nil},
		{"identity-certify-out", "identity certify cloud/eu --csr GOOD --out DIR/eu.pem", nil},
		{"identity-certify-in-the-way", "identity certify cloud/eu --csr GOOD --out BAD", nil},
		{"identity-certify-no-csr", "identity certify cloud/eu", nil},
		{"identity-revoke", "identity revoke cloud/eu", nil},
		{"token-list", "token list", nil},
		{"token-create", "token create ann --role operate", nil},
		{"token-create-expires", "token create dashboard --role view --expires 90d", nil},
		{"token-create-journal-broken", "token create ann --role view", func(s *apitest.State) {
			s.Fail = map[string]error{"Remark": wire.New(wire.CodeStorage, "", "the disk is full")}
		}},
		{"token-revoke", "token revoke operate", nil},
		{"token-revoke-misspelt", "token revoke oprate", nil},
		{"token-revoke-journal-broken", "token revoke operate", func(s *apitest.State) {
			s.Fail = map[string]error{"Remark": wire.New(wire.CodeStorage, "", "the disk is full")}
		}},
		{"key-show", "key show", nil},
		{"key-rotate-too-early", "key rotate", nil},
		{"key-rotate-force", "key rotate --force", nil},
		{"key-retire", "key retire 9f2c5a7d11e04b36", nil},
		{"key-retire-signing", "key retire 34750f98bd59fcfc", nil},
		{"key-retire-unknown", "key retire nokey", nil},
		{"events", "events --limit 3", nil},
		{"events-filtered", "events --node node-4 --type live", nil},
		{"events-after", "events --after 9 --limit 2", nil},
		{"events-none", "events --type nothing", nil},
		{"journal-verify", "journal verify", nil},
		{"journal-verify-damaged", "journal verify",
			func(s *apitest.State) { s.Damage = "record 7 altered: its content does not match its chain hash" }},
		{"journal-export", "journal export", nil},
		{"journal-backup", "journal backup DIR/b.db", nil},
		{"unit-status", "unit status", nil},
		{"unit-status-down", "unit status", func(s *apitest.State) {
			s.Status.Broker.Up, s.Status.Broker.Embedded, s.Status.Broker.Error = false, false, "connection refused"
		}},
		{"unit-status-broken", "unit status", func(s *apitest.State) {
			s.Status.Epoch, s.Status.Rev, s.Config = 0, 0, view.SourceStatus{}
			s.Status.Trouble = []string{
				"the journal /var/lib/journal.db cannot be written: the disk is full; nothing more is accepted until the cause " +
					"is removed and the journal opened again"}
		}},
		{"unit-status-not-ready", "unit status", func(s *apitest.State) {
			s.Fail = map[string]error{"Status": wire.New(wire.CodeUnavailable, "", "the controller is starting")}
		}},
		{"version", "version", nil},
	} {
		for _, suffix := range []string{"", "-json"} {
			t.Run(c.name+suffix, func(t *testing.T) {
				s := apitest.Sample()
				if c.state != nil {
					c.state(&s)
				}
				b := newBench(t, s)
				files := strings.NewReplacer(
					good, b.write("good.json", string(apitest.Document("2.1.0"))),
					next, b.write("next.json", strings.ReplaceAll(strings.ReplaceAll(string(apitest.Document("2.1.0")), "0.8", "0.75"), `"labels": ["mainNode"],`, `"labels": ["mainNode", "big"],`)),
					"BAD", b.write("bad.json", malformed),
					"SAME", b.write("same.json", string(apitest.Document("2.0.0"))),
					"OLD", b.write("old.json", string(apitest.Document("1.0.0"))),
					"DIR", b.dir)
				args := strings.Fields(files.Replace(c.args))
				if suffix != "" {
					args = append(args, "--json")
				}
				golden(t, c.name+suffix, b.transcript("", args...))
			})
		}
	}
}

// TestJSONIsJSON: with --json, what goes to either side is JSON, line by line.
func TestJSONIsJSON(t *testing.T) {
	b := newBench(t, apitest.Sample())
	bad := b.write("bad.json", malformed)
	for _, args := range [][]string{
		{"config", "apply", bad}, {"config", "check", "--offline", bad}, {"confg"}, {"config", "--frob"},
		{"nodes", "x"}, {"node", "nobody"},
		{"--socket", b.dir + "/none", "nodes"}, {"config", "status"}, {"nodes"}, {"events"},
		{"config", "check", b.dir + "/none"}, {"--timeout", "x", "nodes"},
	} {
		stdout, stderr, exit := b.run("", append(args, "--json")...)
		for line := range strings.Lines(stdout + stderr) {
			var v any
			if err := json.Unmarshal([]byte(line), &v); err != nil {
				t.Errorf("%q: %v in %q", args, err, line)
			}
		}
		if exit != 0 && !strings.HasPrefix(stderr, `{"error":{"code":"`) {
			t.Errorf("%q: %s", args, stderr)
		}
	}
}

// TestEveryCommandHelps: each command has an example, and its help shows it.
func TestEveryCommandHelps(t *testing.T) {
	b := newBench(t, apitest.Sample())
	var paths []string
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		path := strings.Fields(c.CommandPath())[1:]
		stdout, stderr, exit := b.run("", append(slices.Clone(path), "--help")...)
		if exit != 0 || stderr != "" || !strings.Contains(stdout, "Examples:\n  ") || c.Example == "" {
			t.Errorf("%v --help: status %d, %s%s", path, exit, stdout, stderr)
		}
		paths = append(paths, c.CommandPath())
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root(command.New(b.surroundings())))
	golden(t, "commands", strings.Join(paths, "\n")+"\n")
	golden(t, "help", b.transcript("", "--help"))
	golden(t, "help-apply", b.transcript("", "config", "apply", "--help"))
	if stdout, stderr, exit := b.run("", "completion", "bash"); exit != 0 || stderr != "" ||
		!strings.Contains(stdout, "__start_tandem") {
		t.Errorf("completion: %d %s", exit, stderr)
	}
}
