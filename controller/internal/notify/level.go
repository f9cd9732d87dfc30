package notify

import (
	"slices"

	"tandem.internal/controller/internal/view"
)

// Level says how much somebody should care. Package words gives each entry its level, the same for all who are told.
type Level = view.Level

// The levels.
const (
	Info    = view.LevelInfo    // it happened
	Warning = view.LevelWarning // somebody may have to do something
	Error   = view.LevelError   // something does not work
)

var levels = []Level{Info, Warning, Error}

// rank is higher for what is worse; -1: it is no level.
func rank(l Level) int { return slices.Index(levels, l) }
