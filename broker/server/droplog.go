package server

import (
	"context"
	"log/slog"
)

// dropLog is the logger that mochi gets. It logs nothing: what matters is emitted as events, and mochi's
// lines contain whole packets, payload and password. But one line is the only sign of a message that was
// dropped because too many are unacknowledged; from it, dropLog makes an event.
type dropLog struct{ s *Server }

const quotaLine = "client store quota reached" // mochi 2.7.9, Server.publishToClient

// unacknowledged is why such a message is dropped.
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
