package roster

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

var at = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// node is one that is online and runs config 1.0.0, as it should.
func node(change func(*view.Node, *view.Document)) view.Node {
	d := view.Document{
		Desired: &view.Desired{DocRef: wire.DocRef{Epoch: 1, Rev: 4, Version: "1.0.0"}, Issued: at},
		Running: &wire.DocRef{Epoch: 1, Rev: 4, Version: "1.0.0"}, InSync: true,
		Last: &wire.Attempt{Epoch: 1, Rev: 4, State: wire.StateInstalled, At: at.Add(time.Minute)},
	}
	n := view.Node{Node: "n1", Type: "press", Online: true, Since: at.Add(-time.Hour), FirstSeen: at.Add(-time.Hour),
		InSync: true}
	change(&n, &d)
	n.Documents = map[wire.Kind]view.Document{wire.KindConfig: d}
	return n
}

func behind(n *view.Node, d *view.Document, rev uint64, state wire.State, err *wire.Error) {
	n.InSync, d.InSync = false, false
	d.Desired = &view.Desired{DocRef: wire.DocRef{Epoch: 1, Rev: rev, Version: "1.1.0"}, Issued: at.Add(time.Hour)}
	d.Last = &wire.Attempt{Epoch: 1, Rev: 5, State: state, At: at.Add(2 * time.Hour), Error: err}
}

// TestRows: each node is in the class that matters most, and says why.
func TestRows(t *testing.T) {
	broken := wire.New(wire.CodeApplyFailed, "", "exit status 3")
	for name, c := range map[string]struct {
		change func(*view.Node, *view.Document)
		want   view.Row
	}{
		"in step": {func(*view.Node, *view.Document) {},
			view.Row{Class: view.ClassInStep, State: "installed", Desired: "1.0.0", Since: at.Add(time.Minute)}},
		"not told yet": {func(n *view.Node, d *view.Document) { behind(n, d, 6, wire.StateInstalled, nil) },
			view.Row{Class: view.ClassOnTheWay, State: "waiting", Desired: "1.1.0", Since: at.Add(time.Hour),
				Why: "config waiting"}},
		"under way": {func(n *view.Node, d *view.Document) { behind(n, d, 5, wire.StateApplying, nil) },
			view.Row{Class: view.ClassOnTheWay, State: "applying", Desired: "1.1.0", Since: at.Add(2 * time.Hour),
				Why: "config applying"}},
		"failed": {func(n *view.Node, d *view.Document) { behind(n, d, 5, wire.StateFailed, broken) },
			view.Row{Class: view.ClassFailed, State: "failed", Desired: "1.1.0", Since: at.Add(2 * time.Hour),
				Why: "config: apply-failed: exit status 3"}},
		"contradicts": {func(n *view.Node, d *view.Document) { n.InSync, d.InSync, d.Error = false, false, broken },
			view.Row{Class: view.ClassFailed, State: "installed", Desired: "1.0.0", Since: at.Add(time.Minute),
				Why: "config: apply-failed: exit status 3"}},
		"failed and offline": {func(n *view.Node, d *view.Document) {
			behind(n, d, 5, wire.StateFailed, broken)
			n.Online = false
		}, view.Row{Class: view.ClassOffline, State: "failed", Desired: "1.1.0", Since: at.Add(-time.Hour)}},
		"alert": {func(n *view.Node, _ *view.Document) { n.Health = &view.Health{State: view.HealthOK, Alerts: 2} },
			view.Row{Class: view.ClassUnwell, State: "installed", Desired: "1.0.0", Since: at.Add(time.Minute),
				Alerts: 2, Why: "2 alerts"}},
		"check": {func(n *view.Node, _ *view.Document) {
			n.Health = &view.Health{State: view.HealthCheck, Text: "check disk"}
		}, view.Row{Class: view.ClassUnwell, State: "installed", Desired: "1.0.0", Since: at.Add(time.Minute),
			Why: "check disk"}},
		"in error": {func(n *view.Node, _ *view.Document) { n.Info = &wire.NodeInfo{Error: broken} },
			view.Row{Class: view.ClassUnwell, State: "installed", Desired: "1.0.0", Since: at.Add(time.Minute),
				Why: "apply-failed: exit status 3"}},
		"agent on trial": {func(n *view.Node, _ *view.Document) {
			n.Health = &view.Health{State: view.HealthTrial, Text: "trial 1.5.0 4m left"}
		}, view.Row{Class: view.ClassOnTheWay, State: "installed", Desired: "1.0.0", Since: at.Add(time.Minute),
			Why: "trial 1.5.0 4m left"}},
		"revoked": {func(n *view.Node, _ *view.Document) {
			n.Identity = &view.Identity{State: "revoked", Revoked: at}
		}, view.Row{Class: view.ClassRevoked, State: "revoked", Desired: "1.0.0", Since: at}},
	} {
		c.want.Node, c.want.Type, c.want.Version = "n1", "press", "1.0.0"
		n := node(c.change)
		if got := Row(&n, wire.KindConfig); got != c.want {
			t.Errorf("%s:\n%+v, want\n%+v", name, got, c.want)
		}
	}
	awaited := view.Node{Node: "n2", Identity: &view.Identity{State: "joined", Joined: at}}
	want := view.Row{Node: "n2", Class: view.ClassOffline, State: "joined", Since: at, Why: "has not connected yet"}
	if got := Row(&awaited, wire.KindConfig); got != want {
		t.Errorf("%+v", got)
	}
}

