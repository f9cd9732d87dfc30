package distribute

import (
	"errors"
	"os"
	"time"

	"go.uber.org/zap"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// Files: the readable copy of the unit configuration.

const copyRetry = 5 * time.Second

// writeCopy replaces the readable copy. Should it fail, the journal still is the truth: the write
// is tried again, and a crash before it worked is mended by the look at the next start.
func (c *Core) writeCopy(document []byte) {
	var err error
	state := c.fleet.State(c.cfg.Kinds.Copied().Name)
	if document == nil {
		document, err = c.body(state.Hash)
	}
	if err == nil && c.cfg.Copy != "" {
		err = durable.WriteFile(c.cfg.Copy, document, 0o600, c.cfg.Steps)
	}
	c.copyDue, c.copyAt = err != nil, c.cfg.Now().Add(copyRetry)
	if err != nil && (c.copyErr == nil || c.copyErr.Error() != err.Error()) {
		c.cfg.Log.Error("cannot write the readable copy of the unit configuration; trying again",
			zap.String("kind", string(c.cfg.Kinds.Copied().Name)), zap.Uint64("rev", state.Rev),
			zap.String("file", c.cfg.Copy), zap.Error(err))
	}
	c.copyErr = err
}

// lookAtCopy compares the readable copy with the journal (seed 000, Startup).
func (c *Core) lookAtCopy() {
	src := c.cfg.Kinds.Copied()
	if src == nil {
		return
	}
	state := c.fleet.State(src.Name)
	if c.cfg.Copy == "" && state.State == kind.Failed { // for what the journal had; loadDocuments has looked
		c.step(fleet.Copy{Missing: state.Version == "", Hash: state.Hash})
	}
	if c.cfg.Copy == "" || c.copyDue {
		return
	}
	ev, doc := c.judgeCopy()
	if state = c.fleet.State(src.Name); doc != nil && state.Version == "" && state.Trial == nil && ev.Error == nil {
		c.cfg.Log.Info("importing the "+src.Title, zap.String("kind", string(src.Name)), zap.String("file", c.cfg.Copy))
		sub := view.Submission{Kind: src.Name, Document: doc, Who: "file", Via: "file", ID: "import", Offline: true}
		c.step(c.parse(sub, nil))
	}
}

// judgeCopy reads the readable copy and lets the Fleet judge it. A copy that is what the journal has lost is taken.
func (c *Core) judgeCopy() (fleet.Copy, []byte) {
	ev, doc := c.readCopy()
	if damage := c.fleet.Damaged(ev.Hash); damage != nil {
		c.restoreBody(c.journal.Load(), doc, damage)
		c.damaged = map[string]*wire.Error{ev.Hash: nil}
		if err := c.loadSource(c.cfg.Kinds.Copied()); err != nil {
			c.cfg.Log.Error("the readable copy cannot be taken", zap.String("kind", string(c.cfg.Kinds.Copied().Name)),
				zap.Error(err))
		}
		c.step(fleet.Damaged{Documents: c.damaged})
	}
	c.step(ev)
	return ev, doc
}

func (c *Core) readCopy() (fleet.Copy, []byte) {
	doc, err := durable.ReadFile(c.cfg.Copy, unitconfig.MaxDocument)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fleet.Copy{Missing: true}, nil
	case err != nil:
		return fleet.Copy{Error: wire.New(wire.CodeStorage, "", err.Error())}, nil
	}
	ev := fleet.Copy{Hash: wire.Hash(doc)}
	if ev.Known = c.known(doc, ev.Hash); ev.Known {
		return ev, doc
	}
	if s := c.parse(view.Submission{Kind: c.cfg.Kinds.Copied().Name, Document: doc}, nil); len(s.Problems) > 0 {
		ev.Error = s.Problems[0]
	}
	return ev, doc
}
