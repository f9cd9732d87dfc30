package distribute

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// ring is a Keyring on a disk that fails as told. It outlives the Core, as files do.
type ring struct {
	mu     sync.Mutex
	keys   map[string]*seal.Signer
	made   byte
	before bool // Make and Forget fail, and do nothing
	after  bool // they fail, though it is done
}

func newRing() *ring {
	first := seal.NewSigner(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	return &ring{keys: map[string]*seal.Signer{first.Key().ID: first}}
}

func (g *ring) Signer(kid string) *seal.Signer {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.keys[kid]
}

func (g *ring) IDs() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Sorted(maps.Keys(g.keys))
}

// fail sets how Make and Forget fail from now on.
func (g *ring) fail(before, after bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.before, g.after = before, after
}

func (g *ring) Make() (*seal.Signer, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.before {
		return nil, errDisk
	}
	g.made++
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = g.made
	s := seal.NewSigner(ed25519.NewKeyFromSeed(seed))
	g.keys[s.Key().ID] = s
	if g.after {
		return nil, errDisk
	}
	return s, nil
}

func (g *ring) Forget(kid string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.before {
		return errDisk
	}
	delete(g.keys, kid)
	if g.after {
		return errDisk
	}
	return nil
}

// believer follows the beacons as a node does.
type believer struct {
	*faulty
	keys seal.Trust
	rev  uint64
}

// hear takes the newest beacon in, which must be one that it believes, and looks at every document.
func (b *believer) hear(when string) {
	b.Helper()
	synctest.Wait()
	payload, ok := b.broker.Retained(topic.ForController(faultyUnit))
	if !ok {
		b.Fatalf("%s: no beacon", when)
	}
	m, err := wire.Decode[wire.Beacon](payload)
	if err != nil {
		b.Fatal(err)
	}
	listed := seal.Trust{}
	for _, k := range m.Keys {
		listed[k.ID] = k.Ed25519
	}
	if b.keys == nil {
		b.keys = listed
	}
	if err := b.keys.Verify(seal.BeaconPreimage(m), m.Sig); err != nil {
		b.Fatalf("%s: nodes do not believe the beacon: %v", when, err)
	}
	if m.KeysRev < b.rev {
		b.Errorf("%s: list %d after list %d", when, m.KeysRev, b.rev)
	}
	if m.KeysRev > b.rev {
		b.keys, b.rev = listed, m.KeysRev
	}
	for _, node := range []string{"n1", "n2"} {
		payload, ok := b.broker.Retained(topic.ForNode(faultyUnit, node).Desired(wire.KindConfig))
		d, err := wire.Decode[wire.Desired](payload)
		if !ok || err != nil {
			b.Fatalf("%s: no document for %s: %v", when, node, err)
		}
		if err := b.keys.Verify(seal.DesiredPreimage(d), d.Sig); err != nil {
			b.Errorf("%s: %s does not believe its document: %v", when, node, err)
		}
		if d.Sig.KeyID != m.Sig.KeyID || d.Version != "1.0.0" {
			b.Errorf("%s: %s has version %s, sealed by %s; the beacon is by %s", when, node, d.Version, d.Sig.KeyID,
				m.Sig.KeyID)
		}
	}
}

// steps of a rotation, as an operator orders them.
var steps = []struct {
	name string
	do   func(r *faulty, first string) (view.Keys, error)
	done func(k view.Keys) bool
}{
	{"announce", func(r *faulty, _ string) (view.Keys, error) {
		return r.core.RotateKey(as(r.Context(), "ann"), op.RotateKey{})
	},
		func(k view.Keys) bool { return len(k.Keys) == 2 && k.Keys[1].State == "announced" }},
	{"switch", func(r *faulty, _ string) (view.Keys, error) {
		return r.core.RotateKey(as(r.Context(), "ann"), op.RotateKey{Force: true})
	},
		func(k view.Keys) bool {
			return len(k.Keys) == 2 && k.Keys[1].State == "signing" && k.Keys[0].State == "leaving"
		}},
	{"retire", func(r *faulty, first string) (view.Keys, error) {
		return r.core.RetireKey(as(r.Context(), "ann"), op.RetireKey{ID: first, Force: true})
	},
		func(k view.Keys) bool { return len(k.Keys) == 1 && k.Keys[0].State == "signing" }},
}

