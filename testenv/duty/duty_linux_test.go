package duty

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
	"tandem.internal/testenv/proc"
)

func (s *site) pid(service string) int {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.Dir, "pid."+service))
	if err != nil {
		s.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		s.t.Fatal(err)
	}
	return pid
}

// A slot's life: it comes to run by a filler, survives its agent, is told of new dynamic resources,
// gives place to a new version only when that is there, comes back when the new one does not stay up, is
// restarted by order, and goes with all that it had.
func TestLife(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.node("n1")
	web := func(start, data string, hooks ...string) string {
		all := append([]string{named(workload.HookStart, s.artifact("Resource", "start", start)),
			named("data", s.artifact("DynamicResource", "data", data)),
			named(workload.HookInstall, s.artifact("Resource", "install", s.hook("hook", 0))),
			named(workload.HookUninstall, s.artifact("Resource", "uninstall", s.hook("hook", 0))),
			named(workload.HookNotify, s.artifact("Resource", "notify", s.hook("hook", 0))),
			named(workload.HookStop, s.artifact("Resource", "stop", s.hook("hook", 0)))}, hooks...)
		return fmt.Sprintf(`{"@class":"TopologicalInstance","slot":"web@n1","properties":{"kind":"web","port":"8080"}},
			{"@class":"InstanceFiller","name":"web","filter":"instance[kind = 'web']",
			"instance":{"properties":{},"resources":{%s}}}`, strings.Join(all, ","))
	}
	s.apply("1.0.0", web(s.start("one"), "a"))
	s.awaitSettled("web@n1")
	s.awaitDiary("start one web@n1")
	first := s.pid("web")

	proc.Until(t, "its output is there", func() string {
		if out := s.Tandem("workload", "logs", "web@n1"); out.Status != 0 ||
			!strings.Contains(out.Out, "one is up, port 8080") {
			return fmt.Sprintf("%+v", out)
		}
		return ""
	})
	if out := s.Tandem("workload", "list"); out.Status != 0 || !strings.Contains(out.Out, "web@n1") ||
		!strings.Contains(out.Out, "running") {
		t.Errorf("list: %+v", out)
	}

	s.Nodes["n1"].Kill()
	s.node("n1")
	s.awaitSettled("web@n1")
	if s.pid("web") != first || syscall.Kill(first, 0) != nil {
		t.Error("the process did not outlive its agent")
	}

	s.apply("2.0.0", web(s.start("one"), "b"))
	s.awaitDiary("iss_hook_notify pid=" + strconv.Itoa(first))
	s.awaitSettled("web@n1")
	if data, err := os.ReadFile(s.file("n1", "web", "data")); err != nil || string(data) != "b" {
		t.Errorf("the link leads to %q (%v)", data, err)
	}
	if s.pid("web") != first {
		t.Error("a dynamic resource restarts the process")
	}

	s.apply("3.0.0", web(s.start("three"), "b"))
	s.awaitDiary("start three")
	s.awaitDiary("hook iss_hook_stop pid=" + strconv.Itoa(first))
	s.awaitSettled("web@n1")
	s.awaitDiary("iss_hook_uninstall")
	third := s.pid("web")

	s.apply("4.0.0", web("#!/bin/sh\necho cannot live\nexit 7\n", "b"))
	s.await("web@n1", "has its old version back", func(o slot) bool {
		return o.State == string(wire.WorkloadRunning) && o.Report.Error != nil &&
			strings.Contains(o.Report.Error.Message, "exit status 7: cannot live")
	})
	proc.Until(t, "the old version is back", func() string {
		if text := s.read(); strings.Count(text, "start three") != 2 || s.pid("web") == third {
			return text
		}
		return ""
	})

	s.apply("5.0.0", web(s.start("five"), "b"))
	s.awaitDiary("start five")
	s.awaitSettled("web@n1")
	fifth := s.pid("web")
	if out := s.Tandem("workload", "restart", "web@n1"); out.Status != 0 {
		t.Errorf("restart: %+v", out)
	}
	proc.Until(t, "it is restarted", func() string {
		if s.pid("web") == fifth {
			return "not yet"
		}
		return ""
	})
	s.emptied("n1")
}

// file is a link in the directory of a slot.
func (s *site) file(node, service, name string) string {
	s.t.Helper()
	all, err := filepath.Glob(filepath.Join(s.StateDir(node), "workloads", "slots", service, "*", name))
	if err != nil || len(all) == 0 {
		s.t.Fatalf("%v %v", all, err)
	}
	return all[len(all)-1]
}

