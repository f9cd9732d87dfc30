package workloads

import (
	"cmp"
	"context"
	"maps"
	"os"
	"reflect"
	"slices"
	"time"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/supervise"
	"tandem.internal/shared/clock"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// Run runs the slots until ctx ends. Their processes go on then. It is called once; when it returns,
// everything that it started has ended. The error is of a state that cannot be read.
func (m *Manager) Run(ctx context.Context) error {
	defer m.workers.Wait()
	defer close(m.ended) // nobody listens to them any more
	work, stop := context.WithCancel(ctx)
	defer stop()
	m.began, m.work = time.Now(), work
	beat := m.cfg.Watch.Start("workloads", 0)
	defer beat.End()
	saved, err := m.cfg.Store.Workloads()
	if err != nil {
		return err
	}
	m.tidy(saved)
	m.sweep(saved)
	for _, service := range slices.Sorted(maps.Keys(saved)) {
		m.add(saved[service])
	}
	m.workers.Go(m.follow)
	if m.asks = len(saved) > 0; m.asks || m.cfg.Kept() {
		m.follows()
	}
	m.changed = true
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		beat.Beat()
		m.turn()
		timer.Reset(m.wait())
		select {
		case <-ctx.Done():
			return nil
		case f := <-m.calls:
			f()
			for n := len(m.calls); n > 0; n-- {
				(<-m.calls)()
			}
		case <-m.cfg.Resources.Updates():
			m.progress = true
		case <-beat.C:
		case <-timer.C:
		}
	}
}

func (m *Manager) now() clock.Now {
	return clock.Now{Mono: time.Since(m.began), Wall: m.cfg.Now()}
}

// wait is until something is due.
func (m *Manager) wait() time.Duration {
	at := m.now().Mono + idle
	if m.saveAt > 0 {
		at = min(at, m.saveAt)
	}
	if m.progress {
		at = min(at, m.reportAt)
	}
	for _, s := range m.slots {
		if t, ok := s.due(); ok && len(s.events) == 0 {
			at = min(at, t)
		}
	}
	return max(0, at-time.Since(m.began))
}

// add makes a slot of what was saved, or is new.
func (m *Manager) add(d supervise.Durable) {
	s := &slot{service: d.Slot.Service, state: supervise.New(d, m.cfg.Rules)}
	s.saved = s.state
	m.slots[s.service] = s
	m.names.Store(s.service, true)
	for _, p := range s.state.Places() {
		if p.Run != "" {
			m.paths.Store(p.Run, output{path: m.logPath(s.service)})
			m.cfg.Resources.Used(p.Run, p.Config.Resources)
		}
		if t := p.Task; t != nil && t.Run != "" {
			m.paths.Store(t.Run, output{path: m.hookLog(s.service, t.Hook)})
			m.cfg.Resources.Used(t.Run, p.Config.Resources)
		}
	}
	m.tell(s, supervise.Started{})
}

// tell gives an event to a slot. What follows is done when it is saved.
func (m *Manager) tell(s *slot, ev supervise.Event) {
	next, effects := s.state.Step(m.now(), ev)
	s.state, s.events = next, append(s.events, ev)
	for _, e := range effects {
		if _, save := e.(supervise.Save); save {
			s.dirty = true
			continue
		}
		s.effects = append(s.effects, e)
	}
}

// turn does what is due: ticks, one save for all, effects, and the report.
func (m *Manager) turn() {
	now := m.now().Mono
	for _, s := range m.slots {
		if p := s.state.Next; p != nil && p.Phase == supervise.Fetch && m.there(s.state.Main, p.Config) {
			m.tell(s, supervise.Fetched{Dir: p.Dir})
		}
		if t, ok := s.due(); ok && t <= now && len(s.events) == 0 {
			m.tell(s, supervise.Tick{})
		}
	}
	m.judge()
	if m.saveAt == 0 || now >= m.saveAt {
		m.save(now)
	}
	if m.progress && now >= m.reportAt {
		m.changed = true
	}
	if n := m.expired(); n != m.overdues {
		if n > m.overdues { // here, too: the controller may be stolen
			m.cfg.Log.Warn("publishers' signatures of what is in force have expired", zap.Int("slots", n))
		}
		m.overdues, m.changed = n, true
	}
	if m.changed {
		m.changed, m.progress, m.reportAt = false, false, now+progressEach
		if r := m.report(); m.reported == nil || !reflect.DeepEqual(*m.reported, r) {
			m.reported = &r
			m.cfg.Report(r)
		}
	}
}

