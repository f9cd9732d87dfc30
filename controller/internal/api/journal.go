package api

import (
	"cmp"
	"context"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/workload"
)

const (
	page      = 1000 // entries read at once
	unlimited = 0    // of a follower
)

// events sends journal entries, in order or newest first, and the ones to come if asked to.
func (a *API) events(w http.ResponseWriter, r *http.Request, in op.EventsIn) error {
	f := view.EntryFilter{Node: in.Node, Types: in.Types, Reverse: in.Newest, From: 1 + in.After, Limit: in.Limit}
	if in.Slot != "" {
		slot, err := workload.ParseSlot(in.Slot)
		if err != nil {
			return err
		}
		f.Slot = slot
	}
	if in.Follow {
		return a.follow(w, r, f, in.Limit)
	}
	release, err := a.admit(w, r)
	if err != nil {
		return err
	}
	defer release()
	left := cmp.Or(in.Limit, page)
	f.Limit = min(page, left)
	entries, err := a.entries(r.Context(), f)
	if err != nil {
		return err
	}
	s := a.start(w, r, streamType)
	if r.Method == http.MethodHead {
		return nil
	}
	for {
		err = lines(s, entries...)
		if left -= len(entries); err != nil || left == 0 || !goOn(&f, entries) {
			break
		}
		f.Limit = min(page, left)
		if entries, err = a.entries(r.Context(), f); err != nil {
			break
		}
	}
	s.finish(r.Context(), err)
	return nil
}

// goOn makes a filter that of the entries after these; false: there are none.
func goOn(f *view.EntryFilter, got []view.Entry) bool {
	if len(got) < f.Limit && !cut(got) {
		return false
	}
	last := got[len(got)-1].Seq
	if f.Reverse {
		f.To = last - 1
		return last > max(f.From, 1)
	}
	f.From = last + 1
	return true
}

// cut reports whether there may be more entries than were returned, as these have enough bytes.
func cut(got []view.Entry) bool {
	size := 0
	for i := range got {
		size += len(got[i].Data)
	}
	return size >= view.EntriesSize
}

// follow sends what there is and then what comes, until left entries are sent if that is not
// unlimited.
func (a *API) follow(w http.ResponseWriter, r *http.Request, f view.EntryFilter, left int) error {
	release, err := a.admit(w, r)
	if err != nil {
		return err
	}
	defer release()
	ctx, bounded := r.Context(), left != unlimited
	var s *stream
	for {
		changed := a.core.Changed() // before reading, so that nothing falls between
		head, err := a.head(ctx)
		if err != nil {
			return a.endStream(s, ctx, err)
		}
		f.Limit = page
		if bounded {
			f.Limit = min(page, left)
		}
		entries, err := a.entries(ctx, f)
		if err != nil {
			return a.endStream(s, ctx, err)
		}
		if s == nil {
			s = a.start(w, r, streamType)
			if r.Method == http.MethodHead {
				return nil
			}
			if err := ifSupported(s.c.Flush()); err != nil {
				return nil
			}
		}
		if len(entries) > 0 {
			if err := lines(s, entries...); err != nil {
				return a.endStream(s, ctx, err)
			}
			f.From = entries[len(entries)-1].Seq + 1
			if left -= len(entries); bounded && left == 0 {
				return nil
			}
		}
		if len(entries) == f.Limit || cut(entries) {
			select {
			case <-a.stopping.Done():
				return a.endStream(s, ctx, nil)
			default:
				continue
			}
		}
		f.From = max(f.From, head+1) // what does not match is not looked at again
		if !s.wait(ctx, changed, 0) {
			return a.endStream(s, ctx, nil)
		}
	}
}

// endStream ends a stream if it has begun; otherwise err is the answer.
func (a *API) endStream(s *stream, ctx context.Context, err error) error {
	if s == nil {
		return err
	}
	s.finish(ctx, err)
	return nil
}

// head returns the newest sequence number.
func (a *API) head(ctx context.Context) (uint64, error) {
	newest, err := a.core.Entries(ctx, view.EntryFilter{Reverse: true, Limit: 1})
	if err != nil || len(newest) == 0 {
		return 0, err
	}
	return newest[0].Seq, nil
}

// entries reads entries whose data is JSON: what was not, as received from a node, becomes a string.
func (a *API) entries(ctx context.Context, f view.EntryFilter) ([]view.Entry, error) {
	list, err := a.core.Entries(ctx, f)
	for i := range list {
		if d := list[i].Data; len(d) > 0 && !d.IsValid() {
			text, err := jsontext.AppendQuote(nil, d)
			if err != nil && len(text) == 0 {
				text = []byte(`"unreadable"`)
			}
			list[i].Data = text
		}
	}
	return list, err
}
