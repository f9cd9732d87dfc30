package server

import (
	"context"
	"log/slog"
)

// dropLog is the logger that mochi gets. It logs nothing: the broker emits events, and mochi's lines contain whole
// packets with payloads and passwords. But one line is the only sign that a message was dropped because too many are
// unacknowledged; for that line dropLog emits an event.
type dropLog struct{ s *Server }

// quotaLine is the message of that line.
const quotaLine = "client store quota reached" // mochi 2.7.9, Server.publishToClient

// unacknowledged is the detail of that event.
const unacknowledged = "too many messages were unacknowledged"

func newDropLog(s *Server) *slog.Logger { return slog.New(dropLog{s}) }

func (d dropLog) Enabled(_ context.Context, l slog.Level) bool { return l == slog.LevelWarn }

func (d dropLog) Handle(_ context.Context, r slog.Record) error {
	if r.Message != quotaLine {
		return nil
	}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key != "client" {
			return true
		}
		if c := d.s.sessions.get(a.Value.String()); c != nil {
			d.s.dropped(c, "", unacknowledged)
		}
		return false
	})
	return nil
}

func (d dropLog) WithAttrs([]slog.Attr) slog.Handler { return d }
func (d dropLog) WithGroup(string) slog.Handler      { return d }
