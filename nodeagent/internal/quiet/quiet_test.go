package quiet

import (
	"testing"
	"time"

	"tandem.internal/shared/wire"
)

const minute = time.Minute

func doc(rev uint64) *wire.DocRef { return &wire.DocRef{Epoch: 5, Rev: rev, Version: "1", Hash: "h"} }

// Each aspect has a time of its own; what is installed begins all of them anew, and so does a start.
func TestQuiet(t *testing.T) {
	w := New(minute)
	want := func(now, alerts, checks, restarts, workloads time.Duration, rev uint64) {
		t.Helper()
		q := w.Quiet(now)
		if got := [4]wire.Span{q.Alerts, q.Checks, q.Restarts, q.Workloads}; got != [4]wire.Span{
			wire.SpanOf(alerts), wire.SpanOf(checks), wire.SpanOf(restarts), wire.SpanOf(workloads),
		} || q.Revs[wire.KindConfig] != rev {
			t.Fatalf("at %v: %v, %v", now, got, q.Revs)
		}
	}
	want(3*minute, 2*minute, 2*minute, 2*minute, 2*minute, 0)
	w.Happened(2*minute, Alerts)
	want(3*minute, minute, 2*minute, 2*minute, 2*minute, 0)
	w.Troubles(2*minute, Checks, "x", nil) // as before
	want(3*minute, minute, 2*minute, 2*minute, 2*minute, 0)
	w.Troubles(3*minute, Checks, "x", []string{"disk"})
	w.Troubles(4*minute, Workloads, "x", []string{"a"})
	want(5*minute, 3*minute, 2*minute, 4*minute, minute, 0)
	w.Troubles(5*minute, Workloads, "x", []string{"b"}) // one has ended and another begun
	w.Troubles(5*minute, Checks, "x", []string{"disk"})
	want(5*minute, 3*minute, 2*minute, 4*minute, 0, 0)
	w.Troubles(6*minute, Workloads, "y", nil) // somebody else has none
	w.Troubles(6*minute, Checks, "x", nil)    // it has ended
	want(6*minute, 4*minute, 0, 5*minute, minute, 0)
	w.Running(7*minute, wire.KindConfig, doc(9))
	want(7*minute, 0, 0, 0, 0, 9)
	w.Running(8*minute, wire.KindConfig, doc(9)) // the same
	want(8*minute, minute, minute, minute, minute, 9)
	w.Running(8*minute, wire.KindWorkloads, doc(9))
	want(9*minute, minute, minute, minute, minute, 9)
	w.Running(9*minute, wire.KindConfig, nil)
	want(10*minute, minute, minute, minute, minute, 0)
}

// A controller that is told too much lets a node pass too early.
func TestQuietIsRoundedDown(t *testing.T) {
	if q := New(0).Quiet(2*time.Second - 1); q.Alerts != wire.Span(time.Second) {
		t.Error(q.Alerts)
	}
	if q := New(0).Quiet(time.Second - 1); q.Alerts != 0 {
		t.Error(q.Alerts)
	}
}
