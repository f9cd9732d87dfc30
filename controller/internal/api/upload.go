package api

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"sync"
	"time"

	"tandem.internal/controller/internal/op"
	"tandem.internal/shared/wire"
)

// headed is an answer, or an error, with headers of its own.
type headed interface{ Headers() map[string]string }

type headedError interface {
	error
	headed
}

func setHeaders(w http.ResponseWriter, v any) {
	if h, ok := v.(headed); ok {
		for name, value := range h.Headers() {
			w.Header().Set(name, value)
		}
	}
}

// Body is the body of a request that is read while it comes.
type Body interface {
	io.Reader
	// Interrupt has a Read that waits return an error. It may be called at any time.
	Interrupt()
}

// Upload has do answer an operation whose body may be larger than memory: do reads it while it comes. A sender that is
// silent for too long is cut off, one that goes on is not.
func Upload[In, Out any](o op.Op[In, Out], do func(context.Context, In, Body) (Out, error)) Operation {
	return serve(o, func(a *API, w http.ResponseWriter, r *http.Request, in In) error {
		release, err := a.place(w, r)
		if err != nil {
			return err
		}
		defer release()
		kind := o.Spec().Input().Type
		if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != kind {
			return wire.New(wire.CodeInvalidArgument, "", "the body has to be "+kind)
		}
		out, err := do(r.Context(), in, &incoming{r: r, w: w, patience: a.cfg.WriteTimeout})
		if err != nil {
			// What was not read must not be taken for the next request.
			w.Header().Set("Connection", "close")
			return err
		}
		setHeaders(w, out)
		a.write(w, http.StatusOK, out)
		return nil
	})
}

// incoming is the body of a request.
type incoming struct {
	r        *http.Request
	w        http.ResponseWriter
	patience time.Duration // with a sender that is silent

	mu    sync.Mutex
	ended bool
}

// Read implements io.Reader. Nothing more is taken from a token that was revoked.
func (b *incoming) Read(buf []byte) (int, error) {
	if err := b.r.Context().Err(); err != nil {
		return 0, err
	}
	if err := b.wait(); err != nil {
		return 0, err
	}
	return b.r.Body.Read(buf)
}

// wait sets the deadline of a Read.
func (b *incoming) wait() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return errInterrupted
	}
	return readDeadline(b.w, time.Now().Add(b.patience))
}

var errInterrupted = errors.New("api: somebody else goes on")

// Interrupt implements Body.
func (b *incoming) Interrupt() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	_ = readDeadline(b.w, time.Now()) // a connection that is gone needs none
}
