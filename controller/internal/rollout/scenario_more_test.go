package rollout_test

import (
	"fmt"
	"time"

	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/shared/wire"
)

var silenceScenarios = []scenario{
	{11, "soaking, nothing heard", "held; silent at the deadline; paused", 10, nil, func(s *sim, p *plan.Plan) {
		s.begin("r1", "B", config, p)
		canary := s.ranked("r1")[0]
		s.run(5 * time.Minute)
		s.offline(canary)
		s.run(10 * time.Minute)
		s.held("r1", rollout.HeldSilent, canary)
		s.want("status", s.status("r1", canary), rollout.Issued)
		s.run(16 * time.Minute)
		s.want("status", s.status("r1", canary), rollout.Silent)
		s.held("r1", rollout.HeldPaused, canary)
	}},
	{12, "the silent node returns, passes", "passed; still paused", 10, nil, func(s *sim, p *plan.Plan) {
		s.begin("r1", "B", config, p)
		canary := s.ranked("r1")[0]
		s.run(5 * time.Minute)
		s.offline(canary)
		s.reachStatus("r1", canary, rollout.Silent)
		s.run(time.Hour)
		s.online(canary)
		s.reachStatus("r1", canary, rollout.Passed)
		s.run(time.Hour)
		s.want("phase", s.phase("r1"), rollout.Paused)
		s.want("waves", s.waves("r1"), "1 0 0")
		s.order(rollout.Resume{ID: "r1", Who: "ann"})
		s.reach("r1", rollout.Done)
	}},
	{13, "the canary is offline", "held; next by order after a day", 10, nil, func(s *sim, p *plan.Plan) {
		canary, second := s.ranked("r1")[0], s.ranked("r1")[1]
		s.offline(canary)
		s.begin("r1", "B", config, p)
		s.run(23 * time.Hour)
		h := s.held("r1", rollout.HeldSilent, canary)
		s.want("earliest", h.Earliest, canary.since.Add(24*time.Hour))
		s.want("waves", s.waves("r1"), "0 0 0")
		s.run(2 * time.Hour)
		s.want("canary", s.wave("r1", 1), []string{second.name})
		s.reach("r1", rollout.Done)
	}},
	{14, "300 offline nodes return at once", "maxUnavailable kept", 310,
		[]string{`waves: [{"percent": 100}]`, `maxUnavailable: {"count": 20}`}, func(s *sim, p *plan.Plan) {
			if s.killAt > 3 && s.killAt%97 != 0 {
				return // the steps between are alike
			}
			all := s.ranked("r1")
			for _, n := range all[:300] {
				n.online, n.since = false, s.now
			}
			s.tell(s.names()...)
			s.begin("r1", "B", config, p)
			s.want("issued", len(s.wave("r1", 1)), 0)
			for _, n := range all[:300] {
				n.online, n.since = true, s.now
			}
			s.tell(s.names()...)
			s.want("issued", len(s.wave("r1", 1)), 20)
			s.reach("r1", rollout.Done)
		}},
	{16, "back after 3 weeks, aborted (leave)", "old version", 10, nil, func(s *sim, p *plan.Plan) {
		away := s.ranked("r1")[5]
		s.offline(away)
		s.begin("r1", "B", config, p)
		s.run(time.Hour)
		s.order(rollout.Abort{ID: "r1", Who: "ann"})
		s.run(21 * 24 * time.Hour)
		s.online(away)
		s.run(time.Hour)
		s.want("side", s.set.Side("r1", away.name), rollout.OldContent)
		s.want("installed", away.doc(config).installed.Hash, "A")
		s.want("phase", s.phase("r1"), rollout.Aborted)
	}},
	{19, "the only canary is revoked after issue", "paused", 10, nil, func(s *sim, p *plan.Plan) {
		s.begin("r1", "B", config, p)
		canary := s.ranked("r1")[0]
		canary.revoked = true
		s.tell(canary.name)
		s.reach("r1", rollout.Paused)
		s.want("cause", s.held("r1", rollout.HeldPaused).Cause, rollout.CauseCanary)
		s.want("waves", s.waves("r1"), "1 0 0")
	}},
}

const workloads = wire.KindWorkloads

