package fleet

import (
	"time"

	"tandem.internal/controller/internal/accept"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// Submit is a unit configuration or a set of workloads on its way in, parsed by the shell; answered
// under Ticket.
type Submit struct {
	Ticket    uint64
	Sub       view.Submission
	Hash      string               // of Sub.Document
	Version   string               // "" when it cannot be read; of workloads also when it is to be derived
	Resolver  *unitconfig.Resolver // of a unit configuration without problems
	Placement *Placement           // of workloads without problems
	Problems  []*wire.Error
	Warnings  []view.Warning
}

func (Submit) event() {}

// concerns reports whether a node is to judge the submission: whether it would get something of it.
func (ev *Submit) concerns(node string) bool {
	return ev.Sub.Kind != wire.KindWorkloads || ev.Placement.of(node) != nil
}

// maxWaiting bounds the submissions behind the one under way.
const maxWaiting = 16

// pending is a submission that the online nodes are judging.
type pending struct {
	Submit
	id       string // prefix of the requests' IDs
	deadline time.Time
	open     map[string]bool // asked, not answered
	asked    int
	agreed   int
	refused  []refusal
	silent   []string
	offline  []string
	placed   *view.Placed // what a set of workloads comes to
}

type refusal = view.NodeError

// submit judges what can be judged here, then asks the online nodes (seed 000, Check).
func (s *step) submit(ev Submit) {
	if s.pending != nil {
		if len(s.waiting) >= maxWaiting {
			s.effect(Answer{Ticket: ev.Ticket, Err: wire.New(wire.CodeUnavailable, "", "too many submissions are waiting; try again in a few seconds")})
			return
		}
		s.waiting = append(s.waiting, ev)
		return
	}
	s.expireTrial()
	if ev.Sub.Mode == "" {
		ev.Sub.Mode = wire.ModeApply
	}
	if ev.Sub.Kind == wire.KindWorkloads {
		s.name(&ev)
	} else if ev.Sub.Kind != wire.KindConfig {
		panic("fleet: a submission of kind " + string(ev.Sub.Kind)) // the shell refuses it by its name
	}
	p := &pending{Submit: ev, open: map[string]bool{}}
	if ev.Placement != nil {
		p.placed = s.placedBy(ev.Placement)
	}
	if err := s.rule(&ev); err != nil {
		s.refuse(p, err, ev.Problems)
		return
	}
	s.pending = p
	p.id = s.requestID(wire.MethodCheck)
	p.deadline = s.now.Add(s.opt.CheckTimeout)
	var online []string
	for _, n := range s.sorted() {
		switch {
		case !ev.concerns(n.Name):
		case !n.Up || n.Info == nil:
			p.offline = append(p.offline, n.Name)
		case !ev.Sub.Offline:
			online = append(online, n.Name)
			p.open[n.Name] = true
		}
	}
	p.asked = len(online)
	if len(online) == 0 {
		s.judge()
		return
	}
	s.effect(Ask{ID: p.id, Nodes: online, Method: wire.MethodCheck, NotAfter: p.deadline.Add(requestLife), Params: s.checkParams(&ev)})
}

// checkParams encodes the request's params once for each body. What it returns is called elsewhere, so
// it holds on to nothing that changes.
func (s *step) checkParams(ev *Submit) func(string) []byte {
	types := make(map[string]string, len(s.nodes))
	for name, n := range s.nodes {
		types[name] = n.Type()
	}
	encoded := map[*byte][]byte{}
	kind, version, resolver, placement := ev.Sub.Kind, ev.Version, ev.Resolver, ev.Placement
	return func(node string) []byte {
		var body []byte
		if kind == wire.KindWorkloads {
			body = placement.of(node).body
		} else {
			body, _, _ = resolver.Body(node, types[node])
		}
		p, ok := encoded[&body[0]]
		if !ok {
			p = wire.Encode(&wire.CheckParams{Kind: kind, Version: version, Body: body})
			encoded[&body[0]] = p
		}
		return p
	}
}

// rule is what the controller alone can say.
func (s *step) rule(ev *Submit) *wire.Error {
	if len(ev.Problems) > 0 {
		return ev.Problems[0]
	}
	if ev.Sub.Kind == wire.KindWorkloads {
		return s.workloadsRule(ev)
	}
	if err := accept.Trial(ev.Sub.Mode, ev.Sub.ConfirmWithin); err != nil {
		return err
	}
	c := accept.Current{Installed: s.config.State == Installed, Version: s.config.Version}
	if s.config.Trial != nil {
		c.Trial = s.config.Trial.Version
	}
	return accept.Version(c, ev.Version)
}

// judge ends the check under way: any node's refusal refuses; silence does not.
func (s *step) judge() {
	p := s.pending
	s.pending = nil
	s.expireTrial()
	if len(p.refused) > 0 {
		s.refuse(p, p.refused[0].Errors[0], nil)
	} else if err := s.rule(&p.Submit); err != nil { // the unit may have changed since it was asked
		s.refuse(p, err, nil)
	} else {
		s.accept(p)
	}
	for s.pending == nil && len(s.waiting) > 0 {
		next := s.waiting[0]
		s.waiting = s.waiting[1:]
		s.submit(next)
	}
}

func (p *pending) checks() view.Checks {
	c := view.Checks{Asked: p.asked, Agreed: p.agreed, Refused: p.refused, Silent: p.silent, Unchecked: p.offline}
	for name := range p.open {
		c.Silent = append(c.Silent, name)
	}
	sortNames(c.Silent)
	sortNames(c.Unchecked)
	c.Omitted = clip(&c.Refused, maxNamed) + clip(&c.Silent, maxNamed) + clip(&c.Unchecked, maxNamed)
	return c
}

// maxNamed bounds the nodes that one verdict names in each list: verdicts are kept for ever.
const maxNamed = 200

func clip[T any](list *[]T, n int) int {
	over := max(0, len(*list)-n)
	*list = (*list)[:len(*list)-over]
	return over
}

func (p *pending) verdict() record.Verdict {
	v := record.Verdict{ID: p.Sub.ID, Via: p.Sub.Via, Version: p.Version, Hash: p.Hash, Lenient: p.Sub.Lenient, Mode: p.Sub.Mode, Checks: p.checks()}
	if v.Mode == wire.ModeTry {
		v.Within = duration.Duration(p.Sub.ConfirmWithin)
	}
	return v
}

func (s *step) refuse(p *pending, err *wire.Error, problems []*wire.Error) {
	v := p.verdict()
	v.Error, v.Problems = err, problems
	if !p.Sub.DryRun {
		s.emit(record.Record{Type: record.Refused, Who: p.Sub.Who, Kind: string(p.Sub.Kind)}, v)
	}
	s.answer(p, "refused", &v, 0)
}

func (s *step) accept(p *pending) {
	v := p.verdict()
	if p.Sub.DryRun {
		s.answer(p, "acceptable", &v, 0)
		return
	}
	if p.Sub.Kind == wire.KindWorkloads {
		s.acceptWorkloads(p, &v)
		return
	}
	s.acceptance(p, &v)
	if v.Mode == wire.ModeTry {
		s.trying = p.Resolver
	} else {
		s.resolver, s.trying = p.Resolver, nil
		s.effect(WriteCopy{Document: p.Sub.Document})
	}
	issued := s.issueAll(wire.KindConfig, "accepted "+v.Version)
	s.answer(p, "accepted", &v, issued)
}

// acceptance makes an accepted submission a record.
func (s *step) acceptance(p *pending, v *record.Verdict) {
	s.out.Bodies = append(s.out.Bodies, p.Sub.Document)
	delete(s.damaged, p.Hash)
	s.emit(record.Record{Type: record.Accepted, Who: p.Sub.Who, Kind: string(p.Sub.Kind)}, *v)
}

func (s *step) answer(p *pending, state string, v *record.Verdict, issued int) {
	r := view.Result{
		ID: v.ID, State: state, Version: v.Version, Epoch: s.opt.Epoch, Mode: v.Mode,
		Error: v.Error, Problems: v.Problems, Checks: v.Checks, Issued: issued, Placed: p.placed, Warnings: p.Warnings,
	}
	if state == "accepted" {
		r.Rev = s.seq
		if p.Sub.Kind == wire.KindWorkloads {
			r.Rev = s.workloads.Rev
		}
		if v.Mode == wire.ModeTry {
			r.Deadline = s.config.Trial.Deadline
		}
	}
	s.effect(Answer{Ticket: p.Ticket, Result: r})
}

// confirm keeps the configuration on trial.
func (s *step) confirm(ev Confirm) {
	s.expireTrial()
	t := s.config.Trial
	if t == nil {
		s.effect(Answer{Ticket: ev.Ticket, Err: wire.New(wire.CodeNotFound, "", "no configuration is on trial")})
		return
	}
	if err := s.trialDamage(); err != nil {
		s.effect(Answer{Ticket: ev.Ticket, Err: err})
		return
	}
	s.resolver, s.trying = s.trying, nil
	s.emit(record.Record{Type: record.Confirm, Who: ev.Who, Kind: string(wire.KindConfig)}, record.TrialOver{Version: t.Version, Rev: t.Rev})
	s.effect(WriteCopy{})
	s.spreadConfirmation()
	s.effect(Answer{Ticket: ev.Ticket, Result: view.Result{
		State: "accepted", Version: t.Version, Rev: t.Rev, Epoch: s.opt.Epoch, Mode: wire.ModeTry,
	}})
}

// spreadConfirmation tells the nodes that try what was confirmed to keep it, and issues it anew to
// those that have rolled back already.
func (s *step) spreadConfirmation() {
	var stamps []wire.Stamp // in order, so that equal input gives equal output
	trying := map[wire.Stamp][]string{}
	var late []*Node
	for _, n := range s.sorted() {
		k := n.Kinds[wire.KindConfig]
		switch {
		case s.rolledBackTrial(n):
			late = append(late, n)
		case n.Up && s.confirmedMeanwhile(k):
			stamp := k.Desired.Stamp()
			if trying[stamp] == nil {
				stamps = append(stamps, stamp)
			}
			trying[stamp] = append(trying[stamp], n.Name)
		}
	}
	for _, stamp := range stamps {
		s.askConfirm(trying[stamp], stamp)
	}
	if len(late) > 0 {
		s.issue(wire.KindConfig, late, false, rolledBackEarly)
	}
}

// expireTrial ends a trial whose time is over, whoever notices it first.
func (s *step) expireTrial() {
	if t := s.config.Trial; t != nil && !s.now.Before(t.Deadline) {
		s.endTrial()
	}
}

// endTrial takes back what nobody confirmed. The nodes roll back by themselves; what they hear is
// the configuration before the trial, under a new rev.
func (s *step) endTrial() {
	t, damage := s.config.Trial, s.trialDamage()
	s.trying = nil
	s.emit(record.Record{Type: record.RolledBack, Kind: string(wire.KindConfig)}, record.TrialOver{Version: t.Version, Rev: t.Rev})
	s.trialDamageOver(damage)
	if s.resolver != nil && s.config.State == Installed {
		s.issueAll(wire.KindConfig, "trial of "+t.Version+" was not confirmed")
		return
	}
	var nodes []string
	for _, n := range s.sorted() {
		if k := n.Kinds[wire.KindConfig]; k != nil && k.Desired != nil {
			nodes = append(nodes, n.Name)
		}
	}
	if len(nodes) > 0 {
		s.emit(record.Record{Type: record.Withdrawn, Kind: string(wire.KindConfig)}, record.WithdrawnData{Nodes: nodes})
		s.effect(Publish{Kind: wire.KindConfig, Nodes: nodes})
	}
}
