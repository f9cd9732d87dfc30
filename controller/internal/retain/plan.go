package retain

import (
	"slices"
	"time"

	"tandem.internal/controller/internal/record"
)

// Header is what a plan has to know of a record.
type Header struct {
	Seq  uint64
	At   time.Time
	Type record.Type
	Kind string // the record's own
	Size int    // bytes that the journal has of it
}

// Amount is how much there is.
type Amount struct {
	Records int
	Bytes   int64
}

// Reason is the rule by which a record goes.
type Reason string

// The reasons. The empty Reason: it stays.
const (
	Age    Reason = "age"
	Number Reason = "number"
	Size   Reason = "size"
	Source Reason = "source" // of what machines submit, more is there of its source than is kept
)

// Plan says what goes. Each record is counted first, the oldest first; then it is asked whether each goes, in the same
// order.
type Plan struct {
	rules Rules
	now   time.Time        // zero: the time is not known, and nothing goes for its age
	shown time.Time        // the newest time that records showed
	old   map[Kind]uint64  // the newest record that showed a time too old for its kind
	There map[Kind]*Amount // what is there, without what goes
}

// NewPlan begins one.
func NewPlan(rules Rules, now time.Time) *Plan {
	p := &Plan{rules: rules, now: now, old: map[Kind]uint64{}, There: map[Kind]*Amount{}}
	for _, k := range slices.Concat(Kinds, []Kind{Always}) {
		p.There[k] = &Amount{}
	}
	return p
}

// Count takes in the next record. A record is old if it, or a later one, shows so. One from the future shows nothing,
// nor does one that is older than those before it: the clock was ahead or behind then, nobody knows for how long.
func (p *Plan) Count(h Header) {
	a := p.There[Of(h.Type, h.Kind)]
	a.Records, a.Bytes = a.Records+1, a.Bytes+int64(h.Size)
	if h.At.After(p.now) || h.At.Before(p.shown) {
		return
	}
	p.shown = h.At
	for kind, rule := range p.rules {
		if rule.Age > 0 && p.now.Sub(p.shown) >= rule.Age {
			p.old[kind] = h.Seq
		}
	}
}

// Old reports whether a record is older than those of its kind that are kept.
func (p *Plan) Old(kind Kind, seq uint64) bool { return seq <= p.old[kind] }

// Goes says why a record goes, or that it stays. Documents are asked about elsewhere: some of them are in use.
func (p *Plan) Goes(h Header) Reason {
	kind := Of(h.Type, h.Kind)
	if kind == Always || kind == Documents {
		return ""
	}
	a := p.There[kind]
	why := p.TooMuch(kind, h.Seq, *a)
	if why != "" {
		a.Records, a.Bytes = a.Records-1, a.Bytes-int64(h.Size)
	}
	return why
}

// TooMuch says why a record goes if there is so much of its kind from it on.
func (p *Plan) TooMuch(kind Kind, seq uint64, a Amount) Reason {
	if p.Old(kind, seq) {
		return Age
	}
	return p.rules[kind].Exceeded(a)
}

// Rule is the one of a kind.
func (p *Plan) Rule(kind Kind) Rule { return p.rules[kind] }

// Exceeded says by what there is more than the rule has kept, whatever its age.
func (r Rule) Exceeded(a Amount) Reason {
	switch {
	case r.Records > 0 && a.Records > r.Records:
		return Number
	case r.Bytes > 0 && a.Bytes > r.Bytes:
		return Size
	}
	return ""
}
