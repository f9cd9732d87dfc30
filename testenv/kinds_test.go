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
	"controller/internal/fleet/oldcheckpoint.go":   "reads the checkpoints of formats 1 to 5",
	"controller/internal/distribute/health.go":     "the operations about the settings of health",
	"controller/internal/distribute/workloads.go":  "the operations about slots, and the set that a version comes to",
	"controller/internal/distribute/policies.go":   "the operations about policies",
	"controller/internal/distribute/items.go":      "the operations about update items and subjects",
	"controller/internal/distribute/desired.go":    "what was decided is submitted as documents of two kinds",
	"controller/internal/distribute/relief.go":     "likewise",
	"controller/internal/op/desired.go":            "likewise",
	"controller/internal/cli/item/apply.go":        "likewise",
	"controller/internal/steer/components.go":      "likewise",
	"controller/internal/steer/relief.go":          "likewise, and reads what nodes tell of their load",
	"controller/internal/distribute/follow.go":     "follows the desired status of the cloud side",
	"controller/internal/unitstatus/states.go":     "says to the cloud side how what was decided is",
	"controller/internal/unitstatus/unitstatus.go": "likewise",
	"controller/internal/steer/set.go":             "likewise",
	"controller/internal/steer/show.go":            "likewise",
	"controller/internal/steer/steer.go":           "likewise, and reads what was decided before",
	"nodeagent/app/componentskind.go":              "the agent stages and tries what components should have",
	"controller/internal/words/policy.go":          "the words of changes of policies",
	"nodeagent/app/policies.go":                    "the agent stages what policies want",
	"controller/internal/distribute/config.go":     "the operations about the unit configuration: resolved, explained",
	"controller/internal/cli/document/document.go": "the list of what commands have besides the verbs",
	"controller/internal/cli/node/health.go":       "the commands about health, which is no document of operators",
	"controller/internal/cli/node/slots.go":        "the commands about slots",
	"controller/internal/kinds/kinds.go":           "the controller's list",
	"nodeagent/app/kinds.go":                       "the agent's list",
	"controller/internal/steer/container.go":       "what services that are images come to",
	"nodeagent/app/containers.go":                  "finds out what runs workloads that are containers",
	"nodeagent/app/deps.go":                        "the seams of workloads, for tests",
	"nodeagent/app/agent.go":                       "makes the node's description of itself, which is only reported",
	"nodeagent/app/health.go":                      "the agent keeps the node's health, whose settings are a document",
}

// TestKindsAreNamedInTheirFoldersOnly looks at the controller, at the agent and at the broker. A file names a kind by
// its constant, or by the import of its package.
func TestKindsAreNamedInTheirFoldersOnly(t *testing.T) {
	named := map[string]bool{}
	for _, module := range []string{"controller", "nodeagent", "broker"} {
		err := filepath.WalkDir(filepath.Join("..", module), func(path string, d fs.DirEntry, err error) error {
			name := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
			switch {
			case err != nil:
				return err
			case d.IsDir(), !strings.HasSuffix(name, ".go"), strings.HasSuffix(name, "_test.go"):
				return nil
			case inFolderOfKind(name), strings.Contains(name, "test/"):
				return nil // packages named …test serve tests
			}
			if kind := firstKind(t, path); kind != "" {
				named[name] = true
				if namesKinds[name] == "" {
					t.Errorf("%s names %s: what is true of one kind belongs in its folder", name, kind)
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

// inFolderOfKind reports whether a file is in the folder of one kind, below those named kinds.
func inFolderOfKind(name string) bool {
	_, below, found := strings.Cut(name, "/internal/kinds/")
	return found && strings.Contains(below, "/")
}

// firstKind is the first kind that a file names, "" if it names none.
func firstKind(t *testing.T, path string) (found string) {
	tree, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, imp := range tree.Imports {
		if inFolderOfKind(strings.Trim(imp.Path.Value, `"`) + "/") {
			return imp.Path.Value
		}
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok || found != "" {
			return true
		}
		name := sel.Sel.Name
		x, ok := sel.X.(*ast.Ident)
		if ok && x.Name == "wire" && strings.HasPrefix(name, "Kind") && name != "Kind" && name != "Kinds" {
			found = "wire." + name
		}
		return true
	})
	return found
}
