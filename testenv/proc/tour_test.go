package proc

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// step is one block of commands of the tour, and what the README says that they print.
type step struct {
	commands []string
	expected []string
}

// tour takes the tour out of the README.
func tour(t *testing.T) (steps []step) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(Root(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## A five-minute tour\n")
	if !ok {
		t.Fatal("the README has no tour")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	fence := ""
	for line := range strings.Lines(section) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "```") && fence == "":
			if fence = line; fence == "```sh" {
				steps = append(steps, step{})
			} else if fence != "```text" || len(steps) == 0 {
				t.Fatalf("the tour has a block %q, which no test reads", fence)
			}
		case line == "```":
			fence = ""
		case fence == "```sh":
			s := &steps[len(steps)-1]
			s.commands = append(s.commands, line)
		case fence == "```text":
			s := &steps[len(steps)-1]
			s.expected = append(s.expected, line)
		}
	}
	return steps
}

// recipes are the blocks of commands of the README's "How do I".
func recipes(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(Root(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## How do I …\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for i, part := range strings.Split(section, "```") {
		if i%2 == 1 {
			all = append(all, part)
		}
	}
	if !ok || len(all) < 2 {
		t.Fatalf("the README has %d recipes", len(all))
	}
	return all
}

// paste runs a recipe as one that is pasted as a whole: each line has to succeed.
func (d *Demo) paste(recipe string, env []string) {
	d.t.Helper()
	if strings.Contains(recipe, " 8000 ") && !free(d.t, 8000) {
		d.t.Logf("something listens on port 8000, which this needs:%s", recipe)
		return
	}
	recipe = strings.Replace(recipe, " -f ", " ", 1) // which nobody ends here
	const first = "set -e; trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n"
	if o := d.Shell(first+recipe, env...); o.Status != 0 {
		d.t.Errorf("pasted, this ends with status %d:%s\n%s%s", o.Status, recipe, o.Out, o.Errors)
	}
}

var exitStatus = regexp.MustCompile(`# exit status (\d)$`)

// compare looks for the expected lines, in order; … stands for anything.
func compare(expected []string, got string) (missing string) {
	rest := strings.Split(got, "\n")
next:
	for _, want := range expected {
		parts := strings.Split(want, "…")
		for i, p := range parts {
			parts[i] = regexp.QuoteMeta(p)
		}
		pattern := regexp.MustCompile(`^` + strings.Join(parts, `.*`) + `$`)
		for i, line := range rest {
			if pattern.MatchString(line) {
				rest = rest[i+1:]
				continue next
			}
		}
		return want
	}
	return ""
}

// Every command of the tour in the README, in order, as a newcomer types them in a fresh tree. Its recipes come before
// the unit is started for the second time.
func TestTour(t *testing.T) {
	t.Parallel()
	dir := Tree(t)
	env := []string{"TANDEM_UP_PORT=" + strconv.Itoa(Port(t)), "NO_COLOR=1"}
	var d *Demo
	for _, s := range tour(t) {
		var got strings.Builder
		for _, c := range s.commands {
			switch {
			case strings.HasSuffix(c, "make up"):
				if d != nil { // the recipes are for the unit of before
					for _, recipe := range recipes(t) {
						d.paste(recipe, env)
					}
					d.stop()
				}
				settings := strings.Fields(strings.TrimSuffix(c, "make up"))
				d = StartDemo(t, dir, filepath.Join(dir, "run"), append(settings, env...), "make", "up")
				got.WriteString(d.Log())
				continue
			case strings.HasPrefix(c, "export "):
				env = append(env, strings.TrimPrefix(c, "export "))
				continue
			}
			want := 0
			if m := exitStatus.FindStringSubmatch(c); m != nil {
				want = int(m[1][0] - '0')
			}
			// What has been started or stopped may need a moment before it is as the README shows it.
			o := d.Shell(c, env...)
			if o.Status != want {
				t.Fatalf("%s: status %d, want %d\n%s%s", c, o.Status, want, o.Out, o.Errors)
			}
			if strings.HasPrefix(c, "kill ") {
				Until(t, "node-3 is away", func() string {
					if o := d.Shell("bin/tandem nodes", env...); !strings.Contains(o.Out, "2 online") {
						return o.Out
					}
					return ""
				})
			}
			if strings.HasPrefix(c, "deploy/demo/node ") {
				Until(t, "node-3 has caught up", func() string {
					if o := d.Shell("bin/tandem nodes", env...); !strings.Contains(o.Out, "3 in step") {
						return o.Out
					}
					return ""
				})
			}
			got.WriteString(o.Out + o.Errors)
		}
		if missing := compare(s.expected, got.String()); missing != "" {
			t.Errorf("after %q the README shows\n  %s\nbut this was printed:\n%s", s.commands, missing, got.String())
		}
	}
	d.stop()
}

// stop ends a unit as Ctrl-C does.
func (d *Demo) stop() {
	d.t.Helper()
	d.Interrupt()
	d.Wait(Patience)
	if !strings.Contains(d.Log(), "stopped; the state is kept in run") {
		d.t.Errorf("Ctrl-C:\n%s", d.Log())
	}
	d.CheckStopped()
}
