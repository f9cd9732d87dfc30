package words

import (
	"testing"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/controller/internal/view"
)

// TestDesiredStatusRecord: that the cloud side wants something else is told in words.
func TestDesiredStatusRecord(t *testing.T) {
	for want, d := range map[string]record.WantedData{"desired status set": {},
		"desired status set, correlation ID 17": {CorrelationID: "17"}} {
		d.Document = []byte("{}")
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := ofItems(view.Entry{Kind: string(record.KindWanted), Data: text}); got != want || !ok {
			t.Errorf("%q %v", got, ok)
		}
	}
}

// Every record of a rollout is told in words.
func TestRolloutRecords(t *testing.T) {
	hash := rollout.NodeHash{Node: "n1", Hash: "B"}
	for want, data := range map[string]any{
		"r1 of config begins: 2 nodes, 3 waves": rollout.BegunData{
			Kind: "config", Nodes: []string{"n1", "n2"}, Plan: &plan.Plan{Waves: make([]plan.Wave, 3)},
		},
		"r1: wave 2 has n1, n2": rollout.WaveOpenedData{Wave: 1, Nodes: []string{"n1", "n2"}},
		"r1: issued to n1":      rollout.IssuedData{Nodes: []rollout.IssuedNode{{NodeHash: hash}}},
		"r1: n1 passed, n2 failed (apply-failed: exit status 1)": rollout.SettledData{Nodes: []rollout.SettledNode{
			{Node: "n1", Status: rollout.Passed},
			{Node: "n2", Status: rollout.Failed, Reason: "apply-failed: exit status 1"},
		}},
		"r1 is paused by ann (lunch)": rollout.PausedData{Cause: rollout.CauseOrder, Who: "ann", Text: "lunch"},
		"r1 is paused (more nodes have failed than may: n2)": rollout.PausedData{
			Cause: rollout.CauseBudget, Nodes: []string{"n2"},
		},
		"r1 is resumed by ann":                  rollout.ResumedData{Who: "ann"},
		"r1: wave 1 is over":                    rollout.WavePassedData{},
		"r1: wave 2 is over, nobody was in it":  rollout.WavePassedData{Wave: 1, Empty: true},
		"r1: nodes are to be taken back by ann": rollout.RevertingData{Who: "ann"},
		"r1: taken back: n1":                    rollout.TakenBackData{Nodes: []rollout.NodeHash{hash}},
		"r1 is done":                            rollout.EndedData{Phase: rollout.Done},
		"r1 is aborted by ann":                  rollout.EndedData{Phase: rollout.Aborted, Who: "ann"},
		"r1 is superseded by r2":                rollout.EndedData{Phase: rollout.Superseded, By: "r2"},
	} {
		text, err := json.Marshal(record.OfRollout(rollout.Record{ID: "r1", Data: data}))
		if err != nil {
			t.Fatal(err)
		}
		if got := told("rollout", text); got.Text != want {
			t.Errorf("%s, want %s", got.Text, want)
		}
	}
	unknown := `{"id":"r1","moved":{}}`
	if got := told("rollout", []byte(unknown)).Text; got != unknown {
		t.Errorf("what is not known is shown as %s", got)
	}
}
