package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"filippo.io/age"

	"tandem.internal/controller/internal/backup"
	"tandem.internal/controller/internal/ca"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/shared/settings"
)

// backupKeys returns an error for a key of --backup-to that is none: else no backup is made, which is told days later.
func (c *Config) backupKeys() error {
	if _, err := backup.Recipients(c.BackupTo); err != nil {
		return fmt.Errorf("--backup-to: %w", err)
	}
	return nil
}

// backup says what a backup of the unit is made of.
func (c *Config) backup() backup.Config {
	return backup.Config{Dir: c.StateDir, Settings: c.settingsFiles()}
}

// settingsFiles are the settings in force, and the files that they name, under the settings' names.
func (c *Config) settingsFiles() []backup.Setting {
	lasting := *c
	lasting.NewKey, lasting.NewEpoch, lasting.NewCA = false, false, false // each is for one start
	all := []backup.Setting{{Name: "controller.yaml", Text: settings.Text(&lasting)}}
	for _, f := range []struct{ name, path string }{
		{"submitters", c.Submitters}, {"broker-ca", c.BrokerCA}, {"http-cert", c.HTTPCert}, {"http-key", c.HTTPKey},
	} {
		if f.path != "" {
			all = append(all, backup.Setting{Name: f.name, Path: f.path})
		}
	}
	return all
}

// BackupStopped writes a backup of a unit on whose state directory no controller runs. With final none will: the unit
// is to go on elsewhere, and done, which makes the file durable under its name, is called before that is put down. file
// is what the backup is called, now what time it is.
func BackupStopped(ctx context.Context, cfg Config, w io.Writer, to []age.Recipient, artefacts, final bool,
	now time.Time, file string, done func() error) (m backup.Manifest, err error) {
	if err := cfg.check(); err != nil {
		return m, err
	}
	if err := backup.Check(cfg.StateDir); err != nil {
		return m, err
	}
	if err := ca.Look(cfg.Unit, cfg.StateDir); errors.Is(err, ca.ErrOther) { // other damage is backed up as it is
		return m, &UsageError{err}
	}
	j, err := journal.Open(filepath.Join(cfg.StateDir, "journal.db"), journal.Options{ReadOnly: true})
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, j.Close()) }() // its lock keeps controllers out
	b := cfg.backup()
	b.Unit, b.Program, b.Now, b.Artefacts, b.Final = cfg.Unit, settings.Version, now, artefacts, final
	d, err := backup.Begin(b, j)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if m, err = d.Write(ctx, w, to...); err != nil {
		return m, err
	}
	if err := done(); err != nil || !final {
		return m, err
	}
	if err := backup.Fence(cfg.StateDir, b.Now, file); err != nil {
		return m, fmt.Errorf("the backup is whole, but a controller that is started here would go on: %w", err)
	}
	return m, nil
}
