package wire

import (
	"fmt"
	"slices"
	"time"

	"tandem.internal/shared/duration"
)

// MaxAgentLog is the most bytes of lines in one AgentLog, but for a single line that is longer.
const MaxAgentLog = 16 << 10

// MaxLogLines is the most lines that AgentLogParams may ask for.
const MaxLogLines = 1000

// MaxLogLevel is the longest time for which LogLevelParams may change the level.
const MaxLogLevel = 24 * time.Hour

// AgentLogParams ask for lines of the agent's own log. Result: AgentLog.
type AgentLogParams struct {
	Cursor string `json:"cursor,omitempty"` // of the previous AgentLog; empty: the newest Lines
	Lines  int    `json:"lines,omitzero"`   // without a cursor: at most so many, up to MaxLogLines; 0: all
	Level  string `json:"level,omitempty"`  // of this level and above: see LogLevels; empty: all
}

// AgentLog is a part of the agent's own log, of which it keeps a bounded end in memory.
type AgentLog struct {
	Lines     []string  `json:"lines,omitempty"`    // as the agent has written them, the oldest first
	Cursor    string    `json:"cursor"`             // for the next AgentLogParams
	Lost      uint64    `json:"lost,omitzero"`      // lines between the cursor and these that are gone
	Restarted bool      `json:"restarted,omitzero"` // the cursor is of another run of the agent, whose lines are gone
	More      bool      `json:"more,omitzero"`      // there are more lines already
	Level     string    `json:"level"`              // what the agent logs now: this and above
	Until     time.Time `json:"until,omitzero"`     // then Level is again what the settings say; absent: it is that
}

// LogLevelParams have the agent log more or less for a while. It goes back by itself, and at a restart.
type LogLevelParams struct {
	Level string `json:"level,omitempty"` // see LogLevels; empty: go back now
	For   string `json:"for,omitempty"`   // ISO 8601, up to MaxLogLevel; there with Level, and only with it
}

// LogLevels are the names of levels, the most talkative first.
var LogLevels = []string{"debug", "info", "warn", "error"}

func (p *AgentLogParams) check() error {
	switch {
	case p.Lines < 0 || p.Lines > MaxLogLines:
		return New(CodeBadValue, "/lines", fmt.Sprintf("from 0 to %d", MaxLogLines))
	case p.Lines > 0 && p.Cursor != "":
		return New(CodeBadValue, "/lines", "only without cursor")
	}
	return first(plain("/cursor", p.Cursor), logLevel(p.Level))
}

func (l *AgentLog) check() error {
	return first(text("/cursor", l.Cursor), text("/level", l.Level), optional("/until", l.Until))
}

// Within is For.
func (p *LogLevelParams) Within() time.Duration {
	d, _ := duration.Parse(p.For) // which check has read
	return d
}

func (p *LogLevelParams) check() error {
	if p.Level == "" {
		if p.For != "" {
			return New(CodeBadValue, "/for", "only with level")
		}
		return nil
	}
	if d, err := duration.Parse(p.For); err != nil || d < time.Second || d > MaxLogLevel {
		return New(CodeBadValue, "/for", "not from PT1S to PT24H")
	}
	return first(logLevel(p.Level))
}

// logLevel checks a level's name, which may be empty.
func logLevel(name string) *Error {
	if name == "" || slices.Contains(LogLevels, name) {
		return nil
	}
	return New(CodeBadValue, "/level", fmt.Sprintf("%.64q is none of debug, info, warn, error", name))
}
