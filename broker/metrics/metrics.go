// Package metrics shows the broker's figures to Prometheus, and is what tandem-broker and tandem-controller share of
// that: descriptions of metrics, the registry of a program, and the text of a scrape.
package metrics

import (
	"bytes"
	"fmt"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"

	"tandem.internal/broker/server"
)

// Type is what a metric is.
type Type string

// The types.
const (
	Gauge     Type = "gauge"     // a value that goes up and down
	Counter   Type = "counter"   // of what has happened since the program started
	Histogram Type = "histogram" // how often something took how long, since the program started
)

// Def describes a metric: the reference is made of these, and so are the metrics.
type Def struct {
	Name   string
	Type   Type
	Labels []string
	Help   string // one sentence
}

// Desc is the metric as the library has it.
func (d Def) Desc() *prometheus.Desc { return prometheus.NewDesc(d.Name, d.Help, d.Labels, nil) }

// valueType is the type of a metric of one value.
func (d Def) valueType() prometheus.ValueType {
	if d.Type == Counter {
		return prometheus.CounterValue
	}
	return prometheus.GaugeValue
}

// Value is a sample of the metric, which is no histogram.
func (d Def) Value(desc *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, d.valueType(), v, labels...)
}

// Build is in every program.
var Build = Def{"tandem_build_info", Gauge, []string{"version", "go"}, "1, with the versions of the program and of Go."}

// NewRegistry returns a registry with what is the same in every program: its version, and what the Go runtime and the
// operating system tell of the process.
func NewRegistry(version string) *prometheus.Registry {
	r := prometheus.NewRegistry()
	build := Build.Desc()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		Each{Descs: []*prometheus.Desc{build}, Tell: func(tell func(prometheus.Metric)) {
			tell(Build.Value(build, 1, version, runtime.Version()))
		}},
	)
	return r
}

// Each is a collector of values that Tell tells at each scrape.
type Each struct {
	Descs []*prometheus.Desc
	Tell  func(tell func(prometheus.Metric))
}

// Describe is for the registry.
func (e Each) Describe(to chan<- *prometheus.Desc) {
	for _, d := range e.Descs {
		to <- d
	}
}

// Collect is for the registry.
func (e Each) Collect(to chan<- prometheus.Metric) {
	e.Tell(func(m prometheus.Metric) { to <- m })
}

// ContentType is that of Text.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Text is all that a registry gathers, as Prometheus reads it.
func Text(from prometheus.Gatherer) ([]byte, error) {
	families, err := from.Gather()
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	var b bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	return b.Bytes(), nil
}

// figure is a metric of the broker and how it follows from its numbers.
type figure struct {
	Def
	of func(*server.Stats) int64
}

// figures are the broker's.
var figures = []figure{
	{Def{"tandem_broker_connections", Gauge, nil, "Connections, also those that are not authenticated yet."},
		func(s *server.Stats) int64 { return int64(s.Connections) }},
	{Def{"tandem_broker_clients", Gauge, nil, "Authenticated connections."},
		func(s *server.Stats) int64 { return int64(s.Clients) }},
	{Def{"tandem_broker_retained", Gauge, nil, "Retained messages."},
		func(s *server.Stats) int64 { return int64(s.Retained) }},
	{Def{"tandem_broker_subscriptions", Gauge, nil, "Subscriptions."},
		func(s *server.Stats) int64 { return int64(s.Subscriptions) }},
	{Def{"tandem_broker_received_total", Counter, nil, "Messages received."},
		func(s *server.Stats) int64 { return s.Received }},
	{Def{"tandem_broker_sent_total", Counter, nil, "Messages sent."},
		func(s *server.Stats) int64 { return s.Sent }},
	{Def{"tandem_broker_received_bytes_total", Counter, nil, "Bytes received."},
		func(s *server.Stats) int64 { return s.BytesReceived }},
	{Def{"tandem_broker_sent_bytes_total", Counter, nil, "Bytes sent."},
		func(s *server.Stats) int64 { return s.BytesSent }},
	{Def{"tandem_broker_dropped_total", Counter, nil,
		"Messages that clients did not get because their queues were full."},
		func(s *server.Stats) int64 { return s.Dropped }},
	{Def{"tandem_broker_denied_publishes_total", Counter, nil, "Messages that the access rules did not let through."},
		func(s *server.Stats) int64 { return s.DeniedPublishes }},
	{Def{"tandem_broker_denied_subscribes_total", Counter, nil,
		"Subscriptions that the access rules did not let through."},
		func(s *server.Stats) int64 { return s.DeniedSubscribes }},
	{Def{"tandem_broker_refused_total", Counter, nil, "Connections refused."},
		func(s *server.Stats) int64 { return s.Refused }},
	{Def{"tandem_broker_stalled_total", Counter, nil, "Clients disconnected because they did not read."},
		func(s *server.Stats) int64 { return s.Stalled }},
	{Def{"tandem_broker_takeovers_total", Counter, nil,
		"Connections that took the place of an older one of the same client."},
		func(s *server.Stats) int64 { return s.Takeovers }},
}

// Defs describes the broker's metrics.
func Defs() []Def {
	all := make([]Def, len(figures))
	for i := range figures {
		all[i] = figures[i].Def
	}
	return all
}

// Broker is a collector of a broker's figures.
func Broker(stats func() server.Stats) prometheus.Collector {
	descs := make([]*prometheus.Desc, len(figures))
	for i := range figures {
		descs[i] = figures[i].Desc()
	}
	return Each{Descs: descs, Tell: func(tell func(prometheus.Metric)) {
		s := stats()
		for i := range figures {
			tell(figures[i].Value(descs[i], float64(figures[i].of(&s))))
		}
	}}
}
