package signing

import (
	"slices"
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// CAOrder changes the list of the unit's CAs.
type CAOrder struct {
	Do    record.KeyStep
	CA    string // fingerprint of a new one, else the ID
	First string // fingerprint of what signs while there is no list
	Force bool   // also if there is somebody who would be locked out
	Who   string
}

// CAUse says who depends on a CA, each list in order.
type CAUse struct {
	Unaware func(record.Authority) []string // nodes that are not known to believe it
	Needing func(record.Authority) []string // who has a certificate, or a token, of it alone
}

// ChangeCA returns the list after an order, and what was done, or a *wire.Error that says why it is refused.
func ChangeCA(now time.Time, cas record.Authorities, o CAOrder, use CAUse) (record.CAData, error) {
	c := caChange{CAOrder: o, now: now.UTC(), use: use}
	c.next = record.Authorities{List: slices.Clone(cas.List), Retired: cas.Retired}
	if len(c.next.List) == 0 && o.Do != record.ReplaceKey {
		c.next.List = []record.Authority{{CA: o.First, State: record.KeySigning}}
	}
	var err *wire.Error
	switch o.Do {
	case record.AnnounceKey:
		err = c.announce()
	case record.SignWithKey:
		err = c.sign()
	case record.RetireKey:
		err = c.retire()
	case record.ReplaceKey:
		c.replace()
	default:
		panic("signing: unknown order")
	}
	if err != nil {
		return record.CAData{}, err
	}
	c.next.Rev = max(cas.Rev+1, uint64(max(0, now.Unix()))) // as of the list of keys
	return record.CAData{Did: o.Do, CA: c.CA, Forced: len(c.missing) > 0,
		Missing: c.missing[:min(len(c.missing), maxNamed)], CAs: c.next}, nil
}

// caChange is an order under way.
type caChange struct {
	CAOrder
	now     time.Time
	use     CAUse
	next    record.Authorities // the list that is made
	missing []string           // who will be locked out
}

func (c *caChange) announce() *wire.Error {
	list := c.next.List
	switch next := c.next.Next(); {
	case next != nil:
		return wrongState("the CA %s is announced already", next.ID())
	case c.next.Find(record.CAID(c.CA)) != nil || slices.Contains(c.next.Retired, c.CA):
		return wrongState("the CA %s was in use before", record.CAID(c.CA))
	case len(list) >= record.MaxAuthorities:
		return wrongState("there are %d CAs already; retire one: tandem ca retire %s", len(list), list[0].ID())
	}
	c.next.List = append(list, record.Authority{
		CA: c.CA, State: record.KeyAnnounced, Announced: c.now, Since: c.now, Who: c.Who,
	})
	return nil
}

func (c *caChange) sign() *wire.Error {
	a := c.next.Find(c.CA)
	if a == nil || a.State != record.KeyAnnounced {
		return wrongState("the CA %.80q is not announced", c.CA)
	}
	if c.missing = c.use.Unaware(*a); len(c.missing) > 0 && !c.Force {
		return wrongState("the CA %s cannot sign yet: %s not known to believe it. Wait, update the agent, revoke what "+
			"is gone for good, or go on with --force", a.ID(), areOrIs(c.missing))
	}
	old := c.next.Signs()
	old.State, old.Since, old.Who = record.KeyLeaving, c.now, c.Who
	a.State, a.Since, a.Who = record.KeySigning, c.now, c.Who
	c.CA = a.CA
	return nil
}

func (c *caChange) retire() *wire.Error {
	a := c.next.Find(c.CA)
	switch {
	case a == nil && slices.ContainsFunc(c.next.Retired, func(fp string) bool { return record.CAID(fp) == c.CA }):
		return wrongState("the CA %s is retired already", c.CA)
	case a == nil:
		return wire.New(wire.CodeNotFound, "", "there is no CA "+c.CA+"; see: tandem ca show")
	case a.State == record.KeySigning:
		return wrongState("the CA %s signs; have another one take over first: tandem ca rotate", a.ID())
	}
	c.CA = a.CA
	if a.State == record.KeyLeaving {
		c.missing = c.use.Needing(*a)
		if len(c.missing) > 0 && !c.Force {
			return wrongState("the CA %s cannot be retired yet: %s in need of it. Nodes renew by themselves; others: "+
				"tandem identity certify; a token: tandem node enroll. Or revoke what is gone for good, or go on with "+
				"--force: these have to join or be certified anew", a.ID(), areOrIs(c.missing))
		}
	}
	c.next.List = slices.DeleteFunc(c.next.List, func(x record.Authority) bool { return x.CA == c.CA })
	c.remember(c.CA)
	return nil
}

// replace puts a CA in the place of all there are.
func (c *caChange) replace() {
	for _, a := range c.next.List {
		if a.CA != c.CA {
			c.remember(a.CA)
		}
	}
	c.next.List = []record.Authority{{CA: c.CA, State: record.KeySigning, Announced: c.now, Since: c.now, Who: c.Who}}
}

// remember keeps the fingerprint of a CA that is retired.
func (c *caChange) remember(fp string) {
	all := append(slices.Clone(c.next.Retired), fp)
	c.next.Retired = all[max(0, len(all)-maxRetired):]
}

// CAView returns the CAs as operators see them; first is the fingerprint of the one that signs while there is no list.
func CAView(cas record.Authorities, first string, use CAUse) view.CAs {
	if len(cas.List) == 0 {
		cas.List = []record.Authority{{CA: first, State: record.KeySigning}}
	}
	v := view.CAs{Rev: cas.Rev, CAs: []view.CA{}}
	for _, a := range cas.List {
		one := view.CA{ID: a.ID(), Fingerprint: a.CA, State: a.State, Since: a.Since, Who: a.Who}
		one.Missing = use.Unaware(a)
		if a.State == record.KeyLeaving {
			one.Missing = use.Needing(a)
		}
		one.Omitted = max(0, len(one.Missing)-maxNamed)
		one.Missing = one.Missing[:len(one.Missing)-one.Omitted]
		v.CAs = append(v.CAs, one)
	}
	return v
}
