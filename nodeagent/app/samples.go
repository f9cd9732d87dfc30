package app

import (
	"math"
	"time"

	"tandem.internal/nodeagent/internal/monitor"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/wire"
)

// Bounds of the samples that are kept: an hour of the usual period, less of a node with many partitions.
const (
	maxSamples      = 360
	maxSampleValues = 8192
)

// recent are the newest samples, the oldest first.
type recent struct {
	parameters []string
	kept       []kept
}

type kept struct {
	mono   time.Duration
	values []float32 // as the parameters; NaN: not known
}

// take keeps a sample. All have the same parameters.
func (r *recent) take(s monitor.Sample) {
	k := kept{mono: s.Mono, values: make([]float32, len(s.Readings))}
	if r.parameters == nil {
		for _, x := range s.Readings {
			r.parameters = append(r.parameters, string(x.Parameter))
		}
	}
	for i, x := range s.Readings {
		if k.values[i] = float32(x.Value); x.Err != nil {
			k.values[i] = float32(math.NaN())
		}
	}
	if r.kept = append(r.kept, k); len(r.kept) > min(maxSamples, maxSampleValues/len(k.values)) {
		r.kept = append(r.kept[:0], r.kept[1:]...)
	}
}

// show returns them as they are told; now is the same moment by the node's clock and by the samples' monotonic one.
func (r *recent) show(period time.Duration, wall time.Time, mono time.Duration) *wire.Samples {
	s := &wire.Samples{Period: duration.Format(period), Parameters: r.parameters, At: make([]int64, len(r.kept)),
		Values: make([][]wire.Measured, len(r.parameters))}
	for i := range s.Values {
		s.Values[i] = make([]wire.Measured, len(r.kept))
	}
	for n, k := range r.kept {
		s.At[n] = wall.Add(k.mono - mono).UnixMilli()
		for i, v := range k.values {
			s.Values[i][n] = wire.Measured(v)
		}
	}
	return s
}
