package monitor

import (
	"errors"
	"fmt"
	"math"
	"path"
	"time"
)

// reading is a value, or why there is none.
type reading struct {
	value float64
	err   error
}

// rateCPU looks at the processors' times and compares them with the look before.
func (m *Monitor) rateCPU() (base[Times], reading) {
	t, err := m.cfg.Sources.CPU()
	next := base[Times]{t, err}
	if err != nil {
		return next, reading{err: fmt.Errorf("processor times: %w", err)}
	}
	if m.cpu.err != nil {
		return next, reading{err: errors.New("processor times: known only since now")}
	}
	return next, busy(m.cpu.value, t)
}

// busy is the fraction of busy time between two looks. Linux lets single times go back a little
// (iowait, after a processor was switched off); that is no time at all.
func busy(before, after Times) reading {
	spent, idle := max(0, after.Busy-before.Busy), max(0, after.Idle-before.Idle)
	if spent+idle <= 0 {
		return reading{err: errors.New("processor times: they have not moved, or went back")}
	}
	return reading{value: inside(spent / (spent + idle))}
}

// rateNet looks at the interfaces' counters and compares them with the look before, which was over
// ago.
func (m *Monitor) rateNet(over time.Duration) (base[map[string]Counters], [2]reading) {
	list, err := m.cfg.Sources.Interfaces()
	if err == nil {
		list, err = chosen(list, m.cfg.Interfaces)
	}
	next := base[map[string]Counters]{make(map[string]Counters, len(list)), err}
	for _, c := range list {
		next.value[c.Name] = c
	}
	both := func(err error) [2]reading {
		err = fmt.Errorf("network counters: %w", err)
		return [2]reading{{err: err}, {err: err}}
	}
	switch {
	case err != nil:
		return next, both(err)
	case m.net.err != nil:
		return next, both(errors.New("known only since now"))
	case over <= 0:
		return next, both(errors.New("no time has passed"))
	}
	return next, [2]reading{
		rate(m.net.value, list, over, func(c Counters) uint64 { return c.Received }),
		rate(m.net.value, list, over, func(c Counters) uint64 { return c.Sent }),
	}
}

// rate is the bytes per second over all interfaces between two looks, in whole bytes. An interface that
// has come since counts from the next look on, one that has gone no more. A counter that went back
// was reset or wrapped, which cannot be told apart: then nothing is known this time.
func rate(before map[string]Counters, after []Counters, over time.Duration, of func(Counters) uint64) reading {
	var sum uint64
	for _, c := range after {
		b, ok := before[c.Name]
		if !ok {
			continue
		}
		if of(c) < of(b) {
			return reading{err: fmt.Errorf("network counters: that of %s went back", c.Name)}
		}
		sum += of(c) - of(b)
	}
	return reading{value: math.Round(float64(sum) / over.Seconds())}
}

// loopback is what carries no traffic of the node.
const loopback = "lo"

// chosen keeps the interfaces that count.
func chosen(list []Counters, patterns []string) ([]Counters, error) {
	var kept []Counters
	for _, c := range list {
		if len(patterns) == 0 {
			if c.Name != loopback {
				kept = append(kept, c)
			}
			continue
		}
		for _, p := range patterns {
			if ok, err := path.Match(p, c.Name); ok && err == nil { // New has tried every pattern
				kept = append(kept, c)
				break
			}
		}
	}
	if len(kept) == 0 && len(patterns) > 0 {
		return nil, fmt.Errorf("no interface is called %q", patterns)
	}
	return kept, nil
}
