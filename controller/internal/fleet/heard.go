package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// Heard is one message from a node, already decoded and known to come from that node. Exactly one
// of the pointers is set.
type Heard struct {
	Node     string
	Raw      []byte     // as it came; kept in the journal
	Retained bool       // the broker had kept it: it may be old
	Since    wire.Heard // the newest beacon that it was proved with; zero: it was not proved
	Reported *wire.Reported
	Detail   any // of a Reported, as its kind has read it; nil: it has none
	Live     *wire.Live
	Event    *wire.Event
	Reply    *wire.Reply
}

func (Heard) event() {}

func (s *step) heard(h *Heard) {
	if s.isCrowdedOut(h) || s.disregards(h) {
		return
	}
	switch {
	case h.Reported != nil:
		s.heardReport(h)
		s.noticed(h)
	case h.Live != nil:
		s.heardLive(h)
	case h.Event != nil:
		s.heardEvent(h)
	case h.Reply != nil:
		if n := s.nodes[h.Node]; n != nil {
			n.quiet = false // late, perhaps
		}
		s.heardReply(h)
	}
}

// heardReport journals a report that is new. A report from another boot than the one that is live
// is late, or early; if it is early then the node's live message will say so and it is asked for.
func (s *step) heardReport(h *Heard) {
	r := h.Reported
	if s.isOfAnotherType(h) {
		return
	}
	n, anew, early := s.nodes[h.Node], true, false
	inError := n != nil && n.inError() != nil
	if n != nil {
		k := n.Kinds[r.Kind]
		anew, early = k == nil || k.Boot != r.Boot, n.Boot != "" && n.Boot != r.Boot
		if n.Boot != "" && n.Boot != r.Boot &&
			(k != nil && k.Boot == n.Boot || n.playedAgain(h.Since, r.Boot)) || k.overtakes(n, h) {
			return
		}
		if k != nil && k.Boot == r.Boot && r.Seq <= k.heard() {
			if r.Seq == k.heard() {
				s.resend(n, r.Kind)
			}
			return
		}
		if s.heardProgress(n, h) {
			return
		}
	}
	if !s.admit(h) {
		return
	}
	ran := n.runs(r.Kind)
	s.emit(record.Record{Type: record.Report, Node: h.Node, Kind: string(r.Kind), Data: h.Raw}, reported{r, h.Detail})
	n = s.nodes[h.Node]
	if !ran && n.runs(r.Kind) {
		after := max(s.now.Sub(n.Kinds[r.Kind].Desired.Issued), 0)
		s.out.Arrived = append(s.out.Arrived, Arrival{r.Kind, after})
	}
	n.kind(r.Kind).early, n.kind(r.Kind).since = early, h.Since
	if _, described := h.Detail.(*wire.NodeInfo); described {
		n.claim = nil
		n.recovered = inError && n.inError() == nil
		s.distribute(n)
		n.recovered = false
		s.promptOne(n, false)
	}
	if o := s.output(r.Kind); o != nil && len(o.from) > 0 {
		if _, claims := s.claim(n.Kinds[o.Name]); claims {
			s.askToShow(n, o)
		}
		s.settleTrial(n, o)
		if anew || s.ahead(n.kind(r.Kind)) {
			s.supply(n, o) // it may be back with an error
		}
		s.resend(n, r.Kind)
	}
	for _, o := range s.outputs {
		if slices.Contains(o.Looks.Details, r.Kind) {
			s.supply(n, o)
		}
	}
}

// runs reports whether a node, which may be nil, runs the newest document of a kind that was issued to it.
func (n *Node) runs(name wire.Kind) bool {
	if n == nil {
		return false
	}
	k := n.Kinds[name]
	return k != nil && k.Desired != nil && k.Running != nil && k.Running.Stamp() == k.Desired.Stamp()
}

