package cli

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestOwnShapes: what --json prints is the answer of an operation or one of these shapes, which all have names. (Two
// of them, of package history, are only read.)
func TestOwnShapes(t *testing.T) {
	files, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	own, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var shapes []string
	for _, file := range append(files, own...) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		named := map[*ast.StructType]string{}
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if s, ok := n.Type.(*ast.StructType); ok {
					named[s] = n.Name.Name
				}
			case *ast.StructType:
				members := jsonMembers(t, n)
				switch {
				case len(members) == 0:
				case named[n] == "":
					t.Errorf("%s has a shape without a name: %v", file, members)
				default:
					shapes = append(shapes, fmt.Sprintf("%s.%s: %s", tree.Name, named[n], strings.Join(members, ", ")))
				}
			}
			return true
		})
	}
	slices.Sort(shapes)
	golden(t, "shapes", strings.Join(shapes, "\n")+"\n")
}

// jsonMembers lists the members of a struct with JSON tags; embedded types in parentheses.
func jsonMembers(t *testing.T, s *ast.StructType) (members []string) {
	var embedded []string
	for _, f := range s.Fields.List {
		if len(f.Names) == 0 {
			if x, ok := f.Type.(*ast.SelectorExpr); ok {
				embedded = append(embedded, fmt.Sprintf("(%s.%s)", x.X, x.Sel))
			}
			continue
		}
		if f.Tag == nil {
			continue
		}
		tag, err := strconv.Unquote(f.Tag.Value)
		if err != nil {
			t.Fatal(err)
		}
		if name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ","); name != "" {
			members = append(members, name)
		}
	}
	if len(members) == 0 {
		return nil
	}
	return append(embedded, members...)
}
