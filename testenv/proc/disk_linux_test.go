package proc

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// mount puts a small file system on a directory, or skips the test.
func mount(t *testing.T, dir, size string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root can mount the small file system that a full disk is tested with")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tandem-test", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("SKIPPED: no small file system for the test of a full disk can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
}

// fill writes a file until nothing more fits.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1 << 16, 1} {
		for {
			if _, err := f.Write(make([]byte, size)); err != nil {
				break
			}
		}
	}
	_ = f.Close() // it is full
}

// The controller's disk is full: it says so, takes nothing that it cannot keep, and keeps what it
// took. With space again, a restart at the latest goes on.
func TestControllersDiskIsFull(t *testing.T) {
	t.Parallel()
	u := NewUnit(t)
	mount(t, u.StateDir("controller"), "32m")
	u.StartController()
	node := u.StartNode("n1", "main")
	u.AwaitOnline("n1", true)
	if res, err := u.Submit(Document("1.0.0", 1), ""); err != nil || res.State != "accepted" {
		t.Fatalf("%+v %v", res, err)
	}
	u.AwaitVersion("1.0.0", "n1")
	fill(t, filepath.Join(u.StateDir("controller"), "ballast"))
	accepted := "1.0.0"
	refused := ""
	for i := 1; i <= 2000 && refused == ""; i++ {
		version := fmt.Sprintf("1.%d.0", i)
		res, err := u.Submit(Document(version, i), "?offline=1")
		switch {
		case err != nil:
			refused = err.Error()
		case res.State == "accepted":
			accepted = version
		default:
			refused = fmt.Sprint(res.Error)
		}
	}
	if !strings.Contains(refused, "full") {
		t.Errorf("no word of the full disk in: %q", refused)
	}
	if u.Controller.Alive() {
		if o := u.Tandem("unit", "status"); !strings.Contains(o.Out+o.Errors, "the disk is full") {
			t.Errorf("unit status says nothing of the full disk: %+v", o)
		}
		whileItIsFull(t, u, accepted)
		if strings.Contains(node.Log(), `"msg":"no session with the broker`) {
			t.Error("the node lost its session")
		}
	} else {
		t.Error("the controller has ended")
	}
	if err := os.Remove(filepath.Join(u.StateDir("controller"), "ballast")); err != nil {
		t.Fatal(err)
	}
	u.Controller.Kill()
	u.StartController()
	if o := u.Tandem("config", "show"); !strings.Contains(o.Out, accepted) {
		t.Errorf("%s was accepted: %+v", accepted, o)
	}
	u.AwaitVersion(accepted, "n1")
	if res, err := u.Submit(Document("2.0.0", 1), ""); err != nil || res.State != "accepted" {
		t.Fatalf("with space again: %+v %v", res, err)
	}
	u.AwaitVersion("2.0.0", "n1")
}

// whileItIsFull checks that everything can be read, that nothing is taken, and why, and that the node stays.
func whileItIsFull(t *testing.T, u *Unit, accepted string) {
	t.Helper()
	status, answer, err := u.request(http.MethodGet, "/readyz", nil)
	if err != nil || status != http.StatusServiceUnavailable || !strings.Contains(string(answer), "the disk is full") {
		t.Errorf("/readyz: %d %s %v", status, answer, err)
	}
	if o := u.Tandem("config", "show"); o.Status != 0 || !strings.Contains(o.Out, accepted) {
		t.Errorf("what was accepted cannot be read: %+v", o)
	}
	file := filepath.Join(u.Dir, "next.json")
	if err := os.WriteFile(file, Document("3.0.0", 1), 0o600); err != nil {
		t.Fatal(err)
	}
	o := u.Tandem("config", "apply", file)
	if o.Status != 3 || !strings.Contains(o.Errors, "the disk is full") {
		t.Errorf("a submission: %+v", o)
	}
	for _, args := range [][]string{{"nodes"}, {"node", "n1"}, {"events"}, {"journal", "verify"}} {
		if o := u.Tandem(args...); o.Status != 0 {
			t.Errorf("%v: %+v", args, o)
		}
	}
}

// A node's disk is full: it keeps what it has and says why; with space again it gets there by
// itself.
func TestNodesDiskIsFull(t *testing.T) {
	t.Parallel()
	u := NewUnit(t)
	mount(t, u.StateDir("n1"), "8m")
	u.StartController()
	u.StartNode("n1", "main")
	u.AwaitOnline("n1", true)
	if res, err := u.Submit(Document("1.0.0", 1), ""); err != nil || res.State != "accepted" {
		t.Fatalf("%+v %v", res, err)
	}
	u.AwaitVersion("1.0.0", "n1")
	fill(t, filepath.Join(u.StateDir("n1"), "ballast"))
	if res, err := u.Submit(Document("1.1.0", 2), ""); err != nil || res.State != "accepted" {
		t.Fatalf("%+v %v", res, err)
	}
	Until(t, "the operator sees the full disk", func() string {
		if o := u.Tandem("node", "n1"); !strings.Contains(o.Out, "space") && !strings.Contains(o.Out, "full") {
			return o.Out
		}
		return ""
	})
	u.CheckFile("n1", "1.0.0")
	if err := os.Remove(filepath.Join(u.StateDir("n1"), "ballast")); err != nil {
		t.Fatal(err)
	}
	u.AwaitVersion("1.1.0", "n1")
}
