package api

import (
	"bytes"
	"context"
	"hash/maphash"
	"io"
	"net/http"
	"time"

	"go.uber.org/zap"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/op"
	"tandem.internal/shared/door"
	"tandem.internal/shared/wire"
)

// streamType is the content type of streams: one JSON value a line, blank lines to be skipped. A
// line with a top-level "error" ends a stream.
const streamType = "application/x-ndjson"

// stream writes lines to a caller who may be slow or gone.
type stream struct {
	a *API
	w http.ResponseWriter
	c *http.ResponseController
	r *http.Request
}

// admit takes one of the places for streams; the caller gives it back with release.
func (a *API) admit(w http.ResponseWriter, r *http.Request) (release func(), err error) {
	if r.ContentLength != 0 {
		return nil, wire.New(wire.CodeInvalidArgument, "", "this request takes no body")
	}
	return a.place(w, r)
}

// place is admit for a request that may have a body.
func (a *API) place(w http.ResponseWriter, r *http.Request) (release func(), err error) {
	return enter(w, r, &a.local, &a.remote)
}

// enter takes one of the places for local callers, or for those over TCP.
func enter(w http.ResponseWriter, r *http.Request, local, remote *door.Crowd[string]) (release func(), err error) {
	places, name := local, ""
	if who, _ := caller.From(r.Context()).(requester); who.bearer != nil {
		places, name = remote, who.bearer.Name
	}
	release, ok := places.Enter(name)
	if !ok {
		w.Header().Set("Retry-After", "5")
		return nil, wire.New(wire.CodeUnavailable, "", "too many streams are open; try again later")
	}
	return release, nil
}

// start sends the header of a stream.
func (a *API) start(w http.ResponseWriter, r *http.Request, contentType string) *stream {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(http.StatusOK)
	return &stream{a, w, http.NewResponseController(w), r}
}

// Write sends bytes, with a deadline of their own. Nothing more leaves for a token that was revoked.
func (s *stream) Write(b []byte) (int, error) {
	if err := over(s.r.Context()); err != nil {
		return 0, err
	}
	return s.send(b)
}

func (s *stream) send(b []byte) (int, error) {
	if err := writeDeadline(s.w, time.Now().Add(s.a.cfg.WriteTimeout)); err != nil {
		return 0, err
	}
	return s.w.Write(b)
}

// piece is how much of a stream is written before it is sent: of ten thousand nodes no more is in memory.
const piece = 64 << 10

// lines sends values, one a line, and makes sure that they leave.
func lines[T any](s *stream, values ...T) error {
	var b bytes.Buffer
	for i := range values {
		line, err := marshal(&values[i])
		if err != nil {
			return err
		}
		if b.Write(line); b.Len() >= piece {
			if _, err := s.Write(b.Bytes()); err != nil {
				return err
			}
			b.Reset()
		}
	}
	if _, err := s.Write(b.Bytes()); err != nil {
		return err
	}
	return ifSupported(s.c.Flush())
}

// wait returns true when changed is closed, false when the stream has to end; it keeps the line
// alive meanwhile. It returns at the earliest after pause.
func (s *stream) wait(ctx context.Context, changed <-chan struct{}, pause time.Duration) bool {
	if pause > 0 {
		t := time.NewTimer(pause)
		defer t.Stop()
		select {
		case <-t.C:
		case <-s.a.stopping.Done():
			return false
		case <-ctx.Done():
			return false
		}
	}
	beat := time.NewTicker(s.a.cfg.KeepAlive)
	defer beat.Stop()
	for {
		select {
		case <-changed:
			return true
		case <-s.a.stopping.Done():
			return false
		case <-ctx.Done():
			return false
		case <-beat.C:
			if _, err := s.Write([]byte("\n")); err != nil {
				return false
			}
			if ifSupported(s.c.Flush()) != nil {
				return false
			}
		}
	}
}

