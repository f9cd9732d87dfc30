package op

import (
	"path"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/filter"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/near"
	"tandem.internal/shared/wire"
)

// The nodes of the unit.
var (
	ListNodes = define(Op[NodesIn, Nodes]{
		Name: "nodes.list", Route: "GET /v1/nodes", Role: View,
		About: "Lists the nodes, by name. Those that may join or have joined and never connected have no firstSeen.",
	})
	PickNodes = define(Op[PickIn, Picked]{
		Name: "nodes.fields", Route: "GET /v1/nodes", Role: View, When: "fields",
		About: "Lists the nodes, by name, with some of their fields only.",
	})
	ListAlerts = define(Op[None, Alerts]{
		Name: "alerts.list", Route: "GET /v1/alerts", Role: View,
		About: "Lists the alerts that are raised, by node; those of nodes that were revoked are left out.",
	})
	WatchNodes = define(Op[Watched, NodeChange]{
		Name: "nodes.watch", Route: "GET /v1/nodes", Role: View, When: "watch", Form: Stream,
		About: "Follows the nodes. First come all of them and a line with complete, then what changes, " +
			"each batch ended by complete.",
	})
)

// NodesIn selects nodes: those for which all that is given is true.
type NodesIn struct {
	Name    string   `query:"name" json:"-"`    // matches the name: * is any characters, ? is one
	Type    string   `query:"type" json:"-"`    // node type
	States  []string `query:"state" json:"-"`   // one of these states, as "tandem nodes" shows them
	Online  bool     `query:"online" json:"-"`  // connected
	Offline bool     `query:"offline" json:"-"` // not connected
	Behind  bool     `query:"behind" json:"-"`  // not in step
	// were heard of, and are not connected for at least so long
	OfflineFor time.Duration `query:"offlineFor" json:"-"`
	Q          string        `query:"q" json:"-"` // a filter, such as "state:offline type:press version:<2.1"
	// in this order: "state", what is worst first, "type", "version", "since" or "alerts"; by name otherwise
	Sort string `query:"sort" json:"-"`
	// their names come after this one; where the answer before ended, whatever has come or gone since
	After string `query:"after" is:"name" json:"-"`
	Limit int    `query:"limit" min:"1" max:"100000" json:"-"` // at most so many
}

// Sorts are the orders in which nodes may be listed, besides that of their names.
var Sorts = []string{"state", "type", "version", "since", "alerts"}

// maxStates is how many states one request may name.
const maxStates = 32

// Check judges the pattern and the states, and that what is selected can be.
func (in *NodesIn) Check() *wire.Error {
	if _, err := path.Match(in.Name, ""); err != nil {
		return invalid("the parameter name is no pattern: %.80q; * is any characters, ? is one", in.Name)
	}
	switch {
	case in.Online && in.Offline:
		return invalid("online and offline exclude each other")
	case len(in.States) > maxStates:
		return invalid("at most %d states", maxStates)
	}
	if _, err := filter.Parse(in.Q); err != nil {
		return err
	}
	if in.Sort != "" {
		switch {
		case !slices.Contains(Sorts, in.Sort):
			return invalid("nodes are sorted by one of %s, not by %.40q%s", strings.Join(Sorts, ", "), in.Sort,
				near.Suggest(near.All(in.Sort, Sorts), ""))
		case in.After != "":
			return invalid("sort and after exclude each other: after is for nodes in the order of names")
		}
	}
	for _, s := range in.States {
		if s == "" || len(s) > 64 {
			return invalid("a state has 1 to 64 characters")
		}
	}
	return nil
}

// All reports whether every node is selected.
func (in *NodesIn) All() bool { return reflect.ValueOf(in).Elem().IsZero() }

// PickIn selects nodes, and which of their fields are shown.
type PickIn struct {
	NodesIn
	// fields of a node, with commas between them; also state, with the unit configuration
	Fields string `query:"fields" need:"yes" json:"-"`
}

// Check judges what selects the nodes, and the names of the fields.
func (in *PickIn) Check() *wire.Error {
	for name := range strings.SplitSeq(in.Fields, ",") {
		if _, known := nodeFields[name]; !known && name != "state" {
			return invalid("a node has no field %.64q", name)
		}
	}
	return in.NodesIn.Check()
}

// Picked has some fields of nodes.
type Picked struct {
	Nodes []PickedNode `json:"nodes"` // sorted by name; without the fields that a node does not have
	// what after has to be for those that follow; absent: there are none
	Next string `json:"next,omitempty"`
}

// PickedNode has some fields of a node.
type PickedNode = map[string]jsontext.Value

// nodeFields are the indexes of view.Node's fields by their names in JSON, and whether they may be left out.
var nodeFields = func() map[string]nodeField {
	all := map[string]nodeField{}
	t := reflect.TypeFor[view.Node]()
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		all[name] = nodeField{i, options != ""}
	}
	return all
}()

type nodeField struct {
	index    int
	optional bool
}

// Field returns the value of a field of n by its name in JSON, false if n does not have it.
func Field(n *view.Node, name string) (value any, has bool) {
	f, known := nodeFields[name]
	if !known {
		return nil, false
	}
	v := reflect.ValueOf(n).Elem().Field(f.index)
	return v.Interface(), !f.optional || !v.IsZero()
}
