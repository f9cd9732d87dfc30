package fleet

import (
	"hash/crc32"
	"time"

	"tandem.internal/shared/wire"
)

// needs is what a node owes the controller, or the other way round.
type needs struct {
	report  bool // it sent a report that did not arrive, or has not reported a document
	events  bool // it has events that did not arrive
	confirm bool // it tries what was confirmed
	grace   time.Duration
}

func (d needs) any() bool { return d.report || d.events || d.confirm }

func (f *Fleet) needs(n *Node) needs {
	d := needs{grace: f.opt.ReportGrace}
	if !n.Up {
		d.report = n.heardOffline && !f.limiter.holds(n.Name)
		d.grace /= 4 // nodes say live first: it is late already
		return d
	}
	if f.isRevoked(n.Name) {
		return needs{}
	}
	patient := n.Info != nil
	d.report = n.Info == nil // without its type it gets no document
	for name, k := range n.Kinds {
		if k.Last != nil && k.Last.State == wire.StateTrying && f.keepsTrying(name, k) {
			d.confirm, patient = true, false
		}
		if n.owes(k) {
			d.report, patient = true, false
		}
		if k.Desired == nil || k.Settled() {
			continue
		}
		d.report = true
		if k.Last == nil || k.Last.Stamp().Compare(k.Desired.Stamp()) < 0 {
			patient = false
		}
	}
	if n.EventSeq < n.liveEvents && !f.limiter.isQuiet(n.Name) {
		d.events, patient = true, false
	}
	d.report = d.report && !f.limiter.holds(n.Name)
	if patient {
		d.grace = f.opt.WorkGrace // it knows its newest document and is busy with it
	}
	return d
}

// owes reports whether a node has sent a report of a kind in this boot that has not arrived.
func (n *Node) owes(k *KindState) bool {
	return k.liveSeq > 0 && (k.Boot != n.Boot || k.heard() < k.liveSeq)
}

// unheard reports whether that report was asked for in vain again and again: what is known of the kind is old.
func (n *Node) unheard(k *KindState) bool { return n.Up && n.retries >= maxCalls && n.owes(k) }

var errUnheard = wire.New(wire.CodeNoAnswer, "", "the node says that it has reported something newer, which does not "+
	"arrive; the broker may withhold it")

// keepsTrying reports whether a node tries what was confirmed.
func (f *Fleet) keepsTrying(name wire.Kind, k *KindState) bool {
	o := f.output(name)
	return o != nil && f.confirmedMeanwhile(o, k)
}

// review puts a node on the agenda if anything is owed, and takes it off if not.
func (f *Fleet) review(n *Node, now time.Time) {
	d := f.needs(n)
	if !d.any() {
		n.retries = 0
		f.agenda.remove(n)
		return
	}
	due := now.Add(f.pause(n, d.grace))
	busy := d.grace == f.opt.WorkGrace && n.retries == 0 // a word from it is progress
	if n.index < 0 || busy || due.Before(n.due) {
		f.agenda.set(n, due)
	}
}

// pause grows from the grace to ReportMax with each question that brought nothing. It is up to
// half as long again, by the node's name, so that a whole unit's questions do not come at once.
func (f *Fleet) pause(n *Node, grace time.Duration) time.Duration {
	p := max(grace, min(grace<<min(n.retries, 16), f.opt.ReportMax))
	return p + p/512*time.Duration(crc32.ChecksumIEEE([]byte(n.Name))%256)
}

// maxCalls is how often a node that was heard, but is not known to be online, is asked whether it is.
const maxCalls = 3

// noticed remembers that a node said something just now, although it is not known to be online: a
// broker that is overrun drops live messages like any other, and the next beat is a minute away.
func (s *step) noticed(h *Heard) {
	if n := s.nodes[h.Node]; n != nil && !n.Up && !h.Retained && !n.heardOffline {
		n.heardOffline = true
		s.review(n, s.now)
	}
}

// resend publishes a document again to a node that, asked for its report, does not know it: once for each
// question, for the node reports at once when it gets what it has, and both would go on without end.
func (s *step) resend(n *Node, kind wire.Kind) {
	k := n.Kinds[kind]
	if n.retries > 0 && k.asked && k.Desired != nil && !k.Settled() &&
		(k.Last == nil || k.Last.Stamp().Compare(k.Desired.Stamp()) < 0) {
		k.asked = false
		s.effect(Publish{Kind: kind, Doc: k.Desired, Nodes: []string{n.Name}})
	}
}
