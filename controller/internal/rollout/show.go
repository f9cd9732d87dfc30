package rollout

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"tandem.internal/shared/wire"
)

// View is a rollout as it is shown.
type View struct {
	ID       string      `json:"id"`                // of the rollout
	Kind     wire.Kind   `json:"kind"`              // of the documents
	Who      string      `json:"who,omitempty"`     // began it
	At       time.Time   `json:"at"`                // when it began
	Phase    Phase       `json:"phase"`             // where it is
	Ended    time.Time   `json:"ended,omitzero"`    // when it ended
	By       string      `json:"by,omitempty"`      // what superseded it, or who aborted it
	Wave     int         `json:"wave"`              // the newest one, from 1; 0 before the first
	Waves    []WaveView  `json:"waves"`             // all of them
	Nodes    StatusCount `json:"nodes"`             // all that are in it
	Held     *Held       `json:"held,omitempty"`    // what holds it up; absent: nothing
	Openings []time.Time `json:"opening,omitempty"` // the next three of its windows
}

// WaveView is a wave as it is shown.
type WaveView struct {
	Name  string      `json:"name,omitempty"` // for people
	Open  bool        `json:"open,omitzero"`  // its nodes are issued to
	Nodes StatusCount `json:"nodes"`          // in it by now
}

// StatusCount counts nodes by what became of them.
type StatusCount struct {
	All      int `json:"all"`               // of them
	Queued   int `json:"queued,omitzero"`   // not issued to yet
	Issued   int `json:"issued,omitzero"`   // issued to, not installed
	Soaking  int `json:"soaking,omitzero"`  // installed, and to stay in good health
	Passed   int `json:"passed,omitzero"`   // in good health for the soak time
	Failed   int `json:"failed,omitzero"`   // refused, failed, rolled back, or late
	Silent   int `json:"silent,omitzero"`   // offline past the deadline
	Back     int `json:"back,omitzero"`     // being taken back
	Restored int `json:"restored,omitzero"` // taken back
	Stuck    int `json:"stuck,omitzero"`    // could not be taken back
	Absent   int `json:"absent,omitzero"`   // offline for so long that nobody waits for them
	Gone     int `json:"gone,omitzero"`     // revoked
}

func (c *StatusCount) add(p *part) {
	c.All++
	switch p.shown() {
	case Queued:
		c.Queued++
	case Issued:
		c.Issued++
	case Soaking:
		c.Soaking++
	case Passed:
		c.Passed++
	case Failed:
		c.Failed++
	case Silent:
		c.Silent++
	case Back:
		c.Back++
	case Restored:
		c.Restored++
	case Stuck:
		c.Stuck++
	case Absent:
		c.Absent++
	case Gone:
		c.Gone++
	}
}

// shown is the status with what follows from facts.
func (p *part) shown() Status {
	switch {
	case p.Revoked:
		return Gone
	case p.has.absent && p.status == Queued:
		return Absent
	case p.soaking():
		return Soaking
	}
	return p.status
}

// Show returns a rollout; false: there is none of that ID.
func (s *Set) Show(now time.Time, id string) (View, bool) {
	r := s.all[id]
	if r == nil {
		return View{}, false
	}
	v := View{
		ID: r.id, Kind: r.kind, Who: r.who, At: r.at, Phase: r.currentPhase(), Ended: r.endedAt, By: r.by,
		Wave: r.wave + 1, Held: s.Why(now, id), Openings: r.windows.Next(now, 3),
	}
	for i, w := range r.plan.Waves {
		v.Waves = append(v.Waves, WaveView{Name: w.Name, Open: r.waveOpen && i == r.wave})
	}
	for _, p := range r.parts {
		if !p.takesPart() {
			continue
		}
		v.Nodes.add(p)
		if p.wave >= 0 {
			v.Waves[p.wave].Nodes.add(p)
		}
	}
	return v, true
}

// takesPart reports whether the node is one of the rollout, and not only of the groups that limit it.
func (p *part) takesPart() bool { return p.initial || p.wave >= 0 || p.target != "" }

// IDs are the rollouts that are known, the oldest first.
func (s *Set) IDs() (ids []string) {
	all := make([]*Rollout, 0, len(s.all))
	for _, r := range s.all {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *Rollout) int { return cmp.Or(a.at.Compare(b.at), strings.Compare(a.id, b.id)) })
	for _, r := range all {
		ids = append(ids, r.id)
	}
	return ids
}

// Side is which content a node should have of the kind that a rollout is about.
type Side int

// The sides.
const (
	OldContent Side = iota // what it had before, its own last good one
	NewContent             // what is rolled out
)

// Side returns what a node should have according to a rollout. A newcomer that was not issued to yet has the old one,
// and so has a node that was taken back, or is to be. After the end a node that was not issued to has what the rollout
// ended with.
func (s *Set) Side(id, node string) Side {
	r := s.all[id]
	if r == nil {
		return OldContent
	}
	if p := r.parts[node]; p != nil {
		switch p.status {
		case Issued, Passed, Failed, Silent:
			return NewContent
		case Back, Restored, Stuck:
			return OldContent
		}
	}
	if r.phase == Done {
		return NewContent
	}
	return OldContent
}

// Status returns where a node is in a rollout, and why if that is not good; "": it is not in it.
func (s *Set) Status(id, node string) (status Status, reason string) {
	if r := s.all[id]; r != nil {
		if p := r.parts[node]; p != nil && p.takesPart() {
			return p.status, p.reason
		}
	}
	return "", ""
}

// Reverting reports whether nodes are, or were, taken back by a rollout.
func (s *Set) Reverting(id string) bool { return s.all[id] != nil && s.all[id].revert }

// Hash returns the hash of what a node was issued, or is taken back to, in a rollout; false: nothing.
func (s *Set) Hash(id, node string) (hash string, ok bool) {
	if r := s.all[id]; r != nil {
		if p := r.parts[node]; p != nil && p.status != Queued {
			return p.hash, true
		}
	}
	return "", false
}

// Going reports whether a rollout goes on, or has nodes in flight: facts are asked for then, and only then.
func (s *Set) Going() bool { return len(s.open) > 0 }

// Nodes are the names of all nodes that facts or open rollouts speak of, in order.
func (s *Set) Nodes() []string { return slices.Sorted(maps.Keys(s.nodes)) }

// Blank drops all facts. Nothing may be Going; all of them are given again before the next Begin.
func (s *Set) Blank() {
	if !s.Going() {
		s.nodes = map[string]*node{}
	}
}

// Forget drops a rollout that has ended.
func (s *Set) Forget(id string) {
	r := s.all[id]
	if r == nil || !r.ended() {
		return
	}
	if slices.Contains(s.open, r) {
		for _, p := range r.parts {
			if p.holder == r {
				p.holder = nil
			}
		}
		s.leave(r)
		s.open = slices.DeleteFunc(s.open, func(o *Rollout) bool { return o == r })
	}
	delete(s.all, id)
}
