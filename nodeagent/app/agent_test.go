package app

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/wire"
)

// bubble runs a test with a rig whose agent has pinned the unit's key.
func bubble(t *testing.T, f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.listen()
		r.beacon(1, r.signer)
		f(r)
	})
}

func TestApply(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start()
		r.want("-", "")
		r.wantContact(false, time.Time{})
		r.pass(time.Minute)
		r.desire(doc(1, 1))
		r.want("1/1 installed", "1.0.0")
		r.wantContact(true, time.Now())
		r.pass(time.Minute)
		r.desire(doc(1, 2))
		r.wantContact(true, time.Now())
		r.want("2/2 installed", "2.0.0")
		if got := r.ran(); got != "apply 1.0.0 , apply 2.0.0 1.0.0" {
			t.Errorf("ran %q", got)
		}
		info, err := os.Stat(filepath.Join(r.dir, ConfigFile))
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("config.json: %v %v", info, err)
		}
		// In each session the node describes itself.
		r.reports[wire.KindInfo] = nil
		r.restart()
		if all := r.reports[wire.KindInfo]; len(all) == 0 {
			t.Error("the node does not describe itself")
		} else if i := decode[wire.NodeInfo](r, all[0].Detail); i.Type != "mainType" || i.CPUs != 2 || i.RAM != 1<<30 {
			t.Errorf("the node describes itself as %+v", i)
		}
	})
}

// wantContact checks whether contact is reported, and when a document was accepted.
func (r *rig) wantContact(in bool, document time.Time) {
	r.Helper()
	document = document.UTC().Truncate(time.Second)
	if c := r.health().Contact; c.In != in || !c.Document.Equal(document) {
		r.Errorf("contact %+v, want %v and a document of %v", c, in, document)
	}
}

// A document that the broker has kept is no contact, nor is one that came before; one that is rejected is no document.
func TestDocumentsAndContact(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start()
		r.desire(doc(1, 1))
		at := time.Now()
		r.stop()
		r.pass(time.Minute)
		r.start() // the same once more
		r.pass(time.Minute)
		r.wantContact(false, at)
		if got := r.health().Contact.Result; got != wire.ContactSaved {
			t.Errorf("it works from what it has saved, and the result is %q", got)
		}
		r.stop()
		r.desire(doc(1, 2))
		r.pass(time.Minute)
		at = time.Now()
		r.start()
		r.want("2/2 installed", "2.0.0")
		r.wantContact(false, at)
		r.pass(time.Minute)
		r.desire(doc(1, 1)) // out of date
		r.wantContact(false, at)
		forged := doc(1, 9)
		forged.Sig = seal.NewSigner(key(7)).Sign(seal.DesiredPreimage(forged))
		r.publish(r.topics.Desired(forged.Kind), forged.Append(nil), true)
		r.wantContact(false, at)
		r.desire(with(doc(1, 3), `{"formatVersion":"7","version":"3.0.0","colour":"red"}`))
		r.want("2/3 rejected unknown-field", "2.0.0")
		r.wantContact(true, at)
	})
}

func TestCatchUp(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start()
		r.desire(doc(1, 1))
		r.stop()
		r.desire(doc(1, 2))
		r.desire(doc(1, 3))
		r.start()
		r.want("3/3 installed", "3.0.0")
		r.hub.Partition("node/n1")
		r.desire(doc(1, 4))
		r.want("3/3 installed", "3.0.0")
		r.hub.Heal("node/n1")
		synctest.Wait()
		r.want("4/4 installed", "4.0.0")
	})
}

