// Package signing owns the rules about the unit's signing keys and its CAs: which one may be announced, sign and be
// retired, and when. It is pure: it judges an order and returns the new list, for a record; lists are never changed in
// place.
// Private keys are not its business, nor is how nodes learn the list.
//
//tandem:pure
package signing

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

const (
	maxRetired = 64  // IDs of retired keys that are kept
	maxNamed   = 100 // nodes that are named in a record or an answer
)

// Order changes the list of keys.
type Order struct {
	Do    record.KeyStep
	Key   wire.Key // of a new key all of it, else its ID
	First wire.Key // what signs while there is no list
	Force bool     // also if there are nodes that would not believe the unit any more
	Who   string
}

// Change returns the list after an order, and what was done, or a *wire.Error that says why it is refused. unaware
// names the nodes that are not known to believe a key, in order.
func Change(
	now time.Time, keys record.SigningKeys, o Order, unaware func(record.SigningKey) []string,
) (record.KeysData, error) {
	c := change{Order: o, now: now.UTC(), unaware: unaware}
	c.next = record.SigningKeys{List: slices.Clone(keys.List), Retired: keys.Retired}
	if len(c.next.List) == 0 && o.Do != record.ReplaceKey {
		c.next.List = []record.SigningKey{{Key: o.First, State: record.KeySigning}}
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
		return record.KeysData{}, err
	}
	// Unix seconds, so that a journal that was restored from a backup does not say what nodes have
	// heard before.
	c.next.Rev = max(keys.Rev+1, uint64(max(0, now.Unix())))
	return record.KeysData{
		Did: o.Do, Key: o.Key.ID, Forced: len(c.missing) > 0, Missing: c.missing[:min(len(c.missing), maxNamed)],
		Keys: c.next,
	}, nil
}

// change is an order under way.
type change struct {
	Order
	now     time.Time
	next    record.SigningKeys // the list that is made
	unaware func(record.SigningKey) []string
	missing []string // nodes that will not believe what signs then
}

func wrongState(format string, a ...any) *wire.Error {
	return wire.New(wire.CodeWrongState, "", fmt.Sprintf(format, a...))
}

func (c *change) announce() *wire.Error {
	list := c.next.List
	switch next := c.next.Next(); {
	case next != nil:
		return wrongState("key %s is announced already", next.ID)
	case c.next.Find(c.Key.ID) != nil || slices.Contains(c.next.Retired, c.Key.ID):
		return wrongState("key %s was in use before", c.Key.ID)
	case len(list) >= record.MaxSigningKeys:
		return wrongState("there are %d keys already; retire one: tandem key retire %s", len(list), list[0].ID)
	}
	c.next.List = append(list, record.SigningKey{
		Key: c.Key, State: record.KeyAnnounced, Announced: c.now, Since: c.now, Who: c.Who,
	})
	return nil
}

func (c *change) sign() *wire.Error {
	key := c.next.Find(c.Key.ID)
	if key == nil || key.State != record.KeyAnnounced {
		return wrongState("key %.80q is not announced", c.Key.ID)
	}
	if c.missing = c.unaware(*key); len(c.missing) > 0 && !c.Force {
		return wrongState("key %s cannot sign yet: %s", key.ID, notBelieving(c.missing))
	}
	old := c.next.Signs()
	old.State, old.Since, old.Who = record.KeyLeaving, c.now, c.Who
	key.State, key.Since, key.Who = record.KeySigning, c.now, c.Who
	return nil
}

func (c *change) retire() *wire.Error {
	key := c.next.Find(c.Key.ID)
	switch {
	case key == nil && slices.Contains(c.next.Retired, c.Key.ID):
		return wrongState("key %s is retired already", c.Key.ID)
	case key == nil:
		return wire.New(wire.CodeNotFound, "", fmt.Sprintf("there is no key %.80q; see: tandem key show", c.Key.ID))
	case key.State == record.KeySigning:
		return wrongState("key %s signs; have another one take over first: tandem key rotate", key.ID)
	}
	if key.State == record.KeyLeaving {
		if c.missing = c.unaware(*c.next.Signs()); len(c.missing) > 0 && !c.Force {
			return wrongState("key %s cannot be retired yet: %s", key.ID, notBelieving(c.missing))
		}
	}
	c.next.List = slices.DeleteFunc(c.next.List, func(k record.SigningKey) bool { return k.ID == c.Key.ID })
	c.remember(c.Key.ID)
	return nil
}

// replace puts a key in the place of all there are.
func (c *change) replace() {
	for _, k := range c.next.List {
		if k.ID != c.Key.ID {
			c.remember(k.ID)
		}
	}
	c.next.List = []record.SigningKey{{
		Key: c.Key, State: record.KeySigning, Announced: c.now, Since: c.now, Who: c.Who,
	}}
}

// remember keeps the ID of a key that is retired.
func (c *change) remember(kid string) {
	all := append(slices.Clone(c.next.Retired), kid)
	c.next.Retired = all[max(0, len(all)-maxRetired):]
}

// notBelieving says in words who would not believe the unit any more.
func notBelieving(names []string) string {
	return areOrIs(names) + " not known to believe the key that signs then. Wait, revoke what is gone for good, " +
		"or go on with --force: nodes that have joined catch up at the join door, the others need hands"
}

// areOrIs is some of the names, and the verb behind them.
func areOrIs(names []string) string {
	const most = 5
	text := strings.Join(names[:min(len(names), most)], ", ")
	if n := len(names) - most; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	are := "are"
	if len(names) == 1 {
		are = "is"
	}
	return text + " " + are
}

// View returns the keys as operators see them; first is the one that signs while there is no list. nodes counts
// those that believe a key and names those that are not known to.
func View(keys record.SigningKeys, first wire.Key, nodes func(record.SigningKey) (int, []string)) view.Keys {
	if len(keys.List) == 0 {
		keys.List = []record.SigningKey{{Key: first, State: record.KeySigning}}
	}
	v := view.Keys{Rev: keys.Rev, Keys: []view.SigningKey{}}
	for _, k := range keys.List {
		s := view.SigningKey{ID: k.ID, Ed25519: bytes.Clone(k.Ed25519), State: k.State, Since: k.Since, Who: k.Who}
		s.Nodes, s.Missing = nodes(k)
		s.Omitted = max(0, len(s.Missing)-maxNamed)
		s.Missing = s.Missing[:len(s.Missing)-s.Omitted]
		v.Keys = append(v.Keys, s)
	}
	return v
}