var orderScenarios = []scenario{
	{20, "two rollouts, one kind", "the second waits, told behind whom", 10, nil, func(s *sim, p *plan.Plan) {
		s.begin("r1", "B", config, p)
		s.begin("r2", "C", config, p)
		s.want("phase", s.phase("r2"), rollout.Waiting)
		s.want("behind", s.held("r2", rollout.HeldClaim).Behind, "r1")
		s.until("the first ends", func() bool { return s.phase("r1") == rollout.Done || len(s.wave("r2", 1)) > 0 })
		s.want("phase", s.phase("r1"), rollout.Done)
		s.reach("r2", rollout.Done)
		s.want("installed", s.nodes["n01"].doc(config).installed.Hash, "C")
	}},
	{21, "two kinds, one node", "one at a time", 1, nil, func(s *sim, p *plan.Plan) {
		s.begin("r1", "B", config, p)
		s.begin("r2", "W", workloads, p)
		s.run(5 * time.Minute)
		s.want("issued", s.waves("r1")+"/"+s.waves("r2"), "1 0 0/0 0 0")
		s.want("behind", s.held("r2", rollout.HeldClaim, s.nodes["n01"]).Behind, "r1")
		s.reach("r1", rollout.Done)
		s.reach("r2", rollout.Done)
	}},
	{22, "C supersedes B half way, take-back", "nodes on B to B, others to A", 10, nil, func(s *sim, p *plan.Plan) {
		s.begin("B", "B", config, p)
		s.until("wave 3", func() bool { return len(s.wave("B", 3)) > 0 })
		had := map[string]bool{}
		for _, i := range []int{1, 2} {
			for _, name := range s.wave("B", i) {
				had[name] = true
			}
		}
		for _, n := range s.nodes {
			if !had[n.name] {
				n.does = fails
			}
		}
		s.order(rollout.Supersede{ID: "B", By: "C"})
		s.want("phase", s.phase("B"), rollout.Superseded)
		s.begin("C", "C", config, p)
		s.run(time.Minute) // those in flight have failed
		for _, n := range s.nodes {
			n.does = good
		}
		s.until("wave 3 of C has C", func() bool {
			return len(s.wave("C", 3)) == 7 && s.nodes[s.wave("C", 3)[6]].doc(config).installed.Hash == "C"
		})
		s.order(rollout.Abort{ID: "C", Who: "ann", How: plan.TakeBack})
		s.reach("C", rollout.Aborted)
		for _, n := range s.nodes {
			want := "A"
			if had[n.name] {
				want = "B"
			}
			s.want(n.name, n.doc(config).installed.Hash, want)
		}
	}},
	{23, "take-back: 1 failed, 2 passed", "failed, then newest", 10, []string{one},
		func(s *sim, p *plan.Plan) {
			all := s.ranked("r1")
			all[2].does = fails
			s.begin("r1", "B", config, p)
			s.reach("r1", rollout.Paused)
			all[2].does = good
			s.order(rollout.Abort{ID: "r1", Who: "ann", How: plan.TakeBack})
			s.want("at once", s.takenBack("r1"), []string{all[2].name})
			s.reach("r1", rollout.Aborted)
			s.want("taken back", s.takenBack("r1"), []string{all[2].name, all[1].name, all[0].name})
			s.want("installed", all[0].doc(config).installed.Hash, "A")
		}},
	{24, "a take-back fails", "paused, no second", 10, []string{one}, func(s *sim, p *plan.Plan) {
		s.begin("r1", "B", config, p)
		all := s.ranked("r1")
		s.reachStatus("r1", all[1], rollout.Issued)
		s.order(rollout.Pause{ID: "r1", Who: "ann"})
		s.reachStatus("r1", all[1], rollout.Passed)
		all[1].does = fails
		s.order(rollout.Abort{ID: "r1", Who: "ann", How: plan.TakeBack})
		s.reach("r1", rollout.Paused)
		s.want("cause", s.held("r1", rollout.HeldPaused, all[1]).Cause, rollout.CauseTakeBack)
		s.run(48 * time.Hour)
		s.want("taken back", s.takenBack("r1"), []string{all[1].name})
		s.order(rollout.Resume{ID: "r1", Who: "ann"})
		s.reach("r1", rollout.Aborted)
		s.want("taken back", s.takenBack("r1"), []string{all[1].name, all[0].name})
	}},
	{32, "silent, and back with it while another is taken back", "one after the other", 10,
		[]string{one, `absentAfter: "PT3H"`}, func(s *sim, p *plan.Plan) {
			s.begin("r1", "B", config, p)
			all := s.ranked("r1")
			s.reachStatus("r1", all[1], rollout.Issued)
			s.offline(all[1])
			s.order(rollout.Abort{ID: "r1", Who: "ann", How: plan.TakeBack})
			s.reachStatus("r1", all[1], rollout.Silent)
			s.run(2 * time.Hour)
			s.offline(all[0])
			s.run(time.Hour) // nobody waits for the other one any more
			s.online(all[0])
			s.want("status", s.status("r1", all[0]), rollout.Back)
			s.install(all[1], all[1].doc(config))
			s.online(all[1])
			s.want("at once", s.takenBack("r1"), []string{all[0].name})
			s.reach("r1", rollout.Aborted)
			s.want("taken back", s.takenBack("r1"), []string{all[0].name, all[1].name})
			s.want("installed", all[1].doc(config).installed.Hash, "A")
		}},
	{25, "killed between record and publish", "published, same rev", 10, nil, func(s *sim, p *plan.Plan) {
		s.killAt, s.killed = 3, false // begun, wave opened, issued
		s.begin("r1", "B", config, p)
		canary := s.ranked("r1")[0]
		s.want("killed", s.killed, true)
		s.want("published", canary.doc(config).desired, rollout.Ref{Rev: 3, Hash: "B"})
		s.reach("r1", rollout.Done)
		s.want("waves", s.waves("r1"), "1 2 7")
	}},
	{26, "killed 5 minutes in the soak", "the soak goes on", 10, nil, func(s *sim, p *plan.Plan) {
		s.begin("r1", "B", config, p)
		s.run(6 * time.Minute)
		s.restart()
		s.run(5*time.Minute - time.Second)
		s.want("status", s.status("r1", s.ranked("r1")[0]), rollout.Issued)
		s.run(time.Second)
		s.want("status", s.status("r1", s.ranked("r1")[0]), rollout.Passed)
	}},
}

