package keep

import (
	"os"
	"path/filepath"
	"testing"
)

// When slots may pass through the state directory, they can open nothing else in it: who can read a file can hold the
// lock on it, and the launcher and commands wait for that of the agent's slots.
func TestSlotsHoldNoLocks(t *testing.T) {
	eachUser(t, func(t *testing.T, u *userRig) {
		lock := u.put("slots/lock", "", 0o644)
		u.put("open", "", 0o666)
		u.as(func() {
			for _, dir := range []string{"slots", "components"} { // as agents of before made them
				dir = filepath.Join(u.state, dir)
				if err := os.MkdirAll(dir, 0o700); err != nil {
					t.Error(err)
				}
				if err := os.Chmod(dir, 0o755); err != nil {
					t.Error(err)
				}
			}
			if err := os.Symlink("/dev/null", filepath.Join(u.state, "link")); err != nil {
				t.Error(err)
			}
		})
		run := u.of("a", "look", "cat resource; for f in "+lock+" ../../../../slots ../../../../components "+
			"../../../../open; do (exec <$f) 2>/dev/null && echo $f; done; true")
		u.start(run)
		if s := u.wait("look"); !s.Success() || u.output("look") != "resource\n" {
			t.Errorf("%+v opens %q", s, u.output("look"))
		}
		if info, err := os.Stat("/dev/null"); err != nil || info.Mode().Perm() != 0o666 {
			t.Errorf("a link was followed: %v, %v", info.Mode(), err)
		}
	})
}