// A job runs until it succeeds, once, also when its agent is killed meanwhile; and again when its
// configuration changes.
func TestJob(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.node("n1")
	gate := filepath.Join(s.Dir, "gate")
	job := func(version string) string {
		text := fmt.Sprintf("#!/bin/sh\necho \"run %s\" >>%s\nwhile [ ! -e %s ]; do sleep 0.1; done\necho \"end "+
			"%s\" >>%s\n", version, s.diary, gate, version, s.diary)
		return `{"@class":"Job","slot":"job@n1","resources":{` +
			named(workload.HookStart, s.artifact("Resource", "job-"+version, text)) + `}}`
	}
	s.apply("1.0.0", job("1"))
	s.awaitDiary("run 1")
	s.Nodes["n1"].Kill()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.awaitDiary("end 1") // while nobody looks
	s.node("n1")
	s.await("job@n1", "is completed", func(o slot) bool {
		return o.State == string(wire.WorkloadCompleted) &&
			o.Settled
	})
	s.Nodes["n1"].Stop()
	s.node("n1")
	s.await("job@n1", "is completed", func(o slot) bool {
		return o.State == string(wire.WorkloadCompleted) &&
			o.Settled
	})
	if text := s.read(); strings.Count(text, "run 1") != 1 {
		t.Errorf("it ran more than once:\n%s", text)
	}
	s.apply("2.0.0", job("2"))
	s.awaitDiary("end 2")
	s.await("job@n1", "is completed", func(o slot) bool {
		return o.State == string(wire.WorkloadCompleted) &&
			o.Settled
	})

	flaky := fmt.Sprintf("#!/bin/sh\necho try >>%[1]s\n[ $(grep -c try %[1]s) -ge 3 ] || exit 3\n", s.diary)
	s.apply("3.0.0", `{"@class":"Job","slot":"job@n1",`+
		`"timeLimits":{"iss_hook_start":{"minRestartPeriodMs":100}},"resources":{`+
		named(workload.HookStart, s.artifact("Resource", "flaky", flaky))+`}}`)
	o := s.await("job@n1", "succeeds at last", func(o slot) bool {
		return o.State == string(wire.WorkloadCompleted) &&
			o.Settled
	})
	if o.Report.Restarts != 2 {
		t.Errorf("%+v", o.Report)
	}
	s.emptied("n1")
}

// What cannot be fetched or verified leaves the old version running, and is told.
func TestBadResource(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.node("n1")
	one := instance("Instance", "web@n1", `"port":"1"`,
		named(workload.HookStart, s.artifact("Resource", "start", s.start("one"))))
	s.apply("1.0.0", one)
	s.awaitSettled("web@n1")
	s.awaitDiary("start one")
	pid := s.pid("web")
	bad := instance("Instance", "web@n1", `"port":"1"`,
		named(workload.HookStart, s.artifact("Resource", "bad", s.start("two"))))
	s.mu.Lock()
	s.files["/bad"] = "something else"
	s.mu.Unlock()
	s.apply("2.0.0", bad)
	s.await("web@n1", "tells of the checksum", func(o slot) bool {
		return o.State == string(wire.WorkloadRunning) && o.Report.Error != nil && len(o.Report.Resources) == 1 &&
			o.Report.Wanted != ""
	})
	if s.pid("web") != pid || syscall.Kill(pid, 0) != nil {
		t.Error("the old version does not run on")
	}
	s.apply("3.0.0", one)
	s.await("web@n1", "is as before", func(o slot) bool {
		return o.Settled && o.Report.Error == nil &&
			o.Report.Wanted == ""
	})
	if s.pid("web") != pid {
		t.Error("it was restarted for nothing")
	}
	s.emptied("n1")
}

const kills = 8

// The agent is killed at random moments while versions come and go. Nothing ever runs twice, and in
// the end the newest version runs, and nothing else.
func TestKilledAgent(t *testing.T) {
	t.Parallel()
	chance := proc.Seed(t)
	s := newSite(t)
	s.node("n1")
	for i := range kills {
		var set []string
		for k := range 3 {
			name := fmt.Sprintf("s%d", k)
			set = append(set, instance("Instance", name+"@n1", `"port":"1"`,
				named(workload.HookStart, s.artifact("Resource", fmt.Sprintf("%s-%d", name, i),
					s.start(fmt.Sprintf("%s-%d", name, i)))),
				named(workload.HookInstall, s.artifact("Resource", "install", s.hook("hook", 0)))))
		}
		s.apply(fmt.Sprintf("%d.0.0", i+1), set...)
		time.Sleep(time.Duration(chance.IntN(1500)) * time.Millisecond) // the moment is what is tested
		s.Nodes["n1"].Kill()
		s.node("n1")
	}
	for k := range 3 {
		s.awaitDiary(fmt.Sprintf("start s%d-%d", k, kills-1))
		s.awaitSettled(fmt.Sprintf("s%d@n1", k))
	}
	proc.Until(t, "three processes run", func() string {
		if pids := s.mains(); len(pids) != 3 {
			return fmt.Sprint(pids)
		}
		return ""
	})
	s.emptied("n1")
}

// mains are the processes that scripts have said to be, and are there.
func (s *site) mains() (pids []int) {
	for _, pid := range s.runs() {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && strings.Contains(string(line), workload.HookStart) {
			pids = append(pids, pid)
		}
	}
	return pids
}
