package fleet

import (
	"slices"
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

func sortNames(names []string) { slices.Sort(names) }

// inForce returns the configuration that nodes get now, its mode and, for a trial, the time that
// is left of it. A nil resolver: nothing is distributed, because there is no configuration or
// because its readable copy was tampered with (seed 000, Startup).
func (s *step) inForce() (r *unitconfig.Resolver, version string, mode wire.Mode, within time.Duration) {
	if t := s.config.Trial; t != nil {
		return s.trying, t.Version, wire.ModeTry, max(time.Second, t.Deadline.Sub(s.now).Round(time.Second))
	}
	if s.config.State != Installed {
		return nil, "", "", 0
	}
	return s.resolver, s.config.Version, wire.ModeApply, 0
}

// issueAll makes a document for every node whose type is known and returns how many.
func (s *step) issueAll(reason string) int {
	return s.issue(s.sorted(), true, reason)
}

// distribute gives one node its document when what it should have is not what was last issued to
// it, or when it came back in error (seed 000, Node Info Change).
func (s *step) distribute(n *Node) {
	r, version, mode, _ := s.inForce()
	if r == nil || n.Info == nil {
		return
	}
	k := n.kind(wire.KindConfig)
	_, hash, _ := r.Body(n.Name, n.Type())
	reason := ""
	switch d := k.Desired; {
	case d == nil:
		reason = "new node"
	case d.Hash != hash || d.Version != version || mode == wire.ModeTry && d.Mode != mode:
		reason = "node info changed"
	case n.inError(k) && n.pushedBoot != n.Boot && k.Boot == n.Boot:
		reason = "node is back with an error"
	default:
		return
	}
	n.pushedBoot = n.Boot
	s.issue([]*Node{n}, false, reason)
}

// inError reports whether the node's newest attempt at the newest document went wrong.
func (n *Node) inError(k *KindState) bool {
	return k.Desired != nil && k.Last != nil && k.Last.Stamp() == k.Desired.Stamp() &&
		k.Last.State.Settled() && k.Last.State != wire.StateInstalled
}

func (s *step) issue(nodes []*Node, whole bool, reason string) int {
	r, version, mode, within := s.inForce()
	data := issuedData{Epoch: s.opt.Epoch, Version: version, Mode: mode, Within: unitconfig.Duration(within), Whole: whole, Reason: reason, Docs: []issuedDoc{}}
	at := map[string]int{}
	var bodies [][]byte
	count := 0
	for _, n := range nodes {
		if n.Info == nil {
			continue // its type is not known yet; it gets its document when it tells
		}
		body, hash, _ := r.Body(n.Name, n.Type())
		i, ok := at[hash]
		if !ok {
			i = len(data.Docs)
			at[hash] = i
			data.Docs = append(data.Docs, issuedDoc{Hash: hash})
			bodies = append(bodies, body)
		}
		data.Docs[i].Nodes = append(data.Docs[i].Nodes, n.Name)
		count++
	}
	s.out.Bodies = append(s.out.Bodies, bodies...)
	s.emit(record.Record{Type: record.Issued, Kind: string(wire.KindConfig)}, data)
	for i, g := range data.Docs {
		doc := s.nodes[g.Nodes[0]].kind(wire.KindConfig).Desired
		s.effect(Publish{Kind: wire.KindConfig, Doc: doc, Body: bodies[i], Nodes: g.Nodes})
	}
	return count
}

// copySeen compares the readable copy with the journal (seed 000, Startup): a missing one is
// written again; a changed or unreadable one makes the unit's state failed.
func (s *step) copySeen(ev Copy) {
	c := &s.config
	switch {
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
			err = wire.New(wire.CodeHashMismatch, "", "the file is not what was accepted; it was altered from outside")
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
	s.emit(record.Record{Type: record.State, Kind: string(wire.KindConfig)}, ConfigChange{State: state, Error: err, Reason: reason})
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
	s.emit(record.Record{Type: record.State, Who: ev.Who, Kind: string(wire.KindConfig)}, ConfigChange{State: Installed, Reason: "restored from the journal"})
	s.effect(WriteCopy{})
	s.redistribute()
	s.effect(Answer{Ticket: ev.Ticket})
}

// epochRaised issues everything again, so that nodes which know a higher epoch listen.
func (s *step) epochRaised(ev EpochRaised) {
	s.opt.Epoch = ev.Epoch
	s.emit(record.Record{Type: record.Opened}, openedData{Epoch: ev.Epoch, Reason: "a node knew newer documents than this journal", Online: true})
	if r, _, _, _ := s.inForce(); r != nil {
		s.issueAll("epoch raised")
	}
}

// epochSlack is how far a believable epoch may lie in the future: epochs are Unix seconds.
const epochSlack = 366 * 24 * 3600

// checkEpoch notices a node that has heard of documents newer than this journal can have issued: the
// journal was lost or is an old copy. An epoch far in the future is a lie or a broken clock and
// must not carry the unit's epoch along.
func (s *step) checkEpoch(r *wire.Reported) {
	newest := wire.Stamp{}
	if r.Running != nil {
		newest = r.Running.Stamp()
	}
	if r.Last != nil && r.Last.Stamp().Compare(newest) > 0 {
		newest = r.Last.Stamp()
	}
	ours := wire.Stamp{Epoch: s.opt.Epoch, Rev: s.seq}
	if newest.Compare(ours) > 0 && newest.Epoch <= uint64(max(0, s.now.Unix()))+epochSlack {
		s.effect(RaiseEpoch{Above: newest.Epoch})
	}
}
