package workloads

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/nodeagent/internal/keep"
	"tandem.internal/nodeagent/internal/supervise"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// Everything hangs, everybody calls, and Run returns all the same.
func TestEndWhileAllIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, op := range []string{"start", "get", "forget"} {
			w.hold[op] = make(chan struct{})
		}
		a := w.agent()
		var configs []workload.Config
		for i := range 50 {
			configs = append(configs, config(fmt.Sprint("s", i), "v", ""))
			id := fmt.Sprintf("old%d.1.start.1", i)
			w.runs[id] = &process{Status: keep.Status{ID: id, State: keep.Exited, Started: time.Now(),
				Ended: time.Now()}}
		}
		a.Manager.Want(configs)
		settled(time.Second)
		done := make(chan *wire.Error, 200)
		for range 100 {
			go func() { a.Manager.Want(configs); done <- nil }()
			go func() { done <- a.Manager.Restart("s1") }()
		}
		a.end()
		for range 200 {
			<-done
		}
		for range 200 { // more than the channel takes
			a.Manager.Want(configs)
			if err := a.Manager.Restart("s1"); err == nil || err.Code != wire.CodeUnavailable {
				t.Fatalf("after the end: %v", err)
			}
		}
	})
}

// What the end has kept from being done does not count as done.
func TestEndBeforeItsTurn(t *testing.T) {
	for name, e := range map[string]supervise.Effect{"delete": supervise.Delete{Dir: "c1"},
		"link": supervise.LinkUp{Dir: "c1"}, "stop": supervise.Stop{ID: "r"},
		"run": supervise.Run{ID: "r", Hook: workload.HookStart, Dir: "c1"}} {
		ctx, stop := context.WithCancel(t.Context())
		m := New(Config{Dir: t.TempDir(), Now: time.Now})
		m.began, m.work = time.Now(), ctx
		for range atOnce {
			m.room <- struct{}{}
		}
		m.next(&slot{service: "web", queue: []supervise.Effect{e}})
		stop()
		m.workers.Wait()
		if len(m.calls) != 0 {
			t.Errorf("%s is answered", name)
		}
	}
}

func TestStateCannotBeRead(t *testing.T) {
	m := New(Config{Store: broken{}})
	if err := m.Run(t.Context()); err == nil {
		t.Error("no error")
	}
	m.Want(nil)
	if err := m.Restart("web"); err == nil {
		t.Error("no error")
	}
}

type broken struct{ Store }

func (broken) Workloads() (map[string]slotState, error) { return nil, errTrouble }
