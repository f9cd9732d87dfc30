package policies

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/policy"
	"tandem.internal/shared/policy/constraint"
	"tandem.internal/shared/wire"
)

// KindProperties is the source of the properties of nodes that operators set.
const KindProperties = record.KindProperties

// Properties are what operators say of nodes: by node, then by name.
type Properties struct {
	Nodes map[string]map[string]Property `json:"nodes,omitempty"`
}

// Property is one of them.
type Property struct {
	Value jsontext.Value `json:"value"`
	Type  string         `json:"type,omitempty"`
	At    time.Time      `json:"at"`
	Who   string         `json:"who,omitempty"`
}

// PropertyChange sets a property, or takes it back. It is the data of its records.
type PropertyChange = record.PropertyData

const (
	maxPropertyNodes = 20_000 // nodes with properties
	maxProperties    = 64     // of one node
)

func propertyFold() *kind.Fold {
	return kind.JSON[PropertyChange, Properties](kind.Fold{Reason: "properties of nodes changed",
		Judge: judgeProperty, Apply: applyProperty})
}

// judgeProperty says why a change is refused.
func judgeProperty(c kind.Content, data any) *wire.Error {
	all, d := propertiesOf(c), data.(PropertyChange)
	_, had := all.Nodes[d.Node][d.Name]
	switch {
	case !wire.ValidName(d.Node):
		return wire.New(wire.CodeInvalidArgument, "", fmt.Sprintf("%.80q is no name of a node", d.Node))
	case d.Value == nil && !had:
		return wire.New(wire.CodeNotFound, "", fmt.Sprintf("no operator has set %.80q of %s", d.Name, d.Node))
	case d.Value == nil:
		return nil
	case isMeasured(d.Name):
		return wire.New(wire.CodeNotAllowed, "", fmt.Sprintf("%.80q is measured, and cannot be set", d.Name))
	case all.Nodes[d.Node] == nil && len(all.Nodes) >= maxPropertyNodes:
		return wire.New(wire.CodeTooLarge, "", fmt.Sprintf("more than %d nodes with properties", maxPropertyNodes))
	case !had && len(all.Nodes[d.Node]) >= maxProperties:
		return wire.New(wire.CodeTooLarge, "", fmt.Sprintf("a node has at most %d properties set", maxProperties))
	}
	one := policy.Node{Properties: []policy.Property{{Name: d.Name, Value: d.Value, Type: constraint.Type(d.Type)}}}
	if _, problems := policy.ParseNode(policy.EncodeNode(&one)); problems != nil {
		err := *problems[0]
		err.Path, err.Line, err.Column = strings.TrimPrefix(err.Path, "/properties/0"), 0, 0
		return &err
	}
	return nil
}

func applyProperty(c kind.Content, at kind.Change, data any) kind.Content {
	nodes, d := maps.Clone(propertiesOf(c).Nodes), data.(PropertyChange)
	if nodes == nil {
		nodes = map[string]map[string]Property{}
	}
	mine := maps.Clone(nodes[d.Node])
	if mine == nil {
		mine = map[string]Property{}
	}
	if d.Value == nil {
		delete(mine, d.Name)
	} else {
		mine[d.Name] = Property{Value: d.Value, Type: d.Type, At: at.At, Who: at.Who}
	}
	if nodes[d.Node] = mine; len(mine) == 0 {
		delete(nodes, d.Node)
	}
	return &Properties{nodes}
}

// For returns nothing: the documents are made by the kind.
func (*Properties) For(kind.Facts) *kind.Body { return nil }

func propertiesOf(c kind.Content) *Properties { return kind.As[Properties](c) }

// sourced is a property and where it is from.
type sourced struct {
	policy.Property
	value constraint.Value
	from  string // measured, node or operator
}

// The sources of a property, each of which stands before the ones before it.
const (
	measured   = "measured"
	byNode     = "node"
	byOperator = "operator"
)

// description is what a node is for policies.
type description struct {
	node *policy.Node
	all  map[string]sourced // its properties
	err  *wire.Error        // of what it says of itself, which then does not count
}