// Each step of a rotation × each way in which a disk may fail it × the way back: nodes that follow the
// beacons believe the controller at every moment, and the rotation can be finished.
func TestRotationOnABadDisk(t *testing.T) {
	type fault struct {
		name     string
		set      func(r *faulty, g *ring)
		orphaned bool // the step is done, whatever was answered
	}
	faults := []fault{
		{"nothing", func(*faulty, *ring) {}, true},
		{"the record is not on the disk", func(r *faulty, _ *ring) { r.disk.fail(1, 0) }, false},
		{"the record is on the disk all the same", func(r *faulty, _ *ring) { r.disk.fail(0, 1) }, true},
		{"the key's file is not on the disk", func(_ *faulty, g *ring) { g.fail(true, false) }, false},
		{"the key's file is on the disk all the same", func(_ *faulty, g *ring) { g.fail(false, true) }, false},
	}
	for at := range steps {
		for _, f := range faults {
			for _, back := range []string{"recover", "restart"} {
				t.Run(fmt.Sprintf("%s/%s/%s", steps[at].name, f.name, back), func(t *testing.T) {
					g := newRing()
					withFaults(t, func(c *Config) { c.Keyring = g }, func(t *testing.T, r *faulty) {
						first := g.IDs()[0]
						r.join("n1")
						r.join("n2")
						r.install("1.0.0")
						b := &believer{faulty: r}
						b.hear("at first")
						for i := range at {
							if _, err := steps[i].do(r, first); err != nil {
								t.Fatal(err)
							}
							b.hear(steps[i].name)
						}
						f.set(r, g)
						k, err := steps[at].do(r, first)
						g.fail(false, false)
						if err == nil && !steps[at].done(k) {
							t.Errorf("%+v", k)
						}
						if back == "restart" {
							if err := r.stop(); err != nil && !errors.Is(err, &wire.Error{Code: wire.CodeStorage}) {
								t.Error(err)
							}
							r.start()
						} else {
							r.recover()
						}
						b.hear("afterwards")
						for i := at; i < len(steps); i++ {
							now, err := r.core.SigningKeys(r.Context())
							if err != nil {
								t.Fatal(err)
							}
							if i == at && steps[i].done(now) {
								continue
							}
							if k, err := steps[i].do(r, first); err != nil || !steps[i].done(k) {
								t.Fatalf("%s, the second time: %+v, %v", steps[i].name, k, err)
							}
							b.hear(steps[i].name + ", the second time")
						}
						if _, old := b.keys[first]; old || len(b.keys) != 1 {
							t.Errorf("nodes believe %v in the end", slices.Sorted(maps.Keys(b.keys)))
						}
						if err := r.stop(); err != nil {
							t.Fatal(err)
						}
						r.start() // what a crash left is gone, and there is nothing more to do
						b.hear("in the end")
						if g.Signer(first) != nil || len(g.IDs()) != 1 {
							t.Errorf("the keys %v are left", g.IDs())
						}
						if err := r.core.Audit(t.Context()); err != nil {
							t.Error(err)
						}
					})
				})
			}
		}
	}
}

