package distribute

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/filetest"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// bitsEach is how many bits of a document are flipped, one at a time, without -every-bit.
const bitsEach = 12

const damageWorkloads = `[{"@class":"Instance","configurationId":"a","slot":"web@n","resources":{"iss_hook_start":` +
	`{"@class":"Resource","uuid":"u","urls":["http://127.0.0.1/x"],"size":0,"verification":{"checksum":"EMPTY:",` +
	`"checkPeriod":"0d0h0m"}}}}]`

// stored is what a controller has left on the disk.
type stored struct {
	journal, copy []byte
	hashes        map[string]string           // of the bodies, by what they are
	sizes         map[string]int              // of the bodies, bytes
	records       map[string]uint64           // seq of the newest record that names a body, by hash
	desired       map[wire.Kind]*wire.Desired // what node n is to have
}

// damageUnit runs a controller that has accepted one document of each kind, and with trial another one on trial.
func damageUnit(t *testing.T, trial bool) (s stored) {
	t.Helper()
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		r.join("n")
		r.install("1.0.0")
		r.mustBe("workloads", r.apply(damageWorkloads), "")
		_, err := r.core.SetHealth(as(t.Context(), "ann"), op.SetHealth{
			Scope:    view.Scope{All: true},
			Settings: &wire.HealthSettings{FormatVersion: "1", Deadline: wire.Span(time.Hour)},
		})
		r.mustBe("health", err, "")
		if trial {
			_, err := r.core.Submit(t.Context(), view.Submission{
				Kind: wire.KindConfig, Document: faultyDoc("2.0.0"), Who: "ann", Offline: true,
				Mode: wire.ModeTry, ConfirmWithin: time.Hour,
			})
			r.mustBe("trial", err, "")
		}
		s.desired = r.desired()
		s.hashes = map[string]string{
			"configuration": wire.Hash(faultyDoc("1.0.0")), "workloads": wire.Hash([]byte(damageWorkloads)),
			"issued configuration": s.desired[wire.KindConfig].Hash,
			"issued workloads":     s.desired[wire.KindWorkloads].Hash,
			"issued health":        s.desired[wire.KindHealth].Hash,
		}
		if trial {
			s.hashes = map[string]string{
				"configuration": wire.Hash(faultyDoc("1.0.0")),
				"trial":         wire.Hash(faultyDoc("2.0.0")), "issued trial": s.desired[wire.KindConfig].Hash,
			}
		}
		s.sizes = map[string]int{}
		for what, hash := range s.hashes {
			body, err := r.core.body(hash)
			r.mustBe(what, err, "")
			s.sizes[what] = len(body)
		}
		s.records = map[string]uint64{}
		for _, rec := range r.records(record.Accepted, record.Issued) {
			for _, hash := range s.hashes {
				if strings.Contains(string(rec.Data), hash) {
					s.records[hash] = rec.Seq
				}
			}
		}
		s.copy = []byte(r.file())
		r.mustBe("stop", r.stop(), "")
		if s.journal, err = os.ReadFile(filepath.Join(r.dir, "journal.db")); err != nil {
			t.Fatal(err)
		}
	})
	return s
}

// desired returns the documents that the broker retains for node n, each with a body that has its hash.
func (r *faulty) desired() map[wire.Kind]*wire.Desired {
	r.Helper()
	synctest.Wait()
	all := map[wire.Kind]*wire.Desired{}
	for _, kind := range []wire.Kind{wire.KindConfig, wire.KindWorkloads, wire.KindHealth} {
		payload, ok := r.broker.Retained(topic.ForNode(faultyUnit, "n").Desired(kind))
		if !ok {
			continue
		}
		d, err := wire.Decode[wire.Desired](payload)
		if err != nil {
			r.Fatalf("%v in %s", err, payload)
		}
		if got := wire.Hash(d.Body); got != d.Hash {
			r.Errorf("a document of %s was published under the hash %s", got, d.Hash)
		}
		all[kind] = d
	}
	return all
}

