package app

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/health"
	"tandem.internal/shared/wire"
)

func TestWatchedPrograms(t *testing.T) {
	healthBubble(t, func(p *patient) {
		p.cfg.WatchDir, p.cfg.RebootCommand = t.TempDir(), "reboot now"
		file := filepath.Join(p.cfg.WatchDir, "pump.touch")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		p.start()
		moved := time.Unix(1_700_000_000, 0)
		touch := func() {
			moved = moved.Add(time.Second)
			if err := os.Chtimes(file, moved, moved); err != nil {
				t.Fatal(err)
			}
		}
		for range 10 {
			touch()
			p.pass(25 * time.Second)
		}
		p.wantTold("", "watchdog")
		p.pass(2 * time.Minute)
		p.wantTold("watchdog pump hung", "watchdog")
		if got := p.check("program:pump"); got != "bad: hung" {
			t.Errorf("check program:pump is %s", got)
		}
		touch()
		p.pass(20 * time.Second)
		p.wantTold("watchdog pump back", "watchdog")
		if got := p.check("program:pump"); got != "ok" {
			t.Errorf("check program:pump is %s", got)
		}
		p.pass(3 * time.Minute)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		p.pass(time.Minute)
		p.wantTold("watchdog pump hung, watchdog pump gone", "watchdog")
		if got := p.check("program:pump"); got != "absent" {
			t.Errorf("check program:pump is %s", got)
		}
		p.wantTold("check-failed program:pump, check-recovered program:pump, check-failed program:pump",
			health.EventCheckFailed, health.EventCheckRecovered)
		// Nothing restarts for a program.
		p.wantTold("", health.EventRestartPlanned, health.EventRestartRefused)
		if h := p.health(); h.Restart != nil || h.Boot.Restarts != 1 || p.commands() != "" {
			t.Errorf("a program hangs, and %+v", h)
		}
	})
}

// A loop of the agent that is late makes the check watchdog bad, for as long as it is.
func TestLateLoopIsAFailingCheck(t *testing.T) {
	healthBubble(t, func(p *patient) {
		slow := &trap{gate: make(chan struct{})}
		p.deps.Die = func() { t.Error("it was late, and ended the agent") }
		p.deps.Sources.RAM = func() (float64, error) { slow.pass(); return 0.25, nil }
		p.start()
		p.pass(time.Minute)
		if got := p.check(health.CheckWatchdog); got != "ok" {
			t.Errorf("check watchdog is %s", got)
		}
		slow.set.Store(true)
		for range 20 {
			if p.pass(5 * time.Second); p.check(health.CheckWatchdog) != "ok" {
				break
			}
		}
		if got := p.check(health.CheckWatchdog); got != "bad: the loop monitor is late" {
			t.Errorf("check watchdog is %s", got)
		}
		slow.set.Store(false)
		close(slow.gate)
		p.pass(time.Minute)
		if got := p.check(health.CheckWatchdog); got != "ok" {
			t.Errorf("check watchdog is %s", got)
		}
		p.wantTold("check-failed watchdog, check-recovered watchdog",
			health.EventCheckFailed, health.EventCheckRecovered)
	})
}

// systemd hears when the agent is ready, what it does, that it lives, and that it stops.
func TestServiceManager(t *testing.T) {
	dir, err := os.MkdirTemp("", "tandem") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "notify")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_DGRAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: socket}); err != nil {
		t.Fatal(err)
	}
	heard := func() string {
		var all []string
		for buf := make([]byte, 4096); ; {
			n, _, err := syscall.Recvfrom(fd, buf, 0)
			if err != nil {
				return strings.Join(all, "|")
			}
			all = append(all, strings.ReplaceAll(string(buf[:n]), "\n", " "))
		}
	}
	healthBubble(t, func(p *patient) {
		p.deps.PID = 7
		p.deps.LookupEnv = func(name string) (string, bool) {
			v, ok := map[string]string{"NOTIFY_SOCKET": socket, "WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "7"}[name]
			return v, ok
		}
		p.start()
		if got := heard(); strings.Count(got, "READY=1") != 1 ||
			!strings.Contains(got, "STATUS="+wire.IndicatorTexts[wire.IndicatorNoContact]) {
			t.Errorf("at the start systemd heard %q", got)
		}
		p.pass(time.Second)
		p.hearBeacon()
		if got := heard(); !strings.Contains(got, "STATUS="+wire.IndicatorTexts[wire.IndicatorContact]) {
			t.Errorf("in contact systemd heard %q", got)
		}
		for range 10 {
			p.hearBeacon()
			p.pass(30 * time.Second)
			if got := heard(); !strings.Contains(got, "WATCHDOG=1") {
				t.Errorf("in half a minute systemd heard %q", got)
			}
		}
		p.stop()
		if got := heard(); !strings.HasSuffix(got, "STOPPING=1") {
			t.Errorf("at the end systemd heard %q", got)
		}
	})
}
