package desired

import (
	"cmp"
	"math"
	"slices"

	"tandem.internal/shared/items"
	"tandem.internal/shared/unitconfig"
)

// Load is what was measured.
type Load struct {
	Nodes     map[string]Average // by ID; of a node that is not here nothing is known
	Instances map[Runs]Uses      // what is not here is taken to use what it reserves
	Settling  map[string]bool    // nodes that have part in another move
	Resting   map[Service]bool   // services that have moved a while ago
}

// Average is what is used of a node on average, as shares of its totals. Nil: not known.
type Average struct {
	CPU, RAM *float64
}

// Of is the average of a parameter.
func (a Average) Of(p Parameter) *float64 {
	if p == CPU {
		return a.CPU
	}
	return a.RAM
}

// Uses is what an instance uses on average, in DMIPS and bytes. Nil: not known.
type Uses struct {
	CPU, RAM *int64
}

// Runs names an instance of a service that runs on a node.
type Runs struct {
	Node, Codename, Subject string
	Index                   int
}

// Service names an instance of a service, wherever it runs.
type Service struct {
	Codename string `json:"codename"`
	Subject  string `json:"subject"` // for which it runs
	Index    int    `json:"index"`   // of the instance
}

// Relief is what can be done for a node that is overloaded.
type Relief struct {
	Overload
	Move  *ReliefMove `json:"move,omitzero"`   // nil: nothing may leave
	Stays []Stay      `json:"stays,omitempty"` // services that had to go before and stay, at most 16
	Why   string      `json:"why,omitzero"`    // the same as a sentence
}

// Stay is why an instance does not leave a node that is overloaded.
type Stay struct {
	Codename string    `json:"codename"`           // of the service
	Version  string    `json:"version"`            // of the service
	Subject  string    `json:"subject"`            // for which it runs
	Index    int       `json:"index"`              // of the instance
	Stuck    Stuck     `json:"stuck"`              // why it stays
	Emptied  Filter    `json:"emptied,omitzero"`   // of noPlace: the filter that left nothing
	Counts   []Count   `json:"counts,omitempty"`   // of noPlace: places refused by each filter
	Refusals []Refusal `json:"refusals,omitempty"` // of noPlace: at most 16, the nearest to a place first
}

// Stuck is the kind of reason for which an instance stays. Programs read it: kinds are only added.
type Stuck string

// The kinds.
const (
	NotBalanced Stuck = "notBalanced" // its metadata says so
	NotAnew     Stuck = "deprecated"  // it is not deployed anew
	Pinned      Stuck = "pinned"      // its subject has this node only
	Idle        Stuck = "idle"        // it uses nothing of what there is too little of, as far as that is known
	Rests       Stuck = "rests"       // it was moved a while ago
	NoPlace     Stuck = "noPlace"     // no other node has a place for it
)

// part is a parameter of a node: its total and rule.
func (n *node) part(p Parameter) (total int64, rule *unitconfig.FractionRule) {
	if p == CPU {
		return n.Info.CPU, n.CPURule
	}
	return n.Info.RAM, n.RAMRule
}

func amount(a items.Amounts, p Parameter) int64 {
	if p == CPU {
		return a.CPU
	}
	return a.RAM
}

// Relieve looks for a service that may leave a node that is overloaded, and where it goes. One that is enough goes
// before others, then one of lower priority; of those that are enough the smallest, of the others the largest; the last
// of equals. The plan stays as it is.
func (p *Plan) Relieve(o Overload, l *Load) Relief {
	r := Relief{Overload: o}
	n := p.w.byNode[o.Node]
	if n == nil {
		return r
	}
	others := slices.DeleteFunc(slices.Clone(p.w.nodes), func(to *node) bool { return to == n })
	for _, i := range n.leavers(o, l) {
		if i.stays != nil {
			r.Stays = append(r.Stays, *i.stays)
			continue
		}
		p.w.underLoad = func(to *node) verdict { return i.load(to, l) }
		to, _ := p.w.search(i.instance, others)
		if to == nil {
			u := p.w.unplaced(i.instance, others)
			s := i.stay(NoPlace)
			s.Emptied, s.Counts, s.Refusals = u.Emptied, u.Counts, u.Refusals
			r.Stays = append(r.Stays, *s)
		}
		p.w.underLoad = nil
		if to != nil {
			r.Move = &ReliefMove{Codename: i.Meta.Codename, Subject: i.subject.Codename, Index: i.index, From: o.Node,
				To: to.node.Info.Node, Because: o}
			break
		}
	}
	r.Stays = r.Stays[:min(len(r.Stays), mostRefusals)]
	return r
}

