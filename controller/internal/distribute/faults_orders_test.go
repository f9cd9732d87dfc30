package distribute

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// Fault table of the orders: a commit that failed and is not on the disk × one that failed and is ×
// how often in a row × the journal is opened again by the running controller, by another one. The
// caller is told code storage; afterwards everything acknowledged is there, and the order is wholly
// there or not at all.
func TestOrderWhoseCommitFails(t *testing.T) {
	try := func(r *faulty) error {
		_, err := r.core.Submit(r.Context(),
			view.Submission{Kind: "config", Document: faultyDoc("2.0.0"), Mode: wire.ModeTry, ConfirmWithin: time.Hour,
				Offline: true})
		return err
	}
	const (
		installed = "installed 1.0.0 trial=- node=1.0.0/apply broker=1.0.0/apply file=1.0.0"
		updated   = "installed 2.0.0 trial=- node=2.0.0/apply broker=2.0.0/apply file=2.0.0"
		trying    = "installed 1.0.0 trial=2.0.0 node=2.0.0/try broker=2.0.0/try file=1.0.0"
		confirmed = "installed 2.0.0 trial=- node=2.0.0/try broker=2.0.0/try file=2.0.0"
		failed    = "failed 1.0.0 trial=- node=1.0.0/apply broker=1.0.0/apply file=damaged"
	)
	for _, c := range []struct {
		name    string
		prepare func(*faulty) error
		order   func(*faulty) error
		old     string // not there
		new     string // there, if it was on the disk
	}{
		{"submit", nil, func(r *faulty) error { _, err := r.submit("2.0.0"); return err }, installed, updated},
		{"try", nil, try, installed, trying},
		{"confirm", try, confirmFaulty, trying, confirmed},
		{"restore", func(r *faulty) error {
			r.write([]byte("{"))
			_, err := r.core.SourceStatus(r.Context(), wire.KindConfig)
			return err
		}, restoreFaulty, failed, failed}, // the file was not written, and is found damaged again
	} {
		for _, times := range []int{1, 3} {
			for _, persisted := range []bool{false, true} {
				for _, restart := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/times=%d/persisted=%v/restart=%v", c.name, times, persisted, restart),
						func(t *testing.T) {
							withFaults(t, nil, func(t *testing.T, r *faulty) {
								r.join("n")
								r.install("1.0.0")
								if c.prepare != nil {
									if err := c.prepare(r); err != nil {
										t.Fatal(err)
									}
								}
								synctest.Wait()
								if got := r.summary(); got != c.old {
									t.Fatalf("before\n got %s\nwant %s", got, c.old)
								}
								durable := r.core.journal.Load().Last()
								if persisted {
									r.disk.fail(0, times)
								} else {
									r.disk.fail(times, 0)
								}
								r.mustBe("the caller", c.order(r), wire.CodeStorage)
								r.mustBe("the next caller", c.order(r), wire.CodeStorage)
								shown := c.old
								if persisted {
									shown = c.new
								}
								if persisted && c.name == "restore" {
									shown = installed // by its record; the file is looked at when it can be journaled
								}
								if got := r.shown(); !strings.HasPrefix(shown, got) {
									t.Errorf("a reader sees %s, and the file has %s", got, shown)
								}
								if got := r.outside(); got != outsideOf(c.old) {
									t.Errorf("told outside before it was durable: %s", got)
								}
								if restart {
									r.mustBe("stopping", r.stop(), wire.CodeStorage)
									r.disk.fail(0, 0)
									r.start()
								} else {
									r.recover()
								}
								want := c.old
								if persisted {
									want = c.new
								}
								if got := r.summary(); got != want {
									t.Errorf("afterwards\n got %s\nwant %s", got, want)
								}
								if r.core.journal.Load().Last() <= durable {
									t.Error("nothing was written since")
								}
								doc, err := r.core.Document(t.Context(), wire.KindConfig, "1.0.0")
								if err != nil || string(doc) != string(faultyDoc("1.0.0")) {
									t.Errorf("what was acknowledged: %s %v", doc, err)
								}
								r.whole()
							})
						})
				}
			}
		}
	}
}

