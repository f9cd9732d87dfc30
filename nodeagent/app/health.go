package app

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/health"
	"tandem.internal/nodeagent/internal/load"
	"tandem.internal/nodeagent/internal/machine"
	"tandem.internal/nodeagent/internal/monitor"
	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/nodeagent/internal/store"
	"tandem.internal/nodeagent/internal/update"
	"tandem.internal/nodeagent/internal/update/disk"
	"tandem.internal/nodeagent/internal/watch"
	"tandem.internal/nodeagent/internal/watch/judge"
	"tandem.internal/shared/pulse"
	"tandem.internal/shared/wire"
)

// nodeState is what the agent knows of the node itself, and what looks after it: health, alerts, the programs that
// are updated on trial, the monitor and the watchdog. It belongs to Run's goroutine, but for what has its own.
type nodeState struct {
	health   healthMachine
	report   wire.Health
	settings wire.HealthSettings // in force: the node's and the controller's together
	alerts   alertMachine
	load     load.Watch
	reboots  uint64 // starts of the machine, as of this start
	begun    bool   // startHealth was called

	slots     *slot.Store
	dir       string         // the state directory
	parts     []*part        // by name
	partsAt   time.Duration  // they are looked at again: people may work on them by hand
	view      health.Updates // that health knows
	slot      string         // that the launcher has started
	factory   string         // version of the installed program, where another one runs
	launched  bool           // by the launcher: a restart starts what the slots say
	unacked   uint64         // newest start that was reported in an event and is not yet marked as reported; 0: none
	monitor   *monitor.Monitor
	watch     *watch.Watch
	notifier  *watch.Notifier
	beat      *watch.Beat // of the owner's loop
	beatAt    time.Duration
	lookAt    time.Duration            // the slots are read again
	programs  map[string]judge.Verdict // what the watchdog said of loops and programs; "" once they are well
	endReboot context.CancelFunc       // ends the newest reboot command
	leaving   bool                     // a restart was arranged: Run is to end
	commands  sync.Mutex               // one indicator command at a time
}

const (
	lookEvery = 10 * time.Minute // between two looks at the slots, which people may change by hand
	lookTrial = time.Minute      // the same during a trial: somebody may commit it
)

// checkTTL is how long a check counts that is told of with each sample.
func (a *Agent) checkTTL() time.Duration { return 3*a.cfg.SamplePeriod + time.Minute }

// The checks of the agent's own modules. The others are samples, the vital kinds, and the watched programs.
const (
	checkStorage = "storage"
	programCheck = "program:" // and its name
)

// openNode makes what looks after the node. dir is the state directory.
func (a *Agent) openNode(dir string) error {
	saved, err := a.store.Node()
	if err != nil {
		return err
	}
	n := &a.node
	n.reboots = saved.Reboots
	n.health, n.alerts = a.newHealthMachine(saved.Health), a.newAlertMachine(saved.Alerts)
	n.programs = map[string]judge.Verdict{}
	n.slots = slot.Open(slot.Config{Dir: filepath.Join(dir, slot.Dir), Machine: a.deps.Machine, Steps: a.deps.SlotSteps,
		Publishers: a.publishers, Floor: a.cfg.Floor, Busy: func() error { return disk.Busy(dir, "") }})
	if err := sharePublishers(dir, a.publishers, a.cfg.Floor, a.deps.SlotSteps); err != nil {
		a.log.Warn("commands at the node do not know the publishers' keys", zap.Error(err))
	}
	n.slot, _ = a.deps.LookupEnv(slot.EnvSlot)
	n.factory, _ = a.deps.LookupEnv(slot.EnvFactory)
	n.launched = n.slot != ""
	if err := a.openParts(dir); err != nil {
		return err
	}
	if !n.launched {
		if err := n.slots.Direct(); err != nil {
			a.log.Error("this start cannot be written down", zap.Error(err))
		}
	}
	if n.notifier, err = watch.NewNotifier(a.deps.LookupEnv, a.deps.PID); err != nil {
		a.log.Warn("the service manager cannot be told how the agent is", zap.Error(err))
	}
	n.settings, _ = health.Resolve(a.cfg.health(), nil)
	a.follow(a.kind(wire.KindHealth))
	n.watch = watch.New(watch.Config{Time: n.settings.Watchdog.Std(), Supervisor: n.notifier.Watchdog(),
		Ping: n.notifier.Ping, Dir: a.cfg.WatchDir, Stacks: filepath.Join(dir, "stacks"),
		Reason: a.keepFailure, Die: a.deps.Die, Log: a.log})
	n.monitor, err = monitor.New(monitor.Config{Period: a.cfg.SamplePeriod, Partitions: a.cfg.Partitions,
		Interfaces: a.cfg.Interfaces, Now: a.deps.Now, Sources: a.deps.Sources, Watch: n.watch.Loop})
	if err != nil {
		return &UsageError{"sample-period", err.Error()}
	}
	return nil
}

// durable is what must be saved.
func (n *nodeState) durable() *store.Node {
	return &store.Node{Health: n.health.State.Durable, Alerts: n.alerts.State.Durable(), Reboots: n.reboots}
}

// unsaved says that durable is not on the disk.
func (n *nodeState) unsaved() bool { return n.health.Unsaved || n.alerts.Unsaved }

// nextNodeDeadline is when tickNode wants to be called.
func (a *Agent) nextNodeDeadline() time.Duration {
	at := min(a.node.beatAt, a.node.lookAt, a.nextPart())
	if t, ok := a.node.health.Due(); ok {
		at = min(at, t)
	}
	return at
}

func (a *Agent) tickNode(now time.Duration) {
	n := &a.node
	n.beat.Beat()
	n.beatAt = now + pulse.Every
	if now >= n.lookAt {
		a.lookAtSlots()
		a.acknowledge()
	}
	n.health.Elapse(now)
	a.tickParts(now)
}

