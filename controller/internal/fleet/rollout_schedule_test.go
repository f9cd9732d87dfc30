package fleet

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/shared/wire"
)

var (
	rolloutSeed      = flag.Uint64("rollout-seed", 0, "play only the schedule of this seed")
	rolloutSchedules = flag.Int("rollout-schedules", 0, "how many schedules are played; 0: 300")
)

// In random schedules nodes fail, crash, die, fall ill, come and go, are wiped and join, people pause, resume, abort
// and submit, configurations and a policy beside each other, and the controller is killed at any record. Always: no
// more nodes are unavailable because of a rollout than it may make so, by what really happens on the nodes; replay
// leads to the live state; a node should have a document that is known. Once all is well and people resume what is
// paused, every rollout ends, and what is installed runs.
func TestRolloutSchedules(t *testing.T) {
	if *rolloutSeed != 0 {
		newRolloutSchedule(t, *rolloutSeed).play()
		return
	}
	first := rand.Uint64() >> 1
	t.Logf("seeds from %d", first)
	n := cmp.Or(*rolloutSchedules, 300)
	kills, disturbed, ends := 0, 0, map[string]map[rollout.Phase]int{"config": {}, "policies": {}, "workloads": {}}
	for i := range n {
		c := newRolloutSchedule(t, first+uint64(i))
		c.play()
		kills, disturbed = kills+c.kills, disturbed+c.most
		for _, id := range c.w.live.Rollouts().IDs() {
			of, _, _ := strings.Cut(id, "-")
			ends[of][c.phase(id)]++
		}
	}
	t.Logf("%d kills; rollouts ended: %v; %d nodes at a time", kills, ends, disturbed)
	if kills < n || disturbed < n || ends["config"][rollout.Done] < n/2 {
		t.Errorf("too little happens: %d kills, %v", kills, ends)
	}
	for of, all := range ends {
		if all[rollout.Done] < n/20 || all[rollout.Aborted] < n/300 {
			t.Errorf("too little happens to rollouts of %s: %v", of, all)
		}
	}
}

// rolloutSchedule is a unit to which things happen.
type rolloutSchedule struct {
	*rolloutUnit
	*rand.Rand
	seed    uint64
	version int            // the newest of configurations and of the policy
	limits  map[string]int // by version; that of the policy begins with its name
	ids     map[string]string
	beside  string            // what is rolled out beside configurations: "line", the policy; "set"; "": nothing
	enabled bool              // the policy is
	parts   map[string]string // of the set of workloads, by node
	kills   int
	most    int // nodes unavailable at a time because of one version
}

func newRolloutSchedule(t *testing.T, seed uint64) *rolloutSchedule {
	c := &rolloutSchedule{Rand: rand.New(rand.NewPCG(seed, 2)), seed: seed, version: 1,
		limits: map[string]int{}, ids: map[string]string{}, parts: map[string]string{}}
	c.rolloutUnit = newRolloutUnit(t, 0)
	c.beside = []string{"line", "set", "", ""}[c.IntN(4)] // they cost time
	c.policies = c.beside == "line"
	c.TB = seeded{t, seed}
	c.w.t = c.TB
	for i := range 2 + c.IntN(7) {
		n := c.join(fmt.Sprintf("n%02d", i+1), []string{"mainType", "sideType"}[c.IntN(2)])
		n.does = []conduct{obeys, obeys, obeys, obeys, fails, hangs, dies, alerts, breaks}[c.IntN(9)]
	}
	c.pump()
	c.apply("1.0.0", "")
	switch c.beside {
	case "line":
		c.change(record.PolicyData{Name: "line", Document: []byte(policyDocument(anyNode, "1.0.0", ""))})
		c.enabled = true
	case "set":
		if _, err := c.submittedSet("1.0.0", "", false); err != nil {
			c.Fatalf("%v", err)
		}
	}
	c.wait(30 * time.Minute)
	c.watch = c.withinLimits
	return c
}

// seeded tells the seed with each failure.
type seeded struct {
	testing.TB
	seed uint64
}

func (s seeded) Fatalf(format string, a ...any) {
	s.Helper()
	s.TB.Fatalf("-rollout-seed %d: %s", s.seed, fmt.Sprintf(format, a...))
}

// causedBy is the version that makes a node unavailable now; "": none does.
func (u *rolloutUnit) causedBy(n *rolloutNode) string {
	d := n.doc(wire.KindConfig)
	switch {
	case d.running == nil, !n.online && u.now.Sub(n.since) >= 3*time.Hour:
		return "" // it is new, or was wiped; or it is absent
	case n.sick && n.because != "", !n.deadSince.IsZero():
		return n.because
	case n.sick, n.wasSick, n.wasAbsent:
		return "" // it was so before
	case !d.at.IsZero() && d.retained.Version != d.running.Version:
		return max(d.retained.Version, d.running.Version) // what is taken back is the newer one
	}
	if d := n.doc(wire.KindWorkloads); d.running != nil && !d.at.IsZero() && d.retained.Version != d.running.Version {
		return versionOf(wire.KindWorkloads, max(d.retained.Version, d.running.Version))
	}
	return u.atPolicy(n.doc(wire.KindPolicies))
}

