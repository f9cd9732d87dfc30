package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tandem.internal/shared/link"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// Config describes a fleet. Unit, Nodes and one of Dial and DialAs must be set.
type Config struct {
	Unit  string
	Nodes int
	Types []string // node i is of type Types[i % len]; nil: one type, "light"

	// Dial opens a connection to the broker, without TLS.
	Dial func(context.Context) (net.Conn, error)
	// DialAs, if not nil, opens a node's connection in the place of Dial, with a certificate of its own.
	DialAs func(ctx context.Context, node string) (net.Conn, error)
	// Key, if not nil, returns the report key of a node, with which it proves what it says; nil: it does not.
	Key func(node string) []byte
	// Dials is how many nodes may be between dialling and CONNACK at a time. Zero means 256.
	Dials int
	// Backoff spaces a node's attempts after its connection broke, as in package link. Zeros mean
	// the agent's own: 250 ms and 30 s.
	Backoff link.Backoff
	// Beat is how often each node says live again. Zero means the agent's own, a minute; the nodes
	// take turns within it.
	Beat time.Duration
	// Answer, if not nil, answers what the nodes do not know by themselves. Many of them may ask at a time.
	Answer func(node string, q *wire.Request) (result []byte, failure *wire.Error)
	// Refuse, if not nil, says why a node refuses a document; nil: it does not. Many nodes may ask at a time.
	Refuse func(node string, d *wire.Desired) *wire.Error
	// Echo, if not 0, makes the nodes bare clients, and is the size of their status in bytes.
	Echo int
}

// Fleet is some running nodes.
type Fleet struct {
	cfg    Config
	boot   string
	beacon string // topic
	echo   []byte
	nodes  []*node
	trust  trust
	bodies seen // of documents
	params seen // of checks
	dials  chan struct{}

	ctx  context.Context
	end  context.CancelFunc
	wg   sync.WaitGroup
	once sync.Once // starting

	count  counters
	target atomic.Int64  // of count.news, for Expect
	woken  chan struct{} // one token: look at the counters again

	version atomic.Pointer[string] // the newest, shared by all nodes

	mu      sync.Mutex
	open    chan struct{} // closed while the nodes may be connected
	reached chan struct{} // closed when target is reached
	said    []byte        // the newest beacon
	known   *wire.Beacon  // it, decoded and verified
	errs    []error       // the first few
}

type counters struct {
	connected, disconnects, arrived, documents, installed, refused, requests, checks, pubacks, statuses,
	news atomic.Int64
}

// Stats are counts since New, except for Online, which is of now.
type Stats struct {
	Online      int   // connected, and everything said on connecting was acknowledged
	Connects    int64 // CONNACKs
	Disconnects int64
	Documents   int64
	Installed   int64 // documents that passed every check
	Refused     int64 // documents, beacons and requests that did not
	Requests    int64
	Checks      int64 // of the requests
	Pubacks     int64
	Statuses    int64   // reports on documents that were acknowledged
	Errors      []error // the first few of whatever went wrong
}

// New makes a fleet that is not connected; see Start.
func New(cfg Config) *Fleet {
	if len(cfg.Types) == 0 {
		cfg.Types = []string{"light"}
	}
	if cfg.DialAs == nil {
		cfg.DialAs = func(ctx context.Context, _ string) (net.Conn, error) { return cfg.Dial(ctx) }
	}
	if cfg.Dials == 0 {
		cfg.Dials = 256
	}
	if cfg.Beat == 0 {
		cfg.Beat = time.Minute
	}
	if cfg.Backoff == (link.Backoff{}) {
		cfg.Backoff = link.Backoff{Min: 250 * time.Millisecond, Max: 30 * time.Second}
	}
	f := &Fleet{
		cfg: cfg, boot: fmt.Sprintf("boot-%x", time.Now().UnixNano()), beacon: topic.ForController(cfg.Unit),
		echo: bytes.Repeat([]byte{'s'}, cfg.Echo), dials: make(chan struct{}, cfg.Dials), woken: make(chan struct{}, 1),
		open: make(chan struct{}),
	}
	f.ctx, f.end = context.WithCancel(context.Background())
	for i := range cfg.Nodes {
		name := Name(i)
		n := &node{f: f, name: name, typ: cfg.Types[i%len(cfg.Types)], topics: topic.ForNode(cfg.Unit, name)}
		if cfg.Key != nil {
			n.key = cfg.Key(name)
		}
		f.nodes = append(f.nodes, n)
	}
	return f
}

// Name is what node i is called in every fleet.
func Name(i int) string { return fmt.Sprintf("node-%05d", i) }

// Start connects every node, or connects them again after Drop, all at once, and returns at once;
// see AwaitOnline.
func (f *Fleet) Start() {
	f.mu.Lock()
	select {
	case <-f.open:
	default:
		close(f.open)
	}
	f.mu.Unlock()
	f.once.Do(func() {
		if f.cfg.Echo == 0 && len(f.nodes) > 0 {
			f.wg.Go(f.beat)
		}
		for _, n := range f.nodes {
			f.wg.Go(func() { n.live(f.ctx) })
		}
	})
}