// finish ends a stream: with a reason if there is one and somebody to read it.
func (s *stream) finish(ctx context.Context, err error) {
	if over := over(ctx); over != nil {
		err = over
	} else if ctx.Err() != nil {
		return
	}
	if err == nil {
		select {
		case <-s.a.stopping.Done():
			err = wire.New(wire.CodeUnavailable, "", "the controller is stopping")
		default:
			return
		}
	}
	e, unexpected := asWire(err)
	if unexpected {
		s.a.log.Warn("stream ended early", append(about(s.r), zap.Error(err))...)
	}
	line, err := marshal(op.Problem{Error: e})
	if err == nil {
		_, err = s.send(line)
	}
	if err != nil {
		s.a.log.Debug("caller left before the end of its stream", append(about(s.r), zap.Error(err))...)
	}
}

// watch calls look whenever the journal grew, at most every WatchEvery, and sends the lines that it
// returns.
func watch[T any](
	a *API, w http.ResponseWriter, r *http.Request, look func(context.Context) ([]T, error),
) error {
	release, err := a.admit(w, r)
	if err != nil {
		return err
	}
	defer release()
	ctx := r.Context()
	changed := a.core.Changed() // before looking, so that nothing falls between
	out, err := look(ctx)
	if err != nil {
		return err
	}
	s := a.start(w, r, streamType)
	for r.Method != http.MethodHead {
		if len(out) > 0 {
			if err = lines(s, out...); err != nil {
				break
			}
		}
		out = nil // it may be all nodes
		if !s.wait(ctx, changed, a.cfg.WatchEvery) {
			break
		}
		changed = a.core.Changed()
		if out, err = look(ctx); err != nil {
			break
		}
	}
	s.finish(ctx, err)
	return nil
}

// nodeWatch returns a look at the nodes that remembers what it said, by hash.
func nodeWatch(see func(context.Context) (op.Nodes, error)) func(context.Context) ([]op.NodeChange, error) {
	seed, known, first := maphash.MakeSeed(), map[string]uint64{}, true
	return func(ctx context.Context) ([]op.NodeChange, error) {
		all, err := see(ctx)
		if err != nil {
			return nil, err
		}
		nodes := all.Nodes
		var out []op.NodeChange
		there := make(map[string]bool, len(nodes))
		for i := range nodes {
			n := &nodes[i]
			there[n.Node] = true
			text, err := marshal(n)
			if err != nil {
				return nil, err
			}
			sum := maphash.Bytes(seed, text)
			if old, ok := known[n.Node]; ok && old == sum {
				continue
			}
			known[n.Node] = sum
			out = append(out, op.NodeChange{Node: n})
		}
		for name := range known {
			if !there[name] {
				delete(known, name)
				out = append(out, op.NodeChange{Gone: name})
			}
		}
		if len(out) > 0 || first {
			out = append(out, op.NodeChange{Complete: true})
		}
		first = false
		return out, nil
	}
}

// changes returns a look at something that says it when it changed.
func changes[T any](see func(context.Context) (T, error)) func(context.Context) ([]T, error) {
	var last []byte
	return func(ctx context.Context) ([]T, error) {
		st, err := see(ctx)
		if err != nil {
			return nil, err
		}
		text, err := marshal(st)
		if err != nil || bytes.Equal(text, last) {
			return nil, err
		}
		last = text
		return []T{st}, nil
	}
}

// download streams what fill writes. A failure on the way cuts the connection, so that a part is
// never taken for the whole.
func (a *API) download(
	w http.ResponseWriter, r *http.Request, contentType string, fill func(context.Context, io.Writer) error,
) error {
	release, err := a.admit(w, r)
	if err != nil {
		return err
	}
	defer release()
	if r.Method == http.MethodHead {
		a.start(w, r, contentType)
		return nil
	}
	d := &lazy{begin: func() *stream { return a.start(w, r, contentType) }}
	if err := fill(r.Context(), d); err != nil {
		if d.s == nil {
			return err
		}
		a.log.Warn("download cut off", append(about(r), zap.Error(err))...)
		panic(http.ErrAbortHandler)
	}
	if d.s == nil {
		d.begin()
	}
	return nil
}

// lazy begins a stream at its first byte, so that errors before it are still answered as such.
type lazy struct {
	begin func() *stream
	s     *stream
}

func (l *lazy) Write(b []byte) (int, error) {
	if l.s == nil {
		l.s = l.begin()
	}
	return l.s.Write(b)
}
