package backup

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"tandem.internal/controller/internal/revoked"
)

// TestRestoreWhereTheClockIsBehind: where the clock stands before the backup, what is revoked at the restore is so
// after all that the backup has, and the restore is of after the backup.
func TestRestoreWhereTheClockIsBehind(t *testing.T) {
	file, _ := made(t, false)
	for _, off := range []time.Duration{-24 * time.Hour, time.Hour} {
		dir := t.TempDir()
		p, err := restore(t, dir, file, func(r *Restore) {
			r.Now = func() time.Time { return noon.Add(off) }
			r.Revoked = []string{"node/lost", "token/bob"}
		})
		ok(t, err)
		if p.Behind != (off < 0) {
			t.Errorf("%v: behind is %v", off, p.Behind)
		}
		o, err := Restored(dir)
		ok(t, err)
		if o.Restored.Before(noon) || !slices.Equal(o.Revoked, []string{"node/lost"}) {
			t.Errorf("%v: %+v", off, o)
		}
		for _, name := range []string{revoked.FileName, revoked.TokensFile} {
			list, err := revoked.Open(filepath.Join(dir, name), nil)
			ok(t, err)
			for who, at := range list.All() {
				if who != "node/gone" && !at.After(noon) {
					t.Errorf("%v: %s counts as revoked at %v, before the backup", off, who, at)
				}
			}
		}
	}
}
