package cli

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) {
	if saysVersion(os.Args[0]) {
		return
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(goldens.finish))
}

// goldenFiles are the files testdata/NAME.txtar. A golden is in the one that its name begins with, else in
// program.txtar.
var goldenFiles = []string{
	"artefact", "backup", "ca", "config", "context", "desired", "enrol", "events", "health", "identity", "item",
	"journal", "key", "node",
	"nodes", "notify", "policy", "rollout", "token", "unit", "wait", "why", "workload",
}

func goldenFile(name string) string {
	first, _, _ := strings.Cut(name, "-")
	if !slices.Contains(goldenFiles, first) {
		first = "program"
	}
	return filepath.Join("testdata", first+".txtar")
}

// archives are the golden files, read when they are first needed. With -update they are written when all tests have
// ended.
type archives struct {
	mu    sync.Mutex
	files map[string]map[string]string // path, name, content
	seen  map[string]bool              // names that a test asked for
}

var goldens = archives{files: map[string]map[string]string{}, seen: map[string]bool{}}

// golden compares got with the golden of this name. It ends with a line end, and no line of it is a mark "-- NAME --".
func golden(t *testing.T, name, got string) {
	t.Helper()
	if !strings.HasSuffix(got, "\n") || len(parseArchive(got)) > 0 {
		t.Fatalf("%s cannot be kept in an archive:\n%s", name, got)
	}
	path := goldenFile(name)
	want, found, err := goldens.take(path, name, got)
	switch {
	case err != nil:
		t.Fatal(err)
	case *update:
	case !found:
		t.Errorf("%s has no %s; run with -update\n%s", path, name, got)
	case got != want:
		t.Errorf("%s in %s differs; run with -update if it is right\n--- got\n%s--- want\n%s", name, path, got, want)
	}
}

// golden runs the program and compares what it printed. A suffix is that of the golden of JSON; "": of text.
func (b *bench) golden(t *testing.T, name, suffix string, args []string) {
	t.Helper()
	if suffix != "" {
		args = append(args, "--json")
	}
	golden(t, name+suffix, b.transcript("", args...))
}

func (a *archives) take(path, name, got string) (want string, found bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.files[path] == nil {
		text, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", false, err
		}
		a.files[path] = parseArchive(string(text))
	}
	a.seen[name] = true
	want, found = a.files[path][name]
	if *update {
		a.files[path][name] = got
	}
	return want, found, nil
}

// finish ends the run of the tests. After a run of all of them there is no golden left that none has asked for.
func (a *archives) finish(exit int) {
	whole := flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == ""
	for path, file := range a.files {
		for name := range file {
			switch {
			case a.seen[name] || !whole || exit != 0:
			case *update:
				delete(file, name)
			default:
				fmt.Printf("no test asks for %s in %s; run with -update\n", name, path)
				exit = 1
			}
		}
		if *update {
			if err := os.WriteFile(path, []byte(formatArchive(file)), 0o644); err != nil {
				fmt.Println(err)
				exit = 1
			}
		}
	}
	os.Exit(exit)
}

// parseArchive reads the format of golang.org/x/tools/txtar: a line "-- NAME --" before each content.
func parseArchive(text string) map[string]string {
	found, name := map[string]string{}, ""
	for line := range strings.Lines(text) {
		mark, begins := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "-- ")
		if mark, ends := strings.CutSuffix(mark, " --"); begins && ends {
			name = mark
			found[name] = ""
		} else if name != "" {
			found[name] += line
		}
	}
	return found
}

func formatArchive(file map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(file)) {
		b.WriteString("-- " + name + " --\n" + file[name])
	}
	return b.String()
}
