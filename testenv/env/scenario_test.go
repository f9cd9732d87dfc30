package env_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	controller "tandem.internal/controller/app"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/env"
)

func TestOfflineNodeCatchesUp(t *testing.T) {
	env.Run(t, env.Setup{}, func(e *env.Env) {
		e.Apply(env.Doc("1.0.0"))
		e.Reached("1.0.0")
		e.Node("n2").Stop()
		e.Apply(env.Doc("2.0.0"))
		if r := e.Apply(env.Doc("3.0.0")); !slices.Equal(r.Checks.Unchecked, []string{"n2"}) {
			t.Errorf("unchecked nodes: %v, want n2", r.Checks.Unchecked)
		}
		e.Reached("3.0.0", "n1", "n3")
		e.Pass(time.Hour)
		e.Node("n2").Start()
		e.Reached("3.0.0")
		if _, times := e.Node("n2").Told(); times != 2 {
			t.Errorf("n2's software was told %d times, want once for 1.0.0 and once for 3.0.0", times)
		}
		e.Calm()
	})
}

// A node's own rules are asked before anything is accepted, if the node is there.
func TestNodeRefusesByItsOwnRules(t *testing.T) {
	env.Run(t, env.Setup{Nodes: []env.NodeSpec{{Name: "n1"}, {Name: "n2", MaxPriority: 5}}}, func(e *env.Env) {
		e.Apply(env.Doc("1.0.0"))
		e.Reached("1.0.0")
		r := e.Refused(env.Doc("2.0.0", env.Entry{Priority: 9}), wire.CodeNotAllowed)
		if r.Error.Node != "n2" || r.Error.Path != "/priority" || r.Checks.Asked != 2 || r.Checks.Agreed != 1 {
			t.Errorf("refused with %v at %s, checks %+v", r.Error, r.Error.Path, r.Checks)
		}
		e.Pass(time.Minute)
		for _, n := range e.Nodes() {
			if !e.Runs(n.Name, "1.0.0") {
				t.Errorf("%s does not run 1.0.0 any more", n.Name)
			}
		}

		e.Node("n2").Stop() // nobody can ask it now
		e.Apply(env.Doc("2.0.0", env.Entry{Priority: 9}))
		e.Reached("2.0.0", "n1")
		e.Node("n2").Start()
		e.Until(time.Minute, "n2 has refused", func() bool {
			v, _ := e.View("n2")
			last := v.Documents[wire.KindConfig].Last
			return last != nil && last.Version == "2.0.0" && last.State == wire.StateRejected &&
				last.Error.Code == wire.CodeNotAllowed
		})
		if v, _ := e.View("n2"); v.InSync || v.Documents[wire.KindConfig].Running.Version != "1.0.0" {
			t.Errorf("n2 is shown as %+v", v)
		}
		if p := e.Status().Progress; p.Installed != 1 || p.Failed != 1 || len(p.Missing) != 1 ||
			p.Missing[0].Node != "n2" {
			t.Errorf("progress is %+v", p)
		}
		e.Apply(env.Doc("3.0.0", env.Entry{Priority: 5}))
		e.Reached("3.0.0")
		e.Calm()
	})
}

// A restart repeats nothing: no new documents, no work on the nodes.
func TestControllerRestarts(t *testing.T) {
	both(t, func(t *testing.T, s env.Setup) {
		env.Run(t, s, func(e *env.Env) {
			e.Apply(env.Doc("1.0.0"))
			e.Reached("1.0.0")
			issued := len(e.Entries("issued"))
			for _, restart := range []func(){e.Controller.Stop, e.Controller.Kill} {
				restart()
				e.Pass(time.Minute)
				e.Controller.Start()
				e.Until(time.Minute, "all are online again", func() bool { return e.Status().Progress.Online == 3 })
				e.Pass(time.Minute)
			}
			if n := len(e.Entries("issued")); n != issued {
				t.Errorf("%d issues after two restarts, want %d as before", n, issued)
			}
			wantTold(e, 1)
			e.Apply(env.Doc("2.0.0"))
			e.Reached("2.0.0")
			e.Calm()
		})
	})
}

