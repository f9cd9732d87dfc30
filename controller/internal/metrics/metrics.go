// Package metrics shows the unit and its controller to Prometheus. What happens is counted as it happens, by whoever
// does it; how the unit stands is counted when somebody scrapes, some nodes at a time, so that a scrape holds up
// nothing. No node is named, and how many series there are does not depend on what nodes say.
//
// shared/docs/metrics.md lists the metrics; a test makes it from defs.go.
package metrics

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tandem.internal/broker/metrics"
	"tandem.internal/broker/server"
	"tandem.internal/controller/internal/distribute"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
)

// Source is what is asked at a scrape; *distribute.Core is one.
type Source interface {
	Tally(ctx context.Context) (*view.Tally, error)
	Vitals() distribute.Vitals
}

// Config says what is shown.
type Config struct {
	Version string
	Now     func() time.Time // nil: time.Now
	Kinds   kind.Set         // documents and submissions of others are not told apart
	Patient time.Duration    // how long a count of the unit may take; the one before is shown after it. 0: 5 s
}

// Metrics are the controller's. The zero Metrics is none: see New.
type Metrics struct {
	cfg      Config
	registry *prometheus.Registry
	kinds    map[string]bool
	turn     chan struct{} // holds one token while nobody counts

	mu     sync.Mutex
	source Source           // nil: not known yet
	expiry func() time.Time // of the CA that signs; nil: there is none
	tally  *view.Tally      // the newest; nil: there was none yet
	at     time.Time        // when it was made
	types  places
	params places

	convergence, requests, commits                 *prometheus.HistogramVec
	submissions, ended, reports, repairs, troubles *prometheus.CounterVec
}

// Buckets of the histograms, in seconds.
var (
	arrivalBuckets = []float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 6 * 3600, 24 * 3600}
	commitBuckets  = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10}
	requestBuckets = []float64{.001, .005, .025, .1, .25, .5, 1, 2.5, 5, 30}
)

// New returns metrics without a source: they count what they are told of.
func New(cfg Config) *Metrics {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Patient == 0 {
		cfg.Patient = 5 * time.Second
	}
	m := &Metrics{
		cfg: cfg, registry: metrics.NewRegistry(cfg.Version), kinds: map[string]bool{}, turn: make(chan struct{}, 1),
		convergence: histogram(convergence, arrivalBuckets), requests: histogram(requests, requestBuckets),
		commits:     histogram(commits, commitBuckets),
		submissions: counter(submissions), ended: counter(ended), reports: counter(reports),
		repairs: counter(repairs), troubles: counter(troubles),
	}
	for _, k := range cfg.Kinds.Kinds {
		m.kinds[string(k.Name)] = true
	}
	for _, s := range cfg.Kinds.Sources {
		m.kinds[string(s.Name)] = true
	}
	m.turn <- struct{}{}
	m.repairs.WithLabelValues()
	m.troubles.WithLabelValues()
	m.commits.WithLabelValues()
	m.registry.MustRegister(m.convergence, m.requests, m.commits, m.submissions, m.ended, m.reports, m.repairs,
		m.troubles, m.collector())
	return m
}

func histogram(d metrics.Def, buckets []float64) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: d.Name, Help: d.Help, Buckets: buckets}, d.Labels)
}

func counter(d metrics.Def) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, d.Labels)
}

// Attach says who is asked at a scrape.
func (m *Metrics) Attach(s Source) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.source = s
}

// AttachCA says how to learn the end of the certificate of the CA that signs.
func (m *Metrics) AttachCA(expires func() time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expiry = expires
}

// AttachBroker says that there is a broker in this process.
func (m *Metrics) AttachBroker(stats func() server.Stats) {
	m.registry.MustRegister(metrics.Broker(stats))
}

// kind is the value of the label for a kind.
func (m *Metrics) kind(name string) string {
	if m.kinds[name] {
		return name
	}
	return other
}

// Committed counts records that are durable (distribute.Meter).
func (m *Metrics) Committed(records []record.Record, arrived []fleet.Arrival, took time.Duration) {
	m.commits.WithLabelValues().Observe(took.Seconds())
	for i := range records {
		switch r := &records[i]; r.Type {
		case record.Accepted:
			m.submissions.WithLabelValues(m.kind(r.Kind), "accepted").Inc()
		case record.Refused:
			m.submissions.WithLabelValues(m.kind(r.Kind), "refused").Inc()
		case record.Confirm:
			m.ended.WithLabelValues(m.kind(r.Kind), "confirmed").Inc()
		case record.RolledBack:
			m.ended.WithLabelValues(m.kind(r.Kind), "rolled-back").Inc()
		case record.Report:
			m.reports.WithLabelValues(m.kind(r.Kind)).Inc()
		case record.Trouble:
			m.troubles.WithLabelValues().Inc()
		}
	}
	for _, a := range arrived {
		m.convergence.WithLabelValues(m.kind(string(a.Kind))).Observe(a.After.Seconds())
	}
}

// Asked counts nodes that are asked to report again (distribute.Meter).
func (m *Metrics) Asked(nodes int) { m.repairs.WithLabelValues().Add(float64(nodes)) }

// Answered counts a request to the HTTP API; route is "" if there is none.
func (m *Metrics) Answered(route string, status int, took time.Duration) {
	if route == "" {
		route = other
	}
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Observe(took.Seconds())
}

// Text is everything, as Prometheus reads it, and its type.
func (m *Metrics) Text(ctx context.Context) (text []byte, contentType string, err error) {
	if err := m.count(ctx); err != nil {
		return nil, "", err
	}
	text, err = metrics.Text(m.registry)
	return text, metrics.ContentType, err
}

// fresh is for how long a count serves further scrapes.
const fresh = time.Second

// count has the unit counted, one at a time, unless that was done just now. What cannot be counted stays as it was. The
// error is that of ctx.
func (m *Metrics) count(ctx context.Context) error {
	select {
	case <-m.turn:
		defer func() { m.turn <- struct{}{} }()
	case <-ctx.Done():
		return ctx.Err()
	}
	m.mu.Lock()
	source, recent := m.source, m.tally != nil && m.cfg.Now().Sub(m.at).Abs() < fresh
	m.mu.Unlock()
	if source == nil || recent {
		return nil
	}
	patient, cancel := context.WithTimeout(ctx, m.cfg.Patient)
	defer cancel()
	t, err := source.Tally(patient)
	if err != nil {
		return ctx.Err() // the metric counted tells how old the one before is
	}
	byType := map[string]int{}
	for s, n := range t.Nodes {
		byType[s.Type] += n
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tally, m.at = t, m.cfg.Now()
	m.types.give(byType)
	m.params.give(t.Alerts)
	return nil
}
