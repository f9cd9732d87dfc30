package testenv

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// for32 is a package as go list has it for a machine of 32 bits.
type for32 struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
}

// loaded are packages that were checked.
type loaded map[string]*types.Package

// Import finds what was checked before.
func (l loaded) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if p := l[path]; p != nil {
		return p, nil
	}
	return nil, errors.New("it is not listed: " + path)
}

// mapped finds packages under the names that the imports of one have.
type mapped struct {
	loaded
	names map[string]string
}

// Import finds what was checked before.
func (m mapped) Import(path string) (*types.Package, error) {
	if to := m.names[path]; to != "" {
		path = to
	}
	return m.loaded.Import(path)
}

// check32 checks the types of a package for a machine of 32 bits. Of others' packages it skips what is in functions.
func (l loaded) check32(p *for32) error {
	ours := strings.HasPrefix(p.ImportPath, "tandem.internal/")
	set, mode := token.NewFileSet(), parser.SkipObjectResolution
	files := make([]*ast.File, 0, len(p.GoFiles))
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, mode)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	var all []error
	conf := types.Config{Importer: mapped{l, p.ImportMap}, Sizes: types.SizesFor("gc", "arm"), IgnoreFuncBodies: !ours,
		Error: func(err error) { all = append(all, err) }}
	done, err := conf.Check(p.ImportPath, set, files, nil)
	l[p.ImportPath] = done
	if ours && err != nil {
		return errors.Join(all...)
	}
	return nil
}

// The programs' packages have types that fit a machine of 32 bits, without being compiled for it: a constant that
// overflows int there is found. Packages for arm are released.
func TestTypesFor32Bits(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap", "./controller/cmd/...",
		"./broker/cmd/...", "./nodeagent/cmd/...", "./nodeagent/key/cmd/...", "./nodeagent/bittorrent/cmd/...")
	cmd.Dir, cmd.Env = "..", append(os.Environ(), "GOOS=linux", "GOARCH=arm", "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	l, n := loaded{}, 0
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p for32
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if p.ImportPath == "unsafe" {
			continue
		}
		if err := l.check32(&p); err != nil {
			t.Errorf("%s: %v", p.ImportPath, err)
		}
		if strings.HasPrefix(p.ImportPath, "tandem.internal/") {
			n++
		}
	}
	if n < 100 {
		t.Errorf("%d packages were checked", n)
	}
	dir := t.TempDir()
	bad := "package bad\n\nconst size = 4 << 30\n\nfunc f() int { return size }\n"
	if err := os.WriteFile(filepath.Join(dir, "bad.go"), []byte(bad), 0o600); err != nil {
		t.Fatal(err)
	}
	err = l.check32(&for32{ImportPath: "tandem.internal/bad", Dir: dir, GoFiles: []string{"bad.go"}})
	if err == nil || !strings.Contains(err.Error(), "overflows") {
		t.Errorf("a constant that overflows int: %v", err)
	}
}
