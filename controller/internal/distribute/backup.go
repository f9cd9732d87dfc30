package distribute

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"filippo.io/age"
	"go.uber.org/zap"

	"tandem.internal/controller/internal/backup"
	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/phrase"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// BackupUnit writes a backup of everything that the unit is brought back from, encrypted. Whom it is for is in the
// journal before the first byte is out.
func (c *Core) BackupUnit(ctx context.Context, in op.BackupIn, w io.Writer) (err error) {
	if c.cfg.Backup == nil {
		return wire.New(wire.CodeNotSupported, "", "this controller makes no backups")
	}
	names, to, err := c.backupFor(ctx, in.To)
	if err != nil {
		return err
	}
	w, end, err := c.beginCopy(w)
	if err != nil {
		return err
	}
	defer end()
	r := view.Remark{Text: "a backup of the unit, with its keys, was made for " + names}
	if err := c.Remark(ctx, r); err != nil {
		return err
	}
	d, err := c.beginBackup(ctx, in)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	counted := &counting{w: w}
	m, err := d.Write(ctx, counted, to...)
	if err != nil {
		return err
	}
	c.noteBackup(ctx, record.BackupData{Seq: m.Seq, Bytes: counted.n, For: names})
	return nil
}

// noteBackup puts down that a whole backup has left. It is a backup although the journal may not take that.
func (c *Core) noteBackup(ctx context.Context, d record.BackupData) {
	who := caller.From(ctx).Who()
	_, err := c.order(ctx, func(t uint64) fleet.Event { return fleet.BackedUp{Ticket: t, Who: who, Data: d} })
	if err != nil {
		c.cfg.Log.Warn("a backup was made, and the journal does not tell of it", zap.Error(err))
	}
}

// counting counts the bytes that are written.
type counting struct {
	w io.Writer
	n int64
}

func (c *counting) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// lateBackups is how many times the interval of backups passes without one until that is told: one night may fail.
const lateBackups = 3

// backupsWanted reports whether the settings want backups.
func (c *Config) backupsWanted() bool { return c.BackupEvery > 0 && len(c.BackupTo) > 0 }

// lateBackup tells that backups are wanted, and that none was made for long. last is when one was made, zero: never;
// wanted is since when they are wanted, over all starts.
func (c *Core) lateBackup(last, wanted time.Time) string {
	if !c.cfg.backupsWanted() {
		return ""
	}
	what := "no backup was made since "
	if last.IsZero() {
		last, what = wanted, "no backup was ever made, and the settings want them since "
	}
	ago := c.cfg.Now().Sub(last)
	if last.IsZero() || ago < lateBackups*c.cfg.BackupEvery {
		return ""
	}
	return fmt.Sprintf("%s%s, %s ago; one is wanted every %s (--backup-every): look at systemctl status "+
		"tandem-backup tandem-backup.timer", what, last.UTC().Format(time.RFC3339), phrase.Span(ago),
		phrase.Exact(c.cfg.BackupEvery))
}

// A copy of the journal keeps pages of its file from being used again, and keeps it from being closed: there is one at
// a time, and whoever reads it takes slowPause and a second for each slowRate bytes, at most.
const (
	slowPause = time.Minute
	slowRate  = 64 << 10
)

// beginCopy has the turn of a backup, of the unit or of the journal, until end is called, and bounds its time.
func (c *Core) beginCopy(w io.Writer) (bounded io.Writer, end func(), err error) {
	if !c.copying.TryLock() {
		return nil, nil, wire.New(wire.CodeUnavailable, "", "another backup is being made; try again when it has ended")
	}
	return &paced{w: w, begun: time.Now()}, c.copying.Unlock, nil
}

// paced is an error once it has gone on too slowly. Each Write has to be bounded by w.
type paced struct {
	w     io.Writer
	begun time.Time
	n     int64
}

func (p *paced) Write(b []byte) (int, error) {
	// The monotonic clock: that of the machine may be set meanwhile.
	if took := time.Since(p.begun); took > slowPause+time.Duration(p.n)*time.Second/slowRate {
		return 0, wire.New(wire.CodeUnavailable, "", fmt.Sprintf("the backup was given up: %d bytes were taken in %v, "+
			"and at least %d a second are needed", p.n, took.Round(time.Second), slowRate))
	}
	n, err := p.w.Write(b)
	p.n += int64(n)
	return n, err
}

// beginBackup takes the moment of a backup. No key is retired meanwhile: the journal's copy may name it.
func (c *Core) beginBackup(ctx context.Context, in op.BackupIn) (*backup.Draft, error) {
	j, err := c.reader(ctx)
	if err != nil {
		return nil, err
	}
	cfg := c.cfg.Backup()
	cfg.Unit, cfg.Program, cfg.Now, cfg.Artefacts = c.cfg.Unit, c.cfg.Version, c.cfg.Now(), !in.WithoutArtefacts
	c.rotating.Lock()
	defer c.rotating.Unlock()
	return backup.Begin(cfg, j)
}

// backupFor returns for whom a backup is. Only who can read the unit's files anyway chooses that: others' access can be
// taken back, and keys that somebody has read cannot.
func (c *Core) backupFor(ctx context.Context, asked []string) (names string, to []age.Recipient, err error) {
	all := c.cfg.BackupTo
	if len(asked) > 0 {
		if !caller.OwnsFiles(ctx) {
			return "", nil, wire.New(wire.CodeNotAllowed, "", "whom a backup is encrypted for is said on the "+
				"controller's machine only, by root or the controller's user: with --to or a passphrase, or with the "+
				"controller's setting --backup-to")
		}
		all = asked
	}
	if len(all) == 0 {
		return "", nil, wire.New(wire.CodeMissing, "/to", "whom is the backup for? Name a public key of age, or give "+
			"the controller --backup-to")
	}
	if to, err = backup.Recipients(all); err != nil {
		return "", nil, wire.New(wire.CodeBadValue, "/to", err.Error())
	}
	return strings.Join(all, ", "), to, nil
}
