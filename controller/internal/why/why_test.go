package why

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// sound is a slot that runs what it should.
func sound() Facts {
	ref := wire.DocRef{Epoch: 1, Rev: 7, Version: "1.0.2", Hash: "h"}
	return Facts{
		Now: now, Known: true, Version: "1.0.2", Since: now.Add(-time.Hour), Who: "ann",
		Node: view.Node{Node: "n", Online: true, Since: now.Add(-3 * time.Hour)},
		Doc:  view.Document{Desired: &view.Desired{DocRef: ref}, Running: &ref, InSync: true},
		Slot: view.Slot{
			Slot: "web@n", Node: "n", Online: true, Desired: "web-2", State: "running", Settled: true,
			Report: &wire.WorkloadSlot{
				Slot: "web@n", ID: "web-2", State: wire.WorkloadRunning, Since: now.Add(-time.Minute),
			},
		},
		Origin: &Origin{
			Config: workload.Config{ConfigurationID: "web-2", Class: workload.Instance}, Topology: true,
			Fillers: []string{"base"},
		},
	}
}

// told changes what the node has told of the slot, which is not as it should be then.
func told(change func(r *wire.WorkloadSlot)) func(*Facts) {
	return func(f *Facts) {
		r := *f.Slot.Report
		change(&r)
		f.Slot.Report, f.Slot.State, f.Slot.Settled = &r, string(r.State), false
	}
}

// newest changes the node's document, which is not in step then.
func newest(change func(d *view.Document)) func(*Facts) {
	return func(f *Facts) {
		told(func(r *wire.WorkloadSlot) { r.ID = "web-1" })(f)
		f.Doc.InSync = false
		change(&f.Doc)
	}
}

func offline(f *Facts) {
	f.Node.Online, f.Slot.Online, f.Slot.Settled = false, false, false
	f.Node.Since, f.Slot.Since = now.Add(-5*time.Minute), now.Add(-5*time.Minute)
}

func attempt(state wire.State, err *wire.Error) func(*view.Document) {
	return func(d *view.Document) {
		d.Last = &wire.Attempt{Epoch: 1, Rev: 7, Version: "1.0.2", State: state, Error: err}
	}
}

// preparing is a slot that does something before its first start.
func preparing(doing string, err *wire.Error, resources ...wire.WorkloadResource) func(*Facts) {
	return told(func(r *wire.WorkloadSlot) {
		r.State, r.Doing, r.Error, r.Resources = wire.WorkloadPreparing, doing, err, resources
	})
}

