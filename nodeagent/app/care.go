package app

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/health"
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

// care is the agent's care for the node itself: its health, its alerts, its slots and the watchdog.
// All fields but the parts with goroutines of their own belong to Run's goroutine.
type care struct {
	health   wellness
	report   wire.Health
	settings wire.HealthSettings // in force: the node's and the controller's together
	alerts   alerts
	reboots  uint64 // starts of the machine, as of this start
	begun    bool   // health has been told of the start

	slots     *slot.Store
	dir       string         // the state directory
	parts     []*part        // by name
	partsAt   time.Duration  // they are looked at again: people may work on them by hand
	view      health.Updates // as health was told
	slot      string         // that the launcher has started
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

// openCare makes what cares for the node. dir is the state directory.
func (a *Agent) openCare(dir string) error {
	saved, err := a.store.Care()
	if err != nil {
		return err
	}
	c := &a.care
	c.reboots = saved.Reboots
	c.health, c.alerts = a.healthMachine(saved.Health), a.alertMachine(saved.Alerts)
	c.programs = map[string]judge.Verdict{}
	c.slots = slot.Open(slot.Config{Dir: filepath.Join(dir, slot.Dir), Machine: a.deps.Machine, Steps: a.deps.SlotSteps,
		Busy: func() error { return disk.Busy(dir, "") }})
	c.slot, _ = a.deps.LookupEnv(slot.EnvSlot)
	c.launched = c.slot != ""
	if err := a.openParts(dir); err != nil {
		return err
	}
	if !c.launched {
		if err := c.slots.Direct(); err != nil {
			a.log.Error("this start cannot be written down", zap.Error(err))
		}
	}
	if c.notifier, err = watch.NewNotifier(a.deps.LookupEnv, a.deps.PID); err != nil {
		a.log.Warn("the service manager cannot be told how the agent is", zap.Error(err))
	}
	c.settings, _ = health.Resolve(a.cfg.health(), nil)
	a.follow(a.kind(wire.KindHealth))
	c.watch = watch.New(watch.Config{Time: c.settings.Watchdog.Std(), Supervisor: c.notifier.Watchdog(), Ping: c.notifier.Ping, Dir: a.cfg.WatchDir,
		Stacks: filepath.Join(dir, "stacks"), Reason: a.failing, Die: a.deps.Die, Log: a.log})
	c.monitor, err = monitor.New(monitor.Config{Period: a.cfg.SamplePeriod, Partitions: a.cfg.Partitions, Interfaces: a.cfg.Interfaces,
		Now: a.deps.Now, Sources: a.deps.Sources, Watch: c.watch.Loop})
	if err != nil {
		return &UsageError{"sample-period", err.Error()}
	}
	return nil
}

// durable is what must be saved.
func (c *care) durable() *store.Care {
	return &store.Care{Health: c.health.State.Durable, Alerts: c.alerts.State.Durable(), Reboots: c.reboots}
}

// unsaved says that durable is not on the disk.
func (c *care) unsaved() bool { return c.health.Unsaved || c.alerts.Unsaved }

// nextCare is when tickCare wants to be called.
func (a *Agent) nextCare() time.Duration {
	at := min(a.care.beatAt, a.care.lookAt, a.nextPart())
	if t, ok := a.care.health.Due(); ok {
		at = min(at, t)
	}
	return at
}

func (a *Agent) tickCare(now time.Duration) {
	c := &a.care
	c.beat.Beat()
	c.beatAt = now + pulse.Every
	if now >= c.lookAt {
		a.lookAtSlots()
		a.acknowledge()
	}
	c.health.Elapse(now)
	a.tickParts(now)
}

// stoppingCare writes down that this end is planned, unless it is not.
func (a *Agent) stoppingCare() {
	c := &a.care
	if a.fatal != nil {
		if err := a.failing(wire.BootFatal, a.fatal.Error()); err != nil {
			a.log.Error("the reason of this end cannot be kept", zap.Error(err))
		}
		return
	}
	a.well(health.Stopping{})
	if _, err := c.slots.Planned(wire.BootStop, ""); err != nil {
		a.log.Error("the reason of this end cannot be kept", zap.Error(err))
	}
	a.notify(c.notifier.Stopping())
}

// careFor begins: the health of the node from this start on.
func (a *Agent) careFor() {
	c := &a.care
	boot, rebooted := a.startedWhy()
	a.follow(a.kind(wire.KindHealth)) // whose settings come first
	checks := []string{health.SampleCPU, health.SampleRAM}
	for _, d := range a.vital() {
		checks = append(checks, string(d.name))
	}
	checks = append(checks, checkStorage, health.CheckWatchdog)
	if len(a.cfg.Partitions) > 0 {
		checks = append(checks, health.SampleDisk)
	}
	c.begun = true
	a.well(health.Started{Settings: c.settings, Boot: boot, Rebooted: rebooted, Checks: checks, Await: a.checkTTL()})
	a.reportSilentTrial()
	a.takeLink(false, nil)
	a.startParts(boot.Reason)
	a.lookAtSlots()
	for _, d := range a.vital() {
		if d.inForce().Exists() {
			a.well(health.Contact{Result: wire.ContactSaved})
		}
	}
	for _, d := range a.documents {
		a.follow(d)
	}
	a.checkModules()
	a.acknowledge()
	a.notify(c.notifier.Ready(c.report.Text))
}

// wellness is the machine of the node's health.
type wellness = machine.Machine[health.State, health.Event, health.Effect]

// healthMachine returns the machine of the node's health from what was saved.
func (a *Agent) healthMachine(saved health.Durable) wellness {
	return wellness{
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
		Run:    a.heal,
	}
}

// well takes the node's health over one event.
func (a *Agent) well(ev health.Event) { a.care.health.Handle(ev) }

// heal does what health asks for.
func (a *Agent) heal(e health.Effect) {
	c := &a.care
	switch e := e.(type) {
	case health.Report:
		c.report = e.Health
		a.report(a.kind(wire.KindHealth))
	case health.Indicate:
		a.log.Info("indicator", zap.Int("indicator", int(e.Indicator)), zap.String("text", e.Text))
		a.notify(c.notifier.Status(e.Text))
		a.indicate(e)
	case health.Commit:
		a.judged(e.Trial, update.Verdict{Commit: true}, func(err *wire.Error) health.Event {
			return health.Committed{Trial: e.Trial, Err: err}
		})
	case health.RollBack:
		a.judged(e.Trial, update.Verdict{Why: update.Why{Reason: e.Reason, Detail: e.Detail}}, func(err *wire.Error) health.Event {
			return health.Restarting{Err: err}
		})
	case health.RestartAgent:
		a.restart(func() error {
			_, err := c.slots.Planned(e.Reason, e.Detail)
			return err
		})
	case health.Reboot:
		ctx, cancel := context.WithCancel(a.work)
		c.endReboot = cancel
		a.runInBackground(func() func() {
			defer cancel()
			err := a.reboot(ctx, e)
			if err != nil && a.work.Err() == nil { // it explains no later end
				err = errors.Join(err, c.slots.Stays(e.Reason))
			}
			return func() { a.well(health.Restarting{Err: failed(err)}) }
		})
	case health.Stay:
		c.endReboot() // before the next one, whose failure its own would be taken for
		a.runInBackground(func() func() {
			if err := c.slots.Stays(e.Reason); err != nil {
				a.log.Error("a reboot that did not happen may be told as the reason of a later end", zap.Error(err))
			}
			return func() {}
		})
	case health.KeepTry:
		// stopping writes it down for every end that is planned
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

// failed is an error of this node's own doing, as it is reported.
func failed(err error) *wire.Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return e
	}
	return wire.New(wire.CodeStorage, "", err.Error())
}

func (a *Agent) notify(err error) {
	if err != nil {
		a.log.Warn("the service manager cannot be told", zap.Error(err))
	}
}
