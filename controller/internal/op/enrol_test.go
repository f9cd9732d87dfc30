package op_test

import (
	"fmt"
	"strings"
	"testing"

	"tandem.internal/controller/internal/op"
	"tandem.internal/shared/wire"
)

func TestListsAndOrdersAreChecked(t *testing.T) {
	nodes := func(names ...string) (all []op.ListedNode) {
		for _, name := range names {
			all = append(all, op.ListedNode{Node: name})
		}
		return all
	}
	numbered := func(n int) (names []string) {
		for i := range n {
			names = append(names, fmt.Sprintf("n%d", i))
		}
		return names
	}
	keys := func(all ...string) (in op.JoinOrder) {
		for _, text := range all {
			name, key, _ := strings.Cut(text, "=")
			in.Nodes = append(in.Nodes, op.NodeKey{Node: name, Key: key})
		}
		return in
	}
	typed := nodes("n1", "n2")
	typed[1].Type = "main\x1bType"
	timed := nodes("n1", "n2")
	timed[1].TTL = "1h"
	for i, c := range []struct {
		in   op.Checker
		code wire.Code
		path string
	}{
		{&op.EnrolList{Nodes: nodes(numbered(op.MaxEnrolList)...), Known: "skip"}, "", ""},
		{&op.EnrolList{}, wire.CodeMissing, "/nodes"},
		{&op.EnrolList{Nodes: nodes(numbered(op.MaxEnrolList + 1)...)}, wire.CodeTooLarge, "/nodes"},
		{&op.EnrolList{Nodes: nodes("n1", "n/2")}, wire.CodeInvalidArgument, "/nodes/1/node"},
		{&op.EnrolList{Nodes: nodes("n1", "n2", "n1")}, wire.CodeDuplicate, "/nodes/2/node"},
		{&op.EnrolList{Nodes: typed}, wire.CodeInvalidArgument, "/nodes/1/type"},
		{&op.EnrolList{Nodes: timed}, wire.CodeInvalidArgument, "/nodes/1/ttl"},
		{&op.EnrolList{Nodes: nodes("n1"), Known: "ignore"}, wire.CodeInvalidArgument, "/known"},
		{&op.NewBatch{TTL: "7d"}, wire.CodeInvalidArgument, "/ttl"},
		{&op.NewBatch{Type: "\u202e"}, wire.CodeInvalidArgument, "/type"},
		{new(keys("n1", "n2=0123456789abcdef")), "", ""},
		{new(keys()), wire.CodeMissing, "/nodes"},
		{new(keys(numbered(1001)...)), wire.CodeTooLarge, "/nodes"},
		{new(keys("n1", "n/2")), wire.CodeInvalidArgument, "/nodes/1/node"},
		{new(keys("n1=0123456789abcdef", "n1")), wire.CodeDuplicate, "/nodes/1/node"},
		{new(keys("n1=0123456789abcde")), wire.CodeInvalidArgument, "/nodes/0/key"},
		{new(keys("n1=0123456789abcdeg")), wire.CodeInvalidArgument, "/nodes/0/key"},
		{&op.JoinRefusal{JoinOrder: keys("n1"), Revoke: op.Revoke{Reason: strings.Repeat("x", 257)}}, wire.CodeTooLarge,
			"/reason"},
	} {
		got := wire.Error{}
		if err := c.in.Check(); err != nil {
			got = *err
		}
		if got.Code != c.code || got.Path != c.path {
			t.Errorf("%d: %s %s, not %s %s", i, got.Code, got.Path, c.code, c.path)
		}
	}
}
