// Package apitest owns a unit that exists in memory only: what tests of the API and of the CLI
// serve instead of the controller's core. It keeps to the contract of api.Unit; what a test wants
// to happen otherwise it sets in State. Production code must not import it.
package apitest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// State is everything that the unit is. Tests change it in Unit.Do.
type State struct {
	Now       time.Time
	Config    view.ConfigStatus
	Documents map[string][]byte // as submitted, by version
	Versions  []view.Version
	Nodes     []view.Node
	Entries   []view.Entry // in order
	Status    view.UnitStatus
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
			res.Checks.Refused = append(res.Checks.Refused, view.NodeError{Node: n.Node, Errors: []*wire.Error{s.Refuse[n.Node]}})
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
	s.Config.Rev = res.Rev
	if sub.Mode == wire.ModeTry {
		res.Deadline = s.Now.Add(sub.ConfirmWithin)
		s.Config.Trial = &view.Trial{Version: uc.Version, Rev: res.Rev, Deadline: res.Deadline}
	} else {
		s.Config.State, s.Config.Version, s.Config.Since, s.Config.Error = "installed", uc.Version, s.Now, nil
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
func (u *Unit) Confirm(ctx context.Context, who string) (view.Result, error) {
	s, leave, err := u.enter(ctx, "Confirm")
	if err != nil {
		return view.Result{}, err
	}
	defer leave()
	s.Who = who
	t := s.Config.Trial
	if t == nil {
		return view.Result{}, wire.New(wire.CodeWrongState, "", "no unit configuration is on trial")
	}
	s.Config.State, s.Config.Version, s.Config.Trial = "installed", t.Version, nil
	return view.Result{ID: "c1", State: "accepted", Version: t.Version, Rev: t.Rev, Epoch: 1}, nil
}

// Restore ends the failed state.
func (u *Unit) Restore(ctx context.Context, who string) (view.ConfigStatus, error) {
	s, leave, err := u.enter(ctx, "Restore")
	if err != nil {
		return view.ConfigStatus{}, err
	}
	defer leave()
	s.Who = who
	if len(s.Documents) == 0 {
		return view.ConfigStatus{}, wire.New(wire.CodeNotFound, "", "the journal has no unit configuration to restore")
	}
	s.Config.State, s.Config.Error, s.Config.Since = "installed", nil, s.Now
	return s.Config, nil
}

// Rollback submits old content again.
func (u *Unit) Rollback(ctx context.Context, version, as, who string) (view.Result, error) {
	s, leave, err := u.enter(ctx, "Rollback")
	if err != nil {
		return view.Result{}, err
	}
	defer leave()
	s.Who = who
	doc, ok := s.Documents[version]
	if !ok {
		return view.Result{}, wire.New(wire.CodeNotFound, "", "version "+version+" was never accepted here")
	}
	uc, problems := unitconfig.Parse(doc)
	if len(problems) > 0 {
		return view.Result{}, problems[0]
	}
	again, err := unitconfig.WithVersion(uc, as)
	if err != nil {
		return view.Result{}, err
	}
	return s.submit(view.Submission{Document: unitconfig.Encode(again), Who: who, Mode: wire.ModeApply}), nil
}

// ConfigStatus returns State.Config.
func (u *Unit) ConfigStatus(ctx context.Context) (view.ConfigStatus, error) {
	s, leave, err := u.enter(ctx, "ConfigStatus")
	if err != nil {
		return view.ConfigStatus{}, err
	}
	defer leave()
	return s.Config, nil
}

// Config returns one of State.Documents.
func (u *Unit) Config(ctx context.Context, version string) ([]byte, error) {
	s, leave, err := u.enter(ctx, "Config")
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.document(version)
}

func (s *State) document(version string) ([]byte, error) {
	version = cmp.Or(version, s.Config.Version)
	doc, ok := s.Documents[version]
	if !ok && version == "" {
		return nil, wire.New(wire.CodeNotFound, "", "no unit configuration is installed")
	}
	if !ok {
		return nil, wire.New(wire.CodeNotFound, "", "version "+version+" was never accepted here")
	}
	return doc, nil
}

// History returns State.Versions.
func (u *Unit) History(ctx context.Context) ([]view.Version, error) {
	s, leave, err := u.enter(ctx, "History")
	if err != nil {
		return nil, err
	}
	defer leave()
	return slices.Clone(s.Versions), nil
}

// parsed returns the installed configuration and what is known of a node.
func (s *State) parsed(node, nodeType string) (*unitconfig.UnitConfig, view.Node, error) {
	doc, err := s.document("")
	if err != nil {
		return nil, view.Node{}, err
	}
	i := slices.IndexFunc(s.Nodes, func(n view.Node) bool { return n.Node == node })
	if i < 0 && nodeType == "" {
		return nil, view.Node{}, wire.New(wire.CodeNotFound, "", "no node "+node+" is known; give its type")
	}
	n := view.Node{Node: node}
	if i >= 0 {
		n = s.Nodes[i]
	}
	n.Type = cmp.Or(nodeType, n.Type)
	uc, problems := unitconfig.Parse(doc)
	return uc, n, problems.Err()
}

// Resolved resolves the installed document.
func (u *Unit) Resolved(ctx context.Context, node, nodeType string) (view.Resolved, error) {
	s, leave, err := u.enter(ctx, "Resolved")
	if err != nil {
		return view.Resolved{}, err
	}
	defer leave()
	uc, n, err := s.parsed(node, nodeType)
	if err != nil {
		return view.Resolved{}, err
	}
	c, src := unitconfig.Resolve(uc, node, n.Type)
	body := unitconfig.EncodeNode(c)
	return view.Resolved{Node: node, Type: n.Type, Rule: string(src.Rule), Entry: src.Pointer(), Hash: wire.Hash(body), Document: body}, nil
}

// Explain explains from the installed document.
func (u *Unit) Explain(ctx context.Context, node, pointer string) (view.Explanation, error) {
	s, leave, err := u.enter(ctx, "Explain")
	if err != nil {
		return view.Explanation{}, err
	}
	defer leave()
	uc, n, err := s.parsed(node, "")
	if err != nil {
		return view.Explanation{}, err
	}
	x, err := unitconfig.Explain(uc, node, n.Type, pointer)
	if err != nil {
		return view.Explanation{}, err
	}
	out := view.Explanation{Node: node, Pointer: pointer, Value: x.Value, Rule: string(x.Source.Rule), Source: x.From, Version: uc.Version}
	if d, ok := n.Documents[wire.KindConfig]; ok {
		if out.InForce = d.InSync; d.Running != nil {
			out.Running = d.Running.Version
		}
		if d.Last != nil {
			out.State, out.Error = d.Last.State, d.Last.Error
		}
	}
	return out, nil
}

// Nodes is State.Nodes.
func (u *Unit) Nodes(ctx context.Context) ([]view.Node, error) {
	s, leave, err := u.enter(ctx, "Nodes")
	if err != nil {
		return nil, err
	}
	defer leave()
	return slices.Clone(s.Nodes), nil
}

// Node is one of State.Nodes.
func (u *Unit) Node(ctx context.Context, node string) (view.Node, error) {
	s, leave, err := u.enter(ctx, "Node")
	if err != nil {
		return view.Node{}, err
	}
	defer leave()
	for _, n := range s.Nodes {
		if n.Node == node {
			return n, nil
		}
	}
	return view.Node{}, wire.New(wire.CodeNotFound, "", "no node "+node+" is known")
}

// Status returns State.Status with State.Config in it.
func (u *Unit) Status(ctx context.Context) (view.UnitStatus, error) {
	s, leave, err := u.enter(ctx, "Status")
	if err != nil {
		return view.UnitStatus{}, err
	}
	defer leave()
	st := s.Status
	st.Config = s.Config
	return st, nil
}

// Entries filters State.Entries.
func (u *Unit) Entries(ctx context.Context, f view.EntryFilter) ([]view.Entry, error) {
	s, leave, err := u.enter(ctx, "Entries")
	if err != nil {
		return nil, err
	}
	defer leave()
	limit := cmp.Or(f.Limit, 1000)
	var out []view.Entry
	for i := range s.Entries {
		e := s.Entries[i]
		if f.Reverse {
			e = s.Entries[len(s.Entries)-1-i]
		}
		if e.Seq >= f.From && (f.Node == "" || f.Node == e.Node) && (len(f.Types) == 0 || slices.Contains(f.Types, e.Type)) && len(out) < limit {
			out = append(out, e)
		}
	}
	return out, nil
}

// Verify reports State.Damage.
func (u *Unit) Verify(ctx context.Context) (bool, string, error) {
	s, leave, err := u.enter(ctx, "Verify")
	if err != nil {
		return false, "", err
	}
	defer leave()
	if s.Damage != "" {
		return false, s.Damage, nil
	}
	return true, fmt.Sprintf("%d records, all as they were written", len(s.Entries)), nil
}

// Export writes State.Entries; if told to fail it does so after the first.
func (u *Unit) Export(ctx context.Context, w io.Writer) error {
	u.mu.Lock()
	entries, fail := slices.Clone(u.state.Entries), u.state.Fail["Export"]
	u.mu.Unlock()
	for _, e := range entries {
		line, err := json.Marshal(e, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
		if err != nil {
			return err
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
		if fail != nil {
			return fail
		}
	}
	return fail
}

// Backup writes some bytes; if told to fail it does so after half of them.
func (u *Unit) Backup(ctx context.Context, w io.Writer) error {
	u.mu.Lock()
	fail := u.state.Fail["Backup"]
	u.mu.Unlock()
	for i := range 8 {
		if fail != nil && i == 4 {
			return fail
		}
		if _, err := w.Write(slices.Repeat([]byte{byte(i)}, 4096)); err != nil {
			return err
		}
	}
	return nil
}
