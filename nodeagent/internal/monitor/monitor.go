// Package monitor measures the node: CPU, RAM, named partitions, download and upload. It owns when
// and how that is done, and turns counters into values.
//
// It guarantees that a sample comes once a period, whatever cannot be measured: what is not known
// carries the reason instead of a value. Rates are over the monotonic clock, so that a wall clock
// that is set does not show; a counter that goes back makes its value unknown once, never wrong. A
// file system that does not answer costs one goroutine and one thread until it does, and its own
// values; nothing else waits for it. The package must not judge values and keeps none on disk.
package monitor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"time"

	"tandem.internal/shared/alert"
	"tandem.internal/shared/pulse"
)

// Defaults of Config.
const (
	DefaultPeriod   = 10 * time.Second
	DefaultWindow   = time.Minute
	DefaultPatience = 2 * time.Second
)

// MinPeriod is the shortest period. Below it counters are too coarse for a rate.
const MinPeriod = 100 * time.Millisecond

// Config says what to measure and how often.
type Config struct {
	Period     time.Duration     // between samples; 0: DefaultPeriod
	Window     time.Duration     // of the averages; 0: DefaultWindow
	Partitions map[string]string // name to a path on it; may be empty
	// names or patterns (path.Match) of the network interfaces to count; none: all but the loopback
	Interfaces []string
	Patience   time.Duration    // for all partitions together; 0: DefaultPatience, half a Period at most
	Now        func() time.Time // the wall clock; nil: time.Now
	Began      time.Time        // where the samples' monotonic clock begins; zero: when Run is called
	Watch      pulse.Watch      // is told that Run goes round; nil: nobody
	Sources    Sources          // what is nil asks the operating system
}

// Sources are where the figures come from. Only Partition may take long; it is called on a goroutine
// of its own, once at a time for each partition.
type Sources struct {
	CPU        func() (Times, error)
	RAM        func() (used float64, err error) // the fraction that no program could get
	Interfaces func() ([]Counters, error)
	Partition  func(path string) (Usage, error)
}

// Times is what all processors have spent since the node started, in seconds.
type Times struct{ Busy, Idle float64 }

// Counters are the bytes that have passed an interface.
type Counters struct {
	Name           string
	Received, Sent uint64
}

// Usage is what is used of a file system, as fractions of what unprivileged programs can use.
type Usage struct {
	Bytes  float64
	Inodes float64 // 0 if the file system has no limit of its own
}

// Sample is one look at the node.
type Sample struct {
	alert.Sample
	Over     time.Duration               // what CPU, Download and Upload are measured over
	Averages map[alert.Parameter]float64 // of all values known so far, over the window; the receiver's own
}

// Monitor measures. Make it with New, run it once.
type Monitor struct {
	cfg   Config
	out   chan Sample
	parts []*partition

	// The rest belongs to Run's goroutine.
	at  time.Time // of the newest base of rates
	cpu base[Times]
	net base[map[string]Counters]
	avg averages
}

// base is the newest look at a counter.
type base[T any] struct {
	value T
	err   error
}

