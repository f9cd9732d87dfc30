package distribute

import (
	"errors"
	"os"
	"time"

	"go.uber.org/zap"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

// Files: the readable copy of the unit configuration.

const copyRetry = 5 * time.Second

// writeCopy replaces the readable copy. Should it fail, the journal still is the truth: the write
// is tried again, and a crash before it worked is mended by the look at the next start.
func (c *Core) writeCopy(document []byte) {
	var err error
	if document == nil {
		document, err = c.body(c.fleet.ConfigState().Hash)
	}
	if err == nil && c.cfg.Copy != "" {
		err = durable.WriteFile(c.cfg.Copy, document, 0o600, c.cfg.Steps)
	}
	c.copyDue, c.copyAt = err != nil, c.cfg.Now().Add(copyRetry)
	if err != nil && (c.copyErr == nil || c.copyErr.Error() != err.Error()) {
		c.cfg.Log.Error("cannot write the readable copy of the unit configuration; trying again",
			zap.String("file", c.cfg.Copy), zap.Error(err))
	}
	c.copyErr = err
}

// lookAtCopy compares the readable copy with the journal (seed 000, Startup).
func (c *Core) lookAtCopy() {
	cfg := c.fleet.ConfigState()
	if c.cfg.Copy == "" && cfg.State == fleet.Failed { // for what the journal had; loadDocuments has looked
		c.step(fleet.Copy{Missing: cfg.Version == "", Hash: cfg.Hash})
	}
	if c.cfg.Copy == "" || c.copyDue {
		return
	}
	ev, doc := c.judgeCopy()
	if doc != nil && c.fleet.ConfigState().Version == "" && c.fleet.ConfigState().Trial == nil && ev.Error == nil {
		c.cfg.Log.Info("importing the unit configuration", zap.String("file", c.cfg.Copy))
		c.step(c.parse(view.Submission{
			Kind: "config", Document: doc, Who: "file", Via: "file", ID: "import", Offline: true,
		}, 0))
	}
}

// judgeCopy reads the readable copy and lets the Fleet judge it. A copy that is what the journal has lost is taken.
func (c *Core) judgeCopy() (fleet.Copy, []byte) {
	ev, doc := c.readCopy()
	if damage := c.fleet.Damage(ev.Hash); damage != nil {
		c.mend(c.journal.Load(), doc, damage)
		c.damaged = map[string]*wire.Error{ev.Hash: nil}
		if err := c.loadConfigs(); err != nil {
			c.cfg.Log.Error("the readable copy cannot be taken", zap.Error(err))
		}
		c.step(fleet.Damaged{Documents: c.damaged})
	}
	c.step(ev)
	return ev, doc
}

func (c *Core) readCopy() (fleet.Copy, []byte) {
	doc, err := os.ReadFile(c.cfg.Copy)
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
	if s := c.parse(view.Submission{Kind: "config", Document: doc}, 0); len(s.Problems) > 0 {
		ev.Error = s.Problems[0]
	}
	return ev, doc
}
