package testenv_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const glossary = docsDir + "/glossary.md"

var (
	goName  = regexp.MustCompile("`([a-z]+\\.[A-Z]\\w+)`")
	badWord = regexp.MustCompile("`([a-z]+)`")
)

// glossaryText is the glossary in two parts: the words, and those that are not used.
func glossaryText(t *testing.T) (words, unused string) {
	t.Helper()
	text, err := os.ReadFile(glossary)
	if err != nil {
		t.Fatal(err)
	}
	words, unused, ok := strings.Cut(string(text), "\n## Words that are not used\n")
	if !ok {
		t.Fatal("the glossary has no list of words that are not used")
	}
	return words, unused
}

// rows are the cells of a document's tables, without headings.
func rows(text string) (all [][]string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|--") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if cells[0] != "word" && cells[0] != "not" {
			all = append(all, cells)
		}
	}
	return all
}

// Every word stands in the glossary once, and the Go names beside it exist.
func TestWordsOfTheGlossary(t *testing.T) {
	words, _ := glossaryText(t)
	there := map[string]bool{}
	for path, text := range sources(t) {
		if !isProduct(path) {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range declared(tree, true) {
			there[tree.Name.Name+"."+name] = true
		}
	}
	seen, named := map[string]bool{}, 0
	for _, row := range rows(words) {
		if len(row) != 3 || row[1] == "" {
			t.Errorf("%q has no meaning, or no third cell", row)
			continue
		}
		for word := range strings.SplitSeq(row[0], ", ") {
			if seen[word] {
				t.Errorf("%q stands in the glossary twice", word)
			}
			seen[word] = true
		}
		for _, m := range goName.FindAllStringSubmatch(row[2], -1) {
			named++
			if !there[m[1]] {
				t.Errorf("%q: no program declares %s", row[0], m[1])
			}
		}
	}
	if len(seen) < 60 || named < 40 {
		t.Errorf("only %d words and %d Go names were found", len(seen), named)
	}
}

// Words that the glossary replaces do not come back as names.
func TestWordsThatAreNotUsed(t *testing.T) {
	_, unused := glossaryText(t)
	var words []string
	for _, row := range rows(unused) {
		for _, m := range badWord.FindAllStringSubmatch(row[0], -1) {
			words = append(words, m[1])
		}
	}
	if len(words) < 5 {
		t.Fatalf("only %q are not used", words)
	}
	there := map[string]int{}
	for path, text := range sources(t) {
		if !isProduct(path) {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for word, n := range badNames(tree, words) {
			there[path+" "+word] = n
		}
	}
	checkShape(t, "words", mostWords, there)
}

// badNames counts the declarations in a file whose name is one of words.
func badNames(tree *ast.File, words []string) map[string]int {
	found := map[string]int{}
	for _, name := range declared(tree, false) {
		if name = strings.ToLower(name); slices.Contains(words, name) {
			found[name]++
		}
	}
	return found
}

// declared are the names that a file declares: of the package only, or everywhere in it, with fields,
// methods, parameters and variables.
func declared(tree *ast.File, ofPackage bool) (names []string) {
	add := func(ids ...*ast.Ident) {
		for _, id := range ids {
			names = append(names, id.Name)
		}
	}
	addExprs := func(exprs ...ast.Expr) {
		for _, e := range exprs {
			if id, ok := e.(*ast.Ident); ok {
				add(id)
			}
		}
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if !ofPackage || n.Recv == nil {
				add(n.Name)
			}
			return !ofPackage
		case *ast.TypeSpec:
			add(n.Name)
			return !ofPackage
		case *ast.ValueSpec:
			add(n.Names...)
			return !ofPackage
		case *ast.Field:
			add(n.Names...)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				addExprs(n.Lhs...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				addExprs(n.Key, n.Value)
			}
		}
		return true
	})
	return names
}

// The search finds a word wherever it is declared, and not where it is only used.
func TestWordsFindsNames(t *testing.T) {
	const src = `package p
type told struct { Told int; other int }
var told, b = 1, 2
func (t *told) Told(told int) (told error) {
	told := t.told
	for told := range b { told++; b.told = told.told }
	told, b = b, told // told
	return nil
}
func retold() {}
`
	tree, err := parser.ParseFile(token.NewFileSet(), "p.go", src, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := badNames(tree, []string{"told"})["told"]; got != 8 {
		t.Errorf("%d declarations, want 8: %q", got, declared(tree, false))
	}
	if got := declared(tree, true); !slices.Equal(got, []string{"told", "told", "b", "retold"}) {
		t.Errorf("of the package: %q", got)
	}
}
