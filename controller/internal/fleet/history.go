package fleet

import (
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
)

// HistoryEntry tells what a record about a source means to people.
func HistoryEntry(r *record.Record) (view.Version, error) {
	v := view.Version{Seq: r.Seq, At: r.At, Who: r.Who}
	data, err := record.Decode(r.Type, r.Data)
	if err != nil {
		return v, err
	}
	switch d := data.(type) {
	case record.Verdict:
		v.Version, v.Via, v.Mode, v.Hash, v.Lenient, v.Error = d.Version, d.Via, d.Mode, d.Hash, d.Lenient, d.Error
		v.State = map[record.Type]string{record.Accepted: "accepted", record.Refused: "refused"}[r.Type]
	case record.TrialOver:
		v.Version = d.Version
		v.State = map[record.Type]string{record.Confirm: "confirmed", record.RolledBack: "expired"}[r.Type]
	case record.StateChange:
		v.State, v.Error = d.State, d.Error
	}
	return v, nil
}
