package upgrade

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/testenv/proc"
)

// withApp is a patient with the component app, a directory that the example of deploy/ updates; its
// version 1 is in force.
type withApp struct {
	*patient
	root  string // of the directory
	holds string // hold-VERB: that verb waits, and makes reached-VERB
}

// each version brings its own check with it, as an application would.
const check = "#!/bin/sh\nexec \"${0%/*}/../current/check\"\n"

func newApp(t *testing.T, settings ...string) withApp {
	t.Helper()
	a := withApp{root: filepath.Join(t.TempDir(), "app"), holds: t.TempDir()}
	program := fmt.Sprintf(`#!/bin/sh
if [ -e %[1]s/hold-$1 ]; then
	: >%[1]s/reached-$1
	while [ -e %[1]s/hold-$1 ]; do sleep 0.1; done
fi
exec %[2]s %[3]s "$1"
`, a.holds, filepath.Join(proc.Root(t), "deploy", "components", "directory"), a.root)
	a.write(t, filepath.Join(a.holds, "program"), program)
	a.write(t, filepath.Join(a.root, "hooks", "check"), check)
	a.patient = newPatient(t, nil, settings, "--component", "app="+filepath.Join(a.holds, "program"))
	a.stageApp("1", 0)
	a.component("try")
	a.is("it is on trial", func(s status) bool { return s.Phase == "trying" })
	a.component("commit")
	a.is("it is in force", func(s status) bool { return s.State == "active" && s.Version == "1" })
	return a
}

func (a withApp) write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// status is what tandem-node slot status says of a component.
type status struct {
	State, Version, Next, Running, Text, Phase string
	Last                                       struct {
		Version   string
		Committed bool
		Why       struct{ Reason, Detail string }
	}
}

// component runs a command on it, at the node.
func (a withApp) component(args ...string) (s status) {
	a.t.Helper()
	o := proc.Run(a.t, a.Dir, nil, append([]string{proc.Binary(a.t, "tandem-node"), "slot", args[0], "--state-dir",
		a.StateDir("n1"), "--component", "app", "--json"}, args[1:]...)...)
	has(a.t, o, 0, "", "")
	if err := json.Unmarshal([]byte(o.Out), &s, json.MatchCaseInsensitiveNames(true)); err != nil {
		a.t.Fatalf("%v: %s", err, o.Out)
	}
	return s
}

// is waits until it is so.
func (a withApp) is(what string, so func(status) bool) {
	a.t.Helper()
	proc.Until(a.t, what, func() string {
		if s := a.component("status"); !so(s) {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
}

// stageApp hands a version to the agent; its check ends with this exit status.
func (a withApp) stageApp(version string, exit int) {
	a.t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, text := range map[string]string{"version": version, "check": fmt.Sprintf("#!/bin/sh\nexit %d\n", exit)} {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text))}); err != nil {
			a.t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			a.t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		a.t.Fatal(err)
	}
	file := filepath.Join(a.holds, version+".tar")
	a.write(a.t, file, b.String())
	a.component("stage", file, "--version", version)
}

