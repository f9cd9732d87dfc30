package fleet

import (
	"fmt"
	"time"

	"tandem.internal/controller/internal/accept"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Workloads is the unit's set of workloads (seed 004). The zero Workloads is a unit that never had one.
type Workloads struct {
	Version   string          `json:"version,omitempty"`
	Hash      string          `json:"hash,omitempty"`   // of the submitted set
	Lenient   bool            `json:"lenient,omitzero"` // it was read so, and is again
	Rev       uint64          `json:"rev,omitzero"`     // of its newest issue, or else of its acceptance
	Since     time.Time       `json:"since,omitzero"`
	Who       string          `json:"who,omitempty"`
	Attempted *view.Attempted `json:"attempted,omitempty"`
}

// WorkloadsState returns the state of the unit's set of workloads.
func (f *Fleet) WorkloadsState() Workloads { return f.workloads }

// SetPlacement gives a replayed Fleet what its set of workloads comes to; nil where WorkloadsState
// names none.
func (f *Fleet) SetPlacement(p *Placement) { f.placement = p }

// name gives a set without a version the next one, or that of the installed set if it is the same
// (ADR 023).
func (s *step) name(ev *Submit) {
	if ev.Sub.Version != "" || ev.Placement == nil {
		return
	}
	ev.Version = accept.Next(s.workloads.Version)
	if s.again(ev) {
		ev.Version = s.workloads.Version
	}
}

// again reports whether a set was submitted without a version and is the installed one.
func (s *step) again(ev *Submit) bool {
	w := &s.workloads
	return w.Version != "" && ev.Sub.Version == "" && ev.Hash == w.Hash && ev.Sub.Lenient == w.Lenient &&
		s.workloadsDamage() == nil
}

func (s *step) workloadsRule(ev *Submit) *wire.Error {
	if ev.Sub.Mode != wire.ModeApply || ev.Sub.ConfirmWithin != 0 {
		return errNoTrial
	}
	if s.again(ev) {
		return nil
	}
	installed := s.workloads.Version != "" && s.workloadsDamage() == nil
	return accept.Version(accept.Current{Installed: installed, Version: s.workloads.Version}, ev.Version)
}

var errNoTrial = wire.New(wire.CodeNotSupported, "/mode", "workloads are not tried unit-wide: each node goes back to what ran before if the new does not stay up")

// acceptWorkloads makes a set the unit's. The installed one, submitted again, is no new version: those
// who have failed at it get it again.
func (s *step) acceptWorkloads(p *pending, v *record.Verdict) {
	reason := "accepted " + v.Version
	if s.again(&p.Submit) {
		reason = "applied again"
	} else {
		s.acceptance(p, v)
		s.placement = p.Placement
	}
	s.answer(p, "accepted", v, s.issueWorkloads(reason))
}

// issueWorkloads gives the newest set to those for whom it says something else than before, and to
// those who have failed at it.
func (s *step) issueWorkloads(reason string) int {
	o, ok := s.placedWorkloads()
	if !ok {
		return 0
	}
	var nodes []*Node
	for _, n := range s.sorted() {
		if k := n.Kinds[wire.KindWorkloads]; s.due(n, wire.KindWorkloads, o) != "" || n.Info != nil && k != nil && n.inError(k) {
			nodes = append(nodes, n)
			n.kind(wire.KindWorkloads).pushedBoot = n.Boot // refusing it is no reason to get it again at once
		}
	}
	if len(nodes) == 0 {
		return 0
	}
	return s.issue(wire.KindWorkloads, nodes, true, reason)
}

// placedWorkloads offers each node what it is to run. A node that the set does not name gets nothing,
// unless it had something before: then it gets an empty document.
func (s *step) placedWorkloads() (offer, bool) {
	o := offer{version: s.workloads.Version, mode: wire.ModeApply}
	o.body = func(n *Node) ([]byte, string) {
		p := s.placement.of(n.Name)
		if k := n.Kinds[wire.KindWorkloads]; p == nil && k != nil && (k.Desired != nil || k.Running != nil) {
			p = noWorkloads
		}
		if p == nil {
			return nil, ""
		}
		return p.body, p.hash
	}
	return o, s.placement != nil
}

func (f *Fleet) applyWorkloadsVerdict(r *record.Record, d *record.Verdict) {
	w := &f.workloads
	if r.Type == record.Refused {
		w.Attempted = &view.Attempted{Version: d.Version, At: r.At, Who: r.Who, Error: d.Error}
		return
	}
	*w = Workloads{Version: d.Version, Hash: d.Hash, Lenient: d.Lenient, Rev: r.Seq, Since: r.At, Who: r.Who}
}

// placedBy says what a set comes to in this unit, beside the one before.
func (f *Fleet) placedBy(p *Placement) *view.Placed {
	v := &view.Placed{Slots: p.slots, Nodes: len(p.nodes)}
	for _, node := range f.placement.names() {
		kept := map[string]bool{}
		if n := p.of(node); n != nil {
			for _, w := range n.slots {
				kept[w.slot] = true
			}
		}
		for _, w := range f.placement.nodes[node].slots {
			if !kept[w.slot] {
				v.Stops = append(v.Stops, w.slot)
			}
		}
	}
	v.Unknown = f.unknownTo(p)
	v.Omitted = clip(&v.Stops, maxNamed) + clip(&v.Unknown, maxNamed)
	return v
}

// unknownTo names the nodes of a set that were never heard of.
func (f *Fleet) unknownTo(p *Placement) (all []string) {
	for _, node := range p.names() {
		if f.nodes[node] == nil {
			all = append(all, node)
		}
	}
	return all
}

// tooOld says what to do about a node that does not know workloads.
func (s *step) tooOld(node string, err *wire.Error) *wire.Error {
	agent := "the agent there"
	if n := s.nodes[node]; n != nil && n.Info != nil {
		agent = "the agent there, version " + n.Info.AgentVersion + ","
	}
	return wire.New(err.Code, "", fmt.Sprintf("%s does not run workloads; update it, or take its slots out", agent))
}
