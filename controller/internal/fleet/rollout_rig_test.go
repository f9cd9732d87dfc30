package fleet

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// conduct is what a node does with a document of a rollout.
type conduct int

const (
	obeys  conduct = iota
	fails          // and is back on what it had
	hangs          // it stays online, and installs nothing
	dies           // it goes offline
	alerts         // it installs it, and raises an alert
	breaks         // it fails, and raises an alert
	downs          // its machine goes down meanwhile, once, and it begins anew
)

// rolloutNode is a node in virtual time, which speaks as the agent does.
type rolloutNode struct {
	name, nodeType string
	online, mute   bool // mute: it says nothing of its health
	boot           int
	session        uint64
	seqs           map[wire.Kind]uint64
	docs           map[wire.Kind]*rolloutDoc
	events         []*wire.Event
	sick           bool
	quietSince     time.Time
	does           conduct
	because        string    // version that has made it sick or dead
	wasSick        bool      // when it got its newest document
	deadSince      time.Time // because of that; zero: it is not
	since          time.Time // of online
	wasAbsent      bool      // it comes back with what it was at when nobody waited for it any more
}

// rolloutDoc is a document on a node.
type rolloutDoc struct {
	retained *wire.DocRef // at the broker
	running  *wire.DocRef
	last     *wire.Attempt
	at       time.Time // when it is done with retained, or with a policy; zero: nothing is under way
	policies []wire.PolicyStatus
	brings   string // version of the policy that what is under way is because of; "": of none
}

func (n *rolloutNode) doc(k wire.Kind) *rolloutDoc {
	if n.docs[k] == nil {
		n.docs[k] = &rolloutDoc{}
	}
	return n.docs[k]
}

// rolloutUnit is a Fleet with its journal, a broker, and nodes, in virtual time.
type rolloutUnit struct {
	testing.TB
	w       *world
	now     time.Time
	nodes   map[string]*rolloutNode
	queue   []func() // what is on its way
	killAt  int      // the controller is killed once the journal has so many records; 0: never
	killed  bool
	restore []byte // a checkpoint from which it starts again; nil: from the first record
	from    int    // records that it has
	watch   func() // after each step
	answer  *Answer

	policies bool                        // nodes say what they make of policies, too
	lines    map[string]*wire.NodePolicy // the policy line in documents, by their hash
}

func newRolloutUnit(t testing.TB, n int) *rolloutUnit {
	u := &rolloutUnit{TB: t, w: newWorld(t), now: origin, nodes: map[string]*rolloutNode{}}
	u.step(Opened{Version: "1.0.0"})
	for i := range n {
		u.join(fmt.Sprintf("n%02d", i+1), "mainType")
	}
	u.pump()
	return u
}

func (u *rolloutUnit) names() []string { return slices.Sorted(maps.Keys(u.nodes)) }

func (u *rolloutUnit) join(name, nodeType string) *rolloutNode {
	n := &rolloutNode{name: name, nodeType: nodeType, docs: map[wire.Kind]*rolloutDoc{}}
	u.nodes[name] = n
	u.start(n)
	return n
}

// start has a node start anew.
func (u *rolloutUnit) start(n *rolloutNode) {
	n.boot++
	n.session, n.seqs, n.quietSince = 0, map[wire.Kind]uint64{}, u.now
	for k, d := range n.docs { // what it was at is begun again
		if d.at = (time.Time{}); d.retained != nil && !settled(d) || d.underWay() != nil {
			n.docs[k].at = u.now.Add(time.Minute)
		}
	}
	u.connect(n)
}

func settled(d *rolloutDoc) bool {
	return d.last != nil && d.retained != nil && d.last.Stamp() == d.retained.Stamp()
}

func (u *rolloutUnit) connect(n *rolloutNode) {
	if n.session++; !n.deadSince.IsZero() {
		n.because = ""
	}
	n.wasAbsent = !n.online && u.now.Sub(n.since) >= 3*time.Hour
	n.online, n.since, n.deadSince = true, u.now, time.Time{}
	u.sayAll(n)
	for k, d := range n.docs {
		if (d.retained != nil && !settled(d) || d.underWay() != nil) && d.at.IsZero() {
			n.docs[k].at = u.now.Add(time.Minute)
		}
	}
}

func (u *rolloutUnit) leave(n *rolloutNode) {
	if !n.online {
		return
	}
	n.online, n.since = false, u.now
	u.say(n, &wire.Live{V: wire.Version, Node: n.name, Boot: n.bootName(), Session: n.session})
}

func (n *rolloutNode) bootName() string { return fmt.Sprintf("%d-%016x", n.boot, n.boot) }