// reasons has a slot for every reason, with the sentence and one of the findings.
var reasons = []struct {
	name, reason, answer, finding string
	change                        func(*Facts)
}{
	{"it waits for others", Needing, "web@n is not running: it waits for db@n to be healthy, net@n to be started",
		"needs waits db@n to be healthy, net@n to be started", func(f *Facts) {
			preparing("needs", nil)(f)
			f.Slot.Report.Waits = []wire.WorkloadNeed{{Slot: "db@n", Condition: "healthy"},
				{Slot: "net@n", Condition: "after"}}
		}},
	{"its layer is unpacked", Fetching, `web@n is not running: its resource "python" is being unpacked`,
		`resource waits "python" unpacking`, preparing("fetch", nil,
			wire.WorkloadResource{Name: "python", State: "unpacking"})},
	{"its layer is refused", Unfetched, `web@n is not running: its resource "python" is refused: bad-value: no gzip`,
		`resource bad "python" failed: bad-value: no gzip`, preparing("fetch", nil, wire.WorkloadResource{
			Name: "python", State: "failed", Error: wire.New(wire.CodeBadValue, "", "no gzip")})},
	{"it runs", Runs, "web@n runs what it should, for 1m",
		"configuration good web-2, instance, of a topology, filled by base",
		func(*Facts) {}},
	{"a job has completed", Completed, "web@n has completed, 1m ago", "process good web-2: completed",
		func(f *Facts) {
			told(func(r *wire.WorkloadSlot) { r.State = wire.WorkloadCompleted })(f)
			f.Slot.Settled = true
		}},
	{"its node was revoked", Revoked, "web@n is not running: the node n was revoked by ann, and gets nothing any more",
		"node bad n is revoked",
		func(f *Facts) {
			f.Slot.Report, f.Node.Identity = nil, &view.Identity{State: "revoked", RevokedBy: "ann"}
		}},
	{"its node never came", UnknownNode,
		"web@n is not running: the node n was never heard of; it gets its document when it comes",
		"node bad n was never heard of",
		func(f *Facts) { f.Known, f.Slot.Report, f.Slot.Settled, f.Slot.Online = false, nil, false, false }},
	{"its node is away", Offline,
		"whether web@n still runs is not known: its node is offline for 5m; it was running when it was last heard",
		"node bad n is offline", func(f *Facts) { offline(f); f.Slot.State = view.SlotAway }},
	{"its node is offline and told nothing", Offline, "web@n is not running: its node n is offline for 5m",
		"node bad n is offline", func(f *Facts) { offline(f); f.Slot.Report, f.Slot.State = nil, view.SlotWaiting }},
	{"it had failed before its node went", Failed,
		"web@n is not running: it failed, and is not tried again until it changes or is restarted: not-supported: no",
		"node bad n is offline", func(f *Facts) {
			told(func(r *wire.WorkloadSlot) {
				r.State, r.Error = wire.WorkloadFailed, wire.New(wire.CodeNotSupported, "", "no")
			})(f)
			offline(f)
		}},
	{"it is not wanted any more", NotWanted, "web@n is being stopped: it is not in the set any more",
		"set bad version 1.0.2, by ann; it does not have the slot",
		func(f *Facts) { f.Slot.Desired, f.Slot.Settled, f.Origin = "", false, nil }},
	{"it has stopped", NotWanted, "web@n has stopped: it is not in the set any more", "process waits web-2: stopped",
		func(f *Facts) {
			told(func(r *wire.WorkloadSlot) { r.State = wire.WorkloadStopped })(f)
			f.Slot.Desired, f.Slot.Settled = "", true
		}},
	{"it is wanted again while it stops", Stopping, "web@n is not running: what has run there is being stopped",
		"process waits web-2: stopped", told(func(r *wire.WorkloadSlot) { r.State = wire.WorkloadStopped })},
	{"nothing was issued", NotIssued, "web@n runs web-1, not web-2: no document was issued to its node n yet",
		"document waits none was issued to the node", newest(func(d *view.Document) { d.Desired = nil })},
	{"its node refuses", Refused,
		"web@n runs web-1, not web-2: its node n did not take the document 1.0.2: not-supported: no such limit",
		"document bad 1.0.2 (rev 7) was not taken: not-supported: no such limit",
		newest(attempt(wire.StateRejected, wire.New(wire.CodeNotSupported, "", "no such limit")))},
	{"its node refuses without a word", Refused,
		"web@n runs web-1, not web-2: its node n did not take the document 1.0.2: apply-failed: rejected", "",
		newest(attempt(wire.StateRejected, nil))},
	{"its node has another document of that stamp", Refused,
		"web@n runs web-1, not web-2: its node n did not take the document 1.0.2: fork: another hash",
		"document bad 1.0.2 (rev 7) was not taken: fork: another hash",
		newest(func(d *view.Document) { d.Error = wire.New(wire.CodeFork, "", "another hash") })},
	{"its node is applying", NotApplied,
		"web@n runs web-1, not web-2: its node n has not put the document 1.0.2 in force yet: it is applying",
		"document waits 1.0.2 (rev 7) is not in force yet: it is applying", newest(attempt(wire.StateApplying, nil))},
	{"its node has not answered", NotApplied,
		"web@n runs web-1, not web-2: its node n has not put the document 1.0.2 in force yet",
		"document waits 1.0.2 (rev 7) is not in force yet", newest(func(*view.Document) {})},
	{"the report has no room", NotReported, "web@n is not running: its node's report had no room for it", "",
		func(f *Facts) { f.Slot.Report, f.Slot.State, f.Slot.Settled = nil, view.SlotUntold, false }},
	{"the report is of before", NotReported,
		"web@n runs web-1, not web-2: its node n has the document, and has not told of it yet",
		"process good web-1: running", told(func(r *wire.WorkloadSlot) { r.ID = "web-1" })},
	{"a resource is missing", Unfetched, `web@n is not running: its resource "data" cannot be fetched: unavailable: ` +
		`404 from http://h/x; next try in 2m`,
		`resource bad "data" waiting: unavailable: 404 from http://h/x; next try`,
		preparing("fetch", nil, wire.WorkloadResource{Name: "bin", State: "waiting"}, wire.WorkloadResource{
			Name: "data", State: "waiting", Error: wire.New(wire.CodeUnavailable, "", "404 from http://h/x"),
			Next: now.Add(2 * time.Minute)})},
	{"a signature has expired", Unfetched, `web@n is not running: its resource "data" is not put in force: expired: ` +
		`nobody has renewed it`,
		`resource bad "data" failed: expired: nobody has renewed it`,
		preparing("fetch", nil, wire.WorkloadResource{Name: "data", State: "failed",
			Error: wire.New(wire.CodeExpired, "", "nobody has renewed it")})},
	{"a resource comes", Fetching, `web@n is not running: its resource "data" is being fetched: 10 of 20 bytes`,
		`resource waits "data" fetching 10 of 20 bytes`,
		preparing("fetch", nil, wire.WorkloadResource{Name: "data", State: "fetching", Done: 10, Size: 20})},
	{"resources come", Fetching, `web@n is not running: its resources "a", "b" are being fetched`,
		`resource waits "b" waiting`, preparing("fetch", nil, wire.WorkloadResource{Name: "a", State: "waiting"},
			wire.WorkloadResource{Name: "b", State: "waiting"})},
	{"a report without room for resources", Fetching, "web@n is not running: its resources are being fetched",
		"step waits fetch of web-2", preparing("fetch", nil)},
	{"a hook has failed", HookFailed,
		"web@n is not running: its iss_hook_install has failed, and is run again: apply-failed: exit status 2: no disk",
		"hook waits iss_hook_install of web-2", preparing("iss_hook_install",
			wire.New(wire.CodeApplyFailed, "/resources/iss_hook_install", "exit status 2: no disk"))},
	{"a hook is under way", Hook, "web@n runs web-1, not web-2: its iss_hook_validate is under way",
		"hook waits iss_hook_validate of web-2", told(func(r *wire.WorkloadSlot) {
			r.ID, r.Wanted, r.Doing = "web-1", "web-2", "iss_hook_validate"
		})},
	{"no room for links", Preparing, "web@n is not running: its directory is being made, but: storage: no space",
		"error bad storage: no space", preparing("link", wire.New(wire.CodeStorage, "", "no space"))},
	{"what has run ends", Preparing, "web@n is not running: what has run before is to end first",
		"step waits ready of web-2", preparing("ready", nil)},
	{"between restarts", Pause,
		"web@n is not running: its process has ended (killed: it has used up its memory); it is started again in 2m",
		"next waits it is started again", told(func(r *wire.WorkloadSlot) {
			r.State, r.Next, r.Restarts = wire.WorkloadRestarting, now.Add(2*time.Minute), 3
			r.Exit = &wire.WorkloadExit{Code: -1, Signal: "SIGKILL", OOM: true, At: now}
		})},
	{"before a restart that was ordered", Pause, "web@n is not running: its process is started again now",
		"process bad web-2: restarting, restarted 1 time",
		told(func(r *wire.WorkloadSlot) { r.State, r.Restarts = wire.WorkloadRestarting, 1 })},
	{"it did not stay up", Failed, "web@n runs web-1, not web-2: it failed, and is not tried again until it changes " +
		"or is restarted: apply-failed: it did not stay up", "error bad apply-failed: it did not stay up",
		told(func(r *wire.WorkloadSlot) {
			r.ID, r.Wanted, r.Error = "web-1", "web-2", wire.New(wire.CodeApplyFailed, "", "it did not stay up")
		})},
	{"an operator has stopped it", Stopped, "web@n is stopped, by ann, for 3m",
		"stopped note by ann; to have it run again: tandem workload start web@n", func(f *Facts) {
			told(func(r *wire.WorkloadSlot) { r.State = wire.WorkloadStopped })(f)
			f.Slot.Stopped, f.Slot.Settled = &view.Stop{At: now.Add(-3 * time.Minute), Who: "ann"}, true
		}},
	{"it still runs", Stopping,
		"web@n was stopped by ann, and may still run: its process is being stopped", "process good web-2: running",
		func(f *Facts) {
			f.Slot.Stopped, f.Slot.Settled = &view.Stop{At: now, Who: "ann"}, false
		}},
	{"its agent is too old to stop it", Refused, "web@n was stopped by ann, and may still run: its node n did not " +
		"take the document 1.0.2: unknown-field: stopped", "", func(f *Facts) {
		newest(attempt(wire.StateRejected, wire.New(wire.CodeUnknownField, "/stopped", "stopped")))(f)
		f.Slot.Stopped = &view.Stop{At: now, Who: "ann"}
	}},
	{"a resource is damaged", Damaged, "web@n runs, but: hash-mismatch: the resource data is damaged",
		"error bad hash-mismatch: the resource data is damaged", told(func(r *wire.WorkloadSlot) {
			r.Error = wire.New(wire.CodeHashMismatch, "", "the resource data is damaged")
		})},
}

