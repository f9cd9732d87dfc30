package rollout

import (
	"slices"
	"time"
)

// Reason is what holds a rollout up.
type Reason string

// The reasons, in this order: of several, the first is told.
const (
	HeldPaused      Reason = "paused"      // until somebody resumes or aborts it
	HeldClaim       Reason = "claim"       // nodes, or all of it, wait for another rollout
	HeldWindow      Reason = "window"      // no maintenance window is open
	HeldUnavailable Reason = "unavailable" // as many nodes as may be are unavailable
	HeldSilent      Reason = "silent"      // nodes are offline
	HeldApplying    Reason = "applying"    // nodes have not installed it yet
	HeldSoak        Reason = "soak"        // nodes are not in good health for long enough yet
	HeldNoData      Reason = "no-data"     // nodes say nothing of their health, or not since they were started anew
)

// maxHeldNodes is how many nodes are named.
const maxHeldNodes = 10

// Held says what holds a rollout up.
type Held struct {
	Reason   Reason     `json:"reason"`             // for programs
	Nodes    []string   `json:"nodes,omitempty"`    // because of which; the first ten by name
	Count    int        `json:"count,omitzero"`     // of all such nodes
	Since    time.Time  `json:"since,omitzero"`     // when it began
	Earliest time.Time  `json:"earliest,omitzero"`  // before which it does not end by itself
	Behind   string     `json:"behind,omitempty"`   // claim: the rollout that has the nodes
	Cause    PauseCause `json:"cause,omitempty"`    // paused: why
	Who      string     `json:"who,omitempty"`      // paused: who did it
	Text     string     `json:"text,omitempty"`     // paused: the reason that was given
	Failures []string   `json:"failures,omitempty"` // paused, of Nodes: what has become of each
}

// Why says what holds a rollout up; nil: nothing does, or it has ended, or is not known.
func (s *Set) Why(now time.Time, id string) *Held {
	r := s.all[id]
	if r == nil || r.ended() {
		return nil
	}
	switch r.currentPhase() {
	case Paused:
		return r.heldByPause()
	case Waiting:
		return &Held{Reason: HeldClaim, Since: r.at, Behind: r.behind().id}
	}
	held := map[Reason][]*part{}
	for _, p := range r.parts {
		if reason := r.holds(p); reason != "" {
			held[reason] = append(held[reason], p)
		}
	}
	for _, reason := range []Reason{
		HeldClaim, HeldWindow, HeldUnavailable, HeldSilent, HeldApplying, HeldSoak, HeldNoData,
	} {
		if parts := held[reason]; len(parts) > 0 {
			return r.because(now, reason, parts)
		}
	}
	return nil
}

// holds says how a node holds the rollout up; "": it does not.
func (r *Rollout) holds(p *part) Reason {
	wants := p.has.pending && p.wants()
	if r.revert {
		todo, waits := p.toTakeBack()
		wants = todo && waits && slices.Contains(r.back, p)
		if !wants && p.status != Back {
			return ""
		}
	} else if !p.has.pending {
		return ""
	}
	switch {
	case wants && p.Online && p.holder != nil && p.holder != r:
		return HeldClaim
	case wants && p.Online && !r.windowOpen && !r.now:
		return HeldWindow
	case wants && p.unheard():
		return HeldNoData
	case wants && p.Online && !p.room():
		return HeldUnavailable
	case !p.Online:
		return HeldSilent
	case wants:
		return ""
	case !p.installed():
		return HeldApplying
	case p.fresh():
		return HeldSoak
	}
	return HeldNoData
}

// because describes what some nodes hold up.
func (r *Rollout) because(now time.Time, reason Reason, parts []*part) *Held {
	h := &Held{Reason: reason}
	switch reason {
	case HeldClaim:
		h.Behind = parts[0].holder.id
	case HeldUnavailable:
		parts = r.inTheWay(parts)
	}
	for _, p := range parts {
		h.Nodes = append(h.Nodes, p.Node)
		since, end := p.Since, r.waitEnds(now, p, reason)
		if p.status.inFlight() || reason == HeldApplying {
			since = p.issuedAt
		}
		switch {
		case reason == HeldWindow || reason == HeldClaim:
			since = r.at
		case reason == HeldSoak && p.sick():
			end = time.Time{} // its deadline is no end of the soak time
		}
		if h.Since.IsZero() || since.Before(h.Since) {
			h.Since = since
		}
		if !end.IsZero() && (h.Earliest.IsZero() || end.Before(h.Earliest)) {
			h.Earliest = end
		}
	}
	h.cut()
	return h
}

// waitEnds is before when what a node waits for does not end by itself; zero: it may at any time, or never does.
func (r *Rollout) waitEnds(now time.Time, p *part, waits Reason) time.Time {
	switch {
	case waits == "" || waits == HeldClaim:
		return time.Time{}
	case waits == HeldWindow:
		return r.windowUntil
	case waits == HeldSilent && p.status == Queued:
		return p.Since.Add(r.plan.AbsentAfter.Std())
	case waits == HeldSoak && !p.sick():
		heard := p.Heard
		if heard.IsZero() {
			heard = now
		}
		return heard.Add(r.plan.Gate.Soak.Std() - p.Health.quiet(r.plan.Gate.Healthy))
	case p.status.inFlight():
		return p.deadline()
	}
	return time.Time{}
}

// inTheWay are the nodes that use up the limits for which others wait.
func (r *Rollout) inTheWay(waiting []*part) (all []*part) {
	var mask uint32
	for _, p := range waiting {
		for i := range r.groups {
			if p.has.mask&(1<<i) != 0 && r.groups[i].unavailable+1 > r.limit(i) {
				mask |= 1 << i
			}
		}
	}
	for _, p := range r.parts {
		if p.has.unavailable && p.has.mask&mask != 0 {
			all = append(all, p)
		}
	}
	return all
}

func (r *Rollout) heldByPause() *Held {
	h := &Held{
		Reason: HeldPaused, Nodes: slices.Clone(r.pause.Nodes), Since: r.pausedAt, Cause: r.pause.Cause,
		Who: r.pause.Who, Text: r.pause.Text,
	}
	h.cut()
	for _, name := range h.Nodes {
		p := r.named(name)
		text := string(p.shown())
		if p.reason != "" {
			text += ": " + p.reason
		}
		h.Failures = append(h.Failures, text)
	}
	return h
}

// cut keeps the first few nodes, and counts all.
func (h *Held) cut() {
	slices.Sort(h.Nodes)
	h.Count = len(h.Nodes)
	h.Nodes = h.Nodes[:min(h.Count, maxHeldNodes)]
}
