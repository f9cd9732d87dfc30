package why

import (
	"fmt"
	"strings"
	"time"

	"tandem.internal/controller/internal/phrase"
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/rollout/plan"
)

// Rollout says in one sentence what holds a rollout up: because of which nodes, since when, what ends it and when that
// may be. Nil: nothing holds it up. Its reasons for programs are those of rollout.Held.
func Rollout(now time.Time, id string, h *rollout.Held) string {
	if h == nil {
		return id + " goes on"
	}
	text := id + " " + held(h)
	if !h.Since.IsZero() {
		text += ", for " + phrase.Span(now.Sub(h.Since))
	}
	if ends := ending(now, h); ends != "" {
		text += "; " + ends
	}
	return text
}

// Ended says in one sentence how a rollout is, or what became of it.
func Ended(now time.Time, v *rollout.View) string {
	by := phrase.By(v.By)
	switch v.Phase {
	case rollout.Done:
		return fmt.Sprintf("%s is done, %s ago%s", v.ID, phrase.Span(now.Sub(v.Ended)), remain(&v.Nodes))
	case rollout.Aborted:
		return fmt.Sprintf("%s was aborted%s, %s ago", v.ID, by, phrase.Span(now.Sub(v.Ended)))
	case rollout.Superseded:
		return fmt.Sprintf("%s was superseded%s, %s ago", v.ID, by, phrase.Span(now.Sub(v.Ended)))
	}
	if v.Phase == rollout.Reverting {
		if v.Held == nil {
			return v.ID + " is being taken back"
		}
		return Rollout(now, v.ID+" is being taken back and", v.Held)
	}
	return Rollout(now, v.ID, v.Held)
}

// remain says which nodes of a rollout that is done do not have it.
func remain(c *rollout.StatusCount) string {
	var all []string
	for _, s := range []struct {
		count int
		text  string
	}{{c.Failed, "failed"}, {c.Silent, "silent"}, {c.Queued + c.Absent, "absent"}} {
		if s.count > 0 {
			all = append(all, fmt.Sprintf("%d %s", s.count, s.text))
		}
	}
	if len(all) == 0 {
		return ""
	}
	return "; " + strings.Join(all, ", ")
}

// RolloutNode says how a node holds a rollout up, what it waits for, or why it has failed; "": there is nothing to say.
func RolloutNode(now time.Time, n *rollout.NodeView) string {
	text, ends := waiting(now, n)
	if left := n.Ends.Sub(now); ends != "" && !n.Ends.IsZero() && left > 0 {
		text += "; " + ends + " in " + phrase.Ahead(left)
	}
	switch {
	case text != "":
	case n.Reason != "":
		text = n.Reason
	case n.Unavailable && len(n.Troubles) > 0:
		text = "has " + troubles(n)
	case n.Unavailable && !n.Online, n.Status == rollout.Absent && !n.Since.IsZero():
		text = "is offline, for " + phrase.Span(now.Sub(n.Since))
	}
	return text
}

// waiting says what a node waits for, or is waited for, and what ends then.
func waiting(now time.Time, n *rollout.NodeView) (text, ends string) {
	deadline := "its deadline ends"
	switch n.Waits {
	case rollout.HeldClaim:
		return "waits for " + n.Behind + ", which has a change in flight on it", ""
	case rollout.HeldWindow:
		return "waits for a maintenance window", "it opens"
	case rollout.HeldUnavailable:
		return "waits until fewer nodes are unavailable", ""
	case rollout.HeldSilent:
		if n.Status == rollout.Queued {
			deadline = "nobody waits for it any more"
		}
		return "is offline, for " + phrase.Span(now.Sub(n.Since)), deadline
	case rollout.HeldApplying:
		return "has not installed it yet, for " + phrase.Span(now.Sub(n.Issued)), deadline
	case rollout.HeldSoak:
		if len(n.Troubles) > 0 {
			return "has " + troubles(n), deadline
		}
		return "is to stay in good health", "it may pass"
	case rollout.HeldNoData:
		return "says nothing of its health", deadline
	}
	return string(n.Waits), ""
}