// Each reason has its sentence, and the findings that show it. No finding is without its state.
func TestReasons(t *testing.T) {
	for _, c := range reasons {
		f := sound()
		c.change(&f)
		v := Slot(f)
		if v.Reason != c.reason || v.Answer != c.answer {
			t.Errorf("%s:\n got %s: %s\nwant %s: %s", c.name, v.Reason, v.Answer, c.reason, c.answer)
		}
		var all []string
		for _, f := range v.Findings {
			all = append(all, f.About+" "+f.State+" "+f.Text)
		}
		if c.finding != "" && !slices.Contains(all, c.finding) {
			t.Errorf("%s: no finding %q in\n%s", c.name, c.finding, strings.Join(all, "\n"))
		}
	}
}

// What is asked for is shown with its limits; a set that cannot be read takes nothing else away.
func TestConfiguration(t *testing.T) {
	most := int64(500)
	f := sound()
	f.Origin = &Origin{Config: workload.Config{ConfigurationID: "c", Class: workload.Job,
		Container:  &workload.Container{Constraints: map[string]string{"memory.max": "1G"}},
		TimeLimits: map[string]workload.Limit{workload.HookStart: {MaxExecutionTimeMs: &most}, workload.HookStop: {}}}}
	v := Slot(f)
	if got := v.Findings[1].Text + "; " + v.Findings[2].Text; got !=
		"c, job, as written; memory.max = 1G, iss_hook_start at most 500 ms" {
		t.Error(got)
	}
	f.Origin.Config.ConfigurationID = ""
	if got := Slot(f).Findings[1].Text; got != "job, as written" {
		t.Errorf("without an ID: %q", got)
	}
	f.Origin, f.Unread = nil, errors.New("the body is damaged")
	if v := Slot(f); v.Reason != Runs || v.Findings[1].Text != "web-2; the set cannot be read: the body is damaged" {
		t.Errorf("%s %s", v.Reason, v.Findings[1].Text)
	}
}

// The output that is shown is that of the hook that holds the slot up.
func TestHookOf(t *testing.T) {
	failed := wire.New(wire.CodeApplyFailed, "/resources/iss_hook_install", "exit status 1")
	for want, r := range map[string]*wire.WorkloadSlot{
		"iss_hook_validate": {Doing: "iss_hook_validate", Error: failed},
		"iss_hook_install":  {Error: failed},
	} {
		if got := HookOf(&view.Slot{Report: r}); got != want {
			t.Errorf("%q, want %s", got, want)
		}
	}
	for _, r := range []*wire.WorkloadSlot{nil, {Doing: "fetch"},
		{Error: wire.New(wire.CodeHashMismatch, "/resources/iss_hook_install", "")},
		{Error: wire.New(wire.CodeApplyFailed, "/resources/iss_hook_start", "")}} {
		if got := HookOf(&view.Slot{Report: r}); got != "" {
			t.Errorf("%+v: %q", r, got)
		}
	}
}
