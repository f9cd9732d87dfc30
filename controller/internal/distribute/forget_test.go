package distribute

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/link"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// leaves has a node join, report and go; the broker retains what it said.
func (r *faulty) leaves(node string) {
	r.Helper()
	r.join(node)
	of := topic.ForNode(faultyUnit, node)
	_, report := info(node, 1)
	down := wire.Encode(&wire.Live{V: wire.Version, Node: node, Boot: "b", Session: 1})
	r.broker.retain(of.Reported(wire.KindInfo), report)
	r.broker.retain(of.Live(), down)
	r.broker.retain(of.Reported("unheard-of"), []byte("{}"))
	r.deliver(of.Live(), down)
	synctest.Wait()
}

// retainedOf are the topics of a node at which the broker retains something.
func (r *faulty) retainedOf(node string) (all []string) {
	r.broker.mu.Lock()
	defer r.broker.mu.Unlock()
	for name, payload := range r.broker.retained {
		if strings.Contains(name, "/"+node+"/") && len(payload) > 0 {
			all = append(all, name[strings.Index(name, "/"+node+"/")+len(node)+2:])
		}
	}
	slices.Sort(all)
	return all
}

func (r *faulty) mustRetain(when, node string, want ...string) {
	r.Helper()
	if got := r.retainedOf(node); !slices.Equal(got, want) {
		r.Errorf("%s: of %s the broker retains %q, not %q", when, node, got, want)
	}
}

func (r *faulty) mustKnow(when string, want ...string) {
	r.Helper()
	all, err := r.core.Nodes(r.Context())
	var got []string
	for _, n := range all.Nodes {
		got = append(got, n.Node)
	}
	if err != nil || !slices.Equal(got, want) {
		r.Errorf("%s: the nodes are %q, %v; not %q", when, got, err, want)
	}
}

// again starts the controller anew at a broker outside that has kept everything, or what it had before.
func (r *faulty) again(had map[string][]byte, collects bool) {
	r.Helper()
	if err := r.stop(); err != nil {
		r.Fatal(err)
	}
	if had == nil {
		had = r.broker.retained
	}
	r.start()
	o := &outside{at: r.broker, core: r.core}
	r.broker.retained = maps.Clone(had)
	if collects {
		r.core.outbox.mu.Lock()
		r.core.outbox.link = o
		r.core.outbox.mu.Unlock()
	}
	for name, payload := range had { // as it comes when a controller subscribes
		t, err := topic.Parse(name)
		if err == nil && len(payload) > 0 && (t.Leaf == topic.Live || t.Leaf == topic.Reported) {
			r.core.Handler().Message(link.Message{Topic: name, Payload: payload, Retained: true})
		}
	}
	o.next(2, false)
}

// What the broker retains of a node that was forgotten is taken away, at once or when it is found, and makes it no node
// again: not after a start, and not when all that is left of it in the journal is the checkpoint.
func TestForgottenIsCleared(t *testing.T) {
	for name, collects := range map[string]bool{"a broker outside": true, "one that is asked": false} {
		t.Run(name, func(t *testing.T) {
			withFaults(t, keepFew, func(t *testing.T, r *faulty) {
				r.install("1.0.0")
				r.leaves("n")
				r.leaves("other")
				left := []string{"desired/config", "live", "reported/info", "reported/unheard-of"}
				r.mustRetain("before", "n", left...)
				had := maps.Clone(r.broker.retained)
				if _, err := r.core.Forget(r.Context(), op.Forget{Nodes: []string{"n"}}); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				r.mustRetain("forgotten", "n", "reported/unheard-of") // nobody knows of it before it is found
				r.mustRetain("forgotten", "other", left...)
				r.mustKnow("forgotten", "other")
				r.again(had, collects) // it was away, and has kept everything
				r.mustRetain("after a start", "n")
				r.mustRetain("after a start", "other", left...)
				r.mustKnow("after a start", "other")

				if err := r.core.compact(r.Context()); err != nil {
					t.Fatal(err)
				}
				r.again(had, collects)
				r.mustKnow("compacted", "other")
				all, err := r.core.Entries(r.Context(), view.EntryFilter{Types: []string{record.Forgotten.String()}})
				if err != nil || len(all) != 1 || all[0].Node != "n" {
					t.Errorf("the record of it: %+v, %v", all, err)
				}

				r.join("n")
				synctest.Wait()
				time.Sleep(time.Second)
				r.mustKnow("it is back", "n", "other")
				r.mustRetain("it is back", "n", "desired/config")
			})
		})
	}
}

// A node that was revoked has no documents at the broker, whoever published them.
func TestRevokedHasNoDocuments(t *testing.T) {
	for name, collects := range map[string]bool{"a broker outside": true, "one that is asked": false} {
		t.Run(name, func(t *testing.T) {
			withFaults(t, nil, func(t *testing.T, r *faulty) {
				r.install("1.0.0")
				r.leaves("n")
				had := maps.Clone(r.broker.retained)
				if _, err := r.core.Revoke(r.Context(), op.RevokeIn{NodeIn: op.NodeIn{Node: "n"}}); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				left := []string{"live", "reported/info", "reported/unheard-of"}
				r.mustRetain("revoked", "n", left...)
				r.install("2.0.0")
				r.mustRetain("after another version", "n", left...)
				r.again(had, collects)
				r.mustRetain("after a start", "n", left...)
				r.mustKnow("after a start", "n")
				if got := r.core.fleet.State(wire.KindConfig).Version; got != "2.0.0" {
					t.Errorf("the unit has %q", got)
				}
			})
		})
	}
}
