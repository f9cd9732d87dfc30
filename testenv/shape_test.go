package testenv_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// The shape of the code. Columns are counted with tabs of four.
const (
	maxColumns       = 120
	maxFileLines     = 400
	maxFunctionLines = 80
	maxSubject       = 72
	tabWidth         = 4
)

// The most entries that the lists may have. Lower these when the lists have become shorter.
const (
	mostColumns   = 0
	mostFiles     = 0
	mostFunctions = 0
	mostWords     = 3
)

// The round of work in which these rules began. Commits before it have subjects of any length.
const shapeBegan = "af0cbf5"

// Each rule has a list of exceptions in testdata/shape: sorted lines of a place and the number that it may
// have. The lists only shrink: an entry that nothing needs any more has to go, and whoever moves a file moves
// its entry. "go test ./testenv -run Shape -shrink" removes what is not needed, and lowers the rest.
var shrink = flag.Bool("shrink", false, "lower and remove the entries of testdata/shape that are no longer needed")

// sources are the Go files of the workspace, by path from its root with slashes.
func sources(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for module := range mayImport {
		err := filepath.WalkDir(filepath.Join("..", module), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
				return err
			}
			text, err := os.ReadFile(path)
			found[filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(found) < 100 {
		t.Fatalf("only %d Go files were found", len(found))
	}
	return found
}

// isProduct reports whether a file becomes part of a program: no test, and in no package that serves tests.
func isProduct(path string) bool {
	return !strings.HasSuffix(path, "_test.go") && !strings.HasPrefix(path, "testenv/") &&
		!strings.HasSuffix(filepath.ToSlash(filepath.Dir(path)), "test")
}

// longLines counts the lines that are wider than maxColumns.
func longLines(text string) (n int) {
	for line := range strings.Lines(text) {
		if utf8.RuneCountInString(strings.TrimRight(line, "\r\n"))+strings.Count(line, "\t")*(tabWidth-1) > maxColumns {
			n++
		}
	}
	return n
}

// longFunctions are the declared functions with more than maxFunctionLines lines, by name.
func longFunctions(path, text string) (map[string]int, error) {
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, path, text, 0)
	if err != nil {
		return nil, err
	}
	long := map[string]int{}
	for _, d := range tree.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		lines := files.Position(f.End()).Line - files.Position(f.Pos()).Line + 1
		if lines <= maxFunctionLines {
			continue
		}
		name := f.Name.Name
		if f.Recv != nil {
			name = receiver(f.Recv.List[0].Type) + "." + name
		}
		long[name] = lines
	}
	return long, nil
}

// receiver is the name of a method's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

// compareAllowed lists what is wrong between what is there and what a list allows, and the list as it has to
// be: no more than is there, and nothing that is not allowed today.
func compareAllowed(there, allowed map[string]int) (problems []string, shrunk map[string]int) {
	shrunk = map[string]int{}
	for _, place := range slices.Sorted(maps.Keys(there)) {
		have, may := there[place], allowed[place]
		switch {
		case may == 0:
			problems = append(problems, fmt.Sprintf("%s: %d, which no exception allows", place, have))
			continue
		case have > may:
			problems = append(problems, fmt.Sprintf("%s: %d, and its exception allows %d", place, have, may))
		}
		shrunk[place] = min(have, may)
	}
	for _, place := range slices.Sorted(maps.Keys(allowed)) {
		if there[place] == 0 {
			problems = append(problems, fmt.Sprintf("%s: an exception that nothing needs", place))
		}
	}
	return problems, shrunk
}

// parseAllowed reads a list of exceptions.
func parseAllowed(text string) (map[string]int, error) {
	allowed, before := map[string]int{}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		i := strings.LastIndexByte(line, ' ')
		if i < 0 {
			return nil, fmt.Errorf("%q is no place and number", line)
		}
		place := line[:i]
		n, err := strconv.Atoi(line[i+1:])
		if err != nil || n < 1 || strconv.Itoa(n) != line[i+1:] {
			return nil, fmt.Errorf("%q ends with no number", line)
		}
		if place <= before {
			return nil, fmt.Errorf("%q does not stand in order", line)
		}
		allowed[place], before = n, place
	}
	return allowed, nil
}

func formatAllowed(allowed map[string]int) string {
	var b strings.Builder
	for _, place := range slices.Sorted(maps.Keys(allowed)) {
		fmt.Fprintf(&b, "%s %d\n", place, allowed[place])
	}
	return b.String()
}

// checkShape compares what is there with the list of that name, which had so many entries at most when the
// rule began or was last lowered.
func checkShape(t *testing.T, list string, most int, there map[string]int) {
	t.Helper()
	file := filepath.Join("testdata", "shape", list)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	allowed, err := parseAllowed(string(text))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if len(allowed) > most {
		t.Errorf("%s has %d entries, at most %d are allowed", file, len(allowed), most)
	}
	problems, shrunk := compareAllowed(there, allowed)
	if *shrink {
		if err := os.WriteFile(file, []byte(formatAllowed(shrunk)), 0o644); err != nil {
			t.Fatal(err)
		}
		problems, _ = compareAllowed(there, shrunk)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", list, p)
	}
}