// isOfAnotherType reports whether a node describes itself with another type than the one that it was enrolled with.
// That is not believed: the type decides what the node gets.
func (s *step) isOfAnotherType(h *Heard) bool {
	info, _ := h.Detail.(*wire.NodeInfo)
	sub := s.enrolled.Lookup(nodePrefix + h.Node)
	if info == nil || sub == nil || sub.Type == "" || sub.Type == info.Type {
		return false
	}
	err := wire.New(wire.CodeNotAllowed, "/detail/type", fmt.Sprintf("it says that it is of the type %s, and was "+
		"enrolled as %s; correct its --type, or enroll it anew", strictjson.Show(info.Type), strictjson.Show(sub.Type)))
	s.bad(Bad{Node: h.Node, Topic: topic.ForNode(s.opt.Unit, h.Node).Reported(h.Reported.Kind), Err: err})
	if n := s.nodes[h.Node]; n != nil {
		n.claim = err
	}
	return true
}

// reported is a report with its detail, as its kind has read it.
type reported struct {
	*wire.Reported
	detail any
}

func (f *Fleet) applyReport(at time.Time, r reported) {
	n := f.node(r.Node, at)
	k := n.kind(r.Kind)
	k.Running, k.Last, k.Boot, k.Seq, k.At = r.Running, r.Last, r.Boot, r.Seq, at
	k.heardSeq, k.progress = 0, nil
	if r.detail != nil {
		n.setDetail(k, r.detail)
	}
	f.touch(r.Node)
	f.review(n, at)
}

// setDetail keeps the detail of a report.
func (n *Node) setDetail(k *KindState, detail any) {
	k.Detail = detail
	if info, ok := detail.(*wire.NodeInfo); ok {
		n.Info = info
	}
}

// settleTrial tells a node that tries what was confirmed in the meantime to keep it, and issues
// it anew to a node that the confirmation did not reach in time.
func (s *step) settleTrial(n *Node, o *output) {
	k := n.Kinds[o.Name]
	if s.confirmedMeanwhile(o, k) {
		s.askConfirm(o, []string{n.Name}, k.Desired.Stamp())
		return
	}
	if of, ok := s.offered(o); ok && s.rolledBackTrial(n, &of) {
		s.issue(of, []*Node{n}, false, rolledBackEarly)
	}
}

const rolledBackEarly = "rolled back before it heard of the confirmation"

// rolledBackTrial reports whether a node has rolled back what was confirmed.
func (s *step) rolledBackTrial(n *Node, o *offer) bool {
	k := n.Kinds[o.Name]
	if o.mode == wire.ModeTry || !s.takesDocuments(n) || k == nil || k.Desired == nil || k.Last == nil {
		return false
	}
	return k.Desired.Mode == wire.ModeTry && k.Last.Stamp() == k.Desired.Stamp() && k.Last.State == wire.StateRolledBack
}

// confirmedMeanwhile reports whether a node tries what is not on trial any more.
func (f *Fleet) confirmedMeanwhile(o *output, k *KindState) bool {
	return k != nil && k.Desired != nil && k.Last != nil && k.Last.State == wire.StateTrying &&
		k.Last.Stamp() == k.Desired.Stamp() && !o.onTrial()
}

