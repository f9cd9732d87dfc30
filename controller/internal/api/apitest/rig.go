// Package apitest is a unit for tests of the API and of the CLI: the controller's core on a journal in a temporary
// directory, by a clock that stands still, with nodes that say what a test has them say. Nothing is random but keys and
// tokens. What a core cannot easily be brought to answer is put in its place by Instead.
package apitest

import (
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/artefact/store"
	"tandem.internal/controller/internal/bindings"
	"tandem.internal/controller/internal/ca"
	"tandem.internal/controller/internal/clock"
	"tandem.internal/controller/internal/distribute"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/kinds"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/link"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/wire"
)

const (
	unit         = "u1"
	copyName     = "unit-config.json"
	journalName  = "journal.db"
	checkTimeout = 5 * time.Second  // after which a silent node is not waited for, by the rig's clock
	orderTimeout = 30 * time.Second // and after which it has not obeyed
)

// Rig is a core with nodes that the test plays. It is safe for concurrent use.
type Rig struct {
	bindings.Core
	Dir string // of the journal and the readable copy

	tb      testing.TB
	handler link.Handler

	mu     sync.Mutex
	now    time.Time
	jumped time.Duration // by which the machine's clock is ahead of that
	said   uint64        // number of the newest message of a node
	refuse map[string]*wire.Error
	silent map[string]bool
	log    string   // of every slot that there is
	grows  []string // what is written before each further look at it
}

// Start starts a unit that has no nodes and no documents, in a temporary directory, for as long as the test takes. Its
// clock says Now.
func Start(tb testing.TB) *Rig { return start(tb, Now, distribute.Config{}) }

// start starts a unit of which some things are as more says.
func start(tb testing.TB, now time.Time, more distribute.Config) *Rig {
	tb.Helper()
	dir := tb.TempDir()
	r := &Rig{Dir: dir, tb: tb, now: now, refuse: map[string]*wire.Error{}, silent: map[string]bool{}}
	keys := newKeyring()
	core, err := distribute.New(distribute.Config{
		Kinds: kinds.All(), Unit: unit, Version: "1.0.0", Copy: filepath.Join(dir, copyName), Signer: keys[0],
		Keyring: keys, Clock: r.clock(), Random: &counter{}, Desired: more.Desired,
		Rebalance: more.Rebalance, Relieve: more.Relieve, Meter: more.Meter,
		Fleet: fleet.Options{CheckTimeout: checkTimeout},
		Artefacts: store.Config{Dir: filepath.Join(dir, "artefacts"), Quota: 1 << 20,
			Free: func(string) (int64, error) { return 1 << 30, nil }},
		Broker: view.Broker{Embedded: true, Address: "127.0.0.1:1883"},
		Open: func() (*journal.Journal, error) {
			return journal.Open(filepath.Join(dir, journalName), journal.Options{MapSize: 1 << 24, Now: r.Now})
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	authority, err := unitCA()
	if err != nil {
		tb.Fatal(err)
	}
	core.SetAuthority(distribute.Authority{CA: authority, Life: ca.NodeLife, URL: "https://gateway:8884"})
	r.Core = bindings.Core{Core: core, Notices: notices(tb, dir, core, r.Now), Settings: []view.Setting{
		{Name: "unit", Value: `"u1"`, Changed: true}, {Name: "passwords", Value: "***", Changed: true},
		{Name: "check-timeout", Value: "5s"}}}
	r.handler = core.Handler()
	core.Attach(road{r})
	r.handler.Up(1) // before anybody looks
	endLink, endCore := r.part(road{r}.Run), r.part(core.Run)
	tb.Cleanup(func() { endLink(); endCore() })
	return r
}

// counter is where a rig's IDs come from: the first is all zeros but for its end, which counts.
type counter struct{ n atomic.Uint64 }

// Read implements io.Reader.
func (c *counter) Read(b []byte) (int, error) {
	clear(b)
	binary.BigEndian.PutUint64(b[len(b)-8:], c.n.Add(1))
	return len(b), nil
}

// unitCA is one CA for all rigs: making keys takes time.
var unitCA = sync.OnceValues(func() (*ca.CA, error) {
	dir, err := os.MkdirTemp("", "tandem-apitest-")
	if err != nil {
		return nil, err
	}
	authority, err := ca.Open(ca.Config{Unit: unit, Dir: dir, Now: func() time.Time { return Now }})
	return authority, errors.Join(err, os.RemoveAll(dir))
})

// part runs a part until the returned function is called.
func (r *Rig) part(run func(context.Context) error) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			r.tb.Error(err)
		}
	}
}

