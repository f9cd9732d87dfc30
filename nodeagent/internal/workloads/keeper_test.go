package workloads

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"tandem.internal/nodeagent/internal/keep"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

func (a *agent) keeper(context.Context) (Keeper, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.down {
		return nil, keep.ErrAbsent
	}
	return client{a}, nil
}

// client is an agent's way to the keeper.
type client struct{ *agent }

var errUnknown = wire.New(wire.CodeNotFound, "/id", "no such run")

// ask does one operation of the keeper.
func (c client) ask(op, id string, f func() (keep.Status, *wire.Error)) (st keep.Status, err error) {
	c.mu.Lock()
	held := c.hold[op]
	c.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-c.ctx.Done():
			return st, c.ctx.Err()
		}
	}
	var answer *wire.Error
	err = c.mark(op+" "+id, func() {
		if answer = c.refuse[op]; answer == nil && !c.down {
			st, answer = f()
		}
	})
	switch {
	case err == nil && c.down:
		err = keep.ErrAbsent
	case err == nil && answer != nil:
		err = answer
	}
	return st, err
}

func (c client) Get(_ context.Context, id string) (keep.Status, error) {
	return c.ask("get", id, func() (keep.Status, *wire.Error) {
		if p := c.runs[id]; p != nil {
			return p.now(), nil
		}
		return keep.Status{}, errUnknown
	})
}

// now is the status as a keeper tells it.
func (p *process) now() keep.Status {
	st := p.Status
	if st.State == keep.Running {
		st.Up = time.Since(st.Started)
	}
	return st
}

func (c client) Clear(_ context.Context, dir string) error {
	_, err := c.ask("clear", dir, func() (st keep.Status, answer *wire.Error) {
		if err := os.RemoveAll(dir); err != nil {
			answer = wire.New(wire.CodeStorage, "", err.Error())
		}
		return st, answer
	})
	return err
}

func (c client) Start(_ context.Context, run keep.Run) (keep.Status, error) {
	if err := run.Check(); err != nil {
		c.t.Error(err)
	}
	return c.ask("start", run.ID, func() (keep.Status, *wire.Error) {
		if p := c.runs[run.ID]; p != nil {
			return p.now(), nil
		}
		if slices.Contains(c.started, run.ID) {
			c.t.Errorf("%s is started twice", run.ID)
		}
		hook := filepath.Base(run.Argv[0])
		if run.Contain {
			hook = workload.HookStart
		}
		for _, p := range c.runs {
			if hook == workload.HookStart && p.State == keep.Running && p.run.Log.Path == run.Log.Path {
				c.t.Errorf("%s is started while %s runs", run.ID, p.ID)
			}
		}
		if _, err := os.Readlink(run.Argv[0]); err != nil {
			c.t.Errorf("%s is started, and is not there: %v", run.ID, err)
		}
		c.started = append(c.started, run.ID)
		p := &process{run: run, Status: keep.Status{ID: run.ID, State: keep.Running, PID: 100 + len(c.started),
			Started: time.Now()}}
		c.runs[run.ID] = p
		env := variables(run.Env)
		if about := hook == workload.HookStop || hook == workload.HookNotify ||
			hook == workload.HookStatus; about == (env["TANDEM_PID"] == "") &&
			!slices.ContainsFunc(slices.Collect(maps.Values(c.runs)), func(p *process) bool {
				return filepath.Base(p.run.Argv[0]) == workload.HookStart && p.State != keep.Running
			}) {
			c.t.Errorf("%s has PID %q", run.ID, env["TANDEM_PID"])
		}
		end, ok := c.ends[env["TANDEM_CONFIGURATION_ID"]+"/"+hook]
		if !ok {
			end, ok = c.ends[hook]
		}
		if text := c.output[hook]; text != "" {
			c.says(run.Log.Path, text)
		}
		if hook != workload.HookStart || ok {
			c.finish(p, end)
		}
		c.wake()
		return p.Status, nil
	})
}

func (c client) Stop(_ context.Context, id string, _ time.Duration) (keep.Status, error) {
	return c.ask("stop", id, func() (keep.Status, *wire.Error) {
		p := c.runs[id]
		if p == nil {
			return keep.Status{}, errUnknown
		}
		if p.State == keep.Running {
			c.finish(p, keep.Status{Signal: 15, Cause: keep.CauseStop})
			c.wake()
			st := p.Status
			st.State = keep.Running // as the real one, it does not wait
			return st, nil
		}
		return p.Status, nil
	})
}

func (c client) Forget(_ context.Context, id string) error {
	_, err := c.ask("forget", id, func() (keep.Status, *wire.Error) {
		if p := c.runs[id]; p != nil && p.State == keep.Running {
			return keep.Status{}, wire.New(wire.CodeWrongState, "", "it runs")
		}
		delete(c.runs, id)
		return keep.Status{}, nil
	})
	return err
}

func (c client) Follow(ctx context.Context, each func(keep.Status)) error {
	reported := map[string]keep.State{}
	for {
		c.mu.Lock()
		var news []keep.Status
		for _, id := range slices.Sorted(maps.Keys(c.runs)) {
			if p := c.runs[id]; reported[id] != p.State {
				reported[id] = p.State
				news = append(news, p.now())
			}
		}
		down, changed := c.down, c.world.changed
		c.mu.Unlock()
		if down {
			return keep.ErrAbsent
		}
		for _, st := range news {
			each(st)
		}
		if len(news) > 0 {
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// wake wakes the followers. The lock is held.
func (w *world) wake() {
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *world) finish(p *process, end keep.Status) {
	end.ID, end.State, end.PID, end.Started, end.Ended = p.ID, keep.Exited, p.PID, p.Started, time.Now()
	p.Status = end
}
