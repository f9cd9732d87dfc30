package distribute_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/controller/internal/backup"
	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// A backup of the journal that is put back stands beside a newer readable copy. Nothing is sent before
// somebody has chosen between the two, and either way leads the nodes there, whatever they ran.
func TestRestoredBackup(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(u *seedUnit) // the start with the backup
		choose func(u *seedUnit)
		want   string
	}{
		{name: "the file is applied", choose: func(u *seedUnit) { u.install(u.file()) }, want: "2.0.0"},
		{name: "the journal is taken", choose: func(u *seedUnit) {
			if _, err := u.core.Restore(as(u.Context(), "tester"), wire.KindConfig); err != nil {
				u.Fatal(err)
			}
		}, want: "1.0.0"},
		{name: "the file was taken away", before: func(u *seedUnit) {
			if err := os.Remove(u.copyPath()); err != nil {
				u.Fatal(err)
			}
		}, want: "1.0.0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inSeedUnit(t, func(t *testing.T, u *seedUnit) {
				u.start()
				n := u.node("node-1", "mainType")
				u.install(seedDoc("1.0.0"))
				var backup bytes.Buffer
				if err := u.core.Backup(u.Context(), &backup); err != nil {
					t.Fatal(err)
				}
				u.install(seedDoc("2.0.0"))
				n.received()
				u.stop()
				if err := os.WriteFile(filepath.Join(u.dir, "journal.db"), backup.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
				if c.before != nil {
					c.before(u)
				}
				u.start()
				if c.choose != nil {
					u.wantState("failed 1.0.0 hash-mismatch")
					if got := n.received(); got != "" {
						t.Errorf("nobody has chosen, and the node got %q", got)
					}
					c.choose(u)
					synctest.Wait()
				}
				u.wantState("installed " + c.want)
				if got := n.received(); got != c.want || u.file() != seedDoc(c.want) {
					t.Errorf("the node got %q, want %q; the file is %s", got, c.want, u.file())
				}
			})
		})
	}
}

// TestRestoredBackupRevokesAgain: who was revoked after a backup stays so when that is restored; who has joined anew
// since does, too, until it joins once more. A backup that knows of the join lets it in, whatever the clock showed.
func TestRestoredBackupRevokesAgain(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		member := func(ev enrol.Event) {
			time.Sleep(time.Second) // of the bubble
			if err := u.core.Enrolment(as(t.Context(), "tester"), ev); err != nil {
				t.Fatal(err)
			}
		}
		join := func(node, token string) {
			member(enrol.Enrol{Subject: "node/" + node, Hash: token})
			member(enrol.Join{Subject: "node/" + node, Hash: token, Key: "key-" + token, Serial: "1" + token,
				Expires: time.Now().Add(24 * time.Hour), CA: "ca"})
		}
		backup := func() (all bytes.Buffer) {
			if err := u.core.Backup(t.Context(), &all); err != nil {
				t.Fatal(err)
			}
			return all
		}
		restore := func(b bytes.Buffer) {
			u.stop()
			if err := os.WriteFile(filepath.Join(u.dir, "journal.db"), b.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			u.start()
		}
		let := func(when string, want ...string) {
			t.Helper()
			var got []string
			for _, at := range []string{"stays a", "stolen b", "back c", "back d"} {
				node, token, _ := strings.Cut(at, " ")
				if u.core.Certified("node/"+node, "1"+token) == nil {
					got = append(got, at)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: let in are %q, want %q", when, got, want)
			}
		}
		u.start()
		join("stays", "a")
		join("stolen", "b")
		join("back", "c")
		before := backup()
		member(enrol.Revoke{Subject: "node/stolen"})
		member(enrol.Revoke{Subject: "node/back"})
		join("back", "d")
		let("before", "stays a", "back d")
		after := backup()
		restore(before)
		let("restored", "stays a") // the certificate c was revoked
		join("back", "d")
		let("joined once more", "stays a", "back d")
		restore(after)
		let("restored to after the join", "stays a", "back d")
		u.stop()
		u.start()
		let("started again", "stays a", "back d")
		u.stop()
		if err := os.Remove(filepath.Join(u.dir, "revoked.txt")); err != nil {
			t.Fatal(err)
		}
		u.start() // the file is made anew of what the journal has
		restore(before)
		let("restored once more", "stays a", "back c") // it had joined: that it was revoked, the journal had forgotten
	})
}