// describe puts together what was measured of a node, what it says of itself, and what operators have set.
func (p *Properties) describe(node, nodeType string, info *wire.NodeInfo) description {
	d := description{all: make(map[string]sourced, 16)}
	own := &policy.Node{}
	if len(info.Policy) > 0 {
		parsed, problems := policy.ParseNode(info.Policy)
		if problems != nil {
			d.err = problems[0]
		} else {
			own = parsed
		}
	}
	d.measure(node, nodeType, info)
	measuredOnly := len(d.all)
	for name, value := range info.Attributes { // a text each
		if !isMeasured(name) && constraint.CheckName(name) == nil {
			d.text(byNode, name, constraint.TypeString, value)
		}
	}
	d.add(byNode, own.Properties)
	if own.Management != nil {
		d.add(byNode, own.Management.Properties)
	}
	for name, one := range p.Nodes[node] {
		d.add(byOperator, []policy.Property{{Name: name, Value: one.Value, Type: constraint.Type(one.Type)}})
	}
	values := make(constraint.Properties, len(d.all))
	for name, one := range d.all {
		values[name] = one.value
	}
	d.node = policy.Compose(own, values, len(d.all) > measuredOnly)
	return d
}

// add adds properties that nobody else measures.
func (d *description) add(from string, list []policy.Property) {
	for _, one := range list {
		if isMeasured(one.Name) {
			continue
		}
		if value, err := one.Read(); err == nil { // an error was told when it was set
			d.all[one.Name] = sourced{one, value, from}
		}
	}
}

// text adds a text.
func (d *description) text(from, name string, typ constraint.Type, s string) {
	if value, err := constraint.NewText(typ, s); err == nil {
		d.all[name] = sourced{policy.Property{Name: name, Type: typ, Value: quote(s)}, value, from}
	}
}

// list lists the properties by name.
func (d *description) list() []sourced {
	return slices.SortedFunc(maps.Values(d.all), func(a, b sourced) int { return strings.Compare(a.Name, b.Name) })
}

// The properties that every node has beside those of the real system.
const (
	propertyNode  = "tandem.node"  // its name
	propertyType  = "tandem.type"  // its type
	propertyAgent = "tandem.agent" // version of its agent, if that is a semantic one
)

// isMeasured reports whether nobody may set a property.
func isMeasured(name string) bool {
	return strings.HasPrefix(name, "tandem.") ||
		strings.HasPrefix(name, "openhorizon.") && name != policy.AllowPrivileged
}

// measure adds the properties that every node has (seed 003; the names are those of the real system).
func (d *description) measure(node, nodeType string, info *wire.NodeInfo) {
	number := func(name string, n uint64) {
		literal := strconv.FormatUint(n, 10)
		if value, err := constraint.NewNumber(constraint.TypeInt, literal); err == nil {
			d.all[name] = sourced{policy.Property{Name: name, Type: constraint.TypeInt,
				Value: jsontext.Value(literal)}, value, measured}
		}
	}
	boolean := func(name string, b bool) {
		if value, err := constraint.NewBoolean(constraint.TypeBoolean, b); err == nil {
			d.all[name] = sourced{policy.Property{Name: name, Type: constraint.TypeBoolean,
				Value: jsontext.Value(strconv.FormatBool(b))}, value, measured}
		}
	}
	d.text(measured, propertyNode, constraint.TypeString, node)
	d.text(measured, propertyType, constraint.TypeString, nodeType)
	d.text(measured, propertyAgent, constraint.TypeVersion, info.AgentVersion)
	d.text(measured, policy.Arch, constraint.TypeString, info.Arch)
	d.text(measured, policy.OperatingSystem, constraint.TypeString, info.OS)
	d.text(measured, policy.HardwareID, constraint.TypeString, info.Attributes[wire.AttributeHardware])
	number(policy.CPU, uint64(max(0, info.CPUs)))
	number(policy.Memory, info.RAM>>20)
	boolean(policy.Containerized, info.Attributes[wire.AttributeContainer] == "true")
	boolean(policy.AllowPrivileged, false)
}

// quote is a text as JSON.
func quote(s string) jsontext.Value {
	v, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		return jsontext.Value(`""`) // cannot happen: what nodes report is UTF-8
	}
	return v
}
