package app

import (
	"context"
	"errors"
	"fmt"
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
	"tandem.internal/nodeagent/internal/update/disk"
	"tandem.internal/nodeagent/internal/update/program"
	"tandem.internal/shared/wire"
)

// part is a component of the node that a program updates. All of it belongs to Run's goroutine.
type part struct {
	name   string
	prog   program.Component
	store  *disk.Store
	state  update.State
	begin  update.Started
	begun  bool               // begin is taken in
	seen   fs.FileInfo        // of the record, as it was read last
	cancel context.CancelFunc // of the verb under way; nil: there was none yet
}

const (
	partsEvery     = 5 * time.Second // between two looks at whether somebody has changed a record by hand
	partTTL        = 5 * time.Minute // of the check of a component on trial: more than verify takes
	componentCheck = "component:"    // and its name
)

// openParts takes the components that the settings name, and says in the directories of others that nobody
// cares for them.
func (a *Agent) openParts(dir string) error {
	a.care.dir = dir
	for _, name := range slices.Sorted(maps.Keys(a.cfg.Components)) {
		p := &part{name: name, store: disk.OpenStore(dir, name, a.deps.SlotSteps)}
		if err := p.store.Make(); err != nil {
			return err
		}
		p.prog = program.Component{Name: name, Command: strings.Fields(a.cfg.Components[name]), Dir: p.store.DataDir()}
		r, err := p.store.Read()
		if err != nil {
			a.log.Error("a record is no good; what was under way is given up", zap.Error(err))
		}
		r.Off = false
		p.state = update.New(r)
		a.care.parts = append(a.care.parts, p)
	}
	names, err := disk.Names(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, ours := a.cfg.Components[name]; ours {
			continue
		}
		err := disk.OpenStore(dir, name, a.deps.SlotSteps).Update(a.deps.Now(), func(r update.Record) (update.Record, error) {
			r.Off = true
			return r, nil
		})
		if err != nil {
			a.log.Warn("a component that the settings do not name", zap.Error(err))
		}
	}
	return nil
}

// startParts takes up what the last run left. boot says how that ended.
func (a *Agent) startParts(boot wire.BootReason) {
	crashed := []wire.BootReason{wire.BootFatal, wire.BootOOM, wire.BootWatchdogHung, wire.BootWatchdogPID, wire.BootKernel, wire.BootPowerFail}
	for _, p := range a.care.parts {
		p.begin.Crashed = slices.Contains(crashed, boot)
		a.logged(p, a.stepPart(p, update.Tick{}))
	}
}

// nextPart is when tickParts wants to be called.
func (a *Agent) nextPart() time.Duration {
	if len(a.care.parts) == 0 {
		return far + time.Since(a.began)
	}
	at := a.care.partsAt
	for _, p := range a.care.parts {
		if t, ok := p.state.NextDeadline(); ok {
			at = min(at, t)
		}
	}
	return at
}

func (a *Agent) tickParts(now time.Duration) {
	look := now >= a.care.partsAt
	if look {
		a.care.partsAt = now + partsEvery
	}
	for _, p := range a.care.parts {
		t, due := p.state.NextDeadline()
		if due && t <= now || look && p.changed() {
			a.logged(p, a.stepPart(p, update.Tick{}))
		}
	}
}

// changed says whether somebody else has written the record since it was read.
func (p *part) changed() bool {
	now := p.store.Stat()
	if p.seen == nil || now == nil {
		return p.seen != now
	}
	return !os.SameFile(p.seen, now) || !p.seen.ModTime().Equal(now.ModTime())
}