func (s *step) heardLive(h *Heard) {
	l, n := h.Live, s.nodes[h.Node]
	if n != nil && l.Up && n.playedAgain(h.Since, l.Boot) {
		return
	}
	if l.Asks != "" && l.Up && n != nil {
		s.tellNewest(n, l.Asks)
	}
	if n != nil && n.Boot == l.Boot {
		switch {
		case l.Session < n.Session: // an older connection, its last will perhaps
			return
		case !l.Up && !n.Up:
			if gone := (ended{l.Boot, l.Session}); n.gone != gone {
				n.gone, n.goneAt = gone, s.present(s.now)
			}
			return
		case l.Up && n.gone == ended{l.Boot, l.Session} && !n.goneAt.Before(h.Since):
			return // a beat that the goodbye overtook; one that knows a later beacon shows that the node goes on
		case l.Session == n.Session && n.Up && l.Up:
			s.noteSeqs(n, l) // the slow beat: nothing to journal
			s.review(n, s.now)
			return
		}
	} else if n != nil && n.Boot != "" && !l.Up {
		return // the last will of a boot that was followed by another one
	}
	if !s.admit(h) {
		return
	}
	s.emit(record.Record{Type: record.Live, Node: h.Node, Data: h.Raw}, presence{l, h.Since})
	if n = s.nodes[h.Node]; n.Up {
		n.quiet = false
		if !h.Retained {
			s.effect(Greet{Nodes: len(s.nodes)})
		}
		s.distribute(n)
		s.promptOne(n, true)
	} else {
		s.leftCheck(n.Name)
	}
}

// leftCheck does not wait for the verdict of a node that went away.
func (s *step) leftCheck(node string) {
	p := s.pending
	if p == nil || p.open[node] == nil {
		return
	}
	p.offline = append(p.offline, node)
	s.answered(node)
}

// presence is a live message, with the newest beacon that it was proved with.
type presence struct {
	*wire.Live
	since wire.Heard
}

func (f *Fleet) applyLive(at time.Time, l presence) {
	n := f.node(l.Node, at)
	n.heardOffline = false
	if n.Up != l.Up {
		n.Up, n.Since = l.Up, at
	}
	present := f.present(at)
	n.proved(l, present)
	if n.Boot != l.Boot {
		for _, k := range n.Kinds {
			k.liveSeq, k.early = 0, false // the new boot counts anew
		}
		n.gap, n.liveEvents = gap{}, 0
		if l.Up && l.Events < n.EventSeq && l.Boot != n.EventBoot { // an event of this boot may have overtaken it
			n.EventSeq, n.ackedEvents = 0, 0 // its disk was wiped, and its events begin at 1 again
			n.EventsSince = earliest(l.since, present)
			n.Alerts = nil
		}
	}
	n.gap.broken()
	if l.Up {
		n.Session = l.Session
		f.noteSeqs(n, l.Live)
	} else {
		n.gone, n.goneAt = ended{l.Boot, l.Session}, present // nothing else of it counts: it needs no proof
		if n.Boot != l.Boot {
			n.Session = 0
		}
	}
	n.Boot, n.retries = l.Boot, 0
	f.touch(l.Node)
	f.review(n, at)
}

// noteSeqs takes over what a node says that it has sent. Within a boot that only grows: a beat that somebody repeats
// hides nothing.
func (f *Fleet) noteSeqs(n *Node, l *wire.Live) {
	for kind, seq := range l.Seqs {
		if f.opt.Kinds.Reportable(kind) {
			k := n.kind(kind)
			k.liveSeq = max(k.liveSeq, seq)
		}
	}
	n.liveEvents = max(n.liveEvents, l.Events)
}

func (s *step) askConfirm(o *output, nodes []string, stamp wire.Stamp) {
	params := wire.Encode(&wire.ConfirmParams{Kind: o.Name, Epoch: stamp.Epoch, Rev: stamp.Rev})
	s.ask(wire.MethodConfirm, nodes, func(string) []byte { return params })
}

var agreed = []byte(`{"ok":true}`)

// heardReply ends an operator's order or query, or counts an answer to the check under way. Other replies
// need no action: what the request asked for comes on its own topic.
func (s *step) heardReply(h *Heard) {
	if s.questions.answered(s, h) || s.shown(h) {
		return
	}
	if n := s.nodes[h.Node]; n != nil && strings.HasPrefix(h.Reply.ID, string(wire.MethodEvents)+"-") {
		if h.Reply.Error == nil && h.Reply.ID == n.gap.question+n.Name {
			n.gap.agreed = true
		}
		return
	}
	s.checkAnswered(h)
}
