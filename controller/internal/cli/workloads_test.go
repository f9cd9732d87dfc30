package cli

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// sample copies a file of deploy/samples/workloads into the bench's directory.
func (b *bench) sample(name string) string {
	b.t.Helper()
	data, err := os.ReadFile(samples + name)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.write(name, string(data))
}

func tooOld(s *apitest.State) {
	s.Refuse = map[string]*wire.Error{"node-2": wire.New(wire.CodeNotSupported, "",
		"the agent there, version 1.0.0, does not run workloads; update it, or take its slots out")}
}

// set is a set with these services on node-1, whose hooks are of this version.
func set(version string, services ...string) string {
	var all []string
	for _, s := range services {
		all = append(all, `{"@class":"Instance","slot":"`+s+`@node-1","configurationId":"`+s+"-"+version+
			`","properties":{"a/b":"`+version+`"},"resources":{"iss_hook_start":{"@class":"Resource","uuid":"`+version+
			`","urls":["http://127.0.0.1/`+s+`"],"size":1,"verification":{}}}}`)
	}
	return "[" + strings.Join(all, ",") + "]"
}

// ran gives a unit a set that was accepted.
func ran(s *apitest.State) {
	apitest.Working(s)
	s.Workloads.Document = []byte(set("one", "web"))
}

// ranLenient is ran with a set that can be read leniently only.
func ranLenient(s *apitest.State) {
	apitest.Working(s)
	s.Workloads.Document = []byte(sloppy)
}

// TestWorkloads runs the commands about workloads as a person does, for people and as JSON.
func TestWorkloads(t *testing.T) {
	for _, c := range []struct {
		name  string
		args  string
		state change
	}{
		{"workload-check", "check TOPOLOGY FILLERS", apitest.Working},
		{"workload-check-offline", "check --offline TOPOLOGY FILLERS", nil},
		{"workload-check-refused", "check TOPOLOGY FILLERS", tooOld},
		{"workload-apply", "apply TOPOLOGY FILLERS", nil},
		{"workload-apply-stops", "apply --version 2.0.0 TOPOLOGY FILLERS", apitest.Working},
		{"workload-apply-dry", "apply --dry-run TOPOLOGY FILLERS --wait", apitest.Working},
		{"workload-apply-low", "apply --version 1.0.1 TOPOLOGY FILLERS", apitest.Working},
		{"workload-apply-version", "apply --version two TOPOLOGY FILLERS", apitest.Working},
		{"workload-apply-skip-nodes", "apply --skip-nodes TOPOLOGY FILLERS", tooOld},
		{"workload-apply-refused", "apply TOPOLOGY FILLERS", tooOld},
		{"workload-apply-sloppy", "apply SLOPPY", nil},
		{"workload-apply-lenient", "apply --lenient SLOPPY TOPOLOGY FILLERS", nil},
		{"workload-apply-nothing", "apply EMPTY", apitest.Working},
		{"workload-apply-no-file", "apply", nil},
		{"workload-list", "list", apitest.Working},
		{"workload-list-node", "list --node node-2", apitest.Working},
		{"workload-list-node-none", "list --node node-3", apitest.Working},
		{"workload-list-misspelt", "list --node node2", apitest.Working},
		{"workload-list-none", "list", nil},
		{"workload-show", "show", apitest.Working},
		{"workload-show-filled", "show --filled", apitest.Working},
		{"workload-show-version", "show --version 9.9.9", apitest.Working},
		{"workload-show-none", "show", nil},
		{"workload-history", "history", apitest.Working},
		{"workload-status", "status", apitest.Working},
		{"workload-status-none", "status", nil},
		{"workload-diff", "diff OLD NEW", nil},
		{"workload-diff-removed", "diff NEW OLD", nil},
		{"workload-diff-lenient", "diff 1.0.1 NEW", ranLenient},
		{"workload-rollback-lenient", "rollback 1.0.1 --as 1.0.2", ranLenient},
		{"workload-diff-version", "diff 1.0.1 NEW", ran},
		{"workload-diff-same", "diff NEW NEW", nil},
		{"workload-diff-unknown", "diff 9.9.9 NEW", ran},
		{"workload-diff-nothing", "diff 1.0 NEW", nil},
		{"workload-rollback", "rollback 1.0.1 --as 1.0.2", ran},
		{"workload-rollback-low", "rollback 1.0.1 --as 1.0.0", ran},
		{"workload-rollback-unknown", "rollback 1.0.9 --as 1.0.2", ran},
		{"workload-rollback-no-as", "rollback 1.0.0", nil},
		{"workload-wait-newest", "wait", func(s *apitest.State) {
			apitest.Working(s)
			s.Workloads.Status.Slots = &view.SlotProgress{Slots: 2, Completed: 2}
		}},
		{"workload-wait-none", "wait", nil},
		{"workload-wait-nothing", "wait", func(s *apitest.State) {
			s.Workloads.Status = view.SourceStatus{Version: "1.0.0", Rev: 1}
		}},
		{"workload-restart", "restart web@node-1", apitest.Working},
		{"workload-restart-misspelt", "restart wob@node-1", apitest.Working},
		{"workload-restart-offline", "restart web@node-4", apitest.Working},
		{"workload-restart-malformed", "restart web", apitest.Working},
		{"workload-restart-no-answer", "restart web@node-1", func(s *apitest.State) {
			apitest.Working(s)
			s.Fail = map[string]error{"Order": &wire.Error{Code: wire.CodeNoAnswer,
				Message: "the node has not answered in time", Node: "node-1"}}
		}},
		{"workload-logs", "logs web@node-1", apitest.Working},
		{"workload-logs-tail", "logs web@node-1 --tail 1", apitest.Working},
		{"workload-logs-tail-0", "logs web@node-1 --tail 0", apitest.Working},
		{"workload-logs-none", "logs wob@node-1", apitest.Working},
	} {
		for _, suffix := range []string{"", "-json"} {
			t.Run(c.name+suffix, func(t *testing.T) {
				s := apitest.Sample()
				if c.state != nil {
					c.state(&s)
				}
				b := newBench(t, s)
				files := strings.NewReplacer("TOPOLOGY", b.sample("topology.json"), "FILLERS", b.sample("fillers.json"),
					"SLOPPY", b.write("sloppy.json", strings.ReplaceAll(sloppy, "web@", "extra@")), "EMPTY",
					b.write("empty.json", "[]\n"),
					"OLD", b.write("old.json", set("one", "web")), "NEW", b.write("new.json", set("two", "web", "map")))
				args := append([]string{"workload"}, strings.Fields(files.Replace(c.args))...)
				if suffix != "" {
					args = append(args, "--json")
				}
				golden(t, c.name+suffix, b.transcript("", args...))
			})
		}
	}
	s := apitest.Sample()
	apitest.Working(&s)
	golden(t, "node-slots", newBench(t, s).transcript("", "node", "node-2"))
}

