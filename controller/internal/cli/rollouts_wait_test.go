package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/view"
	"tandem.internal/controller/internal/why"
	"tandem.internal/shared/wire"
)

// stages are how far a rollout is, one after the other; a nil one is a controller that goes away.
type stages []*rollout.View

// ofRollout runs apply --rollout against a controller whose rollout goes through stages; the last one stays.
func ofRollout(t *testing.T, all stages, terminal bool, args ...string) (text string, exit int) {
	t.Helper()
	u := apitest.StartSample(t)
	var mu sync.Mutex
	var doing sync.WaitGroup
	var got []view.Submission
	seen := 0
	see := func(context.Context, op.RolloutWatchIn) (v view.RolloutDetail, err error) {
		mu.Lock()
		defer mu.Unlock()
		s := all[min(seen, len(all)-1)]
		if seen++; seen <= len(all) { // have it looked at again
			event := uint64(seen)
			doing.Go(func() { u.Event("node-1", event, "boot", "{}") })
		}
		if s == nil {
			return v, wire.New(wire.CodeUnavailable, "", "restarting")
		}
		v.View, v.List = *s, []view.RolloutNode{}
		v.Why = why.Ended(apitest.Now, s)
		return v, nil
	}
	core := apitest.Instead(apitest.Submitting(u, func(_ context.Context, s view.Submission) (view.Result, error) {
		got = append(got, s)
		return view.Result{ID: "s1", State: "accepted", Version: "2.1.0", Rollout: "r2"}, nil
	}), api.Follow(op.WatchRollout, see))
	b := benchOf(t, u, core)
	b.write("good.json", string(apitest.Document("2.1.0")))
	b.write("plan.json", "\n"+quickPlan+"\n")
	var out, errs bytes.Buffer
	io, ticks := b.surroundings(), 0
	io.Out, io.Err, io.ErrTerminal, io.Width = &out, &errs, terminal, 100
	io.Now = func() time.Time { ticks++; return apitest.Now.Add(time.Duration(ticks) * time.Second) }
	line := append([]string{"config", "apply", b.dir + "/good.json", "--rollout", b.dir + "/plan.json"}, args...)
	exit = Run(t.Context(), line, io)
	doing.Wait()
	if len(got) != 1 || string(got[0].Rollout) != strings.ReplaceAll(quickPlan, " ", "") {
		t.Errorf("it was submitted with the plan %s", got[0].Rollout)
	}
	text = fmt.Sprintf("--- standard output\n%s--- standard error\n%s--- exit status %d\n", out.String(), errs.String(),
		exit)
	return strings.NewReplacer("\r", "<return>", "\x1b[K", "<clear>\n").Replace(text), exit
}

// Waiting for a rollout ends with it, or as soon as it is paused; the exit status says whether every node has passed.
func TestApplyWaitsForTheRollout(t *testing.T) {
	at := func(phase rollout.Phase, c rollout.StatusCount, h *rollout.Held) *rollout.View {
		v := &rollout.View{ID: "r2", Kind: wire.KindConfig, At: apitest.Now, Phase: phase, Nodes: c, Held: h}
		if phase == rollout.Done || phase == rollout.Aborted || phase == rollout.Superseded {
			v.Ended = apitest.Now
		}
		return v
	}
	soak := &rollout.Held{Reason: rollout.HeldSoak, Nodes: []string{"node-1"}, Count: 1,
		Earliest: apitest.Now.Add(time.Minute)}
	budget := &rollout.Held{Reason: rollout.HeldPaused, Cause: rollout.CauseBudget, Nodes: []string{"node-2"}, Count: 1,
		Failures: []string{"failed: apply-failed: exit status 1"}}
	first := at(rollout.Running, rollout.StatusCount{All: 4, Soaking: 1, Queued: 3}, soak)
	second := at(rollout.Running, rollout.StatusCount{All: 4, Passed: 1, Issued: 1, Queued: 2}, nil)
	done := at(rollout.Done, rollout.StatusCount{All: 4, Passed: 3, Queued: 1}, nil)
	partly := at(rollout.Done, rollout.StatusCount{All: 4, Passed: 3, Failed: 1}, nil)
	paused := at(rollout.Paused, rollout.StatusCount{All: 4, Passed: 1, Failed: 1, Queued: 2}, budget)
	superseded := at(rollout.Superseded, rollout.StatusCount{All: 4, Passed: 1, Queued: 3}, nil)
	superseded.By = "r3"
	aborted := at(rollout.Aborted, rollout.StatusCount{All: 4, Passed: 1, Queued: 3}, nil)
	for _, c := range []struct {
		name     string
		all      stages
		terminal bool
		args     string
		exit     int
	}{
		{"done", stages{first, second, done}, false, "--wait", 0},
		{"done-terminal", stages{first, second, done}, true, "--wait", 0},
		{"done-json", stages{first, done}, false, "--wait --json", 0},
		{"done-after-restart", stages{first, nil, nil, done}, false, "--wait", 0},
		{"done-partly", stages{first, partly}, false, "--wait=10m", exitIncomplete},
		{"paused", stages{first, paused}, false, "--wait", exitIncomplete},
		{"paused-json", stages{first, paused}, false, "--wait --json", exitIncomplete},
		{"superseded", stages{first, superseded}, false, "--wait", exitIncomplete},
		{"aborted", stages{first, aborted}, false, "--wait", exitIncomplete},
		{"in-time", stages{first}, false, "--wait=1s", exitIncomplete},
		{"no-wait", stages{first}, false, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, exit := ofRollout(t, c.all, c.terminal, strings.Fields(c.args)...)
			golden(t, "rollout-wait-"+c.name, text)
			if exit != c.exit {
				t.Errorf("exit status %d, want %d", exit, c.exit)
			}
		})
	}
}

// The controller never comes back, or does not know the rollout.
func TestWaitForARolloutThatIsLost(t *testing.T) {
	u := apitest.StartSample(t)
	accepted := func(context.Context, view.Submission) (view.Result, error) {
		return view.Result{State: "accepted", Version: "2.1.0", Rollout: "r2"}, nil
	}
	for code, want := range map[wire.Code]string{
		wire.CodeUnavailable: "timeout: accepted, but nothing was heard of the rollout in time",
		wire.CodeNotFound:    "not-found: gone",
	} {
		b := benchOf(t, u, apitest.Instead(apitest.Submitting(u, accepted), api.Follow(op.WatchRollout,
			func(context.Context, op.RolloutWatchIn) (view.RolloutDetail, error) {
				return view.RolloutDetail{}, wire.New(code, "", "gone")
			})))
		_, stderr, exit := b.run("", "config", "apply", b.write("good.json", string(apitest.Document("2.1.0"))),
			"--rollout", b.write("plan.json", quickPlan), "--wait=400ms")
		if exit == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %s", code, exit, stderr)
		}
		b.stop()
	}
}