var windowScenarios = []scenario{
	{27, "the window shuts in wave 2", "the soak goes on, nothing is issued", 10,
		[]string{`windows: [{"cron": "0 8 * * *", "zone": "UTC", "duration": "PT20M"}]`}, func(s *sim, p *plan.Plan) {
			s.begin("r1", "B", config, p)
			s.run(23 * time.Minute)
			s.want("waves", s.waves("r1"), "1 2 0")
			s.want("status", s.status("r1", s.ranked("r1")[1]), rollout.Passed)
			h := s.held("r1", rollout.HeldWindow)
			s.want("opening", h.Earliest, monday.Add(24*time.Hour))
			s.want("nodes", h.Count, 7)
			s.run(23 * time.Hour)
			s.want("waves", s.waves("r1"), "1 2 0")
			s.reach("r1", rollout.Done)
			s.want("day", s.now.Day(), 3)
		}},
	{28, "02:30 Berlin, 29 March 2026", "opens 03:00 CEST", 1, []string{berlin}, func(s *sim, p *plan.Plan) {
		s.now = time.Date(2026, 3, 28, 20, 0, 0, 0, time.UTC)
		s.begin("r1", "B", config, p)
		s.reachStatus("r1", s.nodes["n01"], rollout.Issued)
		s.want("opened", s.now.UTC(), time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC))
	}},
	{29, "02:30 Berlin, 25 October 2026", "opens once, CEST", 3,
		[]string{berlin, `waves: [{"percent": 30}, {"percent": 100}]`},
		func(s *sim, p *plan.Plan) {
			s.now = time.Date(2026, 10, 24, 20, 0, 0, 0, time.UTC)
			s.begin("r1", "B", config, p)
			s.reachStatus("r1", s.ranked("r1")[0], rollout.Issued)
			s.want("opened", s.now.UTC(), time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC))
			s.reachStatus("r1", s.ranked("r1")[1], rollout.Issued) // the wave passes after the window has shut
			s.want("opened", s.now.UTC(), time.Date(2026, 10, 26, 1, 30, 0, 0, time.UTC))
		}},
}

var berlin = fmt.Sprintf(`windows: [{"cron": %q, "zone": "Europe/Berlin", "duration": "PT5M"}]`, "30 2 * * *")
