package fleet

import (
	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
)

// ParseVerdict reads the data of an Accepted or Refused record.
func ParseVerdict(data []byte) (Verdict, error) {
	var v Verdict
	err := json.Unmarshal(data, &v)
	return v, err
}

// HistoryEntry tells what a record about the unit configuration, or the workloads, means to people.
func HistoryEntry(r *record.Record) (view.Version, error) {
	v := view.Version{Seq: r.Seq, At: r.At, Who: r.Who}
	data, err := decode(r)
	if err != nil {
		return v, err
	}
	switch d := data.(type) {
	case Verdict:
		v.Version, v.Via, v.Mode, v.Hash, v.Lenient, v.Error = d.Version, d.Via, d.Mode, d.Hash, d.Lenient, d.Error
		v.State = map[record.Type]string{record.Accepted: "accepted", record.Refused: "refused"}[r.Type]
	case TrialOver:
		v.Version = d.Version
		v.State = map[record.Type]string{record.Confirm: "confirmed", record.RolledBack: "expired"}[r.Type]
	case ConfigChange:
		v.State, v.Error = d.State, d.Error
	}
	return v, nil
}
