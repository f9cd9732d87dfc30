package fleet

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tandem.internal/shared/wire"
)

// honest is a node that proves what it says, at a controller that sends beacons; a broker in between keeps what it
// likes from either of them.
type honest struct {
	*rapid.T
	w       *world
	now     time.Time
	beacon  time.Time // the newest
	heard   time.Time // the newest that the node has
	saved   time.Time // that it finds again after a crash
	boot    int
	session uint64
	seqs    map[wire.Kind]uint64
	events  uint64
	said    []Heard
}

func (n *honest) name() string { return fmt.Sprintf("%d-%016x", n.boot, n.boot*7919) }

// says adds a message, proved with the newest beacon that the node has heard.
func (n *honest) says(m any) Heard {
	h := n.w.heard("n1", m)
	h.Since = wire.Heard{Epoch: 5, Time: n.heard}
	if h.Live != nil {
		h.Raw = wire.Prove(make([]byte, wire.ReportKeySize), "t", h.Raw, h.Since)
	}
	n.said = append(n.said, h)
	return h
}

// next is what the node says next.
func (n *honest) next() Heard {
	n.now = n.now.Add(time.Duration(rapid.IntRange(0, 20).Draw(n.T, "seconds")) * time.Second)
	if n.now.Sub(n.beacon) >= time.Minute {
		n.beacon = n.now
	}
	if rapid.IntRange(0, 3).Draw(n.T, "hears") == 0 {
		n.heard = n.beacon
	}
	if rapid.IntRange(0, 5).Draw(n.T, "saves") == 0 {
		n.saved = n.heard
	}
	switch rapid.IntRange(0, 9).Draw(n.T, "says") {
	case 0, 1: // a crash
		n.boot, n.session, n.seqs, n.heard = n.boot+1, 1, map[wire.Kind]uint64{}, n.saved
	case 2:
		n.session++
	case 3, 4, 5:
		k := rapid.SampledFrom([]wire.Kind{wire.KindConfig, wire.KindWorkloads}).Draw(n.T, "kind")
		n.seqs[k]++
		return n.says(&wire.Reported{V: wire.Version, Node: "n1", Kind: k, Boot: n.name(), Seq: n.seqs[k]})
	case 6, 7:
		n.events++
		return n.says(&wire.Event{V: wire.Version, Node: "n1", Boot: n.name(), Seq: n.events, At: n.now, Type: "x"})
	}
	seqs := map[wire.Kind]uint64{}
	for k, seq := range n.seqs {
		seqs[k] = seq
	}
	return n.says(&wire.Live{V: wire.Version, Node: "n1", Boot: n.name(), Session: n.session, Up: true, Seqs: seqs,
		Events: n.events})
}

// TestReplaysChangeNothing: what a node that proves its messages has said before, of any boot and in any order, changes
// nothing when it is played again, and costs nothing of what the node may add to the journal.
func TestReplaysChangeNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		w.t = fatal{t, rt}
		w.opt.Limits = Limits{StateRate: 0.5, StateBurst: 10}
		w.live = New(w.opt)
		w.step(origin, Opened{Version: "1.0.0"})
		n := &honest{T: rt, w: w, now: origin, beacon: origin, heard: origin, saved: origin,
			seqs: map[wire.Kind]uint64{}}
		n.boot, n.session = 1, 1
		for range rapid.IntRange(5, 60).Draw(rt, "messages") {
			h := n.next()
			if rapid.IntRange(0, 7).Draw(rt, "arrives") > 0 {
				w.step(n.now, h)
			}
			w.step(n.now, Tick{})
			for range rapid.IntRange(0, 3).Draw(rt, "replays") {
				i := rapid.IntRange(0, len(n.said)-1).Draw(rt, "which")
				old := n.said[i]
				if !superseded(w.live, &old) {
					continue
				}
				before := standing(w.live, n.now)
				w.step(n.now, old)
				if after := standing(w.live, n.now); after != before {
					rt.Fatalf("message %d of %d, %s, played again while boot %s speaks, changes\n%s\ninto\n%s", i,
						len(n.said), old.Raw, n.name(), before, after)
				}
			}
		}
		w.check()
	})
}

// standing is all that replays must not change: the state, what the node may add to the journal, and what waits.
func standing(f *Fleet, now time.Time) string {
	a := f.limiter.of("n1")
	text := fmt.Sprintf("%s\n%v and %v tokens", f.Checkpoint(), a.state.Left(now, f.limiter.state),
		a.event.Left(now, f.limiter.event))
	for _, k := range slices.Sorted(maps.Keys(a.held)) {
		text += fmt.Sprintf("\n%s waits", a.held[k].Raw)
	}
	return text
}

// superseded reports whether the controller has heard something of the same kind that is newer than a message.
func superseded(f *Fleet, h *Heard) bool {
	n := f.Lookup("n1")
	if n == nil {
		return false
	}
	switch now := wire.BootNumber(n.Boot); {
	case h.Event != nil:
		return h.Event.Seq <= n.EventSeq
	case h.Live != nil:
		boot := wire.BootNumber(h.Live.Boot)
		return boot < now || boot == now && h.Live.Session <= n.Session && n.Up
	default:
		boot, k := wire.BootNumber(h.Reported.Boot), n.Kinds[h.Reported.Kind]
		return boot < now || boot == now && k != nil && k.Boot == n.Boot && h.Reported.Seq <= k.Seq
	}
}
