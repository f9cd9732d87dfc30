// Package apitest owns a unit that exists in memory only: what tests of the API and of the CLI
// serve instead of the controller's core. It keeps to the contract of api.Unit; what a test wants
// to happen otherwise it sets in State. Production code must not import it.
package apitest

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// State is everything that the unit is. Tests change it in Unit.Do.
type State struct {
	Now       time.Time
	Config    view.SourceStatus
	Documents map[string][]byte // as submitted, by version
	Versions  []view.Version
	Nodes     []view.Node
	Entries   []view.Entry // in order
	Status    view.UnitStatus
	Settings  view.HealthSettings
	Workloads Workloads
	Damage    string // what Verify finds; "": nothing

	Refuse map[string]*wire.Error // what online nodes have against any document, by node
	Silent map[string]bool        // online nodes that do not answer
	Fail   map[string]error       // what a method fails with, by its name
	Panic  string                 // the method that panics

	Submissions []view.Submission // seen so far
	Who         string            // of the newest confirm, restore or rollback
}

// Unit implements api.Unit.
type Unit struct {
	mu      sync.Mutex
	state   State
	changed chan struct{}
}

// New makes a unit with that state.
func New(s State) *Unit {
	if s.Documents == nil {
		s.Documents = map[string][]byte{}
	}
	if s.Config.State == "" {
		s.Config.State = "absent"
	}
	return &Unit{state: s, changed: make(chan struct{})}
}

// Do changes or reads the state and wakes those who follow it.
func (u *Unit) Do(f func(*State)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	f(&u.state)
	close(u.changed)
	u.changed = make(chan struct{})
}

// Changed is closed at the next Do.
func (u *Unit) Changed() <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.changed
}

// enter locks the state for one method.
func (u *Unit) enter(ctx context.Context, method string) (s *State, leave func(), err error) {
	u.mu.Lock()
	if u.state.Panic == method {
		u.mu.Unlock()
		panic(method + " was told to panic")
	}
	if err := cmp.Or(ctx.Err(), u.state.Fail[method]); err != nil {
		u.mu.Unlock()
		return nil, nil, err
	}
	return &u.state, u.mu.Unlock, nil
}

// Submit judges by the format, the version and Refuse.
func (u *Unit) Submit(ctx context.Context, sub view.Submission) (view.Result, error) {
	s, leave, err := u.enter(ctx, "Submit")
	if err != nil {
		return view.Result{}, err
	}
	defer leave()
	return s.submit(sub), nil
}

func (s *State) submit(sub view.Submission) view.Result {
	s.Submissions = append(s.Submissions, sub)
	if sub.Kind == wire.KindWorkloads {
		return s.submitWorkloads(sub)
	}
	res := view.Result{ID: cmp.Or(sub.ID, fmt.Sprintf("s%d", len(s.Submissions))), State: "refused", Mode: sub.Mode}
	uc, problems := unitconfig.Parse(sub.Document)
	if len(problems) > 0 {
		res.Problems, res.Error = problems, problems[0]
		return res
	}
	res.Version = uc.Version
	if s.Config.State == "installed" {
		if res.Error = unitconfig.CheckVersion(s.Config.Version, uc.Version); res.Error != nil {
			return res
		}
	}
	for _, n := range s.Nodes {
		switch {
		case !n.Online:
			res.Checks.Unchecked = append(res.Checks.Unchecked, n.Node)
		case sub.Offline:
		case s.Silent[n.Node]:
			res.Checks.Asked++
			res.Checks.Silent = append(res.Checks.Silent, n.Node)
		case s.Refuse[n.Node] != nil:
			res.Checks.Asked++
			res.Checks.Refused = append(res.Checks.Refused,
				view.NodeError{Node: n.Node, Errors: []*wire.Error{s.Refuse[n.Node]}})
		default:
			res.Checks.Asked++
			res.Checks.Agreed++
		}
	}
	if len(res.Checks.Refused) > 0 {
		e := *res.Checks.Refused[0].Errors[0]
		e.Node = res.Checks.Refused[0].Node
		res.Error = &e
		return res
	}
	if sub.DryRun {
		res.State = "acceptable"
		return res
	}
	s.accept(uc, sub, &res)
	return res
}