// TestRestoredBackupWithdrawsTokens: a token that was open when a backup was made, and used since, does not count once
// more when that is restored, nor does any other of it. What has a certificate of the backup stays in.
func TestRestoredBackupWithdrawsTokens(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		member := func(ev enrol.Event) error {
			time.Sleep(time.Second) // of the bubble
			return u.core.Enrolment(as(t.Context(), "tester"), ev)
		}
		join := func(node, token, key string) error {
			return member(enrol.Join{Subject: "node/" + node, Hash: token, Key: key, Serial: "1" + key,
				Expires: time.Now().Add(24 * time.Hour), CA: "ca"})
		}
		do := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		u.start()
		do(member(enrol.Enrol{Subject: "node/n1", Hash: "a"}))
		do(join("n1", "a", "k1"))
		do(member(enrol.Enrol{Subject: "node/n1", Hash: "b"})) // for an exchange of hardware
		do(member(enrol.Enrol{Subject: "node/n2", Hash: "c"}))
		do(member(enrol.NewBatch{Name: "line4", Hash: "e", Count: 1, From: []string{"10.0.0.0/8"}, OnSight: true}))
		u.stop() // started again in between: that alone withdraws nothing
		u.start()
		var backup bytes.Buffer
		do(u.core.Backup(t.Context(), &backup))
		do(join("n2", "c", "k2"))
		byBatch := func(node string) error {
			return member(enrol.Join{Subject: "node/" + node, Hash: "e", Key: "k-" + node, Serial: "1-" + node,
				Expires: time.Now().Add(24 * time.Hour), CA: "ca", From: "10.0.0.9"})
		}
		do(byBatch("n3"))
		for _, restart := range []bool{false, true} {
			u.stop()
			if !restart {
				do(os.WriteFile(filepath.Join(u.dir, "journal.db"), backup.Bytes(), 0o600))
			}
			u.start()
			for node, token := range map[string]string{"n1": "b", "n2": "c"} {
				err := join(node, token, "k3"+node)
				if err == nil || !strings.Contains(err.Error(), "the token was withdrawn") {
					t.Errorf("%s joins with the token of the backup: %v", node, err)
				}
			}
			// By its count one more could join: the backup does not know that n3 has.
			if err := byBatch("n4"); err == nil || !strings.Contains(err.Error(), "was revoked") {
				t.Errorf("n4 joins by the batch of the backup: %v", err)
			}
			if err := u.core.Certified("node/n1", "1k1"); err != nil {
				t.Errorf("a node of the backup is refused: %v", err)
			}
		}
		do(member(enrol.Enrol{Subject: "node/n2", Hash: "d"}))
		u.stop()
		u.start()
		do(join("n2", "d", "k4"))
	})
}

// TestRestoredWhereTheClockIsWrong: on a machine whose clock stands before the backup, or far behind its tokens' end,
// too, its open tokens and batches are withdrawn, although the journal has grown by then; and so is who was named as
// revoked.
func TestRestoredWhereTheClockIsWrong(t *testing.T) {
	for _, off := range []time.Duration{-30 * time.Minute, 50 * time.Hour} {
		t.Run(off.String(), func(t *testing.T) { restoredWithClock(t, off) })
	}
}

func restoredWithClock(t *testing.T, off time.Duration) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		member := func(ev enrol.Event) error { return u.core.Enrolment(as(t.Context(), "tester"), ev) }
		u.start()
		time.Sleep(time.Hour) // of the bubble
		for _, ev := range []enrol.Event{enrol.Enrol{Subject: "node/n1", Hash: "a"},
			enrol.NewBatch{Name: "line4", Hash: "e", Count: 1, From: []string{"10.0.0.0/8"}, OnSight: true},
			enrol.Enrol{Subject: "node/stolen", Hash: "s"}, enrol.Join{Subject: "node/stolen", Hash: "s", Key: "ks",
				Serial: "5", Expires: time.Now().Add(time.Hour), CA: "ca"}} {
			if err := member(ev); err != nil {
				t.Fatal(err)
			}
		}
		from := &backup.Origin{At: time.Now(), Seq: u.last(), Restored: time.Now(), Revoked: []string{"node/stolen"}}
		var backup bytes.Buffer
		if err := u.core.Backup(t.Context(), &backup); err != nil {
			t.Fatal(err)
		}
		u.stop()
		u.start() // which the backup does not know
		u.stop()
		if err := os.WriteFile(filepath.Join(u.dir, "journal.db"), backup.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		u.clock, u.origin = func() time.Time { return time.Now().Add(off) }, from
		u.start()
		if u.core.Certified("node/stolen", "5") == nil {
			t.Error("who was named as revoked is let in")
		}
		u.stop()
		u.clock = nil // it was corrected
		u.start()
		if u.core.Certified("node/stolen", "5") == nil {
			t.Error("who was named as revoked is let in at the next start")
		}
		err := member(enrol.Join{Subject: "node/n2", Hash: "e", Key: "k2", Serial: "2",
			Expires: time.Now().Add(time.Hour), CA: "ca", From: "10.0.0.9"})
		if err == nil || !strings.Contains(err.Error(), "was revoked") {
			t.Errorf("joined by a batch of the backup: %v", err)
		}
		err = member(enrol.Join{Subject: "node/n1", Hash: "a", Key: "k", Serial: "1",
			Expires: time.Now().Add(time.Hour), CA: "ca"})
		if err == nil || !strings.Contains(err.Error(), "the token was withdrawn") {
			t.Errorf("joined with a token of the backup: %v", err)
		}
	})
}

// last is the number of the newest record.
func (u *seedUnit) last() uint64 {
	u.Helper()
	all, err := u.core.Entries(u.Context(), view.EntryFilter{Reverse: true, Limit: 1})
	if err != nil || len(all) != 1 {
		u.Fatal(all, err)
	}
	return all[0].Seq
}
