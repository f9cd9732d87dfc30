package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
)

// many is a bench whose unit has so many nodes. Those with these numbers are: not in step, in ill health, offline.
func many(t *testing.T, nodes, behind, ill, offline int) *bench {
	t.Helper()
	u := apitest.StartSample(t)
	all, err := u.Nodes(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var v op.Nodes
	for i := range nodes {
		n := all.Nodes[0]
		n.Health = &view.Health{State: view.HealthOK, Text: "ok"}
		switch i {
		case behind:
			n = all.Nodes[1]
		case ill:
			n.Health = &view.Health{State: view.HealthCheck, Text: "check disk"}
		case offline:
			n.Online, n.Since = false, all.Nodes[3].Since
		}
		n.Node = fmt.Sprintf("press-%05d", i)
		v.Nodes = append(v.Nodes, n)
	}
	list := func(context.Context, op.NodesIn) (op.Nodes, error) { return v, nil }
	b := benchOf(t, u, apitest.Instead(u, api.Bind(op.ListNodes, list)))
	b.env["NO_COLOR"] = "1"
	return b
}

// A terminal gets what is not in order of many nodes, the most urgent first; a pipe, a filter or --all get every node.
func TestManyNodes(t *testing.T) {
	b := many(t, 10_000, 77, 42, 7)
	piped, _, _ := b.run("", "nodes")
	b.io.OutTerminal, b.io.Width = true, 140
	golden(t, "nodes-brief", b.transcript("", "nodes"))
	for _, args := range []string{"nodes --all", "nodes --name *"} {
		all, _, _ := b.run("", strings.Fields(args)...)
		for what, text := range map[string]string{args: all, "a pipe": piped} {
			if n := strings.Count(text, "\n"); n != 10_003 {
				t.Errorf("%s: %d lines", what, n)
			}
		}
	}
	whole := many(t, 100, 77, 42, 7)
	whole.io.OutTerminal = true
	if text, _, _ := whole.run("", "nodes"); strings.Count(text, "\n") != 103 {
		t.Errorf("100 nodes are not shown: %s", text)
	}
}

// Of many nodes that are not in order, a terminal says how many more there are.
func TestManyNodesOffline(t *testing.T) {
	u := apitest.StartSample(t)
	all, err := u.Nodes(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var v op.Nodes
	for i := range 250 {
		n := all.Nodes[3]
		n.Node, n.Online = fmt.Sprintf("press-%05d", i), i >= 150
		n.InSync = n.Online
		v.Nodes = append(v.Nodes, n)
	}
	list := func(context.Context, op.NodesIn) (op.Nodes, error) { return v, nil }
	b := benchOf(t, u, apitest.Instead(u, api.Bind(op.ListNodes, list)))
	b.io.OutTerminal = true
	text, _, _ := b.run("", "nodes")
	const want = "250 nodes, 100 online, 100 in step\n" +
		"not shown: 50 more nodes not in order and 100 nodes in order; --all shows every node\n"
	if !strings.HasSuffix(text, want) || strings.Count(text, "\n") != 104 {
		t.Errorf("%d lines, the end is %q", strings.Count(text, "\n"), text[max(0, len(text)-200):])
	}
}
