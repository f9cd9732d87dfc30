package policies_test

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	controller "tandem.internal/controller/policytest"
	agent "tandem.internal/nodeagent/policytest"
	"tandem.internal/shared/wire"
)

var (
	schedules = flag.Int("schedules", 2000, "random schedules that TestSchedules runs")
	seed      = flag.Uint64("seed", 0, "the one schedule that TestSchedules runs; 0: all")
)

var begin = time.Date(2026, 11, 24, 9, 0, 0, 0, time.UTC)

// wanted is a policy as this test knows it, apart from what the controller makes of it.
type wanted struct {
	line     int
	version  string // "": it wants nothing
	auto     bool
	enabled  bool
	since    int // when it was enabled, counted in changes
	duration int
}

// says is what a policy wants, for conflicts: what does not count is left out.
func (w wanted) says() string {
	if w.auto {
		return "auto"
	}
	return fmt.Sprint(w.version, " within ", w.duration)
}

func (w wanted) document() string {
	upgrade := ""
	switch {
	case w.auto:
		upgrade = `,"agentUpgradePolicy":{"autoUpgrade":true}`
	case w.version != "":
		upgrade = fmt.Sprintf(`,"agentUpgradePolicy":{"atLeastVersion":%q,"start":"2026-11-24T09:00:00Z",`+
			`"duration":%d}`, w.version, w.duration)
	}
	return fmt.Sprintf(`{"enabled":%v,"constraints":["line == %d"]%s}`, w.enabled, w.line, upgrade)
}

// late is a document on its way.
type late struct {
	node  string
	stamp uint64
	body  []byte
}

// world is a unit with its nodes.
type world struct {
	chance  *rand.Rand
	unit    *controller.Unit
	nodes   []*agent.Node
	bad     map[string]bool
	offered []string

	policies map[string]wanted
	before   map[string][]wanted // that were, the newest last
	lines    map[string]int
	changes  int
	issued   map[string]string // the newest document of each node
	stamps   uint64
	road     []late
	log      []string
}

var versions = []string{"1.1.0", "1.2.0", "1.3.0", "1.4.0"}

func newWorld(number uint64) *world {
	w := &world{chance: rand.New(rand.NewPCG(number, 1)), unit: controller.New(), bad: map[string]bool{},
		policies: map[string]wanted{}, before: map[string][]wanted{}, lines: map[string]int{},
		issued: map[string]string{}}
	for _, v := range versions {
		w.bad[v] = w.chance.IntN(3) == 0
	}
	for i := range 1 + w.chance.IntN(3) {
		name := fmt.Sprint("n", i+1)
		n := agent.New(name, "1.0.0", begin, rand.New(rand.NewPCG(number, uint64(i)+2)))
		n.Bad = func(version string) bool { return w.bad[version] }
		w.nodes = append(w.nodes, n)
		w.unit.Describe(name, wire.NodeInfo{Arch: "amd64", OS: "linux", AgentVersion: "1.0.0"})
	}
	return w
}

func (w *world) at() time.Time { return w.nodes[0].Wall() }

// did notes what was done; an error is a refusal, after which nothing is otherwise.
func (w *world) did(err error, format string, a ...any) bool {
	text := fmt.Sprintf(format, a...)
	if err != nil {
		text += " (refused)"
	}
	w.log = append(w.log, text)
	return err == nil
}

func (w *world) name() string { return string('p' + rune(w.chance.IntN(4))) }

// set notes that a policy is another one from now on.
func (w *world) set(name string, p wanted) {
	had := w.policies[name]
	w.changes++
	switch {
	case !p.enabled:
		p.since = 0
	case had.enabled:
		p.since = had.since
	default:
		p.since = w.changes
	}
	if p.document() != had.document() && had.line != 0 {
		w.before[name] = append(w.before[name], had)
	}
	w.policies[name] = p
}

// The three causes of the seed: a node's properties, a policy that is enabled, one that is enabled and edited; and what
// goes back.
func (w *world) change() {
	name := w.name()
	had, is := w.policies[name]
	switch w.chance.IntN(10) {
	case 0, 1, 2, 3:
		p := wanted{line: 1 + w.chance.IntN(3)/2, enabled: w.chance.IntN(3) > 0, duration: 600 * w.chance.IntN(3)}
		switch w.chance.IntN(6) {
		case 0:
			p.auto = true
		case 1:
		default:
			p.version = versions[w.chance.IntN(len(versions))]
		}
		if w.did(w.unit.Apply(w.at(), name, p.document()), "apply %s %s", name, p.document()) {
			w.set(name, p)
		}
	case 4, 5:
		if w.did(w.unit.Enable(w.at(), name, !had.enabled), "enable %s %v", name, !had.enabled) {
			had.enabled = !had.enabled
			w.set(name, had)
		}
	case 6:
		if w.did(w.unit.Remove(w.at(), name), "remove %s", name) && is {
			w.changes++
			delete(w.policies, name)
			delete(w.before, name) // what a rollback of it would be is not this test's matter
		}
	case 7:
		w.release()
	default:
		n := w.nodes[w.chance.IntN(len(w.nodes))]
		w.line(n.Name, min(1, w.chance.IntN(4))+w.chance.IntN(4)/3)
	}
	w.issue()
}

