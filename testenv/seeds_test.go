package testenv_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// docsDir holds seed-*.md, each of which lists the statements of one seed as table rows:
//
//	| 000-1 | the seed says | Tandem does | `shared TestParseSeed`, [ADR 009](adr/009-format-strictness.md) |
//
// A test is named by its module, so that the documents stay true when it moves within the module.
// Where several packages of the module have a test of this name, the package's last element is
// added: `nodeagent/.../health TestScripts`.
//
// The tests here make sure that every statement has a test or a decision behind it, and that what
// is named exists.
const docsDir = "../shared/docs"

var (
	rowStart = regexp.MustCompile(`^\|\s*(\d{3})-(\d+)\s*\|`)
	evidence = regexp.MustCompile("`([^`]*)`" + `|\[([^\]]*)\]\(([^)]*)\)`)
	testName = regexp.MustCompile(`^([a-z]+(?:/\.\.\./[a-z0-9]+)?) ((?:Test|Fuzz)\w+)(?:/(.+))?$`)
	adrName  = regexp.MustCompile(`^ADR (\d{3})$`)
	adrFile  = regexp.MustCompile(`^adr/(\d{3})-[a-z0-9-]+\.md$`)
	number   = regexp.MustCompile(`\d{3}-\d+`)
)

// tests finds test functions in the modules of the workspace, which stand in root.
type tests struct {
	root string
	seen map[string][]*testPackage // by module
}

type testPackage struct {
	dir   string
	funcs map[string]bool
	text  string
}

