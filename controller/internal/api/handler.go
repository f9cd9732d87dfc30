package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"runtime/debug"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/op"
	"tandem.internal/shared/door"
	"tandem.internal/shared/wire"
)

// ServeHTTP answers one request: permission, route, and whatever went wrong.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	rec := &recorder{ResponseWriter: w, gzip: takesGzip(r.Header)}
	route := ""
	defer func() {
		if rec.status != 0 {
			a.cfg.Answered(route, rec.status, rec.began.Sub(began))
		}
	}()
	if !a.begin() {
		a.fail(rec, r, wire.New(wire.CodeUnavailable, "", "the controller is stopping"))
		return
	}
	defer a.end()
	defer func() { a.ended(rec, r, began, recover()) }()
	if r.ContentLength == 0 {
		// From here on the read deadline would only cut off answers that take their time.
		if err := readDeadline(rec, time.Time{}); err != nil {
			a.fail(rec, r, err)
			return
		}
	}
	secured(rec, r)
	if !isLocal(r) {
		leave, ok := a.guard.flight.Enter(door.Network(door.Address(r.RemoteAddr)))
		if !ok {
			a.later(rec, time.Second, "too many requests at once; try again later")
			return
		}
		defer leave()
	}
	if status, err := wellFormed(r); err != nil {
		rec.Header().Set("Connection", "close") // whatever follows may be part of the attack
		e, _ := asWire(err)
		a.write(rec, status, op.Problem{Error: e})
		return
	}
	handler, pattern := a.mux.Handler(r)
	role, known := a.roles[pattern]
	known = known && path.Clean(r.URL.Path) == r.URL.Path // no redirects: the path is wrong
	if known {
		route = pattern
	}
	if !known || role != op.Anybody {
		who, err := a.caller(r, pattern)
		if err != nil {
			a.refuse(rec, r, err)
			return
		}
		ctx := r.Context()
		if who.bearer != nil {
			var release func()
			ctx, release = who.bearer.Context(ctx)
			defer release()
		}
		r = r.WithContext(caller.With(ctx, who))
		if !known {
			if pattern != "" { // the handler is a route's, whose role nobody has checked
				handler = http.NotFoundHandler()
			}
			a.noRoute(rec, r, handler)
			return
		}
		if err := who.may(role); err != nil {
			a.fail(rec, r, err)
			return
		}
	}
	a.mux.ServeHTTP(rec, r)
}

// ended logs how a request ended, and answers one whose handler panicked with p.
func (a *API) ended(rec *recorder, r *http.Request, began time.Time, p any) {
	if p != nil && p != http.ErrAbortHandler {
		a.log.Error("request handler panicked", append(about(r), zap.Any("panic", p),
			zap.ByteString("stack", debug.Stack()))...)
		if rec.status == 0 {
			a.fail(rec, r, wire.New(wire.CodeInternal, "", "the controller failed to answer; its log says why"))
			p = nil
		} else {
			p = http.ErrAbortHandler // a cut answer must not look whole
		}
	}
	a.log.Debug("request", append(about(r), zap.Int("status", rec.status), zap.Int64("bytes", rec.bytes),
		zap.Duration("took", time.Since(began)), zap.String("from", r.RemoteAddr))...)
	if p != nil {
		panic(p)
	}
}

// noRoute turns the plain text of the standard library's 404 and 405 into our errors.
func (a *API) noRoute(w http.ResponseWriter, r *http.Request, h http.Handler) {
	probe := &headerOnly{header: http.Header{}}
	h.ServeHTTP(probe, r)
	if probe.status == http.StatusMethodNotAllowed {
		allow := probe.header.Get("Allow")
		w.Header().Set("Allow", allow)
		a.write(w, probe.status,
			op.Problem{Error: wire.New(wire.CodeNotSupported, "",
				fmt.Sprintf("%.16q is not possible here; %s is", r.Method, allow))})
		return
	}
	a.write(w, http.StatusNotFound,
		op.Problem{Error: wire.New(wire.CodeNotFound, "", fmt.Sprintf("there is nothing at %.128q", r.URL.Path))})
}

// headerOnly sees what a handler would answer.
type headerOnly struct {
	header http.Header
	status int
}

