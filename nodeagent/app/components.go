package app

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/health"
	"tandem.internal/nodeagent/internal/slot/record"
	"tandem.internal/nodeagent/internal/update"
	"tandem.internal/nodeagent/internal/update/agentslot"
	"tandem.internal/nodeagent/internal/update/disk"
	"tandem.internal/nodeagent/internal/update/program"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/settings"
	"tandem.internal/shared/wire"
)

// part is the agent itself, or a component of the node, as it is updated. All of it belongs to Run's goroutine.
type part struct {
	name   string
	prog   runner
	store  *disk.Store
	own    bool // it is the agent itself
	state  update.State
	begin  update.Started
	begun  bool               // begin is taken in
	seen   fs.FileInfo        // of the record, as it was read last
	slots  fs.FileInfo        // of the slots' record, as it was noticed last; only of the agent itself
	cancel context.CancelFunc // of the verb under way; nil: there was none yet
}

// runner runs the verbs of an update.
type runner interface {
	Run(ctx context.Context, verb update.Verb, job update.Job) (update.Status, error)
}

const (
	partsEvery     = 5 * time.Second // between two looks at whether somebody has changed a record by hand
	partTTL        = 5 * time.Minute // of the check of a component on trial: more than verify takes
	componentCheck = "component:"    // and its name
)

// openParts takes the components that the settings name, and says in the directories of others that nobody
// cares for them.
func (a *Agent) openParts(dir string) error {
	a.node.dir = dir
	if a.node.launched {
		p := &part{name: update.Name, own: true, store: disk.Own(dir, a.deps.SlotSteps)}
		p.prog = agentslot.Program{Slots: a.node.slots, Version: settings.Version}
		p.slots = p.store.Slots()
		if err := a.openPart(p); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.cfg.Components)) {
		if name == update.Name || name == publisher.AgentName && len(a.publishers) > 0 {
			return &UsageError{"component", name + " is the agent itself, whose program is built in"}
		}
		p := &part{name: name, store: disk.OpenStore(dir, name, a.deps.SlotSteps)}
		p.prog = program.Component{Name: name, Command: strings.Fields(a.cfg.Components[name]), Dir: p.store.DataDir()}
		if err := a.openPart(p); err != nil {
			return err
		}
	}
	names, err := disk.Names(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, ours := a.cfg.Components[name]; ours {
			continue
		}
		err := disk.OpenStore(dir, name, a.deps.SlotSteps).Update(a.deps.Now(),
			func(r update.Record) (update.Record, error) {
				r.Off = true
				return r, nil
			})
		if err != nil {
			a.log.Warn("a component that the settings do not name", zap.Error(err))
		}
	}
	return nil
}

// openPart reads what the last run has left of an update.
func (a *Agent) openPart(p *part) error {
	if err := p.store.Make(); err != nil {
		return err
	}
	r, err := p.store.Read()
	if err != nil {
		a.log.Error("a record is no good; what was under way is given up", zap.Error(err))
	}
	r.Off = false
	p.state, p.store.Publishers = update.New(r), a.publishers
	a.node.parts = append(a.node.parts, p)
	return nil
}

// startParts takes up what the last run left. boot says how that ended.
func (a *Agent) startParts(boot wire.BootReason) {
	crashed := []wire.BootReason{wire.BootFatal, wire.BootOOM, wire.BootWatchdogHung, wire.BootWatchdogPID,
		wire.BootKernel, wire.BootPowerFail}
	for _, p := range a.node.parts {
		p.begin = update.Started{Crashed: slices.Contains(crashed, boot), Power: boot == wire.BootPowerFail,
			Own: p.own}
		a.logged(p, a.stepPart(p, update.Tick{}))
	}
	if a.own() == nil {
		a.updatePolicies()
	}
	a.updateComponents()
}

// nextPart is when tickParts wants to be called.
func (a *Agent) nextPart() time.Duration {
	if len(a.node.parts) == 0 {
		return far + time.Since(a.began)
	}
	at := a.node.partsAt
	for _, p := range a.node.parts {
		if t, ok := p.state.NextDeadline(); ok {
			at = min(at, t)
		}
	}
	return at
}

func (a *Agent) tickParts(now time.Duration) {
	look := now >= a.node.partsAt
	if look {
		a.node.partsAt = now + partsEvery
	}
	for _, p := range a.node.parts {
		t, due := p.state.NextDeadline()
		switch {
		case look && p.own && !same(p.slots, p.store.Slots()): // somebody may have staged or armed another version
			p.slots = p.store.Slots()
			a.lookAtSlots()
			a.logged(p, a.stepPart(p, update.Look{}))
		case due && t <= now, look && p.changed():
			a.logged(p, a.stepPart(p, update.Tick{}))
		}
	}
}

// changed says whether somebody else has written the record since it was read.
func (p *part) changed() bool {
	return !same(p.seen, p.store.Stat())
}

// same says whether a file was not written in between.
func same(before, now fs.FileInfo) bool {
	if before == nil || now == nil {
		return before == now
	}
	return os.SameFile(before, now) && before.ModTime().Equal(now.ModTime())
}

func (a *Agent) logged(p *part, err error) {
	if err != nil {
		a.log.Error("what becomes of a component cannot be saved; it is tried again", zap.String("component", p.name),
			zap.Error(err))
	}
}

