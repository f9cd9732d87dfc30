package cli

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/op"
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

var tooOld = played(func(u *apitest.Rig) {
	u.Refuse("node-2", wire.New(wire.CodeNotSupported, "", "this agent does not know documents of this kind"))
})

var working = played((*apitest.Rig).Working)

// ended is working, where processes have ended before: that of web too, and of a slot whose name begins alike.
var ended = played((*apitest.Rig).Working, func(u *apitest.Rig) {
	for i, slot := range []string{"camera", "web", "web2", "camera"} {
		u.Event("node-1", uint64(1+i), "workload-exit", `{"slot":"`+slot+`@node-1","id":"`+slot+
			`-2","exit":{"code":3,"at":"2026-11-20T09:59:00Z"}}`)
	}
	_, err := u.RestartSlot(context.Background(), op.SlotIn{Node: "node-1", Service: "web"})
	if err != nil {
		panic(err)
	}
})

// halted is working, with web@node-1 stopped.
var halted = played((*apitest.Rig).Working, func(u *apitest.Rig) {
	if _, err := u.StopSlot(context.Background(), op.SlotIn{Node: "node-1", Service: "web"}); err != nil {
		panic(err)
	}
	u.Work("node-1", wire.WorkloadSlot{Slot: "web@node-1", ID: "web-2", State: wire.WorkloadStopped, Since: u.Now()})
})

// hooked has web@node-1 validate its configuration in vain.
func hooked(u *apitest.Rig) {
	u.Work("node-1", wire.WorkloadSlot{Slot: "web@node-1", ID: "web-1", Wanted: "web-2", State: wire.WorkloadRunning,
		Since: u.Now(), Doing: "iss_hook_validate",
		Error: wire.New(wire.CodeApplyFailed, "/resources/iss_hook_validate", "iss_hook_validate: exit status 1")})
}

// gone is working, but node-2 has just gone offline.
var gone = played((*apitest.Rig).Working, func(u *apitest.Rig) { u.Connect("node-2", false) })

// lacking is a sample in which node-2 reported that it lacks something, and is offline.
func lacking(attribute string) change {
	return played(func(u *apitest.Rig) {
		info := wire.NodeInfo{Type: "secondaryType", OS: "linux", Arch: "arm64", AgentVersion: "1.0.0",
			Attributes: map[string]string{attribute: wire.AttributeNone}}
		u.Say("node-2", wire.KindInfo, wire.Reported{Detail: wire.Encode(&info)})
		u.Connect("node-2", false)
	})
}

// placed applies a set of workloads.
func placed(version, document string, lenient bool) func(*apitest.Rig) {
	return func(u *apitest.Rig) {
		u.Submit(view.Submission{Kind: wire.KindWorkloads, Version: version, Document: []byte(document),
			Who: apitest.Alice, Via: "cli", Lenient: lenient})
	}
}

// run has the nodes of the set report their slots: they run, but for what change changes. A node that refuses its
// document has them all the same.
func run(u *apitest.Rig, change func(*wire.WorkloadSlot), refusing ...string) {
	all, err := u.Slots(context.Background(), op.SlotsIn{})
	must(err)
	byNode := map[string][]wire.WorkloadSlot{}
	for _, s := range all.Slots {
		r := wire.WorkloadSlot{Slot: s.Slot, ID: s.Desired, State: wire.WorkloadRunning, Since: u.Now()}
		change(&r)
		byNode[s.Node] = append(byNode[s.Node], r)
	}
	for _, node := range slices.Sorted(maps.Keys(byNode)) {
		if slices.Contains(refusing, node) {
			u.Report(node, wire.KindWorkloads, wire.StateRejected, wire.New(wire.CodeNotSupported, "",
				"memory.limit_in_bytes cannot be enforced here"), wire.Encode(&wire.Workloads{Slots: byNode[node]}))
		} else {
			u.Work(node, byNode[node]...)
		}
	}
}

