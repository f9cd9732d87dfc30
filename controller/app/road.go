package app

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"tandem.internal/shared/link"
)

// road logs when an external broker goes, refuses this controller, and is back: each once, however often it is tried.
// Up and Down are called by one goroutine.
type road struct {
	link.Handler
	log  *zap.Logger
	last string // what was logged last
}

func (r *road) Up(session uint64) {
	if r.last != "" {
		r.log.Info("the broker is there again")
	}
	r.last = ""
	r.Handler.Up(session)
}

func (r *road) Down(session uint64, err error) {
	what := "the broker is not there; it is tried again and again"
	switch {
	case errors.Is(err, link.ErrUnavailable):
		what = "the broker takes nobody from here for now; it is tried again, ever more rarely"
	case errors.Is(err, link.ErrRefused):
		what = "the broker refuses this controller: see --broker-user and --broker-password; it is tried again, ever " +
			"more rarely"
	}
	if what != r.last && !errors.Is(err, context.Canceled) { // it is stopped
		r.last = what
		r.log.Warn(what, zap.Error(err))
	}
	r.Handler.Down(session, err)
}
