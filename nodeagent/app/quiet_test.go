package app

import (
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/nodeagent/internal/kind"
	"tandem.internal/shared/event"
	"tandem.internal/shared/wire"
)

// What a rollout goes by: how long nothing has happened, each time the node is asked, and with which documents.
func TestQuietIsTold(t *testing.T) {
	healthBubble(t, func(p *patient) {
		var host kind.Host
		var ill []string
		p.deps.Kinds = append(p.deps.Kinds, func(h kind.Host) kind.Kind {
			host = h
			return kind.New(kind.Spec[string]{
				Name:     "toy",
				Parse:    func(inbox.Doc) (string, []*wire.Error) { return "", nil },
				Troubles: func() []string { return ill },
			})
		})
		p.start()
		want := func(what string, alerts, checks, restarts, workloads time.Duration, rev uint64) {
			t.Helper()
			p.request(wire.MethodReport, nil)
			q := p.health().Quiet
			for i, got := range []wire.Span{q.Alerts, q.Checks, q.Restarts, q.Workloads} {
				most := []time.Duration{alerts, checks, restarts, workloads}[i]
				if got.Std() > most || got.Std() < most-25*time.Second { // samples come every ten seconds
					t.Fatalf("%s: %+v; want %v, %v, %v, %v, or a little less", what, q, alerts, checks, restarts,
						workloads)
				}
			}
			if q.Revs[wire.KindConfig] != rev {
				t.Fatalf("%s: %v; want config %d", what, q.Revs, rev)
			}
		}
		const m = time.Minute
		p.pass(6 * m)
		want("started", 6*m, 6*m, 6*m, 6*m, 0)
		p.desire(ruled(1, above80))
		p.pass(m)
		want("installed", m, m, m, m, 1)
		p.ram.Store(900)
		p.pass(m)
		want("an alert is raised", m, 2*m, 2*m, 2*m, 1)
		p.pass(m)
		want("and goes on", 2*m, 3*m, 3*m, 3*m, 1)
		p.ram.Store(250)
		p.pass(m)
		want("and falls", m, 4*m, 4*m, 4*m, 1)
		host.Emit(event.WorkloadExit, nil, event.WorkloadDetail{})
		p.pass(m)
		want("a process ends", 2*m, 5*m, 5*m, m, 1)
		host.Emit(event.WorkloadCompleted, nil, event.WorkloadDetail{})
		p.pass(m)
		want("a job succeeds", 3*m, 6*m, 6*m, 2*m, 1)
		host.Do(func() { ill = []string{"a"} })
		host.Report("toy")
		p.pass(m)
		want("a slot restarts", 4*m, 7*m, 7*m, m, 1)
		host.Do(func() { ill = nil })
		host.Report("toy")
		p.pass(m)
		want("and runs", 5*m, 8*m, 8*m, m, 1)
		p.crash()
		p.pass(m)
		want("a crash", m, m, m, m, 1)
	})
}

// A check that fails and one that recovers are changes of their aspect alone.
func TestQuietOfChecks(t *testing.T) {
	healthBubble(t, func(p *patient) {
		p.start()
		p.pass(20 * time.Minute)
		p.ram.Store(995)
		p.pass(6 * time.Minute)
		bad := p.check("ram")
		p.request(wire.MethodReport, nil)
		failing := p.health().Quiet
		p.ram.Store(250)
		p.pass(time.Minute)
		p.request(wire.MethodReport, nil)
		q := p.health().Quiet
		if failing.Checks.Std() > 6*time.Minute || q.Checks.Std() > time.Minute || q.Alerts.Std() < 26*time.Minute {
			t.Fatalf("while the check is %s: %+v; after that: %+v", bad, failing, q)
		}
	})
}
