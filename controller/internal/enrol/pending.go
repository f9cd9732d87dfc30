package enrol

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/wire"
)

const (
	maxWaiting = 4096      // nodes that wait for an approval, of all batches
	waitLife   = time.Hour // for which somebody is remembered who does not ask again
	pruneEvery = time.Minute
	keyDigits  = 16 // of KeyID
)

// MinKey is the least number of digits by which an operator may name a key.
const MinKey = 8

// KeyID is what people call a key: the beginning of its hash.
func KeyID(hash string) string { return hash[:min(len(hash), keyDigits)] }

// Waiting is a node that asks to join with the secret of a batch. That is no part of the journaled state: nobody has
// decided anything, and the node asks again by itself, also after a restart of the controller.
type Waiting struct {
	Node  string
	Batch string // name of the batch
	Hash  string // of its secret
	Key   string // hash of the node's key
	From  string // address, of the newest try
	First time.Time
	Last  time.Time
	Rival *Rival // who asked last under the same name with another key; nil: nobody
	of    group
}

// Rival is somebody who asks under the name of a node that waits already.
type Rival struct {
	Key  string
	From string
	Last time.Time
}

// wait notes that a node waits, and returns what it is answered: CodeUnavailable if it is to ask again.
func (s *State) wait(now time.Time, ev Join, b *Batch) *wire.Error {
	node := nodeName(ev.Subject)
	w := s.waiting.by[node]
	if w != nil && now.Sub(w.Last) > waitLife {
		s.waiting.remove(node)
		w = nil
	}
	if w != nil && w.Key != ev.Key {
		w.Rival = &Rival{Key: ev.Key, From: ev.From, Last: now.UTC()}
		return wire.New(wire.CodeWrongState, "", fmt.Sprintf("somebody else waits for approval as %s, with the key "+
			"%s; the key of this node is %s. If this is the right one: tandem enrol refuse %s", node, KeyID(w.Key),
			KeyID(ev.Key), node))
	}
	if w != nil && w.Hash != b.Hash { // it has another secret now
		s.waiting.remove(node)
		w = nil
	}
	if w == nil {
		w = &Waiting{Node: node, Batch: b.Name, Hash: b.Hash, Key: ev.Key, From: ev.From, First: now.UTC()}
		if !s.waiting.add(now, w) {
			return wire.New(wire.CodeUnavailable, "", fmt.Sprintf("%d nodes wait for approval, and there is no room "+
				"for another; try again later", maxWaiting))
		}
	}
	w.From, w.Last = ev.From, now.UTC()
	return wire.New(wire.CodeUnavailable, "", fmt.Sprintf("%s waits for approval; its key is %s. On the controller: "+
		"tandem enrol approve %s=%s; then join again", node, KeyID(ev.Key), node, KeyID(ev.Key)))
}

func (w *Waiting) before(other *Waiting) bool {
	return cmp.Or(w.First.Compare(other.First), strings.Compare(w.Node, other.Node)) < 0
}

// group is who shares a part of the room for those that wait: one network with one secret.
type group struct {
	hash string
	net  netip.Prefix
}

func groupOf(hash, from string) group {
	a, err := netip.ParseAddr(from)
	if err != nil {
		return group{hash: hash}
	}
	a = a.Unmap().WithZone("")
	bits := 32
	if a.Is6() {
		bits = 64
	}
	return group{hash, netip.PrefixFrom(a, bits).Masked()}
}

// queue is who waits. When all places are taken, the newest of the group that has the most leaves for one of a group
// that has fewer: so whoever asks under many names takes no place of the others.
type queue struct {
	by     map[string]*Waiting // by name of the node
	groups map[group]int       // how many wait of each
	pruned time.Time
}

func newQueue() queue { return queue{by: map[string]*Waiting{}, groups: map[group]int{}} }

// add notes that one more waits; false: there is no room.
func (q *queue) add(now time.Time, w *Waiting) bool {
	w.of = groupOf(w.Hash, w.From)
	if len(q.by) >= maxWaiting && !q.makeRoom(now, w.of) {
		return false
	}
	q.by[w.Node] = w
	q.groups[w.of]++
	return true
}

func (q *queue) remove(node string) {
	w := q.by[node]
	if w == nil {
		return
	}
	delete(q.by, node)
	if q.groups[w.of]--; q.groups[w.of] == 0 {
		delete(q.groups, w.of)
	}
}

