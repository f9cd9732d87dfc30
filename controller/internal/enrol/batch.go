package enrol

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/wire"
)

// Bounds of batches.
const (
	MaxBatchCount  = 10_000 // nodes of one batch
	MaxBatchFrom   = 64     // networks of one batch
	MaxBatchNames  = 1_000  // names and patterns of one batch
	maxBatches     = 64     // batches that are kept; one that is over makes room for a new one
	maxRefusedKeys = 256    // keys that were refused, of one batch; the newest are kept
)

// Batch is a secret with which a number of new nodes may join.
type Batch struct {
	Name      string         `json:"name"`
	Hash      string         `json:"hash"` // SHA-256 of the secret, in hexadecimal
	Count     int            `json:"count"`
	Until     time.Time      `json:"until"`
	From      []netip.Prefix `json:"from"`             // networks that nodes have to come from
	Names     []string       `json:"names,omitempty"`  // names or patterns of names; none: any
	Type      string         `json:"type,omitempty"`   // see Enrol
	OnSight   bool           `json:"onSight,omitzero"` // nobody has to approve a node
	Created   time.Time      `json:"created"`
	Who       string         `json:"who,omitempty"`     // who made it
	Joined    int            `json:"joined,omitempty"`  // nodes that have joined; it never falls
	Approved  []Approval     `json:"approved,omitzero"` // who may join, and has not yet
	Refused   []string       `json:"refused,omitempty"` // as Approval.Key, of keys that may not join
	Revoked   time.Time      `json:"revoked,omitzero"`
	RevokedBy string         `json:"revokedBy,omitempty"`
}

// Approval lets one key join under one name. It has a place in the batch's count.
type Approval struct {
	Node string    `json:"node"`
	Key  string    `json:"key"` // hash of the key, or its first digits
	From string    `json:"from,omitempty"`
	At   time.Time `json:"at"`
	Who  string    `json:"who,omitempty"`
}

// Room is how many more nodes may join or be approved.
func (b *Batch) Room() int { return max(0, b.Count-b.Joined-len(b.Approved)) }

// Over reports whether nobody joins by the batch any more.
func (b *Batch) Over(now time.Time) bool {
	return b.Closed() || !now.Before(b.Until)
}

// Closed is Over for whatever the clock says.
func (b *Batch) Closed() bool { return !b.Revoked.IsZero() || b.Joined >= b.Count }

func (b *Batch) approval(node string) *Approval {
	if i := slices.IndexFunc(b.Approved, func(a Approval) bool { return a.Node == node }); i >= 0 {
		return &b.Approved[i]
	}
	return nil
}

// ends returns why the batch does not count any more; nil: it does.
func (b *Batch) ends(now time.Time) *wire.Error {
	switch {
	case !b.Revoked.IsZero():
		return wire.New(wire.CodeNotAllowed, "", "the batch "+b.Name+" was revoked")
	case !now.Before(b.Until):
		return wire.New(wire.CodeExpired, "", fmt.Sprintf("the batch %s was valid until %s", b.Name,
			b.Until.UTC().Format(time.RFC3339)))
	}
	return nil
}

// admits returns why a name or an address is not one of the batch's; nil: both are.
func (b *Batch) admits(node, from string) *wire.Error {
	a, err := netip.ParseAddr(from)
	if err != nil || !slices.ContainsFunc(b.From, func(p netip.Prefix) bool {
		return p.Contains(a.Unmap().WithZone(""))
	}) {
		return wire.New(wire.CodeNotAllowed, "", fmt.Sprintf("the batch %s is for other addresses than %.64s", b.Name,
			from))
	}
	if !b.names(node) {
		return wire.New(wire.CodeWrongTarget, "", fmt.Sprintf("the batch %s is for other names than %s", b.Name, node))
	}
	return nil
}

// names reports whether the batch lets in nodes of that name.
func (b *Batch) names(node string) bool {
	return len(b.Names) == 0 || slices.ContainsFunc(b.Names, func(p string) bool {
		ok, err := path.Match(p, node)
		return ok && err == nil
	})
}

// NewBatch makes a batch.
type NewBatch struct {
	Name    string
	Hash    string // of the secret
	Count   int
	Life    time.Duration // 0: TokenLife
	From    []string      // networks, as CIDR
	Names   []string      // names, or patterns as of path.Match; none: any
	Type    string        // see Enrol
	OnSight bool
}

// RevokeBatch ends a batch. Nodes that have joined stay.
type RevokeBatch struct{ Name, Reason string }

func (NewBatch) event()    {}
func (RevokeBatch) event() {}

