package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// workspace runs go and git at the root of a workspace.
type workspace struct {
	dir    string
	prefix string // of its packages' import paths
	house  string // import path of the package that tests the documents and the rules of the code
}

// command runs in a process group of its own, which ends with ctx.
func (w workspace) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = w.dir
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	return c
}

// output runs a command for its output. The error has what it wrote to standard error.
func (w workspace) output(ctx context.Context, name string, args ...string) (string, error) {
	c := w.command(ctx, name, args...)
	var out, bad bytes.Buffer
	c.Stdout, c.Stderr = &out, &bad
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, args[0], err, strings.TrimSpace(bad.String()))
	}
	return out.String(), nil
}

// changes lists the files that differ from where base and HEAD parted: committed, not committed, and new.
func (w workspace) changes(ctx context.Context, base string) (since string, files []string, err error) {
	since, err = w.output(ctx, "git", "merge-base", base, "HEAD")
	if err != nil {
		return "", nil, fmt.Errorf("where %s and HEAD parted: %w", base, err)
	}
	since = strings.TrimSpace(since)
	for _, args := range [][]string{
		{"diff", "--name-only", "--no-renames", "-z", since},
		{"ls-files", "--others", "--exclude-standard", "-z"},
	} {
		out, err := w.output(ctx, "git", args...)
		if err != nil {
			return "", nil, err
		}
		for name := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
			if name != "" {
				files = append(files, name)
			}
		}
	}
	slices.Sort(files)
	return since[:12], slices.Compact(files), nil
}

// packages lists the workspace as the go command sees it, with the text of its tests.
func (w workspace) packages(ctx context.Context) ([]pkg, error) {
	const fields = "-json=ImportPath,Dir,Module,Imports,TestImports,XTestImports"
	out, err := w.output(ctx, "go", "list", "-e", fields, "work")
	if err != nil {
		return nil, err
	}
	root, err := filepath.Abs(w.dir)
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err != nil {
		return nil, err
	}
	var all []pkg
	for d := json.NewDecoder(strings.NewReader(out)); ; {
		var p struct {
			ImportPath, Dir                    string
			Module                             struct{ Dir string }
			Imports, TestImports, XTestImports []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		dir, err1 := filepath.Rel(root, p.Dir)
		mod, err2 := filepath.Rel(root, p.Module.Dir)
		tests, err3 := testText(p.Dir)
		if err := errors.Join(err1, err2, err3); err != nil {
			return nil, err
		}
		all = append(all, pkg{p.ImportPath, filepath.ToSlash(dir), filepath.ToSlash(mod),
			slices.Concat(p.Imports, p.TestImports, p.XTestImports), tests})
	}
}

// testText is the text of a directory's test files.
func testText(dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return "", err
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		all.Write(text)
	}
	return all.String(), nil
}

// short are import paths without the part that they share.
func (w workspace) short(paths []string) (names []string) {
	for _, p := range paths {
		names = append(names, strings.TrimPrefix(p, w.prefix))
	}
	return names
}

// formatted reports whether gofmt has nothing against those files that are there, and whether it was done.
func (w workspace) formatted(ctx context.Context, files []string, out io.Writer) (ok, done bool) {
	args := []string{"-l"}
	for _, f := range files {
		if _, err := os.Stat(filepath.Join(w.dir, f)); err == nil && filepath.Ext(f) == ".go" {
			args = append(args, f)
		}
	}
	if len(args) == 1 {
		return true, true
	}
	list, err := w.output(ctx, "gofmt", args...)
	switch {
	case ctx.Err() != nil:
		return true, false
	case err != nil: // it cannot be parsed
		fmt.Fprintln(out, err)
		return false, true
	case list != "":
		fmt.Fprintf(out, "not formatted:\n%s", list)
		return false, true
	}
	return true, true
}

