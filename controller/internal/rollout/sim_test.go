package rollout_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/shared/wire"
)

const config = wire.KindConfig

// monday is a Monday, in no time zone's leap.
var monday = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

// behaviour is what a node does with what it gets.
type behaviour int

const (
	good   behaviour = iota
	fails            // and is back on what it had
	hangs            // it stays online, and installs nothing
	dies             // it goes offline
	alerts           // it installs it, and raises an alert
	breaks           // it fails, and raises an alert
)

// simNode is a node in the world of a test.
type simNode struct {
	name, nodeType string
	labels         []string
	online         bool
	revoked        bool
	since          time.Time
	boot           int
	troubles       []rollout.Trouble
	quietSince     time.Time
	reported       time.Time // the quietSince of which it has told when the soak time was over
	mute           bool      // says nothing of its health
	does           behaviour
	docs           map[wire.Kind]*simDoc
}

type simDoc struct {
	installed rollout.Ref
	failed    *rollout.Failure
	desired   rollout.Ref
	at        time.Time // of the installing; zero: nothing is under way
}

// sim is a unit in virtual time: a Set, its journal, and nodes.
type sim struct {
	testing.TB
	now     time.Time
	set     *rollout.Set
	log     []rollout.Record
	nodes   map[string]*simNode
	targets map[string]map[string]string // by rollout and node
	kindOf  map[string]wire.Kind
	killAt  int // the controller is killed once the journal has so many records, before anything else happens; 0: never
	killed  bool
	watch   func() // after each step
	states  map[int]string
	saved   []byte // a checkpoint, of the first savedAt records
	savedAt int
}

func newSim(t testing.TB, n int) *sim {
	s := &sim{
		TB: t, now: monday, set: rollout.NewSet(time.LoadLocation), nodes: map[string]*simNode{},
		targets: map[string]map[string]string{}, kindOf: map[string]wire.Kind{}, states: map[int]string{},
	}
	for i := range n {
		s.addNode(fmt.Sprintf("n%02d", i+1))
	}
	s.tell(s.names()...)
	return s
}

func (s *sim) addNode(name string) *simNode {
	n := &simNode{
		name: name, nodeType: "edge", online: true, since: s.now, boot: 1, quietSince: s.now.Add(-time.Hour),
		docs: map[wire.Kind]*simDoc{},
	}
	n.doc(config).installed = rollout.Ref{Rev: 0, Hash: "A"}
	s.nodes[name] = n
	return n
}

func (n *simNode) doc(k wire.Kind) *simDoc {
	if n.docs[k] == nil {
		n.docs[k] = &simDoc{}
	}
	return n.docs[k]
}

func (s *sim) names() []string { return slices.Sorted(maps.Keys(s.nodes)) }

// thePlan is the plan of the scenarios, with changes.
func thePlan(t testing.TB, changes ...string) *plan.Plan {
	t.Helper()
	members := map[string]string{
		"waves":          `[{"count": 1, "canary": true}, {"percent": 30}, {"percent": 100}]`,
		"maxUnavailable": `{"percent": 100}`,
	}
	for _, c := range changes {
		name, value, _ := strings.Cut(c, ": ")
		members[name] = value
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		all = append(all, fmt.Sprintf("%q: %s", name, members[name]))
	}
	p, problems := plan.Parse([]byte("{"+strings.Join(all, ", ")+"}"), time.LoadLocation)
	if problems != nil {
		t.Fatal(problems)
	}
	return p
}

// begin rolls content out to all nodes.
func (s *sim) begin(id, hash string, k wire.Kind, p *plan.Plan) {
	s.targets[id], s.kindOf[id] = map[string]string{}, k
	for _, name := range s.names() {
		s.targets[id][name] = hash
	}
	s.order(rollout.Begin{ID: id, Who: "ann", Salt: id, Kind: k, Plan: p, Targets: s.targets[id]})
}

