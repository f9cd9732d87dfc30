package fleet

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/wire"
)

// The states of a signing key that nodes are to believe. One that was retired is not on the list.
const (
	Announced = "announced" // nodes learn it; nothing is signed with it
	Signing   = "signing"   // exactly one
	Leaving   = "leaving"   // another one signs; what it signed may still be about
)

// Key is one signing key of the unit.
type Key struct {
	wire.Key
	State     string    `json:"state"`
	Announced time.Time `json:"announced,omitzero"` // zero: it is the unit's first
	Since     time.Time `json:"since"`              // of the state
	Who       string    `json:"who,omitempty"`
}

// Keys are the unit's signing keys. The zero Keys is a unit whose first key was never rotated: the
// shell knows which one that is.
type Keys struct {
	Rev     uint64   `json:"rev,omitzero"` // number of the list, as the beacon has it
	List    []Key    `json:"list,omitempty"`
	Retired []string `json:"retired,omitempty"` // IDs of the newest maxRetired, the newest last
}

// Bounds of the list.
const (
	maxSigningKeys = 4
	maxRetired     = 64
)

// Signs returns the key that signs, nil without a list.
func (k Keys) Signs() *Key {
	for i := range k.List {
		if k.List[i].State == Signing {
			return &k.List[i]
		}
	}
	return nil
}

// Find returns a key of the list, nil if it is not there.
func (k Keys) Find(kid string) *Key {
	for i := range k.List {
		if k.List[i].ID == kid {
			return &k.List[i]
		}
	}
	return nil
}

// next returns the key that was announced, nil if there is none.
func (k Keys) next() *Key {
	if n := len(k.List); n > 0 && k.List[n-1].State == Announced {
		return &k.List[n-1]
	}
	return nil
}

// check refuses a list that this package cannot have written.
func (k Keys) check() error {
	signing := 0
	for i, key := range k.List {
		if len(key.Ed25519) != 32 || key.ID != seal.KeyID(key.Ed25519) || k.Find(key.ID) != &k.List[i] {
			return fmt.Errorf("key %.80q of the list is not what its ID says, or there twice", key.ID)
		}
		switch key.State {
		case Signing:
			signing++
		case Announced, Leaving:
		default:
			return fmt.Errorf("key %s is in the state %.80q", key.ID, key.State)
		}
	}
	if signing != 1 || len(k.List) > maxSigningKeys {
		return fmt.Errorf("%d of %d keys sign", signing, len(k.List))
	}
	return nil
}

// KeyOrder changes the list; answered under Ticket.
type KeyOrder struct {
	Ticket uint64
	Do     KeyStep
	Key    wire.Key // with Announce and Replace: all of it; with Sign and Retire: its ID
	First  wire.Key // what signs while there is no list
	Force  bool     // also if there are nodes that would not believe the unit any more
	Who    string
}

// KeyStep is what a KeyOrder does.
type KeyStep string

// The steps. Replace is not an operator's: the key that signed was lost, and this one takes its place.
const (
	Announce KeyStep = "announced"
	Sign     KeyStep = "signing"
	Retire   KeyStep = "retired"
	Replace  KeyStep = "replaced"
)

func (KeyOrder) event() {}

// KeysChanged says that Keys is new: the beacon tells it, and if another key signs, everything is
// sealed anew.
type KeysChanged struct{}

func (KeysChanged) effect() {}

// keysData is the data of Keys records: the whole list as it is from then on, and what was done.
type keysData struct {
	Did     KeyStep  `json:"did"`
	Key     string   `json:"key"`
	Forced  bool     `json:"forced,omitzero"`
	Missing []string `json:"missing,omitempty"` // with Forced: nodes that did not believe it, at most maxLaggards
	Keys    Keys     `json:"keys"`
}

// Keys returns the unit's signing keys; it must not be changed.
func (f *Fleet) Keys() Keys { return f.keys }

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

