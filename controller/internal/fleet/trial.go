package fleet

import (
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// confirm keeps what is on trial.
func (s *step) confirm(ev Confirm) {
	s.expireTrials()
	src := s.source(ev.Source)
	if src == nil || src.Trial == nil {
		noun := string(ev.Source)
		if src != nil {
			noun = src.Noun
		}
		s.effect(Answer{Ticket: ev.Ticket, Err: wire.New(wire.CodeNotFound, "", "no "+noun+" is on trial")})
		return
	}
	t := src.Trial
	if err := s.trialDamage(src); err != nil {
		s.effect(Answer{Ticket: ev.Ticket, Err: err})
		return
	}
	src.installed, src.trying = src.trying, nil
	over := record.TrialOver{Version: t.Version, Rev: t.Rev}
	s.emit(record.Record{Type: record.Confirm, Who: ev.Who, Kind: string(src.Name)}, over)
	if src.Copied {
		s.effect(WriteCopy{})
	}
	for _, o := range s.madeFrom(src) {
		s.spreadConfirmation(o)
	}
	s.effect(Answer{Ticket: ev.Ticket, Result: view.Result{
		State: "accepted", Version: t.Version, Rev: t.Rev, Epoch: s.opt.Epoch, Mode: wire.ModeTry,
	}})
}

// spreadConfirmation tells the nodes that try what was confirmed to keep it, and issues it anew to
// those that have rolled back already.
func (s *step) spreadConfirmation(o *output) {
	of, offered := s.offered(o)
	var stamps []wire.Stamp // in order, so that equal input gives equal output
	trying := map[wire.Stamp][]string{}
	var late []*Node
	for _, n := range s.sorted() {
		k := n.Kinds[o.Name]
		switch {
		case offered && s.rolledBackTrial(n, &of):
			late = append(late, n)
		case n.Up && s.confirmedMeanwhile(o, k):
			stamp := k.Desired.Stamp()
			if trying[stamp] == nil {
				stamps = append(stamps, stamp)
			}
			trying[stamp] = append(trying[stamp], n.Name)
		}
	}
	for _, stamp := range stamps {
		s.askConfirm(o, trying[stamp], stamp)
	}
	if len(late) > 0 {
		s.issue(of, late, false, rolledBackEarly)
	}
}

// expireTrials ends the trials whose time is over, whoever notices it first.
func (s *step) expireTrials() {
	for _, src := range s.sources {
		if t := src.Trial; t != nil && !s.now.Before(t.Deadline) {
			s.endTrial(src)
		}
	}
}

// endTrial takes back what nobody confirmed. The nodes roll back by themselves; what they hear is
// the document before the trial, under a new rev.
func (s *step) endTrial(src *source) {
	t, damage := src.Trial, s.trialDamage(src)
	src.trying = nil
	over := record.TrialOver{Version: t.Version, Rev: t.Rev, Error: s.broke(src)}
	s.emit(record.Record{Type: record.RolledBack, Kind: string(src.Name)}, over)
	s.trialDamageOver(src, damage)
	reason := "trial of " + t.Version + " was not confirmed"
	for _, o := range s.madeFrom(src) {
		of, ok := s.offered(o)
		switch {
		case !ok:
			s.withdraw(o, func(n *Node) bool { return n.Kinds[o.Name].Desired != nil })
		case o.Everyone:
			s.issue(of, s.sorted(), true, reason)
		default:
			s.takeBack(of, reason)
		}
	}
}

// takeBack gives those who try a document the one before, and withdraws it where there was none.
func (s *step) takeBack(of offer, reason string) {
	tries := func(n *Node) bool {
		d := n.Kinds[of.Name].Desired
		return d != nil && d.Mode == wire.ModeTry
	}
	var nodes []*Node
	for _, n := range s.sorted() {
		if n.Kinds[of.Name] == nil || !s.takesDocuments(n) || of.body(n) == nil {
			continue
		}
		if tries(n) || s.due(n, &of) != "" {
			nodes = append(nodes, n)
		}
	}
	if len(nodes) > 0 {
		s.issue(of, nodes, true, reason)
	}
	s.withdraw(of.output, tries)
}

// withdraw takes documents back.
func (s *step) withdraw(o *output, which func(*Node) bool) {
	var nodes []string
	for _, n := range s.sorted() {
		if n.Kinds[o.Name] != nil && which(n) {
			nodes = append(nodes, n.Name)
		}
	}
	if len(nodes) > 0 {
		s.emit(record.Record{Type: record.Withdrawn, Kind: string(o.Name)}, record.WithdrawnData{Nodes: nodes})
		s.effect(Publish{Kind: o.Name, Nodes: nodes})
	}
}

// applyTrialOver keeps what was tried, or forgets it.
func (f *Fleet) applyTrialOver(r *record.Record, over *record.TrialOver) {
	src := f.source(wire.Kind(r.Kind))
	t := src.Trial
	if t == nil {
		return
	}
	src.Trial = nil
	if r.Type == record.Confirm {
		st := &src.State
		st.State, st.Version, st.Hash, st.Lenient, st.Who = kind.Installed, t.Version, t.Hash, t.Lenient, t.Who
		st.Rev, st.Since, st.Error = t.Rev, r.At, nil
		src.split = false
		f.prune(src)
		for _, n := range f.nodes {
			f.review(n, r.At)
		}
		return
	}
	src.GivenUp = &kind.GivenUp{Version: t.Version, Hash: t.Hash, Error: over.Error, At: r.At}
}
