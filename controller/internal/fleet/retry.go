package fleet

import (
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Retry issues what is made from a source again to the nodes that have failed at it or have drifted; answered under
// Ticket.
type Retry struct {
	Ticket uint64
	Source wire.Kind
	Who    string
}

func (Retry) event() {}

// retry gives the nodes that have failed at their newest document the same one under a new rev (ADR 005). It is
// journaled as an issue that somebody asked for.
func (s *step) retry(ev Retry) {
	s.expireTrials()
	src := s.source(ev.Source)
	var err *wire.Error
	switch {
	case src == nil || src.Parse == nil:
		err = wire.New(wire.CodeNotSupported, "", "no document of kind "+string(ev.Source)+" is known here")
	case src.Trial == nil && src.State.State == kind.Failed:
		err = wire.New(wire.CodeWrongState, "", "the "+src.Title+" is failed: nothing is sent to the nodes")
	case src.Trial == nil && src.State.State != kind.Installed:
		err = wire.New(wire.CodeNotFound, "", src.Missing())
	}
	if err != nil {
		s.effect(Answer{Ticket: ev.Ticket, Err: err})
		return
	}
	r := view.Result{State: "accepted", Version: src.Version, Rev: src.Rev, Epoch: s.opt.Epoch, Mode: wire.ModeApply}
	if t := src.Trial; t != nil {
		r.Version, r.Rev, r.Mode, r.Deadline = t.Version, t.Rev, wire.ModeTry, t.Deadline
	}
	for _, o := range s.madeFrom(src) {
		of, ok := s.offered(o)
		if !ok {
			continue
		}
		var nodes []*Node
		for _, n := range s.sorted() {
			k := n.Kinds[o.Name]
			if k != nil && (k.Failed() || k.Drifted()) && s.takesDocuments(n) && of.body(n) != nil {
				nodes = append(nodes, n)
			}
		}
		if len(nodes) > 0 {
			of.who = ev.Who
			r.Issued += s.issue(of, nodes, false, "retried")
		}
	}
	s.effect(Answer{Ticket: ev.Ticket, Result: r})
}
