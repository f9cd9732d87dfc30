package distribute_test

import (
	"regexp"
	"testing"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// changes are the numbers of changes in the versions of documents: nodes' reports come in between.
var changes = regexp.MustCompile(`\+\d+`)

// What an operator has stopped stays so: on a node that was offline, over a restart of the controller, whatever set is
// applied, also one without the slot in between. It is no trouble and nobody waits for it. Others' documents stay.
func TestStoppedSlots(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.start()
		one, two := u.worker("n1"), u.worker("n2")
		apply := func(slots ...string) { u.workloads(view.Submission{Document: setOf(slots...)}) }
		stop := func(stop bool, service, node string) *wire.Error {
			do := u.core.StartSlot
			if stop {
				do = u.core.StopSlot
			}
			_, err := do(t.Context(), op.SlotIn{Service: service, Node: node})
			if err == nil {
				return nil
			}
			return wire.AsError(err)
		}
		must := func(what, want string) {
			t.Helper()
			got := changes.ReplaceAllString(one.gets()+"|"+two.gets(), "+N")
			if got != want {
				t.Errorf("%s: %s, want %s", what, got, want)
			}
			u.audit()
		}
		if err := stop(true, "web", "n1"); err == nil || err.Code != wire.CodeNotFound {
			t.Errorf("what is not wanted was stopped: %v", err)
		}
		apply("web@n1:a", "map@n1:m", "web@n2:a")
		must("a set", "1.0.0[map:m web:a]|1.0.0[web:a]")
		two.stop()
		if e1, e2 := stop(true, "web", "n1"), stop(true, "web", "n2"); e1 != nil || e2 != nil {
			t.Fatal(e1, e2)
		}
		if err := stop(true, "web", "n1"); err == nil || err.Code != wire.CodeWrongState {
			t.Errorf("stopped twice: %v", err)
		}
		one.gets()
		two.start()
		all, err := u.core.Slots(t.Context(), op.SlotsIn{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all.Slots {
			if stopped := s.Slot != "map@n1"; !s.Settled || (s.Stopped != nil) != stopped ||
				(s.State == string(wire.WorkloadStopped)) != stopped {
				t.Errorf("%+v", s)
			}
		}
		two.gets()
		u.restart()
		must("a restart", "|")
		apply("map@n1:m", "web@n2:b")
		apply("web@n1:c", "map@n1:m", "web@n2:b")
		must("further sets", "1.0.1+N[map:m] 1.0.2+N[map:m web:c stopped]|1.0.1+N[web:b stopped]")
		if e1, e2 := stop(false, "web", "n1"), stop(false, "web", "n2"); e1 != nil || e2 != nil {
			t.Fatal(e1, e2)
		}
		if err := stop(false, "web", "n1"); err == nil || err.Code != wire.CodeWrongState {
			t.Errorf("started twice: %v", err)
		}
		must("started", "1.0.2+N[map:m web:c]|1.0.2+N[web:b]")
	})
}
