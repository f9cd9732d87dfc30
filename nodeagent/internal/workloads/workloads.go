// Package workloads runs the slots of a node (seed 004): it gives each slot's state machine (package
// supervise) what happened, and does what it asks for, with the store of resources, the keeper of
// processes, the control groups, and the directories of the slots, which it owns.
//
// It guarantees: nothing is done before what it depends on is saved; the effects of one slot are done
// one after the other, those of different slots beside each other; a run that nothing refers to is
// stopped; what a crash has left of directories is removed. It must not decide anything about a slot.
package workloads

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/keep"
	"tandem.internal/nodeagent/internal/supervise"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// Keeper is what runs processes; see keep.Client.
type Keeper interface {
	Start(ctx context.Context, run keep.Run) (keep.Status, error)
	Stop(ctx context.Context, id string, grace time.Duration) (keep.Status, error)
	Forget(ctx context.Context, id string) error
	Follow(ctx context.Context, each func(keep.Status)) error
}

// Resource is how it is with an artifact.
type Resource struct {
	State      string // waiting, fetching, verifying or failed; "": it is there, at Path
	Path       string
	Done, Size int64 // bytes
	Err        *wire.Error
}

// Resources has the resources of workloads; see fetch.Store.
type Resources interface {
	Want(all []workload.Artifact)
	Look(a workload.Artifact) Resource
	Updates() <-chan struct{}
}

// Groups has the control groups of workloads; see cgroup.Tree. Its methods are for any goroutine.
type Groups interface {
	// Enter makes a group with these constraints, and in it one for a run, and returns the directories of that.
	Enter(group, run string, constraints map[string]string) (dirs []string, err error)
	// Leave removes a group. That it is not there is no error.
	Leave(group string) error
}

// Store keeps the states of the slots, by service.
type Store interface {
	Workloads() (map[string]supervise.Durable, error)
	SaveWorkloads(map[string]*supervise.Durable) error
}

// Config is what a Manager needs.
type Config struct {
	Node      string
	Dir       string // absolute; the directories and logs of the slots are made in it
	Rules     supervise.Rules
	LogBytes  int64                                     // of one file of a slot's log
	LogFiles  int                                       // that are kept
	Keeper    func(ctx context.Context) (Keeper, error) // called when something is to be run
	Kept      func() bool                               // a keeper may have runs of an earlier agent
	Resources Resources
	Groups    Groups
	Store     Store
	Now       func() time.Time
	Log       *zap.Logger
	// Emit and Report are called by Run's goroutine, and must not wait for it. Report comes with every
	// change, but with the progress of downloads only so often.
	Emit      func(kind string, err *wire.Error, detail supervise.Detail)
	Report    func(wire.Workloads)
	Beat      func() // called at least every BeatEvery while Run's goroutine does its work
	BeatEvery time.Duration
}

const (
	saveAgain    = time.Second     // after a save that failed
	keeperAgain  = time.Second     // after the keeper could not be spoken with
	progressEach = 2 * time.Second // between reports of progress
	atOnce       = 16              // effects that are done beside each other
)

// Manager runs the slots of a node. Make it with New; it works while Run does.
type Manager struct {
	cfg   Config
	began time.Time
	calls chan func()
	ended chan struct{} // closed when Run ends
	room  chan struct{} // a token for each effect that is being done
	paths sync.Map      // of the logs of runs, by ID

	// The rest is Run's goroutine's.
	slots    map[string]*slot
	wanted   []workload.Artifact
	pids     map[string]int // of runs
	loose    map[string]bool
	saveAt   time.Duration // 0: nothing waits to be saved
	changed  bool          // the report is to be made anew
	progress bool          // the same, when it is time
	reportAt time.Duration // for progress
	workers  sync.WaitGroup
	needed   bool
	need     chan struct{} // closed when the keeper is to be followed
	work     context.Context
}

// slot is one slot of the node.
type slot struct {
	service string
	state   supervise.State
	saved   supervise.State   // before the events below
	events  []supervise.Event // that are not saved
	effects []supervise.Effect
	dirty   bool
	queue   []supervise.Effect
	busy    bool
}

// New makes a manager. Nothing happens before Run.
func New(cfg Config) *Manager {
	return &Manager{cfg: cfg, calls: make(chan func(), 64), ended: make(chan struct{}), room: make(chan struct{}, atOnce),
		slots: map[string]*slot{}, pids: map[string]int{}, loose: map[string]bool{}, need: make(chan struct{})}
}

