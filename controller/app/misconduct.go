package app

import (
	"strings"

	"tandem.internal/broker/server"
	"tandem.internal/shared/wire"
)

// misconducts are the events of the broker that are journaled.
var misconducts = map[server.EventKind]wire.Code{
	server.DeniedPublish: wire.CodeNotAllowed, server.DeniedSubscribe: wire.CodeNotAllowed,
	server.TooLarge: wire.CodeTooLarge, server.Fight: wire.CodeUnavailable, server.Stalled: wire.CodeUnavailable,
	server.IntakeFailed: wire.CodeUnavailable, server.Dropped: wire.CodeUnavailable,
}

// misconduct says who did it, where, and what; nil: it is none.
func misconduct(ev server.Event) (node, topic string, err *wire.Error) {
	code, is := misconducts[ev.Kind]
	if !is {
		return "", "", nil
	}
	what := string(ev.Kind) + " at the broker"
	if ev.Detail != "" {
		what += ": " + ev.Detail
	}
	return strings.TrimPrefix(ev.ClientID, "node/"), ev.Topic, wire.New(code, "", what)
}
