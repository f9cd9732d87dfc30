package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/shared/wire"
)

// saved is a Config whose file has the small life of live, and is closed.
func saved(t *testing.T) Config {
	cfg := inMemory(t)
	images(t, cfg)
	return cfg
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A node that lost its state begins with its marks, if they are whole: it believes whom it believed, and takes for old
// what was old. The loss is remembered until it was reported, and then, too.
func TestMarks(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(cfg *Config) error
		marks  bool
		reason string
	}{
		{"damaged", func(cfg *Config) error { return os.Truncate(cfg.Path, 5000) }, true, "cut short"},
		{"empty", func(cfg *Config) error { return os.Truncate(cfg.Path, 0) }, true, "it is empty"},
		{"gone", func(cfg *Config) error { return os.Remove(cfg.Path) }, true, "state.marks is there"},
		{"gone with its marks", func(cfg *Config) error {
			cfg.Had = "config.json is there"
			return errors.Join(os.Remove(cfg.Path), os.Remove(cfg.marksPath()))
		}, false, "it is gone, and config.json is there"},
		{"damaged with its marks", func(cfg *Config) error {
			return errors.Join(os.Truncate(cfg.Path, 0), os.Truncate(cfg.marksPath(), 100))
		}, false, "state.marks cannot be used: it does not have its hash"},
		{"damaged with another's marks", func(cfg *Config) error {
			theirs := config(t)
			theirs.Node = "n2"
			_, err := open(t, theirs).Commit(Batch{Kinds: []Kind{{"config", full()}}})
			data, rerr := os.ReadFile(theirs.marksPath())
			return errors.Join(err, rerr, os.WriteFile(cfg.marksPath(), data, 0o600), os.Truncate(cfg.Path, 0))
		}, false, "state.marks cannot be used: it is of another node"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := saved(t)
			s := open(t, cfg)
			before, err := s.Trust()
			if err = errors.Join(err, s.Close(), c.damage(&cfg)); err != nil {
				t.Fatal(err)
			}
			s = open(t, cfg)
			l := s.Loss()
			if l == nil || l.Marks != c.marks || l.Reported || !strings.Contains(l.Reason, c.reason) ||
				(l.Kept == "") != strings.HasPrefix(c.name, "gone") {
				t.Fatalf("the loss is %+v", l)
			}
			got, err := s.Trust()
			if want := begun(before, c.marks); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("the trust is  %+v, %v\nit should be %+v", got, err, want)
			}
			if _, err := s.Commit(Batch{Events: happened("state-lost"), LossReported: true}); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if l := open(t, cfg).Loss(); l == nil || !l.Reported {
				t.Errorf("after it was reported the loss is %+v", l)
			}
		})
	}
}

// begun is what a node begins with that had this trust, and documents with the stamps of full.
func begun(before inbox.Trust, marks bool) inbox.Trust {
	if !marks {
		return inbox.Trust{}
	}
	high := full().High // which is below the floor of config
	before.Floor.Kinds = map[wire.Kind]wire.Stamp{"config": {Epoch: 7, Rev: 2}, "workloads": high}
	return before
}

