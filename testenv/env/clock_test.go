package env_test

import (
	"testing"
	"time"

	"tandem.internal/testenv/env"
)

// A controller whose clock was set back while it was off still has the nodes' ears: they answer its
// questions, and a trial that it confirms stays.
func TestControllersClockWasSetBack(t *testing.T) {
	env.Run(t, env.Setup{}, func(e *env.Env) {
		e.Apply(env.Doc("1.0.0"))
		e.Reached("1.0.0")
		e.Controller.Stop()
		e.Controller.SetClock(-20 * 365 * 24 * time.Hour)
		e.Controller.Start()
		e.Pass(5 * time.Minute)
		if r := e.Try(env.Doc("2.0.0"), 10*time.Minute); r.Checks.Agreed != len(e.Nodes()) {
			t.Errorf("of %d nodes %+v", len(e.Nodes()), r.Checks)
		}
		for _, n := range e.Nodes() {
			e.Until(time.Minute, n.Name+" tries 2.0.0", trying(e, n.Name, "2.0.0"))
		}
		e.Confirm()
		e.Reached("2.0.0")
		e.Pass(time.Hour)
		e.Reached("2.0.0")
		e.Controller.Stop()
		e.Controller.SetClock(0)
		e.Controller.Start()
		e.Calm()
	})
}

// A controller whose clock is set back while it runs raises the epoch, once: nodes hear it, and what they prove stays
// in order.
func TestControllersClockIsSetBack(t *testing.T) {
	env.Run(t, env.Setup{}, func(e *env.Env) {
		e.Apply(env.Doc("1.0.0"))
		e.Reached("1.0.0")
		before := epoch(e)
		e.Controller.TurnClock(-20 * time.Minute)
		e.Pass(3 * time.Minute)
		raised := epoch(e)
		if raised <= before {
			t.Errorf("the epoch is %d, and was %d", raised, before)
		}
		if r := e.Try(env.Doc("2.0.0"), 10*time.Minute); r.Checks.Agreed != len(e.Nodes()) {
			t.Errorf("of %d nodes %+v", len(e.Nodes()), r.Checks)
		}
		e.Confirm()
		e.Reached("2.0.0")
		e.Controller.TurnClock(-20*time.Minute - 20*time.Second) // too little for that
		e.Pass(3 * time.Minute)
		if now := epoch(e); now != raised {
			t.Errorf("the epoch is %d, and was raised to %d", now, raised)
		}
		e.Calm()
	})
}
