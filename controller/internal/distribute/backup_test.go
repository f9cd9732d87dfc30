package distribute_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"filippo.io/age"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/op"
)

// owner is a caller who may say whom a backup is for.
type owner struct{ caller.Caller }

func (owner) OwnsFiles() bool { return true }

// slow takes a piece in so much time.
type slow struct {
	n     int
	pause time.Duration
	first chan struct{} // closed at the first piece
}

func (s *slow) Write(b []byte) (int, error) {
	if s.n == 0 {
		close(s.first)
	}
	s.n += len(b)
	time.Sleep(s.pause) // of the bubble
	return len(b), nil
}

// TestOneBackupAtATime: a second backup, of the unit or the journal, is refused while one is being made, and who reads
// one slowly is ended, so that it does not keep others out.
func TestOneBackupAtATime(t *testing.T) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.start()
		ctx := caller.With(t.Context(), owner{caller.From(as(t.Context(), "tester"))})
		unit := func(w io.Writer) error {
			return u.core.BackupUnit(ctx, op.BackupIn{To: []string{key.Recipient().String()}}, w)
		}
		journal := func(w io.Writer) error { return u.core.Backup(ctx, w) }
		for _, first := range []func(io.Writer) error{unit, journal} {
			w := &slow{pause: 50 * time.Second, first: make(chan struct{})}
			done, begun := make(chan error, 1), time.Now()
			go func() { done <- first(w) }()
			select {
			case <-w.first:
			case err := <-done:
				t.Fatal(err)
			}
			for _, second := range []func(io.Writer) error{unit, journal} {
				var b bytes.Buffer
				if err := second(&b); err == nil || !strings.Contains(err.Error(), "another backup") || b.Len() > 0 {
					t.Errorf("a second one: %v, %d bytes", err, b.Len())
				}
			}
			if err := <-done; err == nil || !strings.Contains(err.Error(), "was given up") {
				t.Errorf("a slow reader: %v after %d bytes", err, w.n)
			}
			if took := time.Since(begun); took > 3*time.Minute {
				t.Errorf("it had %v", took)
			}
			for _, again := range []func(io.Writer) error{unit, journal} {
				if err := again(io.Discard); err != nil {
					t.Errorf("afterwards: %v", err)
				}
			}
		}
		synctest.Wait()
	})
}

// TestBackupsThatStopped: where backups are wanted, that none was made for three times as long is told, also after a
// start; one that was cut off is none.
func TestBackupsThatStopped(t *testing.T) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		told := func(when, want string) {
			t.Helper()
			s, err := u.core.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Join(s.Trouble, "\n")
			if want == "" && strings.Contains(text, "backup") || !strings.Contains(text, want) {
				t.Errorf("%s: %q, want %q", when, text, want)
			}
		}
		const day = 24 * time.Hour // of the bubble
		u.start()
		time.Sleep(9 * day)
		told("nobody is named", "")
		u.backupTo = []string{key.Recipient().String()}
		u.restart()
		from := time.Now().UTC().Format(time.RFC3339)
		told("a start", "")
		for range 4 { // it is not begun anew by starts
			time.Sleep(day)
			u.restart()
		}
		told("none yet", "no backup was ever made, and the settings want them since "+from+
			", 4d ago; one is wanted every 1d")
		cut := &limited{room: 1000}
		if err := u.core.BackupUnit(as(t.Context(), "timer"), op.BackupIn{}, cut); err == nil {
			t.Error("a backup was made without room")
		}
		told("one that was cut off", "no backup was ever made")
		var b bytes.Buffer
		if err := u.core.BackupUnit(as(t.Context(), "timer"), op.BackupIn{}, &b); err != nil {
			t.Fatal(err)
		}
		told("one was made", "")
		made := time.Now().UTC().Format(time.RFC3339)
		time.Sleep(2 * day)
		told("a night was left out", "")
		time.Sleep(day)
		told("three were", "no backup was made since "+made+", 3d ago; one is wanted every 1d")
		u.restart()
		told("started again", "no backup was made since "+made)
		if n := u.entries("backup"); n != 1 {
			t.Errorf("%d records", n)
		}
	})
}

// limited takes so many bytes.
type limited struct{ room int }

func (l *limited) Write(b []byte) (int, error) {
	if l.room -= len(b); l.room < 0 {
		return 0, io.ErrShortWrite
	}
	return len(b), nil
}