// both runs a test with the embedded broker and with one of its own.
func both(t *testing.T, f func(*testing.T, env.Setup)) {
	t.Run("embedded", func(t *testing.T) { f(t, env.Setup{}) })
	t.Run("external", func(t *testing.T) { f(t, env.Setup{External: true}) })
}

// wantTold checks how often each node's software was told something.
func wantTold(e *env.Env, want int) {
	e.Helper()
	for _, n := range e.Nodes() {
		if version, times := n.Told(); times != want {
			e.Errorf("the software of %s was told %d times, the last time of %s; want %d", n.Name, times, version, want)
		}
	}
}

func TestBrokerIsWipedOrSwapped(t *testing.T) {
	for name, replace := range map[string]func(*env.Broker){"wiped": (*env.Broker).Wipe,
		"swapped": (*env.Broker).Swap} {
		t.Run(name, func(t *testing.T) {
			env.Run(t, env.Setup{External: true}, func(e *env.Env) {
				e.Apply(env.Doc("1.0.0"))
				e.Reached("1.0.0")
				e.Node("n3").Stop()
				desired := topic.ForNode(env.Unit, "n3").Desired(wire.KindConfig)
				before, _ := e.Broker.Retained(desired)
				replace(e.Broker)
				e.Until(time.Minute, "the document of a node that is not there is retained again", func() bool {
					_, ok := e.Broker.Retained(desired)
					return ok
				})
				after, _ := e.Broker.Retained(desired)
				if a, b := stamp(t, before), stamp(t, after); a != b {
					t.Errorf("retained %v before and %v after", a, b)
				}
				e.Node("n3").Start()
				e.Until(time.Minute, "all are online again", func() bool { return e.Status().Progress.Online == 3 })
				wantTold(e, 1)
				e.Apply(env.Doc("2.0.0"))
				e.Reached("2.0.0")
				e.Calm()
			})
		})
	}
}

func submission(doc []byte) controller.Submission {
	return controller.Submission{Kind: "config", Document: doc}
}

func stamp(t *testing.T, payload []byte) wire.Stamp {
	t.Helper()
	d, err := wire.Decode[wire.Desired](payload)
	if err != nil {
		t.Fatal(err)
	}
	return d.Stamp()
}

// A node that changes its type gets another document, and nobody else does.
func TestNodeTypeChange(t *testing.T) {
	env.Run(t, env.Setup{}, func(e *env.Env) {
		e.Apply(env.Doc("1.0.0", env.Entry{Labels: []string{"main"}},
			env.Entry{Type: "sideType", Labels: []string{"side"}}))
		e.Reached("1.0.0")
		issued := len(e.Entries("issued"))
		n2 := e.Node("n2")
		n2.Stop()
		n2.SetType("sideType")
		n2.Start()
		e.Until(time.Minute, "n2 has the other document",
			func() bool { return strings.Contains(string(n2.File()), `"side"`) })
		e.Reached("1.0.0")
		more := e.Entries("issued")[issued:]
		if len(more) != 1 || !strings.Contains(string(more[0].Data), `"nodes":["n2"]`) {
			t.Errorf("issued %v, want one document for n2", more)
		}
		for _, name := range []string{"n1", "n3"} {
			if _, times := e.Node(name).Told(); times != 1 {
				t.Errorf("%s was told %d times", name, times)
			}
		}
		e.Calm()
	})
}

