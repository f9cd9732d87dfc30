package component_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/component"
	"tandem.internal/nodeagent/internal/update"
	"tandem.internal/shared/clock"
	"tandem.internal/shared/wire"
)

// start is when the tests begin.
var start = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// world is a node whose components are played by the test.
type world struct {
	t     *testing.T
	state component.State
	parts map[string]component.Part
	now   time.Duration
	did   []string
}

func newWorld(t *testing.T, parts ...string) *world {
	w := &world{t: t, parts: map[string]component.Part{}, now: time.Minute}
	for _, name := range parts {
		w.parts[name] = component.Part{Answered: true, Record: update.Record{Has: update.Status{Active: "1.0.0"}}}
	}
	return w
}

// hash is that of the file of a version.
func hash(version string) string { return wire.Hash([]byte(version)) }

// wants is a component that should have a version, after others.
func wants(name, version string, after ...string) wire.NodeComponent {
	return wire.NodeComponent{Name: name, Item: "item-" + name, Version: version, Hash: hash(version), Size: 1,
		URLs: []string{"https://x/" + version}, After: after}
}

func (w *world) step(ev component.Event) {
	var effects []component.Effect
	w.state, effects = w.state.Step(clock.Now{Mono: w.now, Wall: start.Add(w.now)}, ev)
	for _, e := range effects {
		switch e := e.(type) {
		case component.Fetch:
			var names []string
			for _, c := range e.Files {
				names = append(names, c.Name)
			}
			w.did = append(w.did, "fetch "+strings.Join(names, "+"))
		case component.Stage:
			w.did = append(w.did, "stage "+e.Component.Name)
		case component.Try:
			w.did = append(w.did, "try "+e.Component.Name)
		case component.Report:
			w.did = append(w.did, "report")
		}
	}
}

func (w *world) document(all ...wire.NodeComponent) {
	w.step(component.Document{Components: &wire.Components{FormatVersion: "1", Components: all}})
}

// part changes how a component stands.
func (w *world) part(name string, change func(r *update.Record)) {
	p := w.parts[name]
	change(&p.Record)
	next := map[string]component.Part{}
	for n, old := range w.parts {
		next[n] = old
	}
	next[name] = p
	w.parts = next
	w.step(component.Parts{Parts: w.parts})
}

// expect compares what was done since the last call, and how each component is: "app installing, os pending: why".
func (w *world) expect(did, states string) {
	w.t.Helper()
	var all []string
	for _, s := range w.state.Status() {
		text := s.Name + " " + string(s.State)
		if s.Error != nil {
			text += ": " + s.Error.Message
		}
		all = append(all, text)
	}
	if got := strings.Join(w.did, ", "); got != did {
		w.t.Errorf("did %q, not %q", got, did)
	}
	if got := strings.Join(all, "; "); got != states {
		w.t.Errorf("states %q, not %q", got, states)
	}
	w.did = nil
}

// staged has the version of a component staged, as the agent does when it is asked to.
func (w *world) staged(name, version string, number uint64) {
	w.part(name, func(r *update.Record) {
		r.Number, r.Phase, r.Version, r.Hash = number, update.Staged, version, hash(version)
	})
	w.step(component.Staged{Name: name, Hash: hash(version), Number: number})
}

func TestUpdate(t *testing.T) {
	w := newWorld(t, "app")
	w.document(wants("app", "2.0.0"))
	w.expect("", "") // nothing is known of the component
	w.step(component.Parts{Parts: w.parts})
	w.expect("fetch app, report", "app downloading")
	w.step(component.Fetched{Hash: hash("2.0.0"), Err: wire.New(wire.CodeUnavailable, "", "no road")})
	w.expect("report", "app downloading: no road")
	w.step(component.Fetched{Hash: hash("2.0.0"), Done: true})
	w.expect("stage app, report", "app installing")
	w.step(component.Tick{})
	w.expect("", "app installing") // it is asked for once
	w.staged("app", "2.0.0", 1)
	w.expect("fetch , try app", "app installing")
	w.part("app", func(r *update.Record) { r.Try = "somebody" })
	w.step(component.Tried{Name: "app", Hash: hash("2.0.0")})
	w.part("app", func(r *update.Record) { r.Phase, r.Try = update.Trying, "" })
	w.expect("", "app installing")
	w.part("app", func(r *update.Record) { r.Phase, r.Has.Active = update.None, "2.0.0" })
	w.expect("report", "app installed")
}

