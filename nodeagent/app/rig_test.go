package app

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"tandem.internal/nodeagent/internal/health"
	"tandem.internal/shared/link"
	"tandem.internal/shared/link/linktest"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// rig is a hub, a controller played by the test, and one agent over a state directory that outlives it.
// Everything happens in a synctest bubble.
type rig struct {
	*testing.T
	hub    *linktest.Hub
	signer *seal.Signer
	dir    string
	cfg    Config
	deps   Deps
	topics topic.Node
	asked  int

	mu       sync.Mutex
	reports  map[wire.Kind][]*wire.Reported
	lives    []*wire.Live
	replies  []*wire.Reply
	events   []*wire.Event
	commands []string
	command  func(ctx context.Context, mode, version string) error

	leave func() // tells the agent to end
	stop  func() // ends the agent
	err   error  // of its Run
}

func key(seed byte) ed25519.PrivateKey {
	s := make([]byte, ed25519.SeedSize)
	s[0] = seed
	return ed25519.NewKeyFromSeed(s)
}

// idle are the figures of a node with nothing to do.
var idle = Sources{
	CPU:        func() (Times, error) { return Times{Busy: 1, Idle: 99}, nil },
	RAM:        func() (float64, error) { return 0.25, nil },
	Interfaces: func() ([]Counters, error) { return nil, nil },
	Partition:  func(string) (Usage, error) { return Usage{Bytes: 0.5, Inodes: 0.1}, nil },
}

func newRig(t *testing.T) *rig {
	r := &rig{T: t, hub: linktest.New(), signer: seal.NewSigner(key(1)), dir: t.TempDir(),
		topics:  topic.ForNode("u1", "n1"),
		reports: map[wire.Kind][]*wire.Reported{}}
	r.cfg = NewConfig("u1", "n1", "mainType", r.dir)
	r.cfg.OnApply = "notify --now"
	r.cfg.SamplePeriod = 10 * time.Minute
	log := zap.NewNop()
	if testing.Verbose() {
		log = zaptest.NewLogger(t)
	}
	r.deps = Deps{
		Rand: rand.New(rand.NewPCG(1, 2)), Log: log,
		Capacity: func(i *wire.NodeInfo) error { i.CPUs, i.RAM = 2, 1<<30; return nil },
		NewLink:  r.link,
		Sources:  idle,
		Address:  func(string) bool { return true },
		Machine:  func() Evidence { return Evidence{Kernel: "k1"} },
		RunCommand: func(ctx context.Context, env, argv []string) error {
			e := map[string]string{}
			for _, kv := range env {
				k, v, _ := strings.Cut(kv, "=")
				e[k] = v
			}
			r.mu.Lock()
			r.commands = append(r.commands, e["TANDEM_MODE"]+" "+e["TANDEM_VERSION"]+" "+e["TANDEM_PREVIOUS_VERSION"])
			f := r.command
			r.mu.Unlock()
			if f != nil {
				return f(ctx, e["TANDEM_MODE"], e["TANDEM_VERSION"])
			}
			return nil
		},
	}
	return r
}

func (r *rig) link(cfg link.Config, h link.Handler) (link.Link, error) {
	return r.hub.Link(linktest.Options{ID: cfg.ClientID, Filters: cfg.Filters, Will: cfg.Will, Goodbye: cfg.Goodbye},
		h), nil
}

// listen plays the controller's ears until the bubble ends.
func (r *rig) listen() {
	ctx, cancel := context.WithCancel(context.Background())
	filters := topic.ShardFilters("u1", topic.Shard("n1"))
	l := r.hub.Link(linktest.Options{ID: "controller", Filters: filters}, &linktest.Recorder{OnMessage: r.heard})
	done := make(chan struct{})
	go func() { defer close(done); _ = l.Run(ctx) }()
	synctest.Wait()
	r.Cleanup(func() { cancel(); <-done })
}

func (r *rig) heard(m link.Message) {
	t, err := topic.Parse(m.Topic)
	if err != nil {
		r.Errorf("the agent published on %s: %v", m.Topic, err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch t.Leaf {
	case topic.Reported:
		r.reports[t.Kind] = append(r.reports[t.Kind], decode[wire.Reported](r, m.Payload))
	case topic.Live:
		r.lives = append(r.lives, decode[wire.Live](r, m.Payload))
	case topic.Reply:
		r.replies = append(r.replies, decode[wire.Reply](r, m.Payload))
	case topic.Event:
		r.events = append(r.events, decode[wire.Event](r, m.Payload))
	}
}

func decode[M wire.Message](r *rig, data []byte) *M {
	m, err := wire.Decode[M](data)
	if err != nil {
		r.Errorf("the agent published %s: %v", data, err)
		return new(M)
	}
	return m
}

// start starts an agent and lets it settle.
func (r *rig) start() {
	r.Helper()
	if err := r.tryStart(); err != nil {
		r.Fatal(err)
	}
	synctest.Wait()
}

func (r *rig) tryStart() error {
	a, err := New(r.cfg, r.deps)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); r.err = a.Run(ctx) }()
	r.leave = cancel
	var once sync.Once
	r.stop = func() { once.Do(func() { cancel(); <-done; synctest.Wait() }) }
	r.Cleanup(r.stop)
	return nil
}

func (r *rig) restart() {
	r.Helper()
	r.stop()
	r.start()
}

