package enrol

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/wire"
)

// keyDigits is how much of a key people compare, and the least by which one is named that nobody has seen. They are 64
// bits, so that nobody makes another key that begins as it does.
const keyDigits = 16

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
	of    *group
}

// Rival is somebody who asks under the name of a node that waits already.
type Rival struct {
	Batch string // name of the batch
	Hash  string // of its secret
	Key   string // hash of its key
	From  string
	Last  time.Time
}

// wait notes that a node waits, and returns what it is answered: CodeUnavailable if it is to ask again.
func (s *State) wait(now time.Time, ev Join, b *Batch) *wire.Error {
	node := nodeName(ev.Subject)
	w := s.waiting.by[node]
	if w != nil && now.Sub(w.Last) > waitLife {
		s.waiting.drop(now, w)
		w = nil
	}
	if w != nil && w.Key != ev.Key {
		w.Rival = &Rival{Batch: b.Name, Hash: b.Hash, Key: ev.Key, From: ev.From, Last: now.UTC()}
		return wire.New(wire.CodeWrongState, "", fmt.Sprintf("somebody else waits for approval as %s, with another "+
			"key; the key of this node is %s. If this is the right one: tandem enrol approve %s=%s", node,
			KeyID(ev.Key), node, KeyID(ev.Key)))
	}
	if w != nil && w.Hash != b.Hash { // it has another secret now
		s.waiting.remove(node)
		w = nil
	}
	if w == nil {
		w = &Waiting{Node: node, Batch: b.Name, Hash: b.Hash, Key: ev.Key, From: ev.From, First: now.UTC()}
		if !s.waiting.add(now, w, placeOf(b, ev.From)) {
			return wire.New(wire.CodeUnavailable, "", fmt.Sprintf("%d nodes wait for approval, and there is no room "+
				"for another; try again later. The key of this node is %s; it needs no room with: tandem enrol "+
				"approve %s=%s", maxWaiting, KeyID(ev.Key), node, KeyID(ev.Key)))
		}
	}
	w.From, w.Last = ev.From, now.UTC()
	return wire.New(wire.CodeUnavailable, "", fmt.Sprintf("%s waits for approval; its key is %s. On the controller: "+
		"tandem enrol approve %s=%s; then join again", node, KeyID(ev.Key), node, KeyID(ev.Key)))
}

func (w *Waiting) before(other *Waiting) bool {
	return cmp.Or(w.First.Compare(other.First), strings.Compare(w.Node, other.Node)) < 0
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
	Key  string // the hash of its key, or its first digits; "": that of who waits
}

// Approve lets nodes join, all of them or none: each with the key that is named, or else that it waits with, and no
// other. A key that is named need not have been seen.
type Approve struct{ Nodes []Named }

// Refuse keeps out nodes that wait, or were approved and have not joined, all of them or none: each by its key.
type Refuse struct {
	Nodes  []Named
	Reason string
}

func (Approve) event() {}
func (Refuse) event()  {}

// fits reports whether a hash, or the beginning of one, may be that of a key that was named.
func (n Named) fits(key string) bool {
	return strings.HasPrefix(key, n.Key) || strings.HasPrefix(n.Key, key)
}

func (w *Waiting) node() record.BatchNode {
	return record.BatchNode{Batch: w.Batch, Hash: w.Hash, Node: w.Node, Key: w.Key, From: w.From}
}

func (r *Rival) node(name string) record.BatchNode {
	return record.BatchNode{Batch: r.Batch, Hash: r.Hash, Node: name, Key: r.Key, From: r.From}
}

// asks finds who asks under a name, with the key that is named, and who waits under it; nil: nobody.
func (s *State) asks(now time.Time, n Named) (*record.BatchNode, *Waiting) {
	w := s.waiting.by[n.Node]
	switch {
	case w == nil || now.Sub(w.Last) > waitLife:
		return nil, nil
	case n.fits(w.Key):
		return new(w.node()), w
	case w.Rival != nil && n.fits(w.Rival.Key):
		return new(w.Rival.node(n.Node)), w
	}
	return nil, w
}

