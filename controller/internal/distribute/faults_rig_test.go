package distribute

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/kinds"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/link"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDisk = errors.New("no space left on device")

// disk is the journal's: its commits fail or stand still as told, those of every journal opened on it.
type disk struct {
	mu      sync.Mutex
	good    int           // so many commits work
	before  int           // then so many fail and are not on the disk
	after   int           // then so many fail and are on the disk all the same
	late    bool          // the commit under way is one of these
	gate    chan struct{} // commits wait until it is closed; nil: they do not
	commits int           // tried
}

func (d *disk) faults() journal.Faults {
	return journal.Faults{
		BeforeCommit: func() error {
			d.mu.Lock()
			gate := d.gate
			d.mu.Unlock()
			if gate != nil {
				<-gate
			}
			d.mu.Lock()
			defer d.mu.Unlock()
			d.commits++
			d.late = false
			switch {
			case d.good > 0:
				d.good--
			case d.before > 0:
				d.before--
				return errDisk
			case d.after > 0:
				d.after--
				d.late = true
			}
			return nil
		},
		AfterCommit: func() error {
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.late {
				return errDisk
			}
			return nil
		},
	}
}

// fail makes the next commits fail: before of them are not on the disk, after of them are.
func (d *disk) fail(before, after int) { d.failAfter(0, before, after) }

// failAfter does so after some that work.
func (d *disk) failAfter(good, before, after int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.good, d.before, d.after = good, before, after
}

func (d *disk) tried() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.commits
}

// hold lets no commit through until release.
func (d *disk) hold() (release func()) {
	gate := make(chan struct{})
	d.set(gate)
	return func() {
		d.set(nil)
		close(gate)
	}
}

func (d *disk) set(gate chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gate = gate
}

// memory is a link to a broker in this process, without any nodes: it keeps what is retained and
// counts what was published.
type memory struct {
	mu       sync.Mutex
	retained map[string][]byte
	sent     map[string]int
	newest   map[string][]byte
	refuse   map[string]int                  // so many publishes to a topic fail
	hears    func(to string, payload []byte) // is told of each; nil: nobody
}

func (m *memory) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (m *memory) Publish(_ context.Context, to string, payload []byte, retain bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refuse[to] > 0 {
		m.refuse[to]--
		return errors.New("the window is full")
	}
	m.sent[to]++
	m.newest[to] = payload
	if m.hears != nil {
		m.hears(to, payload)
	}
	if retain {
		m.retained[to] = payload
	}
	return nil
}

// retain has the broker keep a message that nobody published.
func (m *memory) retain(at string, payload []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.retained[at] = payload
}

func (m *memory) Retained(of string) ([]byte, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok := m.retained[of]
	return p, ok
}

func (m *memory) refuseNext(to string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refuse[to] = n
}

// published counts publishes to one topic.
func (m *memory) published(to string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sent[to]
}

// total counts all publishes.
func (m *memory) total() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.sent {
		n += k
	}
	return n
}

// faulty is a Core on a disk that fails as told, in a synctest bubble.
type faulty struct {
	*testing.T
	dir    string
	tune   func(*Config)
	disk   disk
	broker *memory
	core   *Core
	stop   func() error
	ready  func(*Core)                     // is done between New and Run; nil: nothing
	hears  func(to string, payload []byte) // is told of what the next broker is sent; nil: nobody
}

const faultyUnit = "u1"

// withFaults runs f with a running Core. tune, which may be nil, changes its configuration.
func withFaults(t *testing.T, tune func(*Config), f func(t *testing.T, r *faulty)) {
	t.Helper()
	withFaultsIn(t, t.TempDir(), tune, f)
}

// withFaultsIn is withFaults on what a directory holds.
func withFaultsIn(t *testing.T, dir string, tune func(*Config), f func(t *testing.T, r *faulty)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &faulty{T: t, dir: dir, tune: tune}
		r.start()
		defer func() {
			if err := r.stop(); err != nil {
				t.Error("stop:", err)
			}
		}()
		f(t, r)
	})
}

// start runs a Core on what the directory holds, and on a broker that is empty.
func (r *faulty) start() {
	r.Helper()
	cfg := Config{
		Kinds: kinds.All(),
		Unit:  faultyUnit, Version: "1", Inbox: true, Broker: view.Broker{Embedded: true},
		Copy:   filepath.Join(r.dir, "unit-config.json"),
		Signer: seal.NewSigner(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))),
		Open: func() (*journal.Journal, error) {
			return journal.Open(filepath.Join(r.dir, "journal.db"),
				journal.Options{MapSize: 1 << 24, Faults: r.disk.faults()})
		},
	}
	if r.tune != nil {
		r.tune(&cfg)
	}
	core, err := New(cfg)
	if err != nil {
		r.Fatal(err)
	}
	r.core = core
	if r.ready != nil {
		r.ready(core)
	}
	r.broker = &memory{retained: map[string][]byte{}, sent: map[string]int{},
		newest: map[string][]byte{}, refuse: map[string]int{}, hears: r.hears}
	core.Attach(r.broker)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- core.Run(ctx) }()
	r.stop = func() error {
		r.stop = func() error { return nil }
		cancel()
		return <-done
	}
	core.Handler().Up(1)
	synctest.Wait()
}

func faultyDoc(version string) []byte {
	return fmt.Appendf(nil,
		`{"formatVersion":"7","version":%q,"nodes":[{"nodeGroupSubject":{"codename":"m"},"priority":2}]}`, version)
}

// hear brings a message as the embedded broker does, and returns why its sender is not told that
// it arrived; nil: it is.
func (r *faulty) hear(to string, payload []byte) error {
	if err := r.core.Refusing(); err != nil {
		return err
	}
	r.core.Handler().Message(link.Message{Topic: to, Payload: payload})
	return r.core.Refusing()
}

// deliver brings a message as an external broker does, which cannot be told to wait.
func (r *faulty) deliver(to string, payload []byte) {
	r.core.Handler().Message(link.Message{Topic: to, Payload: payload})
}

// showsDocument has a node answer the question for the signature of its newest configuration.
func (r *faulty) showsDocument(node string, doc *wire.DocRef) {
	of := topic.ForNode(faultyUnit, node)
	r.broker.mu.Lock()
	asked, err := wire.Decode[wire.Request](r.broker.newest[of.Request()])
	r.broker.mu.Unlock()
	if err != nil || asked.Method != wire.MethodShow {
		r.Errorf("%s was asked %+v: %v", node, asked, err)
		return
	}
	shown := &wire.Shown{Epoch: doc.Epoch, Rev: doc.Rev, Version: doc.Version, Hash: doc.Hash, Mode: wire.ModeApply}
	shown.Sig = r.core.signer().Sign(seal.DesiredPreimage(shown.Of(faultyUnit, node, wire.KindConfig)))
	reply := wire.Reply{V: wire.Version, Node: node, ID: asked.ID, Result: wire.Encode(shown)}
	r.deliver(of.Reply(), wire.Encode(&reply))
}

// busy keeps the loop's queue from ever being empty, 100 ms (virtual) for each event, until idle.
func (r *faulty) busy() (idle func()) {
	var over atomic.Bool
	var next func(*fleet.Fleet, error)
	next = func(*fleet.Fleet, error) {
		time.Sleep(100 * time.Millisecond)
		if !over.Load() {
			r.core.queue.put(item{view: next}, nil)
		}
	}
	r.core.queue.put(item{view: next}, nil)
	return func() {
		over.Store(true)
		synctest.Wait()
	}
}