func (c *rolloutSchedule) withinLimits() {
	count := map[string]int{}
	for _, n := range c.nodes {
		version := c.causedBy(n)
		status, _ := c.w.live.Rollouts().Status(c.ids[version], n.name)
		if (status == rollout.Failed || status == rollout.Stuck) && !n.sick && n.deadSince.IsZero() {
			continue // it was late, and begins again by itself, as when it is started anew
		}
		count[version]++
	}
	for version, limit := range c.limits {
		if count[version] == 0 {
			continue
		}
		phase := c.phase(c.ids[version])
		if phase == rollout.Done || c.ids[version] == "" { // who comes later gets it when it comes
			continue
		}
		if c.most = max(c.most, count[version]); count[version] > limit {
			v, _ := c.w.live.Rollouts().Show(c.now, c.ids[version])
			c.Fatalf("%d nodes are unavailable because of %s, of which %d may be: %+v%s", count[version], version,
				limit, v, c.told(c.ids[version]))
		}
	}
}

// told is how nodes are, for failures.
func (c *rolloutSchedule) told(id string) (text string) {
	for _, name := range c.names() {
		n := c.nodes[name]
		status, _ := c.w.live.Rollouts().Status(id, name)
		known := c.w.live.Lookup(name)
		text += fmt.Sprintf("\n%s (%d of %d events, %d alerts): %s, caused by %q, online %v, sick %v because %q, "+
			"%+v; %+v", name, known.EventSeq, len(n.events), len(known.Alerts), status, c.causedBy(n), n.online, n.sick,
			n.because, n.doc(wire.KindConfig), known.Kinds[wire.KindConfig].Document)
	}
	return text
}

// begin begins a rollout of a configuration, of the policy or of a set of workloads.
func (c *rolloutSchedule) begin() {
	if c.version == 9 {
		return // they are compared as texts
	}
	c.version++
	version := fmt.Sprintf("%d.0.0", c.version)
	key := version
	if c.beside != "" && c.IntN(2) == 0 {
		key = c.beside + " " + version
	}
	waves := []string{
		`[{"count": 1, "canary": true}, {"percent": 30}, {"percent": 100}]`,
		`[{"percent": 100}]`,
		`[{"type": "sideType"}, {"percent": 100}]`,
	}[c.IntN(3)]
	c.limits[key] = 1 + c.IntN(3)
	text := fmt.Sprintf(`{"waves": %s, "maxUnavailable": {"count": %d}, "failureBudget": {"count": %d},
		"absentAfter": "PT3H"}`, waves, c.limits[key], c.IntN(3))
	if c.IntN(4) == 0 {
		text = text[:len(text)-1] + `, "windows": [{"cron": "0 */2 * * *", "zone": "UTC", "duration": "PT40M"}]}`
	}
	of, submit := wire.KindConfig, c.submitted
	switch {
	case key == version:
	case c.policies:
		c.beginPolicy(key, policyDocument(anyNode, version, text))
		return
	default:
		of, submit = wire.KindWorkloads, c.submittedSet
	}
	if id, err := submit(version, text, false); err == nil {
		c.ids[key] = id
	} else if r := c.w.live.State(of).Rollout; r == nil || r.Version.Version != version {
		delete(c.limits, key)
	} else {
		c.ids[key] = r.ID // the controller was killed before it answered
	}
}

// submittedSet submits a set of workloads, of which some nodes have another part than before.
func (c *rolloutSchedule) submittedSet(version, plan string, _ bool) (string, *wire.Error) {
	for _, name := range c.names() {
		if c.parts[name] == "" || c.IntN(3) > 0 {
			c.parts[name] = "w" + version[:1]
		}
	}
	var entries []string
	for _, name := range c.names() {
		entries = append(entries, "web@"+name+":"+c.parts[name])
	}
	r, err := c.order(func() Event {
		s := c.w.set("set"+version, entries...)
		s.Sub.Offline, s.Sub.Version, s.Version = true, version, version
		if plan != "" {
			s.Plan = rolloutPlan(c, plan)
		}
		return s
	})
	if err != nil {
		return "", wire.AsError(err)
	}
	return r.Rollout, r.Error
}

