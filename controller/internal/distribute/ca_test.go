package distribute

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tandem.internal/controller/internal/ca"
	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// certified is a unit with a CA on a disk that fails as told.
type certified struct {
	*faulty
	dir   string
	stale bool        // ca.pem is written at the next start
	fail  atomic.Bool // every step of writing a file does
	renew bool        // as --new-ca
	ca    *ca.CA
}

// withCA runs f with a unit that has a CA.
func withCA(t *testing.T, f func(t *testing.T, u *certified)) {
	t.Helper()
	dir := t.TempDir()
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		u := &certified{faulty: r, dir: dir}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		r.ready = func(c *Core) {
			if err := u.open(c); err != nil {
				t.Fatal(err)
			}
		}
		r.start()
		f(t, u)
	})
}

// open does what the controller does with its CA at a start.
func (u *certified) open(c *Core) error {
	list, err := c.CAs()
	if err != nil {
		return err
	}
	u.ca, err = ca.Open(ca.Config{Unit: faultyUnit, Dir: u.dir, Now: c.cfg.Now, List: list, Renew: u.renew,
		Steps: func(durable.Step) error {
			if u.fail.Load() {
				return errDisk
			}
			return nil
		}})
	if err != nil {
		return err
	}
	c.SetAuthority(Authority{CA: u.ca, Life: ca.NodeLife, URL: "https://gateway:8884"})
	if l := u.ca.Listed(); len(list.All) > 0 && !sameCAs(l, list) {
		return c.ReplaceCA()
	}
	return nil
}

// same looks whether what is told at the door, what is on the disk, and what the journal says agree.
func (u *certified) same(when string) view.CAs {
	u.Helper()
	v, err := u.core.ShowCAs(u.Context())
	if err != nil {
		u.Fatalf("%s: %v", when, err)
	}
	told, listed := u.core.DoorCAs(), u.ca.Listed()
	var journaled []string
	for _, one := range v.CAs {
		journaled = append(journaled, one.Fingerprint)
		if one.State == "signing" && (one.Fingerprint != told.Signs || told.Signs != listed.Signs.String()) {
			u.Errorf("%s: %s signs, nodes are told %s, %s does", when, one.ID, told.Signs, listed.Signs)
		}
	}
	var at, door []string
	for i, fp := range listed.All {
		at, door = append(at, fp.String()), append(door, jointoken.FingerprintOf(told.CAs[i]).String())
	}
	if !slices.Equal(journaled, at) || !slices.Equal(journaled, door) || told.Rev != v.Rev {
		u.Errorf("%s: the journal has %v, nodes are told %v, %v count", when, journaled, door, at)
	}
	text, err := os.ReadFile(filepath.Join(u.dir, ca.CertificateFile))
	if err == nil && !u.stale && strings.Count(string(text), "BEGIN") != len(at) {
		u.Errorf("%s: %d CAs in ca.pem, %d count", when, strings.Count(string(text), "BEGIN"), len(at))
	}
	return v
}

// caSteps are those of a rotation, as an operator orders them.
var caSteps = []struct {
	name string
	do   func(u *certified, first string) (view.CAs, error)
	done func(v view.CAs) bool
}{
	{"announce", func(u *certified, _ string) (view.CAs, error) {
		return u.core.RotateCA(as(u.Context(), "ann"), op.RotateCA{})
	}, func(v view.CAs) bool { return len(v.CAs) == 2 && v.CAs[1].State == "announced" }},
	{"switch", func(u *certified, _ string) (view.CAs, error) {
		return u.core.RotateCA(as(u.Context(), "ann"), op.RotateCA{})
	}, func(v view.CAs) bool {
		return len(v.CAs) == 2 && v.CAs[1].State == "signing" && v.CAs[0].State == "leaving"
	}},
	{"retire", func(u *certified, first string) (view.CAs, error) {
		return u.core.RetireCA(as(u.Context(), "ann"), op.RetireCA{ID: first})
	}, func(v view.CAs) bool { return len(v.CAs) == 1 && v.CAs[0].State == "signing" }},
}

// Each step of a rotation of the CA × each way in which a disk may fail it × the way back: journal, files and what
// nodes are told agree at every moment, and the rotation can be finished.
func TestCARotationOnABadDisk(t *testing.T) {
	faults := []struct {
		name string
		set  func(u *certified)
	}{
		{"nothing", func(*certified) {}},
		{"the record is not on the disk", func(u *certified) { u.disk.fail(1, 0) }},
		{"the record is on the disk all the same", func(u *certified) { u.disk.fail(0, 1) }},
		{"no file can be written", func(u *certified) { u.fail.Store(true) }},
	}
	for at := range caSteps {
		for _, f := range faults {
			for _, back := range []string{"recover", "restart"} {
				t.Run(fmt.Sprintf("%s/%s/%s", caSteps[at].name, f.name, back), func(t *testing.T) {
					withCA(t, func(t *testing.T, u *certified) {
						first := u.ca.Fingerprint().ID()
						for i := range at {
							if v, err := caSteps[i].do(u, first); err != nil || !caSteps[i].done(v) {
								t.Fatal(v, err)
							}
							u.same(caSteps[i].name)
						}
						f.set(u)
						v, err := caSteps[at].do(u, first)
						if err == nil && !caSteps[at].done(v) {
							t.Errorf("%+v", v)
						}
						u.stale = u.fail.Swap(false)
						if back == "restart" {
							if err := u.stop(); err != nil && !errors.Is(err, &wire.Error{Code: wire.CodeStorage}) {
								t.Error(err)
							}
							u.start()
						} else {
							u.recover()
						}
						for i := at; i < len(caSteps); i++ {
							if i == at && caSteps[i].done(u.same("afterwards")) {
								continue
							}
							if v, err := caSteps[i].do(u, first); err != nil || !caSteps[i].done(v) {
								t.Fatalf("%s, the second time: %+v, %v", caSteps[i].name, v, err)
							}
							u.same(caSteps[i].name + ", the second time")
						}
						if err := u.stop(); err != nil {
							t.Fatal(err)
						}
						u.stale = false
						u.start() // what a crash left is gone, and there is nothing more to do
						u.same("in the end")
						if held := u.ca.Held(); len(held) != 1 || held[0].ID() == first {
							t.Errorf("the CAs %v are left", held)
						}
						if err := u.core.Audit(t.Context()); err != nil {
							t.Error(err)
						}
					})
				})
			}
		}
	}
}

