package app

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/shared/wire"
)

// TestSettingsCrashEverywhere lets the machine die at every operation of taking the settings of
// health: after the next start they are in force.
func TestSettingsCrashEverywhere(t *testing.T) {
	n := settingsDie(t, 0)
	if n < 4 {
		t.Fatalf("only %d operations", n)
	}
	for i := 1; i <= n+2 && !t.Failed(); i++ {
		settingsDie(t, i)
	}
	t.Logf("%d moments", n)
}

func settingsDie(t *testing.T, at int) (operations int) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.listen()
		r.beacon(1, r.signer)
		f := &fault{rig: r, at: at, die: true}
		f.install()
		r.start()
		r.desire(healthDoc(1, `{"formatVersion":"1","contact":"PT100S"}`))
		f.arm(true)
		r.desire(healthDoc(2, `{"formatVersion":"1","contact":"PT110S"}`))
		f.arm(false)
		operations, _ = f.state()
		if at > 0 {
			r.stop()
			r.deps.Steps, r.deps.StoreFaults, r.deps.NewLink = nil, nil, r.link
			f.mu.Lock()
			f.dead = false
			f.mu.Unlock()
			r.start()
		}
		r.pass(time.Minute)
		r.mu.Lock()
		all := r.reports[wire.KindHealth]
		last := all[len(all)-1]
		r.mu.Unlock()
		if last.Running == nil || last.Last == nil || last.Running.Rev != 2 || last.Last.State != wire.StateInstalled {
			t.Errorf("death at %d of %d: running %v, last %v", at, operations, last.Running, fmt.Sprint(last.Last))
		}
		r.stop()
	})
	return operations
}
