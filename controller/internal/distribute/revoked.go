package distribute

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"tandem.internal/controller/internal/backup"
	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/revoked"
	"tandem.internal/shared/runlog"
)

// openRevoked reads the file of revocations.
func (c *Core) openRevoked() (err error) {
	if c.cfg.Revoked != "" {
		c.revoked, err = revoked.Open(c.cfg.Revoked, c.cfg.Steps)
	}
	return err
}

// revived returns, sorted, named, and whom this journal lets in and the file of revocations does not; of an older
// journal also whom it has never heard of: a certificate of theirs may be younger than it is.
func (c *Core) revived(older bool, named []string) (subjects []string) {
	if c.revoked == nil {
		return nil
	}
	subjects = slices.Clone(named)
	for subject, at := range c.revoked.All() {
		if c.fleet.LetsIn(subject, at) || older && !c.fleet.HasSubject(subject) {
			subjects = append(subjects, subject)
		}
	}
	slices.Sort(subjects)
	return slices.Compact(subjects)
}

// revokeAgain has those revoked whom this journal lets in and the file of revocations does not: it was restored from
// an older backup. Who has joined since is let in. The open tokens and batches of an older journal are withdrawn: they
// may have been used since. named are whom somebody has named as revoked at the restore, whatever the clocks showed.
func (c *Core) revokeAgain(older bool, named []string) {
	if older {
		for _, subject := range c.fleet.WithUnusedToken() {
			c.cfg.Log.Warn("a token was withdrawn: the journal is an older one, and it may have been used since",
				runlog.Node(subject), zap.String("subject", subject))
			c.step(fleet.Enrolment{Who: revoked.FileName, Event: enrol.WithdrawTokens{Subject: subject,
				Reason: "made before this journal was restored"}})
		}
		for _, name := range c.fleet.OpenBatches() {
			c.cfg.Log.Warn("a batch was revoked: the journal is an older one, and nodes may have joined by it since",
				zap.String("batch", name))
			c.step(fleet.Enrolment{Who: revoked.FileName, Event: enrol.RevokeBatch{Name: name,
				Reason: "made before this journal was restored"}})
		}
	}
	for _, subject := range c.revived(older, named) {
		c.cfg.Log.Warn("revoked again: the journal is older than that", runlog.Node(subject),
			zap.String("subject", subject))
		c.step(fleet.Enrolment{Who: revoked.FileName, Event: enrol.Revoke{Subject: subject,
			Reason: "revoked before this journal was restored", Known: true}})
	}
	if c.revoked != nil {
		c.keepRevoked(c.fleet.Revocations())
	}
}

// older reports whether the journal on the disk is an older one than the file of revocations knows.
func (c *Core) older() bool {
	return c.revoked != nil && c.journal.Load().Last() < c.revoked.Newest()
}

// staysOlder keeps an older journal one until the records of this start are durable, and so is who does not count any
// more: a start may write others before, which would hide it after a crash.
func (c *Core) staysOlder() error {
	if !c.older() {
		return nil
	}
	return c.revoked.Older()
}

// justRestored returns what the unit was restored from, if the journal has not begun since; else nil.
func (c *Core) justRestored() (*backup.Origin, error) {
	o := c.cfg.Origin
	if o == nil || !c.older() || c.journal.Load().Last() < o.Seq {
		return nil, nil
	}
	f := journal.Filter{From: o.Seq + 1, Types: []record.Type{record.Opened}}
	err := c.journal.Load().Scan(f, func(r record.Record) error {
		if !begins(r) {
			return nil
		}
		o = nil
		return journal.ErrStop
	})
	return o, err
}

// begins reports whether a record is the first of a start, and not a raised epoch, which may come before it.
func begins(r record.Record) bool {
	d, err := record.Decode(r.Type, r.Data)
	opened, is := d.(record.OpenedData)
	return err == nil && is && !opened.Online
}

// noteRevoked keeps what has just become durable of revocations beside the journal, before anybody is told of it.
func (c *Core) noteRevoked(records []record.Record) {
	if c.revoked == nil {
		return
	}
	reached, joined := uint64(0), map[string]time.Time{}
	for _, r := range records {
		switch r.Type {
		case record.Revoked:
			c.keepRevoked(c.fleet.Revocations())
		case record.Opened:
			if !c.older() || begins(r) {
				reached = r.Seq
			}
		case record.Joined:
			reached = r.Seq
			if d, err := record.Decode(r.Type, r.Data); err == nil {
				if one, ok := d.(record.JoinedData); ok {
					joined[one.Subject] = r.At
				}
			}
		}
	}
	if reached == 0 {
		return
	}
	if err := c.revoked.Reached(reached, joined); err != nil {
		c.cfg.Log.Error("a backup restored before the next start would let used tokens count once more",
			zap.Error(err))
	}
}

// keepRevoked writes the file of revocations. What cannot be written now is written with the next revocation, or at the
// next start: the journal has it.
func (c *Core) keepRevoked(all map[string]time.Time) {
	if err := c.revoked.Note(all); err != nil {
		c.cfg.Log.Error("a revocation is in the journal alone: a backup restored before the next start would undo it",
			zap.Error(err))
	}
}
