package fleet

import "tandem.internal/shared/wire"

// heard is the number of the newest report that was heard, journaled or not.
func (k *KindState) heard() uint64 { return max(k.Seq, k.heardSeq) }

// heardProgress takes a report that says no more than how far things have come: what the journal has of the
// node stays true, so that a download that is watched does not fill it. It is shown, and forgotten when the
// controller stops: the node reports again.
func (s *step) heardProgress(n *Node, h *Heard) bool {
	r := h.Reported
	k, o := n.Kinds[r.Kind], s.output(r.Kind)
	if o == nil || o.Same == nil || k == nil || k.Boot == "" || k.Boot != r.Boot ||
		!sameRef(k.Running, r.Running) || !sameAttempt(k.Last, r.Last) || !o.Same(k.Detail, h.Detail) {
		return false
	}
	k.heardSeq, k.heardAt, k.progress = r.Seq, s.now, h.Detail
	s.touch(n.Name)
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
