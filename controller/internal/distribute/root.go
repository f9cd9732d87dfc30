package distribute

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/signing"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/rootlist"
	"tandem.internal/shared/wire"
)

// The lists of CAs and signing keys that a root key signs away from the unit (ADR 057). The chain that the join door
// answers is in the journal, whole in each record; nothing else of it is kept.

// DoorRoot is the chain of lists that is answered to whoever asks, nil: there is none.
func (c *Core) DoorRoot() []byte {
	if p := c.root.Load(); p != nil {
		return *p
	}
	return nil
}

// pickRoot has the door answer what the journal says.
func (c *Core) pickRoot(data record.RootData) {
	if data.Number == 0 {
		return
	}
	chain, err := rootlist.EncodeChain(data.Lists)
	if err != nil {
		c.cfg.Log.Error("the lists of the root key cannot be told", zap.Error(err))
		return
	}
	c.root.Store(&chain)
}

// present is a list of the CAs and keys as they are now, without a number.
func (c *Core) present() rootlist.List {
	cas := c.DoorCAs()
	l := rootlist.List{Unit: c.cfg.Unit, CAs: cas.CAs, Signs: cas.Signs, CAsRev: cas.Rev}
	l.UnitKeys, l.KeysRev = c.Keys()
	return l
}

// ExportCAs writes a list of the CAs and keys as they are now, for a root key to sign. Its number is the time, so that
// a journal that was restored from a backup does not say what nodes have taken before.
func (c *Core) ExportCAs(ctx context.Context, in op.ExportCAs) (view.RootDraft, error) {
	if c.noCA() {
		return view.RootDraft{}, errNoCA
	}
	var have record.RootData
	if err := c.look(ctx, func(f *fleet.Fleet) { have = f.Root() }); err != nil {
		return view.RootDraft{}, err
	}
	l := c.present()
	l.Number, l.Roots = max(have.Number+1, uint64(max(0, c.cfg.Now().Unix()))), in.Roots
	if len(l.Roots) == 0 && have.Number > 0 {
		newest, err := rootlist.Parse(have.Lists[len(have.Lists)-1].List)
		if err != nil {
			return view.RootDraft{}, fmt.Errorf("journal: the list of the root key: %w", err)
		}
		l.Roots = newest.Roots
	}
	if len(l.Roots) == 0 {
		return view.RootDraft{}, wire.New(wire.CodeMissing, "/root", "no root key has signed anything here yet: name "+
			"the one that will; tandem root create makes it, away from the unit")
	}
	text, err := l.Encode()
	if err == nil {
		_, err = rootlist.Parse(text)
	}
	if err != nil {
		return view.RootDraft{}, wire.New(wire.CodeBadValue, "", err.Error())
	}
	return view.RootDraft{List: string(text)}, nil
}

// ImportCAs keeps a list that a root key has signed, and has the join door answer it.
func (c *Core) ImportCAs(ctx context.Context, in op.ImportCAs) (view.CAs, error) {
	if c.noCA() {
		return view.CAs{}, errNoCA
	}
	c.rotating.Lock()
	defer c.rotating.Unlock()
	o := signing.RootOrder{Unit: c.cfg.Unit, Now: c.present(), Who: caller.From(ctx).Who()}
	for _, s := range in.Lists {
		o.Lists = append(o.Lists, rootlist.Signed{List: []byte(s.List), Signature: s.Signature})
	}
	_, err := c.order(ctx, func(t uint64) fleet.Event { return fleet.RootOrder{Ticket: t, RootOrder: o} })
	return c.casAfter(ctx, err)
}