// A node without any of it is a new one, and a file of nothing but its beginning is no loss when it is opened again.
func TestNewNode(t *testing.T) {
	cfg := config(t)
	for range 2 {
		s := open(t, cfg)
		if l := s.Loss(); l != nil {
			t.Errorf("a new node has lost %+v", l)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(cfg.marksPath()); err == nil {
		t.Error("a node that believes nobody has marks")
	}
}

// Whatever step of the replacement fails, the damaged file is still there, whole, and the next start replaces it.
func TestReplacementFails(t *testing.T) {
	full := errors.New("no space left")
	for _, point := range []Point{Copy, Rename, SyncDir} {
		cfg := saved(t)
		write(t, cfg.Path, []byte("damaged"))
		cfg.Faults = func(p Point) error {
			if p == point {
				return full
			}
			return nil
		}
		if _, err := Open(cfg); !errors.Is(err, full) || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%s: %v", point, err)
		}
		cfg.Faults = nil
		s := open(t, cfg)
		if l := s.Loss(); l == nil || !l.Marks || l.Reported {
			t.Errorf("%s: the loss is %+v", point, l)
		} else if data, err := os.ReadFile(filepath.Join(filepath.Dir(cfg.Path), l.Kept)); string(data) != "damaged" {
			t.Errorf("%s: %q was kept, %v", point, data, err)
		}
		if left, err := cfg.beside(newMark); err != nil || len(left) > 0 {
			t.Errorf("%s: %v is left, %v", point, left, err)
		}
	}
}

// A crash between two renames, without hard links: the damaged file that is kept shows that there was one.
func TestReplacementInHalf(t *testing.T) {
	cfg := config(t)
	write(t, filepath.Join(filepath.Dir(cfg.Path), "state.db"+keptMark+"20261120T100000Z"), []byte("damaged"))
	if l := open(t, cfg).Loss(); l == nil || !strings.Contains(l.Reason, "20261120T100000Z is there") {
		t.Errorf("the loss is %+v", l)
	}
}

// The newest three damaged files are kept.
func TestKeptIsBounded(t *testing.T) {
	cfg := inMemory(t)
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	cfg.Now = func() time.Time { return now }
	for i := range 5 {
		write(t, cfg.Path, fmt.Append(nil, i))
		if err := open(t, cfg).Close(); err != nil {
			t.Fatal(err)
		}
		if i != 3 { // two in one second
			now = now.Add(time.Hour)
		}
	}
	kept, err := cfg.beside(keptMark)
	want := "[state.db.bad-20261120T120000Z state.db.bad-20261120T130000Z state.db.bad-20261120T130000Z.01]"
	if fmt.Sprint(kept) != want || err != nil {
		t.Errorf("kept are %v, %v", kept, err)
	}
}

// A disk that does not keep what is written ends the agent, and does not turn in a circle.
func TestDiskThatKeepsNothing(t *testing.T) {
	cfg := saved(t)
	write(t, cfg.Path, nil)
	cfg.Faults = func(p Point) error {
		if p == SyncDir {
			return os.Truncate(cfg.Path, 100)
		}
		return nil
	}
	if _, err := Open(cfg); err == nil || !strings.Contains(err.Error(), "does not keep what is written") {
		t.Error(err)
	}
}

// A file that another agent uses is not judged: it may be half written.
func TestDamagedInUse(t *testing.T) {
	cfg := saved(t)
	s := open(t, cfg)
	if err := os.Truncate(cfg.Path, 4096*2); err != nil { // behind its back
		t.Fatal(err)
	}
	if _, err := Open(cfg); err == nil || !strings.Contains(err.Error(), "another tandem-node runs") {
		t.Error(err)
	}
	if kept, err := cfg.beside(keptMark); err != nil || len(kept) > 0 {
		t.Errorf("kept are %v, %v", kept, err)
	}
	_ = s.Close()
}

// raw changes the file as an agent does that knows no sums.
func raw(t *testing.T, cfg Config, starts bool, f func(tx *bolt.Tx) error) {
	t.Helper()
	db, err := bolt.Open(cfg.Path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if starts {
		err = db.Update(func(tx *bolt.Tx) error {
			n, err := number(tx.Bucket(bMeta).Get(kBoots))
			return errors.Join(err, tx.Bucket(bMeta).Put(kBoots, decimal(n+1)))
		})
	}
	if err = errors.Join(err, db.Update(f), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// What an older agent has written, to which a trial went back, is taken over; a body that is not what its document says
// is damage there, too, and so is what was written without a start.
func TestAgentWithoutSums(t *testing.T) {
	boot := func(tx *bolt.Tx) error { return tx.Bucket(bMeta).Put(kAcked, []byte("4")) }
	body := func(tx *bolt.Tx) error {
		return tx.Bucket(bKind).Bucket([]byte("config")).Put(kRunning, []byte("another"))
	}
	for _, c := range []struct {
		name   string
		starts bool
		write  func(tx *bolt.Tx) error
		reason string
	}{
		{"it has started and written", true, boot, ""},
		{"it has written a wrong body", true, body, "does not have its hash"},
		{"it has written a number that is none", true, func(tx *bolt.Tx) error {
			return tx.Bucket(bMeta).Put(kAcked, []byte("4x"))
		}, `bad number "4x"`},
		{"it has removed the version", true, func(tx *bolt.Tx) error { return tx.Bucket(bMeta).Delete(kVersion) },
			"no version"},
		{"something was written without a start", false, boot, "not those that were written"},
	} {
		cfg := saved(t)
		raw(t, cfg, c.starts, c.write)
		for range 2 {
			s := open(t, cfg)
			if l := s.Loss(); (l == nil) != (c.reason == "") || l != nil && !strings.Contains(l.Reason, c.reason) {
				t.Errorf("%s: the loss is %+v", c.name, l)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// tandem-node trust looks at a damaged file and leaves it as it is. After a reset, the sum and the marks are of what is
// left.
func TestReadTrustAndDamage(t *testing.T) {
	cfg := saved(t)
	if b, err := ReadTrust(cfg.Path, true); err != nil || len(b.Trust.Keys) != 1 {
		t.Fatalf("%+v, %v", b, err)
	}
	s := open(t, cfg)
	if l := s.Loss(); l != nil {
		t.Errorf("after a reset: %+v", l)
	}
	if err := errors.Join(s.Close(), os.Truncate(cfg.Path, 6000)); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadTrust(cfg.Path, true); err == nil || !strings.Contains(err.Error(), "keeps it aside") {
		t.Error(err)
	}
	if info, err := os.Stat(cfg.Path); err != nil || info.Size() != 6000 {
		t.Errorf("%v, %v", info, err)
	}
	s = open(t, cfg)
	if trust, err := s.Trust(); err != nil || len(trust.Keys) != 0 || trust.Epoch != 7 || len(trust.Floor.Kinds) != 2 {
		t.Errorf("the marks bring back what was reset: %+v, %v", trust, err)
	}
}

// Marks that cannot be written delay nothing, and are written with a later commit, or at the next start.
func TestMarksAreWrittenLater(t *testing.T) {
	cfg := inMemory(t)
	warned, broken := 0, true
	cfg.Warn = func(error) { warned++ }
	cfg.Faults = func(p Point) error {
		if p == Mark && broken {
			return errors.New("no space left")
		}
		return nil
	}
	s := open(t, cfg)
	if _, err := s.Commit(Batch{Kinds: []Kind{{"config", full()}}}); err != nil || warned != 1 {
		t.Errorf("%v, %d warnings", err, warned)
	}
	broken = false
	if _, err := s.Commit(Batch{Events: happened("a")}); err != nil || warned != 1 {
		t.Errorf("%v, %d warnings", err, warned)
	}
	if m, _, err := cfg.readMarks(); err != nil || m.Kinds["config"] != full().High {
		t.Errorf("%+v, %v", m, err)
	}
	if err := errors.Join(s.Close(), os.Remove(cfg.marksPath())); err != nil {
		t.Fatal(err)
	}
	open(t, cfg)
	if m, _, err := cfg.readMarks(); err != nil || m.Kinds["config"] != full().High {
		t.Errorf("%+v, %v", m, err)
	}
}

// Who waited for the lock of a file that was replaced meanwhile does not take it for the node's.
func TestReplacedWhileWaiting(t *testing.T) {
	cfg := saved(t)
	f, err := lock(cfg.Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := named(f, cfg.Path); err != nil {
		t.Error(err)
	}
	if err := os.Rename(cfg.Path, cfg.Path+".old"); err != nil {
		t.Fatal(err)
	}
	if err := named(f, cfg.Path); !errors.Is(err, errMoved) {
		t.Errorf("gone: %v", err)
	}
	write(t, cfg.Path, nil)
	if err := named(f, cfg.Path); !errors.Is(err, errMoved) {
		t.Errorf("replaced: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
