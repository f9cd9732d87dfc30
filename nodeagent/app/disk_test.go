package app

import (
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/shared/wire"
)

// The disk is full for an hour: nothing new runs, nothing wrong is said, and all is well after it.
func TestFullDisk(t *testing.T) {
	bubble(t, func(r *rig) {
		var full atomic.Bool
		r.deps.StoreFaults = func(Point) error {
			if full.Load() {
				return syscall.ENOSPC
			}
			return nil
		}
		r.start()
		r.desire(doc(1, 1))
		full.Store(true)
		r.desire(doc(1, 2))
		r.want("1/2 failed storage", "1.0.0")
		r.pass(time.Hour)
		r.desire(doc(1, 3))
		r.want("1/3 failed storage", "1.0.0")
		p := wire.CheckParams{Kind: "config", Version: "1.0.0", Body: body("1.0.0")}
		if e := r.request(wire.MethodCheck, wire.Encode(&p)).Error; e != nil {
			t.Error(e)
		}
		full.Store(false)
		r.pass(11 * time.Minute)
		r.want("3/3 installed", "3.0.0")
	})
}

// A disk that is full for longer than memory has room for events: those that are lost are counted.
func TestFullDiskLosesEvents(t *testing.T) {
	bubble(t, func(r *rig) {
		var full atomic.Bool
		r.deps.StoreFaults = func(Point) error {
			if full.Load() {
				return syscall.ENOSPC
			}
			return nil
		}
		r.start()
		garbage := func() { r.publish(r.topics.Desired(wire.KindConfig), []byte("garbage"), false) }
		full.Store(true)
		const refused = 60 // and each is an event
		for range refused {
			garbage()
			r.pass(time.Minute)
		}
		full.Store(false)
		r.pass(time.Minute)
		garbage()
		r.pass(time.Minute)
		garbage()
		r.pass(time.Minute)
		r.mu.Lock()
		defer r.mu.Unlock()
		last, lost, told := uint64(0), uint64(0), 0
		for _, ev := range r.events {
			if ev.Seq != last+1+ev.Lost {
				t.Errorf("event %d comes after %d, and %d are lost", ev.Seq, last, ev.Lost)
			}
			if last = ev.Seq; ev.Type == inbox.EventRefusedMessage {
				told++
			}
			lost += ev.Lost
		}
		if told >= refused || uint64(told)+lost < refused+2 {
			t.Errorf("%d refused messages are told of, %d events are lost; there were %d", told, lost, refused+2)
		}
	})
}

// A trial is rolled back in time although the disk has become full, and stays rolled back.
func TestFullDiskDuringTrial(t *testing.T) {
	bubble(t, func(r *rig) {
		var full atomic.Bool
		r.deps.StoreFaults = func(Point) error {
			if full.Load() {
				return syscall.ENOSPC
			}
			return nil
		}
		r.start()
		r.desire(doc(1, 1))
		r.desire(try(doc(1, 2), "PT1M"))
		full.Store(true)
		if e := r.confirm(1, 2).Error; e == nil || e.Code != wire.CodeStorage {
			t.Errorf("a confirmation that cannot be saved: %v", e)
		}
		r.want("1/2 trying", "2.0.0")
		r.pass(61 * time.Second)
		r.want("1/2 rolledback unconfirmed", "1.0.0")
		full.Store(false)
		r.pass(time.Minute)
		r.restart()
		r.pass(time.Hour)
		r.want("1/2 rolledback unconfirmed", "1.0.0")
	})
}