// look reads the test files of a module, once.
func (ts *tests) look(module string) ([]*testPackage, error) {
	if ps := ts.seen[module]; ps != nil {
		return ps, nil
	}
	byDir := map[string]*testPackage{}
	err := filepath.WalkDir(filepath.Join(ts.root, module), func(file string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		src, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, src, 0)
		if err != nil {
			return err
		}
		dir := filepath.Dir(file)
		p := byDir[dir]
		if p == nil {
			p = &testPackage{dir: dir, funcs: map[string]bool{}}
			byDir[dir] = p
		}
		p.text += string(src)
		for _, d := range tree.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && len(f.Type.Params.List) == 1 {
				p.funcs[f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil || len(byDir) == 0 {
		return nil, fmt.Errorf("%s has no test files (%v)", module, err)
	}
	ts.seen[module] = slices.Collect(maps.Values(byDir))
	return ts.seen[module], nil
}

// check says what is wrong with a test's name, or "". where is a module, or module/.../package.
func (ts *tests) check(where, name, sub string) string {
	module, last, _ := strings.Cut(where, "/.../")
	ps, err := ts.look(module)
	if err != nil {
		return err.Error()
	}
	var in []*testPackage
	for _, p := range ps {
		if p.funcs[name] && (last == "" || filepath.Base(p.dir) == last) {
			in = append(in, p)
		}
	}
	switch {
	case len(in) == 0:
		return fmt.Sprintf("%s has no test %s", where, name)
	case len(in) > 1:
		return fmt.Sprintf("%s has %d tests %s: name one as module/.../package", where, len(in), name)
	case !strings.Contains(in[0].text, sub) && !isStory(filepath.Join(in[0].dir, "testdata"), sub):
		return fmt.Sprintf("%s %s: no test file there mentions %q", where, name, sub)
	}
	return ""
}

// isStory reports whether dir has the story sub that a test of scripts plays, or an archive with a golden of that name.
func isStory(dir, sub string) bool {
	if info, err := os.Stat(filepath.Join(dir, sub+".txt")); err == nil && info.Mode().IsRegular() {
		return true
	}
	archives, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil {
		return false
	}
	return slices.ContainsFunc(archives, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.Contains("\n"+string(text), "\n-- "+sub+" --\n")
	})
}

// checkSeed lists what is wrong with the document of one seed. exists tells whether a file is there,
// named relative to the document.
func checkSeed(seed, text string, ts *tests, exists func(string) bool) (problems []string) {
	bad := func(format string, a ...any) { problems = append(problems, fmt.Sprintf(format, a...)) }
	count, open, listed, summary := 0, []string{}, []string{}, false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			summary = strings.TrimSpace(strings.TrimLeft(line, "#")) == "Open"
		}
		if summary {
			listed = append(listed, number.FindAllString(line, -1)...)
		}
		m := rowStart.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		id := m[1] + "-" + m[2]
		count++
		if m[1] != seed || m[2] != strconv.Itoa(count) {
			bad("%s stands where %s-%d should", id, seed, count)
			count, _ = strconv.Atoi(m[2])
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 {
			bad("%s has %d cells, want number, statement, what Tandem does, and what shows it", id, len(cells))
			continue
		}
		for i, name := range []string{"", "statement", "description of what Tandem does"} {
			if i > 0 && strings.TrimSpace(cells[i]) == "" {
				bad("%s has no %s", id, name)
			}
		}
		if strings.Contains(cells[2], "**Open**") {
			open = append(open, id)
		}
		found := 0
		for _, e := range evidence.FindAllStringSubmatch(cells[3], -1) {
			found++
			if e[1] != "" {
				t := testName.FindStringSubmatch(e[1])
				if t == nil {
					bad("%s: %q names no test: module, space, TestName or TestName/sub", id, e[1])
				} else if why := ts.check(t[1], t[2], t[3]); why != "" {
					bad("%s: %s", id, why)
				}
				continue
			}
			n, f := adrName.FindStringSubmatch(e[2]), adrFile.FindStringSubmatch(e[3])
			switch {
			case n == nil || f == nil || n[1] != f[1]:
				bad("%s: [%s](%s) names no decision", id, e[2], e[3])
			case !exists(e[3]):
				bad("%s: %s does not exist", id, e[3])
			}
		}
		if found == 0 {
			bad("%s has neither a test nor a decision", id)
		}
		if rest := strings.Trim(evidence.ReplaceAllString(cells[3], ""), " ,;"); rest != "" {
			bad("%s: %q is neither a test nor a decision", id, rest)
		}
	}
	if count == 0 {
		bad("no statement found")
	}
	slices.Sort(listed)
	slices.Sort(open)
	if listed = slices.Compact(listed); !slices.Equal(open, listed) {
		bad("marked as open: %v; listed under Open: %v", open, listed)
	}
	return problems
}

func TestSeedsAreCovered(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(docsDir, "seed-*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no seed documents in %s: %v", docsDir, err)
	}
	ts := &tests{"..", map[string][]*testPackage{}}
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(docsDir, name))
		return err == nil
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		seed := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "seed-"), ".md")
		for _, p := range checkSeed(seed, string(text), ts, exists) {
			t.Errorf("%s: %s", filepath.Base(file), p)
		}
	}
}

