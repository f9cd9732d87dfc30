package revoked

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tandem.internal/shared/durable"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 5, time.UTC)

func open(t *testing.T, path string, steps durable.Steps) *List {
	t.Helper()
	l, err := Open(path, steps)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestNote(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	l := open(t, path, nil)
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file for nothing: %v", err)
	}
	for _, some := range []map[string]time.Time{
		{"node/n1": noon, "cloud/eu": noon.Add(time.Hour)}, {"node/n1": noon.Add(-time.Hour)}, {},
		{"node/n1": noon.Add(time.Minute).In(time.FixedZone("", 3600))},
	} {
		if err := l.Note(some); err != nil {
			t.Fatal(err)
		}
	}
	joined := map[string]time.Time{"node/n1": noon.Add(time.Hour), "node/n3": noon, "cloud/eu": noon}
	if err := l.Reached(7, joined); err != nil { // for cloud/eu the clock was set back
		t.Fatal(err)
	}
	want := map[string]time.Time{"node/n1": noon.Add(time.Minute), "cloud/eu": noon.Add(-1)}
	if again := open(t, path, nil); !maps.EqualFunc(again.All(), want, time.Time.Equal) || again.Newest() != 7 {
		t.Errorf("%v, newest %d", again.All(), again.Newest())
	}
	if err := l.Reached(5, nil); err != nil { // a backup was restored, and is what counts now
		t.Fatal(err)
	}
	if again := open(t, path, nil); len(again.All()) != 2 || again.Newest() != 5 {
		t.Errorf("%v, newest %d", again.All(), again.Newest())
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
}

// TestFaultAtEveryStep: whatever step fails, or loses the machine, the file has what was noted before, or that as well.
func TestFaultAtEveryStep(t *testing.T) {
	steps := 0
	for n := 0; n <= steps; n++ {
		for _, crash := range []bool{false, true} {
			path, at := filepath.Join(t.TempDir(), FileName), -1
			l := open(t, path, func(durable.Step) error {
				if at++; at != 6+n { // of the second Note
					return nil
				}
				if crash {
					panic("crash")
				}
				return errors.New("fault")
			})
			if err := l.Note(map[string]time.Time{"node/n1": noon}); err != nil {
				t.Fatal(err)
			}
			steps = at
			func() {
				defer func() { _ = recover() }()
				if err := l.Note(map[string]time.Time{"node/n2": noon}); err == nil != (l.All()["node/n2"] == noon) {
					t.Errorf("step %d: %v, and the list has %v", n, err, l.All())
				}
			}()
			if all := open(t, path, nil).All(); !all["node/n1"].Equal(noon) || len(all) > 2 {
				t.Errorf("step %d, crash %v: %v", n, crash, all)
			}
		}
	}
	if steps < 5 {
		t.Fatalf("%d steps were seen", steps)
	}
}

// TestEveryBit: a file of which one bit is another, or that was cut, is refused with what to do.
func TestEveryBit(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	if err := open(t, path, nil).Note(map[string]time.Time{"node/n1": noon, "node/n2": noon}); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string, n int, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if l, err := Open(path, nil); err == nil || !strings.Contains(err.Error(), "remove it") {
			t.Errorf("%s %d: %v, %v", what, n, l, err)
		}
	}
	for i := range len(good) * 8 {
		bad := append([]byte(nil), good...)
		bad[i/8] ^= 1 << (i % 8)
		refused("bit", i, bad)
	}
	for n := range good {
		refused("size", n, good[:n])
	}
}
