package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestPlan(t *testing.T) {
	all := []pkg{
		{Path: "x/wire", Dir: "shared/wire", Mod: "shared", Tests: `open("../docs/wire.md")`},
		{Path: "x/topic", Dir: "shared/topic", Mod: "shared", Uses: []string{"x/wire", "os"}},
		{Path: "x/link", Dir: "shared/link", Mod: "shared", Uses: []string{"x/topic"}},
		{Path: "x/fleet", Dir: "controller/fleet", Mod: "controller", Uses: []string{"x/wire"}},
		{Path: "x/fleet/deep", Dir: "controller/fleet/deep", Mod: "controller"},
		{Path: "x/house", Dir: "testenv", Mod: "testenv"},
	}
	list := func(names ...string) []string { return names }
	for _, c := range []struct {
		name  string
		files []string
		want  plan
	}{
		{"a source", list("shared/wire/a.go"), plan{list("x/wire"), list("x/topic"), list("x/fleet")}},
		{"a story below its package", list("controller/fleet/testdata/deep/a.txt"), plan{Changed: list("x/fleet")}},
		{"a package below a package", list("controller/fleet/deep/a.go"), plan{Changed: list("x/fleet/deep")}},
		{"a directory of a longer name", list("shared/wired/a.txt"), plan{}},
		{"a source of a package that is gone", list("shared/wire/old/a.go"), plan{}},
		{"a document that a test reads", list("shared/docs/wire.md"),
			plan{list("x/house", "x/wire"), list("x/topic"), list("x/fleet")}},
		{"another document", list("shared/docs/other.md"), plan{Changed: list("x/house")}},
		{"the modules that one needs", list("controller/go.mod"), plan{Changed: list("x/fleet", "x/fleet/deep")}},
		{"a user that changed itself", list("shared/wire/a.go", "shared/topic/b.go"),
			plan{list("x/topic", "x/wire"), list("x/link"), list("x/fleet")}},
	} {
		if got := planFor(c.files, all, "x/house"); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// unit is a workspace of two modules in a repository of its own: m/b imports m/a, n/c imports it too.
func unit(t *testing.T) workspace {
	t.Helper()
	dir := t.TempDir()
	w := workspace{dir: dir, prefix: "m.test/"}
	write := func(name, text string) { put(t, w, name, text) }
	write("go.work", "go 1.26.0\n\nuse (\n\t./m\n\t./n\n)\n")
	write("m/go.mod", "module m.test/m\n\ngo 1.26.0\n")
	write("n/go.mod", "module m.test/n\n\ngo 1.26.0\n\nrequire m.test/m v0.0.0\n\nreplace m.test/m => ../m\n")
	write("m/a/a.go", "package a\n\nfunc One() int { return 1 }\n")
	write("m/a/a_test.go", "package a\n\nimport \"testing\"\n\nfunc TestOne(t *testing.T) {\n\tif One() != 1 {\n"+
		"\t\tt.Error(\"one is not one\")\n\t}\n}\n\nfunc TestFine(t *testing.T) { t.Log(\"nobody asks\") }\n")
	write("m/b/b.go", "package b\n\nimport \"m.test/m/a\"\n\nfunc Two() int { return 2 * a.One() }\n")
	write("n/c/c.go", "package c\n\nimport \"m.test/m/a\"\n\nvar Three = 3 * a.One()\n")
	t.Setenv("GOFLAGS", "-mod=readonly")
	t.Setenv("GOWORK", filepath.Join(dir, "go.work"))
	for _, name := range []string{"GIT_AUTHOR", "GIT_COMMITTER"} {
		t.Setenv(name+"_NAME", "test")
		t.Setenv(name+"_EMAIL", "test@example.org")
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"commit", "-q", "-m", "first"}} {
		git(t, w, args...)
	}
	return w
}

func git(t *testing.T, w workspace, args ...string) {
	t.Helper()
	c := exec.Command("git", args...)
	c.Dir = w.dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func put(t *testing.T, w workspace, name, text string) {
	t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// ask runs quick, which has to report ok and to print each of want.
func ask(t *testing.T, ctx context.Context, w workspace, ok bool, want ...string) {
	t.Helper()
	var out bytes.Buffer
	got, err := quick(ctx, w, "main", &out)
	if strings.Contains(out.String(), "nobody asks") {
		t.Errorf("it prints what a test wrote that passed\n%s", out.String())
	}
	if err != nil || got != ok {
		t.Errorf("well: %v, %v\n%s", got, err, out.String())
	}
	for _, line := range want {
		if !strings.Contains(out.String(), line) {
			t.Errorf("%q is missing in\n%s", line, out.String())
		}
	}
}

func TestQuick(t *testing.T) {
	w, ctx := unit(t), t.Context()
	ask(t, ctx, w, true, "nothing has changed since")

	put(t, w, "m/a/a.go", "package a\n\nfunc One() int { return 3 - 2 }\n")
	ask(t, ctx, w, true, "1 files have changed", "in 1 packages; 1 more", "ok    m/a", "ok    m/b",
		"left out, in other modules: n/c", "left out, as always: ")

	put(t, w, "m/a/a.go", "package a\n\nfunc One() int { return 7 }\n")
	ask(t, ctx, w, false, "FAIL  m/a", "one is not one", "ok    m/b")

	put(t, w, "m/a/a.go", "package a\n\nfunc One() int { return x }\n")
	ask(t, ctx, w, false, "undefined: x", "FAIL  m/b")

	put(t, w, "m/a/a.go", "package a\n\nimport \"fmt\"\n\nfunc One() int {fmt.Printf(\"%d\"); return 1}\n")
	ask(t, ctx, w, false, "go vet: ", "not formatted:\nm/a/a.go")
}

// A test that reads files outside its module is run again when these have changed, and so are the rules.
func TestQuickSeesOtherFiles(t *testing.T) {
	w, ctx := unit(t), t.Context()
	put(t, w, "m/a/doc_test.go", reads("a", "TestDoc", "../../doc.md"))
	put(t, w, "doc.md", "right")
	ask(t, ctx, w, true, "ok    m/a")
	put(t, w, "doc.md", "wrong")
	ask(t, ctx, w, false, "FAIL  m/a", "it says")

	put(t, w, "doc.md", "right")
	// the file's name is in two parts, so that it does not make m/b a package that has changed
	put(t, w, "m/b/rules_test.go", reads("b", "TestShape", "../../n/c/c."+`" + "txt`))
	put(t, w, "n/c/c.txt", "right")
	git(t, w, "add", "-A")
	git(t, w, "commit", "-q", "-m", "second")
	w.house = "m.test/m/b"
	put(t, w, "n/c/c.go", "package c\n")
	ask(t, ctx, w, true, "ok    m/b", "ok    n/c")
	put(t, w, "n/c/c.txt", "wrong")
	ask(t, ctx, w, false, "FAIL  m/b", "it says")
}

// reads is a test of a package that reads a file.
func reads(name, test, file string) string {
	return "package " + name + `

import (
	"os"
	"testing"
)

func ` + test + `(t *testing.T) {
	if text, err := os.ReadFile("` + file + `"); err != nil || string(text) != "right" {
		t.Errorf("it says %q, %v", text, err)
	}
}
`
}

// What does not come to an end in time is left out, by name, and its processes end.
func TestQuickEndsInTime(t *testing.T) {
	w := unit(t)
	began, err := net.Listen("unix", filepath.Join(w.dir, "began"))
	if err != nil {
		t.Fatal(err)
	}
	defer began.Close()
	put(t, w, "m/a/a_test.go", `package a

import (
	"net"
	"testing"
)

func TestOne(t *testing.T) {
	c, err := net.Dial("unix", "../../began")
	if err != nil {
		t.Fatal(err)
	}
	c.Read(make([]byte, 1))
}
`)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		defer cancel() // the time is up as soon as the test of m/a runs
		c, err := began.Accept()
		if err != nil {
			ended <- err
			return
		}
		cancel()
		if _, err = c.Read(make([]byte, 1)); err == io.EOF {
			err = c.Close()
		}
		ended <- err
	}()
	ask(t, ctx, w, true, "left out, tests not done in time: m/a\n", "left out, tests not done in time: m/b\n")
	if err := <-ended; err != nil {
		t.Errorf("the test that was cut short: %v", err)
	}
}
