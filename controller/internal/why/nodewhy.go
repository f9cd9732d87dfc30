package why

import (
	"maps"
	"slices"
	"strings"
	"time"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/phrase"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// The states of a node as a whole, beside Revoked, UnknownNode and Offline. Programs read them: they are only added.
const (
	NodeFailed = "failed"     // it did not take a document
	NodeUnwell = "unwell"     // it has its documents, and something else is wrong with it
	NodeBehind = "on-the-way" // it has not put a document in force yet
	NodeInStep = "in-step"    // it runs what it should
)

// NodeFacts are what is known of a node.
type NodeFacts struct {
	Now      time.Time
	Node     view.Node            // with its identity, alerts, slots and components
	Known    bool                 // it was ever heard of
	Report   *wire.Health         // that it told last; nil: none
	Slots    view.Document        // of its documents that of the slots
	Rollouts map[wire.Kind]string // IDs of those that have not reached it
	Retries  func(wire.Kind) bool // documents of a kind can be sent again; nil: none
	Broker   view.Broker          // the controller's road to its nodes; zero: not known
}

// Node says how a node is, and why: what is wrong first.
func Node(f NodeFacts) view.Why {
	v := view.Why{About: view.About{Kind: view.AboutNode, Node: f.Node.Node}}
	switch id := f.Node.Identity; {
	case id != nil && id.State == "revoked":
		v.State, v.Sentences = Revoked, []view.Because{revoked(&f.Node)}
		return v
	case !f.Known:
		v.State, v.Sentences = UnknownNode, []view.Because{unknown(&f.Node)}
		return v
	}
	docs, failed, behind := append(reached(&f.Broker), f.presence()), false, false
	for _, name := range slices.Sorted(maps.Keys(f.Node.Documents)) {
		doc := DocumentFacts{Now: f.Now, Node: f.Node, Known: true, Kind: name, Doc: f.Node.Documents[name],
			Retries: f.Retries != nil && f.Retries(name), Rollout: f.Rollouts[name], Broker: f.Broker}
		d := doc.why()
		docs = append(docs, d.Sentences...)
		inStep := f.Node.Documents[name].InSync
		behind = behind || !inStep
		failed = failed || !inStep && d.State != Offline && d.Sentences[0].Level == view.LevelError
	}
	all := slices.Concat(docs, f.health(), f.work(), f.identity())
	v.Sentences = worstFirst(all)
	unwell := slices.ContainsFunc(all, func(b view.Because) bool { return b.Level != view.LevelInfo })
	switch {
	case !f.Node.Online:
		v.State = Offline
	case failed:
		v.State = NodeFailed
	case behind:
		v.State = NodeBehind
	case unwell:
		v.State = NodeUnwell
	default:
		v.State = NodeInStep
	}
	return v
}

// presence says whether the node is there.
func (f *NodeFacts) presence() view.Because {
	n, lasts := &f.Node, phrase.Span(f.Now.Sub(f.Node.Since))
	if n.Online {
		return basis{view.LevelInfo, "the node's presence at the broker", "its connection ends"}.because(n.Since,
			"%s is online for %s", n.Node, lasts)
	}
	if cut(&f.Broker) {
		b := noSession
		b.level = view.LevelWarning
		return b.because(f.Broker.Since, "whether %s is there is not known; it counts as offline for %s", n.Node, lasts)
	}
	b := basis{view.LevelError,
		"the node's presence at the broker: its own goodbye, or the broker's word that it is gone",
		"the node connects again: look at its power and network, and at the agent's own log"}.because(n.Since,
		"%s is offline for %s", n.Node, lasts)
	if h := n.Health; h != nil && h.State != view.HealthOK && h.State != view.HealthUnknown {
		b.Text += "; the last that it told of its health is: " + h.Text
	}
	return b
}

// health are what the node tells of itself that is wrong.
func (f *NodeFacts) health() (all []view.Because) {
	n := &f.Node
	if i := n.Info; i != nil && i.Error != nil {
		all = append(all, basis{view.LevelError, "the node's report of info", "the node reports that it is mended"}.
			because(time.Time{}, "it is in error: %s", Brief(i.Error)))
	}
	for _, a := range n.Raised {
		b := basis{view.LevelWarning, "the node's event: its alert rule " + a.Tag,
			"its value falls below " + amount(a.Min)}
		all = append(all, b.because(a.Since, "the alert on %s is raised: %s, which is above %s", a.Parameter,
			amount(a.Value), amount(a.Max)))
	}
	h := f.Report
	if h == nil {
		return all
	}
	by := func(level view.Level, changes string) basis {
		return basis{level, "the node's report of health", changes}
	}
	for _, c := range h.Checks {
		if !c.OK {
			b := by(view.LevelError, "the check passes")
			all = append(all, b.because(c.Since, "the check %s fails: %s", c.Name, c.Message))
		}
	}
	if h.Indicator >= wire.IndicatorRefused && h.Indicator != wire.IndicatorCheck {
		b := by(view.LevelError, "the node reports that it is mended")
		all = append(all, b.because(time.Time{}, "it says: %s", h.Text))
	}
	if !h.Contact.In {
		b := by(view.LevelWarning, "it hears a fresh, signed message of the controller")
		all = append(all, b.because(h.Contact.Since, "it has no contact with the controller"))
	}
	if r := h.Restart; r != nil {
		b := by(view.LevelWarning, "it has restarted")
		all = append(all, b.because(r.At, "it is to restart: %s", Restart(h, since(f.Now, r.At))))
	}
	for _, q := range h.Quarantine {
		b := by(view.LevelWarning, "a newer version is staged, or somebody insists: --force")
		all = append(all, b.because(q.At, "%s %s has failed on trial, and is refused: %s", component(q.Component),
			q.Version, q.Text))
	}
	return append(all, f.trial()...)
}

// trial is what is on trial, and what it waits for.
func (f *NodeFacts) trial() (all []view.Because) {
	t := f.Report.Trial
	if t == nil {
		return nil
	}
	changes := "it is kept or rolled back"
	if t.Approval == wire.ApprovalNeeded {
		changes = "somebody approves it: tandem node approve " + f.Node.Node + " --version " + t.Version
	}
	b := basis{view.LevelWarning, "the node's report of health", changes}
	all = append(all, b.because(t.Since, "%s", Trial(f.Node.Node, t)))
	for _, w := range t.WaitsFor {
		all = append(all, basis{view.LevelWarning, b.source, "that is so"}.because(time.Time{},
			"the trial waits for %s: %s", strings.TrimSpace(string(w.Code)+" "+w.Name), w.Text))
	}
	return all
}

// component names what is updated on trial.
func component(name string) string {
	if name == "" {
		return "version"
	}
	return name
}

// work are slots and components that are not as they should be; those of a node that is offline are not known.
func (f *NodeFacts) work() (all []view.Because) {
	good := 0
	for i := range f.Node.Slots {
		s := &f.Node.Slots[i]
		if s.Settled {
			good++
			continue
		}
		w := Slot(Facts{Now: f.Now, Slot: *s, Node: f.Node, Known: true, Doc: f.Slots})
		all = append(all, w.Sentences[0])
	}
	if good > 0 {
		b := slotBases[Runs]
		all = append(all, b.because(time.Time{}, "%s as wanted: tandem workload list --node %s", areSlots(good),
			f.Node.Node))
	}
	for _, c := range f.Node.Components {
		if c.Next != "" || c.Text != "" {
			b := basis{view.LevelWarning, "the node's report of health", "it is installed and kept, or given up"}
			all = append(all, b.because(time.Time{}, "the component %s, which is %s, goes to %s: %s", c.Name,
				orNone(c.Version), orNone(c.Next), orNone(c.Text)))
		}
	}
	return all
}

func areSlots(n int) string {
	if n == 1 {
		return "1 slot is"
	}
	return kind.Many(n, "slot") + " are"
}

func orNone(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

// identity says what is wrong with the node's certificate, and whether its messages are proved.
func (f *NodeFacts) identity() (all []view.Because) {
	id := f.Node.Identity
	if id == nil || id.State != "joined" {
		return nil
	}
	b := basis{view.LevelInfo, "the journal: its newest certificate", "it is renewed, or the node is revoked"}
	switch left := id.Expires.Sub(f.Now); {
	case left <= 0:
		b.level, b.changes = view.LevelError, "the node joins anew: tandem node enroll "+f.Node.Node
		all = append(all, b.because(id.Expires, "its certificate has ended, %s ago", phrase.Span(-left)))
	case left < certificateSoon:
		b.level, b.changes = view.LevelWarning, "the node renews it: it needs contact for that"
		all = append(all, b.because(time.Time{}, "its certificate ends in %s, and was not renewed yet",
			phrase.Ahead(left)))
	default:
		all = append(all, b.because(time.Time{}, "its certificate ends in %s", phrase.Ahead(left)))
	}
	return all
}
