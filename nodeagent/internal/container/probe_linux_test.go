package container

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestProbe: what is found, what is said of it, and that nothing is left.
func TestProbe(t *testing.T) {
	w := newWorld(t, "crun")
	program, err := program()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "probe")
	rt, err := Probe(t.Context(), Probing{Dir: dir, True: program})
	if err != nil || rt.Name != "crun" || !filepath.IsAbs(rt.Path) || rt.Version == "" || rt.Groups == "" {
		t.Errorf("%+v %v", rt, err)
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("left: %v", err)
	}
	fake := func(name, text string) string {
		fakes := t.TempDir()
		w.write(fakes, name, "#!/bin/sh\n"+text+"\n", 0o755)
		return filepath.Join(fakes, name)
	}
	const version = `if [ "$1" = --version ]; then echo "crun version 9"; exit; fi`
	for _, c := range []struct{ path, why string }{
		{filepath.Join(w.Dir, "none"), "no such file"},
		{fake("podman", ""), "only crun and runc"},
		{fake("crun", "echo something else"), "it says of its version"},
		{fake("crun", "exit 3"), "exit status 3"},
		{fake("crun", version+"\nexit 4"), "exit status 4"},
		{fake("crun", version+"\n"+`echo first >&2; echo the reason >&2; exit 1`), "exit status 1: the reason"},
	} {
		if rt, err := Probe(t.Context(), Probing{Dir: dir, Path: c.path, True: program}); err == nil ||
			!strings.Contains(err.Error(), c.why) || strings.Contains(err.Error(), dropIn) {
			t.Errorf("%s: %+v %v", c.path, rt, err)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if rt, err := Probe(t.Context(), Probing{Dir: dir, True: program}); err == nil ||
		err.Error() != "none of crun, runc is installed" {
		t.Errorf("%+v %v", rt, err)
	}
	t.Setenv("PATH", filepath.Dir(fake("crun", "exit 1")))
	if rt, err := Probe(t.Context(), Probing{Dir: dir, True: program}); err == nil ||
		!strings.Contains(err.Error(), "exit status 1") || !strings.Contains(err.Error(), "runc: ") {
		t.Errorf("%+v %v", rt, err)
	}
}

// TestProbeAfterAnother: what a probe that was killed has left is removed by the next.
func TestProbeAfterAnother(t *testing.T) {
	each(t, func(w *world) {
		program, err := program()
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(filepath.Dir(w.Dir), "probe")
		home, err := Open(Home{Dir: filepath.Join(dir, "containers"), Runtime: w.Runtime})
		if err != nil {
			t.Fatal(err)
		}
		other := &world{Home: home, t: t, layer: w.layer}
		pid := other.start(probeID, w.spec("sleep"), "sleeping")
		main := other.main(probeID) // which a runtime that is killed does not note any more
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if _, err := Probe(t.Context(), Probing{Dir: dir, Path: w.Runtime.Path, True: program}); err != nil {
			t.Error(err)
		}
		w.wait(pid)
		w.orphans(0)
		if main.alive() {
			t.Error("it is there")
		}
	})
}

// TestProbeIsBounded: a runtime that hangs, at its container's end too, and whose output somebody keeps open.
func TestProbeIsBounded(t *testing.T) {
	w := newWorld(t, "crun")
	w.write(w.Dir, "fake/crun", `#!/bin/sh
if [ "$1" = --version ]; then echo crun version 9; exit; fi
if [ "$4" = run ]; then mkdir -p "$2/tandem-probe"; sleep 60 & fi
exec sleep 60
`, 0o755)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	began := time.Now()
	_, err := Probe(ctx, Probing{Dir: filepath.Join(w.Dir, "probe"), Path: filepath.Join(w.Dir, "fake/crun"),
		True: w.layer})
	if took := time.Since(began); err == nil || took > 30*time.Second {
		t.Errorf("after %v: %v", took, err)
	}
}

// TestProbeWithoutOverlay: then there are hard links, and why is known.
func TestProbeWithoutOverlay(t *testing.T) {
	w := newWorld(t, "crun")
	program, err := program()
	if err != nil {
		t.Fatal(err)
	}
	rt := w.Runtime
	rt.Overlay = false
	if err := rt.try(t.Context(), Probing{Dir: filepath.Join(w.Dir, "probe"), True: program}); err != nil {
		t.Error(err)
	}
}

// TestDropIn: what a reason names is there.
func TestDropIn(t *testing.T) {
	if _, err := os.Stat("../../../deploy/systemd/" + dropIn); err != nil {
		t.Error(err)
	}
}

// TestProbeForbidden: an agent that may not make containers names what would let it.
func TestProbeForbidden(t *testing.T) {
	if !another(t) {
		return
	}
	w := newWorld(t, "crun")
	program, err := program()
	if err != nil {
		t.Fatal(err)
	}
	w.write(w.Dir, "fake/crun", "#!/bin/sh\nif [ \"$1\" = --version ]; then echo crun version 9; exit; fi\n"+
		"echo 'mount proc: Operation not permitted' >&2; exit 1\n", 0o755)
	w.write(w.Dir, "fake/runc", "#!/bin/sh\necho runc version 9\n", 0o755)
	dir := filepath.Join(w.Dir, "probe")
	for name, why := range map[string]string{"crun": dropIn, "runc": "needs an agent that is root"} {
		path := filepath.Join(w.Dir, "fake", name)
		if rt, err := Probe(t.Context(), Probing{Dir: dir, Path: path, True: program}); err == nil ||
			!strings.Contains(err.Error(), why) {
			t.Errorf("%s: %+v %v", name, rt, err)
		}
	}
}