// there reports whether every resource of a configuration that is to take the place of what is in force is on the node,
// and may be.
func (m *Manager) there(inForce *supervise.Place, c workload.Config) bool {
	for _, a := range c.Resources {
		if m.cfg.Resources.Look(a).State != "" || m.overdue(inForce, a) != nil {
			return false
		}
	}
	return m.lacks(c) == nil
}

// save saves what has changed, and has everything done that waited for it. If it fails, the slots are
// as they were, and are told again later.
func (m *Manager) save(now time.Duration) {
	batch := map[string]*supervise.Durable{}
	for service, s := range m.slots {
		switch {
		case !s.dirty:
		case s.state.Empty():
			batch[service] = nil
		default:
			batch[service] = &s.state.Durable
		}
	}
	if len(batch) > 0 {
		if err := m.cfg.Store.SaveWorkloads(batch); err != nil {
			if m.saveAt == 0 {
				m.cfg.Log.Error("the state of workloads cannot be saved; it is tried again", zap.Error(err))
			}
			m.saveAt = now + saveAgain
			m.undo()
			return
		}
		m.changed, m.asks = true, true
	}
	m.saveAt = 0
	for service, s := range m.slots {
		effects := s.effects
		s.saved, s.events, s.effects, s.dirty = s.state, s.events[:0], nil, false
		m.dispatch(s, effects)
		if s.state.Empty() && len(s.queue) == 0 {
			delete(m.slots, service)
			m.names.Delete(service)
			if _, err := os.Lstat(m.dir(service, "")); err == nil { // with the logs of what was refused
				m.stale[service] = true
				m.workers.Go(func() { m.clear(service, nil, true) })
			}
		}
	}
	if m.asks {
		m.asks = false
		m.ask()
	}
}

// undo takes every slot back to what is saved, and tells it again what it was told. A Tick comes again by
// itself, and of several Wants only the newest counts.
func (m *Manager) undo() {
	for _, s := range m.slots {
		events := slices.Clone(s.events)
		s.state, s.events, s.effects, s.dirty = s.saved, s.events[:0], nil, false
		for i, ev := range events {
			_, tick := ev.(supervise.Tick)
			_, want := ev.(supervise.Want)
			if tick || want && slices.ContainsFunc(events[i+1:],
				func(e supervise.Event) bool { _, ok := e.(supervise.Want); return ok }) {
				continue
			}
			m.tell(s, ev)
		}
	}
}

// ask tells the store of resources which of them are needed.
func (m *Manager) ask() {
	all := []workload.Artifact{}
	for _, service := range slices.Sorted(maps.Keys(m.slots)) {
		all = append(all, needs(m.slots[service])...)
	}
	if m.asked == nil || !reflect.DeepEqual(m.asked, all) {
		m.asked = all
		m.cfg.Resources.Want(all)
	}
}

// needs are the resources of a slot.
func needs(s *slot) (all []workload.Artifact) {
	for _, p := range s.state.Places() {
		for _, name := range slices.Sorted(maps.Keys(p.Config.Resources)) {
			all = append(all, p.Config.Resources[name])
		}
	}
	return all
}

// report is what the node tells of its slots: what is saved.
func (m *Manager) report() wire.Workloads {
	w := wire.Workloads{Slots: []wire.WorkloadSlot{}}
	for _, service := range slices.Sorted(maps.Keys(m.slots)) {
		slot := m.slots[service]
		s := slot.saved
		if s.Empty() {
			continue
		}
		r := s.Report()
		if s.Main != nil && s.Main.Run != "" && s.Main.Run == slot.confinedRun {
			r.Confined = string(slot.confined)
		}
		if p := s.Next; p != nil && p.Phase == supervise.Fetch {
			m.resources(&r, s.Main, p)
		}
		for _, p := range s.Contained() {
			if p == s.Next || p == s.Main && p.Run == "" && !p.Done && !s.Stopped && s.Wanted != nil {
				r.Error = cmp.Or(m.lacks(p.Config), r.Error)
			}
		}
		m.damage(&r, slot)
		m.renewals(&r, s.Main)
		if len(s.RunIDs()) > 0 {
			r.Error = cmp.Or(m.missing, r.Error)
		}
		w.Slots = append(w.Slots, r)
	}
	return fit(w)
}