// The file of a CA is gone: no start, until somebody says so; then one that nodes may believe goes on alone.
func TestCAIsLost(t *testing.T) {
	for _, c := range []struct {
		name  string
		until int    // steps of a rotation before the loss
		lost  int    // index of the CA whose file is lost
		goes  string // which one goes on: "first", "second"
	}{
		{"the one that signs, while another is announced", 1, 0, "second"},
		{"the one that is announced", 1, 1, "first"},
		{"the one that leaves", 2, 0, "second"},
		{"the new one, just after the switch", 2, 1, "first"},
	} {
		t.Run(c.name, func(t *testing.T) {
			withCA(t, func(t *testing.T, u *certified) {
				first := u.ca.Fingerprint()
				for i := range c.until {
					if _, err := caSteps[i].do(u, first.ID()); err != nil {
						t.Fatal(err)
					}
				}
				all := u.ca.Listed().All
				if err := u.stop(); err != nil {
					t.Fatal(err)
				}
				file := ca.KeyFile
				if c.lost == 1 {
					file = "ca-key-" + all[1].ID() + ".pem"
				}
				if err := os.Remove(filepath.Join(u.dir, file)); err != nil {
					t.Fatal(err)
				}
				var refused error
				ready := u.ready
				u.ready = func(core *Core) { refused = u.open(core); u.renew = true; ready(core) }
				u.start()
				if refused == nil || !strings.Contains(refused.Error(), all[c.lost].String()) ||
					!strings.Contains(refused.Error(), "--new-ca") {
					t.Errorf("%v", refused)
				}
				u.ready, u.renew = ready, false
				v := u.same("afterwards")
				want := map[string]jointoken.Fingerprint{"first": all[0], "second": all[1]}[c.goes]
				if len(v.CAs) != 1 || v.CAs[0].ID != want.ID() {
					t.Errorf("%+v", v)
				}
				if err := u.stop(); err != nil {
					t.Fatal(err)
				}
				u.start()
				u.same("after another start")
			})
		})
	}
}

// A proof is by the CA of its certificate: while two count, those of both; of a retired CA none.
func TestProofsInOverlap(t *testing.T) {
	withCA(t, func(t *testing.T, u *certified) {
		first := u.ca.Fingerprint()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		until := u.core.cfg.Now().AddDate(0, 3, 0)
		must(u.core.Enrolment(t.Context(), enrol.Enrol{Subject: "node/n1", Hash: "h"}))
		must(u.core.Enrolment(t.Context(), enrol.Join{Subject: "node/n1", Hash: "h", Key: "k1", Serial: "a1",
			Expires: until, CA: first.String()}))
		_, err := u.core.RotateCA(as(t.Context(), "ann"), op.RotateCA{})
		must(err)
		_, err = u.core.RotateCA(as(t.Context(), "ann"), op.RotateCA{Force: true})
		must(err)
		second := u.ca.Fingerprint()
		time.Sleep(2 * time.Minute)
		must(u.core.Enrolment(t.Context(), enrol.Renew{Subject: "node/n1", Serial: "a1", Shown: "k1", Key: "k2",
			Next: "a2", Expires: until, CA: second.String()}))
		keys := map[string][]byte{}
		for _, by := range []jointoken.Fingerprint{first, second} {
			for _, serial := range []string{"a1", "a2"} {
				key, err := u.ca.ReportKey(by, "n1", serial)
				must(err)
				keys[by.String()+serial] = key
			}
		}
		live := wire.Live{V: wire.Version, Node: "n1", Boot: "b", Session: 1, Up: true}
		name := topic.ForNode(faultyUnit, "n1").Live()
		parsed, err := topic.Parse(name)
		must(err)
		counts := func(by jointoken.Fingerprint, serial string) bool {
			message := wire.Prove(keys[by.String()+serial], name, wire.Encode(&live), wire.Heard{})
			_, _, refused := u.core.proved(&parsed, name, message)
			return refused == nil
		}
		if !counts(first, "a1") || !counts(second, "a2") {
			t.Error("a proof of the overlap is refused")
		}
		if counts(second, "a1") || counts(first, "a2") {
			t.Error("a proof by the other CA is taken")
		}
		_, err = u.core.RetireCA(as(t.Context(), "ann"), op.RetireCA{ID: first.ID(), Force: true})
		must(err)
		if counts(first, "a1") || !counts(second, "a2") {
			t.Error("a proof by the retired CA is taken, or one by the other refused")
		}
	})
}
