package api

import (
	"context"
	"net/http"
	"sync"

	"tandem.internal/controller/internal/liveview"
	"tandem.internal/controller/internal/op"
)

// Live answers with what a viewer is told, for as long as the caller listens.
func Live(see func(context.Context, op.LiveIn) (*liveview.Viewer, func(), error)) Operation {
	return serve(op.Live, func(a *API, w http.ResponseWriter, r *http.Request, in op.LiveIn) error {
		leave, err := enter(w, r, &a.viewers[0], &a.viewers[1])
		if err != nil {
			return err
		}
		defer leave()
		v, end, err := see(r.Context(), in)
		if err != nil {
			return err
		}
		defer end()
		s := a.start(w, r, streamType)
		if r.Method != http.MethodHead {
			s.finish(r.Context(), s.live(v))
		}
		return nil
	})
}

// chunks are lent to viewers while they write: who waits for something to happen holds none.
var chunks = sync.Pool{New: func() any {
	b := make([]byte, 0, liveview.Chunk+liveview.Chunk/2)
	return &b
}}

// live sends what changes until the caller leaves, or is too slow for the piece that is on its way.
func (s *stream) live(v *liveview.Viewer) error {
	for {
		changed := v.Changed() // before looking, so that nothing falls between
		if err := s.fill(v); err != nil {
			return err
		}
		if !s.wait(s.r.Context(), changed, 0) {
			return nil
		}
	}
}

// fill sends all that a viewer does not have yet.
func (s *stream) fill(v *liveview.Viewer) error {
	lent := chunks.Get().(*[]byte)
	defer chunks.Put(lent)
	for more := true; more; {
		select {
		case <-s.a.stopping.Done():
			return nil
		default:
		}
		b, next, err := v.Fill((*lent)[:0])
		if err != nil {
			return err
		}
		*lent, more = b, next
		if len(b) == 0 {
			continue
		}
		if _, err := s.Write(b); err != nil {
			return err
		}
		if err := ifSupported(s.c.Flush()); err != nil {
			return err
		}
	}
	return nil
}
