package packages

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tandem.internal/testenv/proc"
)

var ship = flag.Bool("ship", false, "build packages, and try them; root on Debian, minutes")

var programs = []string{"tandem", "tandem-controller", "tandem-node", "tandem-broker", "tandem-key"}

// run runs a program in the root of the sources and returns what it prints.
func run(t *testing.T, env []string, argv ...string) string {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = proc.Root(t), append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", argv, err, out)
	}
	return strings.TrimSpace(string(out))
}

// tool skips the test, or fails it in CI, if a program is missing.
func tool(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("SKIPPED: %s is not installed, so this was NOT tested", name)
	}
}

func version(t *testing.T, semantic string) string {
	t.Helper()
	return run(t, nil, "deploy/packages/version", semantic)
}

// rising are versions in the order in which they come.
var rising = []string{"1.0.0-dev", "1.0.0-dev.9+ffffffff1", "1.0.0-dev.10+000000000", "1.0.0-dev.10+000000000.dirty",
	"1.0.0-rc.1", "1.0.0-rc.1-a", "1.0.0-rc.2", "1.0.0-rc.10", "1.0.0", "1.0.1-dev.1+abc", "1.0.1", "1.10.0"}

func TestVersions(t *testing.T) {
	for from, want := range map[string]string{
		"1.2.3": "1.2.3", "1.2.3-dev": "1.2.3~dev", "1.2.3-rc-1.2+a-b": "1.2.3~rc.1.2+a.b", "1.2.3+a-b": "1.2.3+a.b",
	} {
		if got := version(t, from); got != want {
			t.Errorf("the version of %s is %s, want %s", from, got, want)
		}
	}
	for _, bad := range []string{"", "1.2", "v1.2.3", "1.2.3-", "1.2.3 4", "1.2.3-a;b"} {
		o := proc.Run(t, proc.Root(t), nil, "deploy/packages/version", bad)
		if o.Status != 2 || !strings.Contains(o.Errors, "no semantic version") {
			t.Errorf("%q: status %d, %s%s", bad, o.Status, o.Out, o.Errors)
		}
	}
}

func TestDpkgSortsVersions(t *testing.T) {
	tool(t, "dpkg")
	for i := range rising[1:] {
		run(t, nil, "dpkg", "--compare-versions", version(t, rising[i]), "lt", version(t, rising[i+1]))
	}
}

// A unit that no package has is forgotten; in two packages it cannot be.
func TestEachFileIsInOnePackage(t *testing.T) {
	in := map[string][]string{}
	for _, name := range programs {
		text, err := os.ReadFile(filepath.Join(proc.Root(t), "deploy/packages", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if _, rest, ok := strings.Cut(line, "src: deploy/systemd/"); ok {
				file, _, _ := strings.Cut(rest, ",")
				in[file] = append(in[file], name)
			}
		}
	}
	files, err := os.ReadDir(filepath.Join(proc.Root(t), "deploy/systemd"))
	if err != nil || len(files) < 10 {
		t.Fatal(err, len(files))
	}
	for _, f := range files {
		if n := len(in[f.Name()]); n != 1 {
			t.Errorf("deploy/systemd/%s is in %d packages: %q", f.Name(), n, in[f.Name()])
		}
	}
}

// Each unit that can be enabled is, or waits for somebody to do so; whatever is enabled is stopped with its package.
func TestScriptsKnowTheirUnits(t *testing.T) {
	dir := t.TempDir()
	for _, name := range programs {
		run(t, nil, "deploy/packages/scripts/make", name, dir)
		text, err := os.ReadFile(filepath.Join(proc.Root(t), "deploy/packages", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		enabled := words(t, dir, name+".postinst", "enable")
		optional := words(t, dir, name+".postinst", "optional")
		var installable []string
		for line := range strings.Lines(string(text)) {
			_, unit, ok := strings.Cut(line, "dst: /usr/lib/systemd/system/")
			if !ok || strings.Contains(line, ".service.d") {
				continue
			}
			unit, _, _ = strings.Cut(unit, ",")
			source, err := os.ReadFile(filepath.Join(proc.Root(t), "deploy/systemd", unit))
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(source), "\n[Install]\n") {
				installable = append(installable, unit)
			}
		}
		both := slices.Sorted(slices.Values(append(slices.Clone(enabled), optional...)))
		slices.Sort(installable)
		if !slices.Equal(both, installable) {
			t.Errorf("%s enables %q, or somebody else %q; there are %q", name, enabled, optional, installable)
		}
		for _, script := range []string{name + ".prerm", name + ".preun"} {
			stopped := words(t, dir, script, "stop")
			for _, unit := range both {
				if !slices.Contains(stopped, unit) {
					t.Errorf("%s does not stop %s", script, unit)
				}
			}
		}
	}
	scripts, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(scripts) != 8*len(programs) {
		t.Fatalf("%d scripts, %v", len(scripts), err)
	}
	for _, script := range scripts {
		run(t, nil, "sh", "-n", script)
	}
}

// What a script uses it sets itself, and never has from its environment: a purge removes $state.
func TestScriptsSetWhatTheyUse(t *testing.T) {
	dir := t.TempDir()
	for _, name := range programs {
		run(t, nil, "deploy/packages/scripts/make", name, dir)
	}
	scripts, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"name", "enable", "optional", "stop", "restart", "users", "tmpfiles", "launcher",
			"ready", "state", "owner"} {
			uses := strings.Contains(string(text), "$"+word+`"`) || strings.Contains(string(text), "$"+word+" ") ||
				strings.Contains(string(text), "$"+word+";")
			sets := strings.Contains(string(text), "\n"+word+"='")
			if uses != sets {
				t.Errorf("%s uses $%s: %v, and sets it: %v", filepath.Base(script), word, uses, sets)
			}
		}
	}
}

// words are those of a variable that a script sets.
func words(t *testing.T, dir, script, name string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, script))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "\n"+name+"='")
	if !ok {
		t.Fatalf("%s does not set %s", script, name)
	}
	value, _, _ := strings.Cut(rest, "'")
	return strings.Fields(value)
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// settings are the files of a package that are whoever's who has edited them.
func settings(name string) (all []string) {
	for _, f := range installed[name] {
		if strings.HasPrefix(f, "/etc/") {
			all = append(all, f)
		}
	}
	return all
}