// leaver is a service on a node that is overloaded.
type leaver struct {
	*instance
	uses   items.Amounts
	enough bool  // without it the node is not overloaded
	stays  *Stay // nil: it may leave
}

func (l *leaver) stay(why Stuck) *Stay {
	return &Stay{Codename: l.Meta.Codename, Version: l.Meta.Version, Subject: l.subject.Codename, Index: l.index,
		Stuck: why}
}

// leavers are the services that run on a node, those first that should leave it first.
func (n *node) leavers(o Overload, l *Load) (all []leaver) {
	total, _ := n.part(o.Parameter)
	for _, i := range n.instances {
		if i.Meta.Type != items.Service || i.runs == nil || i.runs.Node != n.Info.Node {
			continue
		}
		v := leaver{instance: i, uses: i.reserved}
		measured := l.Instances[Runs{o.Node, i.Meta.Codename, i.subject.Codename, i.index}]
		if measured.CPU != nil {
			v.uses.CPU = *measured.CPU
		}
		if measured.RAM != nil {
			v.uses.RAM = *measured.RAM
		}
		uses := amount(v.uses, o.Parameter)
		v.enough = o.Average-float64(uses)/float64(total) < o.Max
		switch why := i.stuck(); {
		case why != "":
			v.stays = v.stay(why)
		case !i.subject.all && len(i.subject.nodes) == 1:
			v.stays = v.stay(Pinned)
		case l.Resting[Service{i.Meta.Codename, i.subject.Codename, i.index}]:
			v.stays = v.stay(Rests)
		case uses == 0:
			v.stays = v.stay(Idle)
		}
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b leaver) int {
		size := cmp.Compare(amount(a.uses, o.Parameter), amount(b.uses, o.Parameter))
		switch {
		case a.enough != b.enough && a.enough:
			return -1
		case a.enough != b.enough:
			return 1
		case !a.enough:
			size = -size
		}
		return cmp.Or(cmp.Compare(a.Meta.Priority, b.Meta.Priority), size, inOrder(b.instance, a.instance))
	})
	return all
}

// What is in the way of a move, as the filter of load says, beside the parameters.
const (
	Unmeasured = "unmeasured" // the averages of the node are not known
	Settling   = "settling"   // another move has just gone to the node or from it
)

// load is the filter of load: whether a node stays below the minimum of its rules with what leaves another one. An
// instance is taken to use what it uses there, and no less than it reserves; of what is to come to the node, and does
// not run there yet, what it reserves counts. Of a node without a rule all may be used.
func (l *leaver) load(to *node, load *Load) verdict {
	if load.Settling[to.Info.Node] {
		return verdict{filter: OfLoad, about: Settling}
	}
	var coming items.Amounts
	needs := l.reserves(to)
	for _, i := range to.instances {
		if i.runs == nil || i.runs.Node != to.Info.Node {
			coming.CPU, coming.RAM = coming.CPU+i.reserved.CPU, coming.RAM+i.reserved.RAM
		}
	}
	for _, p := range []Parameter{CPU, RAM} {
		average := load.Nodes[to.Info.Node].Of(p)
		if average == nil {
			return verdict{filter: OfLoad, about: Unmeasured}
		}
		most := 1.0
		total, rule := to.part(p)
		if rule != nil {
			most = rule.MinThreshold
		}
		uses := max(amount(l.uses, p), amount(needs, p))
		after := uses + amount(coming, p)
		if total == 0 || *average+float64(after)/float64(total) >= most {
			return verdict{filter: OfLoad, about: string(p), needed: uses,
				available: max(int64(math.Ceil((most-*average)*float64(total)))-1-amount(coming, p), 0)}
		}
	}
	return verdict{}
}
