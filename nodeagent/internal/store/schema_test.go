package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/shared/filetest"
	"tandem.internal/shared/wire"
)

// next is the version after today's, as an agent to come may have it: it keeps the trust under another name.
func next() []schema {
	return append(slices.Clone(schemas), schema{version: 3, upgrade: func(tx *bolt.Tx) error {
		meta := tx.Bucket(bMeta)
		return errors.Join(meta.Put([]byte("believed"), meta.Get(kTrust)), meta.Delete(kTrust))
	}})
}

// old puts a file in place that an agent of an earlier version has written: v1 the one before 58914ae, v2 the one of
// af0cbf5. It has two committed documents, a third on trial, three events and the keys of the unit.
func old(t *testing.T, version string) Config {
	t.Helper()
	cfg, data := config(t), filetest.Unpacked(t, filepath.Join("testdata", version+".db.gz"))
	if err := os.WriteFile(cfg.Path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// version returns the version of a file; 0: there is none.
func version(t *testing.T, path string) (v uint64) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		return 0
	}
	db, err := openFile(path)
	if err != nil {
		t.Fatal(err)
	}
	err = db.View(func(tx *bolt.Tx) (err error) { v, err = readVersion(tx); return err })
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return v
}

// openAs opens a file as an agent that knows these versions, lets look see it, and closes it.
func openAs(t *testing.T, cfg Config, list []schema, look func(*Store)) error {
	t.Helper()
	s, err := openSchema(cfg, list)
	if err != nil {
		return err
	}
	if look != nil {
		look(s)
	}
	return s.Close()
}

// same checks that a store has what the old files have.
func same(t *testing.T, s *Store) {
	t.Helper()
	kinds, err := s.Kinds()
	if err != nil {
		t.Fatal(err)
	}
	d := kinds["config"]
	body := func(d inbox.Doc, version string) bool { return strings.Contains(string(d.Body), `"`+version+`"`) }
	if d.Running.Version != "2.0.0" || d.Flight.Doc.Version != "3.0.0" || d.Flight.Phase != inbox.Trying ||
		!body(d.Running, "2.0.0") || !body(d.Flight.Doc, "3.0.0") {
		t.Errorf("the documents are %+v", d)
	}
	if s.NewestEvent() < 3 {
		t.Errorf("the newest event is %d", s.NewestEvent())
	}
	if s.version > 2 { // whose trust stands elsewhere
		return
	}
	trust, err := s.Trust()
	if err != nil || trust.Epoch != 1 || len(trust.Keys) != 1 || len(trust.Order) != 1 {
		t.Errorf("the trust is %+v, %v", trust, err)
	}
}

