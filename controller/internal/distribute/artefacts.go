package distribute

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"tandem.internal/controller/internal/artefact"
	"tandem.internal/controller/internal/artefact/store"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

// What the core is to the store of artefacts: its ledger, and who refers to what is in it.

// openArtefacts opens the store, if there is to be one.
func (c *Core) openArtefacts() (err error) {
	cfg := c.cfg.Artefacts
	if cfg.Dir == "" {
		return nil
	}
	cfg.Ledger, cfg.Now, cfg.Log = c, c.cfg.Now, c.cfg.Log
	cfg.URL = func() string {
		if c.JoinURL() == "" {
			return ""
		}
		return jointoken.ArtefactURL("")
	}
	c.artefacts, err = store.New(cfg, c.fleet.Artefacts())
	return err
}

// Artefacts is the store of artefacts. Without one, nil, every method says so.
func (c *Core) Artefacts() *store.Store { return c.artefacts }

// DecideArtefact implements store.Ledger.
func (c *Core) DecideArtefact(ctx context.Context, who string, ev artefact.Event) error {
	_, err := c.order(ctx, func(t uint64) fleet.Event { return fleet.Artefact{Ticket: t, Event: ev, Who: who} })
	return err
}

// SeeArtefacts implements store.Ledger.
func (c *Core) SeeArtefacts(ctx context.Context, fn func(*artefact.State)) error {
	return c.see(ctx, func(f *fleet.Fleet) { fn(f.Artefacts()) })
}

// ArtefactDamaged implements store.Ledger.
func (c *Core) ArtefactDamaged(err *wire.Error) { c.Misbehaved("", "artefacts", err) }

// issued is a document that a node should have or runs, or one that it is to get when it comes.
type issued struct {
	kind *kind.Kind
	node string
	hash string
	body []byte // nil: the journal has it
}

// ArtefactsUsed implements store.Ledger: by sources, and by documents of nodes, also of those that are yet to come.
func (c *Core) ArtefactsUsed(ctx context.Context) (map[string][]string, error) {
	var all []issued
	used := map[string][]string{}
	if err := c.see(ctx, func(f *fleet.Fleet) {
		f.Keeps(func(digest, by string) { used[digest] = append(used[digest], by) })
		for _, k := range c.cfg.Kinds.Kinds {
			if k.Artefacts == nil {
				continue
			}
			for _, n := range f.Nodes() {
				for _, hash := range n.Bodies()[k.Name] {
					all = append(all, issued{kind: k, node: n.Name, hash: hash})
				}
			}
			if src := c.cfg.Kinds.Source(k.Name); src != nil && src.Bodies != nil {
				src.Bodies(f.Content(src.Name), func(node string, b *kind.Body) {
					all = append(all, issued{k, node, b.Hash, b.Bytes})
				})
			}
		}
	}); err != nil {
		return nil, err
	}
	for _, doc := range all {
		digests, err := c.names(doc)
		if err != nil {
			return nil, err
		}
		by := fmt.Sprintf("the %s of %s", doc.kind.Name, doc.node)
		for _, digest := range digests {
			if !slices.Contains(used[digest][max(0, len(used[digest])-2):], by) { // those of one node come together
				used[digest] = append(used[digest], by)
			}
		}
	}
	for _, list := range used {
		slices.Sort(list)
	}
	for digest, list := range used {
		used[digest] = slices.Compact(list)
	}
	return used, ctx.Err()
}

// MayFetch reports whether a document that a node should have, or runs, names an artefact.
func (c *Core) MayFetch(ctx context.Context, node, digest string) (bool, error) {
	var all []issued
	if err := c.see(ctx, func(f *fleet.Fleet) {
		n := f.Lookup(node)
		if n == nil {
			return
		}
		bodies := n.Bodies()
		for _, k := range c.cfg.Kinds.Kinds {
			if k.Artefacts == nil {
				continue
			}
			for _, hash := range bodies[k.Name] {
				all = append(all, issued{kind: k, node: node, hash: hash})
			}
		}
	}); err != nil {
		return false, err
	}
	for _, doc := range all {
		digests, err := c.names(doc)
		if err != nil {
			return false, err
		}
		if slices.Contains(digests, digest) {
			return true, nil
		}
	}
	return false, nil
}

// named remembers which artefacts nodes' documents name, by the nodes and the documents' hashes.
type named struct {
	mu  sync.Mutex
	all map[string][]string
}

// maxNamed bounds the documents that are remembered. Those that are in use are known again soon.
const maxNamed = 50_000

// names lists the artefacts that a document names. One that the journal does not have any more names none.
func (c *Core) names(doc issued) ([]string, error) {
	key := doc.node + " " + doc.hash // a node may say that it runs another one's document, which names nothing for it
	if doc.kind.Alike {              // many nodes have the same one
		key = doc.hash
	}
	c.named.mu.Lock()
	digests, known := c.named.all[key]
	c.named.mu.Unlock()
	if known {
		return digests, nil
	}
	body := doc.body
	if body == nil {
		h, err := parseHash(doc.hash)
		if err != nil {
			return nil, err
		}
		body, known, err = c.journal.Load().Body(h)
		if err != nil {
			return nil, fmt.Errorf("which artefacts the %s of %s name is not known: %w", doc.kind.Name, doc.node, err)
		}
		if !known {
			return nil, nil
		}
	}
	digests = doc.kind.Artefacts(doc.node, body)
	c.named.mu.Lock()
	defer c.named.mu.Unlock()
	if c.named.all == nil || len(c.named.all) >= maxNamed {
		c.named.all = map[string][]string{}
	}
	c.named.all[key] = digests
	return digests, nil
}
