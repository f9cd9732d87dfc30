package workloads

import (
	"cmp"
	"errors"
	"slices"
	"syscall"
	"time"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/confine"
	"tandem.internal/nodeagent/internal/keep"
	"tandem.internal/nodeagent/internal/supervise"
	"tandem.internal/shared/wire"
)

// follows has the keeper followed from now on.
func (m *Manager) follows() {
	if !m.needed {
		m.needed = true
		close(m.need)
	}
}

// follow hears from the keeper what became of runs.
func (m *Manager) follow() {
	select {
	case <-m.need:
	case <-m.work.Done():
		return
	}
	for failed := 0; m.work.Err() == nil; m.pause(keeperAgain) {
		k, err := m.cfg.Keeper(m.work)
		if err == nil {
			err = k.Follow(m.work, func(st keep.Status) {
				failed = 0
				end := m.exit(st)
				m.call(func() {
					m.misses(nil)
					m.heard(st, end)
				})
			})
		}
		if m.work.Err() != nil {
			return
		}
		switch failed++; failed {
		case 1:
			m.cfg.Log.Warn("the keeper of processes cannot be followed; it is tried again", zap.Error(err))
		case keeperMissed:
			m.call(func() { m.misses(err) })
		}
	}
}

// misses takes in why the keeper is away, or that it is there. Slots with a run tell of it.
func (m *Manager) misses(err error) {
	if (err == nil) == (m.missing == nil) {
		return
	}
	if m.missing, m.changed = nil, true; err != nil {
		m.missing = wire.New(wire.CodeUnavailable, "",
			"it is not known whether it runs: "+wire.Plain(err.Error(), wire.MaxText))
	}
}

// pause waits a little, or until everything ends.
func (m *Manager) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-m.work.Done():
	}
}

// heard takes in what the keeper says of a run.
func (m *Manager) heard(st keep.Status, end wire.WorkloadExit) {
	for _, s := range m.slots {
		if slices.Contains(s.state.RunIDs(), st.ID) {
			if p := s.state.Main; p != nil && p.Run == st.ID && s.confinedRun != st.ID {
				s.confined, s.confinedRun, m.progress = cmp.Or(st.Confined, confine.None), st.ID, true
			}
			if st.State == keep.Running {
				m.tell(s, supervise.Running{Run: st.ID, Up: st.Up})
			} else {
				m.tell(s, supervise.Ended{Run: st.ID, Exit: end})
			}
			return
		}
		// Of a run whose end is not saved yet the keeper must not forget it, and then it is forgotten in its turn.
		if slices.Contains(s.saved.RunIDs(), st.ID) ||
			slices.ContainsFunc(s.queue,
				func(e supervise.Effect) bool { f, ok := e.(supervise.Forget); return ok && f.ID == st.ID }) {
			return
		}
	}
	m.release(st.ID, st.State)
}

// release stops or forgets a run that nothing waits for any more, beside everything else.
func (m *Manager) release(id string, state keep.State) {
	_, busy := m.loose[id]
	if m.loose[id] = state; busy {
		return
	}
	m.workers.Go(func() {
		if state == keep.Running {
			_, _ = m.stop(id, 0) // its end is heard
		} else {
			m.forget(id)
		}
		m.call(func() {
			newest := m.loose[id]
			if delete(m.loose, id); newest != state {
				m.release(id, newest)
			}
		})
	})
}

// stop begins to end a run. The keeper has to obey: the only error is that it does not know the run, or
// that everything ends.
func (m *Manager) stop(id string, grace time.Duration) (st keep.Status, err error) {
	err = m.keeper("stop "+id, func(k Keeper) (err error) {
		st, err = k.Stop(m.work, id, grace)
		return err
	}, wire.CodeNotFound)
	return st, err
}

// forget has the keeper forget a run that has ended.
func (m *Manager) forget(id string) {
	err := m.keeper("forget "+id, func(k Keeper) error {
		if err := m.uncontain(id); err != nil {
			return err
		}
		return k.Forget(m.work, id)
	}, wire.CodeNotFound, wire.CodeWrongState)
	if err != nil && m.work.Err() == nil {
		m.cfg.Log.Warn("a run is not forgotten", zap.Error(err))
	}
}

// keeper does something with the keeper until that is done, or refused with one of these codes.
func (m *Manager) keeper(what string, do func(Keeper) error, codes ...wire.Code) error {
	for warned := false; ; m.pause(keeperAgain) {
		var err error
		if !m.do(func() {
			var k Keeper
			if k, err = m.cfg.Keeper(m.work); err == nil {
				err = do(k)
			}
		}) {
			return m.work.Err()
		}
		if e, refused := errors.AsType[*wire.Error](err); err == nil || refused && slices.Contains(codes, e.Code) {
			return err
		}
		if m.work.Err() == nil && !warned {
			warned = true
			m.cfg.Log.Warn("the keeper of processes does not do something; it is tried again", zap.String("to", what),
				zap.Error(err))
		}
	}
}

// do does f when its turn comes, unless everything ends before.
func (m *Manager) do(f func()) bool {
	select {
	case m.room <- struct{}{}:
	case <-m.work.Done():
		return false
	}
	defer func() { <-m.room }()
	if m.work.Err() != nil {
		return false
	}
	f()
	return true
}

// exit is how a run has ended, if it has. It reads the log of one that failed.
func (m *Manager) exit(st keep.Status) wire.WorkloadExit {
	if st.State == keep.Running {
		return wire.WorkloadExit{}
	}
	// the machine went down, or the keeper: no verdict on what ran
	lost := st.State == keep.Lost || st.Cause == keep.CauseQuit
	e := wire.WorkloadExit{Code: st.ExitCode, OOM: st.OOMKills > 0, Late: st.Cause == keep.CauseTimeout, Lost: lost,
		Text: wire.Plain(st.Error, wire.MaxText), At: st.Ended.UTC().Truncate(time.Second)}
	if st.Signal != 0 {
		e.Code, e.Signal = -1, signalName(syscall.Signal(st.Signal))
	}
	if e.Lost || e.Text != "" {
		e.Code = -1
	}
	if e.Code != 0 {
		e.Output = m.lastOutput(st.ID)
	}
	return e
}