// runs is the version that runs.
func (a withApp) runs() string {
	data, err := os.ReadFile(filepath.Join(a.root, "current", "version"))
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// killedIn kills the agent while a verb is under way, and waits until it is back.
func (a withApp) killedIn(verb string, order func()) {
	a.t.Helper()
	hold := filepath.Join(a.holds, "hold-"+verb)
	a.write(a.t, hold, "")
	order()
	proc.Until(a.t, verb+" is under way", func() string {
		if _, err := os.Stat(filepath.Join(a.holds, "reached-"+verb)); err != nil {
			return err.Error()
		}
		return ""
	})
	a.node.Ready(a.node.Signal(syscall.SIGKILL))
	a.AwaitOnline("n1", true)
	if err := os.Remove(hold); err != nil {
		a.t.Error(err)
	}
}

// A good version of a component is kept by the agent itself, although that is killed while it is installed, while it is
// activated, and in the trial.
func TestComponentCommits(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	before := a.in("factory", "factory", "factory", "active", false, 0)
	a.now()
	a.killedIn("install", func() { a.stageApp("2", 0) })
	a.is("it is staged", func(s status) bool { return s.Phase == "staged" })
	has(t, a.Tandem("node", "try", "n1", "--component", "app", "--version", "7"), 1, "", "staged")
	has(t, a.Tandem("node", "try", "n1", "--component", "oz"), 1, "", "--component")
	a.killedIn("activate", func() {
		has(t, a.Tandem("node", "try", "n1", "--component", "app", "--version", "2"), 0, "on trial", "")
	})
	if ev := a.event(2*proc.Patience, second, "trial-started"); ev.Detail.Component != "app" ||
		ev.Detail.Version != "2" || ev.Detail.Slot != "" {
		t.Errorf("%+v", ev)
	}
	if a.runs() != "2" {
		t.Errorf("version %s runs", a.runs())
	}
	a.node.Ready(a.node.Signal(syscall.SIGKILL))
	a.word()
	has(t, a.Tandem("health", "n1"), 0, "of component app", "")
	// One trial on a node at a time.
	a.stage(goodVersion)
	has(t, proc.Run(t, a.Dir, nil, proc.Binary(t, "tandem-node"), "slot", "try", "--state-dir", a.StateDir("n1")), 1,
		"", "component app, version 2: a trial is in progress")
	if ev := a.event(aTrial, second, "trial-committed", "trial-rolled-back"); ev.Detail.Component != "app" ||
		ev.Detail.Reason != "" {
		t.Errorf("%+v", ev)
	}
	a.is("it is in force", func(s status) bool { return s.State == "active" && s.Version == "2" && s.Last.Committed })
	has(t, a.Tandem("node", "n1"), 0, "app ", "")
	if s := a.in("factory", "factory", "factory", "active", false, 0); s.Running != before.Running || a.runs() != "2" {
		t.Errorf("slots %+v; version %s runs", s, a.runs())
	}
	a.untouched()
	a.ended()
}

// A bad version of a component is rolled back by the agent itself, which goes on running.
func TestComponentRollsBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault    string
		settings []string
		why      string
	}{
		{"verify", nil, "hooks/check says 1"},
		{"lost", []string{"--fallback", "75s", "--contact", "75s"}, "no contact"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			t.Parallel()
			a := newApp(t, c.settings...)
			a.now()
			exit := 0
			if c.fault == "verify" {
				exit = 1
			}
			a.stageApp("2", exit)
			has(t, a.Tandem("node", "try", "n1", "--component", "app"), 0, "on trial", "")
			runs := len(a.node.Runs())
			if c.fault == "lost" {
				a.event(2*proc.Patience, second, "trial-started")
				a.Controller.Stop()
				a.given(2 * aTrial)
				a.StartController("--report-jitter", "100ms")
			}
			if ev := a.event(aTrial, second, "trial-committed", "trial-rolled-back"); ev.Detail.Component != "app" ||
				ev.Detail.Version != "2" || ev.Detail.Reason != "fallback" ||
				!strings.Contains(ev.Detail.Text, c.why) {
				t.Errorf("%+v", ev)
			}
			a.given(proc.Patience)
			if s := a.component("status"); a.runs() != "1" || s.Version != "1" || s.State != "active" ||
				s.Last.Committed || !strings.Contains(s.Last.Why.Detail, c.why) {
				t.Errorf("version %s runs; %+v", a.runs(), s)
			}
			if n := len(a.node.Runs()); n != runs {
				t.Errorf("the agent was started again, %d times", n-runs)
			}
			proc.Until(t, "the health tells of it", func() string {
				if h := a.health(); h.Trial != nil || len(h.Components) != 1 ||
					!strings.Contains(h.Components[0].Text, c.why) {
					return fmt.Sprintf("%+v", h)
				}
				return ""
			})
			a.refusesAgain(c.why)
			a.untouched()
			a.ended()
		})
	}
}

// refusesAgain has version 2 staged and tried once more: it is refused with the reason of before, at the node and by
// the controller, unless somebody insists.
func (a withApp) refusesAgain(why string) {
	a.t.Helper()
	stage := func(more ...string) proc.Output {
		return proc.Run(a.t, a.Dir, nil, append([]string{proc.Binary(a.t, "tandem-node"), "slot", "stage",
			"--state-dir", a.StateDir("n1"), "--component", "app", "--version", "2",
			filepath.Join(a.holds, "2.tar")}, more...)...)
	}
	o := stage()
	has(a.t, o, 1, "", "version 2 failed here before: ")
	has(a.t, o, 1, "", why)
	has(a.t, a.Tandem("health", "n1"), 0, "IN QUARANTINE", "")
	has(a.t, stage("--force"), 0, "is there for the agent to install", "")
	proc.Until(a.t, "the controller knows what is staged", func() string {
		if h := a.health(); len(h.Components) != 1 || h.Components[0].Hash == "" || h.Components[0].Text != "staged" {
			return fmt.Sprintf("%+v", h)
		}
		return ""
	})
	has(a.t, a.Tandem("node", "try", "n1", "--component", "app"), 1, "",
		"quarantined: version 2 failed on node n1 before: ")
	if s := a.component("status"); s.Phase != "staged" || a.runs() != "1" {
		a.t.Errorf("version %s runs; %+v", a.runs(), s)
	}
}

// second leaves out what is still told of version 1.
func second(ev told) bool { return ev.Detail.Version == "2" }

// given waits until the version on trial is given up.
func (a withApp) given(within time.Duration) {
	a.t.Helper()
	for end := time.Now().Add(within); ; time.Sleep(100 * time.Millisecond) {
		s := a.component("status")
		if s.Phase == "" && s.Last.Version == "2" {
			return
		}
		if time.Now().After(end) {
			a.t.Fatalf("it is not given up: %+v", s)
		}
	}
}
