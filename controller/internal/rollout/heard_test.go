package rollout_test

import (
	"testing"
	"time"

	"tandem.internal/controller/internal/rollout"
	"tandem.internal/shared/wire"
)

// told is a fact of a node that says for how long it was well, with which document.
func (s *sim) told(n *simNode, quiet time.Duration, rev uint64) rollout.Fact {
	f := s.fact(n)
	f.Heard = s.now
	h := &f.Health
	h.Alerts, h.Checks, h.Restarts, h.Workloads = quiet, quiet, quiet, quiet
	h.Revs = map[wire.Kind]uint64{config: rev}
	return f
}

// begunWithOne is a rollout to one node, which has installed what it got.
func begunWithOne(t *testing.T) (*sim, *simNode, *simDoc) {
	s := newSim(t, 1)
	s.begin("r1", "B", config, thePlan(t, `waves: [{"percent": 100}]`))
	n := s.nodes["n01"]
	d := n.doc(config)
	d.installed, d.at = d.desired, time.Time{}
	s.order(rollout.Doc{Node: n.name, Kind: config, Installed: d.installed})
	return s, n, d
}

// What a node said of its health before it installed the document says nothing of that.
func TestHealthOfBeforeDoesNotCount(t *testing.T) {
	s, n, d := begunWithOne(t)
	s.order(rollout.Facts{s.told(n, time.Hour, d.installed.Rev-1)})
	s.want("status", s.status("r1", n), rollout.Issued)
	s.order(rollout.Facts{s.told(n, time.Hour, d.installed.Rev)})
	s.want("status", s.status("r1", n), rollout.Passed)
}

// A node that was started anew, or has said more than has arrived, may be ill: it neither passes nor is issued to, and
// counts as unavailable.
func TestWhoIsNotHeard(t *testing.T) {
	for what, hide := range map[string]func(f *rollout.Fact){
		"started anew": func(f *rollout.Fact) { f.Boot = "another" },
		"behind":       func(f *rollout.Fact) { f.Behind = true },
	} {
		t.Run(what, func(t *testing.T) {
			s, n, d := begunWithOne(t)
			f := s.told(n, time.Hour, d.installed.Rev)
			hidden := f
			hide(&hidden)
			s.order(rollout.Facts{hidden})
			s.want("status", s.status("r1", n), rollout.Issued)
			s.order(rollout.Facts{f})
			s.want("status", s.status("r1", n), rollout.Passed)

			s = newSim(t, 2)
			f = s.told(s.nodes["n01"], time.Hour, 0)
			hide(&f)
			s.order(rollout.Facts{f})
			s.begin("r1", "B", config, thePlan(t, `waves: [{"percent": 100}]`, one))
			s.want("issued", len(s.wave("r1", 1)), 0)
			f = s.told(s.nodes["n01"], time.Hour, 0)
			s.order(rollout.Facts{f})
			s.want("issued", len(s.wave("r1", 1)), 1)
		})
	}
}

// A failed node that is started anew is not taken for a healthy one before it has told how it is.
func TestFailedNodeStartsAnew(t *testing.T) {
	s := newSim(t, 3)
	first := s.ranked("r1")[0]
	first.does = breaks
	s.begin("r1", "B", config, thePlan(t, `waves: [{"percent": 100}]`, one, `failureBudget: {"count": 1}`))
	s.reachStatus("r1", first, rollout.Failed)
	f := s.fact(first)
	f.Boot = "another"
	s.order(rollout.Facts{f})
	s.want("issued", len(s.wave("r1", 1)), 1)
	f.Health.Boot = f.Boot // and it is still ill
	s.order(rollout.Facts{f})
	s.want("issued", len(s.wave("r1", 1)), 1)
}

// A node that is absent when a wave opens is no member of it: somebody else is, who can be issued to.
func TestWavesDoNotCountTheAbsent(t *testing.T) {
	s := newSim(t, 4)
	away := s.ranked("r1")[0]
	s.offline(away)
	s.run(48 * time.Hour)
	s.begin("r1", "B", config, thePlan(t, `waves: [{"percent": 25}, {"percent": 100}]`))
	s.want("the first wave", s.wave("r1", 1), []string{s.ranked("r1")[1].name})
}

// After a start of the controller a deadline that has passed meanwhile waits until nodes could be heard.
func TestNoDeadlineEndsRightAfterAStart(t *testing.T) {
	s := newSim(t, 1)
	n := s.nodes["n01"]
	n.does = hangs
	s.begin("r1", "B", config, thePlan(t, `waves: [{"percent": 100}]`))
	s.run(29 * time.Minute)
	s.now = s.now.Add(10 * time.Minute) // the controller is down
	s.restart()
	s.run(5*time.Minute - time.Second)
	s.want("status", s.status("r1", n), rollout.Issued)
	s.run(time.Second)
	s.want("status", s.status("r1", n), rollout.Failed)
}
