// Package serve sends artefacts to nodes, by HTTP.
//
// It guarantees that a node gets only what it may fetch, that for it all others do not exist, that no byte leaves
// before its chunk is verified, and that a transfer of which a chunk is damaged is cut off instead of ended. At most
// artefact.MaxTransfers nodes fetch at once, together at most the set rate; the others are told when to come back. Who
// asks is known to the caller, by the certificate of the connection.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"tandem.internal/controller/internal/artefact"
	"tandem.internal/controller/internal/artefact/store"
	"tandem.internal/shared/flow"
	"tandem.internal/shared/wire"
)

// Config is what a Server needs.
type Config struct {
	Store *store.Store
	// Allowed reports whether a node may fetch an artefact.
	Allowed func(ctx context.Context, node, digest string) (bool, error)
	Rate    float64        // bytes a second, of all transfers; 0: no limit
	Chance  func() float64 // from 0 to 1
	Log     *zap.Logger
}

// Server sends artefacts. It is safe for concurrent use.
type Server struct {
	cfg     Config
	buffers sync.Pool // of store.Chunk bytes

	mu     sync.Mutex
	turns  artefact.Turns
	bucket flow.Bucket
}

// New makes a server.
func New(cfg Config) *Server {
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	return &Server{cfg: cfg, buffers: sync.Pool{New: func() any { return new([store.Chunk]byte) }}}
}

// piece is what is written at once, in bytes, and patience how long a node may take for it.
const (
	piece    = 64 << 10
	patience = 30 * time.Second
)

// Send answers a GET or HEAD of a node for an artefact. An error is for the caller to answer with; nothing was written
// then but perhaps the header Retry-After.
func (s *Server) Send(w http.ResponseWriter, r *http.Request, node, digest string) error {
	none := wire.New(wire.CodeNotFound, "", "there is no such artefact for this node")
	if !wire.ValidHash(digest) {
		return none
	}
	ok, err := s.cfg.Allowed(r.Context(), node, digest)
	if err != nil {
		return err
	}
	if !ok {
		return none
	}
	if r.Method != http.MethodHead {
		done, err := s.turn(w, node)
		if err != nil {
			return err
		}
		defer done()
	}
	f, err := s.cfg.Store.Open(r.Context(), digest)
	if err != nil {
		// Also of one that is damaged: operators are told of it elsewhere.
		s.cfg.Log.Debug("a node asks for an artefact that cannot be sent", zap.String("node", node), zap.Error(err))
		return cmp.Or(later(err), none)
	}
	defer func() {
		if err := f.Close(); err != nil {
			s.cfg.Log.Debug("closing an artefact", zap.String("node", node), zap.Error(err))
		}
	}()
	return s.send(w, r, node, f, none)
}

// later returns an error that says that the artefact cannot be read now; nil: it is another one.
func later(err error) *wire.Error {
	if e, ok := errors.AsType[*wire.Error](err); ok && e.Code == wire.CodeUnavailable {
		return e
	}
	return nil
}

// turn takes a turn of a node, or says when it is to come back.
func (s *Server) turn(w http.ResponseWriter, node string) (done func(), err error) {
	begun := time.Now() // durations are real time
	s.mu.Lock()
	wait, ok := s.turns.Take(begun, node, s.cfg.Chance())
	s.mu.Unlock()
	if !ok {
		seconds := int(math.Ceil(wait.Seconds()))
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
		return nil, wire.New(wire.CodeUnavailable, "", fmt.Sprintf("other nodes fetch now; come back in %d s", seconds))
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.turns.Done(node, time.Since(begun))
	}, nil
}