func TestRejected(t *testing.T) {
	bubble(t, func(r *rig) {
		r.cfg.MaxPriority = 5
		r.start()
		r.desire(doc(1, 1))
		r.ran()
		r.desire(with(doc(1, 2), `{"formatVersion":"7","version":"2.0.0","priority":6}`))
		r.want("1/2 rejected not-allowed", "1.0.0")
		r.desire(with(doc(1, 3), `{"formatVersion":"7","version":"3.0.0","colour":"red"}`))
		r.want("1/3 rejected unknown-field", "1.0.0")
		if got := r.ran(); got != "" {
			t.Errorf("ran %q for refused documents", got)
		}
		ref := doc(1, 4)
		ref.Body, ref.Ref = nil, &wire.Ref{URL: "http://x/", Hash: ref.Hash}
		r.desire(ref)
		r.want("1/4 rejected not-supported", "1.0.0")
		r.restart() // quarantined: nothing is tried again
		r.pass(time.Hour)
		r.want("1/4 rejected not-supported", "1.0.0")
		other := doc(1, 9)
		other.Kind = "gadgets"
		r.desire(other)
		if got := r.reports["gadgets"]; len(got) != 1 || short(got[0]) != "-/9 rejected not-supported" {
			t.Errorf("a kind without applier was reported as %v", got)
		}
	})
}

func TestCommandFails(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start()
		r.onCommand(func(_ context.Context, mode, version string) error {
			if version == "2.0.0" || version == "3.0.0" && mode == "apply" {
				return errors.New("exit status 1: no such thing")
			}
			return nil
		})
		r.desire(doc(1, 1))
		r.desire(doc(1, 2))
		r.want("1/2 failed apply-failed", "1.0.0")
		if got := r.ran(); got != "apply 1.0.0 , apply 2.0.0 1.0.0, rollback 1.0.0 2.0.0" {
			t.Errorf("ran %q", got)
		}
		r.pass(time.Hour)
		r.restart()
		r.pass(time.Hour)
		if got := r.ran(); got != "" {
			t.Errorf("ran %q for a quarantined document", got)
		}
		r.desire(doc(1, 4))
		r.want("4/4 installed", "4.0.0")
	})
}

func TestFirstDocumentFails(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start()
		r.onCommand(func(context.Context, string, string) error { return errors.New("exit status 1") })
		r.desire(doc(1, 1))
		r.want("-/1 failed apply-failed", "")
		if got := r.ran(); got != "apply 1.0.0 , rollback  1.0.0" {
			t.Errorf("ran %q", got)
		}
		if got := r.eventTypes(); got != "key-pinned restore-trouble" {
			t.Errorf("events %q", got)
		}
	})
}

func TestCommandTimeout(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start()
		r.onCommand(func(ctx context.Context, mode, _ string) error {
			if mode == "apply" {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})
		r.desire(doc(1, 1))
		r.want("-/1 applying", "1.0.0")
		r.pass(30 * time.Second)
		r.want("-/1 failed timeout", "")
	})
}

func TestLatestWins(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start()
		release := make(chan struct{})
		r.onCommand(func(ctx context.Context, mode, version string) error {
			if version == "1.0.0" {
				<-release
			}
			return nil
		})
		r.desire(doc(1, 1))
		r.desire(doc(1, 2))
		r.desire(doc(1, 3))
		r.want("-/1 applying", "1.0.0")
		close(release)
		synctest.Wait()
		r.want("3/3 installed", "3.0.0")
		if got := r.ran(); got != "apply 1.0.0 , apply 3.0.0 1.0.0" {
			t.Errorf("ran %q", got)
		}
	})
}

func TestTryConfirmed(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start()
		r.desire(doc(1, 1))
		r.desire(try(doc(1, 2), "PT2M"))
		r.want("1/2 trying", "2.0.0")
		if e := r.confirm(1, 1).Error; e != nil {
			t.Errorf("confirming what is committed: %v", e)
		}
		if e := r.confirm(1, 7).Error; e == nil || e.Code != wire.CodeNotFound {
			t.Errorf("confirming what is not there: %v", e)
		}
		r.pass(time.Minute)
		if e := r.confirm(1, 2).Error; e != nil {
			t.Error(e)
		}
		r.want("2/2 installed", "2.0.0")
		r.pass(time.Hour)
		if e := r.confirm(1, 2).Error; e != nil {
			t.Errorf("confirming again: %v", e)
		}
		r.want("2/2 installed", "2.0.0")
	})
}

