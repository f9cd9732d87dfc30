package why

import (
	"time"

	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/view"
)

// rolloutBases are levels and changes of what holds a rollout up.
var rolloutBases = map[rollout.Reason]struct {
	level   view.Level
	changes string
}{
	rollout.HeldPaused:      {view.LevelError, "somebody resumes it, or aborts it: tandem rollout resume ROLLOUT"},
	rollout.HeldClaim:       {view.LevelWarning, "the other rollout has the nodes no more"},
	rollout.HeldWindow:      {view.LevelInfo, "a maintenance window opens"},
	rollout.HeldUnavailable: {view.LevelWarning, "fewer nodes are unavailable"},
	rollout.HeldSilent:      {view.LevelWarning, "the nodes are back, or nobody waits for them any more"},
	rollout.HeldApplying:    {view.LevelInfo, "the nodes have installed it, or their deadline ends"},
	rollout.HeldSoak:        {view.LevelInfo, "the nodes were in good health for long enough, or their deadline ends"},
	rollout.HeldNoData:      {view.LevelWarning, "the nodes tell of their health, or their deadline ends"},
}

// RolloutWhy says how a rollout is, and why: what holds it up, the nodes because of which, and what became of the
// others.
func RolloutWhy(now time.Time, v *view.RolloutDetail) view.Why {
	out := view.Why{About: view.About{Kind: view.AboutRollout, Rollout: v.ID}, State: string(v.Phase)}
	b := basis{view.LevelInfo, "the journal: the rollout's records, and what its nodes report", "a wave has passed"}
	at := v.At
	switch h := v.Held; {
	case !v.Ended.IsZero():
		b.changes, at = "another rollout begins", v.Ended
		if v.Phase != rollout.Done || v.Nodes.Failed+v.Nodes.Silent+v.Nodes.Stuck > 0 {
			b.level = view.LevelWarning
		}
	case h != nil:
		t := rolloutBases[h.Reason]
		b.level, b.changes, at = t.level, t.changes, h.Since
		if h.Reason == rollout.HeldPaused && h.Cause == rollout.CauseOrder {
			b.level = view.LevelWarning
		}
	}
	out.Sentences = []view.Because{b.with("ROLLOUT", v.ID).because(at, "%s", v.Why)}
	for i := range v.List {
		n := &v.List[i]
		if len(out.Sentences) > maxRolloutNodes || n.Why == "" {
			continue
		}
		out.Sentences = append(out.Sentences, nodeOfRollout(n))
	}
	b = basis{view.LevelInfo, b.source, "nodes report anew"}
	out.Sentences = append(out.Sentences, b.because(time.Time{}, "of %d nodes %d have passed and %d have failed",
		v.Nodes.All, v.Nodes.Passed, v.Nodes.Failed))
	if len(v.Openings) > 0 && v.Ended.IsZero() {
		b.source, b.changes = "the rollout's plan", "it opens"
		out.Sentences = append(out.Sentences, b.because(v.Openings[0], "its next maintenance window opens at %s",
			since(now, v.Openings[0])))
	}
	return out
}

// maxRolloutNodes is how many nodes are told of.
const maxRolloutNodes = 10

func nodeOfRollout(n *view.RolloutNode) view.Because {
	b := basis{view.LevelWarning, "the rollout's records, and the node's reports", "the node reports anew"}
	at := n.Issued
	switch n.Status {
	case rollout.Failed, rollout.Silent, rollout.Stuck:
		b.level, b.changes = view.LevelError, "the node takes it, or the rollout is taken back"
	}
	if t, there := rolloutBases[n.Waits]; there && n.Waits != rollout.HeldPaused {
		b.changes = t.changes
	}
	if !n.Online && !n.Since.IsZero() {
		at = n.Since
	}
	return b.because(at, "%s: %s", n.Node, n.Why)
}
