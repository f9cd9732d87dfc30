package fleet

import (
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

func (s *step) remark(ev Remark) {
	s.emit(record.Record{Type: record.Note, Who: ev.Who}, ev.Data)
	s.effect(Answer{Ticket: ev.Ticket})
}