func (q *queue) removeIf(which func(*Waiting) bool) {
	for node, w := range q.by {
		if which(w) {
			q.remove(node)
		}
	}
}

func (q *queue) makeRoom(now time.Time, wants group) bool {
	if now.Sub(q.pruned).Abs() >= pruneEvery {
		q.pruned = now
		q.removeIf(func(w *Waiting) bool { return now.Sub(w.Last) > waitLife })
		if len(q.by) < maxWaiting {
			return true
		}
	}
	var most group
	for of, n := range q.groups {
		if n > q.groups[most] {
			most = of
		}
	}
	if q.groups[wants]+1 >= q.groups[most] {
		return false
	}
	var newest *Waiting
	for _, w := range q.by {
		if w.of == most && (newest == nil || newest.before(w)) {
			newest = w
		}
	}
	q.remove(newest.Node)
	return true
}

// Waiting returns who waits and has asked within the last hour, in the order of names.
func (s *State) Waiting(now time.Time) (all []Waiting) {
	for _, w := range s.waiting.by {
		if now.Sub(w.Last) <= waitLife {
			all = append(all, *w)
		}
	}
	slices.SortFunc(all, func(a, b Waiting) int { return strings.Compare(a.Node, b.Node) })
	return all
}

// Named is a node that an operator approves or refuses.
type Named struct {
	Node string
	Key  string // beginning of the hash of its key; "": whichever waits
}

// Approve lets nodes join that wait, all of them or none. Each may join with the key that it waits with, and no other.
type Approve struct{ Nodes []Named }

// Refuse keeps out nodes that wait, or were approved and have not joined, all of them or none: each by its key.
type Refuse struct {
	Nodes  []Named
	Reason string
}

func (Approve) event() {}
func (Refuse) event()  {}

// waits finds who waits under a name, with the key that is named.
func (s *State) waits(now time.Time, n Named) (*Waiting, *wire.Error) {
	w := s.waiting.by[n.Node]
	switch {
	case w == nil || now.Sub(w.Last) > waitLife:
		return nil, wire.New(wire.CodeNotFound, "", fmt.Sprintf("nobody waits for approval as %.80s; tandem enrol "+
			"pending lists who does. After a restart of the controller nodes are back with their next try", n.Node))
	case !strings.HasPrefix(w.Key, n.Key):
		return nil, wire.New(wire.CodeWrongState, "", fmt.Sprintf("%s waits with the key %s, not with %.80s", n.Node,
			KeyID(w.Key), n.Key))
	}
	return w, nil
}

func (s *State) approve(now time.Time, ev Approve) Decision {
	var d record.BatchData
	taken := map[string]int{}
	for _, n := range ev.Nodes {
		w, err := s.waits(now, n)
		if err != nil {
			return Decision{Err: err}
		}
		b := s.batches[w.Hash]
		if b == nil {
			return refuse(wire.CodeNotFound, "there is no batch %s any more", w.Batch)
		}
		if err := b.ends(now); err != nil {
			return Decision{Err: err}
		}
		if taken[b.Hash]++; taken[b.Hash] > b.Room() {
			return refuse(wire.CodeWrongState, "the batch %s is for %d nodes: there is no place for %s", b.Name,
				b.Count, n.Node)
		}
		d.Approved = append(d.Approved, record.BatchNode{Batch: b.Name, Hash: b.Hash, Node: n.Node, Key: w.Key,
			From: w.From})
	}
	return Decision{Record: d}
}

func (s *State) refuseNodes(now time.Time, ev Refuse) Decision {
	d := record.BatchData{Reason: ev.Reason}
	for _, n := range ev.Nodes {
		if b, a := s.approved(n.Node); a != nil && strings.HasPrefix(a.Key, n.Key) {
			d.Refused = append(d.Refused, record.BatchNode{Batch: b.Name, Hash: b.Hash, Node: n.Node, Key: a.Key,
				From: a.From})
			continue
		}
		w, err := s.waits(now, n)
		if err != nil {
			return Decision{Err: err}
		}
		d.Refused = append(d.Refused, record.BatchNode{Batch: w.Batch, Hash: w.Hash, Node: n.Node, Key: w.Key,
			From: w.From})
	}
	return Decision{Record: d}
}

// approved finds who was approved under a name, and has not joined.
func (s *State) approved(node string) (*Batch, *Approval) {
	for _, b := range s.Batches() {
		if a := b.approval(node); a != nil {
			return b, a
		}
	}
	return nil, nil
}
