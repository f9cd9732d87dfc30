package store

import (
	"cmp"
	"context"
	"slices"

	"tandem.internal/controller/internal/artefact"
	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

// maxUsers is how many of those who refer to an artefact are shown.
const maxUsers = 20

// List shows what is in the store.
func (s *Store) List(ctx context.Context) (v op.Artefacts, err error) {
	if s == nil {
		return v, errNone
	}
	used, err := s.cfg.Ledger.ArtefactsUsed(ctx)
	if err != nil {
		return v, err
	}
	v = op.Artefacts{Artefacts: []view.Artefact{}, Uploads: []view.Upload{}, Quota: s.cfg.Quota}
	var open []string
	if err := s.cfg.Ledger.SeeArtefacts(ctx, func(state *artefact.State) {
		v.Reserved = state.Reserved()
		for _, a := range state.Artefacts {
			v.Artefacts = append(v.Artefacts, s.shown(&a, used[a.Digest]))
		}
		for digest := range state.Leases {
			open = append(open, digest)
		}
	}); err != nil {
		return v, err
	}
	slices.SortFunc(v.Artefacts, func(a, b view.Artefact) int {
		return cmp.Or(a.Added.Compare(b.Added), cmp.Compare(a.Digest, b.Digest))
	})
	slices.Sort(open)
	for _, digest := range open {
		u, err := s.Upload(ctx, digest)
		if err == nil && u.State != view.UploadAdded {
			v.Uploads = append(v.Uploads, u)
		}
	}
	return v, nil
}

func (s *Store) shown(a *artefact.Artefact, used []string) view.Artefact {
	s.mu.Lock()
	damaged := s.damaged[a.Digest]
	s.mu.Unlock()
	url := ""
	if s.cfg.URL != nil {
		if url = s.cfg.URL(); url != "" {
			url += a.Digest
		}
	}
	return view.Artefact{URL: url, Digest: a.Digest, Size: a.Size, Name: a.Name, Who: a.Who, Added: a.Added,
		Damaged: damaged, UsedBy: used[:min(len(used), maxUsers)], Omitted: max(0, len(used)-maxUsers)}
}

// Show shows one artefact, whose files it looks at, or the upload that is to become one.
func (s *Store) Show(ctx context.Context, in op.ArtefactIn) (v view.Artefact, err error) {
	e, err := s.look(ctx, in.Digest)
	if err != nil {
		return v, err
	}
	if !e.there && !e.open {
		return v, none(in.Digest)
	}
	used, err := s.cfg.Ledger.ArtefactsUsed(ctx)
	if err != nil {
		return v, err
	}
	var unread error
	if e.there && e.damaged == nil {
		unread = s.inspect(ctx, in.Digest)
	}
	if !e.there {
		e.artefact = artefact.Artefact{Digest: in.Digest, Size: e.lease.Size, Name: e.lease.Name}
	}
	v = s.shown(&e.artefact, used[in.Digest])
	if unread != nil {
		v.Damaged = wire.AsError(unread)
	}
	if !e.there {
		v.URL = ""
	}
	if !e.open {
		return v, nil
	}
	switch u, err := s.Upload(ctx, in.Digest); {
	case err != nil:
		return v, err
	case u.State == view.UploadAdded: // meanwhile
		return s.Show(ctx, in)
	default:
		v.Upload = &u
	}
	return v, nil
}

// Remove removes an artefact that nothing refers to, or ends an upload.
func (s *Store) Remove(ctx context.Context, in op.RemoveArtefactIn) (op.RemovedArtefact, error) {
	out := op.RemovedArtefact{Digest: in.Digest}
	if s == nil {
		return out, errNone
	}
	used, err := s.cfg.Ledger.ArtefactsUsed(ctx)
	if err != nil {
		return out, err
	}
	return out, s.end(ctx, caller.From(ctx).Who(),
		in.Digest, artefact.Remove{Digest: in.Digest, Reason: in.Reason, Used: used[in.Digest]})
}

// end has an artefact or an upload removed, and then removes its files.
func (s *Store) end(ctx context.Context, who, digest string, ev artefact.Event) error {
	ctx, leave, err := s.enter(ctx, digest)
	if err != nil {
		return err
	}
	defer leave()
	if err := s.cfg.Ledger.DecideArtefact(ctx, who, ev); err != nil {
		return err
	}
	return s.diskError(s.clear(ctx, digest))
}

// clear removes the files of a digest that neither an artefact nor a lease names. The caller has the hold.
func (s *Store) clear(ctx context.Context, digest string) error {
	e, err := s.look(context.WithoutCancel(ctx), digest)
	if err != nil {
		return err
	}
	state := artefact.New()
	if e.open {
		state.Leases[digest] = e.lease
	}
	if e.there {
		state.Artefacts[digest] = e.artefact
	}
	for _, f := range []struct{ dir, path string }{
		{partsDir, s.partPath(digest)}, {blobsDir, s.blobPath(digest)},
		{blobsDir, s.blobPath(digest) + chunksSuffix}, {quarantineDir, s.quarantinePath(digest)},
	} {
		if orphan(state, f.dir, digest) {
			if err := durable.Unlink(f.path, s.cfg.Around); err != nil {
				return err
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !e.there {
		delete(s.damaged, digest)
		delete(s.needed, digest)
		delete(s.read, digest)
	}
	return nil
}
