// Package desired decides what should run where: which versions of which items are desired for which subjects, which
// of them keep each other out, what layers they need, and on which nodes they run (seed 001, DesiredStatus message
// sequence). What is not there has a reason.
//
//   - The plan depends on the content of the input only: in any order it is the same, to the byte.
//   - What an item or instance is refused for concerns it and what depends on it, nothing else.
//   - What runs and may stay where it is stays there.
//
// The order of the decisions is that of the seed: subjects; their components, then services; suppression; conflicts;
// what they depend on; placement.
//
//tandem:pure
package desired

import (
	"cmp"
	"slices"
	"time"

	"tandem.internal/shared/items"
	"tandem.internal/shared/unitconfig"
)

// Input is all that the desired status depends on. The order of its lists does not count, and nothing in them is
// written to.
type Input struct {
	Items    []items.Item
	Subjects []items.Subject
	Nodes    []Node
	Current  items.Current
	// a node that is offline for longer loses its services; 0: it keeps them
	EvictAfter time.Duration
	// services make room for those of higher priority that find none
	Preempt bool
	// of services that are to leave nodes that are overloaded; each until it is carried out
	Moves []ReliefMove
	// Bar says why what an item and its layers consist of cannot be in a runtime; "": it can. Nil: it always can.
	Bar func(it *items.Item, layers []*items.Item, n *items.Node, r *items.Runtime) string
	// what nodes cannot be given although there is a place for it
	Misfits []Misfit
}

// Node is a node with what its configuration says of placement.
type Node struct {
	Info     *items.Node
	Labels   []string
	Priority int                       // higher is preferred
	Ratios   unitconfig.ResourceRatios // percent of a quota that is reserved
	CPURule  *unitconfig.FractionRule  // by which it is overloaded; nil: never
	RAMRule  *unitconfig.FractionRule
}

// NodeOf joins what a node tells and what it is configured to.
func NodeOf(info *items.Node, c *unitconfig.NodeConfig) Node {
	n := Node{Info: info, Ratios: unitconfig.EntryRatios{}.Resolved()}
	if c == nil {
		return n
	}
	n.Labels, n.Priority = c.Labels, int(c.Priority)
	n.CPURule, n.RAMRule = c.AlertRules.CPU, c.AlertRules.RAM
	if r := c.ResourceRatios; r != nil {
		n.Ratios = *r
	}
	return n
}

// Plan is what should run where, and the way there.
type Plan struct {
	Changes Counts     `json:"changes"` // how much is to be done
	Nodes   []NodePlan `json:"nodes"`   // by ID; all of them
	Reasons []Reason   `json:"reasons"` // of what is not there
	// nodes that are overloaded, and what can be done for them, where somebody has looked for that
	Overloaded []Relief `json:"overloaded,omitempty"`

	w *world
}

// Counts are the numbers of instances and layers by what becomes of them.
type Counts struct {
	Keep   int `json:"keep"`   // instances that stay as they are
	Start  int `json:"start"`  // instances that are new
	Update int `json:"update"` // instances that get another version or environment where they are
	Move   int `json:"move"`   // instances that go to another node or runtime
	Stop   int `json:"stop"`   // instances that are not desired any more
	Fetch  int `json:"fetch"`  // layers that nodes do not have
	Remove int `json:"remove"` // layers that nodes do not need any more
}

// NodePlan is what a node should have.
type NodePlan struct {
	Node      string        `json:"node"`                // its ID
	Instances []Placed      `json:"instances,omitempty"` // of components, then services
	Layers    []PlacedLayer `json:"layers,omitempty"`    // that these need
	Changes   []Change      `json:"changes,omitempty"`   // against now
}