func (s *State) approve(now time.Time, ev Approve) Decision {
	var d record.BatchData
	taken := map[string]int{}
	for _, n := range ev.Nodes {
		found, w := s.asks(now, n)
		a := s.approved(now, n.Node)
		switch {
		case a != nil && found != nil && strings.HasPrefix(found.Key, a.Key): // it has come back by another batch
		case a != nil && n.Key != "" && n.fits(a.Key):
			continue
		case a != nil:
			return refuse(wire.CodeWrongState, "%s was approved with the key %s; to take that back: tandem enrol "+
				"refuse %s", n.Node, KeyID(a.Key), n.Node)
		case found == nil && n.Key == "":
			return Decision{Err: nobody(n.Node)}
		case found == nil:
			nodes, err := s.unseen(now, n, taken)
			if err != nil {
				return Decision{Err: err}
			}
			d.Approved = append(d.Approved, nodes...)
			continue
		case n.Key == "" && s.waiting.contested(now, w):
			return refuse(wire.CodeWrongState, "another key has asked as %s as well, or may have: name the one that "+
				"the node says of itself: tandem enrol approve %s=KEY", n.Node, n.Node)
		}
		b := s.batches[found.Hash]
		if b == nil {
			return refuse(wire.CodeNotFound, "there is no batch %s any more", found.Batch)
		}
		if err := b.ends(now); err != nil {
			return Decision{Err: err}
		}
		if taken[b.Hash]++; taken[b.Hash] > b.Room() {
			return refuse(wire.CodeWrongState, "the batch %s is for %d nodes: there is no place for %s", b.Name,
				b.Count, n.Node)
		}
		d.Approved = append(d.Approved, *found)
	}
	if len(d.Approved) == 0 { // they were before
		return Decision{}
	}
	return Decision{Record: d}
}

func nobody(node string) *wire.Error {
	return wire.New(wire.CodeNotFound, "", fmt.Sprintf("nobody waits for approval as %.80s; tandem enrol pending "+
		"lists who does. After a restart of the controller nodes are back with their next try", node))
}

// approved finds the approval of a node by a batch that has not ended; nil: there is none.
func (s *State) approved(now time.Time, node string) *Approval {
	for _, b := range s.Batches() {
		if a := b.approval(node); a != nil && b.ends(now) == nil {
			return a
		}
	}
	return nil
}

// unseen is the approval of a key that does not ask. It is not known by which batch it will, so it has a place in each
// that lets in that name and has one, until it has joined.
func (s *State) unseen(now time.Time, n Named, taken map[string]int) (nodes []record.BatchNode, err *wire.Error) {
	if len(n.Key) < keyDigits {
		return nil, wire.New(wire.CodeInvalidArgument, "", fmt.Sprintf("nobody asks as %s with the key %s; one that "+
			"has not been seen is named by %d digits or more", n.Node, n.Key, keyDigits))
	}
	if s.subjects["node/"+n.Node].isKnown(now) {
		return nil, wire.New(wire.CodeWrongState, "", fmt.Sprintf("there is a node %s, and a batch lets in new ones "+
			"only", n.Node))
	}
	err = nobody(n.Node)
	for _, b := range s.Batches() {
		if b.ends(now) != nil || b.OnSight || !b.names(n.Node) {
			continue
		}
		if taken[b.Hash] >= b.Room() {
			err = wire.New(wire.CodeWrongState, "", fmt.Sprintf("the batch %s is for %d nodes: there is no place for "+
				"%s", b.Name, b.Count, n.Node))
			continue
		}
		taken[b.Hash]++
		nodes = append(nodes, record.BatchNode{Batch: b.Name, Hash: b.Hash, Node: n.Node, Key: n.Key})
	}
	if len(nodes) > 0 {
		return nodes, nil
	}
	return nil, err
}

func (s *State) refuseNodes(now time.Time, ev Refuse) Decision {
	d := record.BatchData{Reason: ev.Reason}
	for _, n := range ev.Nodes {
		before := len(d.Refused)
		for _, b := range s.Batches() {
			if a := b.approval(n.Node); a != nil && n.fits(a.Key) {
				d.Refused = append(d.Refused, record.BatchNode{Batch: b.Name, Hash: b.Hash, Node: n.Node, Key: a.Key,
					From: a.From})
			}
		}
		if len(d.Refused) > before {
			continue
		}
		switch found, w := s.asks(now, n); {
		case found != nil:
			d.Refused = append(d.Refused, *found)
		case w != nil:
			return refuse(wire.CodeWrongState, "%s waits with the key %s, not with %.80s", n.Node, KeyID(w.Key), n.Key)
		default:
			return Decision{Err: nobody(n.Node)}
		}
	}
	return Decision{Record: d}
}