func TestNothingIsFetchedForWhatIsThere(t *testing.T) {
	w := newWorld(t, "app")
	w.step(component.Parts{Parts: w.parts})
	w.document(wants("app", "1.0.0"))
	w.expect("report", "app installed")
	w.document() // nothing is wanted any more
	w.expect("report", "")
}

func TestOneThatFailsHoldsUpNoOther(t *testing.T) {
	w := newWorld(t, "app", "os")
	w.step(component.Parts{Parts: w.parts})
	w.document(wants("gone", "2.0.0"), wants("app", "2.0.0"), wants("os", "3.0.0"))
	gone := "gone failed: the settings of this node's agent name no component gone: --component"
	w.expect("fetch app+os, report", gone+"; app downloading; os downloading")
	w.step(component.Fetched{Hash: hash("3.0.0"), Done: true})
	w.expect("stage os, report", gone+"; app downloading; os installing")
}

// TestAfter: a component waits for those that it comes after, to the end of their trials, and is fetched meanwhile.
func TestAfter(t *testing.T) {
	w := newWorld(t, "app", "os")
	w.step(component.Parts{Parts: w.parts})
	w.document(wants("app", "2.0.0", "os", "unknown"), wants("os", "3.0.0"))
	w.expect("fetch app+os, report", "app pending: it waits for component os; os downloading")
	w.step(component.Fetched{Hash: hash("2.0.0"), Done: true})
	w.step(component.Fetched{Hash: hash("3.0.0"), Done: true})
	w.expect("stage os, report", "app pending: it waits for component os; os installing")
	w.staged("os", "3.0.0", 1)
	w.part("os", func(r *update.Record) { r.Phase, r.Has.Trying = update.Trying, "3.0.0" })
	w.part("os", func(r *update.Record) { r.Phase, r.Has.Active = update.Committing, "3.0.0" })
	w.did = nil
	w.step(component.Tick{})
	w.expect("", "app pending: it waits for component os; os installing")
	w.part("os", func(r *update.Record) { r.Phase = update.None })
	w.expect("stage app, report", "app installing; os installed")
}

// TestAnotherTrial: what somebody else has begun is waited for, and what he has only staged is not.
func TestAnotherTrial(t *testing.T) {
	w := newWorld(t, "app")
	w.part("app", func(r *update.Record) {
		r.Number, r.Phase, r.Version, r.Hash = 7, update.Trying, "1.5.0", hash("1.5.0")
	})
	w.document(wants("app", "2.0.0"))
	w.expect("report", "app pending: version 1.5.0 is trying")
	w.part("app", func(r *update.Record) { r.Phase = update.None })
	w.expect("fetch app, report", "app downloading")
	w.part("app", func(r *update.Record) { r.Number, r.Phase, r.Version = 8, update.Staged, "1.6.0" })
	w.step(component.Fetched{Hash: hash("2.0.0"), Done: true})
	w.expect("stage app, report", "app installing")
}

// TestBusy: a trial that may not begin now, since another one is under way, is no failure, and is asked for again.
func TestBusy(t *testing.T) {
	w := newWorld(t, "app")
	w.part("app", func(r *update.Record) {
		r.Number, r.Phase, r.Version, r.Hash = 1, update.Staged, "2.0.0", hash("2.0.0")
	})
	w.document(wants("app", "2.0.0"))
	w.expect("try app, report", "app installing") // it was staged before the agent's restart
	w.step(component.Tried{Name: "app", Hash: hash("2.0.0"),
		Err: wire.New(wire.CodeWrongState, "", "another is on trial")})
	w.expect("report", "app pending: another is on trial")
	at, due := w.state.NextDeadline()
	if !due || at != w.now+30*time.Second {
		t.Errorf("the next look is at %v %v", at, due)
	}
	w.now = at
	w.step(component.Tick{})
	w.expect("try app, report", "app installing")
}

