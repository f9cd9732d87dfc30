package cli

import (
	"slices"
	"strings"
	"testing"

	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// TestMeant: one rule corrects what is mistyped, at each level and for each kind of name.
func TestMeant(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	b.unit.Working()
	for _, c := range []struct {
		args, want string
		exit       int
	}{
		// Commands, before and beside what else may stand there.
		{"confg apply --wait x.json", `"confg" is no command of tandem; did you mean config?`, exitUsage},
		{"workload lst", "did you mean list?", exitUsage},
		{"node rebot", `node "rebot" has never been heard of; did you mean the command reboot?`, exitUsage},
		{"node rebot node-1 --reason x", `"rebot" is no command of tandem node; did you mean reboot?`, exitUsage},
		{"node aprove node-1", `"aprove" is no command of tandem node; did you mean approve?`, exitUsage},
		{"node node-1 reboot", "the command comes first; see tandem node reboot --help", exitUsage},
		{"health settigns", "did you mean the command settings?", exitUsage},
		{"health unst --all", `"unst" is no command of tandem health; did you mean unset?`, exitUsage},
		{"health node-1 --frob", "tandem health has no flag --frob", exitUsage},
		{"help confg", "did you mean config?", exitUsage},
		{"help node rebot", `"rebot" is no command of tandem node; did you mean reboot?`, exitUsage},
		{"completion bas", "did you mean bash?", exitUsage},
		{"completion bash x", "takes no argument", exitUsage},
		// Nodes, wherever one is named.
		{"node nodee-1", "did you mean node-1?", exitRefused},
		{"node NODE-2", "did you mean node-2?", exitRefused},
		{"node node-9", "did you mean one of node-1, node-2, node-3, node-4?", exitRefused},
		{"node nobody", "tandem nodes lists them", exitRefused},
		{"events --node nodee-1", "did you mean node-1?", exitRefused},
		{"health settings --node nodee-1", "did you mean node-1?", exitRefused},
		{"workload logs camera@nodee-1", "did you mean camera@node-1?", exitRefused},
		{"workload restart x@nodee-1", "did you mean node-1?", exitRefused},
		{"workload restart x@node-1", "tandem workload list shows them", exitRefused},
		// Versions.
		{"config show --version 2.0", "did you mean 2.0.0?", exitRefused},
		{"config show --version 8.8.8", "tandem config history lists them", exitRefused},
		{"config diff 1.9.0 2.0.1", "did you mean 2.0.0?", exitRefused},
		{"config rollback 2.00 --as 3.0.0", "did you mean 2.0.0?", exitRefused},
		{"workload show --version 8.8.8", "tandem workload history lists them", exitRefused},
		// What belongs elsewhere.
		{"events node-1", "a node is given as --node ID", exitUsage},
		{"config wait 2m", "a time to wait is written --within=2m", exitUsage},
		{"config apply x.json 2m", "a time to wait is written --wait=2m", exitUsage},
		{"config show 2.0.0", "a version is given as --version 2.0.0", exitUsage},
		{"identity revoke node-1", "tandem node revoke", exitUsage},
	} {
		stdout, stderr, exit := b.run("", strings.Fields(c.args)...)
		if exit != c.exit || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: status %d, %s%s; want %d, %s", c.args, exit, stdout, stderr, c.exit, c.want)
		}
	}
}

// TestBadRequest: a certificate request that the controller cannot read is one in a file.
func TestBadRequest(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	file := b.write("bad.pem", "no request")
	_, stderr, exit := b.run("", "identity", "certify", "cloud/x", "--csr", file)
	if want := "tandem: malformed: one PKCS #10 certificate request in PEM is expected " +
		"(" + file + ")\n"; exit != exitUsage ||
		stderr != want {
		t.Errorf("status %d, %q; want %q", exit, stderr, want)
	}
}

