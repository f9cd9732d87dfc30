package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tandem.internal/broker/metrics"
	"tandem.internal/controller/internal/distribute"
	"tandem.internal/controller/internal/view"
)

// teller tells values of some metrics.
type teller struct {
	descs map[string]*prometheus.Desc
	tell  func(prometheus.Metric)
}

// value tells one.
func (t *teller) value(d metrics.Def, v float64, labels ...string) {
	t.tell(d.Value(t.descs[d.Name], v, labels...))
}

// flag tells whether something is so.
func (t *teller) flag(d metrics.Def, is bool) {
	v := 0.0
	if is {
		v = 1
	}
	t.value(d, v)
}

// collector has each tell the values of some metrics at each scrape.
func collector(each func(*teller), defs ...metrics.Def) prometheus.Collector {
	descs := map[string]*prometheus.Desc{}
	var all []*prometheus.Desc
	for _, d := range defs {
		descs[d.Name] = d.Desc()
		all = append(all, descs[d.Name])
	}
	return metrics.Each{Descs: all, Tell: func(tell func(prometheus.Metric)) { each(&teller{descs, tell}) }}
}

// folded are counts by the values of labels, those without a place of their own together.
func folded[K comparable, L comparable](counts map[K]int, fold func(K) L) map[L]int {
	all := map[L]int{}
	for k, n := range counts {
		all[fold(k)] += n
	}
	return all
}

// collector tells how the unit stood when it was counted last, and how the controller is.
func (m *Metrics) collector() prometheus.Collector {
	return collector(func(t *teller) {
		m.mu.Lock()
		source, expiry, u, at, types, params := m.source, m.expiry, m.tally, m.at, m.types, m.params
		m.mu.Unlock()
		if expiry != nil {
			t.value(certificates, seconds(expiry()), "ca")
		}
		if u != nil {
			t.value(counted, seconds(at))
			m.tellNodes(t, u, &types, &params)
			tellUnit(t, u)
		}
		if source != nil {
			tellVitals(t, source.Vitals())
		}
	}, nodes, documents, health, workloads, alerts, trials, rollouts, load, certificates, maintenance, counted,
		refusing, road, failures, room, records, written, size)
}

// tellNodes tells what has strangers' texts in it: those without a place are told together.
func (m *Metrics) tellNodes(t *teller, u *view.Tally, types, params *places) {
	for s, n := range folded(u.Nodes, func(s view.Standing) view.Standing {
		return view.Standing{State: s.State, Type: types.of(s.Type)}
	}) {
		t.value(nodes, float64(n), string(s.State), s.Type)
	}
	for d, n := range folded(u.Documents, func(d view.DocumentStates) view.DocumentStates {
		return view.DocumentStates{Kind: m.kind(d.Kind), State: d.State}
	}) {
		t.value(documents, float64(n), d.Kind, d.State)
	}
	for parameter, n := range folded(u.Alerts, params.of) {
		t.value(alerts, float64(n), parameter)
	}
}

// tellUnit tells the rest of what was counted.
func tellUnit(t *teller, u *view.Tally) {
	for state, n := range u.Health {
		t.value(health, float64(n), string(state))
	}
	for state, n := range u.Workloads {
		t.value(workloads, float64(n), state)
	}
	for of, n := range u.Trials {
		t.value(trials, float64(n), of)
	}
	for phase, n := range u.Rollouts {
		t.value(rollouts, float64(n), phase)
	}
	for resource, l := range map[string]view.Load{"cpu": u.CPU, "ram": u.RAM} {
		if l.Nodes > 0 {
			t.value(load, l.Mean(), resource, "mean")
			t.value(load, l.Most, resource, "max")
		}
	}
	if !u.Expires.IsZero() {
		t.value(certificates, seconds(u.Expires), "node")
	}
	t.flag(maintenance, u.Keeps)
}

// tellVitals tells how the controller is.
func tellVitals(t *teller, v distribute.Vitals) {
	t.flag(refusing, v.Refusing)
	t.flag(road, v.Road)
	t.value(failures, float64(v.Failures))
	if v.Room >= 0 {
		t.value(room, float64(v.Room))
	}
	if v.Journal {
		t.value(records, float64(v.Records))
		t.value(written, float64(v.Newest))
		t.value(size, float64(v.Size-v.Free), "used")
		t.value(size, float64(v.Free), "free")
	}
}

// seconds is an instant in Unix seconds.
func seconds(at time.Time) float64 { return float64(at.UnixMilli()) / 1000 }