// What earlier agents have written is opened, on trial and in normal operation, and what is upgraded is copied first.
func TestOldFiles(t *testing.T) {
	for _, c := range []struct {
		file   string
		trial  bool
		copied uint64
	}{{"v1", false, 1}, {"v1", true, 1}, {"v2", false, 0}, {"v2", true, 0}} {
		t.Run(fmt.Sprintf("%s, trial %v", c.file, c.trial), func(t *testing.T) {
			cfg := old(t, c.file)
			cfg.Trial = c.trial
			for boots := uint64(3); boots <= 4; boots++ {
				err := openAs(t, cfg, schemas, func(s *Store) {
					same(t, s)
					if s.Boots() != boots || s.Held() != nil {
						t.Errorf("boots %d, held %v", s.Boots(), s.Held())
					}
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			if v := version(t, cfg.Path); v != 2 {
				t.Errorf("its version is %d", v)
			}
			if v := version(t, backupPath(cfg.Path, 1)); v != c.copied {
				t.Errorf("the version of the copy is %d, want %d", v, c.copied)
			}
		})
	}
}

// An agent on trial leaves the version to the one that it replaces. After the trial the file is upgraded; the older
// agent refuses it then, and says what to do, and that helps.
func TestVersionIsRaisedAfterTheTrial(t *testing.T) {
	for _, file := range []string{"v1", "v2"} {
		t.Run(file, func(t *testing.T) {
			cfg := old(t, file)
			onTrial := cfg
			onTrial.Trial = true
			err := openAs(t, onTrial, next(), func(s *Store) {
				same(t, s)
				if _, err := s.Commit(Batch{Trust: &inbox.Trust{Epoch: 9}}); err != nil {
					t.Error(err)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			err = openAs(t, cfg, schemas, func(s *Store) { // the trial has failed: the agent before it is back
				if trust, err := s.Trust(); err != nil || trust.Epoch != 9 {
					t.Errorf("the older agent reads %+v, %v", trust, err)
				}
				if _, err := s.Commit(Batch{Trust: &inbox.Trust{Epoch: 10}}); err != nil {
					t.Error(err)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := openAs(t, cfg, next(), func(s *Store) { same(t, s) }); err != nil { // it was committed
				t.Fatal(err)
			}
			if v := version(t, cfg.Path); v != 3 {
				t.Errorf("after the trial the version is %d", v)
			}
			bak := backupPath(cfg.Path, 2)
			err = openAs(t, cfg, schemas, nil)
			if err == nil || !strings.Contains(err.Error(), "put "+bak+" in its place") {
				t.Errorf("the older agent says %v", err)
			}
			if err := os.Rename(bak, cfg.Path); err != nil {
				t.Fatal(err)
			}
			err = openAs(t, cfg, schemas, func(s *Store) {
				if trust, err := s.Trust(); err != nil || trust.Epoch != 10 {
					t.Errorf("the copy has %+v, %v", trust, err)
				}
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// The copy is a new file, whatever stands in its way: a link, or what an interrupted copy has left. What a link points
// to stays as it is.
func TestCopyFollowsNoLink(t *testing.T) {
	for _, linked := range []func(bak string) string{
		func(bak string) string { return bak + ".tmp" },
		func(bak string) string { return bak },
	} {
		cfg := old(t, "v2")
		other := filepath.Join(t.TempDir(), "other")
		if err := os.WriteFile(other, []byte("not ours"), 0o644); err != nil {
			t.Fatal(err)
		}
		bak := backupPath(cfg.Path, 2)
		if err := os.Symlink(other, linked(bak)); err != nil {
			t.Fatal(err)
		}
		err := openAs(t, cfg, next(), func(s *Store) {
			if s.Held() != nil {
				t.Errorf("not upgraded: %v", s.Held())
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(other); err != nil || string(text) != "not ours" {
			t.Errorf("what the link points to has %d bytes now, %v", len(text), err)
		}
		if info, err := os.Lstat(bak); err != nil || info.Mode() != 0o600 || version(t, bak) != 2 {
			t.Errorf("the copy: %v, %v", info, err)
		}
	}
}

// A copy that was interrupted is made anew, with the permissions that it should have.
func TestCopyReplacesWhatWasLeft(t *testing.T) {
	cfg := old(t, "v2")
	bak := backupPath(cfg.Path, 2)
	if err := os.WriteFile(bak+".tmp", []byte("half"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := openAs(t, cfg, next(), nil); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(bak); err != nil || info.Mode() != 0o600 || version(t, bak) != 2 {
		t.Errorf("the copy: %v, %v", info, err)
	}
}

// moments are those of an upgrade of a file of version 2.
var moments = []Point{Copy, Sync, Rename, SyncDir, Before, After}

// An upgrade that is killed at any step is made again by the next start, from the same file, and its copy is whole.
func TestUpgradeIsKilled(t *testing.T) {
	for _, at := range moments {
		t.Run(string(at), func(t *testing.T) {
			cfg := old(t, "v2")
			after := config(t) // the disk, as it is at that moment
			killed := cfg
			killed.Faults = func(p Point) error {
				if p == at {
					snapshot(t, filepath.Dir(cfg.Path), filepath.Dir(after.Path), p)
				}
				return nil
			}
			if err := openAs(t, killed, next(), nil); err != nil {
				t.Fatal(err)
			}
			want := uint64(2)
			if at == After {
				want = 3
			}
			if v := version(t, after.Path); v != want {
				t.Errorf("killed, its version is %d, want %d", v, want)
			}
			if err := openAs(t, after, next(), func(s *Store) { same(t, s) }); err != nil {
				t.Fatal(err)
			}
			after.Path = backupPath(after.Path, 2)
			if err := openAs(t, after, schemas, func(s *Store) { same(t, s) }); err != nil {
				t.Fatal(err)
			}
			left, err := filepath.Glob(filepath.Join(filepath.Dir(after.Path), "*.tmp"))
			if err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

// snapshot copies a directory as a power cut at that point leaves it: what was not synced is short.
func snapshot(t *testing.T, from, to string, at Point) {
	t.Helper()
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Error(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err != nil {
			t.Error(err)
		}
		if at == Sync && strings.HasSuffix(e.Name(), ".tmp") {
			data = data[:len(data)/2]
		}
		if err := os.WriteFile(filepath.Join(to, e.Name()), data, 0o600); err != nil {
			t.Error(err)
		}
	}
}

// Where there is no room for the copy the file stays as it is, and the agent works with it; an upgrade that cannot be
// written is none.
func TestUpgradeFails(t *testing.T) {
	full := errors.New("disk full")
	for _, at := range moments {
		t.Run(string(at), func(t *testing.T) {
			cfg := old(t, "v2")
			failing := cfg
			failed := false
			failing.Faults = func(p Point) error {
				if p == at && !failed {
					failed = true
					return full
				}
				return nil
			}
			held := error(nil)
			err := openAs(t, failing, next(), func(s *Store) {
				same(t, s)
				held = s.Held()
			})
			copying := at != Before && at != After
			if copying && (err != nil || !errors.Is(held, full)) || !copying && !errors.Is(err, full) || !failed {
				t.Errorf("opened with %v, held %v", err, held)
			}
			if at != After {
				if err := openAs(t, cfg, schemas, func(s *Store) { same(t, s) }); err != nil {
					t.Errorf("the older agent: %v", err)
				}
			}
			if err := openAs(t, cfg, next(), func(s *Store) { same(t, s) }); err != nil || version(t, cfg.Path) != 3 {
				t.Errorf("the next start: %v", err)
			}
			if left, err := filepath.Glob(cfg.Path + ".*.tmp"); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

// Of a file of a later version without its copy, the refusal says what else can be done.
func TestNewerFileWithoutCopy(t *testing.T) {
	cfg := old(t, "v2")
	if err := openAs(t, cfg, next(), nil); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(backupPath(cfg.Path, 2)); err != nil {
		t.Fatal(err)
	}
	const want = "has version 3; this agent knows version 2: run the newer one, or move the file away"
	if err := openAs(t, cfg, schemas, nil); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v", err)
	}
	if _, err := ReadTrust(cfg.Path, true); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("ReadTrust: %v", err)
	}
}

// Another node's file is refused before anything is made of it.
func TestForeignFileIsNotCopied(t *testing.T) {
	cfg := old(t, "v1")
	cfg.Node = "n2"
	err := openAs(t, cfg, schemas, nil)
	if err == nil || version(t, backupPath(cfg.Path, 1)) != 0 || version(t, cfg.Path) != 1 {
		t.Errorf("%v", err)
	}
}

// Forgetting the keys changes nothing else: what version the file has stays the agent's affair.
func TestForgettingKeepsTheVersion(t *testing.T) {
	cfg := old(t, "v1")
	b, err := ReadTrust(cfg.Path, true)
	if err != nil || len(b.Trust.Keys) != 1 || version(t, cfg.Path) != 1 {
		t.Errorf("%+v, %v", b, err)
	}
	err = openAs(t, cfg, schemas, func(s *Store) {
		if trust, err := s.Trust(); err != nil || len(trust.Keys) != 0 || trust.Epoch != 1 {
			t.Errorf("%+v, %v", trust, err)
		}
		if kinds, err := s.Kinds(); err != nil || kinds[wire.KindConfig].Running.Version != "2.0.0" {
			t.Errorf("%v", err)
		}
	})
	if err != nil {
		t.Error(err)
	}
}