// New makes a monitor. The error says what is wrong with cfg.
func New(cfg Config) (*Monitor, error) {
	or := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	or(&cfg.Period, DefaultPeriod)
	or(&cfg.Window, DefaultWindow)
	or(&cfg.Patience, DefaultPatience)
	cfg.Patience = min(cfg.Patience, cfg.Period/2)
	switch {
	case cfg.Period < MinPeriod:
		return nil, fmt.Errorf("the sampling period %v is below %v", cfg.Period, MinPeriod)
	case cfg.Window < 0, cfg.Patience < 0:
		return nil, errors.New("a negative time")
	}
	for _, pattern := range cfg.Interfaces {
		if _, err := path.Match(pattern, ""); err != nil {
			return nil, fmt.Errorf("the interface pattern %q: %w", pattern, err)
		}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Sources = cfg.Sources.withDefaults()
	m := &Monitor{cfg: cfg, out: make(chan Sample), avg: newAverages(cfg.Window, cfg.Period)}
	for _, name := range slices.Sorted(maps.Keys(cfg.Partitions)) {
		m.parts = append(m.parts, &partition{name: name, path: cfg.Partitions[name], look: cfg.Sources.Partition,
			answer: make(chan looked, 1)})
	}
	return m, nil
}

// Parameters lists what every sample has, in its order.
func (m *Monitor) Parameters() []alert.Parameter {
	list := []alert.Parameter{alert.CPU, alert.RAM, alert.Download, alert.Upload}
	for _, p := range m.parts {
		list = append(list, alert.Partition(p.name), alert.Inodes(p.name))
	}
	return list
}

// Samples is where Run sends each sample, a period after the one before; the first comes a period
// after the start. If nobody receives, the next one covers the time since.
func (m *Monitor) Samples() <-chan Sample { return m.out }

// Run measures until ctx ends. Everything that it started has ended when it returns nil; the error
// names the partitions that still do not answer: their goroutines end when they do.
func (m *Monitor) Run(ctx context.Context) error {
	beat := m.cfg.Watch.Start("monitor", m.cfg.Patience)
	defer beat.End()
	m.start()
	ticker := time.NewTicker(m.cfg.Period)
	defer ticker.Stop()
	var out chan Sample // nil while there is no sample to send
	var next Sample
	for ctx.Err() == nil {
		beat.Beat()
		due := ticker.C
		if out != nil {
			due = nil // what nobody receives is not followed by more
		}
		select {
		case <-ctx.Done():
		case <-beat.C:
		case <-due:
			next, out = m.sample(ctx), m.out
		case out <- next:
			next, out = Sample{}, nil
		}
	}
	return m.wait()
}

// start takes the first look at the counters.
func (m *Monitor) start() {
	m.at = time.Now()
	if m.cfg.Began.IsZero() {
		m.cfg.Began = m.at
	}
	m.cpu, _ = m.rateCPU()
	m.net, _ = m.rateNet(0)
}

func (m *Monitor) sample(ctx context.Context) Sample {
	for _, p := range m.parts {
		p.begin()
	}
	now := time.Now()
	s := Sample{Over: now.Sub(m.at)}
	s.Mono, s.Wall = now.Sub(m.cfg.Began), m.cfg.Now()
	s.Readings = make([]alert.Reading, 0, 4+2*len(m.parts))
	add := func(p alert.Parameter, v float64, err error) {
		if err == nil && (math.IsNaN(v) || math.IsInf(v, 0)) {
			v, err = 0, errNoNumber
		}
		s.Readings = append(s.Readings, alert.Reading{Parameter: p, Value: v, Err: err})
		if err == nil {
			m.avg.add(p, v)
		}
	}
	var cpu reading
	m.cpu, cpu = m.rateCPU()
	add(alert.CPU, cpu.value, cpu.err)
	ram, err := m.cfg.Sources.RAM()
	add(alert.RAM, inside(ram), err)
	var traffic [2]reading
	m.net, traffic = m.rateNet(s.Over)
	add(alert.Download, traffic[0].value, traffic[0].err)
	add(alert.Upload, traffic[1].value, traffic[1].err)
	m.at = now

	limit := time.NewTimer(m.cfg.Patience)
	defer limit.Stop()
	over := limit.C
	for _, p := range m.parts {
		u, err := p.end(ctx, &over)
		add(alert.Partition(p.name), inside(u.Bytes), err)
		add(alert.Inodes(p.name), inside(u.Inodes), err)
	}
	s.Averages = m.avg.values()
	return s
}

// errNoNumber is why a value is unknown that was measured as no finite number.
var errNoNumber = errors.New("what was measured is no number")

// inside holds a fraction within its range; what is no finite number stays so.
func inside(v float64) float64 {
	if math.IsInf(v, 0) {
		return v
	}
	return max(0, min(1, v)) // NaN if v is
}