// What is submitted is what the files say: one file to the byte, of several every entry.
func TestWorkloadsAreSubmittedAsGiven(t *testing.T) {
	b := newBench(t, apitest.Sample())
	topology, fillers := b.sample("topology.json"), b.sample("fillers.json")
	all, _, exit := b.run("", "workload", "fill", topology, fillers, "--json")
	one := b.write("all.json", all)
	lenient := b.write("sloppy.json", strings.ReplaceAll(sloppy, "web@", "extra@"))
	for _, args := range [][]string{{one}, {topology, fillers, "--version", "3.0.0"},
		{lenient, one, "--lenient", "--version", "4.0.0"}} {
		if _, stderr, exit := b.run("", append([]string{"workload", "apply"}, args...)...); exit != 0 {
			t.Fatalf("%v: %d %s", args, exit, stderr)
		}
	}
	var subs []view.Submission
	b.unit.Do(func(s *apitest.State) { subs = s.Submissions })
	if len(subs) != 3 || exit != 0 {
		t.Fatalf("%d submissions", len(subs))
	}
	if s := subs[0]; string(s.Document) != all || s.Version != "" || s.Lenient || s.Kind != wire.KindWorkloads {
		t.Errorf("%+v", s)
	}
	set, ps := workload.Parse(subs[1].Document)
	if ps != nil || len(set.Topologies) != 3 || len(set.Fillers) == 0 || subs[1].Version != "3.0.0" {
		t.Errorf("%v %+v", ps, set)
	}
	if _, ps := workload.Parse(subs[2].Document); ps == nil {
		t.Error("what was mended only in its commas can be read strictly: the example is none")
	}
	if set, _, ps := workload.ParseLenient(subs[2].Document); ps != nil || len(set.Configs) != 4 || !subs[2].Lenient {
		t.Errorf("%v %+v", ps, set)
	}
}

