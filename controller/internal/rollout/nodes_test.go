package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/rollout"
)

// nodesOf is what Nodes shows: each node with its status, and what it waits for.
func (s *sim) nodesOf(only rollout.Status, most int) string {
	shown, omitted := s.set.Members(s.now, "r1", only, most)
	var all []string
	for _, n := range shown {
		text := fmt.Sprintf("%s %s", n.Node, n.Status)
		if n.Waits != "" {
			text += " " + string(n.Waits)
		}
		all = append(all, text)
	}
	return fmt.Sprintf("%s; %d more", strings.Join(all, ", "), omitted)
}

// Those that hold a rollout up come first, then those that have failed, then those that wait for them; each is shown in
// the status in which the counts have it.
func TestNodesThatHoldItUpComeFirst(t *testing.T) {
	s := newSim(t, 6)
	s.begin("r1", "B", config, thePlan(t, `waves: [{"percent": 100}]`, `maxUnavailable: {"count": 2}`,
		`failureBudget: {"count": 3}`))
	first := s.ranked("r1")
	ranked := slices.Clone(first)
	ranked[0].does, ranked[1].does = hangs, good
	if got, want := s.nodesOf(rollout.Issued, 9), fmt.Sprintf("%s issued applying, %s issued applying; 0 more",
		min(ranked[0].name, ranked[1].name), max(ranked[0].name, ranked[1].name)); got != want {
		t.Errorf("issued: %s, want %s", got, want)
	}
	s.run(2 * time.Minute)
	s.sick(ranked[1])
	// Four wait for room; those two that use it up hold it up.
	shown, _ := s.set.Members(s.now, "r1", "", 9)
	for i, n := range shown {
		uses := n.Node == ranked[0].name || n.Node == ranked[1].name
		if uses != (i < 2) || uses != n.Unavailable || !uses && n.Waits != rollout.HeldUnavailable {
			t.Errorf("%d: %+v", i, n)
		}
		if n.Node == ranked[1].name &&
			(n.Status != rollout.Soaking || len(n.Troubles) != 1 || n.Troubles[0].Name != "hot") {
			t.Errorf("%+v", n)
		}
		if n.Node == ranked[0].name && !n.Ends.Equal(monday.Add(30*time.Minute)) {
			t.Errorf("%+v", n)
		}
	}
	if got := s.nodesOf(rollout.Queued, 1); !strings.HasSuffix(got, "; 3 more") {
		t.Error(got)
	}
	s.run(30 * time.Minute)
	if got := s.nodesOf(rollout.Failed, 9); !strings.Contains(got, ranked[0].name+" failed") {
		t.Error(got)
	}
	s.recover(ranked[1])
	for _, n := range s.names() {
		s.recover(s.nodes[n])
	}
	s.reach("r1", rollout.Done)
	view, _ := s.set.Show(s.now, "r1")
	for _, status := range rollout.Statuses() {
		shown, omitted := s.set.Members(s.now, "r1", status, 0)
		want := map[rollout.Status]int{rollout.Failed: view.Nodes.Failed, rollout.Passed: view.Nodes.Passed}[status]
		if len(shown) != 0 || omitted != want {
			t.Errorf("%s: %d and %d, want %d", status, len(shown), omitted, want)
		}
	}
	if shown, omitted := s.set.Members(s.now, "r2", "", 9); shown != nil || omitted != 0 || s.set.Plan("r2") != nil {
		t.Errorf("of no rollout: %v %d", shown, omitted)
	}
}

// When the soak time may be over is told by what a node has told, and when that was; a node with new troubles has only
// its deadline.
func TestWhenTheSoakTimeMayEnd(t *testing.T) {
	s := newSim(t, 2)
	s.begin("r1", "B", config, thePlan(t, `waves: [{"percent": 100}]`))
	s.run(4 * time.Minute) // they have installed it after one, and told so
	for _, name := range s.names() {
		f := s.fact(s.nodes[name])
		f.Health.Alerts, f.Heard = 0, monday.Add(time.Minute)
		s.order(rollout.Facts{f})
	}
	held := func() time.Time { return s.set.Why(s.now, "r1").Earliest.Truncate(time.Minute) }
	if want := monday.Add(11 * time.Minute); !held().Equal(want) {
		t.Errorf("the first may pass at %s, want %s", held(), want)
	}
	s.sick(s.nodes["n01"])
	s.sick(s.nodes["n02"])
	if h := s.set.Why(s.now, "r1"); h.Reason != rollout.HeldSoak || !h.Earliest.IsZero() {
		t.Errorf("%+v", h)
	}
	shown, _ := s.set.Members(s.now, "r1", "", 9)
	if want := monday.Add(30 * time.Minute); !shown[0].Ends.Equal(want) {
		t.Errorf("%+v, want %s", shown[0], want)
	}
}

