package health

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"tandem.internal/shared/clock"
	"tandem.internal/shared/wire"
)

const second = wire.Span(time.Second)

// Whose word counts, and what happens to settings that do not go together.
func TestResolve(t *testing.T) {
	limit := func(max float64) *wire.HealthLimits { return &wire.HealthLimits{CPU: &wire.HealthLimit{Max: max}} }
	type s = wire.HealthSettings
	for _, test := range []struct {
		name           string
		local, desired s
		want           func(s) bool
		at             string // of the error; "" for none
	}{
		{"defaults", s{}, s{}, func(r s) bool {
			return r.Reset == wire.DefaultReset && r.Deadline == 1800*second && *r.Reboot && !*r.Approval
		}, ""},
		{"the node's own", s{Reset: 1000 * second}, s{}, func(r s) bool { return r.Reset == 1000*second }, ""},
		{"the controller's comes first", s{Reset: 1000 * second, Test: 700 * second}, s{Reset: 2000 * second},
			func(r s) bool { return r.Reset == 2000*second && r.Test == 700*second }, ""},
		{"limits one by one", s{Checks: limit(0.5)}, s{Checks: &wire.HealthLimits{Disk: &wire.HealthLimit{Max: 0.7}}},
			func(r s) bool { return r.Checks.CPU.Max == 0.5 && r.Checks.Disk.Max == 0.7 }, ""},
		{"the controller's limit comes first", s{Checks: limit(0.5)}, s{Checks: limit(0.6)},
			func(r s) bool { return r.Checks.CPU.Max == 0.6 }, ""},
		{"the node forbids reboots", s{Reboot: new(false)}, s{Reboot: new(true)}, func(r s) bool { return !*r.Reboot },
			""},
		{"the controller forbids reboots", s{Reboot: new(true)}, s{Reboot: new(false)},
			func(r s) bool { return !*r.Reboot }, ""},
		{"the node wants approval", s{Approval: new(true)}, s{Approval: new(false)},
			func(r s) bool { return *r.Approval && r.Deadline == wire.ApprovalDeadline }, ""},
		{"the controller wants approval", s{}, s{Approval: new(true)}, func(r s) bool { return *r.Approval }, ""},
		{"alone sound, together not", s{Reset: 200 * second, Fallback: 200 * second}, s{Fallback: 300 * second},
			func(r s) bool { return r.Reset == wire.DefaultReset && r.Fallback == 300*second }, "/reset"},
		{"together not, and what is forbidden stays so",
			s{Contact: 400 * second, Fallback: 400 * second, Reboot: new(false)},
			s{Fallback: 60 * second, Contact: 30 * second, Test: 61 * second, Deadline: 125 * second,
				Reset: 100 * second},
			func(r s) bool { return r.Reset == wire.DefaultReset && !*r.Reboot }, "/reset"},
		{"the node's alone unsound", s{Test: 30 * second}, s{}, func(r s) bool { return r.Test == wire.DefaultTest },
			"/test"},
	} {
		desired := test.desired
		desired.FormatVersion = wire.HealthFormat
		got, err := Resolve(test.local, &desired)
		if !test.want(got) || got.Check() != nil || (err == nil) != (test.at == "") ||
			err != nil && err.Path != test.at {
			t.Errorf("%s: %+v, %v", test.name, got, err)
		}
	}
	if got, err := Resolve(wire.HealthSettings{Test: 900 * second}, nil); err != nil || got.Test != 900*second {
		t.Errorf("without the controller's: %+v %v", got, err)
	}
}

// Whatever both sides say, what is in effect is sound, complete, and as strict as either.
func TestResolveIsAlwaysSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		any := func(label string) (h wire.HealthSettings) {
			h.FormatVersion = wire.HealthFormat
			for name, to := range map[string]*wire.Span{"reset": &h.Reset, "fallback": &h.Fallback, "test": &h.Test,
				"deadline": &h.Deadline, "contact": &h.Contact, "watchdog": &h.Watchdog} {
				if rapid.Bool().Draw(t, label+name+" given") {
					*to = wire.Span(rapid.IntRange(-1, 5000).Draw(t, label+name)) * second
				}
			}
			if rapid.Bool().Draw(t, label+"reboot given") {
				h.Reboot = new(rapid.Bool().Draw(t, label+"reboot"))
			}
			if rapid.Bool().Draw(t, label+"approval given") {
				h.Approval = new(rapid.Bool().Draw(t, label+"approval"))
			}
			return h
		}
		local, desired := any("local "), any("desired ")
		got, err := Resolve(local, &desired)
		if bad := got.Check(); bad != nil {
			t.Fatalf("%+v is in effect: %v (%v)", got, bad, err)
		}
		no := func(b *bool) bool { return b != nil && !*b }
		yes := func(b *bool) bool { return b != nil && *b }
		if *got.Reboot != (!no(local.Reboot) && !no(desired.Reboot)) && err == nil || *got.Reboot && no(local.Reboot) {
			t.Fatalf("reboot %v of %v and %v", *got.Reboot, local.Reboot, desired.Reboot)
		}
		if yes(local.Approval) && !*got.Approval ||
			err == nil && *got.Approval != (yes(local.Approval) || yes(desired.Approval)) {
			t.Fatalf("approval %v", *got.Approval)
		}
	})
}

// A step that our own code must not make.
func TestImpossibleSteps(t *testing.T) {
	started, _ := New(Durable{}).Step(clock.Now{Wall: epoch}, Started{})
	for name, f := range map[string]func(){
		"before the start": func() { New(Durable{}).Step(clock.Now{}, Tick{}) },
		"started twice":    func() { started.Step(clock.Now{}, Started{}) },
		"no such order":    func() { started.Step(clock.Now{}, Order{What: "dance"}) },
		"no such sample":   func() { started.Step(clock.Now{}, Sample{Name: "mood"}) },
		"a nameless check": func() { started.Step(clock.Now{}, Check{}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
	if _, ok := New(Durable{}).NextDeadline(); ok {
		t.Error("a tick is wanted before the start")
	}
	// The shell's monotonic clock does not go back; if it did, time would stand still.
	late, _ := started.Step(clock.Now{Mono: time.Hour, Wall: epoch}, Tick{})
	if back, _ := late.Step(clock.Now{Mono: time.Minute, Wall: epoch}, Tick{}); back.now.Mono != time.Hour {
		t.Errorf("back at %v", back.now.Mono)
	}
}
