package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// While its disk is full the controller acknowledges what nodes say of themselves, and holds it in memory. Killed
// there, it is none the poorer: what was accepted is on the disk, and nodes say again what it held, and events of then.
func TestKilledWhileItsDiskIsFull(t *testing.T) {
	t.Parallel()
	u := NewUnit(t)
	mount(t, u.StateDir("controller"), "32m")
	u.StartController()
	u.StartNode("n1", "main")
	u.AwaitOnline("n1", true)
	if res, err := u.Submit(Document("1.0.0", 1), ""); err != nil || res.State != "accepted" {
		t.Fatalf("%+v %v", res, err)
	}
	u.AwaitVersion("1.0.0", "n1")
	ballast := filepath.Join(u.StateDir("controller"), "ballast")
	fill(t, ballast)
	accepted, full := "1.0.0", false
	for i := 1; i <= 2000 && !full; i++ {
		version := fmt.Sprintf("1.%d.0", i)
		res, err := u.Submit(Document(version, i), "?offline=1")
		if full = err != nil || res.State != "accepted"; !full {
			accepted = version
		}
	}
	boots := func() (n int) {
		for line := range strings.Lines(u.Tandem("events", "--type", "boot", "--json").Out) {
			if strings.Contains(line, `"n1"`) {
				n++
			}
		}
		return n
	}
	before := boots()

	// What is said now finds no room: a new run of a node, and a node that nobody knew.
	u.Nodes["n1"].Kill()
	for _, n := range []string{"n1", "n2"} {
		p := u.StartNode(n, "second")
		Until(t, n+" has its session", func() string {
			if log := p.Log(); !strings.Contains(log, `"msg":"connected`) {
				return log
			}
			return ""
		})
	}
	if o := u.Tandem("unit", "status"); !strings.Contains(o.Out+o.Errors, "the disk is full") {
		t.Errorf("the disk is not full any more: %+v", o)
	}
	if n := boots(); n != before {
		t.Errorf("%d boots are journaled on a full disk, %d before", n, before)
	}
	u.Controller.Kill()
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	u.StartController()
	if o := u.Tandem("config", "show"); !strings.Contains(o.Out, accepted) {
		t.Errorf("%s was accepted: %+v", accepted, o)
	}
	u.AwaitVersion(accepted, "n1", "n2")
	Until(t, "the boot while it was full is journaled", func() string {
		if n := boots(); n != before+1 {
			return fmt.Sprintf("%d boots of n1, %d before", n, before)
		}
		return ""
	})
	if o := u.Tandem("node", "n1"); !strings.Contains(o.Out, "second") {
		t.Errorf("what n1 said of itself: %+v", o)
	}
	if o := u.Tandem("journal", "verify"); o.Status != 0 {
		t.Errorf("verify: %+v", o)
	}
}
