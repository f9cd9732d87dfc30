package app

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/clock"
	"tandem.internal/nodeagent/internal/configfile"
	"tandem.internal/nodeagent/internal/identity"
	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/nodeagent/internal/machine"
	"tandem.internal/nodeagent/internal/report"
	"tandem.internal/nodeagent/internal/store"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/link"
	"tandem.internal/shared/pulse"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// ConfigFile and StateFile are the names of the files in the state directory.
const (
	ConfigFile = "config.json"
	StateFile  = "state.db"
)

// Agent is one node's agent. Make it with New, run it once.
type Agent struct {
	cfg    Config
	deps   Deps
	log    *zap.Logger
	id     inbox.Identity
	topics topic.Node
	boot   string
	began  time.Time
	store  *store.Store
	keeper *identity.Keeper // nil: this node has not joined
	link   link.Link
	sender *report.Sender

	in      chan any      // from the link: up, down, message
	closed  chan struct{} // the owner no longer reads in
	results chan func()   // what workers leave to the owner
	workers sync.WaitGroup
	work    context.Context // ends the appliers' work

	// The rest belongs to Run's goroutine.
	kinds     map[wire.Kind]*kind
	info      *kind // reported/info
	trust     inbox.Trust
	savedTime time.Time // trust.Newest as the disk has it
	held      map[wire.Kind]message
	throttle  map[string]inbox.Throttle
	backlog   []wire.Event // events that could not be saved yet
	lost      uint64       // events that there was no room for behind them
	unsaved   bool         // the trust could not be saved yet
	saveAt    time.Duration
	session   uint64 // 0: down
	lastDown  string
	beatAt    time.Duration
	againAt   time.Duration // report everything again; 0: not due
	sent      uint64        // newest event handed to the sender
	answers   answers
	care      care
	duties    duties
	fatal     error
}

// documents is the machine that takes the documents of one kind through the inbox.
type documents = machine.Machine[inbox.State, inbox.Event, inbox.Effect]

// kind is one kind of document, as the agent keeps it.
type kind struct {
	name    wire.Kind
	inbox   documents
	applier Applier // nil: not supported

	seq     uint64        // of the newest report
	current wire.Reported // the newest report
	payload []byte
}

// New opens the state directory and makes an agent that is ready to run. The error is a
// *UsageError for a mistake in cfg.
func New(cfg Config, deps Deps) (*Agent, error) {
	if cfg.StateDir == "" {
		return nil, &UsageError{"state-dir", "required"}
	}
	dir, err := filepath.Abs(cfg.StateDir)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	deps = deps.withDefaults()
	a := &Agent{cfg: cfg, deps: deps, log: deps.Log, in: make(chan any, 16), closed: make(chan struct{}), results: make(chan func()),
		kinds: map[wire.Kind]*kind{}, info: &kind{name: wire.KindInfo}, held: map[wire.Kind]message{},
		throttle: map[string]inbox.Throttle{}, answers: newAnswers()}
	if err := a.identify(dir); err != nil {
		return nil, err
	}
	if err = a.cfg.complete(); err != nil {
		return nil, err
	}
	provisioned, err := a.cfg.unitKey()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	a.id, a.topics = a.cfg.identity(), topic.ForNode(a.cfg.Unit, a.cfg.Node)
	a.store, err = store.Open(store.Config{Path: filepath.Join(dir, StateFile), Unit: a.id.Unit, Node: a.id.Node,
		EventLimit: a.cfg.EventLimit, Faults: deps.StoreFaults})
	if err != nil {
		return nil, err
	}
	a.sent = a.store.NewestEvent()
	if err := a.load(dir); err != nil {
		return nil, errors.Join(err, a.store.Close())
	}
	a.learnKeys(provisioned)
	if err := a.openCare(dir); err != nil {
		return nil, errors.Join(err, a.store.Close())
	}
	a.sender = report.New(a.log, a.sent)
	a.link, err = deps.NewLink(a.linkConfig(), ears{a})
	if err != nil {
		return nil, errors.Join(&UsageError{"broker", err.Error()}, a.store.Close())
	}
	return a, nil
}

