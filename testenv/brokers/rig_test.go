package brokers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"

	controller "tandem.internal/controller/app"
	node "tandem.internal/nodeagent/app"
	"tandem.internal/shared/link"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/cloud"
	"tandem.internal/testenv/proc"
)

// life is something that runs until it is told to stop.
type life struct {
	end  context.CancelFunc
	done chan error
}

func live(run func(context.Context) error) *life {
	ctx, cancel := context.WithCancel(context.Background())
	l := &life{cancel, make(chan error, 1)}
	go func() { l.done <- run(ctx) }()
	return l
}

func (l *life) stop() error {
	l.end()
	return <-l.done
}

// rig is a unit on a broker. Tests of one rig run one after another.
type rig struct {
	*testing.T
	b   broker
	is  traits
	dir string
	log *zap.Logger

	app   *controller.App
	ctl   *life
	nodes map[string]*member
	first []string    // names of those that run from the beginning on
	cloud *cloud.Side // may submit: the controller is started with --inbox; nil: nobody may
	minor int
}

// backoff keeps the tests short.
var backoff = link.Backoff{Min: 20 * time.Millisecond, Max: 300 * time.Millisecond}

func (r *rig) startController() {
	r.Helper()
	cfg := controller.Config{
		Unit: unit, StateDir: filepath.Join(r.dir, "controller"), SubscribeQoS: r.is.qos, BrokerUser: "controller",
		BrokerSecret: password, Inbox: r.cloud != nil, ReportJitter: 100 * time.Millisecond,
		CheckTimeout: 2 * time.Second, ReportGrace: 500 * time.Millisecond,
	}
	if r.cloud != nil {
		cfg.Submitters = r.cloud.File
	}
	if r.is.embedded {
		cfg.Listen, cfg.Passwords = r.b.address(), map[string]string{"cloud/c1": password}
	} else {
		cfg.Broker = "tcp://" + r.b.address()
	}
	var err error
	if r.app, err = controller.New(cfg, controller.Deps{Log: r.log.Named("controller"), NoAPI: true,
		Backoff: backoff}); err != nil {
		r.Fatal(err)
	}
	r.ctl = live(r.app.Run)
	r.until("the controller has a broker", func() string {
		st, err := r.app.Unit().Status(r.Context())
		if err != nil {
			return err.Error()
		}
		if !st.Broker.Up {
			return "no: " + st.Broker.Error
		}
		return ""
	})
}

func (r *rig) stopController() {
	r.Helper()
	if r.ctl == nil {
		return
	}
	if err := r.ctl.stop(); err != nil {
		r.Error(err)
	}
	r.ctl = nil
}

func (r *rig) restartController() {
	r.Helper()
	r.stopController()
	r.startController()
	for _, name := range r.first {
		r.awaitOnline(name, true)
	}
}

// entries are the journal's records of some types, oldest first.
func (r *rig) entries(types ...string) []controller.Entry {
	r.Helper()
	all, err := r.app.Unit().Entries(r.Context(), controller.EntryFilter{Types: types, Limit: 1 << 20})
	if err != nil {
		r.Fatal(err)
	}
	return all
}

// restartBroker stops the broker, one way or another, lets something happen, and starts it again.
func (r *rig) restartBroker(stop func(), meanwhile ...func()) {
	r.Helper()
	if r.is.embedded {
		r.stopController()
		r.startController()
		return
	}
	stop()
	for _, f := range meanwhile {
		f()
	}
	r.b.start()
}

func (r *rig) until(what string, check func() string) {
	r.Helper()
	proc.Until(r.T, what, check)
}

// member is a node: its machine, and the agent when it runs.
type member struct {
	name, kind  string
	maxPriority int
	road        road
	agent       *life
}

// road is a node's way to the broker, which a test can cut.
type road struct {
	mu   sync.Mutex
	cut  bool
	conn net.Conn
}

func (w *road) open(addr string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		w.mu.Lock()
		cut := w.cut
		w.mu.Unlock()
		if cut {
			return nil, errors.New("the road is cut")
		}
		c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		w.mu.Lock()
		w.conn = c
		w.mu.Unlock()
		return c, nil
	}
}

// close cuts the connection off in the middle of whatever it carries.
func (w *road) close() {
	w.mu.Lock()
	w.cut = true
	c := w.conn
	w.mu.Unlock()
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // a reset rather than an orderly end
		_ = tcp.Close()
	}
}

func (w *road) heal() {
	w.mu.Lock()
	w.cut = false
	w.mu.Unlock()
}

func (r *rig) startNode(name string) {
	r.Helper()
	m := r.nodes[name]
	cfg := node.NewConfig(unit, name, m.kind, filepath.Join(r.dir, name))
	cfg.SubscribeQoS, cfg.MaxPriority, cfg.Broker = r.is.qos, m.maxPriority, "tcp://"+r.b.address()
	a, err := node.New(cfg, node.Deps{
		Log: r.log.Named(name), OpenConn: m.road.open(r.b.address()),
		Capacity: func(i *wire.NodeInfo) error { i.CPUs, i.RAM = 2, 1<<30; return nil },
		NewLink: func(cfg link.Config, h link.Handler) (link.Link, error) {
			cfg.Backoff = backoff
			return link.Dial(cfg, h)
		},
	})
	if err != nil {
		r.Fatal(err)
	}
	m.agent = live(a.Run)
}

