package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"tandem.internal/broker/metrics"
	"tandem.internal/broker/server"
	"tandem.internal/controller/internal/distribute"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/kinds"
	shown "tandem.internal/controller/internal/metrics"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

var now = time.Date(2026, 11, 27, 14, 5, 0, 0, time.UTC)

// unit is a source whose count is what the test says.
type unit struct {
	tally func(context.Context) (*view.Tally, error)
	vital *distribute.Vitals // nil: those of a unit that is well
}

func (u unit) Tally(ctx context.Context) (*view.Tally, error) { return u.tally(ctx) }

func (u unit) Vitals() distribute.Vitals {
	if u.vital != nil {
		return *u.vital
	}
	return distribute.Vitals{Road: true, Failures: 2, Room: 5 << 30, Journal: true, Newest: 900, Records: 800,
		Size: 1 << 20, Free: 1 << 10}
}

// full is a tally with something of everything.
func full() *view.Tally {
	t := view.NewTally()
	t.Nodes[view.Standing{State: view.NodeInStep, Type: "press"}] = 7
	t.Nodes[view.Standing{State: view.NodeOffline}] = 1
	t.Documents[view.DocumentStates{Kind: "config", State: "installed"}] = 7
	t.Health[view.HealthOK], t.Workloads["running"], t.Alerts["cpu"] = 7, 3, 1
	t.Trials["document"], t.Rollouts["running"] = 1, 1
	t.CPU.Add(.25)
	t.CPU.Add(.75)
	t.RAM.Add(.375)
	t.RAM.Add(.625)
	t.Expires, t.Keeps = now.Add(time.Hour), true
	return t
}

// started returns metrics of a unit, with something in each.
func started(t *testing.T, tally func(context.Context) (*view.Tally, error)) *shown.Metrics {
	t.Helper()
	clock := now
	m := shown.New(shown.Config{Version: "1.2.3", Kinds: kinds.All(), Patient: time.Minute, Now: func() time.Time {
		clock = clock.Add(time.Minute)
		return clock
	}})
	m.Attach(unit{tally: tally})
	m.AttachCA(func() time.Time { return now.Add(24 * time.Hour) })
	m.AttachBroker(func() server.Stats { return server.Stats{Connections: 9, Dropped: 4} })
	m.Committed([]record.Record{
		{Type: record.Accepted, Kind: "config"}, {Type: record.Refused, Kind: "config"},
		{Type: record.Confirm, Kind: "config"}, {Type: record.RolledBack, Kind: "config"},
		{Type: record.Report, Kind: "health"}, {Type: record.Trouble},
	}, []fleet.Arrival{{Kind: wire.KindConfig, After: 200 * time.Millisecond}}, 3*time.Millisecond)
	m.Asked(5)
	m.Answered("GET /v1/nodes", 200, 20*time.Millisecond)
	m.Answered("", 404, time.Millisecond)
	return m
}

func fixed(context.Context) (*view.Tally, error) { return full(), nil }

func scrape(t testing.TB, m *shown.Metrics) string {
	t.Helper()
	text, kind, err := m.Text(t.Context())
	if err != nil || !strings.HasPrefix(kind, "text/plain; version=0.0.4") {
		t.Fatal(kind, err)
	}
	return string(text)
}