// release puts the next version on offer.
func (w *world) release() {
	if v := versions[len(w.offered)%len(versions)]; len(w.offered) < len(versions) &&
		w.did(w.unit.Release(w.at(), v, "amd64"), "release %s, bad %v", v, w.bad[v]) {
		w.offered = append(w.offered, v)
	}
}

// line sets the property by which policies choose a node; 0 takes it back.
func (w *world) line(node string, line int) {
	value := ""
	if line > 0 {
		value = fmt.Sprint(line)
	}
	if w.did(w.unit.Set(w.at(), node, "line", value), "%s is of line %d", node, line) {
		w.lines[node] = line
	}
}

// issue puts new documents on the road.
func (w *world) issue() {
	for _, n := range w.nodes {
		body := w.unit.Document(n.Name)
		if body == nil || string(body) == w.issued[n.Name] {
			continue
		}
		w.issued[n.Name] = string(body)
		w.stamps++
		w.road = append(w.road, late{n.Name, w.stamps, body})
	}
}

// arrive delivers some document of those on the road; others are lost, or wait.
func (w *world) arrive() {
	if len(w.road) == 0 {
		return
	}
	i := w.chance.IntN(len(w.road))
	l := w.road[i]
	w.road = slices.Delete(w.road, i, i+1)
	if w.chance.IntN(8) == 0 {
		w.did(nil, "document %d is lost", l.stamp)
		return
	}
	w.did(nil, "document %d comes to %s", l.stamp, l.node)
	w.node(l.node).Deliver(l.stamp, l.body)
}

func (w *world) node(name string) *agent.Node {
	return w.nodes[slices.IndexFunc(w.nodes, func(n *agent.Node) bool { return n.Name == name })]
}

// wait lets the same time pass everywhere.
func (w *world) wait(d time.Duration) {
	w.did(nil, "%v pass", d)
	end := w.at().Add(d)
	for _, n := range w.nodes {
		end = latest(end, n.Wall())
	}
	for _, n := range w.nodes {
		n.Wait(end.Sub(n.Wall()))
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (w *world) something() error {
	n := w.nodes[w.chance.IntN(len(w.nodes))]
	switch w.chance.IntN(14) {
	case 0, 1, 2, 3, 4:
		w.change()
	case 5, 6, 7:
		w.arrive()
	case 8:
		w.wait(time.Duration(w.chance.IntN(120)) * time.Second)
	case 9:
		w.wait(time.Duration(w.chance.IntN(3*60)) * time.Minute)
	case 10:
		off := time.Duration(w.chance.IntN(90)) * time.Minute
		w.did(nil, "%s has no power for %v", n.Name, off)
		n.Crash(off)
	case 11:
		full := w.chance.IntN(2) == 0
		w.did(nil, "the disk of %s is full: %v", n.Name, full)
		n.Full(full)
	case 12:
		at := w.chance.IntN(w.unit.Records() + 1)
		w.did(nil, "the controller crashes, and goes on from record %d", at)
		return w.unit.Crash(at)
	case 13:
		w.unit.Report(n.Name, n.Report())
	}
	return nil
}

// calm brings everything to its end.
func (w *world) calm() {
	for _, n := range w.nodes {
		n.Full(false)
	}
	w.road = nil
	for _, n := range w.nodes {
		if body := w.unit.Document(n.Name); body != nil {
			w.stamps++
			n.Deliver(w.stamps, body)
		}
	}
	for range 4 {
		w.wait(3 * time.Hour)
	}
	for _, n := range w.nodes {
		w.unit.Report(n.Name, n.Report())
	}
}

func run(number uint64) (w *world, err error) {
	w = newWorld(number)
	for range w.chance.IntN(3) {
		w.release()
	}
	for _, n := range w.nodes {
		w.line(n.Name, 1)
	}
	for range 10 + w.chance.IntN(80) {
		if err := cmp.Or(w.something(), w.verdicts()); err != nil {
			return w, err
		}
	}
	w.calm()
	return w, nil
}

// TestSchedules: policies are enabled, disabled, edited and removed, nodes get other properties, documents come late,
// out of order or not at all, disks are full, and both sides crash. When that has an end, every node is where the
// controller says: one policy decides, which is done or refused; every other one is known by who decides in its place.
// At no time does a node ask for anything without a policy, go to a version that has failed, or draw another time.
func TestSchedules(t *testing.T) {
	from, to := uint64(1), uint64(*schedules)
	if *seed != 0 {
		from, to = *seed, *seed
	}
	tried, conflicts, rolledBack := 0, 0, 0
	for number := from; number <= to; number++ {
		w, err := run(number)
		if err != nil {
			t.Fatalf("schedule %d: %v\n%s", number, err, strings.Join(w.log, "\n"))
		}
		if wrong := w.judge(); wrong != nil {
			t.Fatalf("schedule %d (again: go test ./testenv/policies -seed %[1]d):\n%s\n\n%s", number,
				strings.Join(wrong, "\n"), strings.Join(w.log, "\n"))
		}
		for _, n := range w.nodes {
			tried += len(n.Tried)
			conflicts += len(n.Lost())
			rolledBack += strings.Count(n.Says(), "rollback-successful")
		}
	}
	t.Logf("%d schedules, %d versions tried, %d conflicts, %d rolled back at the end", to-from+1, tried, conflicts,
		rolledBack)
	if *seed == 0 && (tried < int(to)/4 || conflicts < int(to)/4 || rolledBack == 0) {
		t.Error("too little has happened")
	}
}