// beacon publishes a beacon of this epoch, signed and announcing the given signer.
func (r *rig) beacon(epoch uint64, s *seal.Signer, more ...*seal.Signer) {
	b := wire.Beacon{V: wire.Version, Unit: "u1", Epoch: epoch, Up: true, Time: time.Now(), Jitter: "PT10S",
		Keys: []wire.Key{s.Key()}}
	for _, m := range more {
		b.Keys = append(b.Keys, m.Key())
	}
	b.KeysRev = uint64(len(more))
	b.Sig = s.Sign(seal.BeaconPreimage(&b))
	r.publish(topic.ForController("u1"), wire.Encode(&b), true)
}

func (r *rig) publish(topic string, payload []byte, retain bool) {
	r.Helper()
	if err := r.hub.Publish(topic, payload, retain); err != nil {
		r.Fatal(err)
	}
	synctest.Wait()
}

func body(version string) []byte {
	return []byte(`{"formatVersion":"7","version":"` + version + `","labels":["l` + version + `"],"priority":1}`)
}

// doc makes an unsigned document with this stamp; version is rev.0.0.
func doc(epoch, rev uint64) *wire.Desired {
	v := fmt.Sprintf("%d.0.0", rev)
	return &wire.Desired{V: wire.Version, Unit: "u1", Node: "n1", Kind: wire.KindConfig, Epoch: epoch, Rev: rev,
		Version: v,
		Hash:    wire.Hash(body(v)), Issued: time.Now(), Mode: wire.ModeApply, Body: body(v)}
}

func try(d *wire.Desired, within string) *wire.Desired {
	d.Mode, d.ConfirmWithin = wire.ModeTry, within
	return d
}

func with(d *wire.Desired, body string) *wire.Desired {
	d.Body, d.Hash = []byte(body), wire.Hash([]byte(body))
	return d
}

func (r *rig) desire(d *wire.Desired) {
	r.Helper()
	d.Sig = r.signer.Sign(seal.DesiredPreimage(d))
	r.publish(r.topics.Desired(d.Kind), d.Append(nil), true)
}

func (r *rig) request(method wire.Method, params []byte) *wire.Reply {
	r.Helper()
	r.asked++
	return r.ask(&wire.Request{V: wire.Version, Unit: "u1", Node: "n1", ID: fmt.Sprint("q", r.asked), Method: method,
		Params: params, NotAfter: time.Now().Add(time.Minute)})
}

func (r *rig) ask(q *wire.Request) *wire.Reply {
	r.Helper()
	r.sign(q)
	r.mu.Lock()
	before := len(r.replies)
	r.mu.Unlock()
	r.publish(r.topics.Request(), wire.Encode(q), false)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.replies) != before+1 {
		r.Fatalf("%d replies to %s, want one", len(r.replies)-before, q.Method)
	}
	if got := r.replies[before]; got.ID == q.ID {
		return got
	}
	r.Fatalf("reply to %s, want to %s", r.replies[before].ID, q.ID)
	return nil
}

func (r *rig) sign(q *wire.Request) { q.Sig = r.signer.Sign(seal.RequestPreimage(q)) }

func (r *rig) confirm(epoch, rev uint64) *wire.Reply {
	r.Helper()
	p := wire.ConfirmParams{Kind: wire.KindConfig, Epoch: epoch, Rev: rev}
	return r.request(wire.MethodConfirm, wire.Encode(&p))
}

// last is the newest report of kind config, in short: "running/attempted state code".
func (r *rig) last() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.reports[wire.KindConfig]
	if len(all) == 0 {
		return "none"
	}
	return short(all[len(all)-1])
}

func short(p *wire.Reported) string {
	s := "-"
	if p.Running != nil {
		s = p.Running.Version[:strings.Index(p.Running.Version, ".")]
	}
	if l := p.Last; l != nil {
		s += fmt.Sprintf("/%d %s", l.Rev, l.State)
		if l.Error != nil {
			s += " " + string(l.Error.Code)
		}
	}
	return s
}

func (r *rig) want(report string, file string) {
	r.Helper()
	if got := r.last(); got != report {
		r.Errorf("reported %q, want %q", got, report)
	}
	r.wantFile(file)
}

// wantFile checks whose document config.json is: a version or "".
func (r *rig) wantFile(version string) {
	r.Helper()
	data, err := os.ReadFile(filepath.Join(r.dir, ConfigFile))
	if version == "" {
		if !os.IsNotExist(err) {
			r.Errorf("config.json is %s (%v), want none", data, err)
		}
		return
	}
	if err != nil || string(data) != string(body(version)) {
		r.Errorf("config.json is %q (%v), want that of %s", data, err, version)
	}
}

// eventTypes lists the events but for those about the node's own health, which has tests of its own.
func (r *rig) eventTypes() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var types []string
	for _, e := range r.events {
		switch e.Type {
		case health.EventBoot, health.EventContactLost, health.EventContactBack, health.EventCheckFailed,
			health.EventCheckRecovered:
		default:
			types = append(types, e.Type)
		}
	}
	return strings.Join(types, " ")
}

func (r *rig) ran() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := strings.Join(r.commands, ", ")
	r.commands = nil
	return s
}

func (r *rig) onCommand(f func(ctx context.Context, mode, version string) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.command = f
}

func (r *rig) pass(d time.Duration) {
	time.Sleep(d) // virtual: inside a bubble
	synctest.Wait()
}

func b64(b []byte) string { return base64.StdEncoding.EncodeToString(b) }
