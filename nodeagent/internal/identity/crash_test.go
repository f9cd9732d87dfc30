package identity

import (
	"errors"
	"os"
	"testing"

	"tandem.internal/shared/durable"
)

type crash struct{}

// crashing fails by a crash at the nth step.
func crashing(n int) (steps durable.Steps, count *int) {
	count = new(int)
	return func(durable.Step) error {
		if *count++; *count == n {
			panic(crash{})
		}
		return nil
	}, count
}

func survive(t *testing.T, f func()) (crashed bool) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(crash); !ok {
				panic(r)
			}
			crashed = true
		}
	}()
	f()
	return false
}

// A crash at any step of a join leaves the old identity or the new one, and the same token helps
// again.
func TestCrashWhileJoining(t *testing.T) {
	for _, rejoin := range []bool{false, true} {
		for n := 1; ; n++ {
			c, cfg := start(t)
			var before *Identity
			if rejoin {
				var err error
				if before, err = Join(t.Context(), cfg); err != nil {
					t.Fatal(err)
				}
				c.tok.Secret[0]++ // the operator has made another token
				c.used = ""
				cfg.Token = c.tok
			}
			var count *int
			cfg.Steps, count = crashing(n)
			crashed := survive(t, func() {
				if _, err := Join(t.Context(), cfg); err != nil {
					t.Error(err)
				}
			})
			after, err := Load(cfg.Dir, nil)
			switch {
			case err != nil && (rejoin || !errors.Is(err, ErrNone)):
				t.Fatalf("crash at step %d: %v", n, err)
			case err == nil && crashed && rejoin && after.CA() != before.CA():
				t.Fatalf("crash at step %d: a mixture", n)
			}
			cfg.Steps = nil
			id := after
			if crashed {
				if id, err = Join(t.Context(), cfg); err != nil {
					t.Fatalf("crash at step %d, and then: %v", n, err)
				}
			}
			if left, err := os.ReadDir(cfg.Dir); err != nil || len(left) != 1 {
				t.Fatalf("crash at step %d left %v", n, left)
			}
			if k, err := NewRenewer(RenewerConfig{Dir: cfg.Dir, Now: atDay, Dial: cfg.Dial}); err != nil ||
				k.renew(t.Context(), id) != nil {
				t.Fatalf("crash at step %d: the identity does not count (%v)", n, err)
			}
			if !crashed {
				if *count < 12 {
					t.Fatalf("only %d steps", *count)
				}
				break
			}
		}
	}
}

// A lost answer is asked for again, with the same key.
func TestAnswerIsLost(t *testing.T) {
	c, cfg := start(t)
	c.lose = true
	if _, err := Join(t.Context(), cfg); err == nil {
		t.Fatal("joined without an answer")
	}
	c.mu.Lock()
	c.lose = false
	c.mu.Unlock()
	if _, err := Join(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	other := cfg
	other.Dir = t.TempDir()
	if _, err := Join(t.Context(), other); err == nil {
		t.Error("another machine joined with the token")
	}
}
