package distribute

import (
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/shared/topic"
)

// beaconsAt watches the beacons: when each was made, in order, each once.
func (r *faulty) beaconsAt() (stop func() []time.Time) {
	quit, done := make(chan struct{}), make(chan []time.Time)
	go func() {
		var all []time.Time
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			if at := r.beacon().Time; len(all) == 0 || !all[len(all)-1].Equal(at) {
				all = append(all, at)
			}
			select {
			case <-quit:
				done <- all
				return
			case <-tick.C:
			}
		}
	}()
	return func() []time.Time { close(quit); return <-done }
}

// A node that comes online hears a fresh beacon at once, and one that comes just after it a second later.
func TestGreeting(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		time.Sleep(10 * time.Second)
		come := func(name string, session uint64, within time.Duration) {
			t.Helper()
			time.Sleep(100 * time.Millisecond)
			came := time.Now()
			if err := r.hear(live(name, session)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			for r.beacon().Time.Before(came) && time.Since(came) <= within {
				time.Sleep(10 * time.Millisecond)
				synctest.Wait()
			}
			if took := time.Since(came); took > within {
				t.Errorf("%s waited %v for its greeting, %v at most", name, took, within)
			}
		}
		before := r.broker.published(topic.ForController(faultyUnit))
		come("n1", 1, 0)
		come("n2", 1, greetApart)
		come("n1", 2, greetApart)
		time.Sleep(5 * time.Second)
		come("n1", 3, 0)
		synctest.Wait()
		if n := r.broker.published(topic.ForController(faultyUnit)) - before; n != 4 {
			t.Errorf("%d beacons greet four who came one by one", n)
		}
		time.Sleep(5 * time.Second)
		if err := r.hear(live("n1", 3)); err != nil { // the slow beat
			t.Fatal(err)
		}
		synctest.Wait()
		if n := r.broker.published(topic.ForController(faultyUnit)) - before; n != 4 {
			t.Error("a beat is greeted")
		}
		r.whole()
	})
}

// Ten thousand nodes that come back within half a minute, in bursts: each is greeted within ten seconds,
// and all of it takes a few beacons.
func TestStormOfGreetings(t *testing.T) {
	const nodes = 10_000
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		beacons := r.beaconsAt()
		began := time.Now()
		var came []time.Time
		for from := 0; from < nodes; from += 100 {
			time.Sleep(300 * time.Millisecond)
			came = append(came, time.Now())
			for range 100 {
				r.core.outbox.greet(nodes)
			}
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		all := beacons()
		if most := int(time.Since(began)/(10*time.Second)) + 3; len(all) > most {
			t.Errorf("%d beacons, %d at most", len(all), most)
		}
		for i, at := range came {
			next := time.Time{}
			for _, b := range all {
				if next.IsZero() && !b.Before(at) {
					next = b
				}
			}
			if next.IsZero() || next.Sub(at) > 10*time.Second+time.Millisecond {
				t.Fatalf("burst %d came at %v and was greeted %v later (%v)", i, at, next.Sub(at), next)
			}
		}
	})
}

// However large a unit, a node is greeted within a quarter of the time between two beacons.
func TestGreetingsAreNotPutOffForLong(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		r.core.outbox.greet(1_000_000)
		at, ok := r.core.outbox.greetAt()
		if wait := time.Until(at); !ok || wait > 15*time.Second {
			t.Errorf("in %v (%v)", wait, ok)
		}
		time.Sleep(16 * time.Second)
		synctest.Wait()
		if _, ok := r.core.outbox.greetAt(); ok || time.Since(r.beacon().Time) > 16*time.Second {
			t.Error("not greeted")
		}
	})
}
