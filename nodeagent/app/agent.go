package app

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"tandem.internal/nodeagent/internal/fetch"
	"tandem.internal/nodeagent/internal/identity"
	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/nodeagent/internal/kinds/components"
	"tandem.internal/nodeagent/internal/kinds/policies"
	"tandem.internal/nodeagent/internal/quiet"
	"tandem.internal/nodeagent/internal/report"
	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/nodeagent/internal/store"
	"tandem.internal/shared/flow"
	"tandem.internal/shared/link"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/runlog"
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
	cfg   Config
	deps  Deps
	log   *zap.Logger
	lines runlog.Ring // the newest of log

	textfile textfile
	recent   recent
	id       inbox.Identity
	topics   topic.Node
	boot     string
	began    time.Time
	store    *store.Store
	renewer  *identity.Renewer // nil: this node has not joined
	link     link.Link
	prover   prover
	sender   *report.Sender

	in      chan any      // from the link and the identity: up, down, message, …
	closed  chan struct{} // the owner no longer reads in
	posted  *posted       // what others leave to the owner
	workers sync.WaitGroup
	work    context.Context // of the workers: ends when the agent stops

	// The rest belongs to Run's goroutine.
	quiet      *quiet.Watch
	limit      *rate.Limiter  // of all downloads
	torrents   fetch.Torrents // nil: none
	documents  []*documents   // by name of the kind
	publishers publisher.Keys
	decrypt    fetch.Decrypt // nil: there is no key
	policies   *policies.Policies
	components *components.Components
	nodePolicy jsontext.Value // of --node-policy; nil: none
	unknown    map[wire.Kind]*reported
	info       reported      // reported/info
	devices    []wire.Shared // as it was told last
	trust      inbox.Trust
	savedTime  time.Time // trust.Newest as the disk has it
	held       map[wire.Kind]message
	throttle   map[string]flow.Throttle
	backlog    []wire.Event // events that could not be saved yet
	lost       uint64       // events that there was no room for behind them
	unsaved    bool         // the trust could not be saved yet
	saveAt     time.Duration
	session    uint64 // 0: down
	greeted    bool   // a beacon was heard in this session
	view       inbox.View
	asks       string // what the next live message asks for, see wire.Live
	lastDown   string
	beatAt     time.Duration
	againAt    time.Duration // report everything again; 0: not due
	sent       uint64        // newest event handed to the sender
	answers    answers
	node       nodeState
	fatal      error
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
	a := &Agent{cfg: cfg, deps: deps, in: make(chan any, 16), closed: make(chan struct{}),
		posted: newPosted(), info: reported{name: wire.KindInfo}, unknown: map[wire.Kind]*reported{},
		held: map[wire.Kind]message{}, throttle: map[string]flow.Throttle{}, answers: newAnswers()}
	a.log = a.lines.Keep(deps.Log)
	err = a.identify(dir)
	for _, f := range []zap.Field{zap.String("unit", a.cfg.Unit), zap.String("node", a.cfg.Node)} {
		if f.String != "" {
			a.log = a.log.With(f)
		}
	}
	a.tellBrought()
	if err != nil {
		return nil, err
	}
	if err = a.cfg.complete(); err != nil {
		return nil, err
	}
	provisioned, err := a.cfg.unitKey()
	if err != nil {
		return nil, err
	}
	if a.publishers, err = a.cfg.PublisherSetting.Read(); err != nil {
		return nil, err
	}
	if a.decrypt, err = a.cfg.decrypt(deps.Decrypter); err != nil {
		return nil, err
	}
	if a.nodePolicy, err = a.cfg.nodePolicy(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	a.id, a.topics = a.cfg.identity(), topic.ForNode(a.cfg.Unit, a.cfg.Node)
	if a.store, err = store.Open(a.storeConfig(dir)); err != nil {
		return nil, err
	}
	if err := a.store.Held(); err != nil {
		a.log.Warn("the state file is not upgraded; the next start tries again", zap.Error(err))
	}
	a.sent = a.store.NewestEvent()
	if err := a.load(dir); err != nil {
		return nil, errors.Join(err, a.store.Close())
	}
	a.learnKeys(provisioned)
	a.prover.setHeard(wire.Heard{Epoch: a.trust.Epoch, Time: a.trust.Newest})
	if err := a.openNode(dir); err != nil {
		return nil, errors.Join(err, a.store.Close())
	}
	a.sender = report.New(a.log, a.sent)
	a.link, err = deps.NewLink(a.linkConfig(), ears{a})
	if err != nil {
		return nil, errors.Join(&UsageError{"broker", err.Error()}, a.store.Close())
	}
	a.prover.link = a.link
	return a, nil
}

// storeConfig says which state file is opened, and whether an older agent may have to read it again.
func (a *Agent) storeConfig(dir string) store.Config {
	return store.Config{Path: filepath.Join(dir, StateFile), Unit: a.id.Unit, Node: a.id.Node,
		EventLimit: a.cfg.EventLimit, Trial: a.onTrial(), Had: a.hadState(dir), Now: a.deps.Now,
		Warn:   func(err error) { a.log.Warn("what is old is not written twice", zap.Error(err)) },
		Faults: a.deps.StoreFaults}
}

// onTrial reports whether this agent runs on trial: the one before it may come back.
func (a *Agent) onTrial() bool {
	trial, _ := a.deps.LookupEnv(slot.EnvTrial)
	return trial == "1"
}

// load reads what the store has and makes the kinds.
func (a *Agent) load(dir string) error {
	saved, err := a.store.Kinds()
	if err != nil {
		return err
	}
	if a.trust, err = a.store.Trust(); err != nil {
		return err
	}
	a.savedTime = a.trust.Newest
	kinds, err := a.kinds(dir)
	if err != nil {
		return err
	}
	for _, k := range kinds {
		a.documents = append(a.documents, a.newDocuments(k, saved[k.Name]))
	}
	slices.SortFunc(a.documents, func(x, y *documents) int { return strings.Compare(string(x.name), string(y.name)) })
	var random [8]byte
	for i := range random {
		random[i] = byte(a.deps.Rand.Uint32())
	}
	a.boot = strconv.FormatUint(a.store.Boots(), 10) + "-" + hex.EncodeToString(random[:])
	return nil
}

func (a *Agent) linkConfig() link.Config {
	me := "node/" + a.id.Node
	live := func(session uint64) link.Publication {
		l := wire.Live{V: wire.Version, Node: a.id.Node, Boot: a.boot, Session: session}
		return link.Publication{Topic: a.topics.Live(), Payload: wire.Encode(&l), Retain: true}
	}
	var conf *tls.Config // the system's authorities
	if a.renewer != nil {
		conf = a.renewer.BrokerTLS(a.brokerName())
	}
	return link.Config{
		TLS: conf, Broker: a.cfg.Broker, ClientID: me, Username: me, Password: a.cfg.Password,
		OpenConn:     a.deps.OpenConn,
		Filters:      []string{topic.ForController(a.id.Unit), a.topics.DesiredFilter(), a.topics.Request()},
		SubscribeQoS: a.cfg.qos(),
		Will:         func(session uint64) *link.Publication { p := live(session); return &p },
		Goodbye:      func(session uint64) []link.Publication { return []link.Publication{live(session)} },
		Watch:        a.node.watch.Loop,
		Log:          a.log,
	}
}
