package why_test

import (
	"testing"
	"time"

	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/why"
)

// The sentence says because of whom, since when, and what ends it.
func TestRollout(t *testing.T) {
	now := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	two := []string{"n1", "n2"}
	since, soon := now.Add(-5*time.Minute), now.Add(2*time.Hour)
	for want, h := range map[string]*rollout.Held{
		"r1 goes on": nil,
		"r1 is paused by ann: lunch, for 5m; somebody has to resume or abort it": {
			Reason: rollout.HeldPaused, Cause: rollout.CauseOrder, Who: "ann", Text: "lunch", Since: since,
		},
		"r1 is paused, since more nodes have failed than may: n1 (failed: apply-failed), n2 (silent) and 3 more, " +
			"for 5m; somebody has to resume or abort it": {
			Reason: rollout.HeldPaused, Cause: rollout.CauseBudget, Nodes: two, Count: 5, Since: since,
			Failures: []string{"failed: apply-failed", "silent"},
		},
		"r1 is paused, since no node of the canary wave has passed; somebody has to resume or abort it": {
			Reason: rollout.HeldPaused, Cause: rollout.CauseCanary,
		},
		"r1 is paused, since a node could not be taken back: n1 (stuck: x); somebody has to resume or abort it": {
			Reason: rollout.HeldPaused, Cause: rollout.CauseTakeBack, Nodes: two[:1], Count: 1,
			Failures: []string{"stuck: x"},
		},
		"r1 waits for r0, for 5m": {Reason: rollout.HeldClaim, Behind: "r0", Since: since},
		"r1 waits for r0, which has a change in flight on n1, n2": {
			Reason: rollout.HeldClaim, Behind: "r0", Nodes: two, Count: 2,
		},
		"r1 waits for a maintenance window, to issue to n1, n2 and 40 more; it opens in 2h": {
			Reason: rollout.HeldWindow, Nodes: two, Count: 42, Earliest: soon,
		},
		"r1 waits for a maintenance window, to issue to n1; it never opens": {
			Reason: rollout.HeldWindow, Nodes: two[:1], Count: 1,
		},
		"r1 waits, since no more nodes may be unavailable: n1, n2, for 5m": {
			Reason: rollout.HeldUnavailable, Nodes: two, Count: 2, Since: since,
		},
		"r1 waits for what is offline: n1, n2, for 5m; nobody waits for the first of them any more in 2h": {
			Reason: rollout.HeldSilent, Nodes: two, Count: 2, Since: since, Earliest: soon,
		},
		"r1 waits for what has not installed it yet: n1; the first deadline ends in 2h": {
			Reason: rollout.HeldApplying, Nodes: two[:1], Count: 1, Earliest: soon,
		},
		"r1 waits for nodes to stay in good health: n1; the first of them may pass in 2h": {
			Reason: rollout.HeldSoak, Nodes: two[:1], Count: 1, Earliest: soon,
		},
		"r1 waits for nodes to stay in good health: n2": {
			Reason: rollout.HeldSoak, Nodes: two[1:], Count: 1, Earliest: now.Add(-time.Second),
		},
		"r1 waits for nodes to stay in good health: n1; they have troubles that they did not have before": {
			Reason: rollout.HeldSoak, Nodes: two[:1], Count: 1,
		},
		"r1 waits for what says nothing of its health: n1; the first deadline ends in 2h": {
			Reason: rollout.HeldNoData, Nodes: two[:1], Count: 1, Earliest: soon,
		},
	} {
		if got := why.Rollout(now, "r1", h); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// What became of it is told once it has ended.
func TestRolloutEnded(t *testing.T) {
	now := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	v := rollout.View{ID: "r1", Ended: now.Add(-time.Hour), Phase: rollout.Done, By: "ann"}
	partly := v
	partly.Nodes = rollout.StatusCount{All: 9, Passed: 4, Failed: 2, Silent: 1, Queued: 1, Absent: 1}
	aborted, superseded, running, back := v, v, v, v
	back.Phase = rollout.Reverting
	waits := back
	waits.Held = &rollout.Held{Reason: rollout.HeldClaim, Behind: "r0"}
	aborted.Phase, superseded.Phase, running.Phase = rollout.Aborted, rollout.Superseded, rollout.Running
	running.Held = &rollout.Held{Reason: rollout.HeldClaim, Behind: "r0"}
	for want, v := range map[string]rollout.View{
		"r1 is done, 1h ago": v,
		"r1 is done, 1h ago; 2 failed, 1 silent, 2 absent": partly,
		"r1 was aborted by ann, 1h ago":                    aborted,
		"r1 was superseded by ann, 1h ago":                 superseded,
		"r1 is being taken back":                           back,
		"r1 is being taken back and waits for r0":          waits,
		"r1 waits for r0":                                  running,
	} {
		if got := why.Ended(now, &v); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// Of each node it is told what it waits for, or what is wrong with it.
func TestRolloutNode(t *testing.T) {
	now := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	ago, soon := now.Add(-3*time.Minute), now.Add(2*time.Hour)
	hot := []rollout.Trouble{{Aspect: "alerts", Name: "hot"}, {Aspect: "restarts"}}
	for want, n := range map[string]rollout.NodeView{
		"": {Status: rollout.Passed, Online: true},
		"waits for r0, which has a change in flight on it": {Waits: rollout.HeldClaim, Behind: "r0", Ends: soon},
		"waits for a maintenance window; it opens in 2h":   {Waits: rollout.HeldWindow, Ends: soon},
		"waits for a maintenance window":                   {Waits: rollout.HeldWindow},
		"waits until fewer nodes are unavailable":          {Waits: rollout.HeldUnavailable},
		"is offline, for 3m; nobody waits for it any more in 2h": {
			Status: rollout.Queued, Waits: rollout.HeldSilent, Since: ago, Ends: soon,
		},
		"is offline, for 3m; its deadline ends in 2h": {
			Status: rollout.Issued, Waits: rollout.HeldSilent, Since: ago, Ends: soon,
		},
		"has not installed it yet, for 3m; its deadline ends in 2h": {
			Waits: rollout.HeldApplying, Issued: ago, Ends: soon,
		},
		"is to stay in good health; it may pass in 2h": {Waits: rollout.HeldSoak, Ends: soon},
		"has troubles that it did not have before: the alert hot, restarted; its deadline ends in 2h": {
			Waits: rollout.HeldSoak, Ends: soon, Troubles: hot, Issued: ago,
		},
		"says nothing of its health; its deadline ends in 2h": {Waits: rollout.HeldNoData, Ends: soon},
		"exit status 1": {Status: rollout.Failed, Reason: "exit status 1"},
		"has troubles that it did not have before: the alert hot, restarted": {
			Status: rollout.Passed, Unavailable: true, Online: true, Troubles: hot, Issued: ago,
		},
		"has troubles: the alert hot, restarted": {
			Status: rollout.Queued, Unavailable: true, Online: true, Troubles: hot,
		},
		"is offline, for 4m": {Status: rollout.Absent, Since: ago.Add(-time.Minute)},
		"is offline, for 3m": {Status: rollout.Passed, Unavailable: true, Since: ago},
	} {
		if got := why.RolloutNode(now, &n); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A deadline that has passed is not told.
func TestRolloutNodeIsLate(t *testing.T) {
	now := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	n := rollout.NodeView{Waits: rollout.HeldWindow, Ends: now.Add(-time.Minute)}
	if got := why.RolloutNode(now, &n); got != "waits for a maintenance window" {
		t.Error(got)
	}
}
