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
	"tandem.internal/nodeagent/internal/slot/record"
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
	health  wellness
	report  wire.Health
	alerts  alerts
	reboots uint64 // starts of the machine, as of this start
	begun   bool   // health has been told of the start

	slots     *slot.Store
	dir       string        // the state directory
	parts     []*part       // by name
	partsAt   time.Duration // they are looked at again: people may work on them by hand
	view      health.Parts  // as health was told
	launched  bool          // by the launcher: a restart starts what the slots say
	unacked   uint64        // newest start that was reported in an event and is not yet marked as reported; 0: none
	monitor   *monitor.Monitor
	watch     *watch.Watch
	notifier  *watch.Notifier
	beat      *watch.Beat // of the owner's loop
	beatAt    time.Duration
	lookAt    time.Duration            // the slots are read again
	programs  map[string]judge.Verdict // what the watchdog said of loops and programs; "" once they are well
	applied   map[wire.Kind]wire.Stamp // the document whose content health or alerts go by
	endReboot context.CancelFunc       // ends the newest reboot command
	leaving   bool                     // a restart was arranged: Run is to end
	commands  sync.Mutex               // one indicator command at a time
}

const (
	stopTime  = 30 * time.Second // what a stop takes at most, as a loop's period
	lookEvery = 10 * time.Minute // between two looks at the slots, which people may change by hand
	lookTrial = time.Minute      // the same during a trial: somebody may commit it
)

// checkTTL is how long a check counts that is told of with each sample.
func (a *Agent) checkTTL() time.Duration { return 3*a.cfg.SamplePeriod + time.Minute }

// The checks of the agent's own modules. The others are samples, and the watched programs.
const (
	checkConfig  = "config" // the newest configuration did not fail
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
	c.applied, c.programs = map[wire.Kind]wire.Stamp{}, map[string]judge.Verdict{}
	c.slots = slot.Open(slot.Config{Dir: filepath.Join(dir, slot.Dir), Machine: a.deps.Machine, Steps: a.deps.SlotSteps,
		Busy: func() error { return disk.Busy(dir, "") }})
	if err := a.openParts(dir); err != nil {
		return err
	}
	launched, _ := a.deps.LookupEnv(slot.EnvSlot)
	if c.launched = launched != ""; !c.launched {
		if err := c.slots.Direct(); err != nil {
			a.log.Error("this start cannot be written down", zap.Error(err))
		}
	}
	if c.notifier, err = watch.NewNotifier(a.deps.LookupEnv, a.deps.PID); err != nil {
		a.log.Warn("the service manager cannot be told how the agent is", zap.Error(err))
	}
	set, _ := a.settings()
	c.watch = watch.New(watch.Config{Time: set.Watchdog.Std(), Supervisor: c.notifier.Watchdog(), Ping: c.notifier.Ping, Dir: a.cfg.WatchDir,
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

// settings joins the node's own settings of health with the controller's. The error says what is
// wrong with them together.
func (a *Agent) settings() (wire.HealthSettings, *wire.Error) {
	var desired *wire.HealthSettings
	if k := a.kinds[wire.KindHealth]; k != nil {
		if body := inForce(k).Body; len(body) > 0 {
			if s, err := wire.Decode[wire.HealthSettings](body); err == nil { // checked before it was taken
				desired = s
			}
		}
	}
	return health.Resolve(a.cfg.health(), desired)
}

// careFor begins: the health of the node from this start on.
func (a *Agent) careFor() {
	c := &a.care
	boot, rebooted := a.startedWhy()
	set, err := a.settings()
	if err != nil {
		a.log.Warn("the settings of health do not go together; the stricter ones are in force", zap.Error(err))
	}
	checks := []string{health.SampleCPU, health.SampleRAM, checkConfig, checkStorage, health.CheckWatchdog}
	if len(a.cfg.Partitions) > 0 {
		checks = append(checks, health.SampleDisk)
	}
	c.begun = true
	a.well(health.Started{Settings: set, Boot: boot, Rebooted: rebooted, Checks: checks, Await: a.checkTTL()})
	a.speechless()
	a.linked(false, nil)
	a.startParts(boot.Reason)
	a.lookAtSlots()
	if len(inForce(a.kinds[wire.KindConfig]).Body) > 0 {
		a.well(health.Contact{Result: wire.ContactSaved})
	}
	a.configured(a.kinds[wire.KindConfig])
	c.applied[wire.KindHealth] = inForce(a.kinds[wire.KindHealth]).Stamp
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
		k := a.kinds[wire.KindHealth]
		running, last := k.inbox.State.Report()
		a.sayKind(k, running, last)
	case health.Indicate:
		a.log.Info("indicator", zap.Int("indicator", int(e.Indicator)), zap.String("text", e.Text))
		a.notify(c.notifier.Status(e.Text))
		a.indicate(e)
	case health.Commit:
		if e.Slot == "" {
			a.judged(e.Trial, update.Verdict{Commit: true}, func(err *wire.Error) health.Event { return health.Committed{Trial: e.Trial, Err: err} })
			return
		}
		a.aside(func() func() {
			err := c.slots.Commit(record.ID(e.Slot))
			return func() {
				a.well(health.Committed{Trial: e.Trial, Err: failed(err)})
				a.lookAtSlots()
			}
		})
	case health.RollBack:
		if e.Slot == "" {
			a.judged(e.Trial, update.Verdict{Why: update.Why{Reason: e.Reason, Detail: e.Detail}}, func(err *wire.Error) health.Event { return health.Restarting{Err: err} })
			return
		}
		current := record.ID(c.report.Current)
		a.restart(func() error {
			_, err := c.slots.Rollback(current, e.Reason, e.Detail)
			return err
		})
	case health.Try:
		a.restart(func() error {
			return c.slots.Arm(record.ID(e.Slot), slot.DefaultTries)
		})
	case health.Reboot:
		ctx, cancel := context.WithCancel(a.work)
		c.endReboot = cancel
		a.aside(func() func() {
			defer cancel()
			err := a.reboot(ctx, e)
			if err != nil && a.work.Err() == nil { // it explains no later end
				err = errors.Join(err, c.slots.Stays(e.Reason))
			}
			return func() { a.well(health.Restarting{Err: failed(err)}) }
		})
	case health.Stay:
		c.endReboot() // before the next one, whose failure its own would be taken for
		a.aside(func() func() {
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

// aside runs work beside the owner; what it returns is the owner's again.
func (a *Agent) aside(work func() func()) {
	a.workers.Go(func() {
		then := work()
		select {
		case a.results <- then:
		case <-a.work.Done():
		}
	})
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
