package monitor

import (
	"maps"
	"time"

	"tandem.internal/shared/alert"
)

// averages are moving averages: each value replaces one share of the window's.
type averages struct {
	weight float64 // samples in the window, at least 1
	sum    map[alert.Parameter]float64
}

func newAverages(window, period time.Duration) averages {
	return averages{weight: float64(max(1, window/period)), sum: map[alert.Parameter]float64{}}
}

// add takes a known value in. The first one stands for the whole window.
func (a averages) add(p alert.Parameter, v float64) {
	sum, ok := a.sum[p]
	if !ok {
		sum = v * a.weight
	}
	a.sum[p] = sum - sum/a.weight + v
}

// values returns the averages as a map of the caller's.
func (a averages) values() map[alert.Parameter]float64 {
	v := maps.Clone(a.sum)
	for p := range v {
		v[p] /= a.weight
	}
	return v
}
