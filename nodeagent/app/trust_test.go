package app

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/shared/seal"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// keys publishes a beacon with a numbered list of keys, signed by one of them.
func (r *rig) keys(rev uint64, by *seal.Signer, listed ...*seal.Signer) []byte {
	r.Helper()
	b := wire.Beacon{V: wire.Version, Unit: "u1", Epoch: 1, Up: true, Time: time.Now(), KeysRev: rev}
	for _, s := range listed {
		b.Keys = append(b.Keys, s.Key())
	}
	b.Sig = by.Sign(seal.BeaconPreimage(&b))
	r.publish(topic.ForController("u1"), wire.Encode(&b), true)
	return wire.Encode(&b)
}

// believed stops the agent and looks at what it has saved.
func (r *rig) believed(want ...*seal.Signer) {
	r.Helper()
	r.stop()
	b, err := Trusted(TrustConfig{StateDir: r.dir})
	if err != nil {
		r.Fatal(err)
	}
	got, wanted := strings.Join(b.Keys, " "), ""
	for _, s := range want {
		wanted += " " + s.Key().ID
	}
	if got != strings.TrimSpace(wanted) {
		r.Errorf("believes %q, want %q", got, wanted)
	}
}

// A rotation as a node sees it, with documents under each key, and restarts in between.
func TestRotation(t *testing.T) {
	bubble(t, func(r *rig) {
		one, two := r.signer, seal.NewSigner(key(2))
		r.keys(0, one, one)
		r.start()
		r.desire(doc(1, 1))
		first := r.keys(7, one, one, two)
		info := r.reports[wire.KindInfo]
		if got := string(info[len(info)-1].Detail); !strings.Contains(got, two.Key().ID) {
			t.Errorf("the node does not tell the keys that it believes: %s", got)
		}
		r.restart()
		r.keys(8, two, one, two)
		r.signer = two
		r.desire(doc(1, 1)) // the same document, sealed by the new key: nothing to do
		r.want("1/1 installed", "1.0.0")
		if got := r.ran(); strings.Count(got, "apply") != 1 {
			t.Errorf("commands %s", got)
		}
		r.desire(doc(1, 2))
		r.want("2/2 installed", "2.0.0")
		r.keys(9, two, two)
		r.restart()
		r.publish(topic.ForController("u1"), first, false) // recorded
		d := doc(1, 3)
		d.Sig = one.Sign(seal.DesiredPreimage(d))
		r.publish(r.topics.Desired(d.Kind), d.Append(nil), false)
		r.want("2/2 installed", "2.0.0")
		if got := r.eventTypes(); got != "key-pinned key-pinned key-dropped key-refused refused-message" {
			t.Errorf("events %q", got)
		}
		r.believed(two)
	})
}

// The disk fails, or the machine dies, around the save of a list of keys: nothing is believed that is
// not saved, and the next beacon makes it good.
func TestKeyListAndTheDisk(t *testing.T) {
	one, two := seal.NewSigner(key(1)), seal.NewSigner(key(2))
	for _, c := range []struct {
		name  string
		point Point
		want  []*seal.Signer // when the agent dies there
	}{
		{"before", "before", []*seal.Signer{one}},
		{"after", "after", []*seal.Signer{one, two}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				failing, dead := false, false
				r.deps.StoreFaults = func(p Point) error {
					if dead || failing && p == c.point {
						dead = failing // nothing more is saved: the machine might as well be off
						return syscall.EIO
					}
					return nil
				}
				r.keys(0, one, one)
				r.start()
				failing = true
				r.keys(1, one, one, two)
				d := doc(1, 1)
				d.Sig = two.Sign(seal.DesiredPreimage(d))
				r.publish(r.topics.Desired(d.Kind), d.Append(nil), true)
				r.want("-", "") // not believed
				r.stop()
				failing, dead = false, false
				r.believed(c.want...)
				r.start()
				r.keys(1, one, one, two)
				r.want("1/1 installed", "1.0.0")
				r.believed(one, two)
			})
		})
	}
}

// A recorded beacon and a recorded request, played to an agent that has just started with a clock that
// knows nothing.
func TestTimeSurvivesARestart(t *testing.T) {
	for _, c := range []struct {
		name string
		lost time.Duration // at most, of what had passed
	}{
		{"stopped", 0},
		{"killed", timeEvery},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				dead := false
				saves := 0
				r.deps.StoreFaults = func(p Point) error {
					if dead {
						return errors.New("the machine is off")
					}
					if p == "after" {
						saves++
					}
					return nil
				}
				r.start()
				q := &wire.Request{V: 1, Unit: "u1", Node: "n1", ID: "old", Method: wire.MethodReport,
					NotAfter: time.Now().Add(time.Minute)}
				r.sign(q)
				recorded := r.keys(0, r.signer, r.signer)
				begin := saves
				for range 60 { // an hour of beacons
					r.pass(time.Minute)
					r.keys(0, r.signer, r.signer)
				}
				if n := saves - begin; n < 5 || n > 8 { // one of them for the baseline of the node's health
					t.Errorf("%d saves in an hour of beacons", n)
				}
				newest := time.Now()
				dead = c.lost > 0
				r.stop()
				dead = false
				b, err := Trusted(TrustConfig{StateDir: r.dir})
				if err != nil || newest.Sub(b.Newest) > c.lost {
					t.Errorf("%v is known of %v (%v)", b.Newest, newest, err)
				}
				r.hub.Wipe()
				r.deps.Now = func() time.Time { return time.Unix(0, 0) }
				r.start()
				r.publish(topic.ForController("u1"), recorded, false)
				before := len(r.replies)
				r.publish(r.topics.Request(), wire.Encode(q), false)
				if len(r.replies) != before+1 || r.replies[before].Error == nil ||
					r.replies[before].Error.Code != wire.CodeExpired {
					t.Errorf("an old request: %+v", r.replies[before:])
				}
				r.keys(0, r.signer, r.signer)
				if e := r.request(wire.MethodReport, nil).Error; e != nil {
					t.Errorf("a new request: %v", e)
				}
			})
		})
	}
}

// Hands on the node: what is pinned can be seen, and forgotten.
func TestTrustIsReset(t *testing.T) {
	bubble(t, func(r *rig) {
		one, two := r.signer, seal.NewSigner(key(2))
		r.keys(4, one, one)
		r.start()
		r.desire(doc(1, 5))
		if _, err := Trusted(TrustConfig{StateDir: r.dir, Reset: true}); err == nil ||
			!strings.Contains(err.Error(), "another tandem-node runs") {
			t.Errorf("while the agent runs: %v", err)
		}
		r.signer = two // the controller has lost its state
		r.keys(0, two, two)
		d := doc(2, 1)
		r.desire(d)
		r.want("5/5 installed", "5.0.0")
		r.believed(one)
		b, err := Trusted(TrustConfig{StateDir: r.dir, Reset: true})
		if err != nil || b.Unit != "u1" || b.Node != "n1" || b.Rev != 4 || len(b.Keys) != 1 {
			t.Errorf("%+v, %v", b, err)
		}
		r.believed()
		r.start()
		synctest.Wait()
		r.want("1/1 installed", "1.0.0")
		r.believed(two)
		old := with(doc(1, 9), string(body("9.0.0"))) // the marks have stayed
		r.start()
		r.desire(old)
		r.want("1/1 installed", "1.0.0")
	})
	if _, err := Trusted(TrustConfig{StateDir: filepath.Join(t.TempDir(), "none")}); err == nil {
		t.Error("a state directory that is not there")
	}
}