func (h *headerOnly) Header() http.Header { return h.header }
func (h *headerOnly) WriteHeader(status int) {
	if h.status == 0 {
		h.status = status
	}
}
func (h *headerOnly) Write(b []byte) (int, error) {
	h.WriteHeader(http.StatusOK)
	return len(b), nil
}

// recorder remembers what was answered.
type recorder struct {
	http.ResponseWriter
	status int
	began  time.Time // when it was begun to answer
	bytes  int64
	gzip   bool // the caller takes answers in gzip
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status, r.began = status, time.Now()
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status, r.began = http.StatusOK, time.Now()
	}
	n, err := r.ResponseWriter.Write(b)
	r.bytes += int64(n)
	return n, err
}

// asWire makes any error one that callers may see; unexpected says that it was not meant for them.
func asWire(err error) (e *wire.Error, unexpected bool) {
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return e, false
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return wire.New(wire.CodeTimeout, "", "the controller gave up before the answer was there"), false
	}
	return wire.New(wire.CodeInternal, "", "the controller failed to answer; its log says why"), true
}

// over is why a caller's time has come: its token was revoked, or has expired. nil: it has not.
func over(ctx context.Context) *wire.Error {
	e, _ := errors.AsType[*wire.Error](context.Cause(ctx))
	return e
}

// about are the fields of a line about a request: also its node and kind, where its path has them.
func about(r *http.Request) []zap.Field {
	fields := []zap.Field{zap.String("method", r.Method), zap.String("path", r.URL.Path)}
	if node := r.PathValue("node"); node != "" {
		fields = append(fields, zap.String("node", node))
	}
	if kind := r.PathValue("kind"); kind != "" {
		fields = append(fields, zap.String("kind", kind))
	}
	return fields
}

// fail answers with an error.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	if over := over(r.Context()); over != nil {
		err = over
	}
	e, unexpected := asWire(err)
	if unexpected && r.Context().Err() == nil {
		a.log.Error("request failed", append(about(r), zap.Error(err))...)
	}
	if h, ok := errors.AsType[headedError](err); ok {
		setHeaders(w, h)
	}
	a.write(w, door.Status(e.Code), op.Problem{Error: e})
}

// write answers with v as JSON on one line.
func (a *API) write(w http.ResponseWriter, status int, v any) {
	body, err := marshal(v)
	if err != nil {
		a.log.Error("answer cannot be written as JSON", zap.Error(err))
		status, body = http.StatusInternalServerError,
			[]byte(`{"error":{"code":"internal",`+
				`"message":"the answer cannot be written as JSON; the controller's log says why"}}`+"\n")
	}
	a.raw(w, status, "application/json", body)
}

// raw answers with a whole body, in gzip if it is large and the caller takes that.
func (a *API) raw(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	if len(body) >= leastGzip {
		h.Set("Vary", "Accept-Encoding")
		if rec, ok := w.(*recorder); ok && rec.gzip {
			h.Set("Content-Encoding", "gzip")
			body = compressed(body)
		}
	}
	h.Set("Content-Length", fmt.Sprint(len(body)))
	if err := writeDeadline(w, time.Now().Add(a.cfg.WriteTimeout)); err != nil {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		a.log.Debug("caller left before the answer", zap.Error(err))
	}
}

func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	if err := json.MarshalWrite(&b, v, json.Deterministic(true)); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

func readDeadline(w http.ResponseWriter, t time.Time) error {
	return ifSupported(http.NewResponseController(w).SetReadDeadline(t))
}

func writeDeadline(w http.ResponseWriter, t time.Time) error {
	return ifSupported(http.NewResponseController(w).SetWriteDeadline(t))
}

// ifSupported lets writers without a connection, such as those of tests, have no deadlines.
func ifSupported(err error) error {
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

// body reads the whole request body within its limit.
func (a *API) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	b, err := door.Body(w, r, a.cfg.MaxBody)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, wire.New(wire.CodeTooLarge, "",
			fmt.Sprintf("the request body is larger than %d bytes", a.cfg.MaxBody))
	}
	if err != nil {
		return nil, wire.New(wire.CodeMalformed, "", "the request body could not be read to its end")
	}
	return b, readDeadline(w, time.Time{})
}
