package policies

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/policy"
	"tandem.internal/shared/wire"
)

// Past follows the policies of one name through their changes, the oldest first. Its versions are the revs of these.
type Past struct {
	Name string
	Want uint64 // the version whose document is kept

	Versions []view.PolicyVersion
	now      *Entry   // nil: it was removed, or never there
	wanted   *Entry   // of Want
	last     *version // the newest that there was
	before   *version // the newest that says something else than last
	rollout  string   // ID of that of the newest change; "": the nodes got it at once, or it is over
	undone   *undone  // what there was before it
}

// undone is what a policy is again when a rollout is aborted.
type undone struct {
	now          *Entry
	last, before *version
}

// version is what a policy was.
type version struct {
	rev  uint64
	bare jsontext.Value
}

// Add takes the next change of any policy.
func (p *Past) Add(at kind.Change, d Change) {
	if d.Name != p.Name {
		return
	}
	had := &Collection{}
	if p.now != nil {
		had.List = map[string]*Entry{p.Name: p.now}
	}
	e := collectionOf(apply(had, at, d)).List[p.Name]
	v := view.PolicyVersion{Rev: at.Seq, At: at.At, Who: at.Who, Back: d.Back, AllNodes: d.AllNodes, Rollout: d.Rollout,
		Enabled: e != nil && e.policy.Enabled}
	if d.Inbox != nil {
		v.Via = "inbox"
	}
	switch {
	case d.Removed:
		v.State = "removed"
	case d.Back != 0:
		v.State = "rolled-back"
	case d.Document != nil:
		v.State = "applied"
	case v.Enabled:
		v.State = "enabled"
	default:
		v.State = "disabled"
	}
	p.Versions = append(p.Versions, v)
	p.rollout, p.undone = d.Rollout, &undone{p.now, p.last, p.before}
	if p.now = e; e == nil {
		return
	}
	bare := policy.Bare(e.policy)
	if p.last != nil && !bytes.Equal(bare, p.last.bare) {
		p.before = p.last
	}
	p.last = &version{at.Seq, bare}
	if at.Seq == p.Want {
		p.wanted = e
	}
}

// Ended takes the end of a rollout. With one that was aborted the policy is again what it was before.
func (p *Past) Ended(at kind.Change, id string, phase rollout.Phase) {
	if id != p.rollout || id == "" {
		return
	}
	if p.rollout = ""; phase == rollout.Done {
		return
	}
	p.now, p.last, p.before = p.undone.now, p.undone.last, p.undone.before
	p.Versions = append(p.Versions, view.PolicyVersion{Rev: at.Seq, At: at.At, Who: at.Who, State: "aborted",
		Enabled: p.now != nil && p.now.policy.Enabled})
	if at.Seq == p.Want {
		p.wanted = p.now
	}
}

// Shown is the version that was wanted, and the nodes that it would hit today.
func (p *Past) Shown(u kind.Unit) (view.Policy, *wire.Error) {
	if p.wanted == nil {
		return view.Policy{}, p.never(p.Want)
	}
	e := p.wanted
	t := &tally{policy: new(*e.policy), name: p.Name, wanted: func(kind.Node) bool { return true }}
	t.policy.Enabled = false // nothing is under way of it
	_, properties, _ := collections(u)
	each(u, properties, []*tally{t})
	v := t.view(e)
	v.Enabled = e.policy.Enabled
	v.Document = e.Document
	t.named(&v)
	return v, nil
}

// History lists what happened.
func (p *Past) History() (view.PolicyHistory, error) {
	if len(p.Versions) == 0 {
		return view.PolicyHistory{}, missing(p.Name)
	}
	return view.PolicyHistory{Name: p.Name, Versions: p.Versions}, nil
}

// Bare returns what the version that was wanted says, or with none the policy as it is now, without what the
// controller sets.
func (p *Past) Bare() (jsontext.Value, *wire.Error) {
	e := p.wanted
	if p.Want == 0 {
		e = p.now
	}
	if e == nil {
		return nil, p.never(p.Want)
	}
	return policy.Bare(e.policy), nil
}

// never is the error about a version that there is not.
func (p *Past) never(rev uint64) *wire.Error {
	if len(p.Versions) == 0 || rev == 0 {
		return missing(p.Name)
	}
	return wire.New(wire.CodeNotFound, "", fmt.Sprintf(
		"policy %s has no version %d; tandem policy history %[1]s lists them", p.Name, rev))
}

// Back returns the change that makes the policy again what it was: in the version that was wanted, or, with none, in
// the newest one that says something else than it does now, or as it was removed.
func (p *Past) Back(allNodes bool) (Change, *wire.Error) {
	d := Change{Name: p.Name, AllNodes: allNodes}
	to := p.before
	switch {
	case len(p.Versions) == 0:
		return d, missing(p.Name)
	case p.Want != 0:
		bare, err := p.Bare()
		if err != nil {
			return d, err
		}
		to = &version{p.Want, bare}
	case p.now == nil:
		to = p.last
	}
	switch {
	case to == nil:
		return d, wire.New(wire.CodeWrongState, "", fmt.Sprintf("policy %s has never said anything else", p.Name))
	case p.now != nil && bytes.Equal(to.bare, p.last.bare):
		return d, wire.New(wire.CodeWrongState, "", fmt.Sprintf("policy %s says now what it said in version %d",
			p.Name, to.rev))
	}
	d.Back, d.Document = to.rev, to.bare
	return d, nil
}
