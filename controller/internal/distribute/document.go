package distribute

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"go.uber.org/zap"

	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// Submitted documents as the journal has them.

// loadDocuments parses the documents that the replayed state names. Those that are damaged in the journal are
// remembered in c.damaged, until the loop tells the Fleet.
func (c *Core) loadDocuments() error {
	c.damaged = map[string]*wire.Error{}
	for _, src := range c.cfg.Kinds.Sources {
		if src.Parse == nil {
			continue
		}
		if err := c.loadSource(src); err != nil {
			return err
		}
	}
	return nil
}

func (c *Core) loadSource(src *kind.Source) error {
	remedy := "apply the " + string(src.Name) + " again"
	if src.Copied {
		remedy = "put an intact unit-config.json in its place, or apply a " + src.Noun
	}
	state := c.fleet.State(src.Name)
	installed, err := c.content(src, state.Hash, state.Lenient)
	if err = c.orDamaged(src, state.Rev, state.Hash, remedy, err); err != nil {
		return err
	}
	var trial kind.Content
	if t := state.Trial; t != nil {
		trial, err = c.content(src, t.Hash, t.Lenient)
		if err = c.orDamaged(src, t.Rev, t.Hash, "apply the "+src.Noun+" on trial again", err); err != nil {
			return err
		}
	}
	c.fleet.SetContent(src.Name, installed, trial)
	for _, v := range c.fleet.Versions(src.Name) { // of rollouts
		content, err := c.content(src, v.Hash, v.Lenient)
		if err = c.orDamaged(src, 0, v.Hash, "nodes that have it keep it; abort its rollout", err); err != nil {
			return err
		}
		c.fleet.SetVersion(src.Name, v.Hash, content)
	}
	return nil
}

// content works out again what an accepted document comes to; nil for none.
func (c *Core) content(src *kind.Source, hash string, lenient bool) (kind.Content, error) {
	if hash == "" {
		return nil, nil
	}
	doc, err := c.body(hash)
	if err != nil {
		return nil, err
	}
	p := src.Parse(kind.Reading{Document: doc, Lenient: lenient, Stored: true})
	if len(p.Problems) > 0 {
		return nil, fmt.Errorf("journal: the accepted %s %s is not readable: %w", src.Title, hash, p.Problems[0])
	}
	return p.Content, nil
}

// orDamaged remembers that a document is damaged in the journal, and what to do about it. Every other error is
// returned. rev is 0 for one of several that are rolled out: its nodes have it in as many revisions.
func (c *Core) orDamaged(src *kind.Source, rev uint64, hash, remedy string, err error) error {
	if !errors.Is(err, journal.ErrDamaged) {
		return err
	}
	e := wire.New(wire.CodeStorage, "", wire.AsError(err).Message+"; "+remedy)
	c.damaged[hash] = e
	of := []zap.Field{zap.String("kind", string(src.Name)), zap.String("hash", hash), zap.Error(e)}
	if rev != 0 {
		of = append(of, zap.Uint64("rev", rev))
	}
	c.cfg.Log.Error("a document is damaged in the journal; nothing of it is distributed", of...)
	return nil
}

// body returns bytes that the journal must have. Where they are damaged there, the readable copy of the unit
// configuration is taken if it is what was written, and the journal is mended with it. The error is a
// *journal.BodyError if there is no intact copy.
func (c *Core) body(hash string) ([]byte, error) {
	h, err := parseHash(hash)
	if err != nil {
		return nil, err
	}
	j := c.journal.Load()
	b, err := j.NeededBody(h)
	if !errors.Is(err, journal.ErrDamaged) || c.cfg.Copy == "" {
		return b, err
	}
	doc, rerr := durable.ReadFile(c.cfg.Copy, unitconfig.MaxDocument)
	if rerr != nil || wire.Hash(doc) != hash {
		return nil, err
	}
	c.restoreBody(j, doc, err)
	return doc, nil
}

// restoreBody stores the intact bytes of a body over the damaged ones. If that fails the journal is broken, which the
// next write finds out.
func (c *Core) restoreBody(j *journal.Journal, doc []byte, damage error) {
	of := zap.String("kind", string(c.cfg.Kinds.Copied().Name))
	if _, err := j.Append(&journal.Batch{Bodies: [][]byte{doc}}); err != nil {
		c.cfg.Log.Error("a damaged document in the journal cannot be mended", of, zap.NamedError("damage", damage),
			zap.Error(err))
		return
	}
	c.cfg.Log.Warn("a damaged document in the journal is mended by the readable copy", of,
		zap.NamedError("damage", damage))
}

// known reports whether the journal has, or should have, these bytes. Damaged ones it should have are mended.
func (c *Core) known(doc []byte, hash string) bool {
	h, err := parseHash(hash)
	if err != nil {
		return false
	}
	j := c.journal.Load()
	_, ok, err := j.Body(h)
	if errors.Is(err, journal.ErrDamaged) {
		c.restoreBody(j, doc, err)
		return true
	}
	return ok && err == nil
}

// parseHash reads a hash as documents carry it.
func parseHash(hash string) (h journal.Hash, err error) {
	raw, err := hex.DecodeString(strings.TrimPrefix(hash, wire.HashPrefix))
	if err != nil || len(raw) != len(h) {
		return h, fmt.Errorf("journal: %q is not a hash", hash)
	}
	return journal.Hash(raw), nil
}
