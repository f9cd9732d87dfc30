package distribute_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

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
