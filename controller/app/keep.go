package app

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"tandem.internal/controller/internal/artefact/store"
	"tandem.internal/controller/internal/distribute"
	"tandem.internal/controller/internal/retain"
)

// keepHelp describes --keep.
func keepHelp() string {
	return "what of each kind of journal records is kept at most, as KIND=LIMIT/LIMIT, with an age (400d, 36h), a " +
		"size (512MiB) and a number of records as limits, or all; what is more goes, the oldest first. What is not " +
		"named here has " + keepDefaults()
}

// keepDefaults says what is kept unless it is set, as --keep has it.
func keepDefaults() string {
	all := retain.Default()
	parts := make([]string, len(retain.Kinds))
	for i, kind := range retain.Kinds {
		parts[i] = string(kind) + "=" + all[string(kind)]
	}
	return strings.Join(parts, ", ")
}

// keepLimits returns an error for what is to be kept of the journal that cannot be.
func (c *Config) keepLimits() error {
	if c.KeepRecords < 0 {
		return fmt.Errorf("--keep-records: 0 or more, not %d", c.KeepRecords)
	}
	if c.DiskLow > math.MaxInt64 {
		return fmt.Errorf("--disk-low: at most %d bytes, not %d", int64(math.MaxInt64), c.DiskLow)
	}
	if _, err := retain.Parse(c.Keep); err != nil {
		return fmt.Errorf("--keep: %w", err)
	}
	return nil
}

// exportPlace returns an error for a --keep-export that nothing can be written to: else it shows when the journal is
// trimmed, which may be months later. It writes nothing.
func (c *Config) exportPlace() error {
	dir := c.KeepExport
	if dir == "" {
		return nil
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%s is not there", dir)
	case err != nil: // which names it
	case !info.IsDir():
		err = fmt.Errorf("%s is not a directory", dir)
	default:
		if err = unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err == nil {
			return nil
		}
		err = fmt.Errorf("%s cannot be written: %w", dir, err)
	}
	return fmt.Errorf("--keep-export: %w; it has to be a directory that the controller's user may write to, for what "+
		"goes of the journal is written there before: make it, or leave the setting out", err)
}

// keepIn sets what is kept of the journal. The settings were checked.
func (c *Config) keepIn(core *distribute.Config) {
	rules, err := retain.Parse(c.Keep)
	if err != nil {
		panic("app: " + err.Error())
	}
	core.Keep, core.KeepRecords, core.KeepExport, core.DiskLow = rules, c.KeepRecords, c.KeepExport, int64(c.DiskLow)
	core.Room = func() (int64, error) { return store.Free(c.StateDir) }
}