func TestShapeColumns(t *testing.T) {
	there := map[string]int{}
	for path, text := range sources(t) {
		if n := longLines(text); n > 0 {
			there[path] = n
		}
	}
	checkShape(t, "columns", mostColumns, there)
}

func TestShapeFiles(t *testing.T) {
	there := map[string]int{}
	for path, text := range sources(t) {
		if n := strings.Count(text, "\n"); isProduct(path) && n > maxFileLines {
			there[path] = n
		}
	}
	checkShape(t, "files", mostFiles, there)
}

func TestShapeFunctions(t *testing.T) {
	there := map[string]int{}
	for path, text := range sources(t) {
		if !isProduct(path) {
			continue
		}
		long, err := longFunctions(path, text)
		if err != nil {
			t.Fatal(err)
		}
		for name, lines := range long {
			there[path+" "+name] = lines
		}
	}
	checkShape(t, "functions", mostFunctions, there)
}

// longSubjects are the subjects of git log's lines "hash subject" that are longer than maxSubject.
func longSubjects(log string) (long []string) {
	for line := range strings.Lines(log) {
		line = strings.TrimSuffix(line, "\n")
		if _, subject, _ := strings.Cut(line, " "); utf8.RuneCountInString(subject) > maxSubject {
			long = append(long, line)
		}
	}
	return long
}

// The subjects of commits stay short. A copy without that history, such as an archive or a shallow clone, has
// nothing to check.
func TestShapeSubjects(t *testing.T) {
	if err := exec.Command("git", "cat-file", "-e", shapeBegan+"^{commit}").Run(); err != nil {
		t.Skipf("no history back to %s: %v", shapeBegan, err)
	}
	log, err := exec.Command("git", "log", "--no-merges", "--format=%h %s", shapeBegan+"..HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range longSubjects(string(log)) {
		t.Errorf("the subject of %s is longer than %d characters", line, maxSubject)
	}
}

// The rules find what they are there to find.
func TestShapeFinds(t *testing.T) {
	wide := "\t" + strings.Repeat("ü", maxColumns-tabWidth)
	if n := longLines(wide + "\n" + wide + "x\r\n" + wide + "xy"); n != 2 {
		t.Errorf("%d long lines, want 2", n)
	}
	body := strings.Repeat("\n", maxFunctionLines-1) + "}\n"
	src := "package p\ntype T[K any] struct{}\nfunc fits() {" + body + "func (t *T[K]) long() {\n" + body
	long, err := longFunctions("p.go", src)
	if err != nil || !maps.Equal(long, map[string]int{"T.long": maxFunctionLines + 1}) {
		t.Errorf("long functions: %v, %v", long, err)
	}
	subject := strings.Repeat("s", maxSubject)
	if got := longSubjects("1 " + subject + "\n2 " + subject + "s\n"); len(got) != 1 || got[0] != "2 "+subject+"s" {
		t.Errorf("long subjects: %q", got)
	}
	for _, c := range []struct {
		path    string
		product bool
	}{
		{"shared/wire/wire.go", true}, {"shared/wire/wire_test.go", false}, {"testenv/site/site.go", false},
		{"shared/link/linktest/link.go", false},
	} {
		if isProduct(c.path) != c.product {
			t.Errorf("%s is part of a program: %v", c.path, !c.product)
		}
	}
	for _, c := range []struct{ name, there, allowed, shrunk, want string }{
		{"as allowed", "a 3\nb 1\n", "a 3\nb 1\n", "a 3\nb 1\n", ""},
		{"a new one", "a 3\nb 1\n", "a 3\n", "a 3\n", "b: 1, which no exception allows"},
		{"it grew", "a 4\n", "a 3\n", "a 3\n", "a: 4, and its exception allows 3"},
		{"it shrank", "a 2\n", "a 3\n", "a 2\n", ""},
		{"it is gone", "", "a 3\n", "", "a: an exception that nothing needs"},
	} {
		there, err1 := parseAllowed(c.there)
		allowed, err2 := parseAllowed(c.allowed)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		problems, shrunk := compareAllowed(there, allowed)
		if got := strings.Join(problems, "\n"); got != c.want || formatAllowed(shrunk) != c.shrunk {
			t.Errorf("%s: %q and the list %q, want %q and %q", c.name, got, formatAllowed(shrunk), c.want, c.shrunk)
		}
	}
	for _, text := range []string{"a\n", "a x\n", "a 0\n", "a 01\n", "b 1\na 1\n", "a 1\na 1\n"} {
		if allowed, err := parseAllowed(text); err == nil {
			t.Errorf("%q was read as %v", text, allowed)
		}
	}
}