// Want says what the node is to run from now on: all of it, at every call.
func (m *Manager) Want(configs []workload.Config) {
	m.call(func() {
		wanted := map[string]*workload.Config{}
		for i := range configs {
			wanted[configs[i].Slot.Service] = &configs[i]
		}
		for service := range wanted {
			if m.slots[service] == nil {
				m.add(supervise.Durable{Slot: wanted[service].Slot, Born: born()})
			}
		}
		for service, s := range m.slots {
			m.tell(s, supervise.Want{Config: wanted[service]})
		}
	})
}

// born returns what tells a slot from an earlier one of its name.
func born() string {
	b := make([]byte, 4)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// Restart has a slot's process started anew.
func (m *Manager) Restart(service string) *wire.Error {
	answer := make(chan *wire.Error, 1)
	m.call(func() {
		s := m.slots[service]
		if s == nil || s.state.Wanted == nil {
			answer <- wire.New(wire.CodeNotFound, "/service", fmt.Sprintf("this node has no slot %.64q", service))
			return
		}
		m.tell(s, supervise.Restart{})
		answer <- nil
	})
	select {
	case err := <-answer:
		return err
	case <-m.ended:
		return wire.New(wire.CodeUnavailable, "", "the agent is stopping")
	}
}

// call has f called by Run's goroutine, unless Run ends.
func (m *Manager) call(f func()) {
	select {
	case m.calls <- f:
	case <-m.ended:
	}
}

// Run runs the slots until ctx ends. Their processes go on then. It is called once; when it returns,
// everything that it started has ended. The error is of a state that cannot be read.
func (m *Manager) Run(ctx context.Context) error {
	m.began = time.Now()
	saved, err := m.cfg.Store.Workloads()
	if err != nil {
		close(m.ended)
		return err
	}
	if err := m.tidy(saved); err != nil {
		m.cfg.Log.Warn("directories of slots that are no more cannot be removed", zap.Error(err))
	}
	work, stop := context.WithCancel(ctx)
	m.work = work
	defer m.workers.Wait()
	defer close(m.ended) // nobody listens to them any more
	defer stop()
	m.workers.Go(m.follow)
	for _, service := range slices.Sorted(maps.Keys(saved)) {
		m.add(saved[service])
	}
	m.want() // what was being fetched is fetched on
	if len(saved) > 0 || m.cfg.Kept() {
		m.follows()
	}
	m.changed = true
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
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
		case <-timer.C:
		}
		m.cfg.Beat()
	}
}

func (m *Manager) now() supervise.Now {
	return supervise.Now{Mono: time.Since(m.began), Wall: m.cfg.Now()}
}

// wait is until something is due.
func (m *Manager) wait() time.Duration {
	at := m.now().Mono + m.cfg.BeatEvery
	if m.saveAt > 0 {
		at = min(at, m.saveAt)
	}
	if m.progress {
		at = min(at, m.reportAt)
	}
	for _, s := range m.slots {
		if t, ok := s.state.NextDeadline(); ok && len(s.events) == 0 {
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
	m.tell(s, supervise.Started{})
}

// tell gives an event to a slot. What follows is done when it is saved.
func (m *Manager) tell(s *slot, ev supervise.Event) {
	s.events = append(s.events, ev)
	m.step(s, ev)
}

func (m *Manager) step(s *slot, ev supervise.Event) {
	next, effects := s.state.Step(m.now(), ev)
	s.state = next
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
		if p := s.state.Next; p != nil && p.Phase == supervise.Fetch && m.there(p.Config) {
			m.tell(s, supervise.Fetched{Dir: p.Dir})
		}
		if t, ok := s.state.NextDeadline(); ok && t <= now && len(s.events) == 0 {
			m.tell(s, supervise.Tick{})
		}
	}
	if m.saveAt == 0 || now >= m.saveAt {
		m.save(now)
	}
	if m.progress && now >= m.reportAt {
		m.changed = true
	}
	if m.changed {
		m.changed, m.progress, m.reportAt = false, false, now+progressEach
		m.cfg.Report(m.report())
	}
}

// there reports whether every resource of a configuration is on the node.
func (m *Manager) there(c workload.Config) bool {
	for _, a := range c.Resources {
		if m.cfg.Resources.Look(a).State != "" {
			return false
		}
	}
	return true
}

// save saves what has changed, and has everything done that waited for it. If it fails, the slots are
// as they were, and are told again later.
func (m *Manager) save(now time.Duration) {
	m.saveAt = 0
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
			m.cfg.Log.Error("the state of workloads cannot be saved; it is tried again", zap.Error(err))
			m.saveAt = now + saveAgain
			m.undo()
			return
		}
		m.changed = true
	}
	for service, s := range m.slots {
		effects := s.effects
		s.saved, s.events, s.effects, s.dirty = s.state, s.events[:0], nil, false
		m.dispatch(s, effects)
		if s.state.Empty() && !s.busy {
			delete(m.slots, service)
		}
	}
	if len(batch) > 0 {
		m.want()
	}
}