// Placed is an instance with its place.
type Placed struct {
	Type     items.Type      `json:"type"`              // component or service
	Codename string          `json:"codename"`          // of the item
	Version  string          `json:"version"`           // of the item
	Digest   string          `json:"digest,omitzero"`   // of the version's content
	Subject  string          `json:"subject"`           // for which it runs
	Index    int             `json:"index"`             // of several instances; 0 of a component
	Runtime  string          `json:"runtime"`           // ID of the node's runtime
	Platform *items.Platform `json:"platform,omitzero"` // of those that it is built for
	Priority int             `json:"priority"`          // of the item
	CPU      int64           `json:"cpu"`               // reserved, in DMIPS
	RAM      int64           `json:"ram"`               // reserved, in bytes
	Storage  int64           `json:"storage,omitzero"`  // reserved, in bytes
	State    int64           `json:"state,omitzero"`    // reserved, in bytes
	// environment, by name, and its digest, which what runs it gives back as part of the current state
	Env       []Variable `json:"env,omitempty"`
	EnvDigest string     `json:"envDigest,omitzero"` // of its environment
	Chosen    Choice     `json:"chosen"`             // why it is here
	Relieves  *Overload  `json:"relieves,omitzero"`  // of a choice of relief: what it leaves
}

// Variable is a variable of an environment.
type Variable struct {
	Name string `json:"name"` // of the variable
	Text string `json:"text"` // its value
	From Origin `json:"from"` // who has set it
}

// Origin is who has set a variable.
type Origin string

// The origins. What the subject says comes before what the metadata says.
const (
	OfMetadata Origin = "metadata"
	OfSubject  Origin = "subject"
)

// Choice is why an instance is where it is.
type Choice string

// The choices.
const (
	ByNode     Choice = "node"     // a component is on each node of its subject
	ByStaying  Choice = "stays"    // it runs there and may
	ByBeing    Choice = "only"     // nowhere else may it run
	ByPriority Choice = "priority" // the node's is the highest
	ByCPU      Choice = "cpu"      // the most is free
	ByRAM      Choice = "ram"      // the most is free, with equal CPU
	ByID       Choice = "id"       // the first of equals
	ByRoom     Choice = "room"     // others of lower priority made room
	ByRelief   Choice = "relief"   // it leaves a node that is overloaded
)

// PlacedLayer is a layer that a node needs.
type PlacedLayer struct {
	Codename string   `json:"codename"`        // of the layer
	Version  string   `json:"version"`         // of the layer
	Digest   string   `json:"digest,omitzero"` // of the version's content
	For      []string `json:"for"`             // items on the node that need it: "service sensor 1.2.0"
}

// Do is what a change does.
type Do string

// What changes do.
const (
	Start  Do = "start"
	Update Do = "update" // another version or environment, where it is
	Move   Do = "move"   // it runs on another node, or in another runtime, now
	Stop   Do = "stop"   // also of what is moved: From is empty then
	Fetch  Do = "fetch"  // a layer
	Remove Do = "remove" // a layer
)

// Change is a difference between what a node should have and what runs now.
type Change struct {
	Do       Do         `json:"do"`                // what is done
	Type     items.Type `json:"type"`              // of the item
	Codename string     `json:"codename"`          // of the item
	Version  string     `json:"version"`           // that is to run, or is to be stopped or removed
	From     string     `json:"from,omitzero"`     // of an update or move: the version that runs now
	FromNode string     `json:"fromNode,omitzero"` // of a move
	Env      bool       `json:"env,omitzero"`      // of an update: it gets another environment
	ToNode   string     `json:"toNode,omitzero"`   // of a stop: where the instance goes
	Subject  string     `json:"subject,omitzero"`  // for which it runs; of a layer: none
	Index    int        `json:"index,omitzero"`    // of the instance
	Runtime  string     `json:"runtime,omitzero"`  // ID of the runtime; of a layer: none
}

// Make decides. The error is the first of Check.
func Make(in *Input) (*Plan, error) {
	if clashes := Check(in); len(clashes) > 0 {
		return nil, clashes[0].Err
	}
	w := newWorld(in)
	w.collect()
	w.suppress()
	w.conflicts()
	w.misfit()
	w.depend()
	w.place()
	p := w.plan()
	p.w = w
	return p, nil
}

// world is an input, sorted, on its way to a plan.
type world struct {
	in         *Input
	versions   map[items.Ref][]*version // the highest first
	subjects   []*subject               // of the highest priority first
	nodes      []*node                  // by ID
	byNode     map[string]*node
	candidates []*candidate // in the order in which they were collected
	byRef      map[items.Ref][]*candidate
	placed     []*instance
	fresh      []instance // that are not in use yet
	reasons    []Reason
	runs       map[serviceKey][]int // services that run now: indexes in the current state, by node and runtime
	has        map[items.InstalledLayer]bool
	layers     map[string]bool // "codename version" of layers that some node has
	moves      map[serviceKey][]*ReliefMove
	misfits    map[misfitKey]string
	underLoad  func(*node) verdict // the filter of load, while relief is looked for
}