// TestRetry: what has failed is tried again, after pauses that grow from a minute to an hour; a document that comes
// again ends the pause.
func TestRetry(t *testing.T) {
	w := newWorld(t, "app")
	w.step(component.Parts{Parts: w.parts})
	w.document(wants("app", "2.0.0"))
	w.step(component.Fetched{Hash: hash("2.0.0"), Done: true})
	var pauses []time.Duration
	for n := uint64(1); n <= 9; n++ {
		w.staged("app", "2.0.0", n)
		w.part("app", func(r *update.Record) { r.Try = "somebody" })
		w.step(component.Tried{Name: "app", Hash: hash("2.0.0")})
		w.part("app", func(r *update.Record) { r.Phase, r.Try = update.Trying, "" })
		w.part("app", func(r *update.Record) { r.Phase, r.Why = update.RollingBack, update.Why{Detail: "by hand"} })
		if s := w.state.Status()[0]; s.State != wire.ComponentInstalling || s.Error == nil ||
			s.Error.Message != "by hand" {
			t.Errorf("while it is given up: %+v", s)
		}
		w.part("app", func(r *update.Record) {
			r.Phase = update.None
			r.Last = update.Outcome{Number: n, Version: "2.0.0", Why: update.Why{Detail: "by hand"}}
		})
		s := w.state.Status()[0]
		at, due := w.state.NextDeadline()
		if s.State != wire.ComponentFailed || s.Error.Message != "by hand" || !due || !s.Again.Equal(start.Add(at)) {
			t.Fatalf("attempt %d: %+v, next at %v %v", n, s, at, due)
		}
		pauses = append(pauses, at-w.now)
		w.step(component.Fetched{Hash: hash("2.0.0"), Done: true})
		w.did, w.now = nil, at-1
		w.step(component.Tick{})
		if s := w.state.Status()[0]; w.did != nil || s.Error == nil || s.Error.Message != "by hand" {
			t.Fatalf("before the pause is over: %q %+v", w.did, s)
		}
		w.now = at
		w.step(component.Tick{})
		if !slices.Contains(w.did, "stage app") {
			t.Fatalf("attempt %d is not repeated: %q %+v", n, w.did, w.state.Status()[0])
		}
	}
	m := time.Minute
	if got, want := fmt.Sprint(pauses), fmt.Sprint([]time.Duration{m, 2 * m, 4 * m, 8 * m, 16 * m, 32 * m, time.Hour,
		time.Hour, time.Hour}); got != want {
		t.Errorf("pauses %s, not %s", got, want)
	}
	w.step(component.Staged{Name: "app", Hash: hash("2.0.0"), Err: wire.New(wire.CodeStorage, "", "the disk is full")})
	w.did = nil
	w.document(wants("app", "2.0.0"))
	w.expect("stage app, report", "app installing")
}

// TestQuarantine: content that has failed on trial is not gone to again; another version is.
func TestQuarantine(t *testing.T) {
	w := newWorld(t, "app")
	w.part("app", func(r *update.Record) {
		r.Quarantine = []wire.HealthFailed{{Version: "2.0.0", Hash: hash("2.0.0"), Text: "it crashed"}}
	})
	w.document(wants("app", "2.0.0"))
	w.expect("report", "app failed: version 2.0.0 failed here before: it crashed")
	w.now += 24 * time.Hour
	w.step(component.Tick{})
	w.expect("", "app failed: version 2.0.0 failed here before: it crashed")
	w.document(wants("app", "2.0.1"))
	w.expect("fetch app, report", "app downloading")
}

