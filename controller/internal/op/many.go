package op

import (
	"crypto/sha256"
	"fmt"
	"io"
	"regexp"
	"strings"

	"tandem.internal/controller/internal/filter"
	"tandem.internal/shared/wire"
)

// OrderNodes gives one order to many nodes.
var OrderNodes = define(Op[NodesOrder, NodesOrdered]{
	Name: "nodes.order", Route: "POST /v1/nodes/order", Role: Operate, Long: true,
	About: "Gives one order to each node that a filter selects, as if it were ordered of each, and with the role " +
		"that the order needs. With dryRun nothing is ordered. A not-allowed: the filter selects every node, and " +
		"allNodes is not set. A wrong-state: it does not select as many as are expected, or others.",
})

// NodesOrder is an order to the nodes that a filter selects. It has one of the orders.
type NodesOrder struct {
	Where    string `json:"where"`             // a filter, such as "state:unwell type:press"
	AllNodes bool   `json:"allNodes,omitzero"` // it may select every node
	DryRun   bool   `json:"dryRun,omitzero"`   // only say which nodes these are
	// how many nodes are selected, such as "12", or which, as a dry run had it in expect; nothing is ordered if it is
	// another number, or if these are others. Left out: whichever they are
	Expect  string         `json:"expect,omitempty"`
	Reboot  *Reboot        `json:"reboot,omitzero"`  // restart the machine
	Try     *Try           `json:"try,omitzero"`     // try what is staged
	Approve *Approve       `json:"approve,omitzero"` // keep what is on trial
	Set     *NamedValue    `json:"set,omitzero"`     // set a property
	Unset   *NamedProperty `json:"unset,omitzero"`   // take a property back
	Revoke  *Revoke        `json:"revoke,omitzero"`  // let them in no more
}

// NamedProperty names a property.
type NamedProperty struct {
	Name string `json:"name"` // of the property
}

// NamedValue is a property and its value.
type NamedValue struct {
	NamedProperty
	PropertyValue
}

// ordered is one order of a NodesOrder.
type ordered struct {
	name  string // in JSON
	given bool
	role  Role // of the same order to one node
	check func() *wire.Error
}

func (in *NodesOrder) orders() []ordered {
	return []ordered{
		{"reboot", in.Reboot != nil, RebootNode.Role, func() *wire.Error { return in.Reboot.Check() }},
		{"try", in.Try != nil, TryNode.Role, nil},
		{"approve", in.Approve != nil, ApproveNode.Role, func() *wire.Error { return in.Approve.Check() }},
		{"set", in.Set != nil, SetProperty.Role, func() *wire.Error { return in.Set.NamedProperty.check() }},
		{"unset", in.Unset != nil, UnsetProperty.Role, func() *wire.Error { return in.Unset.check() }},
		{"revoke", in.Revoke != nil, RevokeNode.Role, func() *wire.Error { return in.Revoke.Check() }},
	}
}

func (p *NamedProperty) check() *wire.Error {
	if p.Name == "" {
		return wire.New(wire.CodeMissing, "/name", "required")
	}
	return nil
}

// expectation is the form of what is expected: a number, and with a digest the nodes as well.
var expectation = regexp.MustCompile(`^(0|[1-9][0-9]*)(-[0-9a-f]{16})?$`)

// ExpectOf is what an order has to expect to be for these nodes, in order of name, and no others: their number, and the
// first 8 bytes of the SHA-256 of their names, each with a line's end.
func ExpectOf(nodes []NodeOrdered) string {
	h := sha256.New()
	for i := range nodes {
		_, _ = io.WriteString(h, nodes[i].Node+"\n") // a hash takes everything
	}
	return fmt.Sprintf("%d-%x", len(nodes), h.Sum(nil)[:8])
}

// Role is what a token needs for the order.
func (in *NodesOrder) Role() Role {
	for _, o := range in.orders() {
		if o.given {
			return o.role
		}
	}
	return OrderNodes.Role
}

// Check judges the filter, that there is one order, and that order.
func (in *NodesOrder) Check() *wire.Error {
	if _, err := filter.Parse(in.Where); err != nil {
		err.Path = "/where"
		return err
	}
	if in.Expect != "" && !expectation.MatchString(in.Expect) {
		return wire.New(wire.CodeInvalidArgument, "/expect", fmt.Sprintf("a number of nodes, such as 12, or what a "+
			"dry run had as expect, such as 12-3f9a0c1d5e7b8a90, is expected, not %.80q", in.Expect))
	}
	var given, known []string
	for _, o := range in.orders() {
		known = append(known, o.name)
		if !o.given {
			continue
		}
		if given = append(given, o.name); o.check == nil {
			continue
		}
		if err := o.check(); err != nil {
			return wire.New(err.Code, "/"+o.name+err.Path, err.Message)
		}
	}
	switch len(given) {
	case 0:
		return wire.New(wire.CodeMissing, "", "an order is missing: one of "+strings.Join(known, ", "))
	case 1:
		return nil
	}
	return wire.New(wire.CodeInvalidArgument, "", fmt.Sprintf("%s exclude each other", strings.Join(given, " and ")))
}

// MaxOrdered bounds the nodes that an answer about an order to many lists.
const MaxOrdered = 1000

// NodesOrdered is what came of an order to many nodes, or, with dryRun, what it would reach.
type NodesOrdered struct {
	DryRun   bool `json:"dryRun,omitzero"`   // nothing was ordered
	Selected int  `json:"selected"`          // nodes that the filter selects
	AllNodes bool `json:"allNodes,omitzero"` // these are all that there are
	// with dryRun: what has an order be for these nodes, and no others, as its expect
	Expect  string `json:"expect,omitempty"`
	Offline int    `json:"offline"` // of them are not connected
	Done    int    `json:"done"`    // of them that have taken the order
	Failed  int    `json:"failed"`  // of them of which it was refused, or which have not answered
	// at most 1000 of them, by name; where there are more, those come first of which it was refused
	Nodes   []NodeOrdered `json:"nodes"`
	Omitted int           `json:"omitted,omitzero"` // of them are not listed
}

// NodeOrdered is what came of an order at one node.
type NodeOrdered struct {
	Node  string      `json:"node"`            // its name
	Error *wire.Error `json:"error,omitempty"` // why it was not done; absent: it was, or nothing was ordered
}
