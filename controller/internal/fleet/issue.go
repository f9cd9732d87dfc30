package fleet

import (
	"fmt"
	"slices"
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/wire"
)

func sortNames(names []string) { slices.Sort(names) }

// offer is what nodes get of one kind of document now. How it comes about differs from kind to kind;
// how it reaches the nodes does not.
type offer struct {
	version string
	mode    wire.Mode
	within  time.Duration                            // of a trial, what is left of it
	body    func(n *Node) (body []byte, hash string) // of a node whose type is known; a nil body: it gets none
}

// desirable lists the kinds that nodes are given, in the order in which they get them.
var desirable = []wire.Kind{wire.KindConfig, wire.KindHealth, wire.KindWorkloads}

// offered returns what nodes get of a kind; false: nothing is distributed.
func (s *step) offered(kind wire.Kind) (offer, bool) {
	switch kind {
	case wire.KindConfig:
		return s.configuration()
	case wire.KindHealth:
		return s.healthSettings()
	case wire.KindWorkloads:
		return s.placedWorkloads()
	}
	return offer{}, false
}

// configuration returns the unit configuration that nodes get now. There is none if none was
// accepted or its readable copy was tampered with (seed 000, Startup).
func (s *step) configuration() (offer, bool) {
	o := offer{version: s.config.Version, mode: wire.ModeApply}
	r := s.resolver
	if t := s.config.Trial; t != nil {
		r = s.trying
		o.version, o.mode, o.within = t.Version, wire.ModeTry, max(time.Second, t.Deadline.Sub(s.now).Round(time.Second))
	} else if s.config.State != Installed {
		return offer{}, false
	}
	o.body = func(n *Node) ([]byte, string) {
		body, hash, _ := r.Body(n.Name, n.Type())
		return body, hash
	}
	return o, r != nil
}

// issueAll makes a document for every node whose type is known and returns how many.
func (s *step) issueAll(kind wire.Kind, reason string) int {
	return s.issue(kind, s.sorted(), true, reason)
}

// distribute gives one node its documents, as far as they are due.
func (s *step) distribute(n *Node) {
	for _, kind := range desirable {
		s.supply(n, kind)
	}
}

// supply gives one node its document of a kind if it is due.
func (s *step) supply(n *Node, kind wire.Kind) {
	if o, ok := s.offered(kind); ok {
		if reason := s.due(n, kind, o); reason != "" {
			n.kind(kind).pushedBoot = n.Boot
			s.issue(kind, []*Node{n}, false, reason)
		}
	}
}

// due says why a node is to get a document: what it should have is not what was last issued to it,
// or it came back in error (seed 000, Node Info Change). "": it is not.
func (s *step) due(n *Node, kind wire.Kind, o offer) string {
	if n.Info == nil {
		return ""
	}
	body, hash := o.body(n)
	if body == nil {
		return ""
	}
	k := n.kind(kind)
	switch d := k.Desired; {
	case d == nil:
		return "new node"
	case d.Epoch != s.opt.Epoch:
		return "the epoch was raised"
	case d.Hash != hash || o.mode == wire.ModeTry && d.Mode != o.mode:
		return "node info changed"
	case s.ahead(k):
		return "the node knows a newer document than was issued to it"
	case n.inError(k) && k.pushedBoot != n.Boot && k.Boot == n.Boot:
		return "node is back with an error"
	}
	return ""
}

// ahead reports whether a node has heard of a document that is newer than the one it should have,
// and that a document issued now would be newer than: this journal is an old copy, in a new epoch.
func (s *step) ahead(k *KindState) bool {
	newest := k.newest()
	return k.Desired != nil && newest.Compare(k.Desired.Stamp()) > 0 && newest.Compare(wire.Stamp{Epoch: s.opt.Epoch, Rev: s.seq}) <= 0
}

// newest is the newest stamp that the node has reported anything of.
func (k *KindState) newest() wire.Stamp {
	newest := wire.Stamp{}
	if k.Running != nil {
		newest = k.Running.Stamp()
	}
	if k.Last != nil && k.Last.Stamp().Compare(newest) > 0 {
		newest = k.Last.Stamp()
	}
	return newest
}

// inError reports whether the node's newest attempt at the newest document went wrong.
func (n *Node) inError(k *KindState) bool {
	return k.Desired != nil && k.Last != nil && k.Last.Stamp() == k.Desired.Stamp() &&
		k.Last.State.Settled() && k.Last.State != wire.StateInstalled
}

// issue makes documents of a kind for nodes and returns how many.
func (s *step) issue(kind wire.Kind, nodes []*Node, whole bool, reason string) int {
	o, _ := s.offered(kind)
	data := record.IssuedData{Epoch: s.opt.Epoch, Version: o.version, Mode: o.mode, Within: duration.Duration(o.within), Whole: whole, Reason: reason, Docs: []record.IssuedDoc{}}
	at := map[string]int{}
	var bodies [][]byte
	count := 0
	for _, n := range nodes {
		if n.Info == nil {
			continue // its type is not known yet; it gets its document when it tells
		}
		body, hash := o.body(n)
		if body == nil {
			continue
		}
		i, ok := at[hash]
		if !ok {
			i = len(data.Docs)
			at[hash] = i
			data.Docs = append(data.Docs, record.IssuedDoc{Hash: hash})
			bodies = append(bodies, body)
		}
		data.Docs[i].Nodes = append(data.Docs[i].Nodes, n.Name)
		count++
	}
	s.out.Bodies = append(s.out.Bodies, bodies...)
	s.emit(record.Record{Type: record.Issued, Kind: string(kind)}, data)
	for i, g := range data.Docs {
		doc := s.nodes[g.Nodes[0]].kind(kind).Desired
		s.effect(Publish{Kind: kind, Doc: doc, Body: bodies[i], Nodes: g.Nodes})
	}
	return count
}

