package record

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"tandem.internal/nodeagent/internal/boot"
	"tandem.internal/shared/wire"
)

type (
	Evidence = boot.Evidence
	Mark     = boot.Mark
)

const most = boot.MaxUnreported

var errIO = errors.New("input/output error")

func hash(c string) string { return "sha256:" + strings.Repeat(c, 64) }

func fine(ID) error { return nil }

func broken(ids ...ID) func(ID) error {
	return func(id ID) error {
		for _, x := range ids {
			if x == id {
				return fmt.Errorf("%w: altered", ErrBroken)
			}
		}
		return nil
	}
}

// staged writes version v to the free slot.
func staged(t testing.TB, r Record, v string) Record {
	t.Helper()
	id, err := r.Target()
	if err != nil {
		t.Fatal(err)
	}
	r = r.Begin(id)
	if r.State(id) != Updating {
		t.Fatalf("slot %s is %s while it is written", id, r.State(id))
	}
	r.Seq++
	if r, err = r.Staged(r.WriteSeq, Slot{Version: v, Hash: hash("a"), Size: 1}); err != nil {
		t.Fatal(err)
	}
	r.Seq++
	return r
}

func armed(t testing.TB, r Record, id ID, tries int) Record {
	t.Helper()
	r, err := r.Arm(id, tries)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// committed is a node on which slot a has been committed over the factory slot.
func committed(t testing.TB) Record {
	r := armed(t, staged(t, New().Start(Evidence{Kernel: "k"}, fine), "1"), A, 1).Start(Evidence{Kernel: "k"}, fine)
	r, err := r.Commit(A)
	if err != nil || r.Good != A || r.Previous != Factory || r.State(A) != Active || r.State(Factory) != Unused {
		t.Fatalf("%+v %v", r, err)
	}
	return r
}

func TestStatesOfAnUpdate(t *testing.T) {
	r := committed(t)
	want := func(a, b, factory State) {
		t.Helper()
		if r.State(A) != a || r.State(B) != b || r.State(Factory) != factory {
			t.Fatalf("%s %s %s, want %s %s %s", r.State(A), r.State(B), r.State(Factory), a, b, factory)
		}
		if err := r.Validate(); err != nil {
			t.Fatal(err)
		}
	}
	want(Active, Unused, Unused)
	r = staged(t, r, "2")
	want(Active, Updating, Unused)
	r = armed(t, r, B, 2)
	want(Active, Updating, Unused)
	r = r.Start(Evidence{Kernel: "k"}, fine)
	want(Active, InProgress, Unused)
	r, err := r.Commit(B)
	if err != nil {
		t.Fatal(err)
	}
	want(Unused, Active, Unused)
	if r.Previous != A || !r.Last.Committed || r.Last.Version != "2" {
		t.Errorf("%+v", r)
	}
	if again, err := r.Commit(B); err != nil || again.Last != r.Last {
		t.Errorf("again: %v", err)
	}
	// The previous slot is named, not flipped to: a second roll back does not come back.
	if r, err = r.RollBack(B, wire.BootFallback, "by hand"); err != nil {
		t.Fatal(err)
	}
	want(Active, Unused, Unused)
	if again, err := r.RollBack(B, wire.BootFallback, "by hand"); err != nil || again.Good != A {
		t.Errorf("again: %v", err)
	}
	if r, err = r.RollBack(A, wire.BootFallback, "by hand"); err != nil {
		t.Fatal(err)
	}
	want(Unused, Unused, Active)
	if _, err := r.RollBack(Factory, wire.BootFallback, ""); !errors.Is(err, ErrNoPrevious) {
		t.Errorf("%v", err)
	}
}

func TestTries(t *testing.T) {
	ev := Evidence{Kernel: "k"}
	r := armed(t, staged(t, committed(t), "2"), B, 2)
	r = r.Start(ev, fine)
	if !r.Boot.Trial || r.Tries != 1 || r.Boot.Reason != wire.BootUpdate {
		t.Fatalf("%+v", r)
	}
	// Planned restarts are free, but not for ever.
	for i := range MaxSpared + 1 {
		r.Mark(Mark{Reason: wire.BootReboot, Planned: true})
		r = r.Start(ev, fine)
		if want := 1 - i/MaxSpared; !r.Boot.Trial || r.Tries != want || r.Boot.Reason != wire.BootReboot {
			t.Fatalf("restart %d: %+v", i, r)
		}
	}
	r.Mark(Mark{Reason: wire.BootWatchdogHung, Detail: "the sender"})
	if stands := r.Mark(Mark{Reason: wire.BootFatal, Planned: true}); stands.Reason != wire.BootWatchdogHung ||
		stands.Planned {
		t.Errorf("the first does not stand: %+v", stands)
	}
	r = r.Start(ev, fine)
	if r.Boot.Trial || r.Boot.Slot != A || r.Boot.Reason != wire.BootWatchdogHung || r.Boot.Note == "" ||
		r.Slot(B).Verdict != Failed || r.Last.Committed || r.Last.Slot != B || r.Last.Reason != wire.BootFallback {
		t.Errorf("%+v", r)
	}
	if _, err := r.Commit(B); !errors.Is(err, ErrNoTrial) {
		t.Errorf("a slot that failed is committed: %v", err)
	}
}

// What ended a trial says whether what the slot holds is to blame: power that is lost, a damaged file and a person's
// decision find no fault with it.
func TestWhoIsToBlame(t *testing.T) {
	trial := func() Record { return armed(t, staged(t, committed(t), "2"), B, 1).Start(Evidence{Kernel: "k"}, fine) }
	broken := func(id ID) error {
		if id == B {
			return ErrBroken
		}
		return nil
	}
	byHand, err := trial().RollBack(B, wire.BootFallback, "by hand")
	if err != nil {
		t.Fatal(err)
	}
	hung := trial()
	hung.Mark(Mark{Reason: wire.BootWatchdogHung})
	for name, c := range map[string]struct {
		r    Record
		want bool
	}{
		"crash":            {trial().Start(Evidence{Kernel: "k"}, fine), true},
		"hung":             {hung.Start(Evidence{Kernel: "k"}, fine), true},
		"kernel":           {trial().Start(Evidence{Kernel: "l", Panic: "oops"}, fine), true},
		"power":            {trial().Start(Evidence{Kernel: "l"}, fine), false},
		"not known":        {trial().Start(Evidence{}, fine), false},
		"damaged":          {armed(t, staged(t, committed(t), "2"), B, 1).Start(Evidence{Kernel: "k"}, broken), false},
		"cannot start":     {trial().Instead("exec format error", broken), true},
		"by hand":          {byHand, false},
		"a second by hand": {byHand.Start(Evidence{Kernel: "k"}, fine), false},
	} {
		if l := c.r.Last; c.r.Trying != None || l.Slot != B || l.Failed != c.want {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

// A planned restart takes no try: not even one that comes when the last one is taken ends the trial.
func TestLastTryRestartsAsPlanned(t *testing.T) {
	ev := Evidence{Kernel: "k"}
	r := armed(t, staged(t, committed(t), "2"), B, 1).Start(ev, fine)
	r.Mark(Mark{Reason: wire.BootStop, Planned: true})
	if r = r.Start(ev, fine); !r.Boot.Trial || r.Boot.Slot != B || r.Tries != 0 || r.Spared != 1 {
		t.Fatalf("%+v", r)
	}
	if r = r.Start(ev, fine); r.Boot.Trial || r.Boot.Slot != A { // and a crash does
		t.Errorf("%+v", r)
	}
}

// A staging that is under way when another slot is armed comes too late: there are never two that wait for a trial.
func TestStagingThatComesTooLate(t *testing.T) {
	r := staged(t, New().Start(Evidence{Kernel: "k"}, fine), "1") // to a; b is free, too
	late := r.Begin(B)
	late.Seq++
	// Begin gives up what waits in a, as superseded; by its name it may be armed still.
	late = armed(t, late, A, 3)
	if late.Writing != None || late.State(A) != Updating || late.State(B) != Unused {
		t.Fatalf("%+v", late)
	}
	if _, err := late.Staged(r.Seq+1, Slot{Version: "2", Hash: hash("b"), Size: 1}); !errors.Is(err, ErrSuperseded) {
		t.Errorf("%v", err)
	}
	if err := late.Validate(); err != nil {
		t.Error(err)
	}
}

func TestWhatStandsIn(t *testing.T) {
	two, err := armed(t, staged(t, committed(t), "2"), B, 1).Start(Evidence{}, fine).Commit(B)
	if err != nil {
		t.Fatal(err)
	}
	onTrial := armed(t, staged(t, committed(t), "2"), B, 3)
	for _, c := range []struct {
		name  string
		r     Record
		sound func(ID) error
		slot  ID // that starts
		good  ID // afterwards
	}{
		{"all is well", two, fine, B, B},
		{"good is broken", two, broken(B), A, A},
		{"both are broken", two, broken(A, B), Factory, Factory},
		{"the previous is broken", two, broken(A), B, B},
		{"good cannot be read now", two, func(id ID) error {
			if id == B {
				return errIO
			}
			return nil
		}, A, B},
		{"the trial is broken", onTrial, broken(B), A, A},
		{"trial and good are broken", onTrial, broken(A, B), Factory, Factory},
		{"good is broken while a trial starts", onTrial, broken(A), B, A},
		{"what never was in force comes last", staged(t, committed(t), "2"), broken(A, Factory), B, Factory},
		{"nothing is left", two, broken(A, B, Factory), None, Factory},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := c.r.Start(Evidence{Kernel: "k"}, c.sound)
			if r.Boot.Slot != c.slot || r.Good != c.good {
				t.Errorf("slot %q starts, %q is good, note %q", r.Boot.Slot, r.Good, r.Boot.Note)
			}
			if err := r.Validate(); err != nil {
				t.Error(err)
			}
			if (c.slot != c.r.Good) && !r.Boot.Trial && r.Boot.Note == "" {
				t.Error("it does not say why")
			}
		})
	}
}

func TestInstead(t *testing.T) {
	r := armed(t, staged(t, committed(t), "2"), B, 3).Start(Evidence{Kernel: "k"}, fine)
	bad := map[ID]error{B: errIO}
	sound := func(id ID) error { return bad[id] }
	r = r.Instead("exec format error", sound)
	if r.Boot.Slot != A || r.Boot.Trial || r.Trying != None || r.Boot.Reason != wire.BootFallback ||
		!strings.Contains(r.Boot.Note, "exec format error") {
		t.Fatalf("%+v", r.Boot)
	}
	bad[A] = errIO
	if r = r.Instead("permission denied", sound); r.Boot.Slot != Factory || r.Good != A {
		t.Fatalf("%+v", r)
	}
	bad[Factory] = errIO
	if r = r.Instead("gone", sound); r.Boot.Slot != None || r.Good != A || len(r.Unreported) != 3 {
		t.Fatalf("%+v", r)
	}
}

func TestReasons(t *testing.T) {
	first := New().Start(Evidence{Kernel: "k1", OOMKills: 2, Panic: "old"}, fine)
	marked := first
	marked.Mark(Mark{Reason: wire.BootDisconnect, Detail: "a week", Planned: true})
	for _, c := range []struct {
		name    string
		r       Record
		ev      Evidence
		want    wire.BootReason
		reboots uint64
		crashes uint64
	}{
		{"no start before", New(), Evidence{Kernel: "k1"}, wire.BootFirst, 1, 0},
		{"somebody said why", marked, Evidence{Kernel: "k1"}, wire.BootDisconnect, 1, 0},
		{"also over a reboot", marked, Evidence{Kernel: "k2"}, wire.BootDisconnect, 2, 0},
		{"a crash", first, Evidence{Kernel: "k1", OOMKills: 2, Panic: "old"}, wire.BootFatal, 1, 1},
		{"out of memory", first, Evidence{Kernel: "k1", OOMKills: 3}, wire.BootOOM, 1, 1},
		{"the counter starts anew", first, Evidence{Kernel: "k2", OOMKills: 9}, wire.BootPowerFail, 2, 1},
		{"power", first, Evidence{Kernel: "k2", Panic: "old"}, wire.BootPowerFail, 2, 1},
		{"kernel", first, Evidence{Kernel: "k2", Panic: "new"}, wire.BootKernel, 2, 1},
		{"nothing is known", first, Evidence{}, wire.BootUnknown, 1, 1},
		{"the record was lost", Rebuild(nil), Evidence{Kernel: "k1"}, wire.BootUnknown, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := c.r.Start(c.ev, fine).Boot
			if b.Reason != c.want || b.Reboots != c.reboots || b.Crashes != c.crashes || b.Number != c.r.Boot.Number+1 {
				t.Errorf("%+v", b)
			}
		})
	}
	r := first.Start(Evidence{Kernel: "k1"}, fine).Start(Evidence{Kernel: "k1"}, fine)
	if r.Boot.Crashes != 2 || len(r.Unreported) != 3 {
		t.Errorf("%+v", r)
	}
	if r.Reported(2); len(r.Unreported) != 1 || r.Unreported[0].Number != 3 {
		t.Errorf("%+v", r.Unreported)
	}
	for range 2 * boot.MaxUnreported {
		r = r.Start(Evidence{Kernel: "k1"}, fine)
	}
	if len(r.Unreported) != most || r.Dropped != most+1 || r.Unreported[most-1] != r.Boot {
		t.Errorf("%d unreported, %d dropped", len(r.Unreported), r.Dropped)
	}
	if d := r.Direct(Evidence{Kernel: "k1"}); d.Boot.Slot != Factory || d.Boot.Number != r.Boot.Number+1 {
		t.Errorf("%+v", d.Boot)
	}
}

func TestRefusals(t *testing.T) {
	r := staged(t, committed(t), "2")
	for _, c := range []struct {
		name string
		do   func() error
		want string
	}{
		{"no tries", func() error { _, err := r.Arm(B, 0); return err }, "1 to 10"},
		{"too many", func() error { _, err := r.Arm(B, 11); return err }, "1 to 10"},
		{"the good one", func() error { _, err := r.Arm(A, 1); return err }, "in force already"},
		{"the factory one", func() error { _, err := r.Arm(Factory, 1); return err }, "no slot that can be tried"},
		{"an empty one", func() error { _, err := committed(t).Arm(B, 1); return err }, "holds nothing"},
		{"another one while one is armed", func() error {
			r := r.with(A, Slot{Version: "0", Hash: hash("c"), Size: 1, Verdict: Failed})
			r.Good = Factory
			_, err := armed(t, r, B, 1).Arm(A, 1)
			return err
		}, "a trial is in progress"},
		{"the one that is on trial",
			func() error { _, err := armed(t, r, B, 1).Start(Evidence{}, fine).Arm(B, 1); return err },
			"a trial is in progress"},
		{"an approval before the start", func() error { _, err := armed(t, r, B, 1).Approve("anna"); return err },
			"not been started"},
		{"an approval of nothing", func() error { _, err := r.Approve("anna"); return err }, "no trial"},
		{"staging in a trial", func() error { _, err := armed(t, r, B, 1).Target(); return err },
			"a trial is in progress"},
		{"a commit before the start", func() error { _, err := armed(t, r, B, 1).Commit(B); return err },
			"not been started"},
		{"a commit of another",
			func() error { _, err := armed(t, r, B, 1).Start(Evidence{}, fine).Commit(A); return err },
			"not been started"},
		{"the good one in a trial",
			func() error { _, err := armed(t, r, B, 1).RollBack(A, wire.BootFallback, ""); return err },
			"a trial is in progress"},
		{"another one", func() error { _, err := r.RollBack(B, wire.BootFallback, ""); return err },
			"neither on trial nor in force"},
		{"a staging of before", func() error { _, err := r.Begin(B).Staged(r.Seq, Slot{}); return err },
			"another staging"},
	} {
		if err := c.do(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// An approval counts for one trial, also where a launcher that does not know it has left it behind.
func TestApprovalIsOfOneTrial(t *testing.T) {
	ev := Evidence{Kernel: "k"}
	r, err := armed(t, staged(t, committed(t), "2"), B, 2).Start(ev, fine).Approve("anna")
	if err != nil || r.ApprovedBy() != "anna" {
		t.Fatalf("%+v %v", r, err)
	}
	if again := r.Start(ev, fine); again.ApprovedBy() != "anna" {
		t.Errorf("it does not outlive a restart: %+v", again)
	}
	left := r.Approved
	r.Seq++
	if r, err = r.RollBack(B, wire.BootFallback, ""); err != nil || r.Approved != (Approval{}) {
		t.Fatalf("%+v %v", r, err)
	}
	r.Approved = left
	if r = armed(t, staged(t, r.Start(ev, fine), "3"), B, 2).Start(ev, fine); !r.Boot.Trial || r.ApprovedBy() != "" {
		t.Errorf("%+v", r)
	}
}
