package program

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/nodeagent/internal/update"
)

// examples is where the worked examples are.
const examples = "../../../../deploy/components"

func example(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(examples, name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// archive makes a tar archive of version v.
func archive(t *testing.T, v string) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range []string{"version", "more"} {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(v))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(v)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), v+".tar")
	write(t, path, b.String(), 0o644)
	return path
}

// step is one verb of a story.
type step struct {
	verb    update.Verb
	version string
	want    update.Status
	err     error
}

func directoryStory() []step {
	one, two := update.Status{Active: "1", Running: "1"}, update.Status{Active: "2", Running: "2"}
	return []step{
		{update.Show, "", update.Status{}, nil},
		{update.Rollback, "", update.Status{}, nil},
		{update.Activate, "1", update.Status{}, update.ErrFailed},
		{update.Install, "1", update.Status{Staged: "1"}, nil},
		{update.Activate, "1", update.Status{Trying: "1", Running: "1"}, nil},
		{update.Verify, "1", update.Status{Trying: "1", Running: "1"}, nil},
		{update.Commit, "1", one, nil},
		{update.Install, "2", update.Status{Active: "1", Staged: "2", Running: "1"}, nil},
		{update.Commit, "2", update.Status{}, update.ErrFailed},
		{update.Verify, "2", update.Status{}, update.ErrFailed},
		{update.Activate, "2", update.Status{Active: "1", Trying: "2", Running: "2"}, nil},
		{update.Install, "3", update.Status{}, update.ErrFailed},
		{update.Rollback, "2", one, nil},
		{update.Commit, "2", update.Status{}, update.ErrFailed},
		{update.Install, "2", update.Status{Active: "1", Staged: "2", Running: "1"}, nil},
		{update.Activate, "2", update.Status{Active: "1", Trying: "2", Running: "2"}, nil},
		{update.Commit, "2", two, nil},
		{update.Install, "3", update.Status{Active: "2", Staged: "3", Running: "2"}, nil},
		{update.Rollback, "3", two, nil},
		{update.Show, "", two, nil},
	}
}

// The example of a directory really updates one. Every verb is done twice; and it is killed before
// every single command that it runs, after which what is in force is whole, and the verb done again
// comes to its end.
func TestDirectory(t *testing.T) {
	files := map[string]string{}
	for _, v := range []string{"1", "2", "3"} {
		files[v] = archive(t, v)
	}
	// Commands that kill the script instead of doing anything, when it is their turn.
	tools := t.TempDir()
	for _, name := range []string{"sync", "mv", "rm", "ln", "mkdir", "tar"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skipf("this machine has no %s", name)
		}
		write(t, filepath.Join(tools, name),
			fmt.Sprintf("#!/bin/sh\nn=0\n[ ! -f \"$TURNS\" ] || read -r n <\"$TURNS\"\nn=$((n+1))\n"+
				"echo $n >\"$TURNS\"\nif [ $n -eq \"$KILL_AT\" ]; then kill -9 $PPID; exit 1; fi\n"+
				"[ %s = sync ] || exec %s \"$@\"\n", name, path),
			0o755)
	}
	if _, err := exec.LookPath("flock"); err != nil {
		t.Skip("this machine has no flock")
	}
	t.Setenv("PATH", tools+":"+os.Getenv("PATH"))
	turns := filepath.Join(t.TempDir(), "turns")
	t.Setenv("TURNS", turns)
	before := t.TempDir()
	write(t, filepath.Join(before, "hooks", "restart"), "#!/bin/sh\nexit 0\n", 0o755)
	deaths, seen := 0, map[string]bool{}
	for i, s := range directoryStory() {
		job := update.Job{Version: s.version, File: files[s.version]}
		run := func(root string, verb update.Verb, killAt int) (update.Status, error) {
			t.Helper()
			t.Setenv("KILL_AT", fmt.Sprint(killAt))
			if err := os.RemoveAll(turns); err != nil {
				t.Fatal(err)
			}
			return Component{Name: "app", Command: []string{example(t, "directory"), root}, Dir: root}.Run(t.Context(),
				verb, job)
		}
		check := func(where string, root string, st update.Status, err error) {
			t.Helper()
			if !errors.Is(err, s.err) || err != nil && s.err == nil || err == nil && st != s.want {
				t.Fatalf("%d, %s %s, %s: %+v %v; want %+v %v", i, s.verb, s.version, where, st, err, s.want, s.err)
			}
			data, err := os.ReadFile(filepath.Join(root, "current", "more"))
			if err != nil {
				data = nil
			}
			if s.err == nil && string(data) != s.want.Running {
				t.Fatalf("%d, %s %s, %s: current is %q", i, s.verb, s.version, where, data)
			}
		}
		what := string(s.verb) + s.version
		for at := 1; s.err == nil && !seen[what]; at++ {
			root := copyTree(t, before)
			st, err := run(root, s.verb, at)
			if err == nil {
				check("undisturbed", root, st, err)
				break
			}
			deaths++
			now, err := run(root, update.Show, 0)
			if err != nil {
				t.Fatalf("%d, %s, killed at %d: %v", i, s.verb, at, err)
			}
			if data, err := os.ReadFile(filepath.Join(root, "current", "more")); string(data) != now.Running ||
				now.Running == "" && err == nil {
				t.Fatalf("%d, %s, killed at %d: current holds %q, status %+v", i, s.verb, at, data, now)
			}
			st, err = run(root, s.verb, 0)
			check(fmt.Sprintf("again after it was killed at %d", at), root, st, err)
		}
		seen[what] = seen[what] || s.err == nil
		st, err := run(before, s.verb, 0)
		check("once", before, st, err)
		st, err = run(before, s.verb, 0)
		check("twice", before, st, err)
	}
	if deaths < 30 {
		t.Errorf("killed only %d times", deaths)
	}
	// A new version that is not well, and one that is not yet.
	for status, want := range map[int]error{1: update.ErrFailed, 75: update.ErrLater, 0: nil} {
		write(t, filepath.Join(before, "hooks", "check"), fmt.Sprintf("#!/bin/sh\nexit %d\n", status), 0o755)
		c := Component{Name: "app", Command: []string{example(t, "directory"), before}, Dir: before}
		t.Setenv("KILL_AT", "0")
		if _, err := c.Run(t.Context(), update.Verify, update.Job{Version: "2"}); !errors.Is(err, want) {
			t.Errorf("check %d: %v", status, err)
		}
	}
}

