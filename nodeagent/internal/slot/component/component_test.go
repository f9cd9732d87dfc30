package component

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

func write(t *testing.T, path, text string, perm os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), perm); err != nil {
		t.Fatal(err)
	}
}

func shell(t *testing.T, text string) Component {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "c"), "#!/bin/sh\n"+text+"\n", 0o755)
	return Component{Name: "app", Command: []string{"/bin/sh", filepath.Join(dir, "c")}, Dir: dir}
}

func TestContract(t *testing.T) {
	t.Setenv("TANDEM_PASSWORD", "secret")
	t.Setenv("TANDEM_VERSION", "ours")
	for _, c := range []struct {
		name, program string
		verb          Verb
		want          error
		text          string // part of the error, or of the status' message
	}{
		{"done", `echo working; echo '{"active":"2"}'; echo`, Commit, nil, ""},
		{"environment", `echo "{\"active\":\"$TANDEM_VERSION\",\"message\":\"$1 $TANDEM_VERB $TANDEM_COMPONENT $TANDEM_FILE $TANDEM_HASH $TANDEM_PREVIOUS_VERSION $TANDEM_TIMEOUT ${TANDEM_PASSWORD:-none}\"}"`, Commit, nil, "commit commit app /f sha256:x 1 60 none"},
		{"own directory", `[ -f "$TANDEM_COMPONENT_DIR/c" ] && echo '{"active":"2"}'`, Commit, nil, ""},
		{"fails", `echo nothing here >&2; exit 3`, Commit, ErrFailed, "exit status 3: nothing here"},
		{"later", `echo no power >&2; exit 75`, Install, ErrLater, "no power"},
		{"silent", `exit 0`, Commit, ErrFailed, "prints no status"},
		{"no JSON", `echo done`, Commit, ErrFailed, "no status"},
		{"unknown member", `echo '{"active":"2","x":1}'`, Commit, ErrFailed, "no status"},
		{"contradiction", `echo '{"active":"1","trying":"2"}'`, Commit, ErrFailed, "says otherwise"},
		{"contradiction of commit", `echo '{"active":"2","trying":"2"}'`, Commit, ErrFailed, "says otherwise"},
		{"contradiction of install", `echo '{"active":"1"}'`, Install, ErrFailed, "says otherwise"},
		{"contradiction of activate", `echo '{"active":"1","staged":"2"}'`, Activate, ErrFailed, "says otherwise"},
		{"contradiction of rollback", `echo '{"active":"1","staged":"2"}'`, Rollback, ErrFailed, "says otherwise"},
		{"much output", `i=0; while [ $i -lt 3000 ]; do echo "line $i of many"; echo "error $i" >&2; i=$((i+1)); done; exit 1`, Commit, ErrFailed, "error 2999"},
		{"what it leaves running", `sleep 100 >/dev/null 2>&1 & echo $! >"$TANDEM_COMPONENT_DIR/left"; echo '{"active":"2"}'`, Commit, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			comp := shell(t, c.program)
			st, err := comp.Run(t.Context(), c.verb, Job{Version: "2", File: "/f", Hash: "sha256:x", Previous: "1"})
			if !errors.Is(err, c.want) || c.want == nil && (err != nil || st.Active != "2" || st.Message != c.text) || c.want != nil && !strings.Contains(err.Error(), c.text) {
				t.Errorf("%+v %v", st, err)
			}
			if err != nil && len(err.Error()) > 2*maxTail {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			if left, err := os.ReadFile(filepath.Join(comp.Dir, "left")); err == nil {
				var pid int
				if _, err := fmt.Sscan(string(left), &pid); err != nil {
					t.Fatal(err)
				}
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Errorf("what was left running is gone: %v", err)
				}
			}
		})
	}
	if _, err := (Component{Name: "none"}).Run(t.Context(), State, Job{}); !errors.Is(err, ErrFailed) {
		t.Errorf("%v", err)
	}
	if _, err := (Component{Name: "x", Command: []string{"/nonexistent/x"}}).Run(t.Context(), State, Job{}); !errors.Is(err, ErrFailed) {
		t.Errorf("%v", err)
	}
}