// CheckBatch returns what is wrong with a new batch's name, count, life, networks or patterns; nil: nothing is.
func CheckBatch(ev *NewBatch) *wire.Error {
	bad := func(at, format string, a ...any) *wire.Error {
		return wire.New(wire.CodeInvalidArgument, at, fmt.Sprintf(format, a...))
	}
	switch {
	case !wire.ValidName(ev.Name):
		return bad("/name", "%.80q cannot name a batch: letters, digits, dot, underscore and dash, at most 63", ev.Name)
	case ev.Count < 1 || ev.Count > MaxBatchCount:
		return bad("/count", "a batch is for 1 to %d nodes", MaxBatchCount)
	case ev.Life != 0 && (ev.Life < time.Minute || ev.Life > MaxTokenLife):
		return bad("/ttl", "a batch lives from 1 minute to %d days", MaxTokenLife/(24*time.Hour))
	case len(ev.From) == 0 || len(ev.From) > MaxBatchFrom:
		return bad("/from", "1 to %d networks are expected, such as 10.0.0.0/16", MaxBatchFrom)
	case len(ev.Names) > MaxBatchNames:
		return bad("/names", "at most %d names and patterns", MaxBatchNames)
	}
	for i, text := range ev.From {
		if p, err := netip.ParsePrefix(text); err != nil || p != p.Masked() || p.Addr().Is4In6() {
			return bad(fmt.Sprintf("/from/%d", i), "%.80q is no network: one is given as ADDRESS/BITS, such as "+
				"10.0.0.0/16, with no bit set after these, and one address as 10.0.0.9/32", text)
		}
	}
	for i, p := range ev.Names {
		strange := strings.ContainsFunc(p, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' || r == '\\' })
		if _, err := path.Match(p, ""); err != nil || p == "" || len(p) > 128 || strange {
			return bad(fmt.Sprintf("/names/%d", i), "%.80q is no pattern of names: * is any text, ? one character, "+
				"[0-9] a range", p)
		}
	}
	return nil
}

func (s *State) newBatch(now time.Time, ev NewBatch) Decision {
	if err := CheckBatch(&ev); err != nil {
		return Decision{Err: err}
	}
	switch {
	case s.Batch(ev.Name) != nil:
		return refuse(wire.CodeAlreadyExists, "there is a batch %s, or was one; take another name", ev.Name)
	case s.tokens[ev.Hash] != nil || s.batches[ev.Hash] != nil:
		return refuse(wire.CodeInternal, "the secret was drawn before")
	case len(s.batches) >= maxBatches && s.oldestOver(now) == nil:
		return refuse(wire.CodeTooLarge, "%d batches let nodes in; revoke one: tandem enrol batch revoke NAME",
			maxBatches)
	}
	if ev.Life == 0 {
		ev.Life = TokenLife
	}
	return Decision{Record: record.BatchData{Name: ev.Name, Hash: ev.Hash, Created: &record.BatchTerms{
		Count: ev.Count, Until: now.Add(ev.Life).UTC(), From: ev.From, Names: ev.Names, NodeType: ev.Type,
		OnSight: ev.OnSight}}}
}

func (s *State) revokeBatch(ev RevokeBatch) Decision {
	b := s.Batch(ev.Name)
	switch {
	case b == nil:
		return refuse(wire.CodeNotFound, "there is no batch %.80q", ev.Name)
	case !b.Revoked.IsZero():
		return Decision{}
	}
	return Decision{Record: record.BatchData{Name: b.Name, Hash: b.Hash, Revoked: true, Reason: ev.Reason}}
}

// Batch returns the batch of a name, nil if there is none. The caller must not change it.
func (s *State) Batch(name string) *Batch {
	for _, b := range s.batches {
		if b.Name == name {
			return b
		}
	}
	return nil
}

// Batches returns all batches that are kept, in the order of names. The caller must not change them.
func (s *State) Batches() []*Batch {
	all := make([]*Batch, 0, len(s.batches))
	for _, b := range s.batches {
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b *Batch) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// oldestOver is the batch that makes room for a new one; nil: none does.
func (s *State) oldestOver(now time.Time) (oldest *Batch) {
	for _, b := range s.Batches() {
		if b.Over(now) && (oldest == nil || b.Created.Before(oldest.Created)) {
			oldest = b
		}
	}
	return oldest
}

// joinBatch judges the secret of a batch. Whoever has it is told why it does not help.
func (s *State) joinBatch(now time.Time, ev Join, b *Batch) Decision {
	node := nodeName(ev.Subject)
	if err := b.ends(now); err != nil {
		return Decision{Err: err}
	}
	if err := b.admits(node, ev.From); err != nil {
		return Decision{Err: err}
	}
	sub := s.subjects[ev.Subject]
	joined := record.JoinedData{Subject: ev.Subject, Token: ev.Hash, Serial: ev.Serial, Key: ev.Key,
		Expires: ev.Expires, CA: ev.CA, From: ev.From, Batch: b.Name, Replaced: sub.serials()}
	switch t := sub.batchToken(b.Hash); {
	case t != nil && t.Key == ev.Key && sub.holds(ev.Key) && t.Again < maxAgain:
		joined.Again = true // the answer was lost: it has its place already
		return Decision{Record: joined}
	case ev.Known || sub.isKnown(now):
		return refuse(wire.CodeWrongState, "there is a node %s, and a batch lets in new ones only; if this is a new "+
			"machine for it: tandem node enroll %s", node, node)
	}
	if sub == nil {
		sub = &Subject{}
	}
	if err := s.checkKey(sub, ev.Key); err != nil {
		return Decision{Err: err}
	}
	if slices.ContainsFunc(b.Refused, func(key string) bool { return strings.HasPrefix(ev.Key, key) }) {
		return refuse(wire.CodeNotAllowed, "an operator has refused this node; its key is %s", KeyID(ev.Key))
	}
	if a := b.approval(node); a != nil {
		if !strings.HasPrefix(ev.Key, a.Key) {
			return refuse(wire.CodeWrongState, "%s was approved with another key than that of this node, %s", node,
				KeyID(ev.Key))
		}
		return Decision{Record: joined}
	}
	switch {
	case b.Room() == 0:
		return refuse(wire.CodeWrongState, "the batch %s is for %d nodes, and has let in as many, or approved them",
			b.Name, b.Count)
	case b.OnSight:
		return Decision{Record: joined}
	}
	return Decision{Err: s.wait(now, ev, b)}
}

// isKnown reports whether a subject is somebody, or has a token of its own with which somebody becomes it.
func (sub *Subject) isKnown(now time.Time) bool {
	return sub != nil && (!sub.Joined.IsZero() || !sub.Revoked.IsZero() || len(sub.Certificates) > 0 ||
		sub.hasOpenToken(now))
}

// batchToken is what remembers that a subject has joined by a batch; nil: it has not.
func (sub *Subject) batchToken(hash string) *Token {
	if sub == nil {
		return nil
	}
	if i := slices.IndexFunc(sub.Tokens, func(t Token) bool { return t.Batch && t.Hash == hash }); i >= 0 {
		return &sub.Tokens[i]
	}
	return nil
}

// applyBatch changes the state according to a record about a batch.
func (s *State) applyBatch(at time.Time, who string, d record.BatchData) {
	switch {
	case d.Created != nil:
		if len(s.batches) >= maxBatches {
			if old := s.oldestOver(at); old != nil {
				delete(s.batches, old.Hash)
			}
		}
		b := &Batch{Name: d.Name, Hash: d.Hash, Count: d.Created.Count, Until: d.Created.Until.UTC(),
			Names: d.Created.Names, Type: d.Created.NodeType, OnSight: d.Created.OnSight, Created: at, Who: who}
		for _, text := range d.Created.From {
			if p, err := netip.ParsePrefix(text); err == nil { // Check has refused a record with another
				b.From = append(b.From, p)
			}
		}
		s.batches[d.Hash] = b
	case d.Revoked:
		if b := s.batches[d.Hash]; b != nil {
			for _, a := range b.Approved {
				s.waiting.remember(at, a.Node, a.Key)
			}
			b.Revoked, b.RevokedBy, b.Approved = at, who, nil
		}
		s.waiting.dropIf(at, func(w *Waiting) bool { return w.Hash == d.Hash })
	}
	for _, n := range d.Approved {
		s.waiting.remove(n.Node)
		if b := s.batches[n.Hash]; b != nil {
			b.Refused = slices.DeleteFunc(b.Refused, Named{Key: n.Key}.fits) // somebody has thought better of it
			b.Approved = append(b.Approved, Approval{Node: n.Node, Key: n.Key, From: n.From, At: at, Who: who})
		}
	}
	for _, n := range d.Refused {
		if b := s.batches[n.Hash]; b != nil {
			b.Approved = slices.DeleteFunc(b.Approved, func(a Approval) bool { return a.Node == n.Node })
			b.Refused = append(b.Refused, n.Key)
			b.Refused = slices.Delete(b.Refused, 0, max(0, len(b.Refused)-maxRefusedKeys))
		}
		switch w := s.waiting.by[n.Node]; {
		case w != nil && w.Key == n.Key:
			s.waiting.remove(n.Node)
		case w != nil && w.Rival != nil && w.Rival.Key == n.Key:
			w.Rival = nil
		}
		s.waiting.remember(at, n.Node, n.Key)
	}
}

// applyJoined counts a node that has joined by a batch, once.
func (s *State) applyJoined(at time.Time, sub *Subject, d record.JoinedData) {
	b := s.batches[d.Token]
	if b == nil || sub.batchToken(b.Hash) != nil {
		return
	}
	b.Joined++
	node := nodeName(d.Subject)
	for _, b := range s.batches {
		b.Approved = slices.DeleteFunc(b.Approved, func(a Approval) bool { return a.Node == node })
	}
	s.waiting.remove(node)
	delete(s.waiting.earlier, node)
	s.addToken(sub, Token{Hash: b.Hash, State: Open, Issued: at, Expires: b.Until, Who: b.Who, Type: b.Type,
		Batch: true})
}

// checkBatch returns an error for a record that Decide cannot have returned.
func checkBatch(d record.BatchData) error {
	if d.Created == nil {
		return nil
	}
	if d.Hash == "" || !wire.ValidName(d.Name) {
		return fmt.Errorf("record of the batch %.80q: the name or the hash is missing", d.Name)
	}
	for _, text := range d.Created.From {
		if _, err := netip.ParsePrefix(text); err != nil {
			return fmt.Errorf("record of the batch %s: %w", d.Name, err)
		}
	}
	return nil
}
