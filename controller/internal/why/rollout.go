package why

import (
	"fmt"
	"strings"
	"time"

	"tandem.internal/controller/internal/rollout"
)

// Rollout says in one sentence what holds a rollout up: because of which nodes, since when, what ends it and when that
// may be. Nil: nothing holds it up. Its reasons for programs are those of rollout.Held.
func Rollout(now time.Time, id string, h *rollout.Held) string {
	if h == nil {
		return id + " goes on"
	}
	text := id + " " + held(h)
	if !h.Since.IsZero() {
		text += ", for " + span(now.Sub(h.Since))
	}
	if ends := ending(now, h); ends != "" {
		text += "; " + ends
	}
	return text
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
	list := strings.Join(failed, ", ") + more(h)
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
		return ", since more nodes have failed than may: " + list
	case rollout.CauseCanary:
		return ", since no node of the canary wave has passed: " + list
	case rollout.CauseTakeBack:
		return ", since a node could not be taken back: " + list
	}
	return ": " + string(h.Cause)
}

// ending says what ends it.
func ending(now time.Time, h *rollout.Held) string {
	in := ""
	if left := h.Earliest.Sub(now); !h.Earliest.IsZero() && left > 0 {
		in = "in " + span(left)
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
		if in != "" {
			return "the first of them may pass " + in
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
