package distribute

import (
	"context"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"tandem.internal/controller/internal/ca"
	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/signing"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

// The unit's CAs. Which ones count, and which of them signs, is in the journal; their files are package ca's. The order
// of a rotation, so that a crash at any step leaves CAs that nodes believe:
//
//	the file of the new one is durable  else the next rotate makes another, or takes this one
//	the announcement is in the journal; doors take certificates by both, and tell nodes of both
//	the switch is in the journal        the new one certifies those who believe it; nodes renew by themselves
//	the retirement is in the journal    doors take no certificate by the old one
//	the file of the old one is removed  else at the next start

// SetAuthority names the authority. It is called before Run, if there is one.
func (c *Core) SetAuthority(a Authority) {
	c.authority = &a
	c.pickCAs()
}

// CAs are those that the journal says count; empty if there was no rotation. It is for the time before Run.
func (c *Core) CAs() (ca.List, error) { return caList(c.fleet.CAs()) }

func caList(state record.Authorities) (l ca.List, err error) {
	for _, a := range state.List {
		fp, err := ca.ParseFingerprint(a.CA)
		if err != nil {
			return ca.List{}, fmt.Errorf("journal: %w", err)
		}
		l.All = append(l.All, fp)
		if a.State == record.KeySigning {
			l.Signs = fp
		}
	}
	return l, nil
}

// ReplaceCA has the journal say that the CA which signs is the only one, since another one was lost. It is for the time
// before Run, when the authority is set.
func (c *Core) ReplaceCA() error {
	fp := c.authority.CA.Fingerprint()
	c.step(fleet.CAOrder{CAOrder: signing.CAOrder{Do: record.ReplaceKey, CA: fp.String()}})
	c.commit()
	if c.broken != nil {
		return c.broken
	}
	c.cfg.Log.Warn("another CA certifies from now on, since one was lost; see: tandem ca show",
		zap.String("ca", fp.ID()))
	return nil
}

// DoorCAs is what nodes are told of the CAs, and of brokers that do not count any more.
func (c *Core) DoorCAs() jointoken.CAList { return *c.cas.Load() }

// pickCAs brings the authority to what the journal says.
func (c *Core) pickCAs() {
	if c.noCA() {
		return
	}
	state, authority := c.fleet.CAs(), c.authority.CA
	if l, err := caList(state); err != nil {
		c.cfg.Log.Error("the CAs cannot be changed", zap.Error(err))
	} else if len(l.All) > 0 && !sameCAs(l, authority.Listed()) {
		if err := authority.Arrange(l); err != nil {
			c.cfg.Log.Error("the CAs cannot all be changed", zap.Error(err)) // they were there a moment ago
		}
	}
	c.cas.Store(&jointoken.CAList{Unit: c.cfg.Unit, CAs: authority.Certificates(), Rev: state.Rev,
		Signs: authority.Fingerprint().String(), Refused: c.fleet.RefusedBrokers()})
	c.pickRoot(c.fleet.Root())
	for _, text := range state.Retired { // as far as a crash has left them
		if fp, err := ca.ParseFingerprint(text); err == nil {
			c.forgetCA(fp)
		}
	}
}

// noCA reports whether this controller certifies nobody.
func (c *Core) noCA() bool { return c.authority == nil || c.authority.CA == nil }

func sameCAs(a, b ca.List) bool { return a.Signs == b.Signs && slices.Equal(a.All, b.All) }

func (c *Core) forgetCA(fp jointoken.Fingerprint) {
	if err := c.authority.CA.Forget(fp); err != nil {
		c.cfg.Log.Warn("the file of a retired CA cannot be removed; it is tried again at the next start",
			zap.String("ca", fp.ID()), zap.Error(err))
	}
}

// casChanged follows the journal: it is the effect of a CA record, and of one about a broker.
func (c *Core) casChanged() {
	c.pickCAs()
	c.reportKeys.forget()
	if c.cfg.CAsChanged != nil {
		c.cfg.CAsChanged()
	}
}

// ShowCAs shows the CAs, and who is not known to be ready for the next step.
func (c *Core) ShowCAs(ctx context.Context) (v view.CAs, err error) {
	if c.noCA() {
		return v, errNoCA
	}
	err = c.see(ctx, func(f *fleet.Fleet) {
		v = f.CAView(c.cfg.Now(), c.authority.CA.Fingerprint().String())
		now := c.present()
		v.Root = f.RootView(&now)
	})
	for i := range v.CAs {
		if fp, err := ca.ParseFingerprint(v.CAs[i].Fingerprint); err == nil {
			v.CAs[i].Expires = c.authority.CA.ExpiresOf(fp)
		}
	}
	return v, err
}

var errNoCA = wire.New(wire.CodeNotSupported, "",
	"this controller has no CA; start it with --listen-tls or --join-listen")

// RotateCA does the next step of a rotation: it announces a new CA, or has the announced one sign from now on. The
// second is refused while there are nodes that are not known to believe it, unless forced.
func (c *Core) RotateCA(ctx context.Context, in op.RotateCA) (view.CAs, error) {
	if c.noCA() {
		return view.CAs{}, errNoCA
	}
	c.rotating.Lock()
	defer c.rotating.Unlock()
	var state record.Authorities
	if err := c.look(ctx, func(f *fleet.Fleet) { state = f.CAs() }); err != nil {
		return view.CAs{}, err
	}
	if next := state.Next(); next != nil {
		return c.casAfter(ctx, c.caOrder(ctx, signing.CAOrder{Do: record.SignWithKey, CA: next.ID(), Force: in.Force}))
	}
	if len(state.List) >= record.MaxAuthorities { // package signing says which one to retire; no file is made for it
		return c.casAfter(ctx, c.caOrder(ctx, signing.CAOrder{Do: record.AnnounceKey}))
	}
	fp, err := c.spareCA(state)
	if err != nil {
		return view.CAs{}, wire.New(wire.CodeStorage, "", err.Error())
	}
	return c.casAfter(ctx, c.caOrder(ctx, signing.CAOrder{Do: record.AnnounceKey, CA: fp.String()}))
}

// spareCA returns a CA that is there but does not count: an announcement was cut off by a crash, or the journal is an
// older copy. Without one it makes a CA.
func (c *Core) spareCA(state record.Authorities) (jointoken.Fingerprint, error) {
	listed := c.authority.CA.Listed().All
	for _, fp := range c.authority.CA.Held() {
		if !slices.Contains(listed, fp) && !slices.Contains(state.Retired, fp.String()) {
			return fp, nil
		}
	}
	return c.authority.CA.Make()
}

// RetireCA takes a CA off the list: nodes drop it, and its file is removed. It is refused for the one that signs, and
// while somebody still needs it, unless forced.
func (c *Core) RetireCA(ctx context.Context, in op.RetireCA) (view.CAs, error) {
	if c.noCA() {
		return view.CAs{}, errNoCA
	}
	c.rotating.Lock()
	defer c.rotating.Unlock()
	return c.casAfter(ctx, c.caOrder(ctx, signing.CAOrder{Do: record.RetireKey, CA: in.ID, Force: in.Force}))
}

func (c *Core) caOrder(ctx context.Context, o signing.CAOrder) error {
	o.First, o.Who = c.authority.CA.Fingerprint().String(), caller.From(ctx).Who()
	_, err := c.order(ctx, func(t uint64) fleet.Event { return fleet.CAOrder{Ticket: t, CAOrder: o} })
	return err
}

func (c *Core) casAfter(ctx context.Context, err error) (view.CAs, error) {
	if err != nil {
		return view.CAs{}, err
	}
	return c.ShowCAs(ctx)
}