func TestWhatIsShown(t *testing.T) {
	text := scrape(t, started(t, fixed))
	for _, line := range []string{
		`tandem_nodes{state="in-step",type="press"} 7`, `tandem_nodes{state="offline",type="none"} 1`,
		`tandem_documents{kind="config",state="installed"} 7`, `tandem_health{state="ok"} 7`,
		`tandem_workloads{state="running"} 3`, `tandem_alerts_raised{parameter="cpu"} 1`,
		`tandem_trials{of="document"} 1`, `tandem_rollouts{state="running"} 1`,
		`tandem_load_ratio{resource="cpu",stat="mean"} 0.5`, `tandem_load_ratio{resource="cpu",stat="max"} 0.75`,
		`tandem_maintenance 1`, `tandem_certificate_expiry_seconds{of="node"} 1.7957919e+09`,
		`tandem_certificate_expiry_seconds{of="ca"} 1.7958747e+09`,
		`tandem_convergence_seconds_bucket{kind="config",le="0.25"} 1`,
		`tandem_convergence_seconds_bucket{kind="config",le="0.1"} 0`,
		`tandem_submissions_total{kind="config",result="accepted"} 1`,
		`tandem_submissions_total{kind="config",result="refused"} 1`,
		`tandem_trials_ended_total{kind="config",result="confirmed"} 1`,
		`tandem_trials_ended_total{kind="config",result="rolled-back"} 1`,
		`tandem_reports_total{kind="health"} 1`, `tandem_repair_requests_total 5`, `tandem_troubles_total 1`,
		`tandem_journal_records 800`, `tandem_journal_last_record 900`, `tandem_journal_size_bytes{part="free"} 1024`,
		`tandem_journal_size_bytes{part="used"} 1.047552e+06`, `tandem_load_ratio{resource="ram",stat="mean"} 0.5`,
		`tandem_load_ratio{resource="ram",stat="max"} 0.625`, "tandem_counted_timestamp_seconds 1.79578836e+09",
		`tandem_journal_commit_seconds_bucket{le="0.005"} 1`, `tandem_journal_failures_total 2`,
		`tandem_disk_free_bytes 5.36870912e+09`, `tandem_refusing 0`, `tandem_broker_up 1`,
		`tandem_http_request_seconds_count{code="200",route="GET /v1/nodes"} 1`,
		`tandem_http_request_seconds_count{code="404",route="other"} 1`,
		`tandem_broker_connections 9`, `tandem_broker_dropped_total 4`, `tandem_build_info{go="`,
	} {
		if !strings.Contains(text, "\n"+line) {
			t.Errorf("there is no %s", line)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// TestWhatIsNotKnown: there is no value of what is not known, and each of the rest is its own.
func TestWhatIsNotKnown(t *testing.T) {
	m := started(t, func(context.Context) (*view.Tally, error) { return view.NewTally(), nil })
	v := &distribute.Vitals{Room: -1, Newest: 7, Records: 7, Size: 7, Free: 7}
	m.Attach(unit{tally: func(context.Context) (*view.Tally, error) { return view.NewTally(), nil }, vital: v})
	text := scrape(t, m)
	for _, name := range []string{"journal_records", "journal_last_record", "journal_size_bytes", "disk_free_bytes",
		"load_ratio", `certificate_expiry_seconds{of="node"}`} {
		if strings.Contains(text, "\ntandem_"+name) {
			t.Errorf("%s has a value", name)
		}
	}
	for _, c := range []struct{ refusing, road bool }{{}, {true, false}, {false, true}, {true, true}} {
		v.Refusing, v.Road = c.refusing, c.road
		is := map[bool]int{true: 1}
		text := scrape(t, m)
		if !strings.Contains(text, fmt.Sprintf("\ntandem_refusing %d\n", is[c.refusing])) ||
			!strings.Contains(text, fmt.Sprintf("\ntandem_broker_up %d\n", is[c.road])) {
			t.Errorf("%+v:\n%s", c, text)
		}
	}
}

// TestLint: Prometheus' own rules for names, types and help.
func TestLint(t *testing.T) {
	problems, err := promlint.New(strings.NewReader(scrape(t, started(t, fixed)))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestEveryMetricIsDescribed: what is shown is what the reference has, and the other way round.
func TestEveryMetricIsDescribed(t *testing.T) {
	described := map[string]metrics.Def{}
	for _, d := range slices.Concat([]metrics.Def{metrics.Build}, shown.Defs(), metrics.Defs()) {
		described[d.Name] = d
	}
	seen := map[string]bool{}
	for _, f := range regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`).FindAllStringSubmatch(
		scrape(t, started(t, fixed)), -1) {
		name, kind := f[1], f[2]
		seen[name] = true
		if d, ok := described[name]; strings.HasPrefix(name, "tandem_") && (!ok || string(d.Type) != kind) {
			t.Errorf("%s %s is not in the reference", kind, name)
		}
	}
	for name := range described {
		if !seen[name] {
			t.Errorf("%s is in the reference, and not shown", name)
		}
	}
	if !seen["go_goroutines"] || !seen["process_resident_memory_bytes"] {
		t.Error("the process is not shown")
	}
}

// TestStrangersMakeNoSeries: whatever types and parameters nodes choose, there are as many series, and each
// node counts.
func TestStrangersMakeNoSeries(t *testing.T) {
	round := 0
	m := started(t, func(context.Context) (*view.Tally, error) {
		round++
		u := full()
		for i := range 10_000 {
			kind := fmt.Sprintf("t%d-%05d", round, i)
			u.Nodes[view.Standing{State: view.NodeBehind, Type: kind}] = 1
			u.Alerts[kind] = 1
			u.Documents[view.DocumentStates{Kind: kind, State: "waiting"}] = 1
		}
		for _, odd := range []string{"other", "a\nb", "\xff", "\u202e", strings.Repeat("x", 65)} {
			u.Nodes[view.Standing{State: view.NodeBehind, Type: odd}] = 100
		}
		return u, nil
	})
	for range 3 {
		text := scrape(t, m)
		series := strings.Count(text, "\ntandem_nodes{") + strings.Count(text, "\ntandem_alerts_raised{")
		if series > 70 {
			t.Fatalf("%d series", series)
		}
		var sum, n int
		behind := regexp.MustCompile(`tandem_nodes\{state="behind",.*\} (\d+)`)
		for _, line := range behind.FindAllStringSubmatch(text, -1) {
			if _, err := fmt.Sscan(line[1], &n); err != nil {
				t.Fatal(err)
			}
			sum += n
		}
		if sum != 10_500 || !strings.Contains(text, `tandem_nodes{state="in-step",type="press"} 7`) {
			t.Fatalf("%d nodes are counted", sum)
		}
		if !strings.Contains(text, `tandem_documents{kind="other",state="waiting"} 10000`) {
			t.Fatal("kinds that are not known have series")
		}
	}
}

// TestAPlaceIsKept: a type that had a series keeps it, also when others have more nodes.
func TestAPlaceIsKept(t *testing.T) {
	crowd := 0
	m := started(t, func(context.Context) (*view.Tally, error) {
		u := view.NewTally()
		u.Nodes[view.Standing{State: view.NodeInStep, Type: "press"}] = 1
		for i := range crowd {
			u.Nodes[view.Standing{State: view.NodeInStep, Type: fmt.Sprint("t", i)}] = 50
		}
		return u, nil
	})
	scrape(t, m)
	crowd = 100
	if text := scrape(t, m); !strings.Contains(text, `type="press"} 1`) || !strings.Contains(text, `type="other"}`) {
		t.Error(text)
	}
}

// TestWhatCannotBeCountedStays: while the unit does not say how it stands, the newest count is shown, and how
// old it is.
func TestWhatCannotBeCountedStays(t *testing.T) {
	fails := false
	m := started(t, func(context.Context) (*view.Tally, error) {
		if fails {
			return nil, errors.New("the journal cannot be read")
		}
		return full(), nil
	})
	counted := regexp.MustCompile(`\ntandem_counted_timestamp_seconds (\S+)`)
	first := counted.FindString(scrape(t, m))
	fails = true
	text := scrape(t, m)
	if first == "" || counted.FindString(text) != first || !strings.Contains(text, `type="press"} 7`) ||
		!strings.Contains(text, "\ntandem_refusing 0") {
		t.Errorf("%q\n%s", first, text)
	}
	fails = false
	if again := counted.FindString(scrape(t, m)); again == first {
		t.Error("it is not counted again")
	}
}

// TestWhoLeavesIsLetGo: somebody who scrapes while another count goes on, and leaves, waits for nobody.
func TestWhoLeavesIsLetGo(t *testing.T) {
	begun, goOn := make(chan struct{}), make(chan struct{})
	m := started(t, func(context.Context) (*view.Tally, error) {
		close(begun)
		<-goOn
		return full(), nil
	})
	done := make(chan error, 1)
	go func() {
		_, _, err := m.Text(context.Background())
		done <- err
	}()
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := m.Text(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(goOn)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestOneCountServesMany: who scrapes within a second gets what was counted, and the unit is not counted again.
func TestOneCountServesMany(t *testing.T) {
	clock, counts := now, 0
	m := shown.New(shown.Config{Kinds: kinds.All(), Now: func() time.Time { return clock }})
	m.Attach(unit{tally: func(context.Context) (*view.Tally, error) {
		counts++
		return full(), nil
	}})
	for i, c := range []struct {
		after time.Duration
		want  int
	}{{0, 1}, {0, 1}, {999 * time.Millisecond, 1}, {time.Millisecond, 2}, {-time.Hour, 3}} {
		clock = clock.Add(c.after)
		if scrape(t, m); counts != c.want {
			t.Errorf("scrape %d: counted %d times, want %d", i, counts, c.want)
		}
	}
}
