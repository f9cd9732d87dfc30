// Package quiet measures for how long nothing has begun or ended on a node that its health is judged by: what a rollout
// goes by (shared/docs/wire.md, health). It forgets everything when the agent ends: a start is such a change.
//
//tandem:pure
package quiet

import (
	"maps"
	"slices"
	"time"

	"tandem.internal/shared/wire"
)

// Aspect is a part of a node's health.
type Aspect int

// The aspects. That of restarts is all of the agent's life.
const (
	Alerts Aspect = iota
	Checks
	Workloads
	aspects
)

// Watch is what a node remembers. Times are of its monotonic clock, which never goes back.
type Watch struct {
	start    time.Duration
	since    [aspects]time.Duration
	troubles [aspects]map[string]map[string]bool // that there are now, by who tells of all of its own
	running  map[wire.Kind]wire.Stamp
}

// New returns what an agent remembers that is started now.
func New(now time.Duration) *Watch {
	w := &Watch{start: now, running: map[wire.Kind]wire.Stamp{}}
	w.all(now)
	return w
}

func (w *Watch) all(now time.Duration) {
	for a := range w.since {
		w.since[a] = now
	}
}

// Happened says that a trouble of an aspect has begun or ended.
func (w *Watch) Happened(now time.Duration, a Aspect) { w.since[a] = now }

// Troubles says which troubles of an aspect there are now, of all that somebody tells of.
func (w *Watch) Troubles(now time.Duration, a Aspect, who string, names []string) {
	is := map[string]bool{}
	for _, name := range names {
		is[name] = true
	}
	if maps.Equal(is, w.troubles[a][who]) {
		return
	}
	if w.troubles[a] == nil {
		w.troubles[a] = map[string]map[string]bool{}
	}
	w.troubles[a][who], w.since[a] = is, now
}

// Running says which document of a kind runs; nil: none. Another one than before begins everything anew.
func (w *Watch) Running(now time.Duration, kind wire.Kind, doc *wire.DocRef) {
	is := wire.Stamp{}
	if doc != nil {
		is = doc.Stamp()
	}
	if w.running[kind] != is {
		w.running[kind] = is
		w.start = now
		w.all(now)
	}
}

// Quiet returns for how long nothing has happened.
func (w *Watch) Quiet(now time.Duration) *wire.HealthQuiet {
	span := func(since time.Duration) wire.Span { return wire.SpanOf((now - since).Truncate(time.Second)) }
	q := &wire.HealthQuiet{
		Alerts: span(w.since[Alerts]), Checks: span(w.since[Checks]), Restarts: span(w.start),
		Workloads: span(w.since[Workloads]),
	}
	for _, kind := range slices.Sorted(maps.Keys(w.running)) {
		if stamp := w.running[kind]; stamp.Rev > 0 {
			if q.Revs == nil {
				q.Revs = map[wire.Kind]uint64{}
			}
			q.Revs[kind] = stamp.Rev
		}
	}
	return q
}