func (s *step) changeKeys(ev KeyOrder) (keysData, error) {
	no := func(format string, a ...any) (keysData, error) {
		return keysData{}, wire.New(wire.CodeWrongState, "", fmt.Sprintf(format, a...))
	}
	now := s.now.UTC()
	next := Keys{List: slices.Clone(s.keys.List), Retired: s.keys.Retired}
	if len(next.List) == 0 && ev.Do != Replace {
		next.List = []Key{{Key: ev.First, State: Signing, Since: now}}
	}
	data := keysData{Did: ev.Do, Key: ev.Key.ID}
	key := next.Find(ev.Key.ID)
	switch ev.Do {
	case Announce:
		switch {
		case next.next() != nil:
			return no("key %s is announced already", next.next().ID)
		case key != nil || slices.Contains(next.Retired, ev.Key.ID):
			return no("key %s was in use before", ev.Key.ID)
		case len(next.List) >= maxSigningKeys:
			return no("there are %d keys already; retire one: tandem key retire %s", len(next.List), next.List[0].ID)
		}
		next.List = append(next.List, Key{Key: ev.Key, State: Announced, Announced: now, Since: now, Who: ev.Who})
	case Sign:
		if key == nil || key.State != Announced {
			return no("key %.80q is not announced", ev.Key.ID)
		}
		if data.Missing = s.unaware(*key); len(data.Missing) > 0 && !ev.Force {
			return no("key %s cannot sign yet: %s", key.ID, inTheDark(data.Missing))
		}
		old := next.Signs()
		old.State, old.Since, old.Who = Leaving, now, ev.Who
		key.State, key.Since, key.Who = Signing, now, ev.Who
	case Retire:
		switch {
		case key == nil && slices.Contains(next.Retired, ev.Key.ID):
			return no("key %s is retired already", ev.Key.ID)
		case key == nil:
			return keysData{}, wire.New(wire.CodeNotFound, "", fmt.Sprintf("there is no key %.80q; see: tandem key show", ev.Key.ID))
		case key.State == Signing:
			return no("key %s signs; have another one take over first: tandem key rotate", key.ID)
		}
		if key.State == Leaving {
			if data.Missing = s.unaware(*next.Signs()); len(data.Missing) > 0 && !ev.Force {
				return no("key %s cannot be retired yet: %s", key.ID, inTheDark(data.Missing))
			}
		}
		next.List = slices.DeleteFunc(next.List, func(k Key) bool { return k.ID == ev.Key.ID })
		next.retire(ev.Key.ID)
	case Replace:
		for _, k := range next.List {
			if k.ID != ev.Key.ID {
				next.retire(k.ID)
			}
		}
		next.List = []Key{{Key: ev.Key, State: Signing, Announced: now, Since: now, Who: ev.Who}}
	default:
		panic("fleet: unknown order about keys")
	}
	data.Forced = len(data.Missing) > 0
	data.Missing = data.Missing[:min(len(data.Missing), maxLaggards)]
	data.Keys = next
	return data, nil
}

func (k *Keys) retire(kid string) {
	k.Retired = append(slices.Clone(k.Retired), kid)
	if n := len(k.Retired) - maxRetired; n > 0 {
		k.Retired = k.Retired[n:]
	}
}

// unaware names the nodes that are not known to believe a key, in order. Those that were revoked do
// not count; those that have joined since it was announced have been given it.
func (f *Fleet) unaware(k Key) []string {
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
	return text + " " + are + " not known to believe the key that signs then. Wait, revoke what is gone for good, or go on with --force: nodes that have joined catch up at the join door, the others need hands"
}

// KeysView returns the keys as operators see them; first is the one that signs while there is no list.
func (f *Fleet) KeysView(first wire.Key) view.Keys {
	keys := f.keys
	if len(keys.List) == 0 {
		keys.List = []Key{{Key: first, State: Signing}}
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
