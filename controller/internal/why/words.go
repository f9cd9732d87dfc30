package why

import (
	"strconv"
	"time"

	"tandem.internal/controller/internal/phrase"
	"tandem.internal/shared/wire"
)

// amount renders a measured value: a fraction, or bytes per second.
func amount(v float64) string {
	if v >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(float64(int64(v*10000+0.5))/10000, 'f', -1, 64)
}

// remark is a word with what is behind it.
func remark(word, detail string) string {
	if detail == "" {
		return word
	}
	return word + " (" + detail + ")"
}

// Trial says what is on trial on a node, and what it takes to keep it.
func Trial(node string, x *wire.HealthTrial) string {
	text := "version " + x.Version + " is on trial in slot " + x.Slot
	if x.Component != "" {
		text = "version " + x.Version + " of component " + x.Component + " is on trial"
	}
	if x.Remaining > 0 {
		text += "; " + left(x.Remaining) + " of test time left"
	}
	if x.Deadline > 0 {
		text += "; it is rolled back unless it is kept within " + left(x.Deadline)
	}
	if x.Offline {
		text += "; the site was offline before"
	}
	if x.Approval == wire.ApprovalNeeded {
		text += "; to keep it: tandem node approve " + node + " --version " + x.Version
	} else if x.Approval != "" {
		text += "; approved by " + x.Approval
	}
	return text
}

// Restart says which restart a node has decided; at is its time, as it is to be shown.
func Restart(h *wire.Health, at string) string {
	when := ", not before " + at
	if h.Postponed() {
		when = ", once the trial is over"
	}
	return remark(string(h.Restart.Reason), h.Restart.Detail) + when
}

func left(s wire.Span) string { return phrase.Ahead(time.Duration(s)) }

// NotInSet is said of a slot, or of what should run there, that the set of workloads has no more.
const NotInSet = "not in the set any more"

// NoBroker says that nothing reaches the nodes, and why.
func NoBroker(text string) string {
	return "no session with the broker, so no node is reached: " + text
}

// NotCounted says why what a node says of itself does not count.
func NotCounted(text string) string { return "what it says of itself does not count: " + text }