// say brings a message to the controller.
func (u *rolloutUnit) say(n *rolloutNode, m any) {
	u.queue = append(u.queue, func() { u.step(u.w.heard(n.name, m)) })
}

// sayAll is what a node says when it connects, or is asked to report.
func (u *rolloutUnit) sayAll(n *rolloutNode) {
	if !n.online {
		return
	}
	kinds := []wire.Kind{wire.KindInfo, wire.KindConfig, wire.KindWorkloads, wire.KindHealth}
	if u.policies {
		kinds = append(kinds, wire.KindPolicies)
	}
	for _, k := range kinds {
		n.seqs[k]++
	}
	u.say(n, &wire.Live{V: wire.Version, Node: n.name, Boot: n.bootName(), Session: n.session, Up: true,
		Seqs: maps.Clone(n.seqs), Events: uint64(len(n.events))})
	u.say(n, u.w.info(n.name, n.bootName(), n.seqs[wire.KindInfo], n.nodeType).Reported)
	for _, k := range kinds[1:] {
		u.report(n, k)
	}
}

// ail raises an alert on a node, or has it fall.
func (u *rolloutUnit) ail(n *rolloutNode, sick bool) {
	if n.sick == sick {
		return
	}
	n.sick, n.quietSince = sick, u.now
	phase := map[bool]string{true: "raise", false: "fall"}[sick]
	detail := fmt.Sprintf(`{"tag":"t","parameter":"p","value":0.5,"state":%q,"since":"2026-01-01T00:00:00Z"}`, phase)
	e := &wire.Event{V: wire.Version, Node: n.name, Boot: n.bootName(), Seq: uint64(len(n.events) + 1), At: u.now,
		Type: "alert", Detail: []byte(detail)}
	n.events = append(n.events, e)
	if n.online {
		u.say(n, e)
	}
}

// finish is the moment in which a node is done with a document.
func (u *rolloutUnit) finish(n *rolloutNode, k wire.Kind, d *rolloutDoc) {
	d.at, n.wasAbsent = time.Time{}, false
	if k == wire.KindPolicies {
		u.finishPolicies(n, d)
		return
	}
	does, ref := n.does, *d.retained
	if !submittedWhole(k) || ref.Version < "2" || d.running == nil || d.running.Hash == ref.Hash {
		does = obeys // only what is new to it makes trouble
	}
	if does == hangs || does == dies {
		return
	}
	d.last = &wire.Attempt{Epoch: ref.Epoch, Rev: ref.Rev, Version: ref.Version, Hash: ref.Hash, Attempt: 1, At: u.now,
		State: wire.StateInstalled}
	if does == downs {
		n.does, d.at = obeys, u.now.Add(time.Minute)
		d.last.State, d.last.Error = wire.StateRolledBack, wire.New(wire.CodeInterrupted, "", "the agent stopped")
	} else if does == fails || does == breaks {
		d.last.State, d.last.Error = wire.StateRolledBack, wire.New(wire.CodeApplyFailed, "", "exit status 1")
	} else {
		d.running = &ref
	}
	n.quietSince = u.now
	if does == alerts || does == breaks {
		if !n.sick && !n.wasSick { // it may have been all the same
			n.because = versionOf(k, ref.Version)
		}
		u.ail(n, true)
	}
	n.seqs[k]++
	u.report(n, k)
}

// submittedWhole reports whether documents of a kind are rolled out as they are submitted.
func submittedWhole(k wire.Kind) bool { return k == wire.KindConfig || k == wire.KindWorkloads }

// versionOf names a version that a node may be ill of: of the configuration by itself, of a set of workloads as such.
func versionOf(k wire.Kind, version string) string {
	if k == wire.KindConfig {
		return version
	}
	return "set " + version
}

// publish is the broker, which keeps documents and brings them to those who are connected.
func (u *rolloutUnit) publish(p *Publish) {
	for _, name := range p.Nodes {
		n := u.nodes[name]
		if n == nil {
			continue
		}
		d := n.doc(p.Kind)
		if p.Doc == nil {
			d.retained, d.at = nil, time.Time{}
			continue
		}
		if d.retained != nil && d.retained.Stamp() == p.Doc.Stamp() {
			continue
		}
		ref := p.Doc.DocRef
		d.retained, n.wasSick = &ref, n.sick || len(u.w.live.Lookup(name).Alerts) > 0 // as far as is known
		if n.online {
			d.at = u.now.Add(time.Minute)
		}
		if n.does == dies && n.online && ref.Version >= "2" && submittedWhole(p.Kind) {
			n.does, n.because, n.deadSince = obeys, versionOf(p.Kind, ref.Version), u.now
			u.leave(n)
		}
	}
}

