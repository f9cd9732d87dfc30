package enrol

import (
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/flow"
)

// A refusal is journaled if this budget has room, else counted into the next one that is: guessing
// must not fill the disk.
var refusalRate = flow.Rate{Burst: 32, Every: 10 * time.Second}

// refusal adds the record to a refusing decision.
func (s *State) refusal(now time.Time, d Decision, subject, from string) Decision {
	if d.Err == nil {
		return d
	}
	if held, ok := s.refusals.Pass(now, refusalRate); ok {
		d.Record = record.JoinRefusedData{Subject: subject, From: from, Error: d.Err, Count: 1 + held}
	}
	return d
}
