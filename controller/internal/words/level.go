package words

import (
	"cmp"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/event"
	"tandem.internal/shared/wire"
)

// Levels of events of nodes that have no error; those that are not named are told for information.
var eventLevels = map[string]view.Level{
	event.ContactLost: view.LevelWarning, event.CheckFailed: view.LevelWarning,
	event.TrialRolledBack: view.LevelError, event.CommitFailed: view.LevelError,
	event.RestartRefused: view.LevelWarning, event.RestartFailed: view.LevelError,
	event.ComponentRefused: view.LevelError, event.ComponentEnded: view.LevelWarning,
	event.WorkloadExit: view.LevelWarning, event.WorkloadUnhealthy: view.LevelWarning,
	event.WorkloadBack: view.LevelError, event.WorkloadRefused: view.LevelError,
	event.WorkloadDamaged: view.LevelError, event.WorkloadUndone: view.LevelWarning,
	event.Drift: view.LevelError, event.DriftRepaired: view.LevelWarning,
	event.Fork: view.LevelError, event.Stale: view.LevelWarning, event.RestoreTrouble: view.LevelError,
	event.RefusedMessage: view.LevelWarning, event.KeyRefused: view.LevelWarning,
	event.ClockSkew: view.LevelWarning, event.ViewStale: view.LevelWarning,
	event.CertificateNotRenewed: view.LevelWarning, event.CertificateExpired: view.LevelError,
	event.StateLost: view.LevelError,
}

// policyLevels are the levels of what may become of a policy on a node; the others are told for information.
var policyLevels = map[wire.PolicyState]view.Level{
	wire.PolicyConflict: view.LevelWarning, wire.PolicyDownloadFailed: view.LevelWarning,
	wire.PolicyPrecheckFailed: view.LevelWarning, wire.PolicyFailed: view.LevelError,
	wire.PolicyRollbackStarted: view.LevelError, wire.PolicyRollbackSucceeded: view.LevelWarning,
	wire.PolicyRollbackFailed: view.LevelError,
}

// faulty is what is read of data that may tell of an error.
type faulty struct {
	Error  jsontext.Value `json:"error"`
	Forced bool           `json:"forced"`
}

// Level says how much an entry matters, from its type and its data.
func Level(e *view.Entry) view.Level {
	t, _ := record.ParseType(e.Type)
	return level(t, e)
}

// Highest is the highest level that entries of a type can have.
func Highest(t record.Type) view.Level {
	switch t {
	case record.Refused, record.RolledBack, record.State, record.Reply, record.Report, record.Event, record.Rollout:
		return view.LevelError
	case record.Trouble, record.JoinRefused, record.Revoked, record.Opened, record.Live, record.CA, record.Keys:
		return view.LevelWarning
	}
	return view.LevelInfo
}

// level says how much an entry matters.
func level(t record.Type, e *view.Entry) view.Level {
	switch t {
	case record.Refused, record.RolledBack:
		return view.LevelError
	case record.Trouble, record.JoinRefused, record.Revoked:
		return view.LevelWarning
	case record.State, record.Reply:
		return of(e.Data, func(d faulty) view.Level { return either(d.Error == nil, view.LevelError) })
	case record.Opened:
		return of(e.Data, func(d record.OpenedData) view.Level {
			return either(d.Reason == "" && (d.Lost == "" || d.Lost == record.LostByStop), view.LevelWarning)
		})
	case record.Live:
		return of(e.Data, func(l wire.Live) view.Level { return either(l.Up, view.LevelWarning) })
	case record.Report:
		return of(e.Data, reportLevel)
	case record.Event:
		return eventLevel(e)
	case record.CA, record.Keys:
		return of(e.Data, func(d faulty) view.Level { return either(!d.Forced, view.LevelWarning) })
	case record.Rollout:
		return of(e.Data, func(d record.RolloutData) view.Level { return rolloutLevel(d.Of()) })
	}
	return view.LevelInfo
}

// of decodes data and judges it. What cannot be decoded is worth a look.
func of[T any](data jsontext.Value, judge func(T) view.Level) view.Level {
	l := view.LevelWarning
	read(data, func(d T) string {
		l = judge(d)
		return ""
	})
	return l
}

// either is view.LevelInfo if all is good, otherwise the level given.
func either(good bool, otherwise view.Level) view.Level {
	if good {
		return view.LevelInfo
	}
	return otherwise
}

// reportLevel judges a report by what became of the newest document.
func reportLevel(r wire.Reported) view.Level {
	bad := []wire.State{wire.StateRejected, wire.StateFailed, wire.StateRolledBack}
	return either(r.Last == nil || r.Last.Error == nil && !slices.Contains(bad, r.Last.State), view.LevelError)
}

// eventLevel judges an event of a node: by its type, its error, and what alerts and watchdogs say.
func eventLevel(e *view.Entry) view.Level {
	return of(e.Data, func(ev nodeEvent) view.Level {
		detail, err := event.Decode(e.Kind, ev.Detail)
		if err != nil {
			return view.LevelWarning
		}
		switch d := detail.(type) {
		case *event.AlertDetail:
			return either(d.State == "fall", view.LevelWarning)
		case *event.WatchdogDetail:
			return either(d.Verdict == "back" || d.Verdict == "gone", view.LevelError)
		case *event.PolicyDetail:
			bad := policyLevels[d.State]
			return either(ev.Error == nil && bad == "", cmp.Or(bad, view.LevelError))
		}
		if known := eventLevels[e.Kind]; known != "" {
			return known
		}
		return either(ev.Error == nil, view.LevelWarning)
	})
}

// rolloutLevel judges what happened to a rollout.
func rolloutLevel(what any) view.Level {
	switch r := what.(type) {
	case rollout.SettledData:
		failed := func(n rollout.SettledNode) bool { return n.Status == rollout.Failed }
		return either(!slices.ContainsFunc(r.Nodes, failed), view.LevelError)
	case rollout.PausedData:
		return either(r.Who != "", view.LevelError)
	case rollout.RevertingData, rollout.TakenBackData:
		return view.LevelWarning
	case rollout.EndedData:
		return either(r.Phase == rollout.Done || r.Phase == rollout.Superseded, view.LevelWarning)
	}
	return view.LevelInfo
}