// Now is the rig's clock, which stands still but for Advance.
func (r *Rig) Now() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

// Jump has the machine's clock jump: it shows another time than Now from then on. The core has noticed it then, and the
// journal has it.
func (r *Rig) Jump(by time.Duration) {
	r.mu.Lock()
	r.jumped += by
	r.mu.Unlock()
	if _, err := r.Core.Status(context.Background()); err != nil {
		r.tb.Error(err)
	}
	r.settle()
}

// clock is the machine's clock, guarded.
func (r *Rig) clock() *clock.Guard {
	wall := func() time.Time {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.now.Add(r.jumped)
	}
	return clock.New(clock.Config{Now: wall,
		Machine: clock.Machine{Uptime: func() time.Duration { return r.Now().Sub(time.Time{}) }}})
}

// Advance moves the clock on. What is due then is done before the core deals with anything else.
func (r *Rig) Advance(d time.Duration) {
	r.mu.Lock()
	r.now = r.now.Add(d)
	r.mu.Unlock()
	r.settle()
}

// settle returns when the core has dealt with what it has heard.
func (r *Rig) settle() {
	if _, err := r.Core.Nodes(context.Background()); err != nil {
		r.tb.Error(err)
	}
}

// Damage alters the readable copy: the unit configuration is failed when the core looks at it.
func (r *Rig) Damage() {
	if err := os.WriteFile(filepath.Join(r.Dir, copyName), []byte("altered"), 0o600); err != nil {
		r.tb.Error(err)
	}
}

// Disconnect ends the core's session with its broker.
func (r *Rig) Disconnect(why string) { r.handler.Down(1, errors.New(why)) }

// replaced is a core of whose operations some are done by somebody else.
type replaced struct {
	api.Core
	others []api.Operation
}

// Instead is a core with other operations in the place of those of the same names: for what a real core cannot be
// brought to answer.
func Instead(c api.Core, others ...api.Operation) api.Core { return replaced{c, others} }

// Operations implements api.Core.
func (r replaced) Operations() []api.Operation {
	return append(slices.DeleteFunc(r.Core.Operations(), func(o api.Operation) bool {
		return slices.ContainsFunc(r.others, func(other api.Operation) bool { return other.Name() == o.Name() })
	}), r.others...)
}

// submitting is a core with another way to submit.
type submitting struct {
	*distribute.Core
	submit func(context.Context, view.Submission) (view.Result, error)
}

func (s submitting) Submit(ctx context.Context, sub view.Submission) (view.Result, error) {
	return s.submit(ctx, sub)
}

// Submitting is a rig to which documents are submitted otherwise.
func Submitting(r *Rig, submit func(context.Context, view.Submission) (view.Result, error)) api.Core {
	return Instead(r, api.Verbs(r.Kinds().Documents(), submitting{r.Core.Core, submit})...)
}

// The operations about the unit configuration and the workloads.
var (
	Config = verbs(wire.KindConfig)
	Sets   = verbs(wire.KindWorkloads)
)

func verbs(source wire.Kind) op.Verbs { return op.VerbsOf(kinds.All().Source(source).Subject()) }

// Failing is an operation that fails.
func Failing[In, Out any](o op.Op[In, Out], err error) api.Operation {
	return api.Bind(o, func(context.Context, In) (out Out, _ error) { return out, err })
}

// Fixed is an operation that always answers the same.
func Fixed[In, Out any](o op.Op[In, Out], out Out) api.Operation {
	return api.Bind(o, func(context.Context, In) (Out, error) { return out, nil })
}

// keyring has the unit's first key and a second one, which are always the same.
type keyring []*seal.Signer

func newKeyring() keyring {
	second := make([]byte, ed25519.SeedSize)
	second[0] = 1
	return keyring{seal.NewSigner(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))),
		seal.NewSigner(ed25519.NewKeyFromSeed(second))}
}

func (k keyring) Signer(kid string) *seal.Signer {
	if i := slices.Index(k.IDs(), kid); i >= 0 {
		return k[i]
	}
	return nil
}

func (k keyring) IDs() (all []string) {
	for _, s := range k {
		all = append(all, s.Key().ID)
	}
	return all
}

func (k keyring) Make() (*seal.Signer, error) { return nil, errors.New("there are no more keys") }
func (k keyring) Forget(string) error         { return nil }