// summary tells the unit's state, and what follows from it, in one line.
func (r *faulty) summary() string {
	r.Helper()
	r.look(func(*fleet.Fleet) {}) // the journal can be written
	return r.shown() + r.outside()
}

// shown is the part of the summary that readers see.
func (r *faulty) shown() (s string) {
	r.Helper()
	r.mustBe("a reader", r.core.see(r.Context(), func(f *fleet.Fleet) {
		c := f.State(wire.KindConfig)
		trial := "-"
		if c.Trial != nil {
			trial = c.Trial.Version
		}
		d := f.Lookup("n").Kinds[wire.KindConfig].Desired
		s = fmt.Sprintf("%s %s trial=%s node=%s/%s ", c.State, c.Version, trial, d.Version, d.Mode)
	}), "")
	return s
}

// outside is the part of the summary that the world sees.
func (r *faulty) outside() string {
	r.Helper()
	synctest.Wait()
	payload, _ := r.broker.Retained(topic.ForNode(faultyUnit, "n").Desired(wire.KindConfig))
	d, err := wire.Decode[wire.Desired](payload)
	if err != nil {
		r.Fatalf("%v in %s", err, payload)
	}
	file := "damaged"
	if uc, problems := unitconfig.Parse([]byte(r.file())); len(problems) == 0 {
		file = uc.Version
	}
	return fmt.Sprintf("broker=%s/%s file=%s", d.Version, d.Mode, file)
}

func outsideOf(summary string) (s string) {
	var state, version, trial, node, broker, file string
	if _, err := fmt.Sscan(summary, &state, &version, &trial, &node, &broker, &file); err != nil {
		panic(err)
	}
	return broker + " " + file
}

// Who waits for the nodes' verdict when the journal breaks is told at once, and the submission is
// not accepted behind its back later.
func TestWaitingOrderIsToldOfAFailure(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		r.join("n") // and will not answer
		began, answer := time.Now(), make(chan error, 1)
		go func() {
			_, err := r.core.Submit(t.Context(), view.Submission{Kind: "config", Document: faultyDoc("1.0.0")})
			answer <- err
		}()
		synctest.Wait()
		r.disk.fail(1, 0)
		r.mustBe("another message", r.hear(live("n", 2)), wire.CodeStorage)
		r.mustBe("the submission", <-answer, wire.CodeStorage)
		if took := time.Since(began); took != 0 {
			t.Errorf("told after %v", took)
		}
		r.recover()
		time.Sleep(time.Minute)
		if s := r.status(); s.State != kind.Absent || len(r.records(record.Accepted, record.Refused)) != 0 {
			t.Errorf("%+v", s)
		}
		r.whole()
	})
}

// push brings a submission from the cloud side and returns what was answered.
func (r *faulty) push(id, version string) wire.Answer {
	r.Helper()
	to := topic.ForOutbox(faultyUnit, "config")
	before := r.broker.published(to)
	r.deliver(topic.ForInbox(faultyUnit, "config"),
		wire.Encode(&wire.Submission{V: wire.Version, ID: id, From: "cloud", Document: faultyDoc(version)}))
	synctest.Wait()
	payload, _ := r.broker.Retained(to)
	a, err := wire.Decode[wire.Answer](payload)
	if err != nil || a.ID != id || r.broker.published(to) != before+1 {
		r.Fatalf("%d answers, the last is %s: %v", r.broker.published(to)-before, payload, err)
	}
	return *a
}

// A submission from the cloud side that could not be judged may be sent again under its ID.
func TestUnjudgedInboxSubmissionMayBeSentAgain(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		r.disk.fail(1, 0)
		if a := r.push("a", "1.0.0"); a.State != "refused" || a.Error == nil || a.Error.Code != wire.CodeStorage {
			t.Errorf("%+v", a)
		}
		r.recover()
		if a := r.push("a", "1.0.0"); a.State != "accepted" || a.Version != "1.0.0" {
			t.Errorf("%+v", a)
		}
	})
}

