package systemd

import (
	"slices"
	"strings"
	"testing"

	"filippo.io/age"

	"tandem.internal/testenv/proc"
)

// TestBackupUnit: the unit of backups is the controller's user, reaches its socket and nothing else, and its command
// makes a backup where it may write, for whom the controller's setting names. The timer is for somebody to enable.
func TestBackupUnit(t *testing.T) {
	_, text := source(t, "tandem-backup.service")
	s := settings(t, text)
	_, text = source(t, "tandem-controller.service")
	controller := settings(t, text)
	for key, want := range demanded {
		switch key {
		case "Restart", "StartLimitIntervalSec":
			continue // the timer starts it again
		case "RestrictAddressFamilies":
			want = "AF_UNIX"
		}
		if got := s[key]; len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	for _, key := range []string{"User", "Group"} {
		if s[key] == nil || s[key][0] != controller[key][0] {
			t.Errorf("%s is %q, the controller's %q", key, s[key], controller[key])
		}
	}
	_, text = source(t, "tandem-backup.timer")
	if timer := settings(t, text); timer["OnCalendar"] == nil || timer["WantedBy"][0] != "timers.target" {
		t.Errorf("the timer has %q", timer)
	}

	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	u := proc.NewUnit(t)
	u.StartController("--backup-to", id.Recipient().String())
	argv := strings.Fields(s["ExecStart"][0])
	dir := slices.Index(argv, "/var/lib/"+s["StateDirectory"][0])
	if argv[0] != "/usr/bin/tandem" || dir < 0 {
		t.Fatalf("ExecStart is %q, StateDirectory %q", argv, s["StateDirectory"])
	}
	argv[dir] = t.TempDir()
	if o := u.Tandem(argv[1:]...); o.Status != 0 || !strings.Contains(o.Out, "wrote "+argv[dir]+"/backup-") {
		t.Errorf("%+v", o)
	}
}