// A verb that hangs is killed with all that it has started, whether its time is up or the agent stops.
func TestKilled(t *testing.T) {
	for _, stops := range []bool{false, true} {
		c := shell(t, `sleep 1000 & echo $! >"$TANDEM_COMPONENT_DIR/child.new"; mv "$TANDEM_COMPONENT_DIR/child.new" "$TANDEM_COMPONENT_DIR/child"; wait`)
		ctx, cancel := context.WithCancel(t.Context())
		child := filepath.Join(c.Dir, "child")
		there := func() bool { _, err := os.Stat(child); return err == nil }
		want := ErrTimeout
		if stops {
			want = context.Canceled
			go func() {
				for !there() {
					time.Sleep(time.Millisecond)
				}
				cancel()
			}()
		} else {
			c.Limits = map[Verb]time.Duration{Verify: 2 * time.Second}
		}
		if _, err := c.Run(ctx, Verify, Job{Version: "2"}); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
		cancel()
		if !there() {
			continue // killed before it could start anything
		}
		data, err := os.ReadFile(child)
		if err != nil {
			t.Fatal(err)
		}
		var pid int
		if _, err := fmt.Sscan(string(data), &pid); err != nil {
			t.Fatal(err)
		}
		for alive(pid) {
			time.Sleep(time.Millisecond)
		}
	}
}

// alive says whether a process runs; a dead one that nobody has waited for does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(stat, []byte(") "))
	return !bytes.HasPrefix(rest, []byte("Z"))
}

func FuzzStatus(f *testing.F) {
	f.Add([]byte("working\n{\"active\":\"1\",\"staged\":\"2\",\"reboot\":true}\n\n"))
	f.Add([]byte("{"))
	f.Fuzz(func(t *testing.T, out []byte) {
		st, err := parse(out)
		if err != nil {
			return
		}
		for verb := range Limits {
			if contradicts(st, verb, st.Active) != nil && verb != Commit && verb != Rollback {
				t.Errorf("%s of what is active: %+v", verb, st)
			}
		}
	})
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
	verb    Verb
	version string
	want    Status
	err     error
}