// stepPart takes a component over one event: read, step, save, then act. A trial begins only while no
// other one can. The error says that nothing of it has happened; the answer to an Order, if that is
// refused, is a *wire.Error.
func (a *Agent) stepPart(p *part, ev update.Event) (err error) {
	if !p.begun {
		p.begun = true
		if err := a.savePart(p, p.begin, false); err != nil {
			p.begun = false
			return err
		}
	}
	_, order := ev.(update.Order)
	if err := a.savePart(p, ev, order); err != nil || order {
		return err
	}
	if t, ok := p.state.NextDeadline(); ok && p.state.Waits() && t <= time.Since(a.began) {
		return a.savePart(p, update.Tick{}, true)
	}
	return nil
}

func (a *Agent) savePart(p *part, ev update.Event, alone bool) error {
	now := update.Now{Now: a.now(), NoReboot: a.noReboot()}
	var next update.State
	var effects []update.Effect
	step := func() error {
		return p.store.Update(now.Wall, func(r update.Record) (update.Record, error) {
			r.Off = false
			if alone && !p.own {
				now.Unsigned = a.unsigned(p, r)
			}
			next, effects = p.state.Load(r).Step(now, ev)
			return next.Record, nil
		})
	}
	err := error(nil)
	if alone && p.own { // not while nobody else may use the slots
		now.Unsigned = a.unsigned(p, p.state.Record)
	}
	if alone {
		err = a.node.slots.Alone(func() error {
			now.Alone, now.Obstacle = true, a.obstacle(p)
			return step()
		})
	}
	if errors.Is(err, record.ErrTrial) {
		now.Obstacle = err.Error()
		err = step()
	} else if !alone {
		err = step()
	}
	if err != nil {
		_, ended := ev.(update.Ended)
		p.state, _ = p.state.Step(now, update.Dropped{Ended: ended})
		return err
	}
	phase := p.state.Phase
	p.state, p.seen = next, p.store.Stat()
	var answer error
	for _, e := range effects {
		switch e := e.(type) {
		case update.Check:
			a.checkPart(p, e)
		case update.Answer:
			if e.Err != nil {
				answer = e.Err
			}
		}
	}
	if v := a.viewParts(); a.known() && (p.own && phase != p.state.Phase || !reflect.DeepEqual(v, a.node.view)) {
		a.lookAtSlots()
	}
	for _, e := range effects {
		a.doPart(p, e)
	}
	if p.own {
		a.updatePolicies()
	} else {
		a.updateComponents()
	}
	if phase != p.state.Phase {
		a.sweepPart(p)
	}
	return answer
}

// doPart does what the update of a component asks for.
func (a *Agent) doPart(p *part, e update.Effect) {
	switch e := e.(type) {
	case update.Run:
		a.runPart(p, e.Verb)
	case update.Cancel:
		p.cancel()
	case update.Restart:
		o := health.Order{What: health.OrderReboot, By: "component " + p.name, Detail: e.Why.Detail,
			Reason: e.Why.Reason}
		if e.Of == update.Agent {
			o.What = health.OrderRestart
		}
		a.healthEvent(o)
	case update.Emit:
		a.emit(e.Type, nil, health.Detail{Component: p.name, Version: e.Version, Text: e.Text})
		if e.Number != 0 {
			a.logged(p, a.stepPart(p, update.Reported{Number: e.Number}))
		}
	}
}

// checkPart passes on how a component is. Of the agent itself there is nothing to tell but that it is not well: it
// runs.
func (a *Agent) checkPart(p *part, e update.Check) {
	if e.Gone || p.own && e.OK {
		a.healthEvent(health.Gone{Name: componentCheck + p.name})
		return
	}
	a.healthEvent(health.Check{Name: componentCheck + p.name, OK: e.OK, Message: e.Message, TTL: partTTL})
}

// runPart runs a verb beside the owner; but where the agent itself stands is a file, and is read at once.
func (a *Agent) runPart(p *part, verb update.Verb) {
	ctx, cancel := context.WithCancel(a.work)
	p.cancel = cancel
	r := p.state.Record
	if p.own && (verb == update.Show || verb == update.Verify) {
		defer cancel()
		a.logged(p, a.stepPart(p, p.run(ctx, verb, r)))
		return
	}
	a.log.Info("component", zap.String("component", p.name), zap.String("verb", string(verb)),
		zap.String("version", r.Version))
	a.runInBackground(func() func() {
		defer cancel()
		ev := p.run(ctx, verb, r)
		return func() { a.logged(p, a.stepPart(p, ev)) }
	})
}

func (p *part) run(ctx context.Context, verb update.Verb, r update.Record) update.Ended {
	job := update.Job{Version: r.Version, Previous: r.Previous, Why: r.Why}
	err := error(nil)
	if verb == update.Install {
		job.File, job.Hash, job.Signature = p.store.File(r.Number), r.Hash, r.Signature
	}
	// of the agent's own the slots verify what is tried
	if verb == update.Install || verb == update.Activate && !p.own && len(p.store.Publishers) > 0 {
		err = p.store.Verify(ctx, r)
	}
	if err != nil {
		return update.Answered(verb, update.Status{}, err)
	}
	st, err := p.prog.Run(ctx, verb, job)
	return update.Answered(verb, st, err)
}

// sweepPart removes the files that no update needs any more.
func (a *Agent) sweepPart(p *part) {
	keep := p.state.Number
	if p.state.Phase == update.None || p.state.Phase == update.Leaving {
		keep = 0
	}
	if err := p.store.Sweep(p.state.Number, keep); err != nil {
		a.log.Warn("a file that is not needed any more stays", zap.Error(err))
	}
}
