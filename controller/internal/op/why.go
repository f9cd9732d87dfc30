package op

import (
	"fmt"
	"strings"

	"tandem.internal/controller/internal/desired"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Why things are as they are. Those of slots, policies and items are beside their subjects, and have the same shape.
var (
	WhyNode = define(Op[NodeIn, view.Why]{
		Name: "node.why", Route: "GET /v1/nodes/{node}/why", Role: View,
		About: "Says how a node is and why, in sentences: what is wrong comes first, with where it is known from and " +
			"what would change it.",
	})
	WhyDocument = define(Op[DocumentIn, view.Why]{
		Name: "document.why", Route: "GET /v1/nodes/{node}/documents/{kind}/why", Role: View,
		About: "Says how a document is on its node and why, in sentences.",
	})
	WhyRollout = define(Op[RolloutIn, view.Why]{
		Name: "rollout.why", Route: "GET /v1/rollouts/{rollout}/why", Role: View,
		About: "Says how a rollout is and why, in sentences: what holds it up, and because of which nodes.",
	})
	DiffNode = define(Op[NodeIn, view.NodeDiff]{
		Name: "node.diff", Route: "GET /v1/nodes/{node}/diff", Role: View,
		About: "Shows what a node runs beside what it should run, value by value, by kind of document; kinds in " +
			"which something differs come first.",
	})
)

// DocumentIn names a document of a node.
type DocumentIn struct {
	NodeIn
	Kind wire.Kind `path:"kind" json:"-"` // of the document: "config", "workloads" and so on
}

// Check judges the kind.
func (in *DocumentIn) Check() *wire.Error {
	if !in.Kind.Known() {
		var kinds []string
		for _, k := range wire.Documents() {
			kinds = append(kinds, string(k))
		}
		return wire.New(wire.CodeNotFound, "", fmt.Sprintf("nodes get no documents of the kind %.80q; there are %s",
			in.Kind, strings.Join(kinds, ", ")))
	}
	return nil
}

// ItemWhy is what decided about an item on a node, as facts and in sentences.
type ItemWhy struct {
	desired.Explanation
	view.Why
}
