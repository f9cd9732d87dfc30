package fleet

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// maxRetired bounds the IDs of retired keys that are kept.
const maxRetired = 64

// KeyOrder changes the list; answered under Ticket.
type KeyOrder struct {
	Ticket uint64
	Do     record.KeyStep
	Key    wire.Key // of a new key all of it, else its ID
	First  wire.Key // what signs while there is no list
	Force  bool     // also if there are nodes that would not believe the unit any more
	Who    string
}

func (KeyOrder) event() {}

// KeysChanged says that Keys is new: the beacon tells it, and if another key signs, everything is
// sealed anew.
type KeysChanged struct{}

func (KeysChanged) effect() {}

// Keys returns the unit's signing keys; it must not be changed.
func (f *Fleet) Keys() record.SigningKeys { return f.keys }

// keyOrder judges an order and makes the new list a record. Lists are never changed in place.
func (s *step) keyOrder(ev KeyOrder) {
	data, err := s.changeKeys(ev)
	if err != nil {
		s.effect(Answer{Ticket: ev.Ticket, Err: err})
		return
	}
	// Unix seconds, so that a journal that was restored from a backup does not say what nodes have
	// heard before.
	data.Keys.Rev = max(s.keys.Rev+1, uint64(max(0, s.now.Unix())))
	s.emit(record.Record{Type: record.Keys, Who: ev.Who}, data)
	s.effect(KeysChanged{})
	s.effect(Answer{Ticket: ev.Ticket})
}

func (s *step) changeKeys(ev KeyOrder) (record.KeysData, error) {
	no := func(format string, a ...any) (record.KeysData, error) {
		return record.KeysData{}, wire.New(wire.CodeWrongState, "", fmt.Sprintf(format, a...))
	}
	now := s.now.UTC()
	next := record.SigningKeys{List: slices.Clone(s.keys.List), Retired: s.keys.Retired}
	if len(next.List) == 0 && ev.Do != record.ReplaceKey {
		next.List = []record.SigningKey{{Key: ev.First, State: record.KeySigning, Since: now}}
	}
	data := record.KeysData{Did: ev.Do, Key: ev.Key.ID}
	key := next.Find(ev.Key.ID)
	switch ev.Do {
	case record.AnnounceKey:
		switch {
		case next.Next() != nil:
			return no("key %s is announced already", next.Next().ID)
		case key != nil || slices.Contains(next.Retired, ev.Key.ID):
			return no("key %s was in use before", ev.Key.ID)
		case len(next.List) >= record.MaxSigningKeys:
			return no("there are %d keys already; retire one: tandem key retire %s", len(next.List), next.List[0].ID)
		}
		key := record.SigningKey{Key: ev.Key, State: record.KeyAnnounced, Announced: now, Since: now, Who: ev.Who}
		next.List = append(next.List, key)
	case record.SignWithKey:
		if key == nil || key.State != record.KeyAnnounced {
			return no("key %.80q is not announced", ev.Key.ID)
		}
		if data.Missing = s.unaware(*key); len(data.Missing) > 0 && !ev.Force {
			return no("key %s cannot sign yet: %s", key.ID, inTheDark(data.Missing))
		}
		old := next.Signs()
		old.State, old.Since, old.Who = record.KeyLeaving, now, ev.Who
		key.State, key.Since, key.Who = record.KeySigning, now, ev.Who
	case record.RetireKey:
		switch {
		case key == nil && slices.Contains(next.Retired, ev.Key.ID):
			return no("key %s is retired already", ev.Key.ID)
		case key == nil:
			text := fmt.Sprintf("there is no key %.80q; see: tandem key show", ev.Key.ID)
			return record.KeysData{}, wire.New(wire.CodeNotFound, "", text)
		case key.State == record.KeySigning:
			return no("key %s signs; have another one take over first: tandem key rotate", key.ID)
		}
		if key.State == record.KeyLeaving {
			if data.Missing = s.unaware(*next.Signs()); len(data.Missing) > 0 && !ev.Force {
				return no("key %s cannot be retired yet: %s", key.ID, inTheDark(data.Missing))
			}
		}
		next.List = slices.DeleteFunc(next.List, func(k record.SigningKey) bool { return k.ID == ev.Key.ID })
		retire(&next, ev.Key.ID)
	case record.ReplaceKey:
		for _, k := range next.List {
			if k.ID != ev.Key.ID {
				retire(&next, k.ID)
			}
		}
		first := record.SigningKey{Key: ev.Key, State: record.KeySigning, Announced: now, Since: now, Who: ev.Who}
		next.List = []record.SigningKey{first}
	default:
		panic("fleet: unknown order about keys")
	}
	data.Forced = len(data.Missing) > 0
	data.Missing = data.Missing[:min(len(data.Missing), maxLaggards)]
	data.Keys = next
	return data, nil
}

func retire(k *record.SigningKeys, kid string) {
	k.Retired = append(slices.Clone(k.Retired), kid)
	if n := len(k.Retired) - maxRetired; n > 0 {
		k.Retired = k.Retired[n:]
	}
}

// unaware names the nodes that are not known to believe a key, in order. Those that were revoked do
// not count; those that have joined since it was announced have been given it.
func (f *Fleet) unaware(k record.SigningKey) []string {
	var names []string
	for name, n := range f.nodes {
		if n.Info == nil || !slices.Contains(n.Info.Keys, k.ID) {
			names = append(names, name)
		}
	}
	f.enrolled.Each(func(sub *enrol.Subject) {
		if name, ok := strings.CutPrefix(sub.Name, nodePrefix); ok && f.nodes[name] == nil && len(sub.Serials()) > 0 {
			names = append(names, name) // it has joined, and was not heard yet
		}
	})
	names = slices.DeleteFunc(names, func(name string) bool {
		sub := f.enrolled.Lookup(nodePrefix + name)
		return sub != nil && (!sub.Revoked.IsZero() || sub.Joined.After(k.Announced))
	})
	slices.Sort(names)
	return names
}

// inTheDark says in words who would not believe the unit any more.
func inTheDark(names []string) string {
	const most = 5
	text := strings.Join(names[:min(len(names), most)], ", ")
	if n := len(names) - most; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	are := "are"
	if len(names) == 1 {
		are = "is"
	}
	return text + " " + are + " not known to believe the key that signs then. Wait, revoke what is gone for good, " +
		"or go on with --force: nodes that have joined catch up at the join door, the others need hands"
}

// KeysView returns the keys as operators see them; first is the one that signs while there is no list.
func (f *Fleet) KeysView(first wire.Key) view.Keys {
	keys := f.keys
	if len(keys.List) == 0 {
		keys.List = []record.SigningKey{{Key: first, State: record.KeySigning}}
	}
	v := view.Keys{Rev: keys.Rev, Keys: []view.SigningKey{}}
	for _, k := range keys.List {
		missing := f.unaware(k)
		s := view.SigningKey{ID: k.ID, Ed25519: bytes.Clone(k.Ed25519), State: k.State, Since: k.Since, Who: k.Who}
		for _, n := range f.nodes {
			if n.Info != nil && slices.Contains(n.Info.Keys, k.ID) {
				s.Nodes++
			}
		}
		s.Omitted = max(0, len(missing)-maxLaggards)
		s.Missing = missing[:len(missing)-s.Omitted]
		v.Keys = append(v.Keys, s)
	}
	return v
}
