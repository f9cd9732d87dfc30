package distribute

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// A commit that failed once does not stop the unit for as long as its nodes keep talking.
func TestBrokenJournalIsTriedAgainUnderTraffic(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		r.join("n")
		r.disk.fail(1, 0)
		r.mustBe("the message whose commit failed", r.hear(live("n", 2)), wire.CodeStorage)
		idle := r.busy()
		began := time.Now()
		for r.core.Refusing() != nil && time.Since(began) < time.Hour {
			time.Sleep(50 * time.Millisecond)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the journal was tried again after %v", took)
		}
		idle()
		r.install("1.0.0")
		r.whole()
	})
}

// After a failure nobody is known to be online; those who were are asked, and are by answering. A
// message whose commit failed was not acknowledged and left no trace.
func TestNodesAreAskedWhenTheJournalIsBack(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		const nodes = 10
		for i := range nodes {
			r.join(fmt.Sprint("n", i))
		}
		left := topic.ForNode(faultyUnit, "gone")
		r.join("gone")
		if err := r.hear(left.Live(),
			wire.Encode(&wire.Live{V: wire.Version, Node: "gone", Boot: "b", Session: 1})); err != nil {
			t.Fatal(err)
		}
		r.disk.fail(1, 0)
		r.mustBe("a new node", r.hear(live("x", 1)), wire.CodeStorage)
		r.recover()
		if _, err := r.core.Node(t.Context(), op.NodeIn{Node: "x"}); err == nil {
			t.Error("what was refused is known")
		}
		if p := r.status().Progress; p.Nodes != nodes+1 || p.Online != 0 {
			t.Errorf("%+v", p)
		}
		for i := range nodes {
			name := fmt.Sprint("n", i)
			if n := r.broker.published(topic.ForNode(faultyUnit, name).Request()); n != 1 {
				t.Errorf("%s was asked %d times", name, n)
			}
			if err := r.hear(live(name, 1)); err != nil {
				t.Error(err)
			}
		}
		if n := r.broker.published(left.Request()); n != 0 {
			t.Error("a node that had left was asked")
		}
		if p := r.status().Progress; p.Online != nodes {
			t.Errorf("after their answers: %+v", p)
		}
	})
}

// While the disk stays full nothing is published that says otherwise, everybody is told, and the
// attempts become rare; when there is room again, the unit goes on by itself.
func TestFullDiskDoesNotFlap(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		r.join("n")
		r.install("1.0.0")
		time.Sleep(greetApart) // and the node is greeted
		synctest.Wait()
		r.disk.fail(1<<30, 0)
		r.mustBe("the first message", r.hear(live("n", 2)), wire.CodeStorage)
		synctest.Wait()
		sent, beacons, tried := r.broker.total(), r.broker.published(topic.ForController(faultyUnit)), r.disk.tried()
		for range 600 {
			r.deliver(live("n", 2))
			r.mustBe("Refusing", r.core.Refusing(), wire.CodeStorage)
			time.Sleep(time.Second)
		}
		if n := r.broker.published(topic.ForController(faultyUnit)) - beacons; n > 10 {
			t.Errorf("%d beacons in 10 minutes, one a minute is due", n)
		} else if all := r.broker.total() - sent; all != n {
			t.Errorf("%d messages besides the beacons", all-n)
		}
		if n := r.disk.tried() - tried; n < 5 || n > 20 {
			t.Errorf("the disk was tried %d times in 10 minutes", n)
		}
		_, err := r.submit("2.0.0")
		r.mustBe("a submission", err, wire.CodeStorage)
		r.shows("1.0.0")
		r.disk.fail(0, 0)
		r.recover()
		r.install("2.0.0")
		r.whole()
	})
}

// Messages are refused while the journal is broken, and for good once the controller stops.
func TestRefusing(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		r.mustBe("at the start", r.core.Refusing(), "")
		r.disk.fail(2, 0)
		r.mustBe("its commit failed", r.hear(live("n", 1)), wire.CodeStorage)
		known := r.disk.tried()
		r.mustBe("afterwards", r.hear(live("n", 1)), wire.CodeStorage)
		if r.disk.tried() != known {
			t.Error("the refused message was written")
		}
		time.Sleep(3 * time.Second) // the first attempt fails, too
		r.mustBe("still broken", r.core.Refusing(), wire.CodeStorage)
		r.recover()
		r.mustBe("sent again", r.hear(live("n", 1)), "")
		r.look(func(f *fleet.Fleet) {
			if n := f.Lookup("n"); n == nil || !n.Up {
				t.Error("the message that was acknowledged is not there")
			}
		})
		r.core.Refuse()
		r.mustBe("stopping", r.hear(live("m", 1)), wire.CodeUnavailable)
		r.look(func(f *fleet.Fleet) {
			if f.Lookup("m") != nil {
				t.Error("a message was taken after Refuse")
			}
		})
	})
}

