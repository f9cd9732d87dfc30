package event

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"
)

// Every type has the detail that its comment names.
func TestEveryTypeHasTheDetailItNames(t *testing.T) {
	tree, err := parser.ParseFile(token.NewFileSet(), "event.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	types := 0
	ast.Inspect(tree, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Values) != 1 {
			return true
		}
		name, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		types++
		if !slices.Contains(Types(), name) {
			t.Errorf("%s is not in the list of types", name)
		}
		if named, has := v.Comment.Text()[:4] != "none", shape(name) != nil; named != has {
			t.Errorf("%s: its comment is %q, it has a detail: %v", name, v.Comment.Text(), has)
		}
		return true
	})
	if types < 35 || types != len(Types()) {
		t.Errorf("there are %d types, and %d in the list", types, len(Types()))
	}
}

func TestDecode(t *testing.T) {
	d, err := Decode(Stale, []byte(`{"kind":"config","epoch":3,"rev":4,"version":"1.0.0","hash":"h","suppressed":2}`))
	doc, ok := d.(*DocumentDetail)
	if err != nil || !ok || doc.Kind != "config" || doc.Rev != 4 || doc.Suppressed != 2 {
		t.Errorf("%+v, %v", d, err)
	}
	for _, typ := range []string{"of-tomorrow", ClockSkew} {
		if d, err := Decode(typ, []byte(`{"a":1}`)); d != nil || err != nil {
			t.Errorf("%s: %+v, %v", typ, d, err)
		}
	}
	if _, err := Decode(Boot, []byte(`[]`)); err == nil {
		t.Error("an array was read as a detail")
	}
}
