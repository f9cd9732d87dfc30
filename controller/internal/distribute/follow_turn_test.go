package distribute

import (
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/kinds/wanted"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/steer"
	"tandem.internal/shared/cloud"
	"tandem.internal/shared/wire"
)

// TestFollowerIsNoReader: however many readers wait, what the cloud side wants is decided in its turn.
func TestFollowerIsNoReader(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		c := r.core
		c.readers.Add(maxReaders)
		defer c.readers.Add(-maxReaders)
		var u *steer.Unit
		if err := c.see(t.Context(), func(f *fleet.Fleet) { u = steer.Look(f, time.Now()) }); err != nil {
			t.Fatal(err)
		}
		f := newFollower(c)
		if err := f.decide(t.Context(), &wanted.Status{Rev: 1}, &cloud.DesiredStatus{}, u); err != nil {
			t.Error(err)
		}
	})
}

// TestFollowerSeesWhatNodesSay: what a node says again is nothing new, what is another is: wherever in memory it is.
func TestFollowerSeesWhatNodesSay(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		f := newFollower(r.core)
		sees := func(memory uint64) (s sight) {
			r.deliver(live("n", 1))
			to, _ := info("n", 1)
			r.deliver(to, wire.Encode(&wire.Reported{V: wire.Version, Node: "n", Kind: wire.KindInfo, Boot: "b",
				Seq: memory, Detail: wire.Encode(&wire.NodeInfo{Type: "m", OS: "linux", Arch: "arm64",
					AgentVersion: "1", RAM: memory / 10})}))
			synctest.Wait()
			r.look(func(fl *fleet.Fleet) { s = f.sight(fl, nil) })
			return s
		}
		first := sees(10)
		if again := sees(11); again != first {
			t.Error("the same again is another")
		}
		if other := sees(20); other == first {
			t.Error("another is the same")
		}
	})
}

// TestUnitStatusTakesATurn: while others have things worked out, a whole status waits; what the loop does goes on.
func TestUnitStatusTakesATurn(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		r.core.readersTurn <- struct{}{}
		done := make(chan error, 1)
		go func() {
			s, err := r.core.UnitStatus(t.Context(), op.UnitStatusIn{Report: true})
			if err == nil && (s.Report == nil || len(s.Report.Nodes) != 1) {
				t.Errorf("%+v", s.Report)
			}
			done <- err
		}()
		synctest.Wait()
		r.join("n")
		select {
		case <-done:
			t.Error("it did not wait")
		default:
		}
		<-r.core.readersTurn
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
