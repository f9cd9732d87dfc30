package rollout_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/shared/wire"
)

var scheduleSeed = flag.Uint64("schedule-seed", 0, "run only the schedule of this seed")

// In 2,000 random schedules nodes fail, crash, go silent, come back, get sick, are replaced, join and are revoked,
// people pause, resume and abort, and the controller is killed between records. Always: no more nodes are unavailable
// because of a rollout than it may make so; what is halted issues nothing; a node has one change in flight; the journal
// gives the state; and once nodes are in good health and people resume what is paused, every rollout ends.
func TestSchedules(t *testing.T) {
	if *scheduleSeed != 0 {
		newSchedule(t, *scheduleSeed).play()
		return
	}
	first := rand.Uint64() >> 1
	t.Logf("seeds from %d", first)
	const n = 2000
	kills, ends := 0, map[rollout.Phase]int{}
	for i := range uint64(n) {
		c := newSchedule(t, first+i)
		c.play()
		kills += c.kills
		for _, id := range c.set.IDs() {
			ends[c.phase(id)]++
		}
	}
	t.Logf("%d kills; rollouts ended: %v", kills, ends)
	if kills < n/2 || ends[rollout.Done] < n/4 || ends[rollout.Aborted] < n/20 || ends[rollout.Superseded] < n/100 {
		t.Errorf("too little happens: %d kills, %v", kills, ends)
	}
}

// schedule is one unit to which things happen.
type schedule struct {
	*sim
	*rand.Rand
	seed  uint64
	plans map[string]*plan.Plan
	kills int
	check journalCheck
}

func newSchedule(t *testing.T, seed uint64) *schedule {
	c := &schedule{Rand: rand.New(rand.NewPCG(seed, 1)), seed: seed, plans: map[string]*plan.Plan{}}
	c.sim = newSim(t, 1+c.IntN(9))
	for _, name := range c.names() {
		n := c.nodes[name]
		n.nodeType = []string{"edge", "gate"}[c.IntN(2)]
		n.labels = []string{"x", "y"}[:c.IntN(3)]
		n.does = []behaviour{good, good, good, good, good, fails, hangs, dies, alerts, breaks}[c.IntN(10)]
	}
	c.tell(c.names()...)
	c.watch = c.look
	c.check = journalCheck{
		schedule: c, ours: map[string]map[string]bool{}, halted: map[string]bool{}, holder: map[string]string{},
		sickBefore: map[string]bool{}, reverting: map[string]bool{},
	}
	return c
}

// Fatalf says with which seed it failed.
func (c *schedule) Fatalf(format string, a ...any) {
	c.Helper()
	c.sim.Fatalf("seed %d: %s; %s", c.seed, fmt.Sprintf(format, a...), c.story())
}

func (c *schedule) drawPlan() *plan.Plan {
	waves := []string{
		`[{"count": 1, "canary": true}, {"percent": 30}, {"percent": 100}]`,
		`[{"percent": 100}]`,
		`[{"type": "gate"}, {"label": "x", "percent": 50}, {"percent": 100}]`,
		`[{"count": 1, "perType": true, "canary": true}, {"percent": 100}]`,
	}
	all := []string{
		"waves: " + waves[c.IntN(len(waves))],
		fmt.Sprintf(`maxUnavailable: {"count": %d}`, 1+c.IntN(3)),
		fmt.Sprintf(`failureBudget: {"count": %d}`, c.IntN(3)),
		`absentAfter: "PT3H"`,
	}
	if c.IntN(3) == 0 {
		all = append(all, `groups: [{"type": "gate", "maxUnavailable": {"count": 1}}]`)
	}
	if c.IntN(4) == 0 {
		all = append(all, `windows: [{"cron": "0 */2 * * *", "zone": "Europe/Berlin", "duration": "PT40M"}]`)
	}
	return thePlan(c, all...)
}

func (c *schedule) start(k wire.Kind) {
	id := fmt.Sprintf("r%d", len(c.plans)+1)
	c.plans[id] = c.drawPlan()
	c.begin(id, id, k, c.plans[id])
}