// load reads what the store has and makes the kinds with their appliers.
func (a *Agent) load(dir string) error {
	saved, err := a.store.Kinds()
	if err != nil {
		return err
	}
	if a.trust, err = a.store.Trust(); err != nil {
		return err
	}
	a.savedTime = a.trust.Newest
	file := filepath.Join(dir, ConfigFile)
	if err := durable.Clean(file); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	a.add(wire.KindConfig, saved[wire.KindConfig], &configfile.Applier{
		Path: file, ID: a.id, Rules: a.cfg.rules(), Command: strings.Fields(a.cfg.OnApply),
		Timeout: a.cfg.OnApplyTimeout, Steps: a.deps.Steps, Run: a.deps.RunCommand,
	})
	a.add(wire.KindHealth, saved[wire.KindHealth], settingsApplier{a.cfg.health()})
	if err := a.openWorkloads(dir, saved[wire.KindWorkloads]); err != nil {
		return err
	}
	var random [8]byte
	for i := range random {
		random[i] = byte(a.deps.Rand.Uint32())
	}
	a.boot = strconv.FormatUint(a.store.Boots(), 10) + "-" + hex.EncodeToString(random[:])
	return nil
}

// add plugs a kind in. A nil applier means that it is not supported.
func (a *Agent) add(name wire.Kind, saved inbox.Durable, ap Applier) *kind {
	k := &kind{name: name, applier: ap}
	k.inbox = a.machine(k, saved)
	a.kinds[name] = k
	return k
}

func (a *Agent) linkConfig() link.Config {
	me := "node/" + a.id.Node
	live := func(session uint64) link.Publication {
		l := wire.Live{V: wire.Version, Node: a.id.Node, Boot: a.boot, Session: session}
		return link.Publication{Topic: a.topics.Live(), Payload: wire.Encode(&l), Retain: true}
	}
	var conf *tls.Config // the system's authorities
	if a.keeper != nil {
		conf = a.keeper.TLS(a.keeper.Current().Brokers[0].Name)
	}
	return link.Config{
		TLS: conf, Broker: a.cfg.Broker, ClientID: me, Username: me, Password: a.cfg.Password, OpenConn: a.deps.OpenConn,
		Filters:      []string{topic.ForController(a.id.Unit), a.topics.DesiredFilter(), a.topics.Request()},
		SubscribeQoS: a.cfg.qos(),
		Will:         func(session uint64) *link.Publication { p := live(session); return &p },
		Goodbye:      func(session uint64) []link.Publication { return []link.Publication{live(session)} },
		Watch:        a.care.watch.Loop,
		Log:          a.log,
	}
}

// Run runs the agent until ctx ends and everything that it started has stopped. The error is nil
// then, or says why the agent cannot go on.
func (a *Agent) Run(ctx context.Context) error {
	a.began = time.Now()
	roadCtx, leave := context.WithCancel(context.WithoutCancel(ctx))
	workCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	sendCtx, hush := context.WithCancel(context.WithoutCancel(ctx))
	a.work = workCtx

	var sending, keeping, watching sync.WaitGroup
	watchCtx, unwatch := context.WithCancel(context.WithoutCancel(ctx))
	watching.Go(func() { a.care.watch.Run(watchCtx) })
	sending.Go(func() { a.sender.Run(sendCtx, a.link, a.care.watch.Loop) })
	keepCtx, forget := context.WithCancel(context.WithoutCancel(ctx))
	if a.keeper != nil {
		keeping.Go(func() { a.keeper.Run(keepCtx) })
		keeping.Go(func() { a.keeper.RunKeys(keepCtx) })
	}
	keeping.Go(func() {
		if err := a.care.monitor.Run(keepCtx); err != nil {
			a.log.Warn("the monitor has stopped", zap.Error(err))
		}
	})
	var running sync.WaitGroup
	a.runDuties(workCtx, &running)
	road := make(chan error, 1)
	a.care.beat = a.care.watch.Register("owner", pulse.Every)
	a.begin()
	go func() { road <- a.link.Run(roadCtx) }()

	left, linkErr := a.loop(ctx, road)
	a.care.beat.End()
	end := a.care.watch.Register("stop", stopTime) // a new version waits for it, or the old one
	a.stopping()
	close(a.closed)
	forget()
	keeping.Wait()
	stop()
	running.Wait()
	a.workers.Wait()
	hush()
	sending.Wait()
	leave()
	if !left {
		linkErr = <-road
	}
	closeErr := a.store.Close()
	end.End()
	unwatch()
	watching.Wait()
	if left && linkErr == nil && ctx.Err() == nil {
		linkErr = errors.New("it ended by itself")
	}
	if linkErr != nil {
		linkErr = fmt.Errorf("link: %w", linkErr)
	}
	return errors.Join(a.fatal, linkErr, closeErr)
}

