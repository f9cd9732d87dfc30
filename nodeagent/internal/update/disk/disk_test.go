package disk

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/nodeagent/internal/slot/record"
	"tandem.internal/nodeagent/internal/update"
	"tandem.internal/shared/clock"
	"tandem.internal/shared/durable"
)

// order does an order as tandem-node slot does.
func order(r update.Record, o update.Order) (update.Record, error) {
	next, effects := update.New(r).Step(update.Now{Now: clock.Now{Wall: time.Now()}}, o)
	for _, e := range effects {
		if a, ok := e.(update.Answer); ok && a.Err != nil {
			return r, a.Err
		}
	}
	return next.Record, nil
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func write(t *testing.T, path, text string, perm os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), perm); err != nil {
		t.Fatal(err)
	}
}

func newStore(t *testing.T, steps durable.Steps) *Store {
	t.Helper()
	s := OpenStore(t.TempDir(), "os", steps)
	if err := s.Make(); err != nil {
		t.Fatal(err)
	}
	return s
}

func read(t *testing.T, s *Store) update.Record {
	t.Helper()
	r, err := s.Read()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// files lists what is in the store but its locks and the program's own.
func files(t *testing.T, s *Store) string {
	t.Helper()
	names, err := s.disk.List(".")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, name := range names {
		if name != stepLock && name != stageLock && name != dataDir {
			out = append(out, name)
		}
	}
	return strings.Join(out, " ")
}

func TestStage(t *testing.T) {
	s := newStore(t, nil)
	file := filepath.Join(t.TempDir(), "bundle")
	write(t, file, "the bundle", 0o600)
	const hash = "sha256:f4331c1f98a9a6d75ccbdd7e8dddcd8f65da08a0f7a2fdc5e2b0d3b5b0a7e2b0"
	for _, c := range []struct {
		name, file, version, hash string
		want                      error
	}{
		{"no such file", file + "x", "2", "", slot.ErrRefused},
		{"a directory", filepath.Dir(file), "2", "", slot.ErrRefused},
		{"no version", file, "", "", slot.ErrRefused},
		{"a version with spaces", file, "2 or 3", "", slot.ErrRefused},
		{"another hash", file, "2", hash, slot.ErrRefused},
	} {
		if _, err := s.Stage(t.Context(), c.file, c.version, c.hash, time.Now(), order); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if r := read(t, s); r.Phase != update.None || files(t, s) != "record" {
		t.Errorf("after refusals: %+v, %s", r, files(t, s))
	}
	o, err := s.Stage(t.Context(), file, "2", "", time.Now(), order)
	if err != nil {
		t.Fatal(err)
	}
	if r := read(t, s); r.Phase != update.Installing || r.Version != "2" || r.Hash != o.Hash || r.Size != 10 ||
		files(t, s) != "file-1 record" {
		t.Errorf("%+v, %s", r, files(t, s))
	}
	// With the right hash, and in the place of the one before, whose file goes with the next one.
	if _, err := s.Stage(t.Context(), file, "3", o.Hash, time.Now(), order); err != nil ||
		files(t, s) != "file-1 file-2 record" {
		t.Errorf("%v, %s", err, files(t, s))
	}
	if _, err := s.Stage(t.Context(), file, "4", "", time.Now(), order); err != nil ||
		files(t, s) != "file-2 file-3 record" {
		t.Errorf("%v, %s", err, files(t, s))
	}
	unlock, err := s.disk.Lock(stageLock, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Stage(t.Context(), file, "5", "", time.Now(), order); !errors.Is(err, slot.ErrLocked) {
		t.Errorf("two at a time: %v", err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
	// The agent sweeps while somebody stages the next one.
	write(t, s.File(4), "half", 0o600)
	if err := s.Sweep(3, 0); err != nil || files(t, s) != "file-4 record" {
		t.Errorf("%v, %s", err, files(t, s))
	}
	// A refusal comes before the copy.
	if err := s.Update(time.Now(), func(r update.Record) (update.Record, error) {
		r.Phase = update.Trying
		return r, nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Stage(t.Context(), file, "5", "", time.Now(), order); err == nil || files(t, s) != "file-4 record" {
		t.Errorf("in a trial: %v, %s", err, files(t, s))
	}
}

func TestVerifyFile(t *testing.T) {
	s := newStore(t, nil)
	file := filepath.Join(t.TempDir(), "bundle")
	write(t, file, "the bundle", 0o600)
	o, err := s.Stage(t.Context(), file, "2", "", time.Now(), order)
	if err != nil {
		t.Fatal(err)
	}
	verify := func() error {
		return s.Verify(t.Context(), update.Record{Number: 1, Size: o.Size, Hash: o.Hash})
	}
	if err := verify(); err != nil {
		t.Error(err)
	}
	for what, text := range map[string]string{"shorter": "the bundl", "longer": "the bundle.",
		"altered": "the bundlE"} {
		write(t, s.File(1), text, 0o600)
		if err := verify(); !errors.Is(err, update.ErrFailed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := os.Remove(s.File(1)); err != nil {
		t.Fatal(err)
	}
	if err := verify(); !errors.Is(err, update.ErrFailed) {
		t.Errorf("missing: %v", err)
	}
}

// A record that is no good is kept under another name, and what was under way is given up; also if the
// agent ends just then.
func TestDamagedRecord(t *testing.T) {
	for what, data := range map[string]string{"empty": "", "cut short": "tandem-component 1 00",
		"altered": "tandem-component 1 00\n{}", "of another format": "tandem-component 9 00\n{}"} {
		s := newStore(t, nil)
		write(t, filepath.Join(s.dir, recordFile), data, 0o644)
		if _, err := s.Read(); err == nil {
			t.Errorf("%s: it is read", what)
		}
		failed := errors.New("the agent ends")
		if err := s.Update(time.Now(), func(update.Record) (update.Record, error) {
			return update.Record{}, failed
		}); !errors.Is(err, failed) {
			t.Errorf("%s: %v", what, err)
		}
		for range 2 {
			if err := s.Update(time.Now(), func(r update.Record) (update.Record, error) { return r, nil }); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if r := read(t, s); r.Phase != update.RollingBack || r.Number == 0 ||
				!strings.Contains(r.Why.Detail, "lost") {
				t.Errorf("%s: %+v", what, r)
			}
		}
		if got := files(t, s); got != "record record.bad" {
			t.Errorf("%s: %s", what, got)
		}
	}
}

// The record is written whole or not at all, whatever step fails or is the last.
func TestRecordAtEveryStep(t *testing.T) {
	type crash struct{}
	for at, step := range []durable.Step{durable.Create, durable.Write, durable.Write, durable.Sync, durable.Rename,
		durable.SyncDir} {
		for _, crashes := range []bool{false, true} {
			n := -1
			s := newStore(t, func(durable.Step) error {
				if n++; n != at {
					return nil
				}
				if crashes {
					panic(crash{})
				}
				return errors.New("no space left")
			})
			to := func(version string) error {
				return s.Update(time.Now(), func(r update.Record) (update.Record, error) {
					return order(r, update.Order{What: update.OrderStage, Version: version})
				})
			}
			n = -100
			if err := to("2"); err != nil {
				t.Fatal(err)
			}
			n = -1
			func() {
				defer func() {
					if r := recover(); r != nil && r != (crash{}) {
						panic(r)
					}
				}()
				if err := to("3"); err == nil {
					t.Errorf("%s: no error", step)
				}
			}()
			want := "2"
			if step == durable.SyncDir {
				want = "3"
			}
			again := OpenStore(filepath.Dir(filepath.Dir(s.dir)), "os", nil)
			if r := read(t, again); r.Version != want {
				t.Errorf("%s, crash %v: %+v", step, crashes, r)
			}
			if err := again.Update(time.Now(), func(r update.Record) (update.Record, error) {
				return order(r, update.Order{What: update.OrderStage, Version: "4"})
			}); err != nil || read(t, again).Version != "4" {
				t.Errorf("%s, crash %v: afterwards: %v", step, crashes, err)
			}
			if err := again.Make(); err != nil || files(t, again) != "record" {
				t.Errorf("%s, crash %v: %v, left %s", step, crashes, err, files(t, again))
			}
		}
	}
}

// Steps of several processes come one after the other.
func TestStepsExclude(t *testing.T) {
	s := newStore(t, nil)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			mine := OpenStore(filepath.Dir(filepath.Dir(s.dir)), "os", nil)
			for range 10 {
				if err := mine.Update(time.Now(), func(r update.Record) (update.Record, error) {
					r.Number++
					return r, nil
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if r := read(t, s); r.Number != 80 || r.Seq != 80 {
		t.Errorf("%+v", r)
	}
}

func TestBusy(t *testing.T) {
	dir := t.TempDir()
	if names, err := Names(dir); err != nil || len(names) != 0 || Busy(dir, "") != nil {
		t.Errorf("%v %v", names, err)
	}
	for name, phase := range map[string]update.Phase{"app": update.Staged, "os": update.Trying} {
		s := OpenStore(dir, name, nil)
		if err := s.Make(); err != nil {
			t.Fatal(err)
		}
		if err := s.Update(time.Now(), func(r update.Record) (update.Record, error) {
			r.Number, r.Phase, r.Version = 1, phase, "2"
			return r, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := Busy(dir, ""); !errors.Is(err, record.ErrTrial) || !strings.Contains(err.Error(), "os") {
		t.Errorf("%v", err)
	}
	if err := Busy(dir, "os"); err != nil {
		t.Errorf("but os: %v", err)
	}
	os := OpenStore(dir, "os", nil)
	if err := os.Update(time.Now(), func(r update.Record) (update.Record, error) {
		r.Off = true
		return r, nil
	}); err != nil || Busy(dir, "") != nil {
		t.Errorf("one that nobody drives: %v %v", err, Busy(dir, ""))
	}
	write(t, filepath.Join(os.dir, recordFile), "nonsense", 0o644)
	if err := Busy(dir, ""); err == nil {
		t.Error("one whose record cannot be read is not busy")
	}
}
