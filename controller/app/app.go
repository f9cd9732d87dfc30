package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"

	"tandem.internal/broker/server"
	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/backup"
	"tandem.internal/controller/internal/clock"
	"tandem.internal/controller/internal/distribute"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/kinds"
	"tandem.internal/controller/internal/metrics"
	"tandem.internal/controller/internal/notify/deliver"
	"tandem.internal/controller/internal/revoked"
	"tandem.internal/controller/internal/submitter"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/link"
	"tandem.internal/shared/runlog"
	"tandem.internal/shared/settings"
	"tandem.internal/shared/topic"
)

// Deps are what a test or another program gives the controller instead of the real world. The zero
// value is production.
type Deps struct {
	Log *zap.Logger // nil: silent
	// Level is what Log logs, which operators change for a while; nil: one that Log does not obey
	Level *runlog.Level
	Now   func() time.Time // nil: time.Now
	// Machine tells whether Now has jumped; the zero value: that is not looked for. See ThisMachine.
	Machine clock.Machine

	Listeners    []net.Listener                              // of the embedded broker; nil: Config.Listen
	TLSListener  net.Listener                                // below its TLS; nil: Config.ListenTLS
	JoinListener net.Listener                                // below the join door's TLS; nil: Config.JoinListen
	BrokerLimits server.Limits                               // of the embedded broker
	NoAPI        bool                                        // no socket is opened; use App.Unit
	OpenConn     func(ctx context.Context) (net.Conn, error) // to an external broker; nil: Config.Broker is dialled
	// use an external broker though Config.Broker is empty (with OpenConn)
	External bool
	Backoff  link.Backoff // of the link to an external broker
	Rand     *rand.Rand   // of that link; nil: its own

	JournalFaults journal.Faults // fault seams
	Steps         durable.Steps
	Fleet         fleet.Options
	Tune          func(*distribute.Config) // last word on the core's timing
}

// GCPercent is the collector's setting that suits a controller, unless $GOGC says otherwise. Of the
// processor time of an apply, a quarter went into collecting at Go's 100: what is alive is small
// (21 KiB a node, 2 MB for a hundred) and the messages of a burst are garbage at once. At 200 the
// heap may grow to three times what is alive during bursts, instead of twice.
const GCPercent = 200

// App is a controller.
type App struct {
	cfg    Config
	log    *zap.Logger
	core   *distribute.Core
	link   link.Link
	broker *server.Server // nil with an external broker
	up     chan struct{}  // closed when a local link's intake stands
	api    *api.API
	doors  []net.Listener
	url    string // of the HTTP API over TCP; "": none
	trust  trust
	clock  *clock.Guard
	shown  *metrics.Metrics
	origin *backup.Origin // nil: the unit was never restored

	notices *deliver.Manager
}