// ranked are the nodes in the order of a rollout.
func (s *sim) ranked(id string) []*simNode {
	var all []*simNode
	for _, name := range s.names() {
		all = append(all, s.nodes[name])
	}
	slices.SortFunc(all, func(a, b *simNode) int {
		ra, rb := rollout.RankOf(id, a.name), rollout.RankOf(id, b.name)
		return slices.Compare(ra[:], rb[:])
	})
	return all
}

// order is an event that must be taken.
func (s *sim) order(ev rollout.Event) {
	s.Helper()
	if err := s.step(ev); err != nil {
		s.Fatalf("%T: %v", ev, err)
	}
}

// step takes an event, journals, is killed maybe, and lets effects happen.
func (s *sim) step(ev rollout.Event) *wire.Error {
	var out rollout.Out
	err := s.set.Step(s.now, uint64(len(s.log)), ev, &out)
	for i, r := range out.Records {
		if want := uint64(len(s.log) + i + 1); r.Seq != want {
			s.Fatalf("record %d has the number %d", want, r.Seq)
		}
	}
	s.log = append(s.log, out.Records...)
	if !s.killed && s.killAt > 0 && len(s.log) >= s.killAt {
		s.killed = true
		lost := len(s.log) > s.killAt
		s.log = s.log[:s.killAt]
		s.restart()
		switch ev.(type) {
		case rollout.Pause, rollout.Resume, rollout.Abort, rollout.Supersede, rollout.Begin:
			if lost { // who has ordered gets no answer, and orders again; maybe it was done already
				_ = s.step(ev)
			}
		}
		return err
	}
	if s.killAt == 0 {
		s.states[len(s.log)] = s.durable(s.set)
	}
	for _, e := range out.Effects {
		s.publish(e)
	}
	if s.watch != nil {
		s.watch()
	}
	return err
}

func (s *sim) publish(e rollout.Effect) {
	for _, nh := range e.Nodes {
		n := s.nodes[nh.Node]
		d := n.doc(s.kindOf[e.ID])
		if ref := (rollout.Ref{Rev: e.Rev, Hash: nh.Hash}); ref != d.desired {
			d.desired, d.at = ref, s.now.Add(time.Minute)
		}
		if n.does == dies && n.online && !e.Back {
			n.does = good
			s.offline(n)
		}
	}
}

// restart begins anew with what the journal has.
func (s *sim) restart() {
	if s.saved != nil && s.savedAt <= len(s.log) { // from a checkpoint, and what came after it
		set, err := rollout.Load(time.LoadLocation, s.saved)
		if err != nil {
			s.Fatal(err)
		}
		for _, r := range s.log[s.savedAt:] {
			if err := set.Replay(r); err != nil {
				s.Fatal(err)
			}
		}
		s.set, s.saved = set, nil
	} else {
		s.set = s.replayed(len(s.log))
	}
	s.tell(s.names()...)
	s.retarget()
	s.order(rollout.Opened{})
	s.tell(s.names()...)
}

// replayed returns the state that a prefix of the journal makes.
func (s *sim) replayed(n int) *rollout.Set {
	set := rollout.NewSet(time.LoadLocation)
	for _, r := range s.log[:n] {
		if err := set.Replay(r); err != nil {
			s.Fatal(err)
		}
	}
	return set
}

func (s *sim) retarget() {
	for _, id := range s.set.IDs() {
		for _, name := range slices.Sorted(maps.Keys(s.targets[id])) {
			s.order(rollout.Target{ID: id, Node: name, Hash: s.targets[id][name]})
		}
	}
}

func (s *sim) durable(set *rollout.Set) string { return fmt.Sprint(rollout.Durable(set)) }

// tell gives the facts of nodes.
func (s *sim) tell(names ...string) {
	facts := func() (all rollout.Facts) {
		for _, name := range names {
			all = append(all, s.fact(s.nodes[name]))
		}
		return all
	}
	s.order(facts())
	for _, name := range names {
		n := s.nodes[name]
		for _, k := range slices.Sorted(maps.Keys(n.docs)) {
			s.order(rollout.Doc{Node: name, Kind: k, Installed: n.docs[k].installed, Failed: n.docs[k].failed})
		}
	}
	s.order(facts()) // now that the documents are known, these may say more
}

