package app

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"

	"tandem.internal/controller/internal/ca"
	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/revoked"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/durable"
)

// firstStart is a restored unit, and how it is started.
type firstStart struct {
	*testing.T
	cfg Config
	now func() time.Time
}

// run does something with a controller on a directory that has begun, and ends it.
func (s *firstStart) run(dir string, deps Deps, do func(a *App)) {
	s.Helper()
	cfg := s.cfg
	cfg.StateDir = dir
	deps.NoAPI, deps.Now, deps.Machine = true, s.now, ThisMachine()
	a, err := New(cfg, deps)
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	do(a)
	cancel()
	if err := <-done; err != nil {
		s.Error(err)
	}
}

func (s *firstStart) member(a *App, ev enrol.Event) error {
	return a.core.Enrolment(As(s.Context(), "tester"), ev)
}

func (s *firstStart) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// joining is what a node does that has a token.
func joining(a *App, node, token string) enrol.Join {
	return enrol.Join{Subject: "node/" + node, Hash: token, Key: "key " + node, Serial: "1a",
		CA: a.trust.ca.Fingerprint().String(), Expires: a.clock.Now().Add(time.Hour), From: "10.0.0.9"}
}

// copyOf copies a state directory as it is on the disk.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(path, dir))
		if d.IsDir() {
			return os.Mkdir(target, 0o700)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// restoredUnit is the state directory of a unit that was just restored where the clock is behind. It has an open token
// and an open batch; node/stolen has a certificate, and node/unheard one that is younger than the backup: both were
// named as revoked.
func (s *firstStart) restoredUnit() string {
	id, err := age.GenerateX25519Identity()
	s.must(err)
	s.cfg.BackupTo = []string{id.Recipient().String()}
	right := s.now
	s.now = time.Now
	defer func() { s.now = right }()
	var file bytes.Buffer
	s.run(s.TempDir(), Deps{}, func(a *App) {
		s.must(s.member(a, enrol.Enrol{Subject: "node/n1", Hash: "a"}))
		s.must(s.member(a, enrol.Enrol{Subject: "node/stolen", Hash: "s"}))
		s.must(s.member(a, joining(a, "stolen", "s")))
		s.must(s.member(a, enrol.NewBatch{Name: "line4", Hash: "e", Count: 5, From: []string{"10.0.0.0/8"},
			OnSight: true}))
		_, err := a.core.RotateKey(As(s.Context(), "ann"), op.RotateKey{})
		s.must(err)
		_, err = a.core.RotateCA(As(s.Context(), "ann"), op.RotateCA{})
		s.must(err)
		s.must(a.core.BackupUnit(As(s.Context(), "ann"), op.BackupIn{}, &file))
	})
	dir := s.TempDir()
	_, err = Restore{Dir: dir, Now: right, Revoked: []string{"node/stolen", "node/unheard"}}.Run(s.Context(), &file,
		[]age.Identity{id})
	s.must(err)
	return dir
}

// outcome is what a controller has made of the restored unit.
func (s *firstStart) outcome(dir string) string {
	var b strings.Builder
	s.run(dir, Deps{}, func(a *App) {
		notes, err := a.core.Entries(s.Context(), view.EntryFilter{Types: []string{"note"}})
		s.must(err)
		restored := 0
		for _, n := range notes {
			if n.Who == "restore" {
				restored++
			}
		}
		fmt.Fprintf(&b, "told %d times of the restore", restored)
		for what, err := range map[string]error{
			"the token of n1":           s.member(a, joining(a, "n1", "a")),
			"the batch":                 s.member(a, joining(a, "n2", "e")),
			"the certificate of stolen": a.core.Certified("node/stolen", "1a"),
			"a younger one of unheard": a.core.Admit(s.Context(), ca.Peer{Subject: "node/unheard", Serial: "2",
				Key: "key", From: a.origin.At, Expires: s.now().Add(time.Hour)}, "10.0.0.9"),
		} {
			if err == nil {
				fmt.Fprintf(&b, "; %s counts", what)
			}
		}
	})
	list, err := revoked.Open(filepath.Join(dir, revoked.FileName), nil)
	s.must(err)
	j, err := journal.Open(filepath.Join(dir, "journal.db"), journal.Options{ReadOnly: true})
	s.must(err)
	if list.Newest() > j.Last() {
		fmt.Fprintf(&b, "; the journal of %d records is still older than %d", j.Last(), list.Newest())
	}
	s.must(j.Close())
	return b.String()
}

// TestFirstStartAfterARestore: wherever the first start after a restore is killed, with the clock behind the backup,
// and wherever the next one is, too, what the last one makes of it is the same: open tokens and batches do not count,
// whoever was named as revoked is out, and the journal notes the restore once.
func TestFirstStartAfterARestore(t *testing.T) {
	const want = "told 1 times of the restore"
	for name, lost := range map[string]bool{"as it was": false, "without a key and a CA": true} {
		t.Run(name, func(t *testing.T) {
			s := &firstStart{T: t, cfg: Config{Unit: "u1", ListenTLS: "127.0.0.1:0", SubscribeQoS: 1},
				now: func() time.Time { return time.Now().Add(-30 * time.Minute) }}
			dir := s.restoredUnit()
			if lost { // other records come first
				s.cfg.NewKey, s.cfg.NewCA = true, true
				s.must(os.Remove(filepath.Join(dir, "unit-key.pem")))
				s.must(os.Remove(filepath.Join(dir, "ca-key.pem")))
			}
			if got := s.outcome(copyOf(t, dir)); got != want {
				t.Errorf("not killed: %s", got)
			}
			for i, killed := range s.kills(dir) {
				var again []kill
				if killed.at == "after a commit" {
					again = s.kills(killed.dir)
				}
				for k, twice := range again {
					if k%5 != i%5 {
						continue // a sample of them
					}
					if got := s.outcome(twice.dir); got != want {
						t.Errorf("killed at %d, %s, and then at %d, %s: %s", i, killed.at, k, twice.at, got)
					}
				}
				if got := s.outcome(killed.dir); got != want {
					t.Errorf("killed at %d, %s: %s", i, killed.at, got)
				}
			}
		})
	}
}

// kill is what a start has left that was killed before a step on the disk.
type kill struct{ at, dir string }

// kills starts a controller on a copy of a directory, and returns what is on the disk before each of its steps, until
// its first records are durable.
func (s *firstStart) kills(dir string) (all []kill) {
	dir = copyOf(s.T, dir)
	var mu sync.Mutex // also while the journal's file is written
	look := func(at string) { all = append(all, kill{at, copyOf(s.T, dir)}) }
	deps := Deps{Steps: func(step durable.Step) error {
		mu.Lock()
		defer mu.Unlock()
		look(string(step))
		return nil
	}}
	deps.JournalFaults.BeforeCommit = func() error {
		mu.Lock()
		look("before a commit")
		return nil
	}
	deps.JournalFaults.AfterCommit = func() error {
		look("after a commit")
		mu.Unlock()
		return nil
	}
	s.run(dir, deps, func(a *App) {
		_, err := a.core.Entries(s.Context(), view.EntryFilter{Limit: 1}) // the loop has begun
		s.must(err)
	})
	mu.Lock()
	defer mu.Unlock()
	if len(all) < 10 {
		s.Errorf("%d steps were seen", len(all))
	}
	return all
}
