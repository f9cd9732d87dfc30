package enrol

import (
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/flow"
)

// refusalRate bounds the records of refusals, so that guessing cannot fill the disk. A refusal beyond
// it is counted in the next record.
var refusalRate = flow.Rate{Burst: 32, Every: 10 * time.Second}

// refusal adds a record to a decision that refuses, if refusalRate allows one.
func (s *State) refusal(now time.Time, d Decision, subject, from string) Decision {
	if d.Err == nil {
		return d
	}
	if held, ok := s.refusals.Pass(now, refusalRate); ok {
		d.Record = record.JoinRefusedData{Subject: subject, From: from, Error: d.Err, Count: 1 + held}
	}
	return d
}