// When many nodes show in one batch that they have newer documents, the epoch is raised and everything issued again
// once.
func TestEpochIsRaisedOnceForManyReports(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		const nodes = 200
		for i := range nodes {
			r.join(fmt.Sprint("n", i))
		}
		r.install("1.0.0")
		epoch, issued := r.core.journal.Load().Epoch(), len(r.records(record.Issued))
		known := &wire.DocRef{Epoch: epoch, Rev: 1_000_000, Version: "9.0.0", Hash: wire.Hash([]byte("x"))}
		for i := range nodes {
			name := fmt.Sprint("n", i)
			r.deliver(topic.ForNode(faultyUnit, name).Reported(wire.KindConfig),
				wire.Encode(&wire.Reported{V: wire.Version, Node: name, Kind: wire.KindConfig, Boot: "b", Seq: 1,
					Running: known}))
		}
		synctest.Wait()
		if s, err := r.core.Status(t.Context()); err != nil || s.Epoch != epoch {
			t.Errorf("by their word alone, epoch %d after %d: %v", s.Epoch, epoch, err)
		}
		release := r.disk.hold()
		var wg sync.WaitGroup
		wg.Go(func() { r.deliver(live("other", 1)) }) // its commit stands still while the answers gather
		synctest.Wait()
		for i := range nodes {
			name := fmt.Sprint("n", i)
			wg.Go(func() { r.showsDocument(name, known) })
		}
		synctest.Wait()
		release()
		wg.Wait()
		synctest.Wait()
		s, err := r.core.Status(t.Context())
		if err != nil || s.Epoch <= epoch {
			t.Fatalf("epoch %d after %d: %v", s.Epoch, epoch, err)
		}
		if n := len(r.records(record.Issued)) - issued; n != 1 {
			t.Errorf("%d reports made %d issues", nodes, n)
		}
		for i := range nodes {
			to := topic.ForNode(faultyUnit, fmt.Sprint("n", i)).Desired(wire.KindConfig)
			payload, _ := r.broker.Retained(to)
			if d, err := wire.Decode[wire.Desired](payload); err != nil || d.Epoch != s.Epoch {
				t.Fatalf("%s: %v in %s", to, err, payload)
			}
		}
		r.whole()
	})
}

// A look whose caller has gone is not run: its caller reads what it would write.
func TestAbandonedLookIsNotRun(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		release := r.disk.hold()
		var wg sync.WaitGroup
		wg.Go(func() { r.deliver(live("n", 1)) })
		synctest.Wait() // the loop waits for the disk
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ran := false
		r.mustBe("a look that ended first", r.core.look(ctx, func(*fleet.Fleet) { ran = true }), wire.CodeTimeout)
		all, err := r.core.Nodes(ctx)
		r.mustBe("Nodes", err, wire.CodeTimeout)
		release()
		wg.Wait()
		synctest.Wait()
		if ran || len(all.Nodes) > 0 {
			t.Error("it was run all the same")
		}
	})
}

// A look that has begun is waited for, whatever its caller's context says.
func TestLookThatHasBegunIsWaitedFor(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		ctx, cancel := context.WithCancel(t.Context())
		ran := false
		err := r.core.look(ctx, func(*fleet.Fleet) {
			cancel()
			time.Sleep(time.Minute) // virtual: time enough for the caller to leave
			ran = true
		})
		if err != nil || !ran {
			t.Errorf("the caller left a look that ran: %v, %v", ran, err)
		}
	})
}

// A reader that stands behind a submission in the same batch is shown it once it is durable, and
// not at all if it never is.
func TestViewsShowOnlyWhatIsDurable(t *testing.T) {
	for _, c := range []struct {
		name string
		code wire.Code // of the submission and the look behind it
		fail int
	}{{"the commit works", "", 0}, {"the commit fails", wire.CodeStorage, 1}} {
		t.Run(c.name, func(t *testing.T) {
			withFaults(t, nil, func(t *testing.T, r *faulty) {
				r.join("n")
				release := r.disk.hold()
				var wg sync.WaitGroup
				wg.Go(func() { r.deliver(live("n", 2)) })
				synctest.Wait() // the loop waits for the disk, and what comes now is one batch
				var submitted, looked error
				var doc []byte
				var seen, durable uint64
				ev := r.core.parse(view.Submission{Kind: "config", Document: faultyDoc("1.0.0"), Offline: true}, nil)
				wg.Go(func() {
					_, submitted = r.core.order(t.Context(), func(ticket uint64) fleet.Event {
						ev.Ticket = ticket
						return ev
					})
				})
				synctest.Wait()
				wg.Go(func() {
					looked = r.core.look(t.Context(),
						func(f *fleet.Fleet) { seen, durable = f.Seq(), r.core.journal.Load().Last() })
				})
				synctest.Wait()
				wg.Go(func() { doc, _ = r.core.Document(t.Context(), wire.KindConfig, "") })
				synctest.Wait()
				r.core.queue.mu.Lock()
				behind := len(r.core.queue.items)
				r.core.queue.mu.Unlock()
				if behind != 3 {
					t.Fatalf("%d events in the batch, want 3", behind)
				}
				r.disk.failAfter(1, c.fail, 0)
				release()
				wg.Wait()
				r.mustBe("the submission", submitted, c.code)
				r.mustBe("the look", looked, c.code)
				if seen > durable {
					t.Errorf("shown record %d when %d was durable", seen, durable)
				}
				if got := string(doc) == string(faultyDoc("1.0.0")); got != (c.code == "") {
					t.Errorf("the configuration is %s", doc)
				}
				r.recover()
				r.whole()
			})
		})
	}
}

