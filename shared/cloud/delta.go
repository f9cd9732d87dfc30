package cloud

import (
	"bytes"
	"cmp"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json"
)

// Delta is what has changed from one whole status to another; nil: nothing has. Applied to the first it gives the
// second, but for the order of lists. Neither is written to.
func Delta(from, to *UnitStatus) *UnitStatus {
	d := &UnitStatus{MessageType: TypeUnitStatus, CorrelationID: to.CorrelationID, IsDeltaInfo: true}
	d.Nodes = differ(from.Nodes, to.Nodes, nodeKey, func(n Node) Node {
		return Node{Identity: n.Identity, State: NodeUnprovisioned}
	})
	d.Items = differ(from.Items, to.Items, itemKey, func(i Item) Item {
		return Item{Item: i.Item, Version: i.Version, State: ItemRemoved}
	})
	d.Instances = differ(from.Instances, to.Instances, groupKey, func(g Instances) Instances {
		g.Instances = []Instance{}
		return g
	})
	if !slices.Equal(from.Subjects, to.Subjects) {
		d.Subjects = append([]Identity{}, to.Subjects...)
	}
	if !reflect.DeepEqual(from.UnitConfig, to.UnitConfig) {
		d.UnitConfig = append([]ConfigState{}, to.UnitConfig...)
	}
	if d.Nodes == nil && d.Items == nil && d.Instances == nil && d.Subjects == nil && d.UnitConfig == nil &&
		from.CorrelationID == to.CorrelationID {
		return nil
	}
	return d
}

func nodeKey(n *Node) string { return n.Identity.Codename }

func itemKey(i *Item) place { return place{item: i.Item.key(), version: i.Version} }

func groupKey(g *Instances) group { return group{g.Item.key(), g.Version, g.Subject.key()} }

// group is what tells entries of instances from each other.
type group struct {
	item    identity
	version string
	subject identity
}

// identity tells what is named from everything else of its sort.
type identity struct{ sort, id, codename string }

func (i *Identity) key() identity { return identity{i.Type, i.ID, i.Codename} }

func (i identity) compare(j identity) int {
	return cmp.Or(cmp.Compare(i.sort, j.sort), cmp.Compare(i.id, j.id), cmp.Compare(i.codename, j.codename))
}

// differ lists the elements that are new or another, in their order, and what stands for those that are gone.
func differ[E any, K comparable](from, to []E, key func(*E) K, gone func(E) E) (all []E) {
	was := make(map[K]*E, len(from))
	for i := range from {
		was[key(&from[i])] = &from[i]
	}
	for i := range to {
		k := key(&to[i])
		if old := was[k]; old == nil || !reflect.DeepEqual(*old, to[i]) {
			all = append(all, to[i])
		}
		delete(was, k)
	}
	for i := range from {
		if was[key(&from[i])] != nil {
			all = append(all, gone(from[i]))
		}
	}
	return all
}

// Apply makes of a whole status the next one, by a delta.
func (s *UnitStatus) Apply(d *UnitStatus) {
	s.CorrelationID = d.CorrelationID
	s.Nodes = merge(s.Nodes, d.Nodes, nodeKey, func(n *Node) bool { return n.State == NodeUnprovisioned })
	s.Items = merge(s.Items, d.Items, itemKey, func(i *Item) bool { return i.State == ItemRemoved })
	s.Instances = merge(s.Instances, d.Instances, groupKey, func(g *Instances) bool { return len(g.Instances) == 0 })
	if d.Subjects != nil {
		s.Subjects = d.Subjects
	}
	if d.UnitConfig != nil {
		s.UnitConfig = d.UnitConfig
	}
}

func merge[E any, K comparable](all, changed []E, key func(*E) K, gone func(*E) bool) []E {
	at := make(map[K]int, len(all))
	for i := range all {
		at[key(&all[i])] = i
	}
	removed := map[int]bool{}
	for i := range changed {
		c := &changed[i]
		was, known := at[key(c)]
		switch {
		case gone(c) && known:
			removed[was] = true
		case gone(c):
		case known:
			all[was] = *c
		default:
			all = append(all, *c)
		}
	}
	kept := all[:0]
	for i := range all {
		if !removed[i] {
			kept = append(kept, all[i])
		}
	}
	return kept
}

// Encode writes a status. Equal ones are equal bytes.
func (s *UnitStatus) Encode() []byte {
	text, err := json.Marshal(s, json.Deterministic(true))
	if err != nil {
		panic("cloud: a unit status cannot be written: " + err.Error()) // it is texts and numbers
	}
	return text
}

// ParseStatus reads a status. Members that are not known are passed over: a newer unit may say more.
func ParseStatus(data []byte) (*UnitStatus, error) {
	s := &UnitStatus{}
	if err := json.UnmarshalRead(bytes.NewReader(data), s); err != nil {
		return nil, err
	}
	return s, nil
}