func (c *schedule) play() {
	c.start(config)
	for range 10 + c.IntN(30) {
		c.run(time.Duration(c.IntN(40)) * time.Minute)
		c.happen()
	}
	for _, n := range c.nodes { // all is good from now on
		n.does, n.troubles, n.mute = good, nil, false
		if n.quietSince = c.now; !n.online {
			n.online, n.since = true, c.now
		}
		for _, d := range n.docs { // one that has hung puts in place what it has got
			if d.failed == nil && d.desired != d.installed && d.desired.Rev > 0 {
				d.at = c.now.Add(time.Minute)
			}
		}
	}
	c.tell(c.names()...)
	for range 400 {
		open := false
		for _, id := range c.set.IDs() {
			switch c.phase(id) {
			case rollout.Paused:
				c.order(rollout.Resume{ID: id})
				open = true
			case rollout.Running, rollout.Waiting, rollout.Reverting:
				open = true
			}
		}
		if !open {
			c.same()
			return
		}
		c.run(time.Hour)
	}
	for _, id := range c.set.IDs() {
		c.Logf("%s %s: %+v", id, c.phase(id), c.set.Why(c.now, id))
	}
	c.Fatalf("it does not end")
}

// same checks that the journal, and a checkpoint, give the state.
func (c *schedule) same() {
	want := c.durable(c.set)
	if got := c.durable(c.replayed(len(c.log))); got != want {
		c.Fatalf("replay gives\n%s\nwant\n%s", got, want)
	}
	checkpoint, err := c.set.Checkpoint()
	if err != nil {
		c.Fatal(err)
	}
	if c.IntN(2) == 0 {
		c.saved, c.savedAt = checkpoint, len(c.log)
	}
	set, err := rollout.Load(time.LoadLocation, checkpoint)
	if err != nil {
		c.Fatal(err)
	}
	if got := c.durable(set); got != want {
		c.Fatalf("the checkpoint gives\n%s\nwant\n%s", got, want)
	}
}

// happen has one thing happen.
func (c *schedule) happen() {
	names := c.names()
	n := c.nodes[names[c.IntN(len(names))]]
	ids := c.set.IDs()
	id := ids[c.IntN(len(ids))]
	switch c.IntN(20) {
	case 0, 1, 2, 3:
		c.same()
		c.killAt, c.killed = len(c.log)+c.IntN(4), false
		c.kills++
		if c.killAt == len(c.log) {
			c.restart()
			c.same()
		}
	case 4, 5:
		c.offline(n)
	case 6, 7, 8:
		c.online(n)
	case 9:
		c.reboot(n)
	case 10:
		c.sick(n)
	case 11:
		c.recover(n)
	case 12:
		for _, d := range n.docs { // it is replaced, and what is retained for it comes again
			d.installed, d.failed = rollout.Ref{}, nil
			if d.desired.Rev > 0 {
				d.at = c.now.Add(time.Minute)
			}
		}
		c.reboot(n)
	case 13:
		c.addNode(fmt.Sprintf("x%02d", len(names)))
		name := fmt.Sprintf("x%02d", len(names))
		c.tell(name)
		c.targets[id][name] = id
		c.order(rollout.Target{ID: id, Node: name, Hash: id})
	case 14:
		n.revoked = c.IntN(3) == 0
		c.tell(n.name)
	case 15:
		_ = c.step(rollout.Pause{ID: id}) // maybe it is not running
	case 16:
		_ = c.step(rollout.Resume{ID: id})
	case 17:
		if c.IntN(3) == 0 {
			how := []plan.OnAbort{plan.Leave, plan.TakeBack}[c.IntN(2)]
			_ = c.step(rollout.Abort{ID: id, How: how, Now: c.IntN(2) == 0})
		}
	case 18:
		if c.IntN(3) == 0 && c.step(rollout.Supersede{ID: id, By: "next"}) == nil {
			c.start(c.kindOf[id])
		}
	case 19:
		if len(ids) < 3 {
			c.start([]wire.Kind{config, workloads}[c.IntN(2)])
		}
	}
}