// TestWorkloadWait: --wait returns when slots run, and says which do not and why.
func TestWorkloadWait(t *testing.T) {
	done := func(s *apitest.State) {
		w := &s.Workloads.Status
		w.Progress.OnlineMissing, w.Progress.Missing, w.Progress.Installed = 0, nil, w.Progress.Nodes
		w.Slots = &view.SlotProgress{Slots: 3, Running: 2, Completed: 1}
	}
	failed := func(s *apitest.State) {
		done(s)
		w := &s.Workloads.Status
		w.Slots = &view.SlotProgress{Slots: 3, Running: 2, Failed: 1,
			Missing: []view.Slot{{Slot: "camera@node-2", Node: "node-2", Online: true, Desired: "c", State: "failed",
				Why: "hash-mismatch: not what its checksum says"}}}
	}
	refused := func(s *apitest.State) {
		done(s)
		w := &s.Workloads.Status
		w.Progress.Failed, w.Progress.Installed = 1, w.Progress.Nodes-1
		w.Progress.Missing = []view.Laggard{{Node: "node-2", Online: true, State: wire.StateRejected,
			Error: wire.New(wire.CodeNotSupported, "", "memory.limit_in_bytes cannot be enforced here")}}
	}
	replaced := func(s *apitest.State) { s.Workloads.Status.Version, s.Workloads.Status.Rev = "9.0.0", 99 }
	for _, c := range []struct {
		name string
		then func(*apitest.State)
		wait string
	}{
		{"workload-wait", done, "30s"}, {"workload-wait-failed", failed, "30s"},
		{"workload-wait-refused", refused, "30s"}, {"workload-wait-replaced", replaced, "30s"},
	} {
		for _, suffix := range []string{"", "-json"} {
			t.Run(c.name+suffix, func(t *testing.T) {
				t.Parallel()
				b := newBench(t, apitest.Sample())
				args := []string{"workload", "apply", b.sample("topology.json"), b.sample("fillers.json"),
					"--wait=" + c.wait}
				if suffix != "" {
					args = append(args, "--json")
				}
				// What comes after the acceptance comes at once, so that what is printed on the way is always the same.
				b.unit.Do(func(s *apitest.State) { s.Workloads.Then = c.then })
				golden(t, c.name+suffix, b.transcript("", args...))
			})
		}
	}
}

// until ends a run when it has printed something.
type until struct {
	strings.Builder
	what string
	end  context.CancelFunc
}

func (u *until) Write(b []byte) (int, error) {
	n, err := u.Builder.Write(b)
	if strings.Contains(u.String(), u.what) {
		u.end()
	}
	return n, err
}

// Whoever does not wait to the end is told what was still missing.
func TestWorkloadWaitInterrupted(t *testing.T) {
	t.Parallel()
	s := apitest.Sample()
	s.Workloads.Then = func(s *apitest.State) {
		w := &s.Workloads.Status
		w.Progress = view.Progress{Nodes: 2, Online: 2, Installed: 2}
		w.Slots = &view.SlotProgress{Slots: 3, Running: 2, OnlineMissing: 1,
			Missing: []view.Slot{{Slot: "camera@node-2", Node: "node-2", Online: true, Desired: "c",
				State: "restarting", Why: "exit status 3"}}}
	}
	b := newBench(t, s)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var out strings.Builder
	errs := &until{what: "camera@node-2 (restarting)", end: cancel}
	io := b.io
	io.In, io.Out, io.Err = strings.NewReader(""), &out, errs
	io.Env = func(k string) (string, bool) { v, ok := b.env[k]; return v, ok }
	exit := Run(ctx, []string{"workload", "apply", b.sample("topology.json"), b.sample("fillers.json"), "--wait=10m"},
		io)
	const want = "tandem: timeout: accepted, but only 2 of 3 slots ran what they should when the waiting was " +
		"interrupted:\n  camera@node-2: restarting, exit status 3\n"
	if exit != exitIncomplete || !strings.HasSuffix(errs.String(), want) {
		t.Errorf("%d %s\n%s", exit, out.String(), errs.String())
	}
}

// TestWorkloadLogsFollow: -f prints what comes, goes on when a node is slow, and ends when asked to. What
// is printed cannot move a terminal's cursor.
func TestWorkloadLogsFollow(t *testing.T) {
	t.Parallel()
	s := apitest.Sample()
	apitest.Working(&s)
	s.Workloads.Grows = []string{"one\n\xe2\x82", "\xac two\x1b[2J\n"}
	b := newBench(t, s)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var errs strings.Builder
	out := &until{what: "two", end: cancel}
	io := b.io
	io.In, io.Out, io.Err, io.OutTerminal = strings.NewReader(""), out, &errs, true
	io.Env = func(k string) (string, bool) { v, ok := b.env[k]; return v, ok }
	exit := Run(ctx, []string{"workload", "logs", "web@node-1", "-f", "--tail", "1"}, io)
	if want := "listening on 8080\none\n€ two\ufffd[2J\n"; exit != 0 || errs.String() != "" || out.String() != want {
		t.Errorf("%d %q %q", exit, out.String(), errs.String())
	}
}
