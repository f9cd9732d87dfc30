package rollout

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"tandem.internal/controller/internal/rollout/plan"
)

// NodeView is a node of a rollout as it is shown.
type NodeView struct {
	Node   string    `json:"node"`             // its name
	Status Status    `json:"status"`           // where it is in the rollout
	Wave   int       `json:"wave,omitzero"`    // from 1; absent: in none yet
	Online bool      `json:"online"`           // connected; not known any more when the rollout has ended
	Since  time.Time `json:"since,omitzero"`   // of online
	Issued time.Time `json:"issued,omitzero"`  // when it was issued to last
	Reason string    `json:"reason,omitempty"` // failed, silent or stuck: why
	// what it waits for, or is waited for; absent: nothing
	Waits  Reason    `json:"waits,omitempty"`
	Ends   time.Time `json:"ends,omitzero"`    // before which that does not end by itself
	Behind string    `json:"behind,omitempty"` // claim: the rollout that has the node
	// it is one of those of which there may only be so many
	Unavailable bool      `json:"unavailable,omitzero"`
	Troubles    []Trouble `json:"troubles,omitempty"` // that it did not have before it was issued to
}

// Members returns nodes of a rollout, at most most, and how many others there are: those in one status, or all if that
// is "". Those that hold it up come first, then those that have failed, then those that wait, by name.
func (s *Set) Members(now time.Time, id string, only Status, most int) (shown []NodeView, omitted int) {
	r := s.all[id]
	if r == nil {
		return nil, 0
	}
	type ranked struct {
		*part
		waits Reason
		rank  int
	}
	holds := HeldPaused
	if h := s.Why(now, id); h != nil {
		holds = h.Reason
	}
	var all []ranked
	for _, p := range r.parts {
		if !p.takesPart() || only != "" && p.shown() != only {
			continue
		}
		one := ranked{part: p}
		if phase := r.currentPhase(); phase == Running || phase == Reverting {
			one.waits = r.holds(p)
		}
		one.rank = p.urgency(one.waits, holds)
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), strings.Compare(a.Node, b.Node))
	})
	for _, one := range all[:min(len(all), most)] {
		shown = append(shown, one.view(now, one.waits))
	}
	return shown, len(all) - len(shown)
}

// urgency orders nodes that are shown: 0 holds the rollout up.
func (p *part) urgency(waits, holds Reason) int {
	status, first := p.shown(), waits != "" && waits == holds
	if holds == HeldUnavailable {
		first = p.has.unavailable // it is waited for by those that wait for room
	}
	switch {
	case first:
		return 0
	case status == Failed || status == Silent || status == Stuck:
		return 1
	case waits != "":
		return 2
	case status.inFlight() || status == Soaking:
		return 3
	case status == Queued:
		return 4
	}
	return 5
}

// view shows a node, which waits for something, or not.
func (p *part) view(now time.Time, waits Reason) NodeView {
	v := NodeView{
		Node: p.Node, Status: p.shown(), Wave: p.wave + 1, Issued: p.issuedAt, Reason: p.reason,
		Waits: waits,
	}
	if p.of.ended() {
		return v
	}
	v.Online, v.Since, v.Unavailable = p.Online, p.Since, p.has.unavailable
	if v.Ends = p.of.waitEnds(now, p, waits); waits == HeldClaim {
		v.Behind = p.holder.id
	}
	if p.has.unavailable && p.fresh() {
		for _, t := range p.Health.Troubles {
			if slices.Contains(p.of.plan.Gate.Healthy, t.Aspect) && !slices.Contains(p.baseline, t) {
				v.Troubles = append(v.Troubles, t)
			}
		}
	}
	return v
}

// Plan returns the plan of a rollout, nil: there is none of that ID. It is not to be changed.
func (s *Set) Plan(id string) *plan.Plan {
	if r := s.all[id]; r != nil {
		return r.plan
	}
	return nil
}

// Awaits reports whether a node waits for a rollout that goes on to issue to it.
func (s *Set) Awaits(id, node string) bool {
	r := s.all[id]
	if r == nil || r.ended() {
		return false
	}
	p := r.parts[node]
	return p != nil && p.takesPart() && p.wants()
}