func (a *Agent) logged(p *part, err error) {
	if err != nil {
		a.log.Error("what becomes of a component cannot be saved; it is tried again", zap.String("component", p.name), zap.Error(err))
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
	now := update.Now{Mono: time.Since(a.began), Wall: a.deps.Now(), NoReboot: a.noReboot()}
	var next update.State
	var effects []update.Effect
	step := func() error {
		return p.store.Update(now.Wall, func(r update.Record) (update.Record, error) {
			r.Off = false
			next, effects = p.state.Load(r).Step(now, ev)
			return next.Record, nil
		})
	}
	err := error(nil)
	if alone {
		err = a.care.slots.Alone(func() error {
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
	if v := a.viewParts(); !reflect.DeepEqual(v, a.care.view) {
		a.lookAtSlots()
	}
	for _, e := range effects {
		a.doPart(p, e)
	}
	if phase != p.state.Phase {
		a.sweepPart(p)
	}
	return answer
}

// obstacle says why no trial of a component may begin now, "" if it may. The slots' own are Alone's.
func (a *Agent) obstacle(p *part) string {
	if a.care.health.State.Restart.Do != "" {
		return "the node is about to restart"
	}
	if err := disk.Busy(a.care.dir, p.name); err != nil {
		return err.Error()
	}
	return ""
}

// noReboot says why the node cannot be rebooted, "" if it can.
func (a *Agent) noReboot() string {
	if a.cfg.RebootCommand == "" {
		return "the agent has no --reboot-command"
	}
	if !*a.care.settings.Reboot {
		return "the settings do not let the agent reboot the machine"
	}
	return ""
}

// doPart does what the update of a component asks for.
func (a *Agent) doPart(p *part, e update.Effect) {
	switch e := e.(type) {
	case update.Run:
		a.runPart(p, e.Verb)
	case update.Cancel:
		p.cancel()
	case update.Restart:
		a.well(health.Order{What: health.OrderReboot, By: "component " + p.name, Detail: e.Why.Detail, Reason: e.Why.Reason})
	case update.Emit:
		a.emit(e.Type, nil, health.Detail{Component: p.name, Version: e.Version, Text: e.Text})
		if e.Number != 0 {
			a.logged(p, a.stepPart(p, update.Told{Number: e.Number}))
		}
	}
}

func (a *Agent) checkPart(p *part, e update.Check) {
	if e.Gone {
		a.well(health.Gone{Name: componentCheck + p.name})
		return
	}
	a.well(health.Check{Name: componentCheck + p.name, OK: e.OK, Message: e.Message, TTL: partTTL})
}

// runPart runs a verb beside the owner.
func (a *Agent) runPart(p *part, verb update.Verb) {
	ctx, cancel := context.WithCancel(a.work)
	p.cancel = cancel
	r := p.state.Record
	a.log.Info("component", zap.String("component", p.name), zap.String("verb", string(verb)), zap.String("version", r.Version))
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
		job.File, job.Hash = p.store.File(r.Number), r.Hash
		err = p.store.Verify(ctx, r.Number, r.Size, r.Hash)
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

// viewParts is what health is to know of the components.
func (a *Agent) viewParts() (v health.Parts) {
	for _, p := range a.care.parts {
		r := p.state.Record
		v.List = append(v.List, r.Component(p.name))
		for _, o := range []update.Outcome{r.Last, r.Before} {
			if o.Tried {
				v.Over = append(v.Over, health.Over{Trial: update.Trial(p.name, o.Number), Kept: o.Committed, Reason: o.Why.Reason, Detail: o.Why.Detail})
			}
		}
		switch {
		case !r.Phase.OnTrial():
		case r.Tried && r.Phase != update.Leaving:
			v.Name, v.Version, v.Trial, v.Checks = p.name, r.Version, update.Trial(p.name, r.Number), []string{componentCheck + p.name}
		default:
			v.Busy = fmt.Sprintf("component %s, version %s, is %s", p.name, r.Version, r.Phase)
		}
	}
	return v
}

// judged obeys health's verdict on the trial of a component, or tells it why not.
func (a *Agent) judged(trial string, v update.Verdict, answer func(*wire.Error) health.Event) {
	a.runInBackground(func() func() {
		return func() {
			err := error(wire.New(wire.CodeNotFound, "", "no such trial of a component"))
			for _, p := range a.care.parts {
				if update.Trial(p.name, p.state.Number) == trial {
					v.Number = p.state.Number
					err = a.stepPart(p, v)
				}
			}
			if err != nil {
				a.well(answer(failed(err)))
			}
		}
	})
}

// tryPart has what is staged of a component tried, by order of the controller.
func (a *Agent) tryPart(name string, o health.Order) *wire.Error {
	for _, p := range a.care.parts {
		if p.name == name {
			return failed(a.stepPart(p, update.Order{What: update.OrderTry, By: o.By, Version: o.Version}))
		}
	}
	return wire.New(wire.CodeNotFound, "/component", fmt.Sprintf("the settings of this node's agent name no component %s: --component", name))
}