// begin takes up what the last run left.
func (a *Agent) begin() {
	a.log.Info("node agent started", zap.String("unit", a.id.Unit), zap.String("node", a.id.Node),
		zap.String("type", a.cfg.Type), zap.String("boot", a.boot), zap.String("broker", a.cfg.Broker))
	if link.Exposed(a.cfg.Broker) {
		a.log.Warn("INSECURE: the broker is reached over a network WITHOUT TLS; whoever is on it can read everything and pose as this node. Join the unit: tandem-node join", zap.String("broker", a.cfg.Broker))
	}
	if a.unsaved {
		a.commit(store.Batch{Trust: &a.trust})
	}
	a.keysLearned()
	for _, name := range slices.Sorted(maps.Keys(a.kinds)) {
		a.kinds[name].inbox.Handle(inbox.Started{})
	}
	a.careFor()
}

// loop is the life of the goroutine that owns the state. left says that the link has ended.
func (a *Agent) loop(ctx context.Context, road <-chan error) (left bool, err error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for a.fatal == nil && !a.care.leaving {
		timer.Reset(a.untilDeadline())
		select {
		case <-ctx.Done():
			return false, nil
		case err := <-road:
			return true, err
		case m := <-a.in:
			a.hear(m)
		case then := <-a.results:
			then()
		case <-a.duties.news:
			a.told()
		case s := <-a.care.monitor.Samples():
			a.sampled(s)
		case r := <-a.care.watch.Reports():
			a.watched(r)
		case <-a.sender.Drained():
			a.sendEvents()
		case <-timer.C:
			a.tick()
		}
	}
	return false, nil
}

// stopping saves what a coarser save may have left out.
func (a *Agent) stopping() {
	for _, name := range slices.Sorted(maps.Keys(a.kinds)) {
		a.kinds[name].inbox.Handle(inbox.Stopping{})
	}
	if a.fatal == nil && !a.trust.Newest.Equal(a.savedTime) {
		_ = a.commit(store.Batch{Trust: &a.trust}) // logged there; what is lost is at most what a crash would lose
	}
	a.stoppingCare()
	a.log.Info("node agent stopping")
}

// now is the present on both clocks.
func (a *Agent) now() clock.Now {
	return clock.Now{Mono: time.Since(a.began), Wall: a.deps.Now()}
}

// far is a deadline that never comes.
const far = 24 * 365 * time.Hour

func (a *Agent) untilDeadline() time.Duration {
	now := time.Since(a.began)
	at := now + far
	if a.session != 0 {
		at = min(at, a.beatAt)
		if a.againAt != 0 {
			at = min(at, a.againAt)
		}
	}
	if a.dirty() {
		at = min(at, a.saveAt)
	}
	for _, k := range a.kinds {
		if t, ok := k.inbox.Due(); ok {
			at = min(at, t)
		}
	}
	return max(0, min(at, a.nextCare())-now)
}

func (a *Agent) tick() {
	now := time.Since(a.began)
	for _, name := range slices.Sorted(maps.Keys(a.kinds)) {
		a.kinds[name].inbox.Elapse(now)
	}
	a.tickCare(now)
	if a.dirty() && now >= a.saveAt {
		a.saveAgain()
	}
	if a.session == 0 {
		return
	}
	if a.againAt != 0 && now >= a.againAt {
		a.againAt = 0
		a.sayEverything()
	} else if now >= a.beatAt {
		a.sayLive()
	}
}

// ears is the agent as the link's handler.
type ears struct{ a *Agent }

type up struct{ session uint64 }

type down struct {
	session uint64
	err     error
}

type message struct {
	topic    string
	payload  []byte
	size     int // of the payload, which is dropped if it is too large
	retained bool
}

func (e ears) Up(session uint64)              { e.tell(up{session}) }
func (e ears) Down(session uint64, err error) { e.tell(down{session, err}) }

func (e ears) Message(m link.Message) {
	size := len(m.Payload)
	if size > wire.MaxPacket {
		m.Payload = nil
	}
	e.tell(message{m.Topic, m.Payload, size, m.Retained})
}

// tell waits for the owner, which holds nobody up for longer than a save takes.
func (e ears) tell(what any) {
	select {
	case e.a.in <- what:
	case <-e.a.closed:
	}
}
