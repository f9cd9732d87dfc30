package env_test

import (
	"testing"
	"time"

	"tandem.internal/shared/wire"
	"tandem.internal/testenv/env"
)

// trying says that a node tries a version and still knows what to go back to.
func trying(e *env.Env, name, version string) func() bool {
	return func() bool {
		last := e.Node(name).Last()
		return last != nil && last.Version == version && last.State == wire.StateTrying
	}
}

func TestTrialIsConfirmed(t *testing.T) {
	both(t, func(t *testing.T, s env.Setup) {
		env.Run(t, s, func(e *env.Env) {
			e.Apply(env.Doc("1.0.0"))
			e.Reached("1.0.0")
			r := e.Try(env.Doc("2.0.0"), 2*time.Minute)
			for _, n := range e.Nodes() {
				e.Until(time.Minute, n.Name+" tries 2.0.0", trying(e, n.Name, "2.0.0"))
			}
			if s := e.Status(); s.Version != "1.0.0" || s.Trial == nil || s.Trial.Version != "2.0.0" ||
				!s.Trial.Deadline.Equal(r.Deadline) {
				t.Errorf("status in a trial is %+v", s)
			}
			e.Refused(env.Doc("2.0.0"), wire.CodeAlreadyExists)
			e.Pass(time.Minute)
			e.Confirm()
			e.Reached("2.0.0")
			e.Pass(time.Hour) // past every deadline
			e.Reached("2.0.0")
			wantTold(e, 2)
			e.Calm()
		})
	})
}

func TestTrialExpires(t *testing.T) {
	both(t, func(t *testing.T, s env.Setup) {
		env.Run(t, s, func(e *env.Env) {
			e.Apply(env.Doc("1.0.0"))
			e.Reached("1.0.0")
			e.Try(env.Doc("2.0.0"), 2*time.Minute)
			e.Until(time.Minute, "n1 tries 2.0.0", trying(e, "n1", "2.0.0"))
			e.Pass(2 * time.Minute)
			e.Reached("1.0.0")
			if s := e.Status(); s.Trial != nil || s.Version != "1.0.0" || s.State != "installed" {
				t.Errorf("after the trial the status is %+v", s)
			}
			if _, err := e.TryConfirm(); wire.AsError(err).Code != wire.CodeNotFound {
				t.Errorf("confirmed too late: %v", err)
			}
			e.Refused(env.Doc("2.0.0"), wire.CodeQuarantined)
			e.Apply(env.Doc("2.0.1"))
			e.Reached("2.0.1")
			e.Calm()
		})
	})
}

// The first configuration of a unit, on trial: there is nothing to go back to but nothing.
func TestFirstTrialExpires(t *testing.T) {
	env.Run(t, env.Setup{}, func(e *env.Env) {
		e.Try(env.Doc("1.0.0"), time.Minute)
		e.Until(30*time.Second, "n1 tries 1.0.0", trying(e, "n1", "1.0.0"))
		e.Pass(5 * time.Minute)
		for _, n := range e.Nodes() {
			if n.File() != nil {
				t.Errorf("%s still has %s", n.Name, n.File())
			}
		}
		if s := e.Status(); s.State != "absent" || s.Trial != nil {
			t.Errorf("status is %+v", s)
		}
		e.Calm()
	})
}

// A node that dies in a trial resumes it, and rolls back when its time has come, with nobody there.
func TestTrialOutlivesNode(t *testing.T) {
	env.Run(t, env.Setup{}, func(e *env.Env) {
		e.Apply(env.Doc("1.0.0"))
		e.Reached("1.0.0")
		e.Try(env.Doc("2.0.0"), 10*time.Minute)
		n2 := e.Node("n2")
		e.Until(time.Minute, "n2 tries 2.0.0", trying(e, "n2", "2.0.0"))
		e.Controller.Stop()
		n2.Kill()
		e.Pass(time.Minute)
		n2.SetClock(-time.Hour) // and its clock is of no use
		n2.Start()
		e.Pass(time.Minute)
		if !trying(e, "n2", "2.0.0")() {
			t.Errorf("after its restart n2 is %+v", n2.Last())
		}
		e.Pass(9 * time.Minute)
		if last := n2.Last(); last.State != wire.StateRolledBack || last.Error.Code != wire.CodeUnconfirmed {
			t.Errorf("without a confirmation n2 is %+v", last)
		}
		if v, _ := n2.Told(); v != "1.0.0" {
			t.Errorf("n2's software was last told of %s", v)
		}
		e.Controller.Start()
		e.Calm()
		e.Reached("1.0.0")
	})
}

// A node that was away when the trial was confirmed keeps what it tried, if it comes back in time;
// if it has rolled back, it gets the confirmed configuration again.
func TestTrialIsConfirmedWhileANodeIsAway(t *testing.T) {
	for name, away := range map[string]time.Duration{"in time": time.Minute, "too late": time.Hour} {
		t.Run(name, func(t *testing.T) {
			env.Run(t, env.Setup{}, func(e *env.Env) {
				e.Apply(env.Doc("1.0.0"))
				e.Reached("1.0.0")
				e.Try(env.Doc("2.0.0"), 10*time.Minute)
				n2 := e.Node("n2")
				e.Until(time.Minute, "n2 tries 2.0.0", trying(e, "n2", "2.0.0"))
				n2.Road().Close()
				e.Confirm()
				e.Reached("2.0.0", "n1", "n3")
				e.Pass(away)
				n2.Road().Clear()
				e.Reached("2.0.0")
				if _, times := n2.Told(); name == "in time" && times != 2 {
					t.Errorf("n2's software was told %d times, want 2", times)
				}
				e.Calm()
			})
		})
	}
}

// A node that was away for all of the trial gets the configuration when the trial is over.
func TestTrialPassesANodeBy(t *testing.T) {
	env.Run(t, env.Setup{}, func(e *env.Env) {
		e.Apply(env.Doc("1.0.0"))
		e.Reached("1.0.0")
		e.Node("n2").Stop()
		e.Try(env.Doc("2.0.0"), time.Minute)
		e.Confirm()
		e.Pass(10 * time.Minute)
		e.Node("n2").Start()
		e.Reached("2.0.0")
		e.Calm()
	})
}

func TestTrialOutlivesController(t *testing.T) {
	for _, confirm := range []bool{true, false} {
		env.Run(t, env.Setup{}, func(e *env.Env) {
			e.Apply(env.Doc("1.0.0"))
			e.Reached("1.0.0")
			e.Try(env.Doc("2.0.0"), 2*time.Minute)
			e.Until(time.Minute, "n1 tries 2.0.0", trying(e, "n1", "2.0.0"))
			e.Controller.Kill()
			e.Pass(time.Minute)
			e.Controller.Start()
			want := "1.0.0"
			if confirm {
				e.Confirm()
				want = "2.0.0"
			}
			e.Pass(10 * time.Minute)
			e.Reached(want)
			e.Calm()
		})
	}
}
