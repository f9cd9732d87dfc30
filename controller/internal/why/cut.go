package why

import (
	"tandem.internal/controller/internal/view"
)

// cut reports whether the controller has no session with its broker; one that is not known counts as there.
func cut(b *view.Broker) bool { return b.Address != "" && !b.Up }

// reachesNone says what that means.
func reachesNone(b *view.Broker) string {
	text := "the controller reaches no node: it has no session with the broker"
	if b.Error != "" {
		text += ": " + b.Error
	}
	return text
}

// noSession is what is known of any node then: how it is now is not.
var noSession = basis{view.LevelError, "the controller's session with the broker",
	"it has one again: look at the broker, and at the controller's log"}

// reached says that no node is reached; nil: that is not so.
func reached(b *view.Broker) []view.Because {
	if !cut(b) {
		return nil
	}
	return []view.Because{noSession.because(b.Since, "%s", reachesNone(b))}
}
