package fleet

import (
	"fmt"
	"slices"
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/wire"
)

// epochSlack is how far a believable epoch may lie in the future: epochs are Unix seconds.
const epochSlack = 366 * 24 * 3600

// Bounds of what a node's word about newer documents may set in motion.
const (
	raiseEvery = 10 * time.Minute
	showEvery  = time.Minute
)

// claim is the newest document that a node claims to have, if it is newer than what was issued to it here, and the node
// has not shown it: this journal was lost, or is an old copy; or the node lies.
func (f *Fleet) claim(k *KindState) (wire.Stamp, bool) {
	if k == nil {
		return wire.Stamp{}, false
	}
	knows, d := k.Newest(), k.Desired
	later := d != nil && d.Epoch == f.opt.Epoch && knows.Compare(d.Stamp()) > 0 && k.shown.Compare(knows) < 0
	return knows, later || f.isAhead(knows)
}

// isAhead reports whether a document is newer than any that this journal can have issued.
func (f *Fleet) isAhead(doc wire.Stamp) bool {
	return doc.Compare(wire.Stamp{Epoch: f.opt.Epoch, Rev: f.seq + 1}) >= 0
}

// askToShow asks a node for the signature of the newest document that it has. By its word alone nothing is issued: each
// document that is has all nodes ask which are their newest.
func (s *step) askToShow(n *Node, o *output) {
	k := n.Kinds[o.Name]
	if n.Up && !s.now.Before(k.showAt) && !s.isRevoked(n.Name) {
		params := wire.Encode(&wire.ShowParams{Kind: o.Name})
		k.showAt = s.now.Add(showEvery)
		k.shows = s.ask(wire.MethodShow, []string{n.Name}, func(string) []byte { return params }) + n.Name
	}
}

// askAboutClaims asks a node to show what it claims, again if need be: an answer may be lost.
func (s *step) askAboutClaims(n *Node) {
	for _, o := range s.outputs {
		if _, claims := s.claim(n.Kinds[o.Name]); claims && len(o.from) > 0 {
			s.askToShow(n, o)
		}
	}
}

// shown takes the answer to such a question; false: it is none. The node is given its document anew if one of the
// unit's keys has signed what it shows, for this node; if this journal cannot issue a newer one, the epoch is raised
// above it, which concerns all nodes. An agent that does not know the question is believed, within bounds, only in a
// unit where no node proves what it says: there whoever is the broker can say anything.
func (s *step) shown(h *Heard) bool {
	n := s.nodes[h.Node]
	if n == nil {
		return false
	}
	i := slices.IndexFunc(s.outputs, func(o *output) bool {
		k := n.Kinds[o.Name]
		return k != nil && k.shows != "" && k.shows == h.Reply.ID
	})
	if i < 0 {
		return false
	}
	o := s.outputs[i]
	k := n.Kinds[o.Name]
	k.shows = ""
	knows, claims := s.claim(k)
	if !claims {
		return true
	}
	err := h.Reply.Error
	if err == nil {
		var shown wire.Stamp
		if shown, err = s.signed(n, o, h.Reply.Result); err == nil {
			s.goesAbove(n, o, shown)
			return true
		}
	} else if err.Code == wire.CodeNotSupported && s.mayBelieve(knows) {
		s.goesAbove(n, o, knows)
		return true
	}
	if k.doubted != knows {
		k.doubted = knows
		text := fmt.Sprintf("the node claims to know document (%d, %d), which this unit never issued, and does not "+
			"show its signature: %s; if this journal is an old copy, start the controller once with --new-epoch",
			knows.Epoch, knows.Rev, err.Code)
		s.bad(Bad{Node: n.Name, Topic: "reported/" + string(o.Name), Err: wire.New(wire.CodeStale, "", text)})
	}
	return true
}

// goesAbove has a node get a document that is newer than one that it has.
func (s *step) goesAbove(n *Node, o *output, doc wire.Stamp) {
	if s.isAhead(doc) {
		s.raised = s.now
		s.effect(RaiseEpoch{Above: doc.Epoch})
		return
	}
	n.Kinds[o.Name].shown = doc
	s.supply(n, o)
}

// signed is the stamp of a document that a node shows, if one of the unit's keys has signed it for this node, and the
// node has not told of a newer one.
func (s *step) signed(n *Node, o *output, result []byte) (wire.Stamp, *wire.Error) {
	shown, err := wire.Decode[wire.Shown](result)
	if err != nil {
		return wire.Stamp{}, wire.AsError(err)
	}
	d := shown.Of(s.opt.Unit, n.Name, o.Name)
	if err := s.trusted().Verify(seal.DesiredPreimage(d), d.Sig); err != nil {
		return wire.Stamp{}, wire.AsError(err)
	}
	if d.Stamp().Compare(n.kind(o.Name).Newest()) < 0 {
		return wire.Stamp{}, wire.New(wire.CodeStale, "", fmt.Sprintf("what it shows is document (%d, %d)", d.Epoch,
			d.Rev))
	}
	return d.Stamp(), nil
}

// trusted are the keys whose signature shows that this unit has issued a document: those of the list, and those that
// are on the disk and not retired, for the list may be older than they are.
func (f *Fleet) trusted() seal.Trust {
	keys := seal.Trust{}
	for _, k := range f.opt.Keys {
		if !slices.Contains(f.keys.Retired, k.ID) {
			keys[k.ID] = k.Ed25519
		}
	}
	for _, k := range f.keys.List {
		keys[k.ID] = k.Ed25519
	}
	return keys
}

// mayBelieve reports whether a claim that nothing shows is believed. An epoch far in the future is a lie or a broken
// clock and must not carry the unit's epoch along; nor may one node set the whole unit in motion over and over.
func (s *step) mayBelieve(knows wire.Stamp) bool {
	for _, proves := range s.proving() {
		if proves {
			return false
		}
	}
	return !s.isAhead(knows) ||
		knows.Epoch <= uint64(max(0, s.now.Unix()))+epochSlack && s.now.Sub(s.raised) >= raiseEvery
}

// epochRaised issues everything again, so that nodes which know a higher epoch listen.
func (s *step) epochRaised(ev EpochRaised) {
	s.opt.Epoch = ev.Epoch
	s.begin(record.OpenedData{Epoch: ev.Epoch, Reason: ev.Why, Online: true})
	for _, o := range s.outputs {
		if of, ok := s.offered(o); ok {
			s.issue(of, s.sorted(), true, "epoch raised")
		}
	}
}
