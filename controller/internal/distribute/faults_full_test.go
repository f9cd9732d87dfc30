package distribute

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/link"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// take brings a message as the embedded broker does. An error ends its sender's session.
func (r *faulty) take(to string, payload []byte) error {
	r.Helper()
	return r.core.Take(func() { r.core.Handler().Message(link.Message{Topic: to, Payload: payload}) })
}

// shows checks that everything can be read while the journal cannot be written, and that the reason is told.
func (r *faulty) shows(version string) {
	r.Helper()
	if s := r.status(); s.Version != version || s.Progress.Nodes != 1 {
		r.Errorf("the state: %+v", s)
	}
	st, err := r.core.Status(r.Context())
	if r.mustBe("the unit", err, ""); !strings.Contains(strings.Join(st.Trouble, "\n"), errDisk.Error()) &&
		!strings.Contains(strings.Join(st.Trouble, "\n"), "the disk is full") {
		r.Errorf("no word of the disk in %q", st.Trouble)
	}
	nodes, err := r.core.Nodes(r.Context())
	if r.mustBe("the nodes", err, ""); len(nodes.Nodes) != 1 {
		r.Errorf("%+v", nodes)
	}
	entries, err := r.core.Entries(r.Context(), view.EntryFilter{})
	if r.mustBe("the entries", err, ""); len(entries) == 0 {
		r.Error("no entries are shown")
	}
	for what, read := range map[string]func() error{
		"a node":        func() error { _, err := r.core.Node(r.Context(), op.NodeIn{Node: "n"}); return err },
		"the document":  func() error { _, err := r.core.Document(r.Context(), wire.KindConfig, ""); return err },
		"the history":   func() error { _, err := r.core.History(r.Context(), wire.KindConfig); return err },
		"the keys":      func() error { _, err := r.core.SigningKeys(r.Context()); return err },
		"the settings":  func() error { _, err := r.core.HealthSettings(r.Context()); return err },
		"the slots":     func() error { _, err := r.core.Slots(r.Context(), op.SlotsIn{}); return err },
		"node health":   func() error { _, err := r.core.NodeHealth(r.Context(), op.NodeIn{Node: "n"}); return err },
		"what it gets":  func() error { _, err := r.core.Resolved(r.Context(), op.ResolveIn{Node: "n"}); return err },
		"whether whole": func() error { _, err := r.core.Verify(r.Context()); return err },
	} {
		r.mustBe(what, read(), "")
	}
}

// While the disk is full no node loses its session by what it says, however often the journal is tried again. What they
// said last is journaled when there is room, in the order that they said it, once.
func TestNodesKeepTheirSessionsWhileTheDiskIsFull(t *testing.T) {
	for _, persisted := range []bool{false, true} { // the second is a failed fsync: the file has what failed
		t.Run(fmt.Sprintf("persisted=%v", persisted), func(t *testing.T) {
			withFaults(t, func(c *Config) { c.MaxBatch = 3 }, func(t *testing.T, r *faulty) {
				r.join("n")
				r.install("1.0.0")
				if persisted {
					r.disk.fail(0, 1<<30)
				} else {
					r.disk.fail(1<<30, 0)
				}
				for i := range 600 {
					seq := uint64(i + 2)
					r.mustBe("presence", r.take(live("n", seq)), "")
					r.mustBe("a report", r.take(info("n", seq)), "")
					r.mustBe("presence of a new node", r.take(live("new", seq)), "")
					r.mustBe("its report", r.take(info("new", seq)), "")
					r.mustBe("malformed", r.take(topic.ForNode(faultyUnit, "n").Live(), []byte("{")), "")
					time.Sleep(time.Second)
				}
				r.mustBe("Refusing", r.core.Refusing(), wire.CodeStorage)
				_, err := r.submit("2.0.0")
				r.mustBe("a submission", err, wire.CodeStorage)
				if !persisted {
					r.shows("1.0.0")
				}
				r.disk.fail(0, 0)
				r.recover()
				r.look(func(f *fleet.Fleet) {
					for _, name := range []string{"n", "new"} {
						if n := f.Lookup(name); n == nil || !n.Up || n.Session != 601 || n.Type() != "m" {
							t.Errorf("%s after the recovery: %+v", name, n)
						}
					}
				})
				if len(r.core.backlog.all) != 0 {
					t.Error("what was journaled is still held")
				}
				r.install("2.0.0")
				r.whole()
			})
		})
	}
}

// A journal that fails again while what was held is journaled, at whichever batch, loses none of it.
func TestDiskIsFullAgain(t *testing.T) {
	const nodes = 9
	for good := range nodes/2 + 2 { // the first record, and batches of two nodes
		withFaults(t, func(c *Config) { c.MaxBatch = 2 }, func(t *testing.T, r *faulty) {
			r.disk.fail(1, 0)
			for i := range nodes {
				r.mustBe("presence", r.take(live(fmt.Sprint("n", i), 1)), "")
			}
			r.disk.failAfter(good, 2, 0)
			r.recover()
			r.look(func(f *fleet.Fleet) {
				for i := range nodes {
					if n := f.Lookup(fmt.Sprint("n", i)); n == nil || !n.Up {
						t.Errorf("n%d is lost when the disk fails after %d commits", i, good)
					}
				}
			})
			r.whole()
		})
	}
}

// What is held is bounded; the newest of what is held already is always taken.
func TestBacklogIsBounded(t *testing.T) {
	var b backlog
	for i := range 3 * maxBacklog / (1 << 20) {
		raw := make([]byte, 1<<20)
		b.keep(fleet.Heard{Node: fmt.Sprint("n", i), Live: &wire.Live{}, Raw: raw})
		b.keep(fleet.Heard{Node: "n0", Live: &wire.Live{Session: uint64(i)}, Raw: raw[:100]})
	}
	if n := len(b.all); b.size > maxBacklog || n < maxBacklog/(1<<20)-1 || n != len(b.at) {
		t.Errorf("%d bytes of %d nodes", b.size, n)
	}
	if b.all[0].Live.Session != 3*maxBacklog/(1<<20)-1 {
		t.Errorf("an old word is held: %+v", b.all[0].Live)
	}
	b.keep(fleet.Heard{Node: "n0", Event: &wire.Event{}})
	b.keep(fleet.Tick{})
	if b.at[backlogKey{node: "n0"}] != 0 || len(b.all) != len(b.at) {
		t.Error("what need not be held is")
	}
}

// A controller that is stopping takes nothing, held or not.
func TestTakeWhileStopping(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		r.join("n")
		r.disk.fail(1, 0)
		r.mustBe("held", r.take(live("n", 2)), "")
		synctest.Wait()
		r.core.Refuse()
		r.mustBe("stopping", r.take(live("n", 3)), wire.CodeUnavailable)
		r.mustBe("stop", r.stop(), wire.CodeStorage)
	})
}