func TestNewNodeJoinsLater(t *testing.T) {
	both(t, func(t *testing.T, s env.Setup) {
		env.Run(t, s, func(e *env.Env) {
			e.Apply(env.Doc("1.0.0", env.Entry{}, env.Entry{Node: "n9", Labels: []string{"own"}}))
			e.Reached("1.0.0")
			e.Pass(time.Hour)
			n9 := e.Add(env.NodeSpec{Name: "n9"})
			n9.Start()
			e.Reached("1.0.0")
			if !strings.Contains(string(n9.File()), `"own"`) {
				t.Errorf("n9 runs %s", n9.File())
			}
			n8 := e.Add(env.NodeSpec{Name: "n8", Type: "unheardOf"}) // no entry: the default
			n8.Start()
			e.Reached("1.0.0")
			e.Calm()
		})
	})
}

// A report that never arrives is noticed, because live tells its number, and asked for.
func TestLostReportIsAskedFor(t *testing.T) {
	env.Run(t, env.Setup{External: true}, func(e *env.Env) {
		e.Apply(env.Doc("1.0.0"))
		e.Reached("1.0.0")
		e.Pass(time.Minute)
		lost := 0
		reports := topic.ForNode(env.Unit, "n2").Reported(wire.KindConfig)
		e.Controller.Road().Drop(func(fromBroker bool, topic string) bool {
			if fromBroker && topic == reports && lost < 6 {
				lost++
				return true
			}
			return false
		})
		e.Apply(env.Doc("2.0.0"))
		e.Until(time.Second, "n2 runs it",
			func() bool { return strings.Contains(string(e.Node("n2").File()), "2.0.0") })
		e.Reached("2.0.0")
		if lost < 3 {
			t.Errorf("only %d reports were lost", lost)
		}
		e.Calm()
	})
}

// A document that never reaches its node is missed, because the node does not report it.
func TestLostDocumentIsSentAgain(t *testing.T) {
	both(t, func(t *testing.T, s env.Setup) {
		env.Run(t, s, func(e *env.Env) {
			e.Apply(env.Doc("1.0.0"))
			e.Reached("1.0.0")
			lost := 0
			e.Node("n2").Road().Drop(func(fromBroker bool, topic string) bool {
				if fromBroker && strings.Contains(topic, "/desired/") && lost < 2 {
					lost++
					return true
				}
				return false
			})
			e.Apply(env.Doc("2.0.0"))
			e.Reached("2.0.0")
			if lost != 2 {
				t.Errorf("%d documents were lost, want 2", lost)
			}
			e.Calm()
		})
	})
}

// A document that a node failed at is not pushed again, not even when the node starts anew, until somebody submits the
// next one.
func TestFailedNodeIsNotPushedUnasked(t *testing.T) {
	env.Run(t, env.Setup{Nodes: []env.NodeSpec{{Name: "n1"}, {Name: "n2"}}}, func(e *env.Env) {
		e.Apply(env.Doc("1.0.0"))
		e.Reached("1.0.0")
		e.Apply(env.Doc("2.0.0", env.Entry{}, env.Entry{Node: "n2", Labels: []string{env.Boom}}))
		failed := func(rev uint64) func() bool {
			return func() bool {
				v, _ := e.View("n2")
				last := v.Documents[wire.KindConfig].Last
				return last != nil && last.State == wire.StateFailed && last.Rev > rev
			}
		}
		e.Until(time.Minute, "n2 has failed", failed(0))
		first := e.Node("n2").Last().Rev
		e.Pass(time.Hour)
		if last := e.Node("n2").Last(); last.Rev != first {
			t.Errorf("issued again (rev %d after %d) though n2 did not start anew", last.Rev, first)
		}
		for range 2 {
			issued := len(e.Entries("issued"))
			e.Node("n2").Restart()
			e.Pass(time.Hour)
			if again := e.Node("n2").Last().Rev; again != first || len(e.Entries("issued")) != issued {
				t.Errorf("issued again unasked: rev %d after %d", again, first)
			}
		}
		e.Apply(env.Doc("2.0.1", env.Entry{}, env.Entry{Node: "n2", Labels: []string{env.Boom}}))
		e.Until(time.Minute, "n2 has failed at the next version", failed(first))
		e.Calm()
	})
}