// TestCounts: what is counted in and out again leaves nothing.
func TestCounts(t *testing.T) {
	var c Counts
	rows := []view.Row{
		{Class: view.ClassInStep, Type: "press", Version: "1.0.0"}, {Class: view.ClassFailed, Type: "press"},
		{Class: view.ClassOffline, Type: "pump", Version: "1.0.0"}, {Class: view.ClassRevoked, Type: "pump"},
	}
	for i := range rows {
		c.Add(&rows[i])
	}
	f := c.Fleet()
	if f.Nodes != 4 || f.Online != 2 || f.Counts != (view.FleetCounts{InStep: 1, Failed: 1, Offline: 1, Revoked: 1}) ||
		f.Types["press"] != 2 || f.Types["pump"] != 1 || f.Versions["1.0.0"] != 2 || f.Versions[""] != 1 {
		t.Errorf("%+v", f)
	}
	for i := range rows {
		c.Remove(&rows[i])
	}
	if f = c.Fleet(); f.Nodes != 0 || f.Online != 0 || f.Counts != (view.FleetCounts{}) ||
		len(f.Types)+len(f.Versions) > 0 {
		t.Errorf("%+v", f)
	}
}

// TestFailedIsOfTheNewest: a node failed if it did so with what it should run now; the why of several kinds is that of
// the first, and short.
func TestFailedIsOfTheNewest(t *testing.T) {
	long := wire.New(wire.CodeApplyFailed, "", strings.Repeat("x", 2*MaxWhy))
	for _, c := range []struct {
		rev   uint64
		state wire.State
		want  view.Class
	}{{6, wire.StateFailed, view.ClassOnTheWay}, {5, wire.StateSuperseded, view.ClassOnTheWay},
		{5, wire.StateFailed, view.ClassFailed}} {
		n := node(func(n *view.Node, d *view.Document) { behind(n, d, c.rev, c.state, long) })
		if got := Class(&n); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	n := node(func(n *view.Node, d *view.Document) { behind(n, d, 5, wire.StateFailed, long) })
	n.Documents[wire.KindWorkloads] = n.Documents[wire.KindConfig]
	got := Row(&n, wire.KindConfig).Why
	if !strings.HasPrefix(got, "config: apply-failed: x") || utf8.RuneCountInString(got) > MaxWhy {
		t.Error(got)
	}
}