// The journal knows the verdicts on the cloud side's submissions, and only on those: the newest
// are answered from it.
func TestInboxRemembersVerdicts(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		if a := r.push("old", "1.0.0"); a.State != "accepted" {
			t.Fatalf("%+v", a)
		}
		for i := range maxAnswered - 2 {
			r.push(fmt.Sprint("more", i), "1.0.0")
		}
		said := []wire.Answer{r.push("good", "2.0.0"), r.push("bad", "0.1.0")}
		if said[0].State != "accepted" || said[1].State != "refused" || said[1].Error.Code != wire.CodeWrongState {
			t.Fatalf("%+v", said)
		}
		if _, err := r.core.Submit(t.Context(),
			view.Submission{Kind: "config", ID: "operator", Via: "http", Document: faultyDoc("3.0.0"),
				Offline: true}); err != nil {
			t.Fatal(err)
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		r.start()
		var b inbox
		b.init()
		if err := b.remember(r.core.journal.Load()); err != nil {
			t.Fatal(err)
		}
		as := func(id, version string) submitted {
			return submitted{"config", id, wire.Hash(faultyDoc(version)), wire.ModeApply, 0, false, "", false, ""}
		}
		for _, want := range said {
			got, anew := b.begin(as(want.ID, want.Version), line{}, time.Time{})
			if anew || got == nil {
				t.Errorf("%s would be judged again", want.ID)
			} else {
				want.Time, want.Sig, want.Of = time.Time{}, nil, "" // each time that it is published these are new
				if a, b := wire.Encode(got), wire.Encode(&want); string(a) != string(b) {
					t.Errorf("answered %s, said %s", a, b)
				}
			}
		}
		tried := as("good", "2.0.0")
		tried.mode, tried.within = wire.ModeTry, time.Minute
		for _, s := range []submitted{as("operator", "3.0.0"), as("old", "1.0.0"), as("never", "1.0.0"),
			as("good", "2.0.1"), tried} {
			if again, anew := b.begin(s, line{}, time.Time{}); !anew || again != nil {
				t.Errorf("%+v: remembered %+v", s, again)
			} else {
				b.wg.Done()
			}
		}
		b.close()
	})
}

// A copy that is damaged while the journal is broken is found when it is back.
func TestCopyIsLookedAtWhenTheJournalIsBack(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		r.install("1.0.0")
		r.disk.fail(1, 0)
		r.mustBe("a message", r.hear(live("n", 1)), wire.CodeStorage)
		if err := os.Remove(r.core.cfg.Copy); err != nil {
			t.Fatal(err)
		}
		r.recover()
		if r.file() != string(faultyDoc("1.0.0")) {
			t.Errorf("the copy is %s", r.file())
		}
	})
}

// A look at the copy that is out of date does no lasting harm: whoever asks for the state sees the
// file as it is.
func TestConfigStatusHealsWhenTheFileIsWhole(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		r.join("n")
		r.install("1.0.0")
		wants := func(what, state string) {
			t.Helper()
			if s := r.status(); s.State != state {
				t.Errorf("%s: %s %v, want %s", what, s.State, s.Error, state)
			}
		}
		r.write([]byte("{"))
		wants("a damaged file", kind.Failed)
		r.write(faultyDoc("1.0.0"))
		wants("written again by hand", kind.Installed)

		r.write([]byte("{"))
		wants("a damaged file", kind.Failed)
		stale, _ := r.core.readCopy()
		s, err := r.core.Restore(as(t.Context(), "tester"), wire.KindConfig)
		if err != nil || s.State != kind.Installed {
			t.Errorf("%+v %v", s, err)
		}
		r.look(func(*fleet.Fleet) { // what was read before the restoring comes after it
			r.core.step(stale)
			r.core.commit()
		})
		wants("after a stale look", kind.Installed)
		if r.file() != string(faultyDoc("1.0.0")) {
			t.Errorf("the copy is %s", r.file())
		}
		r.install("1.0.1") // and the unit distributes again
		r.whole()
	})
}

func confirmFaulty(r *faulty) error {
	_, err := r.core.Confirm(as(r.Context(), "tester"), wire.KindConfig)
	return err
}

func restoreFaulty(r *faulty) error {
	_, err := r.core.Restore(as(r.Context(), "tester"), wire.KindConfig)
	return err
}