func directoryStory() []step {
	one, two := Status{Active: "1", Running: "1"}, Status{Active: "2", Running: "2"}
	return []step{
		{State, "", Status{}, nil},
		{Rollback, "", Status{}, nil},
		{Activate, "1", Status{}, ErrFailed},
		{Install, "1", Status{Staged: "1"}, nil},
		{Activate, "1", Status{Trying: "1", Running: "1"}, nil},
		{Verify, "1", Status{Trying: "1", Running: "1"}, nil},
		{Commit, "1", one, nil},
		{Install, "2", Status{Active: "1", Staged: "2", Running: "1"}, nil},
		{Commit, "2", Status{}, ErrFailed},
		{Verify, "2", Status{}, ErrFailed},
		{Activate, "2", Status{Active: "1", Trying: "2", Running: "2"}, nil},
		{Install, "3", Status{}, ErrFailed},
		{Rollback, "2", one, nil},
		{Commit, "2", Status{}, ErrFailed},
		{Install, "2", Status{Active: "1", Staged: "2", Running: "1"}, nil},
		{Activate, "2", Status{Active: "1", Trying: "2", Running: "2"}, nil},
		{Commit, "2", two, nil},
		{Install, "3", Status{Active: "2", Staged: "3", Running: "2"}, nil},
		{Rollback, "3", two, nil},
		{State, "", two, nil},
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
		write(t, filepath.Join(tools, name), fmt.Sprintf("#!/bin/sh\nn=0\n[ ! -f \"$TURNS\" ] || read -r n <\"$TURNS\"\nn=$((n+1))\necho $n >\"$TURNS\"\nif [ $n -eq \"$KILL_AT\" ]; then kill -9 $PPID; exit 1; fi\n[ %s = sync ] || exec %s \"$@\"\n", name, path), 0o755)
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
		job := Job{Version: s.version, File: files[s.version]}
		run := func(root string, verb Verb, killAt int) (Status, error) {
			t.Helper()
			t.Setenv("KILL_AT", fmt.Sprint(killAt))
			if err := os.RemoveAll(turns); err != nil {
				t.Fatal(err)
			}
			return Component{Name: "app", Command: []string{example(t, "directory"), root}, Dir: root}.Run(t.Context(), verb, job)
		}
		check := func(where string, root string, st Status, err error) {
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
			now, err := run(root, State, 0)
			if err != nil {
				t.Fatalf("%d, %s, killed at %d: %v", i, s.verb, at, err)
			}
			if data, err := os.ReadFile(filepath.Join(root, "current", "more")); string(data) != now.Running || now.Running == "" && err == nil {
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
	for status, want := range map[int]error{1: ErrFailed, 75: ErrLater, 0: nil} {
		write(t, filepath.Join(before, "hooks", "check"), fmt.Sprintf("#!/bin/sh\nexit %d\n", status), 0o755)
		c := Component{Name: "app", Command: []string{example(t, "directory"), before}, Dir: before}
		t.Setenv("KILL_AT", "0")
		if _, err := c.Run(t.Context(), Verify, Job{Version: "2"}); !errors.Is(err, want) {
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

// fakeRauc is a rauc with its boot loader: the files booted and primary hold a or b.
const fakeRauc = `#!/bin/sh
cd "$FAKE" || exit 1
other() { [ "$(cat booted)" = A ] && echo B || echo A; }
echo "$*" >>log
if [ "$#" -gt 1 ] && [ -f broken ]; then echo "no service" >&2; exit 1; fi
case "$*" in
"status --output-format=shell")
	echo "RAUC_SYSTEM_COMPATIBLE='x'"
	echo "RAUC_SYSTEM_BOOTED_BOOTNAME='$(cat booted)'" ;;
install*) cp "$2" "slot-$(other)" && other >primary ;; # as without activate-installed=false
"status mark-active booted") cp booted primary ;;
"status mark-active other") other >primary ;;
"status mark-good booted") echo good >"mark-$(cat booted)" ;;
"status mark-bad booted") echo bad >"mark-$(cat booted)" ;;
"status mark-bad other") echo bad >"mark-$(other)" ;;
*) echo "rauc: what is $*" >&2; exit 1 ;;
esac
`

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
	must := func(verb Verb, version string, want Status) {
		t.Helper()
		for range 2 { // every verb may be repeated
			st, err := c.Run(t.Context(), verb, Job{Version: version, File: bundle, Previous: "1"})
			if err != nil || st != want {
				t.Fatalf("%s %s: %+v %v; want %+v\n%s", verb, version, st, err, want, get("log"))
			}
		}
	}
	fails := func(verb Verb, version string, want error) {
		t.Helper()
		if st, err := c.Run(t.Context(), verb, Job{Version: version, File: bundle}); !errors.Is(err, want) {
			t.Fatalf("%s %s: %+v %v; want %v", verb, version, st, err, want)
		}
	}
	must(State, "", Status{Active: "1", Running: "1"})
	fails(Activate, "2", ErrFailed)
	put("broken", "")
	fails(State, "", ErrLater)
	if err := os.Remove(filepath.Join(fake, "broken")); err != nil {
		t.Fatal(err)
	}

	must(Install, "2", Status{Active: "1", Staged: "2", Running: "1", Reboot: true})
	if get("primary") != "A" || get("slot-B") != "bundle" {
		t.Errorf("an installation alone boots %s", get("primary"))
	}
	must(Activate, "2", Status{Active: "1", Trying: "2", Running: "1", Reboot: true})
	fails(Verify, "2", ErrLater)
	fails(Commit, "2", ErrFailed)
	boot(get("primary"))
	must(Verify, "2", Status{Active: "1", Trying: "2", Running: "2"})
	must(Commit, "2", Status{Active: "2", Running: "2"})
	if get("mark-B") != "good" {
		t.Errorf("marked %q", get("mark-B"))
	}

	// The boot loader goes back by itself.
	must(Install, "3", Status{Active: "2", Staged: "3", Running: "2", Reboot: true})
	must(Activate, "3", Status{Active: "2", Trying: "3", Running: "2", Reboot: true})
	boot("B")
	fails(Verify, "3", ErrFailed)
	must(Rollback, "3", Status{Active: "2", Running: "2"})
	if get("primary") != "B" || get("mark-A") != "bad" {
		t.Errorf("primary %s, marked %q", get("primary"), get("mark-A"))
	}

	// The node gives the new one up while it runs.
	must(Install, "4", Status{Active: "2", Staged: "4", Running: "2", Reboot: true})
	must(Activate, "4", Status{Active: "2", Trying: "4", Running: "2", Reboot: true})
	boot("A")
	must(Rollback, "4", Status{Active: "2", Reboot: true})
	fails(Install, "5", ErrLater)
	if get("primary") != "B" {
		t.Errorf("primary %s", get("primary"))
	}
	boot("B")
	must(State, "", Status{Active: "2", Running: "2"})
	must(Install, "5", Status{Active: "2", Staged: "5", Running: "2", Reboot: true})
	must(Rollback, "5", Status{Active: "2", Running: "2"})
}
