package unitstatus

import "time"

// Batch says when a status is said: what changes within Wait is said together, and nothing waits for longer.
type Batch struct {
	Wait  time.Duration
	whole bool      // the next is not a delta
	due   time.Time // zero: nothing has changed
}

// Changed says that something is another, or may be.
func (b *Batch) Changed(now time.Time) {
	if b.due.IsZero() {
		b.due = now.Add(b.Wait)
	}
}

// Whole says that the next status has to be whole, and is due: who hears it knows nothing, or has asked.
func (b *Batch) Whole(now time.Time) {
	b.whole = true
	b.Changed(now)
}

// Due is when the next status is to be said; false: nothing has changed.
func (b *Batch) Due() (time.Time, bool) { return b.due, !b.due.IsZero() }

// Take begins the next batch, and reports whether the status that is said now is to be whole.
func (b *Batch) Take() (whole bool) {
	whole = b.whole
	b.whole, b.due = false, time.Time{}
	return whole
}