func (s *Server) send(w http.ResponseWriter, r *http.Request, node string, f *store.File, none *wire.Error) error {
	tag := `"` + f.Digest + `"`
	from, to, status := int64(0), f.Size, http.StatusOK
	same := r.Header.Get("If-Range")
	if text := r.Header.Get("Range"); text != "" && (same == "" || same == tag) {
		from, to, status = span(text, f.Size)
	}
	buf := s.buffers.Get().(*[store.Chunk]byte)
	defer s.buffers.Put(buf)
	var first []byte
	if from < to {
		var err error
		if first, err = f.Chunk(r.Context(), from/store.Chunk, buf[:]); err != nil {
			return cmp.Or(later(err), none)
		}
	}
	h := w.Header()
	h.Set("ETag", tag)
	h.Set("Accept-Ranges", "bytes")
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.FormatInt(to-from, 10))
	switch status {
	case http.StatusPartialContent:
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, f.Size))
	case http.StatusRequestedRangeNotSatisfiable:
		h.Set("Content-Range", fmt.Sprintf("bytes */%d", f.Size))
	}
	w.WriteHeader(status)
	if r.Method == http.MethodHead || from == to {
		return nil
	}
	to = min(to, f.Size)
	out := &paced{s: s, w: w, c: http.NewResponseController(w), ctx: r.Context()}
	for b := first; ; {
		at := from % store.Chunk
		b = b[at:min(int64(len(b)), at+to-from)]
		if _, err := out.Write(b); err != nil {
			s.cfg.Log.Debug("a node left before the end", zap.String("node", node), zap.Error(err))
			panic(http.ErrAbortHandler)
		}
		if from += int64(len(b)); from == to {
			return nil
		}
		var err error
		if b, err = f.Chunk(r.Context(), from/store.Chunk, buf[:]); err != nil {
			panic(http.ErrAbortHandler) // what was sent must not look whole
		}
	}
}

// span reads a Range of one span: from and to, exclusive, in a whole of size bytes. What is not understood, or has
// several spans, asks for the whole.
func span(text string, size int64) (from, to int64, status int) {
	first, last, ok := strings.Cut(strings.TrimPrefix(text, "bytes="), "-")
	if !ok || !strings.HasPrefix(text, "bytes=") || strings.Contains(last, ",") {
		return 0, size, http.StatusOK
	}
	a, aerr := strconv.ParseUint(first, 10, 62)
	b, berr := strconv.ParseUint(last, 10, 62)
	switch {
	case first == "" && berr == nil: // so many at the end
		from, to = max(0, size-int64(b)), size
	case aerr == nil && last == "":
		from, to = int64(a), size
	case aerr == nil && berr == nil && a <= b:
		from, to = int64(a), min(int64(b)+1, size)
	default:
		return 0, size, http.StatusOK
	}
	if from >= to {
		return 0, 0, http.StatusRequestedRangeNotSatisfiable
	}
	return from, to, http.StatusPartialContent
}

// paced writes no faster than all transfers together may.
type paced struct {
	s   *Server
	w   io.Writer
	c   *http.ResponseController
	ctx context.Context
}

// Write implements io.Writer.
func (p *paced) Write(b []byte) (n int, err error) {
	for len(b) > 0 {
		next := b[:min(len(b), piece)]
		if err := p.s.await(p.ctx, len(next)); err != nil {
			return n, err
		}
		err := p.c.SetWriteDeadline(time.Now().Add(patience))
		if err != nil && !errors.Is(err, http.ErrNotSupported) {
			return n, err
		}
		m, err := p.w.Write(next)
		if n += m; err != nil {
			return n, err
		}
		b = b[len(next):]
	}
	return n, nil
}

// await waits until n more bytes may be sent.
func (s *Server) await(ctx context.Context, n int) error {
	if s.cfg.Rate <= 0 {
		return ctx.Err()
	}
	rate := flow.PerSecond(s.cfg.Rate, piece)
	now := time.Now()
	s.mu.Lock()
	s.bucket.Charge(now, rate, n)
	wait := s.bucket.Next(rate, 0).Sub(now)
	s.mu.Unlock()
	return store.Pause(ctx, wait)
}
