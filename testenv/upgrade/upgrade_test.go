package upgrade

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tandem.internal/shared/wire"
	"tandem.internal/testenv/proc"
)

// aTrial is how long the shortest trial may take, from the order on, on a machine that is busy.
const aTrial = 4 * proc.Patience

// A good version is tried by order of the controller, is stopped and started meanwhile at no cost, and
// is kept. After that it is killed, and says so.
func TestUpgradeCommits(t *testing.T) {
	t.Parallel()
	p := newPatient(t, nil, nil)
	p.stage(goodVersion)
	p.in("factory", "factory", "a", "updating", false, 0)
	has(t, p.Tandem("node", "try", "n1", "--version", "7.7.7"), 1, "", "staged")
	p.now()
	before := p.health().Boot.Restarts
	has(t, p.Tandem("node", "try", "n1", "--version", goodVersion), 0, "on trial", "")
	p.event(proc.Patience, because(wire.BootUpdate), "restart-planned")
	first := p.node.Await("ends", 0, aTrial, func(r proc.ServiceRun) bool { return r.Ended != "" })
	trial := p.node.Ready(first + 1)
	if r := p.node.Runs()[trial]; trial != first+1 || r.Program != p.program("a") {
		t.Errorf("the process that was started as the launcher runs %s, after %d starts", r.Program, trial-first)
	}
	if ev := p.event(proc.Patience, because(wire.BootUpdate), "boot"); ev.Detail.Restarts != before+1 {
		t.Errorf("%+v, and %d starts before", ev, before)
	}
	if ev := p.event(proc.Patience, nil, "trial-started"); ev.Detail.Slot != "a" || ev.Detail.Version != goodVersion {
		t.Errorf("%+v", ev)
	}
	p.in("a", "factory", "a", "inprogress", true, 2)

	p.restart()
	p.event(proc.Patience, because(wire.BootStop), "boot")
	p.in("a", "factory", "a", "inprogress", true, 2)
	if h := p.health(); h.Trial == nil || h.Trial.Version != goodVersion || h.Current != "a" {
		t.Errorf("%+v", h)
	}
	p.word()
	if ev := p.event(aTrial, nil, "trial-committed", "trial-rolled-back"); ev.Detail.Slot != "a" ||
		ev.Detail.Reason != "" {
		t.Errorf("%+v", ev)
	}
	p.in("a", "a", "a", "active", false, 0)
	p.untouched()

	p.now()
	killed := p.node.Signal(syscall.SIGKILL)
	p.node.Ready(killed)
	if ev := p.event(proc.Patience, because(wire.BootFatal), "boot"); ev.Detail.Restarts != before+3 {
		t.Errorf("%+v, and %d starts before", ev, before+2)
	}
	proc.Until(t, "the health tells of it", func() string {
		if h := p.health(); h.Boot.Reason != wire.BootFatal || h.Boot.Restarts != before+3 || h.Trial != nil {
			return fmt.Sprintf("%+v", h)
		}
		return ""
	})
	has(t, p.Tandem("health", "n1"), 0, "fatal", "")
	p.in("a", "a", "a", "active", false, 0)
	p.untouched()
	p.ended()
}