// vet vets packages; rest are those whose result is not known in time.
func (w workspace) vet(ctx context.Context, packages []string, out io.Writer) (ok bool, rest []string) {
	text, err := w.command(ctx, "go", append([]string{"vet"}, packages...)...).CombinedOutput()
	if ctx.Err() != nil {
		return true, packages
	}
	if err != nil {
		fmt.Fprintf(out, "go vet: %v\n%s", err, text)
	}
	return err == nil, nil
}

// rules is the package of the rules, unless all of it is tested anyway.
func (w workspace) rules(p plan) []string {
	if w.house == "" || slices.Contains(p.Changed, w.house) {
		return nil
	}
	return []string{w.house}
}

// testRules tests the rules that every change has to keep, whatever it is about: shape and imports.
func (w workspace) testRules(ctx context.Context, packages []string, out io.Writer) (ok bool, rest []string) {
	const rules = "^Test(Shape|Words|Modules|Layers|Pure|Only|Nothing|Map)"
	return w.run(ctx, []string{"-count=1", "-run", rules}, packages, out)
}

// testChanged tests packages with what has changed. Go would show the results of before for a test that reads
// files of other modules, such as documents.
func (w workspace) testChanged(ctx context.Context, packages []string, out io.Writer) (ok bool, rest []string) {
	return w.run(ctx, []string{"-short", "-count=1"}, packages, out)
}

// test tests packages; rest are those whose result is not known in time.
func (w workspace) test(ctx context.Context, packages []string, out io.Writer) (ok bool, rest []string) {
	return w.run(ctx, []string{"-short"}, packages, out)
}

func (w workspace) run(ctx context.Context, args, packages []string, out io.Writer) (ok bool, rest []string) {
	if ctx.Err() != nil {
		return true, packages
	}
	c := w.command(ctx, "go", slices.Concat([]string{"test", "-json"}, args, packages)...)
	var bad bytes.Buffer
	c.Stderr = &bad
	lines, err := c.StdoutPipe()
	if err != nil {
		fmt.Fprintln(out, err)
		return false, packages
	}
	if err := c.Start(); err != nil {
		fmt.Fprintln(out, err)
		return false, packages
	}
	ended, ok, readErr := w.results(lines, out)
	err = c.Wait()
	for _, p := range packages {
		if !ended[p] {
			rest = append(rest, p)
		}
	}
	if ctx.Err() != nil {
		return ok, rest
	}
	if readErr != nil || err != nil && ok || len(rest) > 0 {
		fmt.Fprintf(out, "go test: %v\n%s", errors.Join(readErr, err), bad.String())
		ok = false
	}
	return ok && err == nil, rest
}

// results reads the events of go test, prints how each package ended, with what its failed tests wrote, and
// returns those that ended. ok: none failed.
func (w workspace) results(events io.Reader, out io.Writer) (ended map[string]bool, ok bool, err error) {
	type event struct {
		Action, Package, Test, Output string
		Elapsed                       float64
	}
	ended, ok = map[string]bool{}, true
	wrote := map[string][]event{}
	for d := json.NewDecoder(events); ; {
		var e event
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			return ended, ok, nil
		} else if err != nil {
			return ended, ok, err
		}
		name := strings.TrimPrefix(e.Package, w.prefix)
		good := e.Action == "pass" || e.Action == "skip"
		switch {
		case e.Action == "build-output":
			fmt.Fprint(out, e.Output)
		case e.Action == "output":
			wrote[e.Package] = append(wrote[e.Package], e)
		case e.Test != "" && good:
			wrote[e.Package] = slices.DeleteFunc(wrote[e.Package], func(o event) bool { return o.Test == e.Test })
		case e.Test != "":
		case good:
			ended[e.Package] = true
			fmt.Fprintf(out, "ok    %s %.1fs\n", name, e.Elapsed)
		case e.Action == "fail":
			ended[e.Package], ok = true, false
			fmt.Fprintf(out, "FAIL  %s %.1fs\n", name, e.Elapsed)
			for _, o := range wrote[e.Package] {
				fmt.Fprint(out, o.Output)
			}
		}
	}
}
