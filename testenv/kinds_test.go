package testenv_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// namesKinds lists the files outside the folders of kinds that name one, each with the reason. It can only become
// shorter: a new kind is a folder, its types in wire, and a line in the registry.
var namesKinds = map[string]string{
	"controller/internal/fleet/oldcheckpoint.go":  "reads the checkpoints of formats 1 to 5",
	"controller/internal/distribute/health.go":    "the operations about the settings of health",
	"controller/internal/distribute/workloads.go": "the operations about slots, and the set that a version comes to",
	"controller/internal/distribute/read.go":      "the operations about the unit configuration: resolved, explained",
}

// TestKindsAreNamedInTheirFoldersOnly looks at the controller and at the broker.
func TestKindsAreNamedInTheirFoldersOnly(t *testing.T) {
	named := map[string]bool{}
	for _, module := range []string{"controller", "broker"} {
		err := filepath.WalkDir(filepath.Join("..", module), func(path string, d fs.DirEntry, err error) error {
			name := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
			switch {
			case err != nil:
				return err
			case d.IsDir(), !strings.HasSuffix(name, ".go"), strings.HasSuffix(name, "_test.go"):
				return nil
			case strings.Contains(name, "/internal/kinds/"), strings.Contains(name, "/internal/cli/"),
				strings.Contains(name, "test/"):
				return nil // the CLI prints kinds; packages named …test serve tests
			}
			if kind := firstKind(t, path); kind != "" {
				named[name] = true
				if namesKinds[name] == "" {
					t.Errorf("%s names wire.%s: what is true of one kind belongs in its folder", name, kind)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range namesKinds {
		if !named[name] {
			t.Errorf("%s names no kind: an exception that nothing needs", name)
		}
	}
}

// firstKind is the first constant of a kind that a file uses, "" if it uses none.
func firstKind(t *testing.T, path string) (found string) {
	tree, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok || found != "" {
			return true
		}
		name := sel.Sel.Name
		x, ok := sel.X.(*ast.Ident)
		if ok && x.Name == "wire" && strings.HasPrefix(name, "Kind") && name != "Kind" && name != "Kinds" {
			found = name
		}
		return true
	})
	return found
}
