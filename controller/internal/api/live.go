package api

import (
	"context"
	"net/http"

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
	for more := true; more; {
		select {
		case <-s.a.stopping.Done():
			return nil
		default:
		}
		var b []byte
		if b, more = v.Next(); len(b) == 0 {
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
