package env_test

import (
	"fmt"
	"testing"
	"time"

	controller "tandem.internal/controller/app"
	"tandem.internal/shared/race"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/env"
	"tandem.internal/testenv/fault"
)

// A story is what goes on while one operation of one machine goes wrong, and what must be true when
// calm has returned.
type story struct {
	name string
	bare bool // no configuration beforehand
	play func(c *crash)
	end  []string // versions that everybody may run in the end; "" for none
	late bool     // play says when the operations begin to count
}

var stories = []story{
	{name: "apply", play: func(c *crash) { c.submit(env.Doc("2.0.0")) }, end: []string{"2.0.0"}},
	{name: "first apply", bare: true, play: func(c *crash) { c.submit(env.Doc("2.0.0")) }, end: []string{"2.0.0"}},
	{name: "apply twice", play: func(c *crash) { c.submit(env.Doc("1.5.0")); c.submit(env.Doc("2.0.0")) },
		end: []string{"2.0.0"}},
	{name: "fails on every node", play: func(c *crash) {
		c.submit(env.Doc("2.0.0", env.Entry{Labels: []string{env.Boom}}))
	}, end: []string{"1.0.0"}},
	{name: "trial confirmed", play: func(c *crash) {
		c.try(env.Doc("2.0.0"))
		c.e.Pass(5 * time.Second)
		if _, err := c.e.TryConfirm(); err == nil {
			c.confirmed = true
		}
	}, end: []string{"1.0.0", "2.0.0"}},
	{name: "trial expired", play: func(c *crash) {
		c.try(env.Doc("2.0.0"))
		c.e.Pass(2 * time.Minute)
	}, end: []string{"1.0.0"}},
	{name: "rollback", play: func(c *crash) {
		c.submit(env.Doc("1.5.0"))
		c.e.Pass(time.Second)
		c.again("1.0.0", "2.0.0")
	}, end: []string{"2.0.0"}},
	{name: "start after a crash", late: true, play: func(c *crash) {
		c.submit(env.Doc("2.0.0"))
		c.machine.Kill()
		c.stop()
		c.arm()
		_ = c.start() // may die of it
	}, end: []string{"2.0.0"}},
	{name: "start in a trial", late: true, play: func(c *crash) {
		c.try(env.Doc("2.0.0"))
		c.e.Pass(5 * time.Second)
		c.machine.Kill()
		c.stop()
		c.e.Pass(2 * time.Minute)
		c.arm()
		_ = c.start()
	}, end: []string{"1.0.0"}},
}

// crash is one run of a story.
type crash struct {
	e         *env.Env
	final     controller.Submission // the last one, to be repeated if it was not acknowledged
	open      bool                  // it was not
	confirmed bool

	machine *fault.Machine
	arm     func()
	stop    func()
	start   func() error
}

func (c *crash) hand(s controller.Submission) {
	c.e.Later(s, func(r controller.Result, err error) {
		c.final, c.open = s, err != nil || r.State != "accepted"
	})()
}

func (c *crash) submit(doc []byte) { c.hand(controller.Submission{Kind: "config", Document: doc}) }

func (c *crash) try(doc []byte) {
	c.hand(controller.Submission{Kind: "config", Document: doc, Mode: wire.ModeTry, ConfirmWithin: time.Minute})
}

func (c *crash) again(version, as string) {
	if !c.open {
		if err := c.e.TryRollback(version, as); err == nil {
			return
		}
	}
	c.final, c.open = controller.Submission{Kind: "config", Document: env.Doc(as)}, true
}

// run plays a story while the at-th operation of the machine goes wrong, and returns what there
// was until then.
func (s story) run(t *testing.T, setup env.Setup, which string, at int, how fault.Flavour) (ops []fault.Op) {
	setup.Label = fmt.Sprintf("%s, %s %s at %d: ", s.name, which, how, at)
	setup.Nodes = []env.NodeSpec{{Name: "n1"}, {Name: "n2"}}
	env.Run(t, setup, func(e *env.Env) {
		if !s.bare {
			e.Apply(env.Doc("1.0.0"))
			e.Reached("1.0.0")
			e.Pass(time.Second)
		}
		c := &crash{e: e, machine: e.Controller.Machine, stop: e.Controller.Stop, start: e.Controller.TryStart}
		if which != "controller" {
			n := e.Node(which)
			c.machine, c.stop, c.start = n.Machine, n.Stop, n.TryStart
		}
		c.arm = func() { c.machine.Arm(at, how) }
		if !s.late {
			c.arm()
		}
		s.play(c)
		e.Pass(10 * time.Second)
		ops = c.machine.Disarm()
		e.Calm()
		if c.open { // not acknowledged: the operator does it again, and is told if it was done after all
			c.final.Force = true // its trial may have begun, and ended, in between
			r, err := e.Submit(c.final)
			if err != nil || r.State != "accepted" && r.Error.Code != wire.CodeAlreadyExists {
				e.Wrong("again: %s %v %v", r.State, r.Error, err)
			}
			e.Calm()
		}
		want := s.end
		if c.confirmed {
			want = []string{"2.0.0"}
		}
		for _, n := range e.Nodes() {
			if !oneOf(e, n, want) {
				e.Wrong("%s ends with %s, want %q", n.Name, n.File(), want)
			}
		}
	})
	return ops
}

func oneOf(e *env.Env, n *env.Node, versions []string) bool {
	for _, v := range versions {
		if n.Holds(v) {
			return true
		}
	}
	return false
}

// everywhere lets each operation of a story go wrong in turn, in both flavours; under the race
// detector, which makes it six times as long, each fourth.
func everywhere(t *testing.T, setup env.Setup, which string) {
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			count, step := 0, 1
			if race.Enabled {
				step = 4
			}
			for _, how := range []fault.Flavour{fault.Crash, fault.Fail} {
				for at := 1; !t.Failed(); at += step {
					ops := s.run(t, setup, which, at, how)
					if len(ops) < at {
						if len(ops) < 4 {
							t.Errorf("only %d operations: %v", len(ops), ops)
						}
						break
					}
					count++
				}
			}
			t.Logf("%d moments", count)
		})
	}
}

// TestControllerCrashesEverywhere: at every commit, before it and after it, every step of writing
// the readable copy and every message that leaves, with the embedded broker and with another.
func TestControllerCrashesEverywhere(t *testing.T) {
	both(t, func(t *testing.T, s env.Setup) {
		if race.Enabled && s.External {
			t.Skip("takes minutes under the race detector; the schedules have external brokers, too")
		}
		everywhere(t, s, "controller")
	})
}

// TestNodeCrashesEverywhere: at every commit, before it and after it, every step of writing
// config.json, around the on-apply command, and at every message that leaves.
func TestNodeCrashesEverywhere(t *testing.T) {
	everywhere(t, env.Setup{}, "n2")
}