func (s *sim) fact(n *simNode) rollout.Fact {
	f := rollout.Fact{
		Node: n.name, Type: n.nodeType, Labels: n.labels, Revoked: n.revoked, Online: n.online, Since: n.since,
		Boot: fmt.Sprint(n.boot),
	}
	if n.mute || !n.online {
		return f
	}
	quiet := s.now.Sub(n.quietSince)
	f.Health = rollout.Health{
		Boot: f.Boot, Troubles: slices.Clone(n.troubles), Alerts: quiet, Checks: quiet, Restarts: quiet,
		Workloads: quiet, Revs: map[wire.Kind]uint64{},
	}
	for k, d := range n.docs {
		f.Health.Revs[k] = d.installed.Rev
	}
	return f
}

func (s *sim) offline(n *simNode) { n.online, n.since = false, s.now; s.tell(n.name) }
func (s *sim) online(n *simNode)  { n.online, n.since = true, s.now; s.tell(n.name) }

// reboot has a node start anew.
func (s *sim) reboot(n *simNode) {
	n.boot++
	n.quietSince = s.now
	s.tell(n.name)
}

func (s *sim) sick(n *simNode) {
	n.troubles, n.quietSince = []rollout.Trouble{{Aspect: plan.Alerts, Name: "hot"}}, s.now
	s.tell(n.name)
}

func (s *sim) recover(n *simNode) { n.troubles, n.quietSince = nil, s.now; s.tell(n.name) }

// install is the moment in which a node has worked off what it got.
func (s *sim) install(n *simNode, d *simDoc) {
	d.at = time.Time{}
	switch n.does {
	case hangs, dies:
		return
	case fails, breaks:
		d.failed = &rollout.Failure{Ref: d.desired, Reason: "apply-failed: exit status 1"}
	default:
		d.installed, d.failed = d.desired, nil
	}
	n.quietSince = s.now
	if n.does == breaks || n.does == alerts {
		s.sick(n)
		return
	}
	s.tell(n.name)
}

// next is when something happens by itself: in the Set, or on a node.
func (s *sim) next() (at time.Time, do func()) {
	first := func(t time.Time, f func()) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at, do = t, f
		}
	}
	first(s.set.NextDeadline(), func() { s.order(rollout.Tick{}) })
	for _, name := range s.names() {
		n := s.nodes[name]
		if !n.online {
			continue
		}
		for _, k := range slices.Sorted(maps.Keys(n.docs)) {
			if d := n.docs[k]; !d.at.IsZero() {
				first(maxTime(d.at, s.now), func() { s.install(n, d) })
			}
		}
		if !n.reported.Equal(n.quietSince) { // nodes tell when the gate may open
			first(maxTime(n.quietSince.Add(10*time.Minute), s.now), func() {
				n.reported = n.quietSince
				s.tell(n.name)
			})
		}
	}
	return at, do
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// run lets time pass.
func (s *sim) run(d time.Duration) {
	s.Helper()
	end := s.now.Add(d)
	for range 100_000 {
		at, do := s.next()
		if at.IsZero() || at.After(end) {
			s.now = end
			return
		}
		s.now = maxTime(at, s.now)
		do()
	}
	s.Fatal("time does not pass")
}

// until lets time pass until something holds, for three days at most.
func (s *sim) until(what string, holds func() bool) {
	s.Helper()
	end := s.now.Add(72 * time.Hour)
	for range 100_000 {
		if holds() {
			return
		}
		at, do := s.next()
		if at.IsZero() || at.After(end) {
			break
		}
		s.now = maxTime(at, s.now)
		do()
	}
	s.Fatalf("never: %s; %s", what, s.story())
}