// New opens the journal, the broker and the doors. What it opened is closed again when it fails.
func New(cfg Config, deps Deps) (a *App, err error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if err := cfg.exportPlace(); err != nil {
		return nil, &UsageError{err}
	}
	if deps.Log == nil {
		deps.Log = zap.NewNop()
	}
	deps.Log = deps.Log.With(zap.String("unit", cfg.Unit))
	var undo []func() error
	defer func() {
		if err != nil {
			for i := len(undo) - 1; i >= 0; i-- {
				if uerr := undo[i](); uerr != nil {
					deps.Log.Debug("undoing a failed start", zap.Error(uerr))
				}
			}
		}
	}()
	if err := stateDir(cfg.StateDir); err != nil {
		return nil, err
	}
	if err := backup.Check(cfg.StateDir); err != nil {
		return nil, fmt.Errorf("--state-dir: %w", err)
	}
	origin, err := backup.Restored(cfg.StateDir)
	if err != nil {
		return nil, fmt.Errorf("--state-dir: %w", err)
	}
	journalPath := filepath.Join(cfg.StateDir, "journal.db")
	keys, err := openKeyring(cfg.StateDir, journalPath, deps.Steps)
	if err != nil {
		return nil, err
	}
	a = &App{cfg: cfg, log: deps.Log, up: make(chan struct{}), origin: origin}
	a.clock = clock.New(clock.Config{Now: deps.Now, Machine: deps.Machine, Steps: deps.Steps,
		Path: filepath.Join(cfg.StateDir, clock.FileName)})
	deps.Now = a.clock.Now
	a.shown = metrics.New(metrics.Config{Version: settings.Version, Now: deps.Now, Kinds: kinds.All()})
	external := cfg.Broker != "" || deps.External
	a.core, err = distribute.New(a.coreConfig(deps, journalPath, keys, external))
	if err != nil {
		return nil, err
	}
	undo = append(undo, a.core.Close)
	if err := backup.Check(cfg.StateDir); err != nil { // it may have been moved meanwhile
		return nil, fmt.Errorf("--state-dir: %w", err)
	}
	if err := a.openNotices(deps); err != nil {
		return nil, err
	}
	if err := a.openTrust(deps, &undo); err != nil {
		return nil, err
	}

	if external {
		a.link, err = a.dial(deps)
	} else {
		a.link, err = a.embed(deps)
	}
	if err != nil {
		return nil, err
	}
	if a.broker != nil {
		undo = append(undo, a.broker.Close)
	}
	a.core.Attach(a.link)
	a.show()

	if !deps.NoAPI {
		if err := a.openDoors(deps, &undo); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func (a *App) coreConfig(deps Deps, journalPath string, keys *keyring, external bool) distribute.Config {
	newEpoch := a.cfg.NewEpoch
	c := distribute.Config{
		Kinds: kinds.All(),
		Unit:  a.cfg.Unit, Version: settings.Version, Copy: a.cfg.copyPath(), Steps: deps.Steps,
		Signer: keys.first, Keyring: keys, NewKey: a.cfg.NewKey, Clock: a.clock, Log: deps.Log, LogLevel: deps.Level,
		Fleet: deps.Fleet,
		Inbox: a.cfg.Inbox, Desired: a.cfg.Steering == steeringDesired, Cloud: a.cfg.Steering == steeringCloud,
		Rebalance: a.cfg.Rebalance, Jitter: a.cfg.ReportJitter, StopMaintenance: a.cfg.StopMaintenance,
		Artefacts: a.cfg.artefactStore(),
		Revoked:   filepath.Join(a.cfg.StateDir, revoked.FileName),
		Backup:    a.cfg.backup, BackupTo: a.cfg.BackupTo, BackupEvery: a.cfg.BackupEvery, Origin: a.origin,
		Broker: view.Broker{Embedded: !external, Address: a.cfg.Broker}, Meter: a.shown,
		Open: func() (*journal.Journal, error) {
			opt := journal.Options{Now: deps.Now, Log: deps.Log, NewEpoch: newEpoch, Faults: deps.JournalFaults}
			newEpoch = false // it is opened again after a failure
			return journal.Open(journalPath, opt)
		},
	}
	a.cfg.keepIn(&c)
	if !external {
		c.Broker.Address = a.cfg.plainListen()
		if a.cfg.ListenTLS != "" {
			c.Broker.Address = "tls://" + a.cfg.ListenTLS
		}
		c.Cut = func(subject, why string) {
			if a.broker != nil {
				a.broker.Disconnect(subject, why)
			}
		}
	}
	c.Trouble, c.CAsChanged = a.trouble, a.endSessions
	if a.cfg.Submitters != "" {
		c.Submitters = submitter.List{Path: a.cfg.Submitters}
	}
	if c.Fleet.Limits == (fleet.Limits{}) {
		c.Fleet.Limits = fleet.Limits{StateRate: a.cfg.NodeReportRate, StateBurst: a.cfg.NodeReportBurst,
			EventRate: a.cfg.NodeEventRate, EventBurst: a.cfg.NodeEventBurst}
	}
	if c.Fleet.CheckTimeout == 0 {
		c.Fleet.CheckTimeout = a.cfg.CheckTimeout
	}
	if c.Fleet.ReportGrace == 0 {
		c.Fleet.ReportGrace = a.cfg.ReportGrace
	}
	if deps.Tune != nil {
		deps.Tune(&c)
	}
	return c
}

// embed makes the broker inside this process, and a link that nothing can be dropped from.
func (a *App) embed(deps Deps) (link.Link, error) {
	listeners := deps.Listeners
	if at := a.cfg.plainListen(); listeners == nil && at != "" && deps.TLSListener == nil {
		l, err := listen("--listen", at)
		if err != nil {
			return nil, err
		}
		listeners = []net.Listener{l}
	}
	if l := a.trust.listener; l != nil {
		listeners = append(slices.Clip(listeners), l)
	}
	b, err := server.New(server.Config{
		Unit: a.cfg.Unit, Listeners: listeners, Log: deps.Log, Limits: deps.BrokerLimits, OnEvent: a.brokerEvent,
		Passwords: a.cfg.Passwords, Verify: a.trust.access.verify,
	})
	if err != nil {
		for _, l := range listeners {
			err = errors.Join(err, l.Close())
		}
		return nil, err
	}
	a.broker = b
	return link.NewLocal(embedded{b, a.core.Take}, upHandler{a.core.Handler(), a.up},
		link.LocalOptions{Goodbye: a.core.Goodbye}), nil
}

// subscriptions are the topics that the controller asks an external broker for.
func (c *Config) subscriptions() []string {
	filters := []string{topic.ForController(c.Unit)}
	if c.Inbox {
		filters = append(filters, topic.ForInbox(c.Unit, "+"))
	}
	for _, shard := range topic.Shards() {
		filters = append(filters, topic.ShardFilters(c.Unit, shard)...)
	}
	return filters
}

// dial makes the link to an external broker.
func (a *App) dial(deps Deps) (link.Link, error) {
	qos := link.AtLeastOnce
	if a.cfg.SubscribeQoS == 0 {
		qos = link.AtMostOnce
	}
	backoff := deps.Backoff
	if backoff == (link.Backoff{}) {
		// One controller: a quick return matters more than a storm of one. But brokers block addresses for guesses.
		backoff = link.Backoff{Max: 250 * time.Millisecond, Refused: 2 * time.Minute}
	}
	conf, err := a.brokerTLS()
	if err != nil {
		return nil, err
	}
	return link.Dial(link.Config{
		TLS: conf, Broker: a.cfg.Broker, OpenConn: deps.OpenConn, ClientID: cmp.Or(a.cfg.BrokerClient, "controller"),
		Username: a.cfg.BrokerUser, Password: a.cfg.BrokerSecret,
		Filters: a.cfg.subscriptions(), SubscribeQoS: qos, Will: a.core.Will, Goodbye: a.core.Goodbye,
		Window: 1024, BufferSize: 64 << 10, Backoff: backoff, Rand: deps.Rand, Log: deps.Log,
	}, &road{Handler: a.core.Handler(), log: a.log})
}

// Handler is where the link brings what it hears. A program with messages from elsewhere may bring
// them here, too; the call returns when they are durable.
func (a *App) Handler() link.Handler { return a.core.Handler() }

// Unit is the running core, as the API sees it.
func (a *App) Unit() Unit { return a.core }

// Addr is where the embedded broker listens, nil with an external one.
func (a *App) Addr() net.Addr {
	if a.broker == nil {
		return nil
	}
	return a.broker.Addr()
}

// Run is the controller's life: it returns when ctx ends or a part has failed, and everything has
// stopped. The order of stopping: doors, link (with a goodbye to the nodes), broker, core.
func (a *App) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	part := func(name string, run func(context.Context) error) (stop func() error) {
		own, end := context.WithCancel(context.WithoutCancel(ctx))
		done := make(chan error, 1)
		go func() {
			err := run(own)
			if err != nil {
				err = fmt.Errorf("%s: %w", name, err)
				cancel(err)
			}
			done <- err
		}()
		return func() error {
			end()
			return <-done
		}
	}
	stopCore := part("core", a.core.Run)
	stopLink := part("link", a.link.Run)
	stopBroker := func() error { return nil }
	var err error
	if a.broker != nil {
		stopBroker = a.broker.Close // also of one that was never started: it has the listeners
		select {
		case <-a.up: // from now on the intake hears everything
			err = a.broker.Start()
		case <-ctx.Done():
		}
	}
	stopGuard, stopDoor := func() error { return nil }, a.trust.close
	if a.trust.listener != nil && err == nil {
		stopGuard = part("guard", a.guard)
	}
	if a.trust.door != nil && err == nil {
		stopDoor = part("join door",
			func(ctx context.Context) error { return a.trust.door.Serve(ctx, a.trust.joinListener) })
	}
	stopNotices := part("notices", a.notices.Run)
	stopAPI := func() error { return nil }
	if a.api != nil && err == nil {
		stopAPI = part("API", func(ctx context.Context) error { return a.api.Serve(ctx, a.doors...) })
	}
	if err == nil {
		for _, what := range a.cfg.exposed() {
			a.log.Warn("INSECURE: " + what)
		}
		inbox := "off"
		if a.cfg.Inbox {
			inbox = "on"
			if a.cfg.Submitters == "" {
				a.log.Warn("the MQTT inbox is on: whoever can submit at the broker can run programs on every node")
			}
		}
		a.log.Info("controller is running", zap.String("version", settings.Version),
			zap.String("inbox", inbox))
		<-ctx.Done()
	}
	err = errors.Join(err, stopAPI(), stopNotices(), stopDoor(), stopGuard())
	a.core.Refuse() // what comes between the goodbye and the end of the broker is not acknowledged
	return errors.Join(err, stopLink(), stopBroker(), stopCore())
}

// embedded shows the broker server as package link wants it.
type embedded struct {
	*server.Server
	take func(bring func()) error
}

// Intake refuses what the core does not take, before or because of the message: it is then neither
// retained nor acknowledged, and its sender, cut off, sends it again when it is back.
func (e embedded) Intake(f func(topic string, payload []byte)) {
	e.Server.IntakeErr(func(m server.Message) error {
		return e.take(func() { f(m.Topic, m.Payload) })
	})
}

// upHandler tells when a local link is ready for the broker to start.
type upHandler struct {
	link.Handler
	up chan struct{}
}

func (u upHandler) Up(session uint64) {
	u.Handler.Up(session)
	close(u.up)
}

// brokerEvent journals what a client did that it had no business doing.
func (a *App) brokerEvent(ev server.Event) {
	if ev.Kind == server.Connected {
		if why := a.trust.access.recheck(ev.ClientID); why != "" {
			a.broker.Disconnect(ev.ClientID, why)
		}
		return
	}
	if node, topic, err := misconduct(ev); err != nil {
		a.core.Misbehaved(node, topic, err)
	}
}
