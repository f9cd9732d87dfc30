package metrics_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/kinds"
	shown "tandem.internal/controller/internal/metrics"
	"tandem.internal/shared/wire"
)

// metered is a sample unit with metrics of it.
func metered(tb testing.TB) (*apitest.Rig, *shown.Metrics) {
	tb.Helper()
	clock := time.Now()
	m := shown.New(shown.Config{Version: "1.2.3", Kinds: kinds.All(), Patient: time.Minute, Now: func() time.Time {
		clock = clock.Add(time.Minute) // so that each scrape counts
		return clock
	}})
	u := apitest.StartMetered(tb, m)
	m.Attach(u)
	return u, m
}

// TestOfAUnit: the four nodes of the sample stand as the list of nodes says.
func TestOfAUnit(t *testing.T) {
	u, m := metered(t)
	text := scrape(t, m)
	for _, line := range []string{
		`tandem_nodes{state="offline",type="secondaryType"} 1`, `tandem_nodes{state="failed",type="mainType"} 1`,
		`tandem_nodes{state="behind",type="secondaryType"} 1`, `tandem_nodes{state="in-step",type="mainType"} 1`,
		`tandem_documents{kind="config",state="installed"} 1`, `tandem_documents{kind="config",state="rejected"} 1`,
		`tandem_documents{kind="config",state="applying"} 1`, `tandem_documents{kind="config",state="waiting"} 1`,
		`tandem_submissions_total{kind="config",result="accepted"} 2`, `tandem_broker_up 1`, `tandem_refusing 0`,
		`tandem_convergence_seconds_count{kind="config"} 5`,
	} {
		if !strings.Contains(text, "\n"+line) {
			t.Errorf("there is no %s", line)
		}
	}
	st, err := u.Status(t.Context())
	if line := fmt.Sprintf("\ntandem_journal_last_record %d", st.Rev); err != nil || !strings.Contains(text, line) {
		t.Errorf("there is no %s (%v)", line, err)
	}
	if t.Failed() {
		t.Log(text)
	}
}

// TestArrivalsCountOnce: what a node has come to run counts when it says so first.
func TestArrivalsCountOnce(t *testing.T) {
	u, m := metered(t)
	const line = "\ntandem_convergence_seconds_count{kind=\"config\"} "
	_, before, _ := strings.Cut(scrape(t, m), line)
	u.Report("node-3", wire.KindConfig, wire.StateInstalled, nil, nil)
	u.Report("node-3", wire.KindConfig, wire.StateInstalled, nil, nil)
	_, after, _ := strings.Cut(scrape(t, m), line)
	var was, is int
	if _, err := fmt.Sscan(before, &was); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(after, &is); err != nil || is != was+1 {
		t.Errorf("%d arrivals before, %d after (%v)", was, is, err)
	}
}

// largeUnit is a unit of 10,000 nodes that run what they should, and told of their health.
func largeUnit(b *testing.B) (*apitest.Rig, *shown.Metrics) {
	u, m := metered(b)
	for i := range 10_000 {
		node := fmt.Sprintf("press-%05d", i)
		u.Connect(node, true)
		u.Info(node)
		u.Report(node, wire.KindConfig, wire.StateInstalled, nil, nil)
		u.Load(node, .25, .5)
	}
	return u, m
}

// BenchmarkScrape is a scrape of 10,000 nodes by a real core, which counts the unit each time; floor is the list of
// all nodes, for comparison.
func BenchmarkScrape(b *testing.B) {
	u, m := largeUnit(b)
	b.Run("scrape", func(b *testing.B) {
		var bytes int
		for b.Loop() {
			text, _, err := m.Text(context.Background())
			if err != nil {
				b.Fatal(err)
			}
			bytes = len(text)
		}
		b.ReportMetric(float64(bytes), "bytes")
	})
	b.Run("floor", func(b *testing.B) {
		for b.Loop() {
			if _, err := u.Nodes(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
