package fleet

import (
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
)

// Remark is something that happened beside the state and belongs into the journal all the same:
// an operator's token was made or revoked. It changes nothing here.
type Remark struct {
	Ticket uint64
	Who    string
	Data   view.Remark
}

func (Remark) event() {}

// Trim says that some records go. It changes nothing here: the newest checkpoint has what they led to.
type Trim struct{ Data record.TrimmedData }

func (Trim) event() {}

// BackedUp says that a whole backup of the unit has left the controller; answered under Ticket.
type BackedUp struct {
	Ticket uint64
	Who    string
	Data   record.BackupData
}

func (BackedUp) event() {}

// LastBackup is when a whole backup has left the controller last; zero: none has.
func (f *Fleet) LastBackup() time.Time { return f.backedUp }

// wantBackups takes in whether a start wants backups.
func (f *Fleet) wantBackups(wanted bool, at time.Time) {
	if !wanted {
		f.backupsFrom = time.Time{}
	} else if f.backupsFrom.IsZero() {
		f.backupsFrom = at
	}
}

// BackupsFrom returns since when backups have been wanted without a break; zero: they are not.
func (f *Fleet) BackupsFrom() time.Time { return f.backupsFrom }

func (s *step) remark(ev Remark) {
	s.emit(record.Record{Type: record.Note, Who: ev.Who}, ev.Data)
	s.effect(Answer{Ticket: ev.Ticket})
}
