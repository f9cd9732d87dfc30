// Package testenv_test holds the tests of the house itself: who may import whom, and that the
// documents tell the truth.
package testenv_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "tandem.internal/"

type pkg struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
	GoFiles      []string
}

// packages lists the workspace as the go command sees it.
func packages(t *testing.T) map[string]pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports,GoFiles", "work").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	all := map[string]pkg{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all[p.ImportPath] = p
	}
	return all
}

func module(path string) string {
	m, _, _ := strings.Cut(strings.TrimPrefix(path, root), "/")
	return m
}

// mayImport says which modules of the workspace each module's programs may use.
var mayImport = map[string][]string{
	"shared":     {"shared"},
	"broker":     {"broker", "shared"},
	"nodeagent":  {"nodeagent", "shared"},
	"controller": {"controller", "shared", "broker"},
	"testenv":    {"testenv", "shared", "broker", "controller", "nodeagent"},
}

func TestModulesKeepToTheirNeighbours(t *testing.T) {
	for path, p := range packages(t) {
		m := module(path)
		for _, imp := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if !strings.HasPrefix(imp, root) {
				continue
			}
			if !slices.Contains(mayImport[m], module(imp)) {
				t.Errorf("%s imports %s: module %s may use only %v", path, imp, m, mayImport[m])
			}
			if m == "controller" && module(imp) == "broker" &&
				!slices.Contains([]string{root + "broker/server", root + "broker/metrics"}, imp) {
				t.Errorf("%s imports %s: the controller embeds broker/server, shows broker/metrics, no more", path, imp)
			}
		}
	}
}

// The layers inside a module: cmd, then cli, then app, then internal.
func TestLayersPointDownwards(t *testing.T) {
	layer := func(path string) int {
		rest := strings.TrimPrefix(strings.TrimPrefix(path, root), module(path)+"/")
		switch {
		case strings.HasPrefix(rest, "internal/"):
			return 0
		case rest == "app":
			return 1
		case rest == "cli": // what the mains of one program share
			return 2
		case strings.HasPrefix(rest, "cmd/"), strings.Contains(rest, "/cmd/"):
			return 3
		case strings.HasSuffix(rest, "test"): // for tests of other modules
			return 3
		}
		return 0
	}
	for path, p := range packages(t) {
		if m := module(path); m != "controller" && m != "nodeagent" {
			continue
		}
		for _, imp := range p.Imports {
			if module(imp) == module(path) && strings.HasPrefix(imp, root) && layer(imp) > layer(path) {
				t.Errorf("%s imports %s, which stands above it", path, imp)
			}
		}
	}
}

func TestOnlyLinkSpeaksMQTT(t *testing.T) {
	for path, p := range packages(t) {
		for _, imp := range p.Imports {
			if strings.HasPrefix(imp, "github.com/eclipse/paho.mqtt.golang") && path != root+"shared/link" {
				t.Errorf("%s imports the MQTT client; only shared/link may", path)
			}
		}
	}
}

// pure lists the packages that say so with the line "//tandem:pure" at the end of their package
// comment. They decide and never act: no clock, disk, network or goroutine of their own. Their paths
// are relative to the root of the workspace.
func pure(t *testing.T) []string {
	t.Helper()
	var marked []string
	for path, p := range packages(t) {
		dir := strings.TrimPrefix(path, root)
		for _, file := range p.GoFiles {
			src, err := os.ReadFile(filepath.Join("..", dir, file))
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(src, []byte("\n//tandem:pure\n")) {
				marked = append(marked, dir)
				break
			}
		}
	}
	if len(marked) < 23 {
		t.Errorf("only %d packages are marked as pure: %v", len(marked), marked)
	}
	return marked
}

func TestPurePackagesArePure(t *testing.T) {
	all := packages(t)
	forbidden := []string{"os", "os/exec", "os/signal", "net", "net/http", "sync", "context", "time.Now",
		"go.etcd.io/bbolt", "syscall"}
	pure := pure(t)
	for _, name := range pure {
		for _, imp := range all[root+name].Imports {
			if slices.Contains(forbidden, imp) {
				t.Errorf("%s imports %s and is to be pure", name, imp)
			}
			if strings.HasPrefix(imp, root) && !slices.Contains(pure, strings.TrimPrefix(imp, root)) {
				t.Errorf("%s imports %s, which is not pure", name, imp)
			}
		}
	}
}

// What imports cannot show: a goroutine, a timer or the clock.
func TestPurePackagesNeitherWaitNorLookAtTheClock(t *testing.T) {
	for _, name := range pure(t) {
		files, err := filepath.Glob(filepath.Join("..", name, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(tree, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					t.Errorf("%s starts a goroutine", file)
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" &&
						slices.Contains([]string{"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker",
							"Sleep", "Tick"}, n.Sel.Name) {
						t.Errorf("%s uses time.%s", file, n.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

func TestNothingImportsTestenv(t *testing.T) {
	for path, p := range packages(t) {
		for _, imp := range p.Imports {
			if module(imp) == "testenv" && strings.HasPrefix(imp, root) && module(path) != "testenv" {
				t.Errorf("%s imports %s", path, imp)
			}
		}
	}
}

// Packages that are named …test serve tests: no program is made of them.
func TestOnlyTestsImportWhatServesTests(t *testing.T) {
	for path, p := range packages(t) {
		if module(path) == "testenv" || strings.HasSuffix(path, "test") {
			continue
		}
		for _, imp := range p.Imports {
			if strings.HasPrefix(imp, root) && strings.HasSuffix(imp, "test") || imp == "testing" {
				t.Errorf("%s imports %s outside its tests", path, imp)
			}
		}
	}
}

// The full agent. It is in a module of its own, with what BitTorrent needs.
const fullAgent = root + "nodeagent/bittorrent/cmd/tandem-node-full"

// BitTorrent and the modules behind it are in the full agent only: no other program links it, and no other module of
// the workspace needs them.
func TestOnlyTheFullAgentHasBitTorrent(t *testing.T) {
	const library, own = "github.com/anacrolix/", root + "nodeagent/bittorrent"
	for path, p := range packages(t) {
		if path == own || strings.HasPrefix(path, own+"/") {
			continue
		}
		for _, imp := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if strings.HasPrefix(imp, library) || imp == own || strings.HasPrefix(imp, own+"/") {
				t.Errorf("%s imports %s", path, imp)
			}
		}
	}
	var files []string
	for _, pattern := range []string{"../*/go.mod", "../*/go.sum", "../*/*/go.mod", "../*/*/go.sum"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		its := strings.Contains(filepath.ToSlash(file), "nodeagent/bittorrent/")
		if bytes.Contains(text, []byte(library)) != its {
			t.Errorf("%s names %s: %v", file, library, !its)
		}
	}
	full := dependencies(t, []string{fullAgent}, "linux")
	if !slices.ContainsFunc(full, func(d dependency) bool {
		return d.Module != nil && strings.HasPrefix(d.Module.Path, library)
	}) {
		t.Error("this test does not see what the full agent links")
	}
}
