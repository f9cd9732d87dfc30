package distribute

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"tandem.internal/controller/internal/fleet"
)

// A disk for exports that is really full: nothing goes, and no half file is left; with room again all of it goes.
func TestExportDiskIsFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: THE TEST OF A FULL DISK FOR EXPORTS NEEDS ROOT, to mount a small tmpfs")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16k,mode=0700"); err != nil {
		t.Skipf("SKIPPED: THE TEST OF A FULL DISK FOR EXPORTS CANNOT MOUNT a tmpfs here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	tune := func(c *Config) {
		keepFew(c)
		c.KeepExport = dir
		c.Fleet.Limits = fleet.Limits{StateRate: 1e6, StateBurst: 1e6, EventRate: 1, EventBurst: 2}
	}
	withFaults(t, tune, func(t *testing.T, r *faulty) {
		r.says("n", 1, 600)
		was := r.records()
		if err := r.core.compact(r.Context()); !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		if gone := r.left(was); len(gone) > 0 || len(r.said()) > 0 {
			t.Errorf("%d are gone, and said so: %+v", len(gone), r.said())
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
			t.Errorf("%v %v", files, err)
		}
		if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=4m,mode=0700"); err != nil {
			t.Fatal(err)
		}
		r.compacts()
		if gone := r.left(was); len(gone) < 590 || len(r.exports(dir)) != len(gone) {
			t.Errorf("%d are gone, %d exported", len(gone), len(r.exports(dir)))
		}
		if all, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(all) != 1 {
			t.Errorf("%v %v", all, err)
		}
	})
}
