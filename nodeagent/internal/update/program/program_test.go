package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tandem.internal/nodeagent/internal/update"
)

// Short names of what the contract speaks of.
const (
	Install, Activate, Commit, Rollback = update.Install, update.Activate, update.Commit, update.Rollback
)

var ErrLater, ErrTimeout, ErrFailed = update.ErrLater, update.ErrTimeout, update.ErrFailed

type Job = update.Job

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
		verb          update.Verb
		want          error
		text          string // part of the error, or of the status' message
	}{
		{"done", `echo working; echo '{"active":"2"}'; echo`, Commit, nil, ""},
		{"environment", `echo "{\"active\":\"$TANDEM_VERSION\",\"message\":\"$1 $TANDEM_VERB $TANDEM_COMPONENT ` +
			`$TANDEM_FILE $TANDEM_HASH $TANDEM_PREVIOUS_VERSION $TANDEM_TIMEOUT ${TANDEM_PASSWORD:-none}\"}"`,
			Commit, nil, "commit commit app /f sha256:x 1 60 none"},
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
		{"much output", `i=0; while [ $i -lt 3000 ]; do echo "line $i of many"; echo "error $i" >&2; ` +
			`i=$((i+1)); done; exit 1`, Commit, ErrFailed, "error 2999"},
		{"what it leaves running",
			`sleep 100 >/dev/null 2>&1 & echo $! >"$TANDEM_COMPONENT_DIR/left"; echo '{"active":"2"}'`, Commit, nil,
			""},
	} {
		t.Run(c.name, func(t *testing.T) {
			comp := shell(t, c.program)
			st, err := comp.Run(t.Context(), c.verb, Job{Version: "2", File: "/f", Hash: "sha256:x", Previous: "1"})
			if !errors.Is(err, c.want) || c.want == nil && (err != nil || st.Active != "2" || st.Message != c.text) ||
				c.want != nil && !strings.Contains(err.Error(), c.text) {
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
	if _, err := (Component{Name: "none"}).Run(t.Context(), update.Show, Job{}); !errors.Is(err, ErrFailed) {
		t.Errorf("%v", err)
	}
	if _, err := (Component{Name: "x", Command: []string{"/nonexistent/x"}}).Run(t.Context(), update.Show,
		Job{}); !errors.Is(err, ErrFailed) {
		t.Errorf("%v", err)
	}
}

// A verb that hangs is killed with all that it has started, whether its time is up or the agent stops.
func TestKilled(t *testing.T) {
	for _, stops := range []bool{false, true} {
		c := shell(t, `sleep 1000 & cd "$TANDEM_COMPONENT_DIR"; echo $! >child.new; mv child.new child; wait`)
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
			c.Limits = map[update.Verb]time.Duration{update.Verify: 2 * time.Second}
		}
		if _, err := c.Run(ctx, update.Verify, Job{Version: "2"}); !errors.Is(err, want) {
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