func TestTryUnconfirmed(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start()
		r.desire(doc(1, 1))
		r.desire(try(doc(1, 2), "PT2M"))
		r.hub.Partition("node/n1")
		r.pass(119 * time.Second)
		r.wantFile("2.0.0")
		r.pass(2 * time.Second)
		r.wantFile("1.0.0")
		r.hub.Heal("node/n1")
		synctest.Wait()
		r.want("1/2 rolledback unconfirmed", "1.0.0")
		if got := r.ran(); got != "apply 1.0.0 , try 2.0.0 1.0.0, rollback 1.0.0 2.0.0" {
			t.Errorf("ran %q", got)
		}
		if e := r.confirm(1, 2).Error; e == nil || e.Code != wire.CodeWrongState {
			t.Errorf("confirming too late: %v", e)
		}
	})
}

func TestTrySurvivesRestart(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start()
		r.desire(doc(1, 1))
		r.desire(try(doc(1, 2), "PT2M"))
		r.pass(50 * time.Second)
		r.restart()
		r.want("1/2 trying", "2.0.0")
		r.pass(60 * time.Second)
		r.want("1/2 trying", "2.0.0")
		r.restart()
		r.pass(11 * time.Second)
		r.want("1/2 rolledback unconfirmed", "1.0.0")
	})
}

// A trial ends in time although the clock is set back with each restart.
func TestTryClockJumps(t *testing.T) {
	bubble(t, func(r *rig) {
		jump := time.Duration(0)
		r.deps.Now = func() time.Time { return time.Now().Add(jump) }
		r.start()
		r.desire(doc(1, 1))
		r.desire(try(doc(1, 2), "PT2M"))
		for range 5 {
			r.pass(20 * time.Second)
			jump -= 24 * time.Hour
			r.restart()
			r.want("1/2 trying", "2.0.0")
		}
		r.pass(20 * time.Second)
		r.want("1/2 rolledback unconfirmed", "1.0.0")
		r.desire(try(doc(1, 3), "PT2M"))
		r.stop()
		jump += 100 * 24 * time.Hour // ahead: the wall clock ends it
		r.start()
		r.want("1/3 rolledback unconfirmed", "1.0.0")
	})
}

func TestNewerDuringTrial(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start()
		r.desire(doc(1, 1))
		r.desire(try(doc(1, 2), "PT2M"))
		r.desire(with(doc(1, 3), `{}`)) // refused: back to the last good one, not to the tried one
		r.want("1/3 rejected missing", "1.0.0")
		r.desire(try(doc(1, 4), "PT2M"))
		r.desire(doc(1, 5))
		r.want("5/5 installed", "5.0.0")
		const want = "apply 1.0.0 , try 2.0.0 1.0.0, rollback 1.0.0 3.0.0, try 4.0.0 1.0.0, apply 5.0.0 1.0.0"
		if got := r.ran(); got != want {
			t.Errorf("ran %q", got)
		}
	})
}

func TestForkAndStale(t *testing.T) {
	bubble(t, func(r *rig) {
		r.start()
		r.desire(doc(1, 2))
		r.desire(with(doc(1, 2), string(body("2.0.1"))))
		r.want("2/2 rejected fork", "2.0.0")
		r.desire(doc(1, 2)) // the first one again
		r.want("2/2 installed", "2.0.0")
		r.desire(doc(1, 1))
		r.want("2/2 installed", "2.0.0")
		if got := r.eventTypes(); got != "key-pinned fork stale" {
			t.Errorf("events %q", got)
		}
		r.desire(doc(2, 1)) // a new epoch beats any rev
		r.want("1/1 installed", "1.0.0")
	})
}

// The state file keeps its version while the agent is on trial, and only then.
func TestStoreKnowsOfATrial(t *testing.T) {
	for env, want := range map[string]bool{"1": true, "0": false, "": false} {
		a := &Agent{deps: Deps{LookupEnv: func(name string) (string, bool) {
			return env, name == slot.EnvTrial && env != ""
		}}}
		if got := a.storeConfig("/state"); got.Trial != want {
			t.Errorf("TANDEM_SLOT_TRIAL=%q: trial %v", env, got.Trial)
		}
	}
}