func (r *rig) stopNode(name string) {
	r.Helper()
	if m := r.nodes[name]; m.agent != nil {
		if err := m.agent.stop(); err != nil {
			r.Errorf("%s: %v", name, err)
		}
		m.agent = nil
	}
}

func (r *rig) node(name string) (controller.Node, error) {
	return r.app.Unit().Node(r.Context(), controller.NodeIn{Node: name})
}

func (r *rig) awaitOnline(name string, online bool) {
	r.Helper()
	r.until(fmt.Sprintf("%s is online: %v", name, online), func() string {
		n, err := r.node(name)
		if err != nil {
			return err.Error()
		}
		if n.Online != online {
			return fmt.Sprint(n.Online)
		}
		return ""
	})
}

// awaitVersion waits until the nodes run a version and the controller knows.
func (r *rig) awaitVersion(version string, names ...string) {
	r.Helper()
	for _, name := range names {
		r.until(name+" runs "+version, func() string {
			n, err := r.node(name)
			if err != nil {
				return err.Error()
			}
			d := n.Documents[wire.KindConfig]
			if d.Running == nil || d.Running.Version != version || !n.InSync {
				return fmt.Sprintf("it runs %+v, last tried %+v", d.Running, d.Last)
			}
			return ""
		})
		if !r.onDisk(name, version) {
			r.Errorf("%s reports to run %s but its file does not say so", name, version)
		}
	}
}

func (r *rig) onDisk(name, version string) bool {
	data, err := os.ReadFile(filepath.Join(r.dir, name, node.ConfigFile))
	return err == nil && strings.Contains(string(data), `"version":"`+version+`"`)
}

// next is a version above all before it.
func (r *rig) next() string {
	r.minor++
	return fmt.Sprintf("1.%d.0", r.minor)
}

func (r *rig) submit(s controller.Submission) controller.Result {
	r.Helper()
	s.Who, s.Via = "test", "http"
	res, err := r.app.Unit().Submit(r.Context(), s)
	if err != nil {
		r.Fatal(err)
	}
	return res
}

// apply applies a new version that every node takes.
func (r *rig) apply() string {
	r.Helper()
	v := r.next()
	if res := r.submit(controller.Submission{Kind: "config",
		Document: proc.Document(v, r.minor)}); res.State != "accepted" {
		r.Fatalf("%s: %+v", v, res)
	}
	return v
}

// probe is a client that is neither controller nor node, and remembers all that it hears.
// Messages come in no order that means anything.
type probe struct {
	link.Link
	life  *life
	mu    sync.Mutex
	up    bool
	all   map[string][][]byte
	downs chan error // nil: nobody asks
}

func (p *probe) Up(uint64) {
	p.mu.Lock()
	p.up = true
	p.mu.Unlock()
}
func (p *probe) Down(_ uint64, err error) {
	p.mu.Lock()
	p.up = false
	p.mu.Unlock()
	select {
	case p.downs <- err:
	default:
	}
}
func (p *probe) Message(m link.Message) {
	p.mu.Lock()
	p.all[m.Topic] = append(p.all[m.Topic], m.Payload)
	p.mu.Unlock()
}

// heard is all that was heard on a topic.
func (p *probe) heard(topic string) [][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.all[topic])
}

// newProbe connects a client; it knows what the broker retains now, and hears what comes.
func (r *rig) newProbe(id string, filters ...string) *probe {
	r.Helper()
	p := &probe{all: map[string][][]byte{}}
	qos := link.AtLeastOnce
	if r.is.qos == 0 {
		qos = link.AtMostOnce
	}
	l, err := link.Dial(link.Config{Broker: "tcp://" + r.b.address(), ClientID: id, Username: id, Password: password,
		Filters: filters, SubscribeQoS: qos, Backoff: backoff, Log: r.log.Named(id)}, p)
	if err != nil {
		r.Fatal(err)
	}
	p.Link, p.life = l, live(l.Run)
	r.until(id+" is connected", func() string {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.up {
			return "no"
		}
		return ""
	})
	return p
}

// newRig starts a unit of three nodes.
func newRig(t *testing.T, b broker, is traits) *rig {
	r := &rig{T: t, b: b, is: is, dir: t.TempDir(), log: zaptest.NewLogger(t, zaptest.Level(zapcore.InfoLevel))}
	r.nodes = map[string]*member{
		"n1":   {name: "n1", kind: "main", maxPriority: -1},
		"n2":   {name: "n2", kind: "second", maxPriority: 1000},
		"late": {name: "late", kind: "main", maxPriority: -1},
	}
	r.first = []string{"n1", "n2", "ecu-3_b"}
	if !is.noDots {
		r.first[2] = "ecu-3.b_x" // every kind of character that a name may have
	}
	r.nodes[r.first[2]] = &member{name: r.first[2], kind: "second", maxPriority: -1}
	b.start()
	r.startController()
	t.Cleanup(func() {
		for name := range r.nodes {
			r.stopNode(name)
		}
		r.stopController()
		b.kill() // a process has been ended by now
	})
	return r
}