// version is a version of an item. Lists whose order means nothing are sorted.
type version struct {
	*items.Item
	number    items.Version
	needs     []items.Dependency
	resources []string
	devices   []string
	ports     []items.Port
}

func newVersion(it *items.Item, number items.Version) *version {
	sorted := func(all []string) []string { return slices.Sorted(slices.Values(all)) }
	v := &version{Item: it, number: number, needs: slices.Clone(it.Meta.Dependencies),
		resources: sorted(it.Meta.Resources), devices: sorted(it.Meta.Devices), ports: slices.Clone(it.Meta.Ports)}
	slices.SortFunc(v.needs, func(a, b items.Dependency) int { return compareRefs(a.Ref(), b.Ref()) })
	slices.SortFunc(v.ports, func(a, b items.Port) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol))
	})
	return v
}

// subject is a subject with its nodes.
type subject struct {
	*items.Subject
	all      bool // it has every node
	nodes    []*node
	has      map[*node]bool
	reported bool // counts now
}

// takes reports whether a subject is attached to a node.
func (s *subject) takes(n *node) bool { return s.all || s.has[n] }

// candidate is a version of an item that is desired for a subject.
type candidate struct {
	*version
	subject    *subject
	att        *items.Attachment
	labels     []string      // sorted
	on         []*node       // of a component: the nodes on which no higher subject has it
	out        *Reason       // why it is not there after all
	turn       int           // its place among all in the order of placement
	name       int           // its place among all in the order of names
	layers     []*version    // that it needs, by codename and version
	layerItems []*items.Item // the same
	kept       bool          // deprecated: only what runs stays
	env        []Variable    // by name
	envDigest  string
}

func (c *candidate) ref() items.Ref { return c.Meta.Ref() }

// party names the candidate in reasons.
func (c *candidate) party() Party {
	return Party{c.Meta.Type, c.Meta.Codename, c.Meta.Version, c.subject.Codename}
}

// serviceKey tells instances of services apart.
type serviceKey struct {
	codename, subject string
	index             int
}

func newWorld(in *Input) *world {
	w := &world{in: in, versions: map[items.Ref][]*version{}, byNode: map[string]*node{},
		byRef: map[items.Ref][]*candidate{}, runs: map[serviceKey][]int{},
		has: make(map[items.InstalledLayer]bool, len(in.Current.Layers)), layers: map[string]bool{}}
	for i := range in.Items {
		it := &in.Items[i]
		v, err := items.ParseVersion(it.Meta.Version)
		if err != nil {
			panic("desired: Check lets a version pass: " + err.Error())
		}
		ref := it.Meta.Ref()
		if !slices.ContainsFunc(w.versions[ref], func(o *version) bool { return o.number.Compare(v) == 0 }) {
			w.versions[ref] = append(w.versions[ref], newVersion(it, v))
		}
	}
	for _, all := range w.versions {
		slices.SortFunc(all, func(a, b *version) int { return b.number.Compare(a.number) })
	}
	for _, l := range in.Current.Layers {
		w.has[l] = true
		w.layers[l.Codename+" "+l.Version] = true
	}
	w.addNodes()
	for i := range in.Current.Instances {
		c := &in.Current.Instances[i]
		if c.Type == items.Service {
			k := serviceKey{c.Codename, c.Subject, c.Index}
			w.runs[k] = append(w.runs[k], i)
		} else if n := w.byNode[c.Node]; n != nil {
			n.components = append(n.components, i)
		}
	}
	for _, all := range w.runs {
		slices.SortFunc(all, func(a, b int) int {
			x, y := &in.Current.Instances[a], &in.Current.Instances[b]
			return cmp.Or(cmp.Compare(x.Node, y.Node), cmp.Compare(x.Runtime, y.Runtime))
		})
	}
	w.addMoves()
	w.addMisfits()
	w.addSubjects()
	return w
}
