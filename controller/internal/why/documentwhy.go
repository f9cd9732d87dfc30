package why

import (
	"fmt"
	"time"

	"tandem.internal/controller/internal/phrase"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// The states of a document on a node, beside those of wire.State, Revoked, UnknownNode and Offline. Programs read them:
// they are only added.
const (
	InForce    = "in-force"   // the node runs what it should
	OnTrial    = "on-trial"   // it runs what it should, until that is taken back or confirmed
	NoDocument = "none"       // it should have none, and has none
	NotWished  = "not-wanted" // it has one that it should not have
	Contradict = "fork"       // what it tells contradicts what was issued to it
	Withheld   = "withheld"   // what it has reported does not arrive
	Drifted    = "drift"      // what is in place there is not the document any more
	Awaited    = "waiting"    // it has not answered yet
)

// DocumentFacts are what is known of a document of a node.
type DocumentFacts struct {
	Now     time.Time
	Node    view.Node // with its identity
	Known   bool      // the node was ever heard of
	Kind    wire.Kind
	Doc     view.Document
	Retries bool        // somebody can have it sent again, since it is submitted whole
	Rollout string      // ID of the one that has not reached the node with a newer document; "": there is none
	Broker  view.Broker // the controller's road to its nodes; zero: not known
}

// Document says how a document is on its node, and why.
func Document(f DocumentFacts) view.Why {
	v := f.why()
	if v.State != Revoked && v.State != UnknownNode {
		v.Sentences = worstFirst(append(reached(&f.Broker), v.Sentences...))
	}
	return v
}

// why is Document without that no node is reached.
func (f *DocumentFacts) why() view.Why {
	state, first := f.first()
	return view.Why{
		About: view.About{Kind: view.AboutDocument, Node: f.Node.Node, Document: string(f.Kind)}, State: state,
		Sentences: worstFirst(append([]view.Because{first}, f.more(state)...)),
	}
}

// report is where most is known from.
func (f *DocumentFacts) report() string { return "the node's report of " + string(f.Kind) }

// first is what matters most.
func (f *DocumentFacts) first() (state string, b view.Because) {
	d, node, kind := &f.Doc, f.Node.Node, string(f.Kind)
	switch id := f.Node.Identity; {
	case id != nil && id.State == "revoked":
		return Revoked, revoked(&f.Node)
	case !f.Known:
		return UnknownNode, unknown(&f.Node)
	case d.Error != nil && d.Error.Code == wire.CodeNoAnswer:
		return Withheld, basis{view.LevelError, "the node's presence, which names its newest report",
			"the report arrives"}.because(d.ReportedAt, "of %s on %s the newest is not known: %s", kind, node,
			Brief(d.Error))
	case d.Error != nil:
		return Contradict, basis{view.LevelError, f.report(), f.again()}.because(
			d.ReportedAt, "what %s tells of its %s contradicts what was issued to it: %s", node, kind, Brief(d.Error))
	case d.Desired == nil && d.Running == nil && d.Last == nil:
		return NoDocument, basis{view.LevelInfo, "the journal: what was issued",
			"something is applied that is for the node"}.because(time.Time{},
			"%s has no document of %s, and none was issued to it", node, kind)
	case d.Desired == nil:
		return NotWished, basis{view.LevelWarning, f.report(), "something is applied that is for the node"}.
			because(d.ReportedAt, "%s has a document of %s, and none was issued to it by this unit", node, kind)
	}
	return f.attempted()
}

// attempted is first for a document that was issued to a node that may take it.
func (f *DocumentFacts) attempted() (state string, b view.Because) {
	d, l, node := &f.Doc, f.Doc.Last, f.Node.Node
	what := fmt.Sprintf("the %s %s", f.Kind, d.Desired.Version)
	say := func(level view.Level, changes string, at time.Time, format string, a ...any) view.Because {
		return basis{level, f.report(), changes}.because(at, format, a...)
	}
	newest := l != nil && l.Stamp() == d.Desired.Stamp()
	switch {
	case d.InSync && newest && l.State == wire.StateTrying:
		return OnTrial, say(view.LevelWarning, fmt.Sprintf("it is confirmed: tandem %s confirm; else it is taken back",
			f.Kind), l.At, "%s tries %s", node, what)
	case d.InSync:
		return InForce, say(view.LevelInfo, "a newer one is issued", d.Desired.Issued, "%s runs %s, as it should", node,
			what)
	case newest && l.Error != nil && l.Error.Code == wire.CodeDrift:
		return Drifted, say(view.LevelError, f.again(), l.At, "what is in place on %s is not %s any more: %s", node,
			what, Brief(l.Error))
	case newest && l.State.Settled() && l.State != wire.StateInstalled:
		return string(l.State), say(view.LevelError, f.again(), l.At, "%s did not take %s: %s", node, what,
			Brief(refused(*d)))
	case cut(&f.Broker):
		return Offline, noSession.because(f.Broker.Since, "%s has not put %s in force, as far as is known", node, what)
	case !f.Node.Online:
		return Offline, basis{view.LevelError, "the node's presence at the broker", "the node connects again"}.because(
			f.Node.Since, "%s has not put %s in force: it is offline for %s", node, what,
			phrase.Span(f.Now.Sub(f.Node.Since)))
	case newest:
		return string(l.State), say(view.LevelWarning, "the node says that it is in force", l.At,
			"%s has not put %s in force yet: it is %s", node, what, l.State)
	}
	return Awaited, say(view.LevelWarning, "the node answers; it is asked again", d.Desired.Issued,
		"%s has not answered yet to %s, issued %s ago", node, what, phrase.Span(f.Now.Sub(d.Desired.Issued)))
}

// again is what brings a node to take a document that it did not take.
func (f *DocumentFacts) again() string {
	if !f.Retries {
		return "a version that it takes is issued"
	}
	return fmt.Sprintf("a version that it takes is applied, or tandem %s retry", f.Kind)
}

// more are the further facts: what it means, what runs there instead, and the rollout that has not come yet.
func (f *DocumentFacts) more(state string) (all []view.Because) {
	d := &f.Doc
	if state == Revoked || state == UnknownNode {
		return nil
	}
	if d.Desired != nil && !d.InSync {
		runs := basis{view.LevelInfo, f.report(), "it takes another one"}
		if d.Running != nil {
			all = append(all, runs.because(time.Time{}, "it runs the %s %s, as far as it has told", f.Kind,
				d.Running.Version))
		} else {
			all = append(all, runs.because(time.Time{}, "it has not told of any %s that it runs", f.Kind))
		}
	}
	if l := d.Last; state == InForce && l != nil && l.Error != nil && l.Stamp() == d.Desired.Stamp() {
		all = append(all, basis{view.LevelWarning, f.report(), "the node reports anew"}.because(l.At,
			"its newest attempt is told to have %s: %s", l.State, Brief(l.Error)))
	}
	if f.Rollout != "" {
		all = append(all, basis{view.LevelWarning, "the journal: the rollout's records",
			"the rollout reaches the node, or ends"}.because(time.Time{},
			"a newer %s waits: its rollout %s has not reached the node", f.Kind, f.Rollout))
	}
	return all
}

// revoked and unknown say why nothing is expected of a node.
func revoked(n *view.Node) view.Because {
	return basis{view.LevelError, "the journal: the revocation", "the node joins anew: tandem node enroll " +
		n.Node}.because(n.Identity.Revoked, "%s was revoked%s, and gets nothing any more", n.Node,
		phrase.By(n.Identity.RevokedBy))
}

func unknown(n *view.Node) view.Because {
	b := basis{view.LevelWarning, "the node's messages: none has ever come", "the node connects"}
	if id := n.Identity; id != nil && id.State == "enrolled" {
		b.source, b.changes = "the journal: its enrolment", "the node joins with its token"
		return b.because(time.Time{}, "%s may join, and has not yet", n.Node)
	}
	if n.Identity != nil {
		b.source = "the journal: its certificate"
		return b.because(n.Identity.Joined, "%s has joined, and was never heard of", n.Node)
	}
	return b.because(time.Time{}, "%s was never heard of", n.Node)
}