// Each bad version is rolled back without anybody's help: to the version before, which tells why.
func TestUpgradeRollsBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault    string
		settings []string
		tries    int             // by hand; 0: by order of the controller, who gives 3
		runs     int             // of the bad version
		killed   string          // why the service manager ended its last run, if it did
		boot     wire.BootReason // of the start after it
		why      string          // is in what is told
	}{
		{fault: "crash", runs: 3, boot: wire.BootFallback, why: "fatal"},
		{fault: "freeze", tries: 2, runs: 2, killed: "it gave no sign of life", boot: wire.BootFallback, why: "fatal"},
		{fault: "hang", tries: 1, runs: 1, boot: wire.BootWatchdogHung, why: "watchdog-hung"},
		{fault: "lost", settings: []string{"--fallback", "75s", "--contact", "75s"}, tries: 3, runs: 1,
			boot: wire.BootFallback, why: "no contact"},
		{fault: "memory", runs: 3, boot: wire.BootFallback, why: "fatal"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			t.Parallel()
			p := newPatient(t, []string{"BADNODE=" + c.fault}, c.settings)
			// The version before is one that was itself an upgrade.
			p.stage(goodVersion)
			p.slot("try")
			p.restart()
			p.event(proc.Patience, nil, "trial-started")
			p.slot("commit")
			p.stage(badVersion)
			p.now()
			runs := 0
			if c.tries > 0 {
				p.word()
				p.slot("try", "--tries", fmt.Sprint(c.tries))
				runs = p.node.Signal(syscall.SIGTERM)
			} else {
				has(t, p.Tandem("node", "try", "n1"), 0, "on trial", "")
				runs = len(p.node.Runs())
			}
			back := p.node.Await("is the version before again", runs, 2*aTrial,
				func(r proc.ServiceRun) bool { return r.Ready && r.Program == p.program("a") })
			all := p.node.Runs()
			if bad := back - runs; bad != c.runs || all[back-1].Killed != c.killed {
				t.Errorf("%d runs of the bad version, want %d; the last one was killed because %q: %+v", bad, c.runs,
					all[back-1].Killed, all)
			}
			if ev := p.event(proc.Patience, because(c.boot), "boot"); !strings.Contains(ev.Detail.Text, c.why) ||
				strings.Count(ev.Detail.Text, "is over") > 1 {
				t.Errorf("the start after it: %+v; want %q", ev, c.why)
			}
			if c.fault != "crash" { // that one never came so far as to tell of itself
				p.seen = 0
				p.event(proc.Patience, func(ev told) bool { return ev.Detail.Version == badVersion }, "trial-started")
			}
			if ev := p.event(proc.Patience, nil, "trial-rolled-back"); ev.Detail.Version != badVersion ||
				ev.Detail.Slot != "b" || !strings.Contains(ev.Detail.Text, c.why) {
				t.Errorf("the end of the trial: %+v; want %q", ev, c.why)
			}
			s := p.in("a", "a", "b", "unused", false, 0)
			if s.Last.Version != badVersion || s.Last.Committed || s.Last.Reason != string(wire.BootFallback) ||
				!strings.Contains(s.Last.Detail, c.why) {
				t.Errorf("the record says: %+v", s.Last)
			}
			proc.Until(t, "the health tells of it", func() string {
				if h := p.health(); h.Current != "a" || h.Boot.Reason != c.boot || h.Trial != nil || h.Restart != nil {
					return fmt.Sprintf("%+v", h)
				}
				return ""
			})
			has(t, p.Tandem("health", "n1"), 0, string(c.boot), "")
			p.AwaitVersion("1.0.0", "n1")
			p.untouched()
			p.ended()
		})
	}
}

// A reboot that the controller orders waits out a trial. Its reason is on the disk before the command
// runs, and is what the next start tells.
func TestRebootWaitsForATrial(t *testing.T) {
	t.Parallel()
	script, seen := filepath.Join(t.TempDir(), "reboot"), filepath.Join(t.TempDir(), "seen")
	p := newPatient(t, nil, nil, "--reboot-command", script)
	// It ends the agent, as a machine does that goes down.
	text := fmt.Sprintf("#!/bin/sh\necho \"$TANDEM_REASON: $TANDEM_DETAIL\" >%[1]s\n%[2]s slot status --state-dir "+
		"%[3]s >>%[1]s\nkill -TERM $PPID\n",
		seen, proc.Binary(t, "tandem-node"), p.StateDir("n1"))
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	p.stage(goodVersion)
	p.slot("try")
	p.now()
	trial := p.restart()
	p.event(proc.Patience, nil, "trial-started")
	p.AwaitOnline("n1", true)
	has(t, p.Tandem("node", "reboot", "n1", "--reason", "new kernel"), 0, "as soon as no trial", "")
	p.event(aTrial, nil, "trial-committed")
	if ev := p.event(aTrial, nil, "restart-planned"); ev.Detail.Reason != string(wire.BootReboot) ||
		!strings.Contains(ev.Detail.Text, "new kernel") {
		t.Errorf("%+v", ev)
	}
	if n := len(p.node.Runs()); n != trial+1 {
		t.Errorf("%d runs, and the trial was number %d", n, trial)
	}
	if p.node.Ready(trial+1) != trial+1 {
		t.Error("it did not come back at once")
	}
	data, err := os.ReadFile(seen)
	if err != nil {
		t.Fatal(err)
	}
	if first, rest, _ := strings.Cut(string(data), "\n"); !strings.HasPrefix(first, "reboot-command: by the "+
		"controller: new kernel") || !strings.Contains(rest, "the next start will be because of reboot-command: by "+
		"the controller: new kernel") {
		t.Errorf("the command found:\n%s", data)
	}
	if ev := p.event(proc.Patience, nil, "boot"); ev.Detail.Reason != string(wire.BootReboot) ||
		!strings.Contains(ev.Detail.Text, "new kernel") {
		t.Errorf("%+v", ev)
	}
	p.in("a", "a", "a", "active", false, 0)
	if again := len(p.node.Runs()); again != trial+2 {
		t.Errorf("it rebooted again: %d runs", again)
	}
	p.untouched()
	p.ended()
}
