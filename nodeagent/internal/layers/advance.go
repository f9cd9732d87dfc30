package layers

import (
	"context"
	"errors"
	"slices"
	"time"

	"tandem.internal/nodeagent/internal/tree"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// advance makes a tree that is wanted, if it is not there and can be made: for a run, or for all. Then it finds out of
// which other archives it could have been made.
func (s *Store) advance(ctx context.Context, run, id string) {
	s.mu.Lock()
	l := s.layers[id]
	// A clock that was set back has nothing wait for longer.
	if l == nil || l.next.After(s.cfg.Now()) && !l.next.After(s.cfg.Now().Add(longest)) {
		s.mu.Unlock()
		return
	}
	from, sound, looked := slices.Clone(l.from), l.sound, l.looked
	s.busy = id
	s.mu.Unlock()
	defer s.rest(id, from)
	at, there := s.trees.Path(id)
	sound = sound && there
	if there && !sound && !looked && s.intact(id, at, true) {
		s.settle(id, from, s.archives(at), nil)
		sound = true
	}
	for _, a := range from {
		s.mu.Lock()
		done := sound && l.has(a) || l.refused[claim(a)] != nil
		s.mu.Unlock()
		if done {
			continue
		}
		r := s.cfg.Blobs.Look(a)
		if r.State != "" || r.Unsigned != nil {
			continue
		}
		var err error
		if sound {
			_, err = s.read(ctx, a, r.Path)
		} else {
			err = s.create(ctx, run, a, r.Path)
		}
		if errors.Is(err, tree.ErrRefused) { // another one may say what it is
			s.settle(id, []workload.Artifact{a}, nil, err)
			continue
		}
		s.settle(id, from, []string{a.Verification.Checksum}, err)
		if err != nil {
			return
		}
		sound = true
	}
	s.mu.Lock()
	l.looked = true
	s.mu.Unlock()
}

// rest ends the work on a tree. Should that not be wanted any more, its room is free now.
func (s *Store) rest(id string, from []workload.Artifact) {
	s.mu.Lock()
	s.busy = ""
	gone := s.layers[id] == nil
	s.mu.Unlock()
	if !gone {
		return
	}
	for _, a := range from {
		s.cfg.Blobs.Release(a)
	}
}

// settle takes in how the making of a tree of some archives went, and which have it in them.
func (s *Store) settle(id string, from []workload.Artifact, proved []string, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	for _, a := range from {
		s.cfg.Blobs.Release(a)
	}
	s.mu.Lock()
	if l := s.layers[id]; l != nil {
		l.looked, l.err, l.next = true, nil, time.Time{}
		switch {
		case err == nil:
			l.sound, l.failed, l.proved = true, 0, append(l.proved, proved...)
		case errors.Is(err, tree.ErrRefused):
			if l.refused == nil {
				l.refused = map[string]*wire.Error{}
			}
			for _, a := range from {
				l.refused[claim(a)] = why(err)
			}
		default:
			s.sweep = true // what could not be removed, too
			l.err, l.next = why(err), s.cfg.Now().Add(min(again<<min(l.failed, doublets), longest))
			l.failed++
		}
	}
	s.mu.Unlock()
	notify(s.updates)
}

// why is an error of a tree as the node tells it.
func why(err error) *wire.Error {
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return e
	}
	code := wire.CodeStorage
	switch {
	case errors.Is(err, tree.ErrRefused):
		code = wire.CodeBadValue
	case errors.Is(err, tree.ErrDamaged):
		code = wire.CodeHashMismatch
	}
	return wire.New(code, "", wire.Plain(err.Error(), wire.MaxMessage))
}