// TestNotYet: what may be said of somebody who is not there yet is said, with a word about it.
func TestNotYet(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	_, err := b.unit.SetHealth(as(apitest.Ann), op.SetHealth{Scope: view.Scope{Types: []string{"quite-another-type"}},
		Settings: &wire.HealthSettings{FormatVersion: wire.HealthFormat}})
	must(err)
	for args, want := range map[string]string{
		"health set --node nodee-1 --reset 7d":   "Node nodee-1 has never been heard of; did you mean node-1?",
		"health set --type manType --reset 7d":   "No node is of type manType; did you mean mainType?",
		"health unset --type quite-another-type": "No node is of type quite-another-type\n",
		"events --type acepted":                  "acepted is no type that is known here; did you mean accepted?",
		"events --type trial-started":            "nothing found\n",
	} {
		stdout, stderr, exit := b.run("", strings.Fields(args)...)
		if exit != 0 || !strings.Contains(stdout+stderr, want) {
			t.Errorf("%s: status %d, %s%s; want %s", args, exit, stdout, stderr, want)
		}
	}
	for args, want := range map[string]string{
		"nodes revoked":            "revoked was looked for in names; which nodes are so: tandem nodes state:revoked",
		"nodes --state instaled":   `there is no state "instaled"; did you mean installed?`,
		"nodes --state trying":     "",
		"nodes type:x revoked:yes": `there is no "revoked"`,
	} {
		stdout, stderr, _ := b.run("", strings.Fields(args)...)
		if !strings.Contains(stderr, want) || (want == "") != (stderr == "") {
			t.Errorf("%s: %s%s; want %s", args, stdout, stderr, want)
		}
	}
	if _, stderr, _ := b.run("", "events", "--type", "trial-started"); stderr != "" {
		t.Error(stderr)
	}
}

// TestNarrow: on a narrow terminal nothing of what is said about one thing is lost, and tables keep to it.
func TestNarrow(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	healthy(b.unit)
	wide, _, _ := b.run("", "health", "node-1")
	b.io.OutTerminal, b.io.Width = true, 60
	b.env["NO_COLOR"] = "1"
	narrow, _, _ := b.run("", "health", "node-1")
	golden(t, "health-narrow", narrow)
	settings := func(out string) string {
		_, rest, _ := strings.Cut(out, "Settings")
		text, _, _ := strings.Cut(rest, "\n\n")
		return strings.Join(strings.Fields(text), " ")
	}
	if settings(wide) == "" || settings(narrow) != settings(wide) {
		t.Errorf("%q, not %q", settings(narrow), settings(wide))
	}
	facts, _, _ := strings.Cut(narrow, "\n\n")
	for line := range strings.Lines(facts) {
		if n := len([]rune(line)); n > 61 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// What is read most keeps to a terminal of 80 columns, and nothing of it is lost there.
func TestEightyColumns(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	b.env["NO_COLOR"] = "1"
	wide := map[string]string{}
	commands := []string{"events", "why node node-2", "why node node-4"}
	for _, args := range commands {
		wide[args], _, _ = b.run("", strings.Fields(args)...)
	}
	b.io.OutTerminal, b.io.Width = true, 80
	for _, args := range commands {
		narrow, _, _ := b.run("", strings.Fields(args)...)
		golden(t, strings.ReplaceAll(args, " ", "-")+"-narrow", narrow)
		for line := range strings.Lines(narrow) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
				t.Errorf("%s: %d columns: %s", args, n, line)
			}
		}
		words := strings.Fields(narrow)
		slices.Sort(words)
		for _, word := range strings.Fields(wide[args]) {
			if _, there := slices.BinarySearch(words, word); !there && !strings.HasPrefix(word, "2026-11-20") {
				t.Errorf("%s: %q is lost: %s", args, word, narrow)
			}
		}
	}
}