// TestTakenUp: after a restart of the agent what was under way goes on by the record of the update alone.
func TestTakenUp(t *testing.T) {
	for phase, states := range map[update.Phase]string{
		update.Installing: "app installing", update.Activating: "app installing", update.Trying: "app installing",
		update.Committing: "app installing", update.RollingBack: "app installing: why",
	} {
		w := newWorld(t, "app")
		w.document(wants("app", "2.0.0"))
		w.part("app", func(r *update.Record) {
			r.Number, r.Phase, r.Version, r.Hash, r.Why = 3, phase, "2.0.0", hash("2.0.0"), update.Why{Detail: "why"}
		})
		w.expect("report", states)
		w.part("app", func(r *update.Record) {
			r.Phase, r.Last = update.None, update.Outcome{Number: 3, Why: update.Why{Detail: "it did not get well"}}
		})
		w.expect("fetch app, report", "app failed: it did not get well")
	}
}

// TestStagedBeforeItIsSeen: what was staged is not staged once more before the component's record shows it.
func TestStagedBeforeItIsSeen(t *testing.T) {
	w := newWorld(t, "app")
	w.step(component.Parts{Parts: w.parts})
	w.document(wants("app", "2.0.0"))
	w.step(component.Fetched{Hash: hash("2.0.0"), Done: true})
	w.did = nil
	w.step(component.Staged{Name: "app", Hash: hash("2.0.0"), Number: 1})
	w.step(component.Tick{})
	w.expect("fetch ", "app installing")
	w.staged("app", "2.0.0", 1)
	w.expect("try app", "app installing")
}

// TestNoIdleTicks: when the machine is not waiting for a time, it asks for none, whatever was tried before.
func TestNoIdleTicks(t *testing.T) {
	w := newWorld(t, "app")
	w.step(component.Parts{Parts: w.parts})
	w.document(wants("app", "2.0.0"))
	w.step(component.Fetched{Hash: hash("2.0.0"), Done: true})
	w.step(component.Staged{Name: "app", Hash: hash("2.0.0"), Err: wire.New(wire.CodeStorage, "", "full")})
	for _, phase := range []update.Phase{update.Trying, update.Installing, update.None} {
		w.part("app", func(r *update.Record) {
			r.Number, r.Phase, r.Version, r.Hash, r.Has.Active = 9, phase, "1.9.0", hash("1.9.0"), "1.0.0"
		})
		if at, due := w.state.NextDeadline(); due && phase != update.None {
			t.Errorf("%s: a tick at %v", phase, at)
		}
	}
}

// TestTrialRefused: an order to try that the update gives up is given again after a pause.
func TestTrialRefused(t *testing.T) {
	w := newWorld(t, "app")
	w.part("app", func(r *update.Record) {
		r.Number, r.Phase, r.Version, r.Hash = 1, update.Staged, "2.0.0", hash("2.0.0")
	})
	w.document(wants("app", "2.0.0"))
	w.step(component.Tried{Name: "app", Hash: hash("2.0.0")})
	w.step(component.Tick{})
	w.expect("try app, report", "app installing") // and not once more before the record has the order
	w.part("app", func(r *update.Record) { r.Try = "somebody" })
	w.part("app", func(r *update.Record) { r.Try, r.Note = "", "no reboot is possible" })
	w.expect("report", "app failed: no reboot is possible")
	at, _ := w.state.NextDeadline()
	w.now = at
	w.step(component.Tick{})
	w.expect("try app, report", "app installing")
}

// TestOldAnswers: an answer about another file changes nothing.
func TestOldAnswers(t *testing.T) {
	w := newWorld(t, "app")
	w.step(component.Parts{Parts: w.parts})
	w.document(wants("app", "2.0.0"))
	w.step(component.Fetched{Hash: hash("2.0.0"), Done: true})
	w.did = nil
	w.document(wants("app", "3.0.0"))
	w.expect("fetch app, report", "app downloading")
	w.step(component.Staged{Name: "app", Hash: hash("2.0.0"), Number: 1})
	w.step(component.Fetched{Hash: hash("2.0.0"), Done: true})
	w.step(component.Tried{Name: "app", Hash: hash("2.0.0"), Err: wire.New(wire.CodeBadSignature, "", "no")})
	w.expect("", "app downloading")
}
