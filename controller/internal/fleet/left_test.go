package fleet

import (
	"bytes"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/kinds"
	"tandem.internal/controller/internal/kinds/policies"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/shared/wire"
)

// leaving is a unit whose policies are rolled out and left where they are.
type leaving struct {
	*testing.T
	f       *Fleet
	now     time.Time
	records []record.Record
}

func (l *leaving) opts() Options { return Options{Unit: "u", Epoch: 1, Kinds: kinds.All()} }

// does takes a step, and returns what was answered and whom documents went to.
func (l *leaving) does(ev Event) (answer Answer, issued []string) {
	l.Helper()
	var out Out
	l.f.Step(l.now, ev, &out)
	l.records = append(l.records, out.Records...)
	for _, e := range out.Effects {
		switch e := e.(type) {
		case Answer:
			answer = e
		case Publish:
			issued = append(issued, e.Nodes...)
		}
	}
	// What was journaled makes the same again.
	again := New(l.opts())
	for i := range l.records {
		if err := again.Replay(&l.records[i]); err != nil {
			l.Fatal(err)
		}
	}
	restored, err := Restored(l.opts(), l.f.Checkpoint())
	if err != nil {
		l.Fatal(err)
	}
	for _, o := range []*Fleet{again, restored} {
		if !bytes.Equal(o.Checkpoint(), l.f.Checkpoint()) {
			l.Fatalf("after %T there is\n%s\nand from the journal\n%s", ev, l.f.Checkpoint(), o.Checkpoint())
		}
	}
	return answer, issued
}

// comes is a node that comes and says what it is.
func (l *leaving) comes(node string) {
	l.Helper()
	live := &wire.Live{V: 1, Node: node, Boot: "b", Session: 1, Up: true, Seqs: map[wire.Kind]uint64{wire.KindInfo: 1}}
	l.does(Heard{Node: node, Raw: wire.Encode(live), Live: live})
	info := &wire.NodeInfo{Type: "press", OS: "linux", Arch: "amd64", CPUs: 1, RAM: 1 << 30, AgentVersion: "1.0.0"}
	r := &wire.Reported{V: 1, Node: node, Kind: wire.KindInfo, Boot: "b", Seq: 1, Detail: wire.Encode(info)}
	l.does(Heard{Node: node, Raw: wire.Encode(r), Reported: r, Detail: info})
}

// left rolls a policy out to a first node, and leaves it there.
func (l *leaving) left(changes ...policies.Change) {
	l.Helper()
	rollingOut := ""
	for _, d := range changes {
		a, issued := l.does(Change{Source: wire.KindPolicies, Data: d})
		if a.Err != nil {
			l.Fatal(a.Err)
		}
		if rollingOut = a.Result.Rollout; rollingOut != "" && len(issued) != 1 {
			l.Fatalf("the rollout %s goes to %q", rollingOut, issued)
		}
	}
	if a, _ := l.does(RolloutOrder{Order: rollout.Abort{ID: rollingOut, How: plan.Leave}}); a.Err != nil {
		l.Fatal(a.Err)
	}
}

func newLeaving(t *testing.T) *leaving {
	l := &leaving{T: t, now: time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)}
	l.f = New(l.opts())
	l.does(Opened{})
	for _, name := range []string{"n-1", "n-2", "n-3"} {
		l.comes(name)
	}
	return l
}

// A policy that a rollout has left on nodes can be disabled and removed, whatever it was before.
func TestLeftPolicyEnds(t *testing.T) {
	document := func(enabled string) jsontext.Value {
		return jsontext.Value(`{"constraints":["tandem.node in \"n-1, n-2\""],"enabled":` + enabled + `,
			"agentUpgradePolicy":{"atLeastVersion":"1.5.0"},
			"rollout":{"waves":[{"count":1},{"percent":100}],"deadline":"PT5H"}}`)
	}
	begins := map[string][]policies.Change{
		"new": {{Name: "p", Document: document("true")}},
		"disabled before": {{Name: "p", Document: document("false")},
			{Name: "p", Enabled: new(true)}},
	}
	ends := map[string]policies.Change{
		"disable": {Name: "p", Enabled: new(false)},
		"remove":  {Name: "p", Removed: true},
	}
	for was, before := range begins {
		for how, end := range ends {
			t.Run(was+", "+how, func(t *testing.T) {
				l := newLeaving(t)
				l.left(before...)
				a, issued := l.does(Change{Source: wire.KindPolicies, Data: end})
				if a.Err != nil || len(issued) != 1 {
					t.Fatalf("%v; documents for %q", a.Err, issued)
				}
				if a, _ := l.does(Change{Source: wire.KindPolicies, Data: end}); a.Err == nil {
					t.Error("what is over ends twice")
				}
			})
		}
	}
}
