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

// operators is the operator's program. It runs where operators work, also where no controller does.
const operators = root + "controller/cmd/tandem"

type file struct {
	ImportPath, Dir string
	Standard        bool
	GoFiles         []string
}

// linksOf returns the packages in programs.
func linksOf(t *testing.T, programs ...string) (all []file) {
	t.Helper()
	args := append([]string{"list", "-deps", "-json=ImportPath,Dir,Standard,GoFiles"}, programs...)
	list := exec.Command("go", args...)
	list.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p file
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// tandem asks a controller: it has nothing that keeps a state or answers a node, and listens nowhere. What works on the
// journal's file is in tandem-controller.
func TestTandemLinksNoServer(t *testing.T) {
	allowed := []string{ // of the controller's packages; a new one is to be pure, or to ask
		"accept", "apitoken", "cli", "client", "desired", "filter", "kind", "kinds", "oci", "op", "passphrase",
		"phrase", "rebalance", "record", "rollout", "roster", "term", "view", "why", "words",
	}
	servers := []string{root + "broker/", root + "shared/link", root + "shared/boltfile", root + "shared/door",
		"go.etcd.io/bbolt", "github.com/mochi-mqtt/", "github.com/eclipse/paho"}
	seen := false
	for _, p := range linksOf(t, operators) {
		if p.Standard {
			continue
		}
		if rest, ok := strings.CutPrefix(p.ImportPath, root+"controller/internal/"); ok {
			name, _, _ := strings.Cut(rest, "/")
			if !slices.Contains(allowed, name) {
				t.Errorf("tandem links controller/internal/%s, which is not one of %v", rest, allowed)
			}
			seen = seen || name == "cli"
		}
		for _, s := range servers {
			if strings.HasPrefix(p.ImportPath+"/", strings.TrimSuffix(s, "/")+"/") {
				t.Errorf("tandem links %s", p.ImportPath)
			}
		}
		for _, name := range p.GoFiles {
			for _, at := range listens(t, filepath.Join(p.Dir, name)) {
				t.Errorf("tandem links %s, which has %s", p.ImportPath, at)
			}
		}
	}
	if !seen {
		t.Error("this test does not see what tandem links")
	}
}

// Only controller and broker show metrics: their library is a tenth of the controller.
func TestWhoLinksPrometheus(t *testing.T) {
	links := func(programs ...string) (found []string) {
		for _, p := range linksOf(t, programs...) {
			if strings.HasPrefix(p.ImportPath, "github.com/prometheus/") {
				found = append(found, p.ImportPath)
			}
		}
		return found
	}
	none := links(operators, root+"nodeagent/cmd/tandem-node", fullAgent, root+"nodeagent/key/cmd/tandem-key")
	if len(none) > 0 {
		t.Errorf("%v", none)
	}
	if len(links(root+"controller/cmd/tandem-controller")) == 0 || len(links(root+"broker/cmd/tandem-broker")) == 0 {
		t.Error("this test does not see what programs link")
	}
}

// listens finds where a file waits for others to call: functions and types of net, net/http and crypto/tls.
func listens(t *testing.T, file string) (found []string) {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := s.X.(*ast.Ident); ok && slices.Contains([]string{"net", "http", "tls"}, x.Name) &&
			(strings.HasPrefix(s.Sel.Name, "Listen") || slices.Contains([]string{"Server", "Serve", "ServeTLS",
				"NewListener"}, s.Sel.Name)) {
			found = append(found, x.Name+"."+s.Sel.Name)
		}
		return true
	})
	return found
}

func TestListens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.go")
	src := "package a\nfunc a() { net.Listen(); http.ListenAndServe(); _ = http.Server{}; http.StatusText(1) }\n"
	if err := os.WriteFile(file, []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := listens(t, file); len(got) != 3 {
		t.Errorf("%q", got)
	}
	if got := listens(t, "../controller/internal/api/serve.go"); len(got) == 0 {
		t.Error("the API listens, and that is not seen")
	}
}

// tandem is whole on Windows, which differs most from what make vet looks at: everything in it compiles. make
// ship-check links it for all its systems.
func TestTandemIsForWindows(t *testing.T) {
	vet := exec.Command("go", "vet", operators)
	vet.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=windows")
	if out, err := vet.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
