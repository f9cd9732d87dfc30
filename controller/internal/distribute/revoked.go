package distribute

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/revoked"
)

// openRevoked reads the file of revocations.
func (c *Core) openRevoked() (err error) {
	if c.cfg.Revoked != "" {
		c.revoked, err = revoked.Open(c.cfg.Revoked, c.cfg.Steps)
	}
	return err
}

// revived returns, sorted, whom this journal lets in and the file of revocations does not.
func (c *Core) revived() (subjects []string) {
	if c.revoked == nil {
		return nil
	}
	for subject, at := range c.revoked.All() {
		if c.fleet.LetsIn(subject, at) {
			subjects = append(subjects, subject)
		}
	}
	slices.Sort(subjects)
	return subjects
}

// revokeAgain has those revoked whom this journal lets in and the file of revocations does not: it was restored from
// an older backup. Who has joined since is let in.
func (c *Core) revokeAgain() {
	for _, subject := range c.revived() {
		c.cfg.Log.Warn("revoked again: the journal is older than that", zap.String("subject", subject))
		c.step(fleet.Enrolment{Who: revoked.FileName, Event: enrol.Revoke{Subject: subject,
			Reason: "revoked before this journal was restored"}})
	}
	if c.revoked != nil {
		c.keepRevoked(c.fleet.Revocations())
	}
}

// noteRevoked keeps what has just become durable of revocations beside the journal, before anybody is told of it.
func (c *Core) noteRevoked(records []record.Record) {
	if c.revoked == nil {
		return
	}
	for _, r := range records {
		switch r.Type {
		case record.Revoked:
			c.keepRevoked(c.fleet.Revocations())
		case record.Joined:
			d, err := record.Decode(r.Type, r.Data)
			if joined, ok := d.(record.JoinedData); err == nil && ok {
				err = c.revoked.Joined(joined.Subject, r.At)
			}
			if err != nil {
				c.cfg.Log.Error("who has joined anew may count as revoked after the next start", zap.Error(err))
			}
		}
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
