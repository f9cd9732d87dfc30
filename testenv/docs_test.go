package testenv_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// documents are the Markdown files of the project, by path from here.
func documents(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{".git", "run", "bin", "testdata"}, d.Name()) {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		text, err := os.ReadFile(path)
		found[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, must := range []string{"../README.md", "../shared/docs/architecture.md", "../shared/docs/operating.md",
		"../shared/docs/wire.md"} {
		if found[must] == "" {
			t.Errorf("%s is missing", must)
		}
	}
	return found
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	noWord  = regexp.MustCompile(`[^\p{L}\p{N}\- ]`)
)

// anchors are the names under which a document's headings can be linked to.
func anchors(text string) (all []string) {
	for _, h := range heading.FindAllStringSubmatch(text, -1) {
		name := noWord.ReplaceAllString(strings.ToLower(h[1]), "")
		all = append(all, strings.ReplaceAll(name, " ", "-"))
	}
	return all
}

func TestLinksLeadSomewhere(t *testing.T) {
	for path, text := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := path
			if target != "" {
				file = filepath.Join(filepath.Dir(path), target)
			}
			info, err := os.Stat(file)
			if err != nil {
				t.Errorf("%s links to %s, which does not exist", path, m[1])
				continue
			}
			if anchor == "" || info.IsDir() {
				continue
			}
			body, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(anchors(string(body)), anchor) {
				t.Errorf("%s links to %s, which has no such heading", path, m[1])
			}
		}
	}
}

// commandLines finds commands of tandem: at the beginning of a line of a block, after a $ or bin/,
// and in `code`.
var commandLines = regexp.MustCompile("(?m)(?:^ *|`|\\$ |bin/)tandem ((?:[a-z][a-z-]*)(?: [a-z][a-z-]*)?)")

// inMessages finds commands of tandem in the messages of programs, where prose may say "tandem is the …".
var (
	inMessages = regexp.MustCompile(`(?:^|[^\w/.-])tandem ((?:[a-z][a-z-]*)(?: [a-z][a-z-]*)?)`)
	prose      = []string{"asks", "completion", "controller", "help", "is", "works"}
)

// messages are the string literals of the programs, by file.
func messages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, module := range []string{"controller", "nodeagent", "broker", "shared"} {
		err := filepath.WalkDir("../"+module, func(path string, d fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if text, bad := strconv.Unquote(lit.Value); bad == nil {
						found[path] += text + "\n"
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// Every command that a document or a message of a program names exists.
func TestCommandsInDocumentsExist(t *testing.T) {
	program := filepath.Join(t.TempDir(), "tandem")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", program, "./cmd/tandem")
	build.Dir = "../controller"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	known := map[string]bool{}
	exists := func(words string) bool {
		if found, ok := known[words]; ok {
			return found
		}
		out, err := exec.Command(program, append(strings.Fields(words), "--help")...).CombinedOutput()
		known[words] = err == nil && bytes.Contains(out, []byte("Usage:\n  tandem "+words))
		return known[words]
	}
	named := map[string][][]string{} // by file
	for path, text := range documents(t) {
		named[path] = commandLines.FindAllStringSubmatch(text, -1)
	}
	for path, text := range messages(t) {
		named[path] = slices.DeleteFunc(inMessages.FindAllStringSubmatch(text, -1), func(m []string) bool {
			return slices.Contains(prose, strings.Fields(m[1])[0])
		})
	}
	seen := 0
	for path, all := range named {
		for _, m := range all {
			words := m[1]
			first, _, _ := strings.Cut(words, " ")
			if strings.HasSuffix(words, "-") { // an argument, such as node-1
				words = first
			}
			id := strings.HasSuffix(words, "-") // of node-1
			if !exists(words) && !(exists(first) && takesArguments(t, program, first, id)) {
				t.Errorf("%s names the command \"tandem %s\", which does not exist", path, words)
			}
			seen++
		}
	}
	if seen < 150 {
		t.Errorf("only %d commands were found", seen)
	}
}

// takesArguments reports whether words that follow a command are not commands: it has no commands
// below it; or the word is an ID, and it also takes one.
func takesArguments(t *testing.T, program, command string, id bool) bool {
	t.Helper()
	out, err := exec.Command(program, command, "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	return !bytes.Contains(out, []byte("Available Commands:")) ||
		id && regexp.MustCompile(`Usage:\n  tandem `+command+` (NODE|ID) `).Match(out)
}

var flagInCode = regexp.MustCompile("`(--[a-z][a-z-]+)")

// Every flag that a document names belongs to one of the programs.
func TestFlagsInDocumentsExist(t *testing.T) {
	dir := t.TempDir()
	var help bytes.Buffer
	for _, module := range []string{"controller", "nodeagent", "nodeagent/key", "broker"} {
		build := exec.Command("go", "build", "-buildvcs=false", "-o", dir+"/", "./cmd/...")
		build.Dir = "../" + module
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for _, args := range [][]string{{"tandem-controller"}, {"tandem-controller", "journal"}, {"tandem-node"},
		{"tandem-key"}, {"tandem-broker"},
		{"tandem"},
		{"tandem", "config", "apply"},
		{"tandem", "config", "rollback"}, {"tandem", "config", "check"}, {"tandem", "config", "resolve"},
		{"tandem", "policy", "apply"},
		{"tandem", "events"}, {"tandem", "nodes"}, {"tandem", "node", "forget"}, {"tandem", "node", "reboot"},
		{"tandem", "journal", "verify"}, {"tandem", "diag"}} {
		out, err := exec.Command(filepath.Join(dir, args[0]), append(args[1:], "--help")...).Output()
		if err != nil {
			t.Fatal(err)
		}
		help.Write(out)
	}
	for _, path := range []string{"../README.md", "../shared/docs/operating.md", "../shared/docs/architecture.md"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range flagInCode.FindAllStringSubmatch(string(text), -1) {
			if !regexp.MustCompile(regexp.QuoteMeta(m[1]) + `\b`).Match(help.Bytes()) {
				t.Errorf("%s names the flag %s, which no program has", path, m[1])
			}
		}
	}
}

// contributing.md has a map with a line for each package, and for no other.
func TestMapOfPackages(t *testing.T) {
	text, err := os.ReadFile(docsDir + "/contributing.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## Map of the packages\n")
	if !ok {
		t.Fatal("contributing.md has no map of the packages")
	}
	all, pure := packages(t), pure(t)
	mapped := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (.+) \\|$").FindAllStringSubmatch(section, -1) {
		name, about := m[1], m[2]
		if mapped[name] {
			t.Errorf("%s stands in the map twice", name)
		}
		mapped[name] = true
		if _, ok := all[root+name]; !ok {
			t.Errorf("the map has %s, which is no package", name)
		}
		if says := strings.HasPrefix(about, "P: "); says != slices.Contains(pure, name) {
			t.Errorf("the map says that %s is pure: %v", name, says)
		}
	}
	for path := range all {
		if name := strings.TrimPrefix(path, root); !mapped[name] {
			t.Errorf("the map lacks %s", name)
		}
	}
}