// beat lets one node after the other say live.
func (f *Fleet) beat() {
	every := max(f.cfg.Beat/time.Duration(len(f.nodes)), time.Millisecond)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for i := 0; ; i = (i + 1) % len(f.nodes) {
		select {
		case <-f.ctx.Done():
			return
		case <-tick.C:
			f.nodes[i].beat()
		}
	}
}

// Drop breaks every connection; the nodes stay away until Start.
func (f *Fleet) Drop() {
	f.mu.Lock()
	select {
	case <-f.open:
		f.open = make(chan struct{})
	default:
	}
	f.mu.Unlock()
	for _, n := range f.nodes {
		n.cut()
	}
}

// Close ends every node, abruptly, and waits.
func (f *Fleet) Close() {
	f.end()
	for _, n := range f.nodes {
		n.cut()
	}
	f.wg.Wait()
}

// AwaitOnline waits until n nodes are online; 0: none.
func (f *Fleet) AwaitOnline(ctx context.Context, n int) error {
	tick := time.NewTicker(2 * time.Millisecond) // a node that leaves wakes nobody
	defer tick.Stop()
	for f.count.arrived.Load() != int64(n) {
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%d of %d nodes are online: %w", f.count.arrived.Load(), n,
				context.Cause(ctx)), errors.Join(f.errors()...))
		case <-f.woken:
		case <-tick.C:
		}
	}
	return nil
}

// Expect returns a channel that is closed when n more reports on documents that were new to their
// node (or, from bare clients, statuses) have been acknowledged. There is one expectation at a
// time.
func (f *Fleet) Expect(n int) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reached = make(chan struct{})
	f.target.Store(f.count.news.Load() + int64(n))
	return f.reached
}

// newsAcked counts an acknowledged report on a new document.
func (f *Fleet) newsAcked() {
	if f.count.news.Add(1) != f.target.Load() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reached != nil {
		close(f.reached)
		f.reached = nil
	}
}

// AckedAt returns when the newest report of node i was acknowledged; zero: never.
func (f *Fleet) AckedAt(i int) time.Time {
	if ns := f.nodes[i].ackedAt.Load(); ns != 0 {
		return time.Unix(0, ns)
	}
	return time.Time{}
}

// Stall makes node i take nothing more in, but for what it is busy with, until resume is called.
func (f *Fleet) Stall(i int) (resume func()) {
	hold := make(chan struct{})
	f.nodes[i].hold.Store(&hold)
	var once sync.Once
	return func() {
		once.Do(func() {
			f.nodes[i].hold.Store(nil)
			close(hold)
		})
	}
}

// Stats returns the counts of now.
func (f *Fleet) Stats() Stats {
	c := &f.count
	return Stats{
		Online: int(c.arrived.Load()), Connects: c.connected.Load(), Disconnects: c.disconnects.Load(),
		Documents: c.documents.Load(),
		Installed: c.installed.Load(), Refused: c.refused.Load(), Requests: c.requests.Load(), Checks: c.checks.Load(),
		Pubacks: c.pubacks.Load(), Statuses: c.statuses.Load(), Errors: f.errors(),
	}
}

func (f *Fleet) gate() chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open
}

func (f *Fleet) poke() {
	select {
	case f.woken <- struct{}{}:
	default:
	}
}

// maxErrors is how many errors are kept.
const maxErrors = 8

func (f *Fleet) note(node string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.errs) < maxErrors {
		f.errs = append(f.errs, fmt.Errorf("%s: %w", node, err))
	}
}

func (f *Fleet) refused(node string, err error) {
	f.count.refused.Add(1)
	f.note(node, err)
}

func (f *Fleet) errors() []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]error(nil), f.errs...)
}

// intern returns a version as one string for all nodes.
func (f *Fleet) intern(version string) string {
	if v := f.version.Load(); v != nil && *v == version {
		return *v
	}
	version = strings.Clone(version)
	f.version.Store(&version)
	return version
}

// decodeBeacon decodes and verifies a beacon, each only once.
func (f *Fleet) decodeBeacon(payload []byte) (*wire.Beacon, error) {
	f.mu.Lock()
	if f.known != nil && bytes.Equal(f.said, payload) {
		defer f.mu.Unlock()
		return f.known, nil
	}
	f.mu.Unlock()
	b, err := wire.Decode[wire.Beacon](payload)
	if err != nil {
		return nil, err
	}
	if b.Unit != f.cfg.Unit {
		return nil, wire.New(wire.CodeWrongTarget, "/unit", "another unit's")
	}
	if err := f.trust.pin(b); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.said, f.known = bytes.Clone(payload), b
	return b, nil
}

// later runs fn after a while, unless the fleet is closed.
func (f *Fleet) later(d time.Duration, fn func()) {
	f.wg.Go(func() { // from a node's goroutine, which is counted
		if sleep(f.ctx, d) {
			fn()
		}
	})
}