func (s *State) accept(uc *unitconfig.UnitConfig, sub view.Submission, res *view.Result) {
	res.State, res.Epoch, res.Rev, res.Issued = "accepted", max(1, s.Status.Epoch), s.Config.Rev+1, len(s.Nodes)
	if sub.Mode == wire.ModeTry {
		res.Deadline = s.Now.Add(sub.ConfirmWithin)
		s.Config.Trial = &view.Trial{Version: uc.Version, Rev: res.Rev, Deadline: res.Deadline}
	} else {
		s.Config.State, s.Config.Version, s.Config.Since, s.Config.Error = "installed", uc.Version, s.Now, nil
		s.Config.Rev = res.Rev // a trial does not raise it until it is confirmed
	}
	s.Documents[uc.Version] = sub.Document
	s.Versions = append(s.Versions, view.Version{Seq: res.Rev, At: s.Now, Version: uc.Version, State: "accepted",
		Who: sub.Who, Via: sub.Via, Mode: sub.Mode, Hash: wire.Hash(sub.Document)})
	p := view.Progress{Nodes: len(s.Nodes)}
	for _, n := range s.Nodes {
		if n.Online {
			p.Online++
			p.OnlineMissing++
		}
		p.Missing = append(p.Missing, view.Laggard{Node: n.Node, Online: n.Online})
	}
	s.Config.Progress = p
}

// Confirm ends the trial.
func (u *Unit) Confirm(ctx context.Context, _ wire.Kind) (view.Result, error) {
	s, leave, err := u.enter(ctx, "Confirm")
	if err != nil {
		return view.Result{}, err
	}
	defer leave()
	s.Who = caller.From(ctx).Who()
	t := s.Config.Trial
	if t == nil {
		return view.Result{}, wire.New(wire.CodeWrongState, "", "no unit configuration is on trial")
	}
	s.Config.State, s.Config.Version, s.Config.Rev, s.Config.Trial = "installed", t.Version, t.Rev, nil
	return view.Result{ID: "c1", State: "accepted", Version: t.Version, Rev: t.Rev, Epoch: 1}, nil
}

// Restore ends the failed state.
func (u *Unit) Restore(ctx context.Context, _ wire.Kind) (view.SourceStatus, error) {
	s, leave, err := u.enter(ctx, "Restore")
	if err != nil {
		return view.SourceStatus{}, err
	}
	defer leave()
	s.Who = caller.From(ctx).Who()
	if len(s.Documents) == 0 {
		return view.SourceStatus{}, wire.New(wire.CodeNotFound, "", "the journal has no unit configuration to restore")
	}
	s.Config.State, s.Config.Error, s.Config.Since = "installed", nil, s.Now
	return s.Config, nil
}

// Rollback submits old content again.
func (u *Unit) Rollback(ctx context.Context, source wire.Kind, in op.Rollback) (view.Result, error) {
	if source == wire.KindWorkloads {
		return u.rollBackSet(ctx, in)
	}
	s, leave, err := u.enter(ctx, "Rollback")
	if err != nil {
		return view.Result{}, err
	}
	defer leave()
	s.Who = caller.From(ctx).Who()
	doc, ok := s.Documents[in.Version]
	if !ok {
		return view.Result{}, wire.New(wire.CodeNotFound, "", "version "+in.Version+" was never accepted here")
	}
	uc, problems := unitconfig.Parse(doc)
	if len(problems) > 0 {
		return view.Result{}, problems[0]
	}
	again, err := unitconfig.WithVersion(uc, in.As)
	if err != nil {
		return view.Result{}, err
	}
	return s.submit(view.Submission{Document: unitconfig.Encode(again), Who: s.Who, Mode: wire.ModeApply}), nil
}
