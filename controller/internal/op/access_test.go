package op_test

import (
	"slices"
	"strings"
	"testing"

	"tandem.internal/controller/internal/op"
	"tandem.internal/shared/wire"
)

// Who is forgotten is named: some at least, each once, and not too many.
func TestForgetNamesNodes(t *testing.T) {
	for _, c := range []struct {
		in   op.Forget
		code wire.Code
		path string
	}{
		{op.Forget{Nodes: []string{"n1", "n2"}, Force: true, Reason: "scrapped"}, "", ""},
		{op.Forget{}, wire.CodeMissing, "/nodes"},
		{op.Forget{Nodes: []string{"n1", "n2", "n1"}}, wire.CodeDuplicate, "/nodes/2"},
		{op.Forget{Nodes: []string{"n1", "n/2"}}, wire.CodeInvalidArgument, "/nodes/1"},
		{op.Forget{Nodes: slices.Repeat([]string{"n"}, op.MaxForget+1)}, wire.CodeTooLarge, "/nodes"},
		{op.Forget{Nodes: []string{"n1"}, Reason: strings.Repeat("x", 257)}, wire.CodeTooLarge, "/reason"},
	} {
		got := wire.Error{}
		if err := c.in.Check(); err != nil {
			got = *err
		}
		if got.Code != c.code || got.Path != c.path {
			t.Errorf("%d nodes: %s %s, not %s %s", len(c.in.Nodes), got.Code, got.Path, c.code, c.path)
		}
	}
}
