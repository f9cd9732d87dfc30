package container

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"tandem.internal/shared/wire"
)

func TestMain(m *testing.M) {
	Stage()
	// Orphans are this process's children, as they are the keeper's.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(programDir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		os.Exit(code)
	}))
}

// programDir is where this process has built the program; "": it has not.
var programDir string

// program is the path of a static program for containers.
var program = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(asUser); path != "" {
		return path, nil
	}
	dir, err := os.MkdirTemp("", "tandem-container")
	if err != nil {
		return "", err
	}
	programDir = dir
	path := filepath.Join(dir, "program")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "testdata/program.go")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// world is a node with one runtime, and an image of one layer.
type world struct {
	*Home
	t     *testing.T
	layer string
}

// skip says loudly that a test was not run; where tests run unattended it fails.
func skip(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip("NOT TRIED: " + why)
}

// each runs a test with each runtime, with overlays and with hard links.
func each(t *testing.T, f func(w *world)) {
	for _, name := range wire.ContainerRuntimes {
		for _, overlay := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, overlay %v", name, overlay), func(t *testing.T) {
				w := newWorld(t, name)
				if overlay && !w.Runtime.Overlay {
					skip(t, w.Runtime.NoMount)
				}
				w.Runtime.Overlay = overlay
				f(w)
			})
		}
	}
}

func newWorld(t *testing.T, name string) *world {
	t.Helper()
	if os.Geteuid() != 0 && os.Getenv(asUser) == "" {
		skip(t, "this test makes containers as root")
	}
	path, err := exec.LookPath(name)
	if err != nil {
		skip(t, name+" is not installed: deploy/demo/brokers installs it")
	}
	program, err := program()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	rt, err := Probe(t.Context(), Probing{Dir: filepath.Join(dir, "probe"), Path: path, True: program})
	if forbidden(err) {
		skip(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	h, err := Open(Home{Dir: filepath.Join(dir, "home"), Runtime: rt})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Home: h, t: t, layer: filepath.Join(dir, "layer", "tree")}
	w.write(w.layer, "bin", "dir/", 0)
	data, err := os.ReadFile(program)
	if err == nil {
		err = os.WriteFile(filepath.Join(w.layer, "bin/program"), data, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.end)
	return w
}

// end sees that nothing is left, after the test's own containers were removed.
func (w *world) end() {
	ids, err := w.List()
	if err != nil {
		w.t.Error(err)
	}
	for _, id := range ids {
		if err := w.Delete(w.t.Context(), id); err != nil {
			w.t.Error(err)
		}
	}
	w.noMounts()
	if group := w.spec().Group; group != "" { // Delete leaves it while those that it has killed are not reaped
		dirs, err := groupDirs(group)
		for _, dir := range dirs {
			if rerr := os.Remove(dir); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
				err = errors.Join(err, rerr)
			}
		}
		if err != nil {
			w.t.Error(err)
		}
	}
	for _, dir := range []string{w.state(), filepath.Join(w.Dir, bundleName)} {
		if all, err := os.ReadDir(dir); err != nil || len(all) > 0 {
			w.t.Errorf("left in %s: %v %v", dir, all, err)
		}
	}
}

// write writes a file below a directory; content "dir/" makes a directory, "-> x" a link.
func (w *world) write(dir, name, content string, perm os.FileMode) {
	w.t.Helper()
	path := filepath.Join(dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	switch to, link := strings.CutPrefix(content, "-> "); {
	case link:
		err = errors.Join(err, os.Symlink(to, path))
	case content == "dir/":
		err = errors.Join(err, os.MkdirAll(path, 0o755))
	default:
		err = errors.Join(err, os.WriteFile(path, []byte(content), max(perm, 0o444)))
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// noMounts looks for mounts of containers among this process's.
func (w *world) noMounts() {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || bytes.Contains(mounts, []byte(w.Dir)) {
		w.t.Errorf("mounts are there: %v\n%s", err, mounts)
	}
}

const uid, gid = 4711, 4712

// spec is a container that does what words say.
func (w *world) spec(words ...string) Spec {
	s := Spec{Layers: []string{w.layer}, Args: append([]string{"/bin/program"}, words...), UID: uid, GID: gid}
	if w.Runtime.Name == "runc" {
		s.Group = filepath.Join(ownGroup(), fmt.Sprint("tandem-container-test-", os.Getpid()))
	}
	return s
}

// create starts a container; out reads what it and its runtime write.
func (w *world) create(id string, s Spec) (pid int, out *os.File) {
	w.t.Helper()
	pid, out, err := w.try(id, s)
	if err != nil {
		w.t.Fatal(err)
	}
	return pid, out
}

// try starts the process that becomes a container's runtime, as a keeper does.
func (w *world) try(id string, s Spec) (pid int, out *os.File, err error) {
	args, err := w.Prepare(w.t.Context(), id, s)
	if err != nil {
		return 0, nil, err
	}
	r, in, err := os.Pipe()
	if err != nil {
		return 0, nil, err
	}
	w.t.Cleanup(func() { _ = r.Close() })
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, nil, err
	}
	sys := &syscall.SysProcAttr{Setsid: true}
	Attr(sys)
	const exe = "/proc/self/exe"
	pid, err = syscall.ForkExec(exe, append([]string{exe}, args...), &syscall.ProcAttr{Dir: "/",
		Env: []string{keeperEnv + "=keeper/run"}, Files: []uintptr{null.Fd(), in.Fd(), in.Fd()}, Sys: sys})
	return pid, r, errors.Join(err, in.Close(), null.Close())
}

// wait waits for the process of a container's runtime as its parent.
func (w *world) wait(pid int) syscall.WaitStatus {
	w.t.Helper()
	var status syscall.WaitStatus
	if got, err := syscall.Wait4(pid, &status, 0, nil); err != nil || got != pid {
		w.t.Fatal(got, err)
	}
	return status
}

// run runs a container to its end, and returns what it wrote.
func (w *world) run(s Spec) string {
	w.t.Helper()
	const id = "one"
	pid, out := w.create(id, s)
	var text bytes.Buffer
	if _, err := text.ReadFrom(out); err != nil {
		w.t.Fatal(err)
	}
	if status := w.wait(pid); status.ExitStatus() != 0 {
		w.t.Errorf("exit status %d of: %s", status.ExitStatus(), &text)
	}
	if err := w.Delete(w.t.Context(), id); err != nil {
		w.t.Fatal(err)
	}
	return text.String()
}
