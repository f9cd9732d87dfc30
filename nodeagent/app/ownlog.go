package app

import (
	"strconv"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"tandem.internal/shared/runlog"
	"tandem.internal/shared/wire"
)

// showLog returns a piece of the agent's own log. A cursor is the agent's boot and the number of a line.
func (a *Agent) showLog(r *wire.Request) ([]byte, *wire.Error) {
	p, err := wire.Decode[wire.AgentLogParams](r.Params)
	if err != nil {
		return nil, within("/params", err)
	}
	from, l := zapcore.DebugLevel, wire.AgentLog{}
	if p.Level != "" {
		from, _ = runlog.Parse(p.Level) // which has been checked
	}
	after := uint64(0)
	if p.Cursor == "" {
		lines := p.Lines
		if lines == 0 {
			lines = wire.MaxLogLines
		}
		after = a.lines.Tail(lines, from)
	} else if boot, number, _ := strings.Cut(p.Cursor, ":"); boot != a.boot {
		l.Restarted = true
	} else if after, err = strconv.ParseUint(number, 10, 64); err != nil {
		return nil, wire.New(wire.CodeBadValue, "/params/cursor", "not a cursor of an earlier answer")
	}
	piece := a.lines.After(after, from, wire.MaxAgentLog)
	l.Lines, l.Lost, l.More = piece.Lines, piece.Lost, piece.More
	l.Cursor = a.boot + ":" + strconv.FormatUint(piece.Last, 10)
	level, until := a.deps.Level.Now()
	l.Level, l.Until = level.String(), until.UTC().Round(0)
	return wire.Encode(&l), nil
}

// setLogLevel has the agent log more or less for a while.
func (a *Agent) setLogLevel(r *wire.Request) *wire.Error {
	p, err := wire.Decode[wire.LogLevelParams](r.Params)
	if err != nil {
		return within("/params", err)
	}
	if p.Level == "" {
		a.deps.Level.Reset()
		a.log.Info("the log level is that of the settings again")
		return nil
	}
	level, _ := runlog.Parse(p.Level) // which has been checked
	until := a.deps.Level.Set(level, p.Within())
	a.log.Info("the log level is another one for a while", zap.String("logged", p.Level), zap.Time("until", until))
	return nil
}