// troubles lists what is wrong with a node.
func troubles(n *rollout.NodeView) string {
	kinds := map[plan.Aspect]string{
		plan.Alerts: "the alert", plan.Checks: "the check", plan.Restarts: "restarted", plan.Workloads: "the workload",
	}
	var list []string
	for _, t := range n.Troubles {
		list = append(list, strings.TrimSpace(kinds[t.Aspect]+" "+t.Name))
	}
	text := "troubles"
	if !n.Issued.IsZero() {
		text += " that it did not have before"
	}
	return text + ": " + strings.Join(list, ", ")
}

// held says what is the matter.
func held(h *rollout.Held) string {
	switch h.Reason {
	case rollout.HeldPaused:
		return "is paused" + paused(h)
	case rollout.HeldClaim:
		if len(h.Nodes) == 0 {
			return "waits for " + h.Behind
		}
		return fmt.Sprintf("waits for %s, which has a change in flight on %s", h.Behind, nodes(h))
	case rollout.HeldWindow:
		return fmt.Sprintf("waits for a maintenance window, to issue to %s", nodes(h))
	case rollout.HeldUnavailable:
		return fmt.Sprintf("waits, since no more nodes may be unavailable: %s", nodes(h))
	case rollout.HeldSilent:
		return fmt.Sprintf("waits for what is offline: %s", nodes(h))
	case rollout.HeldApplying:
		return fmt.Sprintf("waits for what has not installed it yet: %s", nodes(h))
	case rollout.HeldSoak:
		return fmt.Sprintf("waits for nodes to stay in good health: %s", nodes(h))
	case rollout.HeldNoData:
		return fmt.Sprintf("waits for what says nothing of its health: %s", nodes(h))
	}
	return "waits: " + string(h.Reason)
}

// paused says who or what has paused it.
func paused(h *rollout.Held) string {
	failed := make([]string, 0, len(h.Nodes))
	for i, n := range h.Nodes {
		failed = append(failed, n+" ("+h.Failures[i]+")")
	}
	list := ""
	if len(failed) > 0 {
		list = ": " + strings.Join(failed, ", ") + more(h)
	}
	switch h.Cause {
	case rollout.CauseOrder:
		text := ""
		if h.Who != "" {
			text += " by " + h.Who
		}
		if h.Text != "" {
			text += ": " + h.Text
		}
		return text
	case rollout.CauseBudget:
		return ", since more nodes have failed than may" + list
	case rollout.CauseCanary:
		return ", since no node of the canary wave has passed" + list
	case rollout.CauseTakeBack:
		return ", since a node could not be taken back" + list
	}
	return ": " + string(h.Cause)
}

// ending says what ends it.
func ending(now time.Time, h *rollout.Held) string {
	in := ""
	if left := h.Earliest.Sub(now); !h.Earliest.IsZero() && left > 0 {
		in = "in " + phrase.Ahead(left)
	}
	switch h.Reason {
	case rollout.HeldPaused:
		return "somebody has to resume or abort it"
	case rollout.HeldWindow:
		if in == "" {
			return "it never opens"
		}
		return "it opens " + in
	case rollout.HeldSilent:
		if in != "" {
			return "nobody waits for the first of them any more " + in
		}
	case rollout.HeldSoak:
		switch {
		case in != "":
			return "the first of them may pass " + in
		case !h.Earliest.IsZero():
			return ""
		}
		return "they have troubles that they did not have before"
	case rollout.HeldApplying, rollout.HeldNoData:
		if in != "" {
			return "the first deadline ends " + in
		}
	}
	return ""
}

// nodes lists the nodes that are named, and counts the others.
func nodes(h *rollout.Held) string { return strings.Join(h.Nodes, ", ") + more(h) }

func more(h *rollout.Held) string {
	if n := h.Count - len(h.Nodes); n > 0 {
		return fmt.Sprintf(" and %d more", n)
	}
	return ""
}
