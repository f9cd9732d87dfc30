package cli

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/distribute"
	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/op"
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
			played(func(u *apitest.Rig) { u.Silence("node-3") })},
		{"config-apply-try", "config apply GOOD --try 2m", nil},
		{"config-apply-try-iso", "config apply GOOD --try PT90S", nil},
		{"config-apply-skip-nodes", "config apply GOOD --skip-nodes", refuses},
		{"config-apply-refused", "config apply GOOD", refuses},
		{"config-check-quarantined", "config check GOOD", expired},
		{"config-apply-quarantined", "config apply GOOD", expired},
		{"config-apply-forced", "config apply GOOD --force", expired},
		{"config-apply-same", "config apply SAME", nil},
		{"config-apply-yaml", "config apply YAML", nil},
		{"config-apply-malformed", "config apply BAD", nil},
		{"config-apply-storage", "config apply GOOD", answered(apitest.Failing(apitest.Config.Apply, diskFull))},
		{"config-confirm", "config confirm", trial},
		{"config-confirm-nothing", "config confirm", nil},
		{"config-status", "config status", nil},
		{"config-status-trial", "config status", trial},
		{"config-status-failed", "config status", failed},
		{"config-status-absent", "config status", empty},
		{"config-status-no-broker", "config status", away},
		{"workload-status-no-broker", "workload status", away},
		{"config-show", "config show", nil},
		{"config-show-version", "config show --version 1.9.0", nil},
		{"config-show-unknown", "config show --version 0.1.0", nil},
		{"config-show-node", "config show --node node-1", nil},
		{"config-show-node-version", "config show --node node-1 --version 1.9.0", nil},
		{"config-show-node-version-unknown", "config show --node node-1 --version 0.1.0", nil},
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
		{"config-wait", "config wait", played(func(u *apitest.Rig) {
			arrive(u, "node-1", "node-2", "node-3", "node-4")
		})},
		{"config-wait-rejected", "config wait --within 2m", played(func(u *apitest.Rig) {
			arrive(u, "node-1", "node-3", "node-4")
		})},
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
		{"config-retry", "config retry", nil},
		{"config-retry-nothing", "config retry", played(func(u *apitest.Rig) { arrive(u, "node-2") })},
		{"config-retry-failed", "config retry", failed},
		{"config-restore", "config restore", failed},
		{"config-restore-nothing", "config restore", empty},
		{"nodes", "nodes", nil},
		{"nodes-hostile", "nodes", hostile},
		{"nodes-revoked", "nodes", identified("revoked")},
		{"unit-status-revoked", "unit status", identified("revoked")},
		{"nodes-in-error", "nodes", inError},
		{"nodes-empty", "nodes", empty},
		{"nodes-behind", "nodes --behind --online", nil},
		{"nodes-name", "nodes --name *[24] --state rejected,waiting", nil},
		{"nodes-page", "nodes --type mainType --limit 1", nil},
		{"nodes-none", "nodes --offline --after node-4", nil},
		{"nodes-filter", "nodes state:rejected,waiting type:mainType", nil},
		{"nodes-filter-wrong", "nodes stat:rejected", nil},
		{"nodes-sorted", "nodes --sort state --fields node,state", nil},
		{"nodes-fleet", "fleet", nil},
		{"nodes-fleet-look", "fleet", answered(apitest.Fixed(op.ShowFleet, lookAt))},
		{"nodes-fields", "nodes --fields node,state,online,health,documents --limit 2", nil},
		{"node", "node node-2", nil},
		{"node-one-of-each", "node node-1", played(func(u *apitest.Rig) {
			u.Event("node-1", 1, "started", "{}")
			u.Say("node-1", wire.KindInfo, wire.Reported{Detail: wire.Encode(&wire.NodeInfo{Type: "mainType",
				OS: "linux", Arch: "arm64", CPUs: 1, RAM: 2 << 30, AgentVersion: "1.0.0"})})
		})},
		{"node-offers", "node node-1", played(func(u *apitest.Rig) { u.Offers("node-1") })},
		{"node-trying", "node node-1", tried},
		{"node-confirmed", "node node-1", confirmed},
		{"why-node", "why node node-1", nil},
		{"why-node-refuses", "why node node-2", nil},
		{"node-enroll-joined", "node enroll node-1", plainJoined},
		{"why-node-offline", "why node node-4", nil},
		{"why-node-no-broker", "why node node-2", away},
		{"why-document-no-broker", "why document node-2 config", away},
		{"events-no-broker", "events --type opened", away},
		{"why-node-revoked", "why node node-1", identified("revoked")},
		{"why-node-enrolled", "why node node-9", played(func(u *apitest.Rig) { enroll(u, "node-9") })},
		{"why-node-unknown", "why node node2", nil},
		{"why-document", "why document node-2 config", nil},
		{"why-document-trying", "why document node-1 config", tried},
		{"why-document-none", "why document node-1 policies", nil},
		{"why-document-kind", "why document node-1 infos", nil},
		{"why-nothing", "why", nil},
		{"node-diff", "node diff node-2", nil},
		{"node-diff-unknown", "node diff node2", nil},
		{"node-misspelt", "node node2", nil},
		{"node-joined", "node node-1", identified("joined")},
		{"node-revoked", "node node-1", identified("revoked")},
		{"node-expired", "node node-1", identified("expired")},
		{"node-enrolled", "node node-9", played(func(u *apitest.Rig) { enroll(u, "node-9") })},
		{"nodes-awaited", "nodes", played(func(u *apitest.Rig) {
			join(u, "node-8", apitest.Now.AddDate(0, 3, 0))
			enroll(u, "node-9")
		})},
		{"node-enroll", "node enroll node-1", plainTokens},
		{"node-enroll-ttl", "node enroll node-1 --ttl 1h", plainTokens},
		{"node-enroll-no-door", "node enroll node-1", played(func(u *apitest.Rig) {
			u.SetAuthority(distribute.Authority{})
		})},
		{"node-enroll-nobody", "node enroll no/de", nil},
		{"node-revoke", "node revoke node-1 --reason stolen", nil},
		{"node-revoke-unknown", "node revoke node1", nil},
		{"node-forget", "node forget node-4 --reason scrapped", nil},
		{"node-forget-online", "node forget node-4 node-1", nil},
		{"node-forget-unknown", "node forget node3", nil},
		{"node-forget-selected", "node forget --state revoked", identified("revoked")},
		{"node-forget-none", "node forget --offline-for 2d", nil},
		{"node-forget-both", "node forget node-3 --offline", nil},
		{"node-forget-nobody", "node forget", nil},
		{"nodes-offline-for", "nodes --offline-for 1m", nil},
		{"identity-certify", "identity certify cloud/eu --csr GOOD", certified},
		{"identity-certify-out", "identity certify cloud/eu --csr GOOD --out DIR/eu.pem", certified},
		{"identity-certify-in-the-way", "identity certify cloud/eu --csr GOOD --out BAD", certified},
		{"identity-certify-replace", "identity certify cloud/eu --csr GOOD --out BAD --replace", certified},
		{"identity-certify-no-csr", "identity certify cloud/eu", nil},
		{"identity-revoke", "identity revoke cloud/eu", played(func(u *apitest.Rig) {
			must(u.Enrolment(context.Background(), enrol.Certify{Subject: "cloud/eu", Key: "k", Serial: "1",
				Expires: apitest.Now.AddDate(0, 3, 0)}))
		})},
		{"token-list", "token list", nil},
		{"token-create", "token create ann --role operate", nil},
		{"token-create-expires", "token create dashboard --role view --expires 90d", nil},
		{"token-create-link", "token create wall --role view --link", nil},
		{"alerts", "alerts", nil},
		{"token-create-journal-broken", "token create ann --role view", unremarked},
		{"token-revoke", "token revoke operate", nil},
		{"token-revoke-misspelt", "token revoke oprate", nil},
		{"token-revoke-journal-broken", "token revoke operate", unremarked},
		{"key-show", "key show", rotating},
		{"key-show-first", "key show", nil},
		{"key-rotate-too-early", "key rotate", rotating},
		{"key-rotate-force", "key rotate --force", rotating},
		{"key-retire", "key retire fa4d86c3b551aa6c", rotating},
		{"key-retire-signing", "key retire 139e3940e64b5491", rotating},
		{"key-retire-unknown", "key retire nokey", rotating},
		{"ca-show", "ca show", authorities("announced")},
		{"ca-show-first", "ca show", authorities("")},
		{"ca-show-leaving", "ca show", authorities("leaving")},
		{"ca-show-rooted", "ca show", authorities("rooted")},
		{"ca-export-first", "ca export DIR/cas.json", nil},
		{"ca-import-unsigned", "ca import DIR/cas.json", nil},
		{"ca-rotate", "ca rotate", authorities("ready")},
		{"ca-rotate-too-early", "ca rotate", answered(apitest.Failing(op.RotateCAs, wire.New(wire.CodeWrongState, "",
			"the CA 5d41402abc4b2a76 cannot sign yet: node-3 is not known to believe it")))},
		{"ca-retire", "ca retire 34750f98bd59fcfc", authorities("retired")},
		{"ca-retire-unknown", "ca retire noca", nil},
		{"events", "events --limit 3", nil},
		{"events-filtered", "events --node node-4 --type live", nil},
		{"events-after", "events --after 9 --limit 2", nil},
		{"events-none", "events --type nothing", nil},
		{"journal-verify", "journal verify", nil},
		{"journal-verify-damaged", "journal verify",
			answered(apitest.Fixed(op.VerifyJournal,
				op.Verification{Report: "record 7 altered: its content does not match its chain hash"}))},
		{"journal-trim", "journal trim --dry-run", nil},
		{"journal-trim-much", "journal trim --dry-run", answered(apitest.Fixed(op.TrimPlan, muchToTrim))},
		{"journal-trim-wet", "journal trim", nil},
		{"journal-export", "journal export", nil},
		{"journal-backup", "journal backup DIR/b.db", smallBackup},
		{"backup-create", "backup create DIR/b.age --to " + someKey, unitBackup("")},
		{"backup-create-dir", "backup create --dir DIR --keep 3", unitBackup("")},
		{"backup-create-disk-full", "backup create DIR/b.age --to " + someKey, answered(api.FileOf(op.BackupUnit, "",
			func(context.Context, op.BackupIn, io.Writer) error { return diskFull }))},
		{"unit-settings", "unit settings", nil},
		{"unit-status", "unit status", nil},
		{"unit-status-in-error", "unit status", inError},
		{"unit-status-down", "unit status", amended(func(st *view.UnitStatus) {
			st.Broker.Up, st.Broker.Embedded, st.Broker.Error = false, false, "connection refused"
		})},
		{"unit-status-cloud", "unit status", amended(func(st *view.UnitStatus) {
			st.Cloud = &view.Followed{Rev: 27, CorrelationID: "c-17", Who: "cloud/eu", Omitted: 3,
				Failures: []string{"service api 1.0.0: not-found: the unit has no such item: release it there"}}
		})},
		{"unit-status-cloud-none", "unit status", amended(func(st *view.UnitStatus) { st.Cloud = &view.Followed{} })},
		{"unit-status-broken", "unit status", amended(func(st *view.UnitStatus) {
			st.Epoch, st.Rev, st.Config = 0, 0, view.SourceStatus{State: "absent"}
			st.Trouble = []string{
				"the journal /var/lib/journal.db cannot be written: the disk is full; nothing more is accepted " +
					"until it can; a controller that runs tries again by itself"}
		})},
		{"unit-status-not-ready", "unit status", answered(apitest.Failing(op.UnitStatus,
			wire.New(wire.CodeUnavailable, "", "the controller is starting")))},
		{"version", "version", nil},
	} {
		for _, suffix := range []string{"", "-json"} {
			t.Run(c.name+suffix, func(t *testing.T) {
				t.Parallel()
				b := c.state.bench(t)
				files := strings.NewReplacer(
					good, b.write("good.json", string(apitest.Document("2.1.0"))),
					next, b.write("next.json", strings.NewReplacer("0.8", "0.75",
						`"labels": ["mainNode"],`, `"labels": ["mainNode", "big"],`,
					).Replace(string(apitest.Document("2.1.0")))),
					"YAML", b.write("unit.yaml", "formatVersion: \"7\"\nversion: 2.1.0\nnodes: []\n"),
					"BAD", b.write("bad.json", malformed),
					"SAME", b.write("same.json", string(apitest.Document("2.0.0"))),
					"OLD", b.write("old.json", string(apitest.Document("1.0.0"))),
					"DIR", b.dir)
				args := strings.Fields(files.Replace(c.args))
				b.golden(t, c.name, suffix, args)
			})
		}
	}
}

// TestJSONIsJSON: with --json, what goes to either side is JSON, line by line.
func TestJSONIsJSON(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
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

// TestEveryCommandHelps: each command has an example, and its help shows it. But for that it has 80 columns.
func TestEveryCommandHelps(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	var paths []string
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		path := strings.Fields(c.CommandPath())[1:]
		stdout, stderr, exit := b.run("", append(slices.Clone(path), "--help")...)
		if exit != 0 || stderr != "" || !strings.Contains(stdout, "Examples:\n  ") || c.Example == "" {
			t.Errorf("%v --help: status %d, %s%s", path, exit, stdout, stderr)
		}
		rest := strings.Replace(stdout, c.Example, "", 1)
		for line := range strings.Lines(rest) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 && !strings.HasPrefix(line, "  tandem ") {
				t.Errorf("%v --help: %d columns: %s", path, n, line)
			}
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