// The check finds what it is there to find.
func TestSeedCheckFinds(t *testing.T) {
	const good = "| 007-1 | says | does | `testenv TestSeedCheckFinds/a hole` |\n" +
		"| 007-2 | says | does | `testenv TestSeedCheckFinds`, [ADR 001](adr/001-a.md) |\n"
	ts := &tests{"..", map[string][]*testPackage{}}
	exists := func(name string) bool { return name == "adr/001-a.md" }
	absent := "absent" + strconv.Itoa(1) // does not stand in this file
	for _, c := range []struct{ name, text, want string }{
		{"nothing wrong", good, ""},
		{"nothing at all", "# Seed\n", "no statement found"},
		{"a hole", good + "| 007-4 | s | d | [ADR 001](adr/001-a.md) |\n", "007-4 stands where 007-3 should"},
		{"another seed", good + "| 008-3 | s | d | [ADR 001](adr/001-a.md) |\n", "008-3 stands where 007-3 should"},
		{"no evidence", good + "| 007-3 | s | d | |\n", "neither a test nor a decision"},
		{"evidence in words", good + "| 007-3 | s | d | trust us |\n", "007-3 has neither a test nor a " +
			"decision\n007-3: \"trust us\""},
		{"no words", good + "| 007-3 |  | d | [ADR 001](adr/001-a.md) |\n", "007-3 has no statement"},
		{"a cell too many", good + "| 007-3 | s | d | e | [ADR 001](adr/001-a.md) |\n", "has 5 cells"},
		{"no such module", good + "| 007-3 | s | d | `nothing TestX` |\n", "nothing has no test files"},
		{"a package that moves", good + "| 007-3 | s | d | `testenv/env TestX` |\n", "names no test"},
		{"no such package", good + "| 007-3 | s | d | `testenv/.../nothing TestAttacks` |\n",
			"has no test TestAttacks"},
		{"several", good + "| 007-3 | s | d | `nodeagent TestScripts` |\n", "name one as module/.../package"},
		{"one of several", good + "| 007-3 | s | d | `nodeagent/.../health TestScripts` |\n", ""},
		{"no such test", good + "| 007-3 | s | d | `testenv TestNowhere` |\n", "testenv has no test TestNowhere"},
		{"a function that is no test", good + "| 007-3 | s | d | `testenv packages` |\n", "names no test"},
		{"no such sub-test", good + "| 007-3 | s | d | `testenv TestSeedCheckFinds/" + absent + "` |\n", "mentions"},
		{"no such decision", good + "| 007-3 | s | d | [ADR 002](adr/002-b.md) |\n", "does not exist"},
		{"a decision misnamed", good + "| 007-3 | s | d | [ADR 002](adr/001-a.md) |\n", "names no decision"},
		{"open, not listed", good + "| 007-3 | s | **Open**: d | [ADR 001](adr/001-a.md) |\n## Open\n",
			"marked as open: [007-3]"},
		{"open and listed", good + "| 007-3 | s | **Open**: d | [ADR 001](adr/001-a.md) |\n## Open\n- 007-3\n", ""},
		{"listed, not open", good + "## Open\n- 007-2\n", "listed under Open: [007-2]"},
	} {
		got := strings.Join(checkSeed("007", c.text, ts, exists), "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Every decision stands in the index of decisions, under its own title, and nothing else does.
func TestDecisionsAreIndexed(t *testing.T) {
	dir := filepath.Join(docsDir, "adr")
	index, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "[0-9]*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no decisions: %v", err)
	}
	linked := map[string]string{}
	for _, m := range regexp.MustCompile(`\[([^\]]*)\]\((\d[^)]*)\)`).FindAllStringSubmatch(string(index), -1) {
		if _, twice := linked[m[2]]; twice {
			t.Errorf("%s stands in the index twice", m[2])
		}
		linked[m[2]] = m[1]
	}
	before := ""
	for _, file := range files {
		name := filepath.Base(file)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(text), "\n")
		// numbers may be missing: of a decision that was not taken after all
		number, _, _ := strings.Cut(name, "-")
		if len(number) != 3 || number == before || !strings.HasPrefix(first, "# "+number+" ") {
			t.Errorf("%s (%q) stands behind number %q", name, first, before)
		}
		before = number
		title, ok := linked[name]
		if !ok {
			t.Errorf("%s is missing from the index", name)
		} else if "# "+title != first {
			t.Errorf("the index calls %s %q, its heading is %q", name, title, first)
		}
		delete(linked, name)
	}
	for name := range linked {
		t.Errorf("the index names %s, which does not exist", name)
	}
}

// A story is a file or a section of an archive.
func TestStoriesAreFound(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"one.txt": "# x\n", "many.txtar": "-- first --\na\n-- second --\n  " +
		"-- third --\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]bool{"one": true, "first": true, "second": true, "third": false, "many": false,
		"a": false} {
		if got := isStory(dir, name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