// applied is a sample where something happens right after a set was accepted.
func applied(t *testing.T, then func(*apitest.Rig)) *bench {
	u := apitest.StartSample(t)
	submit := func(ctx context.Context, s view.Submission) (view.Result, error) {
		res, err := u.Core.Submit(ctx, s)
		then(u)
		return res, err
	}
	return benchOf(t, u, apitest.Submitting(u, submit))
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
var ran = played(placed("1.0.0", string(apitest.SetOf("old@node-2")), false), placed("1.0.1", set("one", "web"), false))

// ranLenient is ran with a set that can be read leniently only.
var ranLenient = played(placed("1.0.1", sloppy, true))

// TestWorkloads runs the commands about workloads as a person does, for people and as JSON.
func TestWorkloads(t *testing.T) {
	for _, c := range []struct {
		name  string
		args  string
		state change
	}{
		{"workload-check", "check TOPOLOGY FILLERS", working},
		{"workload-check-offline", "check --offline TOPOLOGY FILLERS", nil},
		{"workload-check-refused", "check TOPOLOGY FILLERS", tooOld},
		{"workload-apply", "apply TOPOLOGY FILLERS", nil},
		{"workload-apply-stops", "apply --version 2.0.0 TOPOLOGY FILLERS", working},
		{"workload-apply-dry", "apply --dry-run TOPOLOGY FILLERS --wait", working},
		{"workload-apply-low", "apply --version 1.0.1 TOPOLOGY FILLERS", working},
		{"workload-apply-version", "apply --version two TOPOLOGY FILLERS", working},
		{"workload-apply-skip-nodes", "apply --skip-nodes TOPOLOGY FILLERS", tooOld},
		{"workload-apply-refused", "apply TOPOLOGY FILLERS", tooOld},
		{"workload-apply-sloppy", "apply SLOPPY", nil},
		{"workload-apply-lenient", "apply --lenient SLOPPY TOPOLOGY FILLERS", nil},
		{"workload-apply-nothing", "apply EMPTY", working},
		{"workload-apply-no-file", "apply", nil},
		{"workload-list", "list", working},
		{"workload-list-node", "list --node node-2", working},
		{"workload-list-node-none", "list --node node-3", working},
		{"workload-list-misspelt", "list --node node2", working},
		{"workload-list-none", "list", nil},
		{"workload-apply-lacks", "apply TOPOLOGY FILLERS", lacking(wire.AttributeWorkloads)},
		{"workload-apply-lacks-skip-nodes", "apply --skip-nodes TOPOLOGY FILLERS", lacking(wire.AttributeWorkloads)},
		{"workload-apply-lacks-nothing", "apply TOPOLOGY FILLERS", lacking(wire.AttributeBitTorrent)},
		{"workload-list-away", "list", gone},
		{"workload-status-away", "status", gone},
		{"workload-show", "show", working},
		{"workload-show-filled", "show --filled", working},
		{"workload-show-version", "show --version 9.9.9", working},
		{"workload-show-none", "show", nil},
		{"workload-history", "history", working},
		{"workload-status", "status", working},
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
		{"workload-wait-newest", "wait", played(placed("1.0.0", string(apitest.SetOf("web@node-4")), false),
			placed("1.0.1", string(apitest.SetOf("job:web@node-1", "job:map@node-2")), false), func(u *apitest.Rig) {
				run(u, func(s *wire.WorkloadSlot) { s.State = wire.WorkloadCompleted })
			})},
		{"workload-wait-none", "wait", nil},
		{"workload-wait-nothing", "wait", played(placed("1.0.0", "[]", false))},
		{"workload-why", "why web@node-1", ended},
		{"workload-why-restarting", "why camera@node-1", ended},
		{"workload-why-hook", "why web@node-1", played((*apitest.Rig).Working, hooked)},
		{"workload-why-fetching", "why map@node-2", working},
		{"workload-why-failed", "why radio@node-2", working},
		{"workload-why-offline", "why web@node-4", working},
		{"workload-why-unknown", "why web@node-9", working},
		{"workload-why-misspelt", "why wob@node-1", working},
		{"workload-why-malformed", "why web", working},
		{"workload-stop", "stop map@node-2", working},
		{"workload-stop-offline", "stop web@node-4", working},
		{"workload-stop-twice", "stop web@node-1", halted},
		{"workload-stop-misspelt", "stop wob@node-1", working},
		{"workload-start", "start web@node-1", halted},
		{"workload-start-runs", "start web@node-1", working},
		{"workload-list-stopped", "list", halted},
		{"workload-why-stopped", "why web@node-1", halted},
		{"events-slot-stopped", "events --slot web@node-1", halted},
		{"events-slot", "events --slot web@node-1", ended},
		{"events-slot-typed", "events --slot web@node-1 --type request", ended},
		{"events-slot-none", "events --slot map@node-2", ended},
		{"events-slot-malformed", "events --slot web", ended},
		{"events-slot-elsewhere", "events --slot web@node-1 --node node-2", ended},
		{"workload-restart", "restart web@node-1", working},
		{"workload-restart-misspelt", "restart wob@node-1", working},
		{"workload-restart-offline", "restart web@node-4", working},
		{"workload-restart-malformed", "restart web", working},
		{"workload-restart-no-answer", "restart web@node-1", unanswered},
		{"workload-logs", "logs web@node-1", working},
		{"workload-logs-tail", "logs web@node-1 --tail 1", working},
		{"workload-logs-tail-0", "logs web@node-1 --tail 0", working},
		{"workload-logs-hook", "logs web@node-1 --hook validate", working},
		{"workload-logs-all", "logs web@node-1 --hook all --tail 1", working},
		{"workload-logs-no-hook", "logs web@node-1 --hook nope", working},
		{"workload-logs-follow-all", "logs web@node-1 --hook all -f", working},
		{"workload-logs-none", "logs wob@node-1", working},
	} {
		for _, suffix := range []string{"", "-json"} {
			t.Run(c.name+suffix, func(t *testing.T) {
				t.Parallel()
				b := c.state.bench(t)
				files := strings.NewReplacer("TOPOLOGY", b.sample("topology.json"), "FILLERS", b.sample("fillers.json"),
					"SLOPPY", b.write("sloppy.json", strings.ReplaceAll(sloppy, "web@", "extra@")), "EMPTY",
					b.write("empty.json", "[]\n"),
					"OLD", b.write("old.json", set("one", "web")), "NEW", b.write("new.json", set("two", "web", "map")))
				args := strings.Fields(files.Replace(c.args))
				if args[0] != "events" {
					args = append([]string{"workload"}, args...)
				}
				b.golden(t, c.name, suffix, args)
			})
		}
	}
	golden(t, "node-slots", working.bench(t).transcript("", "node", "node-2"))
}

// What is submitted is what the files say: one file to the byte, of several every entry.
func TestWorkloadsAreSubmittedAsGiven(t *testing.T) {
	var subs []view.Submission
	u := apitest.StartSample(t)
	b := benchOf(t, u, apitest.Submitting(u, func(ctx context.Context, s view.Submission) (view.Result, error) {
		subs = append(subs, s)
		return u.Core.Submit(ctx, s)
	}))
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
	if set, ps := workload.Parse(subs[2].Document); ps != nil || len(set.Configs) != 4 || !subs[2].Lenient {
		t.Errorf("%v %+v", ps, set)
	}
}

// A set of an old journal, which is not strict, is compared as it was meant.
func TestWorkloadDiffOfAnOldSet(t *testing.T) {
	u := apitest.StartSample(t)
	b := benchOf(t, u, apitest.Instead(u, apitest.Fixed(apitest.Sets.Show, []byte(sloppy))))
	out, stderr, exit := b.run("", "workload", "diff", "1.0.1", b.write("new.json", set("two", "web")))
	if exit != 0 || !strings.Contains(out, "http://127.0.0.1/web") {
		t.Errorf("%d %s %s", exit, out, stderr)
	}
}

// TestWorkloadWait: --wait returns when slots run, and says which do not and why.
func TestWorkloadWait(t *testing.T) {
	completed := func(s *wire.WorkloadSlot) {
		if s.Slot == "camera@node-2" {
			s.State = wire.WorkloadCompleted
		}
	}
	done := func(u *apitest.Rig) { run(u, completed) }
	failed := func(u *apitest.Rig) {
		run(u, func(s *wire.WorkloadSlot) {
			if s.Slot == "camera@node-2" {
				s.State = wire.WorkloadFailed
				s.Error = wire.New(wire.CodeHashMismatch, "", "not what its checksum says")
			}
		})
	}
	refused := func(u *apitest.Rig) { run(u, completed, "node-2") }
	replaced := func(u *apitest.Rig) {
		u.Submit(view.Submission{Kind: wire.KindWorkloads, Version: "9.0.0", Document: []byte("[]"), Who: apitest.Ann,
			Via: "http"})
	}
	for _, c := range []struct {
		name string
		then func(*apitest.Rig)
		wait string
	}{
		{"workload-wait", done, "30s"}, {"workload-wait-failed", failed, "30s"},
		{"workload-wait-refused", refused, "30s"}, {"workload-wait-replaced", replaced, "30s"},
	} {
		for _, suffix := range []string{"", "-json"} {
			t.Run(c.name+suffix, func(t *testing.T) {
				t.Parallel()
				// What comes after the acceptance comes at once, so that what is printed on the way is always the same.
				b := applied(t, c.then)
				args := []string{"workload", "apply", b.sample("topology.json"), b.sample("fillers.json"),
					"--wait=" + c.wait}
				b.golden(t, c.name, suffix, args)
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
	b := applied(t, func(u *apitest.Rig) {
		run(u, func(s *wire.WorkloadSlot) {
			if s.Slot == "camera@node-2" {
				s.State, s.Exit = wire.WorkloadRestarting, &wire.WorkloadExit{Code: 3, At: u.Now()}
			}
		})
	})
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
	b := working.bench(t)
	b.unit.Log("started\nlistening on 8080\n", "one\n\xe2\x82", "\xac two\x1b[2J\n")
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
