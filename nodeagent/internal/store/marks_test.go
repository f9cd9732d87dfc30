package store

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/shared/filetest"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/wire"
)

// accept saves that a document of this number was accepted.
func accept(t *testing.T, s *Store, rev uint64) {
	t.Helper()
	state := full()
	state.High.Rev = rev
	if _, err := s.Commit(Batch{Kinds: []Kind{{"config", state}}}); err != nil {
		t.Fatal(err)
	}
}

func believe(t *testing.T, s *Store, key string) {
	t.Helper()
	trust := inbox.Trust{Epoch: 7, Keys: seal.Trust{key: make([]byte, 32)}, Order: []string{key}}
	if _, err := s.Commit(Batch{Trust: &trust}); err != nil {
		t.Fatal(err)
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Whatever bit flips, and wherever a write stops, the marks are those of the newest write or of the one before, and
// with both halves damaged there are none. The next start writes what is missing.
func TestMarksHalves(t *testing.T) {
	cfg := inMemory(t)
	s := open(t, cfg)
	believe(t, s, "k")
	for rev := uint64(3); rev < 6; rev++ {
		accept(t, s, rev)
	}
	before := readFile(t, cfg.marksPath())
	accept(t, s, 6)
	after := readFile(t, cfg.marksPath())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	newest, _, err := cfg.readMarks()
	if err != nil || newest.Kinds["config"].Rev != 6 {
		t.Fatalf("%+v, %v", newest, err)
	}
	rev := func(what string, file []byte) uint64 {
		write(t, cfg.marksPath(), file)
		m, _, err := cfg.readMarks()
		if err != nil || !reflect.DeepEqual(m.Trust, newest.Trust) || m.Events != newest.Events {
			t.Fatalf("%s: %+v, %v", what, m, err)
		}
		return m.Kinds["config"].Rev
	}
	chance, in, bits := filetest.Chance(t), 0, len(after)*8
	for i := range bits {
		if !filetest.EveryBit() && chance.IntN(bits) >= sampled {
			continue
		}
		file := filetest.Flipped(after, i)
		want := uint64(6)
		if uint64(i/8/(len(file)/2)) == newest.N%2 {
			want, in = 5, in+1
		}
		if got := rev(fmt.Sprintf("bit %d", i), file); got != want {
			t.Fatalf("bit %d: the marks are of %d, want %d", i, got, want)
		}
	}
	if in == 0 {
		t.Error("no bit of the newest half was flipped")
	}
	at := int(newest.N%2) * len(after) / 2
	for cut := at; cut < at+len(after)/2; cut += 7 {
		file := append([]byte(nil), before...)
		copy(file[at:cut], after[at:cut])
		if got := rev(fmt.Sprintf("cut at %d", cut), file); got != 5 && got != 6 {
			t.Fatalf("a write that stopped at %d: the marks are of %d", cut, got)
		}
	}
	if err := open(t, cfg).Close(); err != nil {
		t.Fatal(err)
	}
	if m, _, err := cfg.readMarks(); err != nil || m.Kinds["config"].Rev != 6 {
		t.Errorf("after a start: %+v, %v", m, err)
	}
	after[0], after[len(after)/2] = 'x', 'x'
	write(t, cfg.marksPath(), after)
	if _, _, err := cfg.readMarks(); err == nil || !strings.Contains(err.Error(), "does not have its hash") {
		t.Errorf("both halves are damaged: %v", err)
	}
}

// A newer stamp is written in place. What the node does not believe any more is in neither half.
func TestMarksInPlace(t *testing.T) {
	cfg := inMemory(t)
	s := open(t, cfg)
	believe(t, s, "first")
	accept(t, s, 3)
	file, err := os.Stat(cfg.marksPath())
	if err != nil {
		t.Fatal(err)
	}
	for rev := uint64(4); rev < 7; rev++ {
		accept(t, s, rev)
		now, err := os.Stat(cfg.marksPath())
		if err != nil || !os.SameFile(file, now) || now.Size() != file.Size() {
			t.Fatalf("rev %d made a new file: %v", rev, err)
		}
		if m, _, err := cfg.readMarks(); err != nil || m.Kinds["config"] != (wire.Stamp{Epoch: 1, Rev: rev}) {
			t.Errorf("%+v, %v", m, err)
		}
	}
	believe(t, s, "second")
	if text := string(readFile(t, cfg.marksPath())); strings.Contains(text, "first") ||
		strings.Count(text, `"second"`) != 4 {
		t.Errorf("the marks are %s", text)
	}
	accept(t, s, 7)
	if text := string(readFile(t, cfg.marksPath())); strings.Contains(text, "first") {
		t.Errorf("the marks are %s", text)
	}
}

// Where the file cannot be written in place, another takes its place: it is gone, a link, or too short.
func TestMarksAnew(t *testing.T) {
	cfg := inMemory(t)
	s := open(t, cfg)
	believe(t, s, "k")
	accept(t, s, 3)
	other := filepath.Join(filepath.Dir(cfg.Path), "other")
	for i, change := range []func() error{
		func() error { return os.Remove(cfg.marksPath()) },
		func() error {
			write(t, other, []byte("theirs"))
			if err := os.Remove(cfg.marksPath()); err != nil {
				return err
			}
			return os.Symlink(other, cfg.marksPath())
		},
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		accept(t, s, uint64(4+i))
		info, err := os.Lstat(cfg.marksPath())
		if err != nil || !info.Mode().IsRegular() || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
		if m, _, err := cfg.readMarks(); err != nil || m.Kinds["config"].Rev != uint64(4+i) {
			t.Errorf("%+v, %v", m, err)
		}
	}
	if string(readFile(t, other)) != "theirs" {
		t.Error("the file behind a link was written")
	}
	// more kinds than there is room for in the half
	var many []Kind
	for i := range 100 {
		many = append(many, Kind{wire.Kind(fmt.Sprintf("kind-%032d", i)), full()})
	}
	if _, err := s.Commit(Batch{Kinds: many}); err != nil {
		t.Fatal(err)
	}
	if m, half, err := cfg.readMarks(); err != nil || len(m.Kinds) != 101 || half%leastHalf != 0 || half == leastHalf {
		t.Errorf("%d kinds, a half has %d bytes, %v", len(m.Kinds), half, err)
	}
}
