package testenv_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// saysWhy is where the reasons for the states of a unit are put into words; who only shows them may not say them anew.
const saysWhy = "controller/internal/why/"

// onlyShows are the folders of those who show what package why says: the commands, and the page.
var onlyShows = []string{"controller/internal/cli/", "controller/internal/api/static/"}

// wordsOfThePast says what has happened, from the journal, and not how anything is.
const wordsOfThePast = "controller/internal/cli/history/"

// notWhy are phrases that commands may say although why says them as well, each with the reason.
var notWhy = map[string]string{
	"what becomes of it":   "names the command that says it",
	"the set of workloads": "help: the name of a document",
	"there is no such":     "a file of the operator's",
	"a node that is":       "the plan of a rollout in words, which is no state",
	"is not attached to":   "the answer to an order",
}

// phraseWords is how many words that follow one another are a phrase.
const phraseWords = 4

// TestWhyIsSaidInOnePackage: no sentence about why something is as it is, is built in a command or in the page. None of
// their texts shares four words that follow one another with a text of package why, but for help and usage.
func TestWhyIsSaidInOnePackage(t *testing.T) {
	said := map[string]bool{}
	for path, text := range sources(t) {
		if strings.HasPrefix(path, saysWhy) && isProduct(path) {
			for _, s := range texts(t, path, text) {
				for _, p := range phrasesOf(s) {
					said[p] = true
				}
			}
		}
	}
	if len(said) < 500 {
		t.Fatalf("package why says only %d phrases", len(said))
	}
	used := map[string]bool{}
	for path, text := range shown(t) {
		for _, s := range texts(t, path, text) {
			for _, p := range phrasesOf(s) {
				if used[p] = true; said[p] && notWhy[p] == "" {
					t.Errorf("%s says %q, which is package why's to say: %q", path, p, s)
				}
			}
		}
	}
	for p := range notWhy {
		if !used[p] || !said[p] {
			t.Errorf("the exception %q is not needed", p)
		}
	}
}

// shown are the files of those who only show, by path.
func shown(t *testing.T) map[string]string {
	all := sources(t)
	maps.DeleteFunc(all, func(path, _ string) bool {
		return !isProduct(path) || strings.HasPrefix(path, wordsOfThePast) ||
			!slices.ContainsFunc(onlyShows, func(dir string) bool { return strings.HasPrefix(path, dir) })
	})
	return all
}

// texts are the string literals of a Go file but for those of help and usage.
func texts(t *testing.T, path, text string) (all []string) {
	tree, err := parser.ParseFile(token.NewFileSet(), path, text, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec, *ast.Field:
			return false
		case *ast.KeyValueExpr:
			k, ok := n.Key.(*ast.Ident)
			return !ok || !slices.Contains([]string{"Use", "Short", "Long", "Example"}, k.Name)
		case *ast.CallExpr:
			return !isHelp(n)
		case *ast.BasicLit:
			if s, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil {
				all = append(all, s)
			}
		}
		return true
	})
	return all
}

// isHelp reports whether a call describes a flag or a group of commands, or says that a command was typed wrongly.
func isHelp(c *ast.CallExpr) bool {
	name := ""
	switch f := c.Fun.(type) {
	case *ast.SelectorExpr:
		name = f.Sel.Name
	case *ast.Ident:
		name = f.Name
	}
	return strings.HasSuffix(name, "Var") || strings.HasSuffix(name, "VarP") ||
		slices.Contains([]string{"Bool", "String", "Usage", "Group", "Lacks"}, name)
}

var (
	verb = regexp.MustCompile(`%(\[\d+\])?[-+# 0]*[\d.]*[a-zA-Z]`)
	word = regexp.MustCompile(`[a-z]+(?:['-][a-z]+)*|[^a-z\s]+`)
)

// phrasesOf are phraseWords words after one another, for each place in a text. Values and marks end a phrase.
func phrasesOf(s string) (all []string) {
	var run []string
	for _, w := range word.FindAllString(verb.ReplaceAllString(strings.ToLower(s), "."), -1) {
		if w[0] < 'a' || w[0] > 'z' {
			run = nil
			continue
		}
		if run = append(run, w); len(run) >= phraseWords {
			all = append(all, strings.Join(run[len(run)-phraseWords:], " "))
		}
	}
	return all
}
