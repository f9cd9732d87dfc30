// Package load decides when a node tells how much of it is used on average, for a controller that relieves nodes which
// are overloaded (shared/docs/items.md). It tells little: a change of some percent once a minute, what has not changed
// every four, and at once only that an average has come below the maximum of its alert rule, for that ends an overload.
//
//tandem:pure
package load

import (
	"math"
	"time"

	"tandem.internal/shared/alert"
	"tandem.internal/shared/wire"
)

// How often is told what, and what is a change: a share of the node.
const (
	Every  = time.Minute     // a change
	Again  = 4 * time.Minute // that there is none
	Change = 0.02
)

// Watch is what a node remembers. The zero Watch has told nothing. Times are of its monotonic clock.
type Watch struct {
	at       time.Duration
	reported *wire.HealthLoad
	rules    map[alert.Parameter]float64 // maximum
}

// Rules says which alert rules count from now on.
func (w *Watch) Rules(all []alert.Rule) {
	w.rules = map[alert.Parameter]float64{}
	for _, r := range all {
		w.rules[r.Parameter] = r.Max
	}
}

// Reported is what the node tells; nil: nothing yet.
func (w *Watch) Reported() *wire.HealthLoad { return w.reported }

// Averages takes over what was measured, and reports whether Reported has changed, and is to be told.
func (w *Watch) Averages(now time.Duration, all map[alert.Parameter]float64) bool {
	cpu, known := all[alert.CPU]
	ram, also := all[alert.RAM]
	if !known || !also {
		return false
	}
	next := &wire.HealthLoad{CPU: rounded(cpu), RAM: rounded(ram)}
	if w.reported != nil && !w.due(now, next) {
		return false
	}
	w.at, w.reported = now, next
	return true
}

func (w *Watch) due(now time.Duration, next *wire.HealthLoad) bool {
	since := now - w.at
	changed := math.Abs(next.CPU-w.reported.CPU) >= Change || math.Abs(next.RAM-w.reported.RAM) >= Change
	return since >= Again || changed && since >= Every || w.fell(alert.CPU, w.reported.CPU, next.CPU) ||
		w.fell(alert.RAM, w.reported.RAM, next.RAM)
}

// fell reports whether an average that was at or above the maximum of its rule is not any more.
func (w *Watch) fell(p alert.Parameter, before, now float64) bool {
	most, ruled := w.rules[p]
	return ruled && before >= most && now < most
}

// rounded is a share rounded down to a thousandth, so that none below a maximum seems to be at it.
func rounded(v float64) float64 { return math.Floor(max(0, min(1, v))*1000) / 1000 }
