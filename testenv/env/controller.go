package env

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	controller "tandem.internal/controller/app"
	"tandem.internal/shared/link"
	"tandem.internal/shared/link/linktest"
	"tandem.internal/shared/seal"
	"tandem.internal/testenv/fault"
)

// Controller is the controller's machine, and the controller on it when it runs.
type Controller struct {
	Machine *fault.Machine
	Dir     string // its state directory

	e      *Env
	pipe   *linktest.Pipe // of the embedded broker
	road   *fault.Road    // to an external one; nil without
	offset atomic.Int64   // of its clock, nanoseconds
	turned atomic.Bool    // the clock was turned while the controller ran

	app    *controller.App // nil: it does not run
	cancel context.CancelFunc
	done   chan error

	acknowledged []string // versions that were accepted
	highest      uint64   // epoch
	forgetful    bool     // its journal was lost or replaced: it does not know all that it has issued
}

func newController(e *Env) *Controller {
	c := &Controller{e: e, pipe: linktest.NewPipe()}
	c.Machine, c.Dir = e.machine("controller")
	c.Machine.Died = c.fall
	if e.Broker != nil {
		c.road = fault.NewRoad(e.Broker.dial, e.rand())
		c.road.Toll(func(fromBroker bool, _ string) error {
			if fromBroker {
				return nil
			}
			return c.Machine.Do("publish", syscall.EPIPE)
		})
	}
	return c
}

// fall is the moment of death: whatever is connected to this machine is cut off.
func (c *Controller) fall() {
	c.e.Note("controller dies")
	if c.road != nil {
		c.road.Close()
		return
	}
	for _, n := range c.e.nodes {
		n.road.Cut()
	}
}

func (c *Controller) now() time.Time {
	now := time.Now().Add(time.Duration(c.offset.Load()))
	if c.turned.Load() {
		now = now.Round(0)
	}
	return now
}

// SetClock puts the clock of the machine this far from the true time. The controller must not run:
// nothing moves a running process's monotonic clock.
func (c *Controller) SetClock(offset time.Duration) {
	if c.app != nil {
		c.e.Fatal("the controller's clock moves while it runs")
	}
	c.turned.Store(false)
	c.offset.Store(int64(offset))
}

// TurnClock puts the clock this far from the true time while the controller runs. From then on its times have no
// monotonic reading, which cannot be moved: no wait may be under way whose end is told by it.
func (c *Controller) TurnClock(offset time.Duration) {
	c.turned.Store(true)
	c.offset.Store(int64(offset))
}

// Config is what the controller is started with.
func (c *Controller) config() (controller.Config, controller.Deps) {
	cfg := controller.Config{
		Unit: Unit, StateDir: c.Dir, Listen: "127.0.0.1:1883", SubscribeQoS: 1, ReportJitter: 5 * time.Second,
		BrokerUser: "controller", BrokerSecret: password,
	}
	deps := controller.Deps{
		Log: c.e.log("controller"), Now: c.now, NoAPI: true, Steps: c.Machine.Step,
		JournalFaults: controller.Faults{
			BeforeCommit: func() error { return c.Machine.Commit(false) },
			AfterCommit:  func() error { return c.Machine.Commit(true) },
		},
	}
	if c.road != nil {
		deps.External, deps.OpenConn, deps.Rand = true, c.road.Open, c.e.rand()
		deps.Backoff = link.Backoff{Max: 5 * time.Second}
	}
	if c.e.setup.Controller != nil {
		c.e.setup.Controller(&cfg, &deps)
	}
	return cfg, deps
}

// Start starts the controller on what its disk holds.
func (c *Controller) Start() {
	c.e.Helper()
	if err := c.TryStart(); err != nil {
		c.e.Fatalf("%sthe controller does not start: %v", c.e.setup.Label, err)
	}
}

// TryStart is Start for a controller that may refuse.
func (c *Controller) TryStart() error {
	if c.app != nil {
		return errors.New("it runs already")
	}
	if err := c.Machine.Revive(); err != nil {
		return err
	}
	cfg, deps := c.config()
	if c.road == nil {
		l, err := c.pipe.Listen()
		if err != nil {
			return err
		}
		deps.Listeners = []net.Listener{l}
	} else {
		c.road.Clear()
	}
	a, err := controller.New(cfg, deps)
	if err != nil {
		for _, l := range deps.Listeners {
			_ = l.Close() // may have been closed by New
		}
		return err
	}
	c.e.Note("controller starts")
	ctx, cancel := context.WithCancel(context.Background())
	c.app, c.cancel, c.done = a, cancel, make(chan error, 1)
	go func() { c.done <- a.Run(ctx) }()
	return nil
}

// Running reports whether the controller is there; a dead one is not.
func (c *Controller) Running() bool { return c.app != nil && !c.Machine.Dead() }

// Stop ends the controller in good order, or collects it if it is dead.
func (c *Controller) Stop() {
	if c.app == nil {
		return
	}
	dead := c.Machine.Dead()
	c.cancel()
	err := <-c.done
	c.app = nil
	if !dead {
		c.e.Note("controller stopped: %v", err)
	}
	if err != nil && !c.Machine.Failed() {
		c.e.Wrong("the controller ended with: %v", err)
	}
	if c.road != nil {
		c.road.Cut()
	}
}

// Kill lets the machine die; what it had on the disk stays.
func (c *Controller) Kill() {
	c.Machine.Kill()
	c.Stop()
}

// Restart stops the controller, however it is, and starts it again.
func (c *Controller) Restart() {
	c.e.Helper()
	c.Stop()
	c.Start()
}

// Unit is the running controller's core, nil if there is none.
func (c *Controller) Unit() controller.Unit {
	if !c.Running() {
		return nil
	}
	return c.app.Unit()
}

// Journal is the path of the journal.
func (c *Controller) Journal() string { return filepath.Join(c.Dir, "journal.db") }

// Copy is the path of the readable copy of the unit configuration.
func (c *Controller) Copy() string { return filepath.Join(c.Dir, "unit-config.json") }

// LoseJournal takes the journal away, and with it the memory of what was acknowledged.
func (c *Controller) LoseJournal() {
	c.e.Helper()
	c.e.Note("the journal is lost")
	if err := os.Remove(c.Journal()); err != nil {
		c.e.Fatal(err)
	}
	c.acknowledged, c.forgetful = nil, true
}

// Road is the way to an external broker.
func (c *Controller) Road() *fault.Road { return c.road }

// Signer signs with the unit's key, as another controller with the same key would.
func (c *Controller) Signer() *seal.Signer {
	c.e.Helper()
	data, err := os.ReadFile(filepath.Join(c.Dir, "unit-key.pem"))
	if err != nil {
		c.e.Fatal(err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		c.e.Fatal("the unit's key is not PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		c.e.Fatal(err)
	}
	return seal.NewSigner(key.(ed25519.PrivateKey))
}

// Backup returns a copy of the journal's file, made while the controller runs.
func (c *Controller) Backup() []byte {
	c.e.Helper()
	var b bytes.Buffer
	if err := c.Unit().Backup(context.Background(), &b); err != nil {
		c.e.Fatal(err)
	}
	return b.Bytes()
}

// PutJournal replaces the journal's file, and with it the memory of what was acknowledged.
func (c *Controller) PutJournal(data []byte) {
	c.e.Helper()
	c.e.Note("another journal is put in place")
	if err := os.WriteFile(c.Journal(), data, 0o600); err != nil {
		c.e.Fatal(err)
	}
	c.acknowledged, c.forgetful = nil, true
}