// TestEventsInWords: every record is told in words, and its kind with it.
func TestEventsInWords(t *testing.T) {
	entries := []view.Entry{
		{Type: "opened", Data: []byte(`{"version":"1.4.0","epoch":7}`)},
		{Type: "accepted", Who: "token/ann", Kind: "config",
			Data: []byte(`{"id":"s","via":"cli","version":"2.1.0","hash":"sha256:00","mode":"try","within":"PT2M",` +
				`"checks":{"asked":3,"agreed":2,"silent":["node-3"],"unchecked":["node-4"]}}`)},
		{Type: "accepted", Who: "token/ann", Kind: "workloads",
			Data: []byte(`{"id":"s","via":"http","version":"1.0.3","mode":"apply","checks":{"asked":0,"agreed":0}}`)},
		{Type: "refused", Kind: "workloads",
			Data: []byte(`{"via":"mqtt","error":{"code":"malformed","message":"the document is empty","line":1,` +
				`"column":1},"checks":{"asked":0,"agreed":0}}`)},
		{Type: "issued", Kind: "config",
			Data: []byte(`{"epoch":7,"version":"2.1.0","mode":"try","whole":true,"reason":"accepted 2.1.0",` +
				`"docs":[{"hash":"a","nodes":["node-2"]},{"hash":"b","nodes":["node-1"]}]}`)},
		{Type: "issued", Kind: "health",
			Data: []byte(`{"epoch":7,"version":"9","mode":"apply","reason":"settings changed","docs":[{"hash":"a",` +
				`"nodes":["node-2"]}]}`)},
		{Type: "issued", Kind: "workloads",
			Data: []byte(`{"epoch":7,"version":"1.0.3","mode":"apply","reason":"accepted 1.0.3","docs":[]}`)},
		{Type: "withdrawn", Kind: "config", Data: []byte(`{"nodes":["node-1"]}`)},
		{Type: "confirm", Kind: "config", Data: []byte(`{"version":"2.1.0","rev":5}`)},
		{Type: "rolledback", Kind: "config", Data: []byte(`{"version":"2.1.0","rev":5}`)},
		{Type: "state", Kind: "config",
			Data: []byte(`{"state":"failed","error":{"code":"hash-mismatch","message":"it was altered"},` +
				`"reason":"readable copy"}`)},
		{Type: "report", Node: "node-1", Kind: "config",
			Data: []byte(`{"v":1,"node":"node-1","kind":"config","boot":"b","seq":2,"running":{"epoch":7,"rev":4,` +
				`"version":"2.0.0","hash":"h"},"last":{"epoch":7,"rev":5,"version":"2.1.0","hash":"h",` +
				`"state":"rejected","error":{"code":"not-allowed","message":"no"},"attempt":1,` +
				`"at":"2026-11-20T09:59:00Z"}}`)},
		{Type: "report", Node: "node-1", Kind: "config",
			Data: []byte(`{"v":1,"node":"node-1","kind":"config","boot":"b","seq":2,"running":{"epoch":7,"rev":5,` +
				`"version":"2.1.0","hash":"h"},"last":{"epoch":7,"rev":5,"version":"2.1.0","hash":"h",` +
				`"state":"installed","attempt":1,"at":"2026-11-20T09:59:00Z"}}`)},
		{Type: "report", Node: "node-1", Kind: "config",
			Data: []byte(`{"v":1,"node":"node-1","kind":"config","boot":"b","seq":1}`)},
		{Type: "report", Node: "node-1", Kind: "info",
			Data: []byte(`{"v":1,"node":"node-1","kind":"info","boot":"b","seq":1,"detail":{"type":"mainType",` +
				`"os":"linux","arch":"arm64","cpus":2,"ram":1,"agentVersion":"1.4.0"}}`)},
		{Type: "report", Node: "node-1", Kind: "health",
			Data: []byte(`{"v":1,"node":"node-1","kind":"health","boot":"b","seq":1,"detail":{"indicator":4,` +
				`"text":"in contact with the controller"}}`)},
		{Type: "report", Node: "node-1", Kind: "workloads",
			Data: []byte(`{"v":1,"node":"node-1","kind":"workloads","boot":"b","seq":1,` +
				`"detail":{"slots":[{"slot":"a","state":"running"},{"slot":"b","state":"failed"},{"slot":"c",` +
				`"state":"running"}],"more":2}}`)},
		{Type: "live", Node: "node-1", Data: []byte(`{"v":1,"node":"node-1","boot":"b","session":1,"up":true}`)},
		{Type: "trouble", Node: "node-1",
			Data: []byte(`{"topic":"tandem/1/u/node/1/live","error":{"code":"malformed","message":"no JSON"},` +
				`"skipped":3}`)},
		{Type: "enrol", Node: "node-1", Who: "token/ann",
			Data: []byte(`{"subject":"node/node-1","hash":"h","expires":"2026-11-20T12:00:00Z"}`)},
		{Type: "joined", Node: "node-1",
			Data: []byte(`{"subject":"node/node-1","serial":"1","key":"k","expires":"2027-02-20T12:00:00Z",` +
				`"ca":"c","from":"10.0.0.7"}`)},
		{Type: "revoked", Who: "token/ann",
			Data: []byte(`{"subject":"cloud/eu","reason":"contract ended","serials":["1"]}`)},
		{Type: "forgotten", Node: "node-3", Who: "token/ann", Data: []byte(`{"reason":"scrapped"}`)},
		{Type: "join-refused", Node: "node-1",
			Data: []byte(`{"subject":"node/node-1","from":"10.0.0.7","error":{"code":"expired",` +
				`"message":"the token has expired"},"count":4}`)},
		{Type: "keys", Who: "token/ann",
			Data: []byte(`{"did":"signing","key":"34750f98bd59fcfc","forced":true,"missing":["node-4"],"keys":{}}`)},
		{Type: "root", Who: "token/ann", Data: []byte(`{"number":1795168800,"by":"0101010101010101","lists":[]}`)},
		{Type: "unit-maintenance", Who: "token/ann"},
		{Type: "event", Node: "node-1", Kind: "key-pinned",
			Data: []byte(`{"type":"key-pinned","detail":{"keys":["k1","k2"],"rev":3}}`)},
		{Type: "event", Node: "node-1", Kind: "stale",
			Data: []byte(`{"type":"stale","error":{"code":"stale","message":"older"},"detail":{"kind":"config",` +
				`"version":"1.0.0","suppressed":2}}`)},
		{Type: "event", Node: "node-1", Kind: "workload-unhealthy",
			Data: []byte(`{"type":"workload-unhealthy","error":{"code":"apply-failed","message":"iss_hook_status: ` +
				`exit status 1: no answer"},"detail":{"slot":"web@node-1","id":"w1","exit":{"code":1},` +
				`"text":"it is started anew","suppressed":2}}`)},
		{Type: "event", Node: "node-1", Kind: "policy",
			Data: []byte(`{"type":"policy","error":{"code":"apply-failed","message":"three starts"},"detail":{` +
				`"name":"line-4","rev":7,"state":"rollback-successful","version":"1.1.0","suppressed":13}}`)},
		{Type: "event", Node: "node-1", Kind: "certificate-expired",
			Data: []byte(`{"type":"certificate-expired","detail":{"expires":"2026-11-19T12:00:00Z"}}`)},
		{Type: "event", Node: "node-1", Kind: "state-lost",
			Data: []byte(`{"type":"state-lost","error":{"code":"storage","message":"the state file was damaged"},` +
				`"detail":{"reason":"it is cut short","kept":"state.db.bad-20261120T095900Z","trust":"marks"}}`)},
	}
	for i := range entries {
		entries[i].Seq, entries[i].At = uint64(1+i), apitest.Now
	}
	b := tells(entries).bench(t)
	stdout, _, _ := b.run("", "events")
	golden(t, "events-words", stdout)
	for line := range strings.Lines(stdout) {
		if strings.ContainsAny(line, "{}") {
			t.Errorf("not in words: %s", line)
		}
	}
}

// TestAway: of a node that is away is said what it was, not what it is.
func TestAway(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	healthy(b.unit)
	b.unit.Connect("node-1", false)
	stdout, _, _ := b.run("", "health", "node-1")
	for _, want := range []string{"Indicator  was 4, in contact", "Contact    was yes; newest attempt"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
}