// copySeen compares the readable copy with the journal (seed 000, Startup): a missing one is
// written again; a changed or unreadable one makes the unit's state failed. While the journal cannot read its own
// document there is nothing to compare with.
func (s *step) copySeen(ev Copy) {
	c := &s.config
	switch {
	case s.ConfigDamage() != nil:
	case ev.Missing && c.Version != "":
		s.effect(WriteCopy{})
		s.mended("the readable copy was missing and is written again")
	case ev.Missing:
		if c.State == Failed {
			s.change(Absent, nil, "the unreadable copy is gone")
		}
	case c.Version != "" && ev.Known && ev.Hash != c.Hash: // a crash came before the copy was written
		s.effect(WriteCopy{})
		s.mended("the readable copy was an older one and is written again")
	case c.Version != "" && ev.Hash == c.Hash:
		s.mended("the readable copy is whole again")
	case c.Version == "" && ev.Error == nil: // the shell submits it
	default:
		err := ev.Error
		if err == nil {
			err = wire.New(wire.CodeHashMismatch, "", "the file is not what the journal has: it was altered from outside, or the journal is a restored backup")
		}
		if c.State != Failed || *c.Error != *err {
			s.change(Failed, err, "readable copy")
		}
	}
}

// mended ends a failed state that the world outside has ended.
func (s *step) mended(reason string) {
	if s.config.State == Failed {
		s.change(Installed, nil, reason)
		s.redistribute()
	}
}

func (s *step) change(state string, err *wire.Error, reason string) {
	s.emit(record.Record{Type: record.State, Kind: string(wire.KindConfig)}, record.StateChange{State: state, Error: err, Reason: reason})
}

// redistribute gives every node what it missed while nothing was distributed.
func (s *step) redistribute() {
	for _, n := range s.sorted() {
		s.distribute(n)
	}
}

// restore ends the failed state by writing the journal's configuration again.
func (s *step) restore(ev Restore) {
	if s.config.State != Failed {
		s.effect(Answer{Ticket: ev.Ticket, Err: wire.New(wire.CodeWrongState, "", "the unit configuration is "+s.config.State+"; only a failed one is restored")})
		return
	}
	if s.config.Version == "" {
		s.effect(Answer{Ticket: ev.Ticket, Err: wire.New(wire.CodeNotFound, "", "the journal holds no configuration to restore; apply one")})
		return
	}
	if err := s.ConfigDamage(); err != nil {
		s.effect(Answer{Ticket: ev.Ticket, Err: err})
		return
	}
	s.emit(record.Record{Type: record.State, Who: ev.Who, Kind: string(wire.KindConfig)}, record.StateChange{State: Installed, Reason: "restored from the journal"})
	s.effect(WriteCopy{})
	s.redistribute()
	s.effect(Answer{Ticket: ev.Ticket})
}

// epochRaised issues everything again, so that nodes which know a higher epoch listen.
func (s *step) epochRaised(ev EpochRaised) {
	s.opt.Epoch = ev.Epoch
	s.begin(record.OpenedData{Epoch: ev.Epoch, Reason: ev.Why, Online: true})
	for _, kind := range desirable {
		if _, ok := s.offered(kind); ok {
			s.issueAll(kind, "epoch raised")
		}
	}
}

// epochSlack is how far a believable epoch may lie in the future: epochs are Unix seconds.
const epochSlack = 366 * 24 * 3600

// Bounds of what a node's word about newer documents may set in motion.
const (
	raiseEvery   = 10 * time.Minute
	reissueEvery = time.Minute
)

// checkEpoch notices a node that knows documents newer than this journal issued to it: the journal was
// lost, or is an old copy. If the next rev is above what the node knows, its document is issued
// again; if not, the epoch is raised. An epoch far in the future is a lie or a broken clock and must
// not carry the unit's epoch along; nor may one node set the whole unit in motion over and over.
func (s *step) checkEpoch(n *Node, kind wire.Kind) {
	k := n.Kinds[kind]
	knows := k.newest()
	next := wire.Stamp{Epoch: s.opt.Epoch, Rev: s.seq + 1}
	switch {
	case k.Desired != nil && knows.Compare(k.Desired.Stamp()) <= 0:
	case knows.Compare(next) < 0:
		if _, ok := s.offered(kind); k.Desired != nil && ok && n.Info != nil && s.now.Sub(k.reissued) >= reissueEvery {
			k.reissued = s.now
			s.issue(kind, []*Node{n}, false, "the node knows a newer document than was issued to it here")
		}
	case knows.Epoch > uint64(max(0, s.now.Unix()))+epochSlack, s.now.Sub(s.raised) < raiseEvery:
		s.bad(Bad{Node: n.Name, Topic: "reported/" + string(kind), Err: wire.New(wire.CodeStale, "", fmt.Sprintf("the node claims to know document (%d, %d), which this unit never issued", knows.Epoch, knows.Rev))})
	default:
		s.raised = s.now
		s.effect(RaiseEpoch{Above: knows.Epoch})
	}
}