// copyTree copies a directory, links too.
func copyTree(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestRAUC(t *testing.T) {
	fake, dir := t.TempDir(), t.TempDir()
	write(t, filepath.Join(fake, "bin", "rauc"), fakeRauc, 0o755)
	t.Setenv("PATH", filepath.Join(fake, "bin")+":"+os.Getenv("PATH"))
	t.Setenv("FAKE", fake)
	t.Setenv("BOOT_ID_FILE", filepath.Join(fake, "boot_id"))
	put := func(name, text string) { write(t, filepath.Join(fake, name), text+"\n", 0o644) }
	get := func(name string) string {
		data, err := os.ReadFile(filepath.Join(fake, name))
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(data))
	}
	boots := 0
	boot := func(into string) {
		boots++
		put("boot_id", fmt.Sprint("boot-", boots))
		put("booted", into)
	}
	put("primary", "A")
	boot("A")
	c := Component{Name: "os", Command: []string{example(t, "rauc-component")}, Dir: dir}
	bundle := filepath.Join(fake, "bundle")
	write(t, bundle, "bundle", 0o644)
	must := func(verb update.Verb, version string, want update.Status) {
		t.Helper()
		for range 2 { // every verb may be repeated
			st, err := c.Run(t.Context(), verb, update.Job{Version: version, File: bundle, Previous: "1"})
			if err != nil || st != want {
				t.Fatalf("%s %s: %+v %v; want %+v\n%s", verb, version, st, err, want, get("log"))
			}
		}
	}
	fails := func(verb update.Verb, version string, want error) {
		t.Helper()
		if st, err := c.Run(t.Context(), verb, update.Job{Version: version, File: bundle}); !errors.Is(err, want) {
			t.Fatalf("%s %s: %+v %v; want %v", verb, version, st, err, want)
		}
	}
	must(update.Show, "", update.Status{Active: "1", Running: "1"})
	fails(update.Activate, "2", update.ErrFailed)
	put("broken", "")
	fails(update.Show, "", update.ErrLater)
	if err := os.Remove(filepath.Join(fake, "broken")); err != nil {
		t.Fatal(err)
	}

	must(update.Install, "2", update.Status{Active: "1", Staged: "2", Running: "1", Reboot: true})
	if get("primary") != "A" || get("slot-B") != "bundle" {
		t.Errorf("an installation alone boots %s", get("primary"))
	}
	must(update.Activate, "2", update.Status{Active: "1", Trying: "2", Running: "1", Reboot: true})
	fails(update.Verify, "2", update.ErrLater)
	fails(update.Commit, "2", update.ErrFailed)
	boot(get("primary"))
	must(update.Verify, "2", update.Status{Active: "1", Trying: "2", Running: "2"})
	must(update.Commit, "2", update.Status{Active: "2", Running: "2"})
	if get("mark-B") != "good" {
		t.Errorf("marked %q", get("mark-B"))
	}

	// The boot loader goes back by itself.
	must(update.Install, "3", update.Status{Active: "2", Staged: "3", Running: "2", Reboot: true})
	must(update.Activate, "3", update.Status{Active: "2", Trying: "3", Running: "2", Reboot: true})
	boot("B")
	fails(update.Verify, "3", update.ErrFailed)
	must(update.Rollback, "3", update.Status{Active: "2", Running: "2"})
	if get("primary") != "B" || get("mark-A") != "bad" {
		t.Errorf("primary %s, marked %q", get("primary"), get("mark-A"))
	}

	// The node gives the new one up while it runs.
	must(update.Install, "4", update.Status{Active: "2", Staged: "4", Running: "2", Reboot: true})
	must(update.Activate, "4", update.Status{Active: "2", Trying: "4", Running: "2", Reboot: true})
	boot("A")
	must(update.Rollback, "4", update.Status{Active: "2", Reboot: true})
	fails(update.Install, "5", update.ErrLater)
	if get("primary") != "B" {
		t.Errorf("primary %s", get("primary"))
	}
	boot("B")
	must(update.Show, "", update.Status{Active: "2", Running: "2"})
	must(update.Install, "5", update.Status{Active: "2", Staged: "5", Running: "2", Reboot: true})
	must(update.Rollback, "5", update.Status{Active: "2", Running: "2"})
}
