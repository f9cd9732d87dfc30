package container

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sys/unix"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/*.json anew")

// full is a Spec that has everything.
func full() Spec {
	return Spec{
		Layers: []string{"/trees/1/tree"}, Args: []string{"sensor", "--all", "@UID"},
		Env: []string{"A=\"b", "PATH=/bin"}, Dir: "/data", UID: 4711, GID: 4712, HostNetwork: true,
		Group: "/tandem/slot",
		Binds: []Bind{{Host: "/srv/a", Inside: "/data"}, {Host: "/srv/b c", Inside: "/etc/b"}},
	}
}

// TestConfig compares with files, which -rewrite writes. Read every line of them.
func TestConfig(t *testing.T) {
	least := Spec{Layers: []string{"/trees/1/tree"}, Args: []string{"/bin/sh"}, UID: 1, GID: 0}
	for name, c := range map[string]struct {
		spec     Spec
		rootless bool
	}{"full": {full(), false}, "least": {least, true}} {
		text, err := c.spec.config(c.rootless, []string{"MARK=1"})
		got := jsontext.Value(text)
		if err = errors.Join(err, c.spec.check(), got.Indent(jsontext.WithIndent(" "))); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("testdata", name+".json")
		if *rewrite {
			if err := os.WriteFile(file, append(got, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(file); err != nil || string(want) != string(got)+"\n" {
			t.Errorf("%s: %v: got\n%s", name, err, got)
		}
	}
}

// TestRefusedSpecs: each is the full one with one mistake.
func TestRefusedSpecs(t *testing.T) {
	bind := func(host, inside string) func(*Spec) {
		return func(s *Spec) { s.Binds = []Bind{{Host: host, Inside: inside}} }
	}
	begin := func(dir string) func(*Spec) { return func(s *Spec) { s.Dir = dir } }
	for name, c := range map[string]struct {
		change func(*Spec)
		why    string
	}{
		"user 0":                  {func(s *Spec) { s.UID = 0 }, "as user 0"},
		"user of 2^31":            {func(s *Spec) { s.UID = 1 << 31 }, "above 2147483647"},
		"user of 2^32-1":          {func(s *Spec) { s.UID = 1<<32 - 1 }, "above 2147483647"},
		"group of 2^31":           {func(s *Spec) { s.GID = 1 << 31 }, "above 2147483647"},
		"no layer":                {func(s *Spec) { s.Layers = nil }, "1 to 128 layers"},
		"too many layers":         {func(s *Spec) { s.Layers = make([]string, 129) }, "1 to 128 layers"},
		"no program":              {func(s *Spec) { s.Args = nil }, "has a program"},
		"program without a name":  {func(s *Spec) { s.Args = []string{""} }, "has a program"},
		"zero byte":               {func(s *Spec) { s.Args = []string{"a\x00"} }, "zero byte"},
		"zero byte in a variable": {func(s *Spec) { s.Env = []string{"a=\x00"} }, "zero byte"},
		"no variable":             {func(s *Spec) { s.Env = []string{"=x"} }, "NAME=value"},
		"many arguments":          {func(s *Spec) { s.Args = slices.Repeat([]string{"a"}, 4097) }, "more than 4096"},
		"long arguments":          {func(s *Spec) { s.Args = []string{strings.Repeat("a", 128<<10)} }, "are possible"},
		"the group of all":        {func(s *Spec) { s.Group = "/" }, "control group"},
		"a group above":           {func(s *Spec) { s.Group = "/a/../.." }, "control group"},
		"no whole group":          {func(s *Spec) { s.Group = "a" }, "control group"},
		"begins nowhere":          {begin("data"), "begin in"},
		"begins above":            {begin("/data/../.."), "begin in"},
		"begins in a descriptor":  {begin("/proc/self/fd/7"), "none below /proc"},
		"begins in /proc":         {begin("/proc"), "none below /proc"},
		"begins in one of /dev":   {begin("/dev/fd/7"), "or /dev"},
		"begins in /dev":          {begin("/dev"), "or /dev"},
		"not clean":               {begin("//proc/self/fd/7"), "begin in"},
		"relative bind":           {bind("a", "/a"), "plain paths"},
		"bind with a way up":      {bind("/a/../b", "/a"), "plain paths"},
		"bind to a way up":        {bind("/a", "/a/../b"), "plain paths"},
		"bind to the root":        {bind("/a", "/"), "plain paths"},
		"bind over /proc":         {bind("/a", "/proc/sys"), "none below /proc"},
		"bind over /dev":          {bind("/a", "/dev"), "none below /proc"},
		"bind of two lines":       {bind("/a\nb", "/a"), "plain paths"},
		"the same twice":          {func(s *Spec) { s.Binds[1].Inside = "/data" }, "in one another"},
		"one in the other":        {func(s *Spec) { s.Binds[1].Inside = "/data/b" }, "in one another"},
	} {
		s := full()
		c.change(&s)
		if err := s.check(); err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLayerTwice: images have some layers twice, and overlayfs takes each directory once.
func TestLayerTwice(t *testing.T) {
	a, b, bundle := t.TempDir(), t.TempDir(), t.TempDir()
	all, err := Spec{Layers: []string{a, a, b, a}}.lowers(bundle)
	if err != nil || len(all) != 4 || all[1].Dir != b || all[2].Dir != a || all[3].Dir != filepath.Join(bundle, "top") {
		t.Errorf("%v %v", all, err)
	}
}

// TestGroupOfEachRun: what is left of one run is ended by its group, and the next one of the slot is in another.
func TestGroupOfEachRun(t *testing.T) {
	dir := func(hierarchy, group string) string {
		if groups() == v2 {
			hierarchy = ""
		}
		return filepath.Join(groupRoot, hierarchy, group)
	}
	slot := []string{dir("pids", "/t/slot/start"), dir("memory", "/t/slot/start")}
	for _, id := range []string{"a1", "b2"} {
		if got := Group(slot, id); got != "/t/slot/container-"+id {
			t.Error(got)
		}
	}
	for _, none := range [][]string{nil, {slot[0], dir("memory", "/t/other/start")}} {
		if got := Group(none, "a1"); got != "" {
			t.Errorf("%q: %s", none, got)
		}
	}
}

// TestMarkOfTheKeeper: by which it finds what is a run's.
func TestMarkOfTheKeeper(t *testing.T) {
	source, err := os.ReadFile("../keep/keep.go")
	if err != nil || !strings.Contains(string(source), "\nconst Mark = \""+keeperEnv+"\"\n") {
		t.Errorf("%s is not the keeper's mark: %v", keeperEnv, err)
	}
}

// TestRefusedAsHooks: a container does not get what a hook that is confined does not get.
func TestRefusedAsHooks(t *testing.T) {
	source, err := os.ReadFile("../confine/filter_linux.go")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(source), "var refused = ")
	list, flags, _ := strings.Cut(list, "\n}\n")
	flags, _, _ = strings.Cut(flags, "\n\n// architectures")
	var hooks []string
	for _, m := range regexp.MustCompile(`unix\.SYS_(\w+)`).FindAllStringSubmatch(list, -1) {
		hooks = append(hooks, strings.ToLower(m[1]))
	}
	text, err := full().config(true, nil)
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Linux struct {
			Seccomp struct {
				Syscalls []struct {
					Names []string
					Args  []struct{ Value uint64 }
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &c, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	rules := c.Linux.Seccomp.Syscalls
	if refused := rules[0].Names; len(hooks) < 30 || !slices.Equal(hooks, refused) {
		t.Errorf("hooks %q\ncontainers %q", hooks, refused)
	}
	all, spaces := uint64(0), 0
	for _, r := range rules[2:] {
		if slices.Contains(r.Names, "clone") {
			spaces++
		}
		all |= r.Args[0].Value
	}
	if n := len(regexp.MustCompile(`unix\.CLONE_NEW\w+`).FindAllString(flags, -1)); n != spaces {
		t.Errorf("hooks %d, containers %d", n, spaces)
	}
	if all != unix.CLONE_NEWNS|unix.CLONE_NEWCGROUP|unix.CLONE_NEWUTS|unix.CLONE_NEWIPC|unix.CLONE_NEWUSER|
		unix.CLONE_NEWPID|unix.CLONE_NEWNET|unix.CLONE_NEWTIME {
		t.Errorf("%#x", all)
	}
}
