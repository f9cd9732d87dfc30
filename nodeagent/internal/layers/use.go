package layers

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"go.uber.org/zap"

	"tandem.internal/shared/workload"
)

// Used says that a run of before the agent was started has trees: it is told before anything is wanted.
func (s *Store) Used(run string, all map[string]workload.Artifact) {
	for name := range all {
		if u := all[name].Unpack; u != nil {
			_, _ = s.trees.Use(u.DiffID, run, true) // it may have gone
		}
	}
}

// Free says that a run has ended: what nobody else has may go.
func (s *Store) Free(run string) {
	s.trees.Leave(run)
	s.mu.Lock()
	s.sweep = s.sweep || s.order != nil // nil: it is not known yet what is wanted
	s.mu.Unlock()
	notify(s.poke)
}

// Outdated is the directory of a tree that a run has, and that was found damaged: another one is in its place, or will
// be. "": there is none.
func (s *Store) Outdated(run string) string { return s.trees.Old(run) }

// Use sees to it that the trees of a configuration's resources are as they were made, each in its archive, and keeps
// them for a run that is to start. In the place of a damaged one it makes another, or says why it cannot. It returns
// where the resources are, by name, and not those that are not on the node. It may take as long as a layer takes to be
// unpacked.
func (s *Store) Use(ctx context.Context, run string, all map[string]workload.Artifact) (map[string]string, error) {
	paths := map[string]string{}
	trees := map[string]string{} // by diff ID and archive: that of an item is the resource of many hooks
	for _, name := range slices.Sorted(maps.Keys(all)) {
		a := all[name]
		if a.Unpack == nil {
			if r := s.cfg.Blobs.Look(a); r.State == "" {
				paths[name] = r.Path
			}
			continue
		}
		key := a.Unpack.DiffID + claim(a)
		if trees[key] == "" {
			at, err := s.use(ctx, run, a)
			if err != nil {
				return nil, fmt.Errorf("the resource %.64q: %w", name, err)
			}
			trees[key] = at
		}
		r := meant(trees[key], a.Unpack.Path)
		if r.Err != nil {
			return nil, fmt.Errorf("the resource %.64q: %w", name, r.Err)
		}
		paths[name] = r.Path
	}
	return paths, nil
}

// use does so for one tree, and returns where that is.
func (s *Store) use(ctx context.Context, run string, a workload.Artifact) (string, error) {
	if at, _, its := s.uses(run, a, false); its {
		return at, nil
	}
	if !s.take(ctx) {
		return "", ctx.Err()
	}
	defer func() { <-s.turn }()
	at, sound, its := s.uses(run, a, true)
	if its { // or somebody has made it meanwhile
		return at, nil
	}
	id := a.Unpack.DiffID
	if !sound {
		s.cfg.Log.Warn("a tree is not as it was made; another one is made", zap.String("diffId", id))
	}
	s.mu.Lock()
	if l := s.layers[id]; l != nil && (l.looked || !sound) {
		l.sound, l.looked = sound, true
	}
	s.mu.Unlock()
	s.advance(ctx, run, id)
	if at, _, its = s.uses(run, a, false); its {
		return at, nil
	}
	notify(s.poke) // what failed is tried again
	notify(s.updates)
	r := s.Look(a)
	if r.Err != nil {
		r.State = r.Err.Message
	}
	if sound {
		return "", fmt.Errorf("its archive is not known to have the tree in it: %s", r.State)
	}
	return "", fmt.Errorf("its tree is damaged, and cannot be made anew: %s", r.State)
}

// uses has a run use a tree, and reports whether that is as it was made, and in the archive of an artifact.
func (s *Store) uses(run string, a workload.Artifact, thorough bool) (at string, sound, its bool) {
	at, err := s.trees.Use(a.Unpack.DiffID, run, false)
	sound = err == nil && s.intact(a.Unpack.DiffID, at, thorough)
	return at, sound, sound && slices.Contains(s.archives(at), a.Verification.Checksum)
}