// look checks what was journaled since it looked last.
func (c *schedule) look() {
	for ; c.check.seen < len(c.log); c.check.seen++ {
		c.check.record(c.log[c.check.seen])
	}
	for name := range c.check.holder {
		if c.nodes[name].revoked {
			delete(c.check.holder, name)
		}
	}
	for id, ours := range c.check.ours {
		for name := range ours {
			n := c.nodes[name]
			if free := c.check.holder[name] != id; n.revoked || free && n.online && len(n.troubles) == 0 {
				delete(ours, name) // available again: what comes later is not because of the rollout
			}
		}
	}
}

// journalCheck follows the journal by rules of its own.
type journalCheck struct {
	*schedule
	seen   int
	ours   map[string]map[string]bool // nodes that a rollout has made unavailable
	halted map[string]bool
	// nodes that were in trouble already when they were issued to: what they are when it is over is not new
	sickBefore map[string]bool
	reverting  map[string]bool
	holder     map[string]string // who has a change in flight on a node
}

func (j *journalCheck) record(r rollout.Record) {
	switch d := r.Data.(type) {
	case rollout.BegunData:
		j.ours[r.ID] = map[string]bool{}
	case rollout.PausedData, rollout.EndedData:
		j.halted[r.ID] = true
	case rollout.ResumedData:
		j.halted[r.ID] = false
	case rollout.RevertingData:
		j.halted[r.ID], j.reverting[r.ID] = false, true
	case rollout.IssuedData:
		var costly []string
		for _, n := range d.Nodes {
			j.issued(r, n.Node)
			j.sickBefore[r.ID+n.Node] = len(n.Baseline) > 0
			costly = append(costly, n.Node)
		}
		j.within(r.ID, costly)
	case rollout.TakenBackData:
		var costly []string // to take back what is unavailable already makes nothing worse
		for _, n := range d.Nodes {
			if !j.ours[r.ID][n.Node] && len(j.nodes[n.Node].troubles) == 0 {
				costly = append(costly, n.Node)
			}
			j.issued(r, n.Node)
		}
		j.within(r.ID, costly)
	case rollout.SettledData:
		for _, n := range d.Nodes {
			if j.holder[n.Node] == r.ID {
				delete(j.holder, n.Node)
			}
			if n.Status == rollout.Passed || n.Status == rollout.Restored || j.sickBefore[r.ID+n.Node] {
				delete(j.ours[r.ID], n.Node)
			}
		}
	}
}

func (j *journalCheck) issued(r rollout.Record, name string) {
	if j.halted[r.ID] {
		j.Fatalf("record %d: %s is halted, and issues", r.Seq, r.ID)
	}
	if h := j.holder[name]; h != "" && h != r.ID {
		j.Fatalf("record %d: %s has a change of %s in flight", r.Seq, name, h)
	}
	j.holder[name] = r.ID
	j.ours[r.ID][name] = true
}

// within checks the limits of a rollout, as far as they are about these nodes, by counting anew.
func (j *journalCheck) within(id string, costly []string) {
	p := j.plans[id]
	limit := func(what string, most int, in func(*simNode) bool) {
		var all []string
		if !slices.ContainsFunc(costly, func(name string) bool { return in(j.nodes[name]) }) {
			return
		}
		for name := range j.ours[id] {
			n := j.nodes[name]
			if j.reverting[id] && !n.online && j.now.Sub(n.since) >= p.AbsentAfter.Std() {
				continue // nobody waits for it: else one that is dead would keep the others from being taken back
			}
			if in(n) && !n.revoked && (j.holder[name] == id || !n.online || len(n.troubles) > 0) {
				all = append(all, name)
			}
		}
		if slices.Sort(all); len(all) > most {
			j.Fatalf("%s has made %v unavailable, %s allows %d", id, all, what, most)
		}
	}
	limit("the unit", *p.MaxUnavailable.Count, func(*simNode) bool { return true })
	for _, g := range p.Groups {
		limit("the group", *g.MaxUnavailable.Count, func(n *simNode) bool { return n.nodeType == g.Type })
	}
}
