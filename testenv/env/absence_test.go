package env_test

import (
	"strings"
	"testing"
	"time"

	controller "tandem.internal/controller/app"
	node "tandem.internal/nodeagent/app"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/env"
)

func TestTwoSubmissionsAtOnce(t *testing.T) {
	env.Run(t, env.Setup{}, func(e *env.Env) {
		e.Apply(env.Doc("1.0.0"))
		results := make([]controller.Result, 3)
		var waits []func()
		for i, doc := range [][]byte{env.Doc("2.0.0"), env.Doc("2.0.0", env.Entry{Labels: []string{"other"}}),
			env.Doc("3.0.0")} {
			sub := controller.Submission{Kind: "config", Document: doc}
			waits = append(waits, e.Later(sub, func(r controller.Result, err error) {
				if err != nil {
					t.Errorf("submission %d: %v", i, err)
				}
				results[i] = r
			}))
		}
		for _, wait := range waits {
			wait()
		}
		accepted := 0
		for _, r := range results[:2] {
			switch {
			case r.State == "accepted":
				accepted++
			case r.Error.Code != wire.CodeAlreadyExists && r.Error.Code != wire.CodeWrongState:
				t.Errorf("refused with %v", r.Error)
			}
		}
		if accepted > 1 || results[2].State != "accepted" {
			t.Errorf("the same version twice and a higher one: %+v", results)
		}
		e.Reached("3.0.0")
		e.Calm()
	})
}

func TestThreeDaysOffline(t *testing.T) {
	env.Run(t, env.Setup{Nodes: []env.NodeSpec{{Name: "n1"}}}, func(e *env.Env) {
		e.Apply(env.Doc("1.0.0"))
		e.Reached("1.0.0")
		n1 := e.Node("n1")
		n1.Road().Close()
		e.Pass(24 * time.Hour)
		e.Apply(env.Doc("2.0.0"))
		e.Pass(24 * time.Hour)
		n1.Restart() // it works on, whoever is there to ask
		e.Pass(24 * time.Hour)
		if last := n1.Last(); !strings.Contains(string(n1.File()), "1.0.0") || last == nil ||
			last.State != wire.StateInstalled {
			t.Errorf("after three days it runs %s", n1.File())
		}
		n1.Road().Clear()
		e.Reached("2.0.0")
		e.Calm()
	})
}

// An event that never arrives, and the last one at that, is noticed because live tells its number.
func TestLostEventIsAskedFor(t *testing.T) {
	env.Run(t, env.Setup{External: true}, func(e *env.Env) {
		e.Apply(env.Doc("1.0.0"))
		e.Reached("1.0.0")
		lost := 0
		topic := topic.ForNode(env.Unit, "n2").Event()
		e.Controller.Road().Drop(func(fromBroker bool, name string) bool {
			if fromBroker && name == topic && lost < 3 {
				lost++
				return true
			}
			return false
		})
		n2 := e.Node("n2")
		n2.Stop()
		n2.Spoil([]byte("{}"))
		n2.Start()
		e.Until(10*time.Minute, "the repair is in the journal",
			func() bool { return events(e, "n2", "drift-repaired") == 1 })
		if lost != 3 {
			t.Errorf("%d events were lost, want 3", lost)
		}
		e.Calm()
	})
}

// What somebody does to config.json under a running agent is seen at the controller. One node puts it right by
// itself; the other is not in step until its document is sent again.
func TestDrift(t *testing.T) {
	env.Run(t, env.Setup{Nodes: []env.NodeSpec{{Name: "n1", Type: "mainType"},
		{Name: "n2", Type: "mainType", Config: func(c *node.Config) { c.RepairDrift = false }}}}, func(e *env.Env) {
		e.Apply(env.Doc("1.0.0"))
		e.Reached("1.0.0")
		for _, n := range e.Nodes() {
			n.Spoil([]byte("{}"))
		}
		e.Until(time.Minute, "n1 has put it right", func() bool {
			return e.Node("n1").Holds("1.0.0") && events(e, "n1", "drift-repaired") == 1
		})
		e.Until(time.Minute, "n2 is not in step", func() bool {
			v, ok := e.View("n2")
			return ok && !v.Documents[wire.KindConfig].InSync && events(e, "n2", "drift") == 1
		})
		p := e.Status().Progress
		if p.Installed != 1 || p.Failed != 1 || len(p.Missing) != 1 || p.Missing[0].Node != "n2" ||
			p.Missing[0].Error == nil || p.Missing[0].Error.Code != wire.CodeDrift {
			t.Errorf("%+v", p)
		}
		if r := e.Retry(); r.Issued != 1 {
			t.Errorf("sent again: %+v", r)
		}
		e.Reached("1.0.0")
		e.Calm()
		if events(e, "n1", "drift-repaired") != 1 || events(e, "n2", "drift") != 1 {
			t.Error("it was said more than once")
		}
	})
}
