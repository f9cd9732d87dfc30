package app

import (
	"testing"
	"time"

	"tandem.internal/shared/wire"
)

// What is used of the node goes with the report of its health: a steady one every four minutes.
func TestLoadIsTold(t *testing.T) {
	healthBubble(t, func(p *patient) {
		p.start()
		p.pass(30 * time.Second)
		told := func() (load *wire.HealthLoad, reports int) {
			p.mu.Lock()
			defer p.mu.Unlock()
			all := p.reports[wire.KindHealth]
			h, err := wire.Decode[wire.Health](all[len(all)-1].Detail)
			if err != nil {
				t.Fatal(err)
			}
			return h.Load, len(all)
		}
		load, before := told()
		if load == nil || load.CPU > 1 || load.RAM > 1 {
			t.Fatalf("told %+v", load)
		}
		p.pass(20 * time.Minute)
		if again, after := told(); *again != *load || after-before != 5 {
			t.Errorf("told %+v, %d times", again, after-before)
		}
	})
}
