package fleet

import (
	"slices"
	"time"

	"tandem.internal/shared/wire"
)

// heard is the number of the newest report that was heard, journaled or not.
func (k *KindState) heard() uint64 { return max(k.Seq, k.heardSeq) }

// heardProgress takes a report of workloads that says no more than how far things have come: what the
// journal has of the node stays true, so that a download that is watched does not fill it. It is
// shown, and forgotten when the controller stops: the node reports again.
func (s *step) heardProgress(n *Node, h *Heard) bool {
	r := h.Reported
	k := n.Kinds[r.Kind]
	if r.Kind != wire.KindWorkloads || k == nil || k.Boot == "" || k.Boot != r.Boot ||
		!sameRef(k.Running, r.Running) || !sameAttempt(k.Last, r.Last) || !sameWork(n.Workloads, h.Workloads) {
		return false
	}
	k.heardSeq, k.heardAt, n.progress = r.Seq, s.now, h.Workloads
	s.resend(n, r.Kind)
	s.review(n, s.now)
	return true
}

func sameRef(a, b *wire.DocRef) bool { return a == b || a != nil && b != nil && *a == *b }

func sameAttempt(a, b *wire.Attempt) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := *a, *b
	x.Error, y.Error = nil, nil
	return x == y && sameError(a.Error, b.Error)
}

func sameError(a, b *wire.Error) bool { return a == b || a != nil && b != nil && *a == *b }

// sameWork reports whether two reports differ in no more than progress: bytes, counts, times, words.
func sameWork(a, b *wire.Workloads) bool {
	if a == nil || b == nil {
		return a == b
	}
	code := func(e *wire.Error) wire.Code {
		if e == nil {
			return ""
		}
		return e.Code
	}
	return a.More == b.More && slices.EqualFunc(a.Slots, b.Slots, func(x, y wire.WorkloadSlot) bool {
		return x.Slot == y.Slot && x.Job == y.Job && x.ID == y.ID && x.State == y.State && x.Wanted == y.Wanted &&
			(x.Doing == "") == (y.Doing == "") && code(x.Error) == code(y.Error)
	})
}

// work is the newest that the node has told of its slots, and when; nil: nothing.
func (n *Node) work() (*wire.Workloads, time.Time) {
	k := n.Kinds[wire.KindWorkloads]
	switch {
	case k == nil:
		return nil, time.Time{}
	case n.progress != nil:
		return n.progress, k.heardAt
	}
	return n.Workloads, k.At
}
