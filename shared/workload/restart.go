package workload

import (
	"math"
	"time"
)

// RestartPause returns the pause before a hook is run again (seed 004, timeLimits):
//
//	min(maxRestartPeriodMs, minRestartPeriodMs + restartPeriodScaleMs × restartPeriodBackoff^step)
//
// step is the number of restarts in a row after the same exit code, not counting the first. A field that is absent
// counts as 0, an absent maximum as infinite; 0^0 is 1. The result is from 0 to the longest time.Duration.
func (l Limit) RestartPause(step int) time.Duration {
	pause := float64(value(l.MinRestartPeriodMs)) + scaledBackoff(float64(value(l.RestartPeriodScaleMs)),
		value(l.RestartPeriodBackoff), step)
	if l.MaxRestartPeriodMs != nil {
		pause = min(pause, float64(*l.MaxRestartPeriodMs))
	}
	const most = float64(math.MaxInt64 / int64(time.Millisecond))
	if pause >= most {
		return math.MaxInt64
	}
	return time.Duration(pause * float64(time.Millisecond))
}

// scaledBackoff returns scale × backoff^step; 0 if scale is 0, even if the power is infinite.
func scaledBackoff(scale, backoff float64, step int) float64 {
	if scale == 0 {
		return 0
	}
	return scale * math.Pow(backoff, float64(step))
}

// MaxExecution returns the most time that a hook may run; ok is false if it is not limited.
func (l Limit) MaxExecution() (d time.Duration, ok bool) {
	if l.MaxExecutionTimeMs == nil || *l.MaxExecutionTimeMs > math.MaxInt64/int64(time.Millisecond) {
		return 0, false
	}
	return time.Duration(*l.MaxExecutionTimeMs) * time.Millisecond, true
}

// value returns *p, or the zero value if p is nil.
func value[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}
