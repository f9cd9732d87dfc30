package notify

import (
	"slices"

	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/event"
	"tandem.internal/shared/wire"
)

// Level says how much somebody should care.
type Level string

// The levels.
const (
	Info    Level = "info"    // it happened
	Warning Level = "warning" // somebody may have to do something
	Error   Level = "error"   // something does not work
)

var levels = []Level{Info, Warning, Error}

// rank is higher for what is worse; -1: it is no level.
func rank(l Level) int { return slices.Index(levels, l) }

// Judge says of what level an entry is.
type Judge func(*view.Entry) Level

// byRecord has the highest level of the types of records that can be above Info.
var byRecord = map[record.Type]Level{
	record.Refused: Warning, record.Live: Warning, record.Event: Error, record.Reply: Warning,
	record.RolledBack: Error, record.State: Error, record.Trouble: Warning, record.Revoked: Warning,
	record.JoinRefused: Warning, record.Rollout: Error, record.Keys: Warning, record.CA: Warning,
}

// most is the highest level that records of a type can have.
func most(t record.Type) Level {
	if l, ok := byRecord[t]; ok {
		return l
	}
	return Info
}

// byEvent has the levels of the types of events that are above Info whatever their detail says.
var byEvent = map[string]Level{
	event.ContactLost: Warning, event.CheckFailed: Warning, event.RestartPlanned: Warning,
	event.RestartRefused: Warning, event.ComponentRefused: Warning, event.WorkloadExit: Warning,
	event.WorkloadUnhealthy: Warning, event.WorkloadUndone: Warning, event.Drift: Warning,
	event.DriftRepaired: Warning, event.RefusedMessage: Warning, event.KeyRefused: Warning, event.ClockSkew: Warning,
	event.ViewStale: Warning, event.CertificateNotRenewed: Warning,
	event.TrialRolledBack: Error, event.CommitFailed: Error, event.RestartFailed: Error, event.WorkloadBack: Error,
	event.WorkloadRefused: Error, event.WorkloadDamaged: Error, event.Fork: Error, event.RestoreTrouble: Error,
	event.CertificateExpired: Error, event.StateLost: Error,
}

// ByType is a Judge that goes by the type of an entry, and by what its data says of success. An entry whose data
// cannot be read has the highest level of its type.
func ByType(e *view.Entry) Level {
	t, _ := record.ParseType(e.Type)
	level, some := byRecord[t]
	if !some {
		return Info
	}
	data, err := record.Decode(t, e.Data)
	if err != nil {
		return level
	}
	fine := false
	switch d := data.(type) {
	case *wire.Event:
		return ofEvent(d)
	case *wire.Live:
		fine = d.Up
	case record.ReplyData:
		fine = d.Error == nil
	case record.StateChange:
		fine = d.Error == nil
	case record.KeysData:
		fine = !d.Forced
	case record.CAData:
		fine = !d.Forced
	case record.RolloutData:
		return ofRollout(&d)
	}
	if fine {
		return Info
	}
	return level
}

func ofEvent(e *wire.Event) Level {
	detail, err := event.Decode(e.Type, e.Detail)
	if err != nil {
		return Warning
	}
	switch d := detail.(type) {
	case *event.AlertDetail:
		if d.State == "raise" {
			return Warning
		}
		return Info
	case *event.WatchdogDetail:
		switch d.Verdict {
		case "hung", "died":
			return Error
		case "late", "unreadable":
			return Warning
		}
		return Info
	}
	if l, ok := byEvent[e.Type]; ok {
		return l
	}
	return Info
}

func ofRollout(d *record.RolloutData) Level {
	switch {
	case d.Reverting != nil, d.Ended != nil && d.Ended.Phase == rollout.Aborted:
		return Error
	case d.Paused != nil:
		return Warning
	}
	return Info
}