// The counts have each node once, in the status that it is shown in.
func TestStatusesAreCounted(t *testing.T) {
	s := newSim(t, 5)
	n := s.ranked("r1")
	s.offline(n[3])
	s.now = s.now.Add(25 * time.Hour)
	s.tell(s.names()...)
	s.begin("r1", "B", config, thePlan(t, `waves: [{"percent": 100}]`))
	n[1].does = fails
	n[4].revoked = true
	s.tell(n[4].name)
	s.run(2 * time.Minute)
	view, _ := s.set.Show(s.now, "r1")
	shown, _ := s.set.Members(s.now, "r1", "", 9)
	got := map[rollout.Status]int{}
	for _, v := range shown {
		got[v.Status]++
	}
	c := view.Nodes
	for status, count := range map[rollout.Status]int{
		rollout.Queued: c.Queued, rollout.Issued: c.Issued, rollout.Soaking: c.Soaking, rollout.Passed: c.Passed,
		rollout.Failed: c.Failed, rollout.Absent: c.Absent, rollout.Gone: c.Gone,
	} {
		if got[status] != count {
			t.Errorf("%s: %d are shown, %d counted: %+v", status, got[status], count, c)
		}
	}
	if c.All != 5 || c.Absent != 1 || c.Gone != 1 || c.Failed != 1 || c.Soaking == 0 {
		t.Errorf("%+v", c)
	}
}

// A node that has answered is asked again when its soak time is over; one that has not, after half a minute.
func TestNodesAreAskedWhenTheirSoakTimeIsOver(t *testing.T) {
	for answers, want := range map[bool]string{true: "0s 5s", false: "0s 30s 1m0s"} {
		s := newSim(t, 1)
		s.begin("r1", "B", config, thePlan(t, `waves: [{"percent": 100}]`, `gate: {"soak": "PT5S"}`))
		n := s.nodes["n01"]
		n.doc(config).installed = n.doc(config).desired
		begin := s.now
		var asked []string
		tell := func(since time.Duration, heard time.Time) rollout.Event {
			f := s.fact(n)
			f.Heard, f.Health.Revs[config] = heard, n.doc(config).installed.Rev
			f.Health.Alerts, f.Health.Checks, f.Health.Restarts, f.Health.Workloads = since, since, since, since
			return rollout.Facts{f}
		}
		step := func(ev rollout.Event) {
			var out rollout.Out
			if err := s.set.Step(s.now, uint64(len(s.log)), ev, &out); err != nil {
				t.Fatal(err)
			}
			s.log = append(s.log, out.Records...)
			for _, e := range out.Effects {
				if e.Look {
					asked = append(asked, s.now.Sub(begin).String())
				}
			}
		}
		old := s.fact(n)
		old.Heard, old.Health.Revs[config] = begin.Add(-time.Minute), 0
		step(rollout.Facts{old})
		step(rollout.Doc{Node: n.name, Kind: config, Installed: n.doc(config).installed})
		for at := 100 * time.Millisecond; at < 70*time.Second; at += 100 * time.Millisecond {
			s.now = begin.Add(at)
			ev := rollout.Event(rollout.Tick{})
			if last := len(asked); answers && last > 0 {
				if was, _ := time.ParseDuration(asked[last-1]); at == was+100*time.Millisecond {
					ev = tell(was, s.now)
				}
			}
			step(ev)
		}
		for i, a := range asked {
			d, _ := time.ParseDuration(a)
			asked[i] = d.Round(time.Second).String()
		}
		if got := fmt.Sprint(asked); got != "["+want+"]" {
			t.Errorf("answers %v: asked after %s, want %s", answers, got, want)
		}
	}
}