// stopNode writes down that this end is planned, unless it is not.
func (a *Agent) stopNode() {
	n := &a.node
	if a.fatal != nil {
		if err := a.keepFailure(wire.BootFatal, a.fatal.Error()); err != nil {
			a.log.Error("the reason of this end cannot be kept", zap.Error(err))
		}
		return
	}
	a.healthEvent(health.Stopping{})
	if _, err := n.slots.Planned(wire.BootStop, ""); err != nil {
		a.log.Error("the reason of this end cannot be kept", zap.Error(err))
	}
	a.notify(n.notifier.Stopping())
}

// startHealth tells health that the agent has started, why, and what is known at the start.
func (a *Agent) startHealth() {
	n := &a.node
	boot, rebooted := a.bootReason()
	a.follow(a.kind(wire.KindHealth)) // whose settings come first
	checks := []string{health.SampleCPU, health.SampleRAM}
	for _, d := range a.vital() {
		checks = append(checks, string(d.name))
	}
	checks = append(checks, checkStorage, health.CheckWatchdog)
	if len(a.cfg.Partitions) > 0 {
		checks = append(checks, health.SampleDisk)
	}
	n.begun = true
	a.healthEvent(health.Started{Settings: n.settings, Boot: boot, Rebooted: rebooted, Checks: checks,
		Await: a.checkTTL()})
	a.reportSilentTrial()
	a.takeLink(false, nil)
	a.startParts(boot.Reason)
	a.lookAtSlots()
	for _, d := range a.vital() {
		if d.inForce().Exists() {
			a.healthEvent(health.Contact{Result: wire.ContactSaved})
		}
	}
	for _, d := range a.documents {
		a.follow(d)
	}
	a.checkModules()
	a.acknowledge()
	a.notify(n.notifier.Ready(n.report.Text))
}

// healthMachine is the machine of the node's health.
type healthMachine = machine.Machine[health.State, health.Event, health.Effect]

// newHealthMachine returns the machine of the node's health from what was saved.
func (a *Agent) newHealthMachine(saved health.Durable) healthMachine {
	return healthMachine{
		State:  health.New(saved),
		Now:    a.now,
		Step:   health.State.Step,
		Failed: health.State.Failed,
		Next:   health.State.NextDeadline,
		Tick:   health.Tick{},
		Sort: func(e health.Effect) machine.Order {
			switch e := e.(type) {
			case health.Save:
				return machine.Order{Save: true, Must: e.Must}
			case health.Emit:
				return machine.Order{Emit: a.event(e.Type, e.Err, e.Detail)}
			}
			return machine.Order{}
		},
		Commit: a.saveStep,
		Run:    a.runHealthEffect,
	}
}

// healthEvent takes the node's health over one event.
func (a *Agent) healthEvent(ev health.Event) { a.node.health.Handle(ev) }

// reportLoad tells what is used of the node on average, if it is time to.
func (a *Agent) reportLoad(s monitor.Sample) {
	if a.node.load.Averages(s.Mono, s.Averages) && a.node.report.Indicator != 0 {
		a.report(a.kind(wire.KindHealth))
	}
}

// runHealthEffect does what health asks for.
func (a *Agent) runHealthEffect(e health.Effect) {
	n := &a.node
	switch e := e.(type) {
	case health.Report:
		n.report = e.Health
		a.heedChecks(e.Health.Checks)
		a.report(a.kind(wire.KindHealth))
	case health.Indicate:
		a.log.Info("indicator", zap.Int("indicator", int(e.Indicator)), zap.String("text", e.Text))
		a.notify(n.notifier.Status(e.Text))
		a.indicate(e)
	case health.Commit:
		a.judged(e.Trial, update.Verdict{Commit: true}, func(err *wire.Error) health.Event {
			return health.Committed{Trial: e.Trial, Err: err}
		})
	case health.RollBack:
		v := update.Verdict{Why: update.Why{Reason: e.Reason, Detail: e.Detail, Failed: true}}
		a.judged(e.Trial, v, func(err *wire.Error) health.Event { return health.Restarting{Err: err} })
	case health.RestartAgent:
		a.restart(func() error {
			_, err := n.slots.Planned(e.Reason, e.Detail)
			return err
		})
	case health.Reboot:
		ctx, cancel := context.WithCancel(a.work)
		n.endReboot = cancel
		a.runInBackground(func() func() {
			defer cancel()
			err := a.reboot(ctx, e)
			if err != nil && a.work.Err() == nil { // it explains no later end
				err = errors.Join(err, n.slots.Stays(e.Reason))
			}
			return func() { a.healthEvent(health.Restarting{Err: failed(err)}) }
		})
	case health.Stay:
		n.endReboot() // before the next one, whose failure its own would be taken for
		a.runInBackground(func() func() {
			if err := n.slots.Stays(e.Reason); err != nil {
				a.log.Error("a reboot that did not happen may be told as the reason of a later end", zap.Error(err))
			}
			return func() {}
		})
	case health.Answer:
		if e.ID == "" { // of the node itself, which asks again: a component's, or somebody's at the node
			if e.Err != nil {
				a.log.Warn("what the node itself has ordered is refused", zap.Error(e.Err))
			}
			return
		}
		a.reply(e.ID, []byte("null"), e.Err)
	}
}

// failed returns an error of the node itself as it is reported; one without a code is of the disk.
func failed(err error) *wire.Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return e
	}
	return wire.New(wire.CodeStorage, "", err.Error())
}

// notify logs that the service manager was not reached.
func (a *Agent) notify(err error) {
	if err != nil {
		a.log.Warn("the service manager cannot be told", zap.Error(err))
	}
}
