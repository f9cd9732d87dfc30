package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/apitoken"
	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/tokens"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/race"
	"tandem.internal/shared/wire"
)

// unpacked are the files of a bundle, without the name of its directory.
func unpacked(t *testing.T, bundle []byte) (files map[string]string, dir string) {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(bundle))
	if err != nil {
		t.Fatal(err)
	}
	files = map[string]string{}
	for archive := tar.NewReader(zip); ; {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files, dir
		}
		text, readErr := io.ReadAll(archive)
		if err = errors.Join(err, readErr); err != nil {
			t.Fatal(err)
		}
		var name string
		dir, name, _ = strings.Cut(head.Name, "/")
		if files[name] != "" || head.Mode != 0o600 {
			t.Errorf("%s: %o", head.Name, head.Mode)
		}
		files[name] = string(text)
	}
}

// manifestOf reads what a bundle says of itself: its files, and what is not there.
func manifestOf(t *testing.T, files map[string]string) (names []string, left map[string]string) {
	t.Helper()
	var m struct {
		Files []struct {
			Name  string
			Bytes int
		}
		Left []struct{ What, Why string }
	}
	if err := json.Unmarshal([]byte(files["MANIFEST.json"]), &m, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	left = map[string]string{}
	for _, f := range m.Files {
		names = append(names, f.Name)
		if len(files[f.Name]) != f.Bytes {
			t.Errorf("%s has %d bytes, and not %d", f.Name, len(files[f.Name]), f.Bytes)
		}
	}
	for _, l := range m.Left {
		left[l.What] = l.Why
	}
	return names, left
}

// secrets are all that must not be in a bundle. Where they are put is below.
var secrets = []string{"hunter2", "S3cr3t", "brokerPW", "hooks.example.org", "former.example", "T000/B000", "10.9.8.7",
	"MC4CAQAwBQYDK2Vw", "AGE-SECRET-KEY-1QQ", "whsec_", "tdo1.", "tdm1.", "RWRTY0IyKEY", "eyJhbGciOi",
	"document-pw", "quoted",
	"some-detail"}

// chatty are lines of an agent's log with secrets in them as they could come there: in errors and addresses, in values
// beside names, in what strangers said, in details of events and in lines that were cut.
var chatty = []string{
	`{"level":"info","time":"2026-11-20T09:59:58Z","msg":"node agent started","unit":"u1","node":"node-1","rev":7}`,
	`{"level":"warn","msg":"a resource was not fetched","url":"https://u:hunter2@files/x?sig=hunter2",` +
		`"error":"GET https://files.example/S3cr3t: 403"}`,
	`{"level":"warn","msg":"event","type":"something-new","detail":"{\"about\":\"some-detail\"}"}`,
	`{"level":"warn","msg":"the indicator command failed",` +
		`"error":"exit status 1: {\"password\":\"S3cr3t \\\"quoted\\\"\"}"}`,
	`{"level":"error","msg":"x","brokerPassword":"brokerPW","Token":["hunter2"],"api-key":{"is":"S3cr3t"}}`,
	`{"level":"error","msg":"key -----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2Vw\n-----END PRIVATE KEY-----\n",` +
		`"error":"AGE-SECRET-KEY-1QQ, RWRTY0IyKEYaaaa, whsec_aaaa, tdm1.AAAA, tdo1.AAAA"}`,
	`{"level":"error","msg":"panic","panic":"Authorization: Bearer eyJhbGciOi.e30.abc",` +
		`"stack":"main.go:1\n\u0009x token=hunter2"}`,
	`{"level":"warn","msg":"pager","error":"dial tcp 10.9.8.7:443 of hooks.example.org, also \u0068ooks.example.org"}`,
	`{"level":"error","msg":"cut","error":"\u0070assword: S3cr3t, \u0068unter2…`,
	`brokerPW alone is no JSON`,
}

// careless is a unit that tells secrets wherever it can.
func careless(t *testing.T) *bench {
	u := apitest.StartSample(t)
	st, err := u.Status(t.Context())
	must(err)
	st.Broker.Error = "dialling mqtts://controller:brokerPW@broker:8883: refused"
	st.Trouble = []string{"cannot read -----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2Vw\n-----END PRIVATE KEY-----\n",
		"pager does not answer: dial tcp 10.9.8.7:443: refused", "AGE-SECRET-KEY-1QQ is no recipient",
		"RWRTY0IyKEYaaaa", `the broker says: {"password":"S3cr3t \"quoted\""}`,
		"started with --broker-password S3cr3t", "Authorization: Basic aHVudGVyMmh1bnRlcjI=hunter2"}
	u.Report("node-2", wire.KindConfig, wire.StateRejected, wire.New(wire.CodeApplyFailed, "",
		"curl https://u:hunter2@files/x?sig=hunter2: token=hunter2, API_KEY: 'hunter2'"), nil)
	u.Event("node-1", 1, "something-new", `{"password":"hunter2","about":"some-detail"}`)
	u.Submit(view.Submission{Document: bytes.Replace(apitest.Document("2.1.0"), []byte("mainNode"),
		[]byte("document-pw"), 1), Who: apitest.Alice, Via: "cli"})
	for name, address := range map[string]string{"pager": "https://hooks.example.org/T000/B000/S3cr3t",
		"old": "https://former.example.org/"} {
		_, err = u.Notices.Add(as(apitest.Alice), op.NewNotice{Name: name, URL: address})
		must(err)
	}
	_, err = u.Notices.Remove(as(apitest.Alice), op.NoticeIn{Receiver: "old"})
	must(err)
	list, err := u.Notices.List(t.Context())
	must(err)
	list.Receivers = append(list.Receivers, view.NoticeReceiver{Name: "relay", URL: "https://10.9.8.7",
		Error: "dial tcp 10.9.8.7:443: refused, whsec_aaaa, HOOKS.example.org"})
	return benchOf(t, u, apitest.Instead(u, apitest.Fixed(op.UnitStatus, st),
		api.Ask(op.ListNotices, fixed(list)),
		api.Ask(op.UnitSettings, fixed(op.Settings{Settings: []view.Setting{
			{Name: "passwords", Value: `{"cloud": "S3cr3t"}`}, {Name: "broker", Value: `"mqtts://c:brokerPW@broker"`},
			{Name: "on-apply", Value: `"curl -H 'Authorization: Bearer eyJhbGciOi.e30.abc'"`}}})),
		api.Bind(op.NodeLog, func(_ context.Context, in op.NodeLogIn) (l view.NodeLog, err error) {
			l.Node, l.Lines = in.Node, chatty
			return l, nil
		}),
		api.Ask(op.VerifyJournal, fixed(op.Verification{OK: true,
			Report: "28 records; " + apitoken.New().Text() + " tdm1.AAAA"})),
	))
}

// TestDiagHasNoSecret: whatever the controller tells, by whichever door, no byte of a secret is in the bundle; what is
// no secret stays.
func TestDiagHasNoSecret(t *testing.T) {
	b := careless(t)
	b.env["TANDEM_TOKEN"] = b.tokens[tokens.Admin]
	for _, door := range [][]string{{"--socket", b.socket}, {"--url", b.tcp}} {
		out, errs, exit := b.run("", append([]string{"diag", "-o", "-", "--logs", "node-1"}, door...)...)
		if exit != 0 || errs != "" {
			t.Fatalf("%d %s", exit, errs)
		}
		files, dir := unpacked(t, []byte(out))
		if dir != "tandem-diag-u1-20261120T100000Z" {
			t.Error(dir)
		}
		for name, text := range files {
			for _, secret := range secrets {
				if strings.Contains(strings.ToLower(text), strings.ToLower(secret)) {
					t.Errorf("%s has %s:\n%s", name, secret, text)
				}
			}
		}
		names, left := manifestOf(t, files)
		want := []string{"status.json", "versions.json", "settings.json", "journal.json", "notices.json", "fleet.json",
			"alerts.json", "keys.json", "cas.json", "events.json"}
		if door[0] == "--socket" {
			want = append(want, "stacks.txt", "logs/node-1.jsonl")
		} else if why := left["stacks of the controller's goroutines"]; !strings.Contains(why, "only the unix socket") {
			t.Error(left)
		} else {
			want = append(want, "logs/node-1.jsonl")
		}
		lines := strings.Split(files["logs/node-1.jsonl"], "\n")
		if len(lines) != len(chatty)+1 || lines[0] != chatty[0] {
			t.Error(files["logs/node-1.jsonl"])
		}
		if !slices.Equal(names, want) || len(files) != len(want)+1 {
			t.Errorf("%v, %v", names, slices.Sorted(maps.Keys(files)))
		}
		for name, text := range map[string]string{"status.json": "mqtts://***@broker:8883",
			"journal.json": "28 records", "events.json": "https://***@files/***", "settings.json": "broker",
			"notices.json":  "pager",
			"versions.json": `"1.0.0": 4`, "stacks.txt": "goroutine"} {
			if _, there := files[name]; there && !strings.Contains(files[name], text) {
				t.Errorf("%s lacks %s:\n%s", name, text, files[name])
			}
		}
	}
}

// TestDiagSaysWhatIsMissing: of what a role may not see the manifest says so; without a controller there is no bundle.
func TestDiagSaysWhatIsMissing(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	b.env = map[string]string{"TANDEM_TOKEN": b.tokens[tokens.View]}
	out, errs, exit := b.run("", "diag", "-o", "-", "--url", b.tcp, "--events", "0")
	if exit != 0 || errs != "" {
		t.Fatalf("%d %s", exit, errs)
	}
	files, _ := unpacked(t, []byte(out))
	_, left := manifestOf(t, files)
	for what, why := range map[string]string{
		"settings of the controller, without those that are secret": "role operate",
		"the newest events, without their data":                     "--events is 0",
	} {
		if !strings.Contains(left[what], why) {
			t.Errorf("%s: %q", what, left)
		}
	}
	if _, there := files["settings.json"]; there {
		t.Error("there are settings")
	}
	file := filepath.Join(b.dir, "none.tar.gz")
	if _, _, exit := b.run("", "diag", "-o", file, "--socket", b.dir+"/none"); exit != exitUnreachable {
		t.Error(exit)
	}
	if _, err := os.Lstat(file); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestDiagLogs: of agents that do not answer, and of nodes beyond the most, the bundle and the screen say so; what
// cannot be meant is refused before the controller is asked.
func TestDiagLogs(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	out, errs, exit := b.run("", "diag", "-o", "-", "--logs", "node-4,node-1,node-2", "--logs-where", "name:node-1")
	if exit != 0 || strings.Count(errs, "left out: the log of the agent of") != 2 {
		t.Fatalf("%d %s", exit, errs)
	}
	files, _ := unpacked(t, []byte(out))
	_, left := manifestOf(t, files)
	text := files["logs/node-1.jsonl"]
	if strings.Count(text, "\n") != 3 || !strings.Contains(text, "certificate not") ||
		strings.ContainsAny(text, "\x1b\a") {
		t.Errorf("%q", text)
	}
	for node, why := range map[string]string{"node-2": "older than that", "node-4": "offline"} {
		got := left["the log of the agent of "+node]
		if _, there := files["logs/"+node+".jsonl"]; there || !strings.Contains(got, why) {
			t.Errorf("%s: %q", node, got)
		}
	}
	if why := left["logs of agents"]; why != "" {
		t.Error(why)
	}
	file := filepath.Join(b.dir, "logs.tar.gz")
	screen := b.transcript("", "diag", "-o", file, "--logs", "node-2,node-4")
	golden(t, "diag-logs", kib.ReplaceAllString(screen, "SIZE")+
		b.transcript("", "diag", "--logs", "no/de")+b.transcript("", "diag", "--logs-where", "state:")+
		b.transcript("", "diag", "--logs", strings.Repeat("n,", 20)+"n"))
	out, errs, exit = b.run("", "diag", "-o", "-", "--logs-where", "name:none-such")
	if exit != 0 || !strings.Contains(errs, "it selects no node") || len(out) == 0 {
		t.Errorf("%d %s", exit, errs)
	}
}

// TestDiagAsksSomeAgents: a filter that selects a whole unit makes no bundle without an end.
func TestDiagAsksSomeAgents(t *testing.T) {
	if race.Enabled { // it would search megabytes with it
		t.Skip("without the race detector")
	}
	u := apitest.StartSample(t)
	var asked atomic.Int64
	b := benchOf(t, u, apitest.Instead(u,
		api.Bind(op.ListNodes, func(context.Context, op.NodesIn) (v op.Nodes, err error) {
			for n := range 50 {
				v.Nodes = append(v.Nodes, view.Node{Node: fmt.Sprintf("n%02d", n)})
			}
			return v, nil
		}),
		api.Bind(op.NodeLog, func(_ context.Context, in op.NodeLogIn) (l view.NodeLog, err error) {
			asked.Add(1)
			l.Node, l.More, l.Cursor = in.Node, true, "x"
			l.Lines = []string{`{"msg":"` + strings.Repeat("x", 4<<10) + `"}`}
			return l, nil
		})))
	out, errs, exit := b.run("", "diag", "-o", "-", "--logs-where", "type:mainType")
	if exit != 0 || !strings.Contains(errs, "30 more nodes") || !strings.Contains(errs, "more than 128 KiB") {
		t.Fatalf("%d %s", exit, errs)
	}
	files, _ := unpacked(t, []byte(out))
	n := len(files["logs/n19.jsonl"])
	if n > 128<<10 || n < 120<<10 || files["logs/n20.jsonl"] != "" || asked.Load() > 20*33 {
		t.Error(n, asked.Load())
	}
}

// TestDiagLogsWithoutAnEnd: an agent that says without an end that there is more is asked so often, and what it has
// sent is there; a node that was named twice is asked once, and one whose name is no file's has none.
func TestDiagLogsWithoutAnEnd(t *testing.T) {
	u := apitest.StartSample(t)
	var asked atomic.Int64
	b := benchOf(t, u, apitest.Instead(u,
		api.Bind(op.ListNodes, func(context.Context, op.NodesIn) (op.Nodes, error) {
			return op.Nodes{Nodes: []view.Node{{Node: "n1"}, {Node: "../n2"}}}, nil
		}),
		api.Bind(op.NodeLog, func(_ context.Context, in op.NodeLogIn) (l view.NodeLog, err error) {
			if in.Node != "n1" {
				l.Node, l.Lines = in.Node, []string{"{}"}
				return l, nil
			}
			n := asked.Add(1)
			if want := fmt.Sprint(n - 1); n > 1 && in.Cursor != want {
				t.Errorf("request %d is for what comes after %q", n, in.Cursor)
			}
			l.Node, l.More, l.Cursor, l.Lines = in.Node, true, fmt.Sprint(n), []string{`{"msg":"x"}`}
			return l, nil
		})))
	out, errs, exit := b.run("", "diag", "-o", "-", "--logs", "n1", "--logs-where", "type:mainType")
	files, _ := unpacked(t, []byte(out))
	if exit != 0 || asked.Load() != 64 || strings.Count(files["logs/n1.jsonl"], "\n") != 64 ||
		!strings.Contains(errs, "it logs faster than it is read") {
		t.Errorf("%d, asked %d times\n%s", exit, asked.Load(), errs)
	}
	for name := range files {
		if strings.Contains(name, "..") {
			t.Errorf("there is %s", name)
		}
	}
}

var kib = regexp.MustCompile(`[0-9.]+ KiB`) // the stacks are others each time

// TestDiagFile: the file is its owner's alone, and replaces another only if that is asked for, which is said before the
// controller is asked.
func TestDiagFile(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	file := filepath.Join(b.dir, "out.tar.gz")
	golden(t, "diag", kib.ReplaceAllString(b.transcript("", "diag", "-o", file, "--events", "3"), "SIZE"))
	first, err := os.ReadFile(file)
	must(err)
	if info, err := os.Stat(file); err != nil || command.FileModes && info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	golden(t, "diag-exists", b.transcript("", "diag", "-o", file)+
		b.transcript("", "diag", "-o", file, "--json", "--socket", b.dir+"/none")+
		b.transcript("", "diag", "-o", b.dir)+b.transcript("", "diag", "--events", "-1"))
	if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, first) {
		t.Error("the file was replaced", err)
	}
	b.runs("diag", "-o", file, "--force", "--events", "3")
	now, err := os.ReadFile(file)
	must(err)
	files, _ := unpacked(t, now)
	if names, _ := manifestOf(t, files); len(names) != 11 {
		t.Error(names)
	}
	b.io.OutTerminal = true
	golden(t, "diag-terminal", b.transcript("", "diag", "-o", "-"))
	t.Chdir(b.dir)
	b.runs("diag")
	if _, err := os.Stat("tandem-diag-u1-20261120T100000Z.tar.gz"); err != nil {
		t.Error(err)
	}
}

// fixed always answers the same.
func fixed[T any](v T) func(context.Context) (T, error) {
	return func(context.Context) (T, error) { return v, nil }
}