func (c *rolloutSchedule) happen() {
	names := c.names()
	n := c.nodes[names[c.IntN(len(names))]]
	ids := append(c.w.live.Rollouts().IDs(), "config-0")
	id := ids[c.IntN(len(ids))]
	switch c.IntN(18) {
	case 0, 1:
		c.leave(n)
	case 2, 3, 4:
		if !n.online {
			c.connect(n)
		}
	case 5:
		c.start(n)
	case 6:
		if !n.sick {
			n.because = ""
		}
		c.ail(n, true)
	case 7:
		n.because = ""
		c.ail(n, false)
	case 8:
		n.docs, n.because = map[wire.Kind]*rolloutDoc{}, "" // a new disk, which gets what the broker has
		for k, s := range c.w.live.Lookup(n.name).Kinds {
			if s.Desired != nil {
				ref := s.Desired.DocRef
				n.doc(k).retained = &ref
			}
		}
		c.start(n)
	case 9:
		if len(c.nodes) < 12 {
			c.join(fmt.Sprintf("x%02d", len(c.nodes)), "mainType")
		}
	case 10:
		c.order(func() Event { return RolloutOrder{Who: "ann", Order: rollout.Pause{ID: id}} })
	case 11:
		c.order(func() Event { return RolloutOrder{Who: "ann", Order: rollout.Resume{ID: id}} })
	case 12:
		how := []plan.OnAbort{plan.Leave, plan.TakeBack}[c.IntN(2)]
		c.order(func() Event { return RolloutOrder{Who: "ann", Order: rollout.Abort{ID: id, How: how}} })
	case 13, 14:
		c.begin()
	case 15:
		if c.policies {
			c.enable(!c.enabled)
		}
	default: // the controller is killed at one of the next records
		c.killed, c.killAt = false, len(c.w.journal)+1+c.IntN(20)
		if c.restore = nil; c.IntN(2) == 0 {
			c.restore, c.from = c.w.live.Checkpoint(), len(c.w.journal)
		}
	}
	c.pump()
	if c.killed {
		c.kills++
		c.killed, c.killAt = false, 0
	}
}

func (c *rolloutSchedule) play() {
	c.begin()
	for range 10 + c.IntN(25) {
		c.wait(time.Duration(c.IntN(40)) * time.Minute)
		c.happen()
		if c.IntN(20) == 0 {
			c.w.check()
		}
	}
	c.killAt = 0
	for _, name := range c.names() {
		n := c.nodes[name]
		n.does, n.because = obeys, ""
		c.ail(n, false)
		if !n.online {
			c.connect(n)
		}
		for _, d := range n.docs { // one that has hung puts in place what it has got
			if d.retained != nil && (!settled(d) || d.underWay() != nil) && d.at.IsZero() {
				d.at = c.now.Add(time.Minute)
			}
		}
	}
	c.pump()
	for range 400 {
		goOn := 0
		for _, k := range []wire.Kind{wire.KindConfig, wire.KindPolicies, wire.KindWorkloads} {
			st := c.w.live.State(k)
			if st.Rollout == nil {
				continue
			}
			if goOn++; c.phase(st.Rollout.ID) == rollout.Paused {
				c.order(func() Event { return RolloutOrder{Who: "ann", Order: rollout.Resume{ID: st.Rollout.ID}} })
			}
		}
		if goOn == 0 {
			break
		}
		c.wait(time.Hour)
	}
	c.wait(time.Hour)
	c.w.check()
	c.allIsWell(wire.KindConfig)
	switch c.beside {
	case "line":
		c.allIsWell(wire.KindPolicies)
	case "set":
		c.allIsWell(wire.KindWorkloads)
	}
}

// allIsWell: no rollout goes on, and each node runs what it should, which is installed if nothing was aborted.
func (c *rolloutSchedule) allIsWell(of wire.Kind) {
	src := c.w.live.source(of)
	if r := src.State.Rollout; r != nil {
		v, _ := c.w.live.Rollouts().Show(c.now, r.ID)
		c.Fatalf("the rollout never ends: %+v, %+v%s", v, v.Held, c.told(r.ID))
	}
	for _, n := range c.w.live.Nodes() {
		k := n.Kinds[of]
		if k == nil {
			c.Fatalf("%s has nothing of %s", n.Name, of)
		}
		var d kind.Doc
		if k.Desired != nil {
			d = *k.Desired
		}
		known := src.find(src.orInstalled(d.Of)) != nil
		if of == wire.KindPolicies && !src.split { // whatever it came with, it is what all have
			known = c.hasPolicy(d.Hash)
		}
		if !known || of == wire.KindConfig && !src.split && d.Of != src.Hash {
			c.Fatalf("%s should have %+v of %s; there are %s and %+v", n.Name, d, of, src.Hash, src.versions)
		}
		if !k.Settled() {
			c.Fatalf("%s has not settled: %+v", n.Name, k.Document)
		}
	}
}