// flip writes the journal into dir, with one bit of a body flipped; bit -1: with the body removed.
func (s *stored) flip(t *testing.T, dir, hash string, bit int) {
	t.Helper()
	path := filepath.Join(dir, "journal.db")
	if err := os.WriteFile(path, s.journal, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		h, err := parseHash(hash)
		if err != nil {
			return err
		}
		bodies := tx.Bucket([]byte("bodies"))
		if bit < 0 {
			return bodies.Delete(h[:])
		}
		body := slices.Clone(bodies.Get(h[:]))
		body[bit/8] ^= 1 << (bit % 8)
		return bodies.Put(h[:], body)
	})
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// verified reports whether the journal is as it was written, and what it is not.
func (r *faulty) verified() (bool, string) {
	r.Helper()
	v, err := r.core.Verify(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	return v.OK, v.Report
}

// The readable copies that a damaged journal may meet.
var damageCopies = map[string]func(*stored) []byte{
	"intact":  func(s *stored) []byte { return s.copy },
	"missing": func(*stored) []byte { return nil },
	"altered": func(*stored) []byte { return faultyDoc("1.0.1") },
}

// TestDamagedBodies flips bits of each document in a small journal, one at a time, and starts a controller on it.
// Nothing is ever published but what was submitted; the state says what is damaged and where; what can be known is
// issued anew, and the journal is mended.
func TestDamagedBodies(t *testing.T) {
	chance := filetest.Chance(t)
	for _, trial := range []bool{false, true} {
		s := damageUnit(t, trial)
		for _, what := range slices.Sorted(maps.Keys(s.hashes)) {
			for copied, readable := range damageCopies {
				size := s.sizes[what] * 8
				bits := append(chance.Perm(size)[:min(size, bitsEach)], -1)
				if filetest.EveryBit() && copied != "altered" {
					bits = append(chance.Perm(size), -1)
				}
				t.Run(fmt.Sprintf("trial=%v/%s/copy %s", trial, what, copied), func(t *testing.T) {
					for _, bit := range bits {
						s.start(t, what, bit, readable(&s))
						if t.Failed() {
							t.Fatalf("bit %d of the %s", bit, what)
						}
					}
				})
			}
		}
	}
}

// start runs a controller on the journal with one bit of a body flipped (-1: without the body), beside a readable copy
// (nil: none), and brings the unit back to health.
func (s *stored) start(t *testing.T, what string, bit int, readable []byte) {
	t.Helper()
	dir, hash := t.TempDir(), s.hashes[what]
	s.flip(t, dir, hash, bit)
	if readable != nil {
		if err := os.WriteFile(filepath.Join(dir, "unit-config.json"), readable, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	trial := s.desired[wire.KindConfig].Mode == wire.ModeTry
	altered := readable != nil && !bytes.Equal(readable, s.copy)
	lost := what == "trial" || what == "configuration" && !bytes.Equal(readable, s.copy)
	withFaultsIn(t, dir, nil, func(t *testing.T, r *faulty) {
		s.published(r, what == "issued configuration" && altered) // while it is failed nothing is issued
		switch {
		case lost:
			r.wantDamage("the state", r.status().Error, hash, s.records[hash])
			if _, text := r.verified(); !strings.Contains(text, hash[len(wire.HashPrefix):]) {
				t.Errorf("verify does not name it: %s", text)
			}
			s.recoverConfig(r, what, readable)
			return
		case what == "workloads":
			st, err := r.core.SourceStatus(t.Context(), wire.KindWorkloads)
			r.mustBe("status of the workloads", err, "")
			r.wantDamage("the workloads", st.Error, hash, s.records[hash])
			if st.State != kind.Failed {
				t.Errorf("the state of damaged workloads is %s", st.State)
			}
			r.mustBe("applying again", r.apply(damageWorkloads), "")
			st, err = r.core.SourceStatus(t.Context(), wire.KindWorkloads)
			if r.mustBe("status of the workloads", err, ""); st.Error != nil || st.Slots.Slots != 1 ||
				st.State != kind.Installed {
				t.Errorf("after they were applied again: %+v", st)
			}
		case what == "issued configuration" && altered:
			r.install("3.0.0")
			if d := r.desired()[wire.KindConfig]; d == nil || d.Version != "3.0.0" {
				t.Errorf("after an update the node is to have %+v", d)
			}
			return
		}
		if ok, text := r.verified(); !ok {
			t.Error("the journal is not mended:", text)
		}
		want := kind.Installed
		if altered {
			want = kind.Failed
		}
		if st := r.status(); st.State != want || (st.Trial != nil) != trial {
			t.Errorf("the state: %+v", st)
		}
		r.whole()
	})
}

// published checks that the broker retains for the node what was issued, however often.
func (s *stored) published(r *faulty, without bool) {
	r.Helper()
	got := r.desired()
	for kind, want := range s.desired {
		d := got[kind]
		switch {
		case without && kind == wire.KindConfig:
			if d != nil {
				r.Errorf("a document that is damaged and cannot be resolved was published: %s", d.Body)
			}
		case d == nil:
			r.Errorf("no document of the kind %s is published", kind)
		case !bytes.Equal(d.Body, want.Body) || d.Version != want.Version || d.Mode != want.Mode || d.Rev < want.Rev:
			r.Errorf("published\n     %+v\nwant %+v", d, want)
		}
	}
}

// wantDamage checks an error that names a body and the record that names it.
func (r *faulty) wantDamage(what string, err *wire.Error, hash string, seq uint64) {
	r.Helper()
	if err == nil || err.Code != wire.CodeStorage || !strings.Contains(err.Message, hash) ||
		!strings.Contains(err.Message, fmt.Sprintf("record %d ", seq)) {
		r.Errorf("%s: %v, want one that names %s and record %d", what, err, hash, seq)
	}
}

// recoverConfig does what the error of a damaged configuration, or trial, asks for.
func (s *stored) recoverConfig(r *faulty, what string, readable []byte) {
	r.Helper()
	trial := s.desired[wire.KindConfig].Mode == wire.ModeTry
	want := "1.0.0"
	switch {
	case what == "trial":
		_, err := r.core.Confirm(as(r.Context(), "ann"), wire.KindConfig)
		r.mustBe("confirming what is lost", err, wire.CodeStorage)
		time.Sleep(time.Hour + time.Minute)
		if d := r.desired()[wire.KindConfig]; d == nil || d.Version != "1.0.0" || d.Mode != wire.ModeApply {
			r.Errorf("the trial is over, and the node is to have %+v", d)
		}
		if readable != nil && !bytes.Equal(readable, s.copy) {
			r.write(s.copy)
		}
	case trial:
		_, err := r.core.Confirm(as(r.Context(), "ann"), wire.KindConfig)
		r.mustBe("confirming the trial", err, "")
		want = "2.0.0"
	case readable == nil:
		_, err := r.core.Restore(as(r.Context(), "ann"), wire.KindConfig)
		r.mustBe("restoring what is lost", err, wire.CodeStorage)
		r.write(s.copy)
	default:
		r.install("3.0.0")
		want = "3.0.0"
	}
	if st := r.status(); st.State != kind.Installed || st.Version != want || st.Trial != nil {
		r.Errorf("recovered, the state is %+v", st)
	}
	if d := r.desired()[wire.KindConfig]; d == nil || d.Version != want {
		r.Errorf("recovered, the node is to have %+v", d)
	}
	if ok, text := r.verified(); !ok && readable == nil && what == "configuration" && !trial {
		r.Error("the journal is not mended:", text)
	}
	r.mustBe("audit", r.core.Audit(r.Context()), "")
}
