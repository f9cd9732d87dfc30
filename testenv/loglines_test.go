package testenv_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// aboutFields are the fields of a log that say what a line is about; its unit is on every logger: env looks at that.
var aboutFields = []string{"node", "kind", "rev"}

// ofLogger are the fields that the loggers of a folder have: those of the node's agent its node, those that a kind is
// given its kind.
var ofLogger = map[string]string{
	"nodeagent/app": "node", "nodeagent/internal": "node", "nodeagent/bittorrent": "node",
	"nodeagent/internal/kinds": "kind", "nodeagent/internal/workloads": "kind", "nodeagent/internal/layers": "kind",
	"nodeagent/internal/fetch": "kind", "nodeagent/internal/keep": "kind",
}

// otherNames are names that these might have otherwise.
var otherNames = map[string]string{"nodeName": "node", "nodeID": "node", "revision": "rev", "docKind": "kind",
	"unitName": "unit"}

// TestLogLines: every line that controller, broker and agent log is in testdata/log-lines.txt, with which of node, kind
// and rev it has, and why it has not all of them. So who writes a new one thinks of it. What has the names of clients
// or subjects, in which a node's may be, has node as well.
func TestLogLines(t *testing.T) {
	table := logTable(t)
	seen := map[string]bool{}
	for _, module := range []string{"controller", "broker", "nodeagent", "shared"} {
		err := filepath.WalkDir(filepath.Join("..", module), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			for _, l := range logLines(t, path) {
				key := module + " " + l.text
				seen[key] = true
				want, known := table[key]
				switch have := l.about(); {
				case !known:
					t.Errorf("%s is not in testdata/log-lines.txt: add\n%s\t%s\t%s\tWHY NOT ALL OF %v", l.at, module,
						have, l.text, aboutFields)
				case want != have:
					t.Errorf("%s has %s, and is to have %s: %s", l.at, have, want, l.text)
				}
				for _, name := range []string{"client", "subject"} {
					if l.fields[name] && !l.fields["node"] {
						t.Errorf("%s has %s, in which a node's name may be, and not node: %s", l.at, name, l.text)
					}
				}
				for name := range l.fields {
					if other := otherNames[name]; other != "" {
						t.Errorf("%s has %s, which is %s everywhere: %s", l.at, name, other, l.text)
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for key := range table {
		if !seen[key] {
			t.Errorf("testdata/log-lines.txt has what nobody logs: %s", key)
		}
	}
}

// logTable reads what each line is to have, by module and text.
func logTable(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile("testdata/log-lines.txt")
	if err != nil {
		t.Fatal(err)
	}
	table := map[string]string{}
	for n, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		if strings.HasPrefix(line, "#") || line == "" {
			continue
		}
		part := strings.Split(line, "\t")
		all := len(part) > 1 && part[1] == strings.Join(aboutFields, ",")
		if len(part) != 4 || part[3] == "" || all != (part[3] == "all") {
			t.Fatalf("testdata/log-lines.txt:%d: module, fields, text and why it has not all, with tabs between", n+1)
		}
		key := part[0] + " " + part[2]
		if old, twice := table[key]; twice && old != part[1] {
			t.Fatalf("testdata/log-lines.txt:%d: %s has %s above", n+1, key, old)
		}
		table[key] = part[1]
	}
	return table
}

// logLine is a place where something is logged.
type logLine struct {
	at, text string
	fields   map[string]bool
}

// about are the fields that say what a line is about.
func (l *logLine) about() string {
	has := slices.DeleteFunc(slices.Clone(aboutFields), func(name string) bool { return !l.fields[name] })
	if len(has) == 0 {
		return "-"
	}
	return strings.Join(has, ",")
}

// levels are the methods of a zap logger that write a line, and where its text is among their arguments.
var levels = map[string]int{"Debug": 0, "Info": 0, "Warn": 0, "Error": 0, "DPanic": 0, "Panic": 0, "Fatal": 0,
	"Log": 1, "Check": 1}

// logLines finds the lines that a file logs. Of fields that stand elsewhere (fields...) it has those of the function
// around.
func logLines(t *testing.T, path string) (lines []logLine) {
	t.Helper()
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(source, []byte("og.")) {
		return nil
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
	packages := map[string]bool{}
	for _, i := range file.Imports {
		name := strings.Trim(i.Path.Value, `"`)
		packages[name[strings.LastIndexByte(name, '/')+1:]] = true
		if i.Name != nil {
			packages[i.Name.Name] = true
		}
	}
	for _, d := range file.Decls {
		ast.Inspect(d, func(n ast.Node) bool {
			call, is := n.(*ast.CallExpr)
			if !is {
				return true
			}
			sel, is := call.Fun.(*ast.SelectorExpr)
			at, logs := 0, false
			if is {
				at, logs = levels[sel.Sel.Name]
			}
			if !logs || len(call.Args) <= at || !isLogger(sel.X, packages) {
				return true
			}
			l := logLine{at: set.Position(call.Pos()).String(), text: textOf(call.Args[at], name),
				fields: fieldsIn(call)}
			if call.Ellipsis.IsValid() || usesVariable(call) {
				l.fields = fieldsIn(d)
			}
			for folder, field := range ofLogger {
				if strings.HasPrefix(name, folder+"/") {
					l.fields[field] = true
				}
			}
			lines = append(lines, l)
			return true
		})
	}
	return lines
}

// isLogger tells by its name whether an expression is a logger: log, x.log, x.cfg.Log, log.With(…), kindLog(…).
func isLogger(x ast.Expr, packages map[string]bool) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return !packages[x.Name] && strings.HasSuffix(strings.ToLower(x.Name), "log")
	case *ast.SelectorExpr:
		return strings.HasSuffix(strings.ToLower(x.Sel.Name), "log")
	case *ast.CallExpr:
		sel, is := x.Fun.(*ast.SelectorExpr)
		return is && (isLogger(sel, packages) ||
			slices.Contains([]string{"With", "Named", "WithOptions"}, sel.Sel.Name))
	}
	return false
}

// textOf is the text of a line as the table has it: for what is not constant it has the file.
func textOf(x ast.Expr, file string) string {
	switch x := x.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(x.Value); err == nil {
			return text
		}
	case *ast.BinaryExpr:
		return textOf(x.X, file) + textOf(x.Y, file)
	case *ast.ParenExpr:
		return textOf(x.X, file)
	}
	return "<" + file + ">"
}

// usesVariable reports whether a field of a call is a variable, or the line is only written if it counts.
func usesVariable(call *ast.CallExpr) bool {
	for _, x := range call.Args[1:] {
		if _, is := x.(*ast.Ident); is {
			return true
		}
	}
	sel, is := call.Fun.(*ast.SelectorExpr)
	return is && sel.Sel.Name == "Check"
}

// fieldsBy are the fields of functions that return some.
var fieldsBy = map[string][]string{"about": {"node", "kind"}} // of requests, in the controller's API

// fieldsIn are the names of the fields that stand in a piece of source.
func fieldsIn(n ast.Node) map[string]bool {
	all := map[string]bool{}
	ast.Inspect(n, func(n ast.Node) bool {
		call, is := n.(*ast.CallExpr)
		if !is || len(call.Args) == 0 {
			return true
		}
		switch f := call.Fun.(type) {
		case *ast.Ident:
			for _, name := range fieldsBy[f.Name] {
				all[name] = true
			}
		case *ast.SelectorExpr:
			pkg, is := f.X.(*ast.Ident)
			if lit, text := call.Args[0].(*ast.BasicLit); is && pkg.Name == "zap" && text {
				all[strings.Trim(lit.Value, `"`)] = true
			}
			all["node"] = all["node"] || is && pkg.Name == "runlog" && f.Sel.Name == "Node"
		}
		return true
	})
	return all
}
