package top

import (
	"context"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/cli/top/board"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
)

// lookAt asks about a node, and returns what takes in the answer.
func (t *top) lookAt(ctx context.Context, node string) func() {
	f := &board.Facts{}
	var err error
	if f.Node, err = client.Call(ctx, t.c, op.ShowNode, op.NodeIn{Node: node}); err == nil {
		f.Why, err = client.Call(ctx, t.c, op.WhyNode, op.NodeIn{Node: node})
	}
	if err != nil {
		f.Error = command.AsFailure(err).Err.Message
	}
	return func() { t.board.Show(node, f) }
}

// pick asks which nodes a filter selects, and returns what takes in the answer.
func (t *top) pick(ctx context.Context, filter string) func() {
	in := op.PickIn{Fields: "node"}
	in.Q = filter
	var names []string
	found, err := client.Call(ctx, t.c, op.PickNodes, in)
	for _, n := range found.Nodes {
		var name string
		if err == nil {
			err = json.Unmarshal(n["node"], &name)
		}
		names = append(names, name)
	}
	wrong := ""
	if err != nil {
		wrong = command.AsFailure(err).Err.Message
	}
	return func() { t.board.Match(filter, names, wrong) }
}
