package tree

import (
	"bytes"
	"errors"
	"slices"
	"syscall"
	"testing"

	"tandem.internal/shared/durable"
)

type crash struct{}

// items are a layer with an entry of each kind.
func items() []item {
	return []item{dir("d"), file("d/f", "content"), symlink("l", "d/f"), hard("h", "d/f"), file(".wh.x", "")}
}

// stepsOf are the steps of what f does with a store.
func stepsOf(t *testing.T, f func(*Store) error) (steps []durable.Step) {
	s, _ := open(t)
	s.Around = func(step durable.Step, do func() error) error {
		steps = append(steps, step)
		return unflushed(step, do)
	}
	if err := f(s); err != nil {
		t.Fatal(err)
	}
	return steps
}

// faulty makes the step with the number at fail, before or after it was done, or the machine crash there.
func faulty(s *Store, at int, does, crashes bool, f func() error) (err error) {
	call := 0
	s.Around = func(step durable.Step, do func() error) error {
		if call++; call-1 != at {
			return unflushed(step, do)
		}
		if does {
			if err := do(); err != nil {
				return err
			}
		}
		if crashes {
			panic(crash{})
		}
		return syscall.ENOSPC
	}
	defer func() {
		s.Around = unflushed
		if r := recover(); r != nil {
			if r != (crash{}) {
				panic(r)
			}
			err = syscall.ENOSPC
		}
	}()
	return f()
}

// TestFaultAtEveryStep fails or crashes at every step of adding a layer. There is the whole layer or nothing of it;
// after a crash the next start removes the rest; and then it can be added.
func TestFaultAtEveryStep(t *testing.T) {
	blob, ref := layer(items()...)
	adding := func(s *Store) error {
		_, err := s.Add(t.Context(), bytes.NewReader(blob), ref)
		return err
	}
	steps := stepsOf(t, adding)
	want := slices.Concat([]durable.Step{durable.MakeDir}, slices.Repeat([]durable.Step{durable.Write}, 5),
		[]durable.Step{durable.Sync, durable.Rename, durable.SyncDir})
	if !slices.Equal(steps, want) {
		t.Fatal(steps)
	}
	whole, _ := add(t, reopen(t, t.TempDir()), items()...)
	content := listing(t, whole)
	for at, step := range steps {
		for _, does := range []bool{false, true} {
			for _, crashes := range []bool{false, true} {
				s, _ := open(t)
				if err := faulty(s, at, does, crashes, func() error { return adding(s) }); !errors.Is(err,
					syscall.ENOSPC) || errors.Is(err, ErrRefused) || errors.Is(err, ErrDamaged) {
					t.Errorf("%d %s, done %v, crash %v: %v", at, step, does, crashes, err)
				}
				there := step == durable.SyncDir || step == durable.Rename && does
				if !crashes && !there && listing(t, s.Dir) != "" {
					t.Errorf("%d %s, done %v: left\n%s", at, step, does, listing(t, s.Dir))
				}
				s = reopen(t, s.Dir)
				path, ok := s.Path(ref.DiffID)
				if ok != there || ok && listing(t, path) != content {
					t.Errorf("%d %s, done %v, crash %v: there %v", at, step, does, crashes, ok)
				}
				if !there && listing(t, s.Dir) != "" {
					t.Errorf("%d %s, done %v, crash %v: left\n%s", at, step, does, crashes, listing(t, s.Dir))
				}
				if err := adding(s); err != nil || listing(t, whole) != content {
					t.Errorf("%d %s, done %v, crash %v: again: %v", at, step, does, crashes, err)
				}
			}
		}
	}
}

// TestFaultInRemoval: the layer is there no more, and after the next start whole, or nothing of it; and it can be
// added, and removed again.
func TestFaultInRemoval(t *testing.T) {
	removing := func(s *Store) error {
		around := s.Around
		s.Around = unflushed
		add(t, s, items()...)
		s.Around = around
		return s.Keep(nil)
	}
	steps := stepsOf(t, removing)
	if want := []durable.Step{durable.Rename, durable.SyncDir, durable.Delete}; !slices.Equal(steps, want) {
		t.Fatal(steps)
	}
	for at, step := range steps {
		for _, does := range []bool{false, true} {
			for _, crashes := range []bool{false, true} {
				for _, restart := range []bool{false, true} {
					s, _ := open(t)
					path, ref := add(t, s, items()...)
					content := listing(t, path)
					if err := faulty(s, at, does, crashes, func() error { return s.Keep(nil) }); !errors.Is(err,
						syscall.ENOSPC) {
						t.Errorf("%d %s: %v", at, step, err)
					}
					if restart {
						s = reopen(t, s.Dir)
					}
					path, ok := s.Path(ref.DiffID)
					there := step == durable.Rename && !does && restart
					if ok != there || ok && listing(t, path) != content {
						t.Errorf("%d %s, done %v, crash %v: there %v", at, step, does, crashes, ok)
					}
					if restart && !ok && listing(t, s.Dir) != "" {
						t.Errorf("%d %s, done %v, crash %v: left\n%s", at, step, does, crashes, listing(t, s.Dir))
					}
					add(t, s, items()...)
					if err := s.Keep(nil); err != nil || listing(t, s.Dir) != "" {
						t.Errorf("%d %s, done %v, crash %v: again: %v\n%s", at, step, does, crashes, err,
							listing(t, s.Dir))
					}
				}
			}
		}
	}
}