// undo takes every slot back to what is saved, and tells it again what it was told.
func (m *Manager) undo() {
	for _, s := range m.slots {
		events := slices.Clone(s.events)
		s.state, s.effects, s.dirty = s.saved, nil, false
		s.events = s.events[:0]
		for i, ev := range events {
			_, tick := ev.(supervise.Tick)
			_, want := ev.(supervise.Want)
			if tick || want && slices.ContainsFunc(events[i+1:], func(e supervise.Event) bool { _, ok := e.(supervise.Want); return ok }) {
				continue
			}
			m.tell(s, ev)
		}
	}
}

// want tells the store of resources which of them are needed.
func (m *Manager) want() {
	var all []workload.Artifact
	for _, service := range slices.Sorted(maps.Keys(m.slots)) {
		for _, p := range m.slots[service].state.Places() {
			for _, name := range slices.Sorted(maps.Keys(p.Config.Resources)) {
				all = append(all, p.Config.Resources[name])
			}
		}
	}
	m.cfg.Resources.Want(all)
}

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
	for m.work.Err() == nil {
		k, err := m.cfg.Keeper(m.work)
		if err == nil {
			err = k.Follow(m.work, func(st keep.Status) {
				end := m.exit(st)
				m.call(func() { m.heard(st, end) })
			})
		}
		if m.work.Err() == nil {
			m.cfg.Log.Warn("the keeper of processes cannot be followed; it is tried again", zap.Error(err))
			m.pause()
		}
	}
}

// pause waits a little before the keeper is spoken with again.
func (m *Manager) pause() {
	t := time.NewTimer(keeperAgain)
	defer t.Stop()
	select {
	case <-t.C:
	case <-m.work.Done():
	}
}

// heard takes in what the keeper says of a run.
func (m *Manager) heard(st keep.Status, end wire.WorkloadExit) {
	var of *slot
	for _, s := range m.slots {
		if slices.Contains(s.state.RunIDs(), st.ID) {
			of = s
		}
	}
	switch {
	case of != nil && st.State == keep.Running:
		m.pids[st.ID] = st.PID
	case of != nil:
		delete(m.pids, st.ID)
		m.tell(of, supervise.Ended{Run: st.ID, Exit: end})
	case !m.loose[st.ID]: // of a slot whose state was lost: nobody waits for it
		m.loose[st.ID] = true
		m.workers.Go(func() {
			m.keeper("stop and forget a run that nothing refers to", func(k Keeper) error {
				if st.State == keep.Running {
					_, err := k.Stop(m.work, st.ID, 0)
					return err
				}
				return k.Forget(m.work, st.ID)
			})
			m.call(func() { delete(m.loose, st.ID) })
		})
	}
}

// keeper does something with the keeper, until that can be spoken with.
func (m *Manager) keeper(what string, do func(Keeper) error) (err error) {
	for m.work.Err() == nil {
		k, kerr := m.cfg.Keeper(m.work)
		if err = kerr; err == nil {
			err = do(k)
		}
		answer := (*wire.Error)(nil)
		if err == nil || errors.As(err, &answer) {
			return err // it has answered
		}
		if m.work.Err() == nil {
			m.cfg.Log.Warn("the keeper of processes cannot be spoken with; it is tried again", zap.String("to", what), zap.Error(err))
			m.pause()
		}
	}
	return m.work.Err()
}

// exit is how a run has ended, if it has. It reads the log of one that failed.
func (m *Manager) exit(st keep.Status) wire.WorkloadExit {
	if st.State == keep.Running {
		return wire.WorkloadExit{}
	}
	lost := st.State == keep.Lost || st.Cause == keep.CauseQuit // the machine went down, or the keeper: no verdict on what ran
	e := wire.WorkloadExit{Code: st.ExitCode, OOM: st.OOMKills > 0, Late: st.Cause == keep.CauseTimeout, Lost: lost, Text: clip(st.Error), At: st.Ended.UTC().Truncate(time.Second)}
	if st.Signal != 0 {
		e.Code, e.Signal = -1, signalName(syscall.Signal(st.Signal))
	}
	if e.Lost || e.Text != "" {
		e.Code = -1
	}
	if e.Code != 0 {
		e.Said = m.said(st.ID)
	}
	return e
}

// paths of a slot.
func (m *Manager) dir(service, dir string) string {
	return filepath.Join(m.cfg.Dir, "slots", service, dir)
}

func (m *Manager) logPath(service string) string {
	return filepath.Join(m.cfg.Dir, "logs", service, "process")
}

func (m *Manager) hookLog(service, dir, hook string) string {
	return filepath.Join(m.cfg.Dir, "logs", service, dir, hook)
}