// What a crash has left retained under the old key is found at the next session, though it is of the
// newest version.
func TestSealedByTheOldKey(t *testing.T) {
	g := newRing()
	withFaults(t, func(c *Config) { c.Keyring = g }, func(t *testing.T, r *faulty) {
		r.join("n1")
		r.join("n2")
		r.install("1.0.0")
		to := topic.ForNode(faultyUnit, "n1").Desired(wire.KindConfig)
		old, _ := r.broker.Retained(to)
		b := &believer{faulty: r}
		b.hear("at first")
		for i := range 2 {
			if _, err := steps[i].do(r, ""); err != nil {
				t.Fatal(err)
			}
			b.hear(steps[i].name)
		}
		r.core.Handler().Down(1, errDisk)
		r.broker.retain(to, old)
		before := r.broker.published(topic.ForNode(faultyUnit, "n2").Desired(wire.KindConfig))
		r.core.Handler().Up(2)
		b.hear("the next session")
		if n := r.broker.published(topic.ForNode(faultyUnit, "n2").Desired(wire.KindConfig)) - before; n != 0 {
			t.Errorf("a document that was as it should be was published %d times", n)
		}
	})
}

// The key that signs is gone: no start, until somebody says so; then a key that nodes may know is taken
// before a new one is made.
func TestKeyIsLost(t *testing.T) {
	for _, c := range []struct {
		name  string
		until int // steps of a rotation before the loss
		lose  func(g *ring, first string)
		known bool // nodes believe what signs afterwards
	}{
		{"the only one", 0, func(g *ring, first string) { delete(g.keys, first) }, false},
		{"while another is announced", 1, func(g *ring, first string) { delete(g.keys, first) }, true},
		{"the new one, just after the switch", 2,
			func(g *ring, first string) { clear(g.keys); g.keys[first] = newRing().keys[first] }, true},
		{"all", 2, func(g *ring, _ string) { clear(g.keys) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRing()
			allowed := false
			withFaults(t, func(cfg *Config) {
				cfg.Keyring, cfg.NewKey = g, allowed
				cfg.Signer = g.Signer(cfg.Signer.Key().ID)
			}, func(t *testing.T, r *faulty) {
				first := g.IDs()[0]
				r.join("n1")
				r.join("n2")
				r.install("1.0.0")
				b := &believer{faulty: r}
				b.hear("at first")
				for i := range c.until {
					if _, err := steps[i].do(r, first); err != nil {
						t.Fatal(err)
					}
					b.hear(steps[i].name)
				}
				if err := r.stop(); err != nil {
					t.Fatal(err)
				}
				c.lose(g, first)
				cfg := r.core.cfg
				cfg.Signer = g.Signer(first)
				if core, err := New(cfg); !errors.Is(err, errKeyLost) {
					t.Fatalf("%v %v", core, err)
				}
				allowed = true
				r.start()
				if !c.known {
					b.keys = nil // hands on the node
				}
				b.hear("afterwards")
				k, err := r.core.SigningKeys(t.Context())
				if err != nil || len(k.Keys) != 1 || k.Keys[0].State != "signing" || k.Rev == 0 {
					t.Errorf("%+v %v", k, err)
				}
				allowed = false
				if err := r.stop(); err != nil {
					t.Fatal(err)
				}
				r.start()
				b.hear("after another start")
				if err := r.core.Audit(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A join is told what is old: the node's own document, and for other kinds all that there was.
func TestFloor(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		r.join("n1")
		r.install("1.0.0")
		d, err := r.core.Node(t.Context(), op.NodeIn{Node: "n1"})
		if err != nil {
			t.Fatal(err)
		}
		f, err := r.core.Floor(t.Context(), "n1")
		if want := d.Documents[wire.KindConfig].Desired.Stamp(); err != nil || f.Kinds[wire.KindConfig] != want ||
			f.Epoch != want.Epoch || f.Rev < want.Rev || f.Time.IsZero() {
			t.Errorf("%+v %v, want %v", f, err, want)
		}
		if f, err = r.core.Floor(t.Context(), "n9"); err != nil || len(f.Kinds) != 0 || f.Rev == 0 {
			t.Errorf("of a node that nobody knows: %+v %v", f, err)
		}
		_, err = r.core.RotateKey(as(t.Context(), "ann"), op.RotateKey{})
		if !errors.Is(err, &wire.Error{Code: wire.CodeNotSupported}) {
			t.Errorf("without a keyring: %v", err)
		}
	})
}