// A copy that could not be written is written while messages come without a pause.
func TestCopyIsRetriedUnderTraffic(t *testing.T) {
	sub := func(c *Config) { c.Copy = filepath.Join(filepath.Dir(c.Copy), "sub", "unit-config.json") }
	withFaults(t, sub, func(t *testing.T, r *faulty) {
		r.install("1.0.0")
		s, err := r.core.Status(t.Context())
		if err != nil || len(s.Trouble) != 1 {
			t.Errorf("the trouble is not told: %v %v", s.Trouble, err)
		}
		if err := os.Mkdir(filepath.Dir(r.core.cfg.Copy), 0o700); err != nil {
			t.Fatal(err)
		}
		idle := r.busy()
		time.Sleep(2 * copyRetry) // virtual
		idle()
		if r.file() != string(faultyDoc("1.0.0")) {
			t.Errorf("the copy is %s", r.file())
		}
		if s, err = r.core.Status(t.Context()); err != nil || len(s.Trouble) != 0 {
			t.Errorf("trouble: %v %v", s.Trouble, err)
		}
	})
}

// An answer that the broker did not take, or that found no session, is sent when that is over.
func TestUnsentAnswersSurviveASession(t *testing.T) {
	to := topic.ForOutbox(faultyUnit, "config")
	for _, c := range []struct {
		name          string
		before, after func(*faulty)
	}{
		{"the broker does not take it", func(r *faulty) { r.broker.refuseNext(to, 3) },
			func(*faulty) { time.Sleep(time.Minute) }},
		{"no session", func(r *faulty) { r.core.Handler().Down(1, errors.New("cut")) },
			func(r *faulty) { r.core.Handler().Up(2) }},
		{"the session ends while it is tried", func(r *faulty) { r.broker.refuseNext(to, 1) }, func(r *faulty) {
			r.core.Handler().Down(1, errors.New("cut"))
			synctest.Wait()
			r.core.Handler().Up(2)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			withFaults(t, nil, func(t *testing.T, r *faulty) {
				c.before(r)
				r.deliver(topic.ForInbox(faultyUnit, "config"),
					wire.Encode(&wire.Submission{V: wire.Version, ID: "s1", From: "cloud",
						Document: faultyDoc("1.0.0")}))
				synctest.Wait()
				if n := r.broker.published(to); n != 0 {
					t.Fatalf("%d answers before the fault was over", n)
				}
				c.after(r)
				synctest.Wait()
				payload, _ := r.broker.Retained(to)
				if a, err := wire.Decode[wire.Answer](payload); err != nil || a.ID != "s1" || a.State != "accepted" {
					t.Errorf("%v in %s", err, payload)
				}
				if n := r.broker.published(to); n != 1 {
					t.Errorf("answered %d times", n)
				}
			})
		})
	}
}

// Without a session nothing gathers that nobody needs later; the newest status is there after it.
func TestBeaconsDoNotPileUp(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		r.core.Handler().Down(1, errors.New("cut"))
		for _, v := range []string{"1.0.0", "1.0.1", "1.0.2"} {
			r.install(v)
		}
		time.Sleep(48 * time.Hour) // virtual
		r.core.outbox.mu.Lock()
		waiting := len(r.core.outbox.plain)
		r.core.outbox.mu.Unlock()
		if waiting > 1 {
			t.Errorf("%d messages wait", waiting)
		}
		beacons := r.broker.published(topic.ForController(faultyUnit))
		r.core.Handler().Up(2)
		synctest.Wait()
		if n := r.broker.published(topic.ForController(faultyUnit)) - beacons; n < 1 || n > 2 {
			t.Errorf("%d beacons at the start of a session", n)
		}
		r.core.Handler().Down(2, errors.New("cut"))
		r.broker.mu.Lock()
		clear(r.broker.retained)
		r.broker.mu.Unlock()
		r.core.Handler().Up(3)
		synctest.Wait()
		payload, _ := r.broker.Retained(topic.ForOutbox(faultyUnit, statusTopic))
		if !strings.Contains(string(payload), `"version":"1.0.2"`) {
			t.Errorf("after the broker has lost everything it has %q", payload)
		}
	})
}
