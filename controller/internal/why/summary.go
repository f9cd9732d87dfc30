package why

import (
	"strings"
	"time"

	"tandem.internal/controller/internal/phrase"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Summary is a node in a line: what it runs of the unit's own source, and why not what it should.
type Summary struct {
	Running string     // version; "": none
	Desired string     // version; "": none
	State   string     // as Node.State has it
	Why     string     // a few words; "": there is nothing to say
	Level   view.Level // of State; "": neither good nor bad
	Since   time.Time  // of State
}

// Summarize says how a node is with its document of the unit's own source. What the node is in error with is why, too.
func Summarize(n *view.Node, source wire.Kind) Summary {
	if id := n.Identity; id != nil && id.State == "revoked" {
		return Summary{State: id.State, Level: view.LevelError, Since: id.Revoked}
	}
	s := ofDocument(n, source)
	if n.Info != nil && n.Info.Error != nil {
		s.Why = strings.TrimPrefix(s.Why+"; in error: "+Brief(n.Info.Error), "; ")
	}
	return s
}

func ofDocument(n *view.Node, source wire.Kind) Summary {
	d, ok := n.Documents[source]
	s := Summary{State: n.State(source), Since: d.ReportedAt}
	if !ok {
		return s
	}
	if d.Running != nil {
		s.Running = d.Running.Version
	}
	switch {
	case d.Desired == nil:
		if d.Last != nil {
			s.Since, s.Why = d.Last.At, orEmpty(d.Last.Error)
		}
		return s
	case d.Last != nil && d.Last.Stamp() == d.Desired.Stamp():
		s.Since, s.Why, s.Level = d.Last.At, orEmpty(d.Last.Error), attemptLevels[d.Last.State]
	default:
		s.Since = d.Desired.Issued
		if !n.Online {
			s.Why = "offline"
		}
	}
	if d.Error != nil {
		s.Why, s.Level = Brief(d.Error), view.LevelError
	}
	s.Desired = d.Desired.Version
	return s
}

// attemptLevels are those of what became of a document.
var attemptLevels = map[wire.State]view.Level{
	wire.StateInstalled: view.LevelInfo, wire.StateRejected: view.LevelError, wire.StateFailed: view.LevelError,
	wire.StateRolledBack: view.LevelError, wire.StateReceived: view.LevelWarning, wire.StateApplying: view.LevelWarning,
	wire.StateTrying: view.LevelWarning,
}

func orEmpty(err *wire.Error) string {
	if err == nil {
		return ""
	}
	return Brief(err)
}

// Changed says in a line how a node is that has changed.
func Changed(n *view.Node, s *Summary) string {
	up := "offline"
	if n.Online {
		up = "online"
	}
	text := n.Node + " " + up + ", runs " + orNone(s.Running) + ", should run " + orNone(s.Desired) + ": " + s.State
	if s.Why != "" {
		text += ": " + s.Why
	}
	return text
}

// Identity says how a node stands with the unit's CA; clock and ago render instants.
func Identity(id *view.Identity, now time.Time, clock, ago func(time.Time) string) (text string, level view.Level) {
	switch {
	case id.State == "joined" && id.Expires.Before(now):
		return "certificate expired " + ago(id.Expires) + "; it has to join again", view.LevelError
	case id.State == "joined":
		return "joined " + ago(id.Joined) + ", certificate until " + clock(id.Expires), view.LevelInfo
	case id.State == "revoked":
		return "revoked " + ago(id.Revoked) + phrase.By(id.RevokedBy), view.LevelError
	case id.State == "enrolled":
		return "enrolled, has not joined yet", view.LevelWarning
	}
	return id.State, ""
}

// Proof says whether the messages of a node that has joined are proved.
func Proof(id *view.Identity, clock func(time.Time) string) (text string, level view.Level) {
	if id.Proves.IsZero() {
		return "not proved: a broker could make them up", view.LevelWarning
	}
	return "proved since " + clock(id.Proves), view.LevelInfo
}

// Explained says where a value of a node's configuration comes from and whether the node has it, in two sentences;
// value is the value as it is to be shown.
func Explained(x *view.Explanation, value string) string {
	what := x.Pointer + " of " + x.Node
	if x.Pointer == "" {
		what = "the configuration of " + x.Node
	}
	s := what + " is " + value
	if x.Source != "" {
		s += ", set by " + x.Source + " of unit configuration " + x.Version
	} else {
		s += ", under unit configuration " + x.Version
	}
	if x.Why != "" {
		s += ": " + x.Why
	}
	s += "."
	if x.InForce {
		return s + "\n" + x.Node + " has it: it runs " + x.Running + "."
	}
	s += "\n" + x.Node + " does not have it: "
	if x.Running == "" {
		s += "it has not reported to run any configuration"
	} else {
		s += "it runs " + x.Running
	}
	if x.State != "" {
		s += ", and the newest document there is " + string(x.State)
	}
	if x.Error != nil {
		s += ": " + Brief(x.Error)
	}
	return s + "."
}