func (u *rolloutUnit) asked(a *Ask) {
	for _, name := range a.Nodes {
		n := u.nodes[name]
		if n == nil || !n.online {
			continue
		}
		switch a.Method {
		case wire.MethodReport:
			u.sayAll(n)
		case wire.MethodEvents:
			for _, e := range n.events {
				if e.Seq > u.w.live.Lookup(name).EventSeq {
					u.say(n, e)
				}
			}
		}
	}
}

// step takes the controller over one event; it may be killed then.
func (u *rolloutUnit) step(ev Event) {
	records, effects := u.w.step(u.now, ev)
	if u.killAt > 0 && !u.killed && len(u.w.journal) >= u.killAt && len(records) > 0 {
		u.killed = true
		u.w.journal = u.w.journal[:u.killAt]
		u.restart()
		return
	}
	u.run1(effects)
}

func (u *rolloutUnit) run1(effects []Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case Publish:
			u.publish(&e)
		case Ask:
			u.asked(&e)
		case Answer:
			u.answer = &e
		}
	}
	if u.watch != nil {
		u.watch()
	}
}

// pump lets everything arrive that is on its way.
func (u *rolloutUnit) pump() {
	for len(u.queue) > 0 {
		next := u.queue[0]
		u.queue = u.queue[1:]
		next()
	}
}

// restart is another process, on what the journal has: it hears what the broker retains, and fills the broker.
func (u *rolloutUnit) restart() {
	if u.restore != nil && u.from <= len(u.w.journal) {
		f, err := Restored(u.w.opt, u.restore)
		if err != nil {
			u.Fatal(err)
		}
		u.w.live = u.w.replayed(u.from, f)
	} else {
		u.w.live = u.w.replayed(0, New(u.w.opt))
	}
	u.w.load(u.w.live)
	u.queue = nil
	u.step(Opened{Version: "1.0.0"})
	for _, n := range u.w.live.sorted() { // the broker is filled
		for k, s := range n.Kinds {
			if s.Desired != nil {
				u.publish(&Publish{Kind: k, Doc: s.Desired, Nodes: []string{n.Name}})
			}
		}
	}
	for _, name := range u.names() {
		u.sayAll(u.nodes[name])
	}
}

// next is when something happens by itself.
func (u *rolloutUnit) next() (at time.Time, do func()) {
	first := func(t time.Time, f func()) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at, do = t, f
		}
	}
	if t, ok := u.w.live.NextDeadline(); ok {
		first(t, func() { u.step(Tick{}) })
	}
	for _, name := range u.names() {
		n := u.nodes[name]
		for _, k := range slices.Sorted(maps.Keys(n.docs)) {
			if d := n.docs[k]; n.online {
				first(d.at, func() { u.finish(n, k, d) })
			}
		}
	}
	return at, do
}

// until lets time pass until something holds, for so long at most; false: it does not.
func (u *rolloutUnit) until(most time.Duration, holds func() bool) bool {
	end := u.now.Add(most)
	u.pump()
	for range 200_000 {
		if holds() {
			return true
		}
		at, do := u.next()
		if at.IsZero() || at.After(end) {
			u.now = end
			return holds()
		}
		if at.After(u.now) {
			u.now = at
		}
		do()
		u.pump()
	}
	next, _ := u.w.live.NextDeadline()
	u.Fatalf("time does not pass at %v; due at %v, rollouts at %v", u.now, next, u.w.live.Rollouts().NextDeadline())
	return false
}

func (u *rolloutUnit) wait(d time.Duration) { u.until(d, func() bool { return false }) }

// order is an event that somebody waits for. It is said again if the controller was killed before it answered.
func (u *rolloutUnit) order(ev func() Event) (view.Result, error) {
	for {
		u.answer = nil
		u.step(ev())
		u.pump()
		if u.answer != nil {
			return u.answer.Result, u.answer.Err
		}
	}
}

func rolloutPlan(t testing.TB, text string) *plan.Plan {
	t.Helper()
	p, problems := plan.Parse([]byte(text), time.LoadLocation)
	if problems != nil {
		t.Fatal(problems)
	}
	return p
}

func (u *rolloutUnit) phase(id string) rollout.Phase {
	v, _ := u.w.live.Rollouts().Show(u.now, id)
	return v.Phase
}

// issuedTo is how many nodes a record issues a document to.
func issuedTo(data any) (n int) {
	if d, ok := data.(record.IssuedData); ok {
		for _, doc := range d.Docs {
			n += len(doc.Nodes)
		}
	}
	return n
}
