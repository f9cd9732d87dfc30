package watch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"tandem.internal/nodeagent/internal/watch/judge"
	"tandem.internal/shared/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ownerLoop beats every period until ctx ends, or until it is told to hang.
func ownerLoop(ctx context.Context, b *Beat, period time.Duration, hang <-chan struct{}) {
	defer b.End()
	for {
		select {
		case <-time.After(period):
			b.Beat()
		case <-hang:
			<-ctx.Done() // until the test is over
			return
		case <-ctx.Done():
			return
		}
	}
}

func TestHungLoopEndsTheProcess(t *testing.T) {
	stacks := filepath.Join(t.TempDir(), "stacks")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var pings, pinged atomic.Int64 // how many, and when the newest was
		var said []string
		dead := make(chan time.Time, 1)
		w := New(Config{Supervisor: time.Minute,
			Ping: func() error { pings.Add(1); pinged.Store(time.Now().UnixNano()); return nil }, Stacks: stacks,
			Reason: func(reason wire.BootReason, detail string) error {
				said = append(said, string(reason)+", "+detail)
				return nil
			},
			Die: func() { dead <- time.Now() }})
		hang := make(chan struct{})
		owner, other := w.Register("owner", 10*time.Second), w.Register("other", 5*time.Second)
		wg.Go(func() { ownerLoop(ctx, owner, 10*time.Second, hang) })
		wg.Go(func() { ownerLoop(ctx, other, 5*time.Second, nil) })
		wg.Go(func() { w.Run(ctx) })
		time.Sleep(10*time.Minute + time.Second)
		if n := pings.Load(); n != 61 {
			t.Errorf("%d pings in ten minutes", n)
		}
		close(hang)
		began := time.Now()
		if r := <-w.Reports(); r.Name != "owner" || r.Verdict != judge.Late || r.Program {
			t.Errorf("%+v", r)
		}
		synctest.Wait()
		before := pings.Load()
		at := <-dead
		if took := at.Sub(began); took < 50*time.Second || took > 70*time.Second {
			t.Errorf("the end came after %v", took)
		}
		if silent := at.Sub(time.Unix(0, pinged.Load())); silent >= time.Minute {
			t.Errorf("the supervisor heard nothing for %v: it was first", silent)
		}
		if n := pings.Load(); n != before {
			t.Errorf("%d pings after it was late", n-before)
		}
		if len(said) != 1 || !strings.HasPrefix(said[0], "watchdog-hung, loop owner: ") {
			t.Errorf("reasons: %q", said)
		}
		cancel()
		wg.Wait()
	})
	files, err := os.ReadDir(stacks)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	text, err := os.ReadFile(filepath.Join(stacks, files[0].Name()))
	if err != nil || !strings.Contains(string(text), "ownerLoop") || !strings.Contains(string(text), "loop owner: ") {
		t.Errorf("%v: %.300s", err, text)
	}
}

// A disk that hangs, or refuses, keeps nothing from ending.
func TestNothingKeepsTheEndOff(t *testing.T) {
	for name, wait := range map[string]bool{"hangs": true, "refuses": false} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				disk, died := make(chan struct{}), false
				w := New(Config{Time: time.Minute, Stacks: file, Die: func() { died = true },
					Reason: func(wire.BootReason, string) error {
						if wait {
							<-disk
						}
						return errors.New("no space left")
					}})
				w.Register("owner", time.Second)
				began := time.Now()
				w.Run(t.Context())
				if took := time.Since(began); !died || took < time.Minute || took > time.Minute+lastWords {
					t.Errorf("died %v after %v", died, took)
				}
				close(disk)
			})
		})
	}
}

// Programs in trouble are told of, in order, to a receiver that comes late; a directory that cannot be
// looked at for a while makes nobody hang.
func TestPrograms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var blind error
		programs := []judge.Program{{Name: "sensor", Touched: "1"},
			{Name: "modem", Process: judge.Process{PID: 7, Start: 1}}}
		set := func(f func()) { mu.Lock(); defer mu.Unlock(); f() }
		w := New(Config{Look: func() ([]judge.Program, error) {
			mu.Lock()
			defer mu.Unlock()
			if blind != nil {
				return nil, blind
			}
			return append([]judge.Program(nil), programs...), nil
		}, Die: func() { t.Error("a program is not the end of the agent") }})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.Run(ctx) }()
		time.Sleep(4 * time.Minute)
		set(func() { blind = errors.New("input/output error") })
		time.Sleep(2 * time.Minute)
		set(func() { blind, programs[0].Touched = nil, "2" })
		time.Sleep(30 * time.Second)
		select {
		case r := <-w.Reports():
			t.Errorf("%+v", r)
		default:
		}
		set(func() { programs[1].Process.Start = 0 })
		time.Sleep(10 * time.Minute)
		for _, want := range []judge.Report{{Program: true, Name: "modem", Verdict: judge.Died},
			{Program: true, Name: "sensor", Verdict: judge.Hung, For: judge.DefaultTime}} {
			if r := <-w.Reports(); r != want {
				t.Errorf("%+v, want %+v", r, want)
			}
		}
		set(func() { programs[0].Touched = "3" })
		time.Sleep(time.Minute)
		set(func() { programs = programs[:1] })
		for _, want := range []judge.Report{{Program: true, Name: "sensor", Verdict: judge.Back},
			{Program: true, Name: "modem", Verdict: judge.Gone}} {
			if r := <-w.Reports(); r != want {
				t.Errorf("%+v, want %+v", r, want)
			}
		}
		cancel()
		<-done
	})
}

// What nobody takes is not piled up.
func TestReportsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(Config{Die: func() {}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.Run(ctx) }()
		b := w.Register("owner", time.Second)
		for range 100 {
			time.Sleep(time.Minute)
			b.Beat()
		}
		cancel()
		<-done
		if len(w.pending) != 1 {
			t.Errorf("%d reports wait", len(w.pending))
		}
	})
}

func TestManyLoopsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(Config{Die: func() { t.Error("died") }})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.Run(ctx) }()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				for range 20 {
					b := w.Register("loop", time.Second)
					for range 30 {
						time.Sleep(time.Second)
						b.Beat()
					}
					b.End()
					b.End()
				}
			})
		}
		wg.Wait()
		if n := len(w.beats()); n != 0 {
			t.Errorf("%d loops are left", n)
		}
		cancel()
		<-done
	})
}

func TestStacksAreBounded(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "stacks.log")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// Clocks that jump: the newest file has the oldest name.
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	for i := range 8 {
		if err := keepStacks(dir, "test", 3, at.Add(-time.Duration(i)*time.Hour)); err != nil {
			t.Fatal(err)
		}
		newest := filepath.Join(dir, "stacks-"+at.Add(-time.Duration(i)*time.Hour).Format("20060102T150405.000")+".txt")
		if _, err := os.Stat(newest); err != nil {
			t.Error(err)
		}
		when := at.Add(time.Duration(i) * time.Second)
		if err := os.Chtimes(newest, when, when); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 4 {
		t.Errorf("%v, %v", files, err)
	}
}

// A machine that sleeps, or is held up for hours: whether the clock stands still meanwhile or jumps,
// nobody is late because of it.
func TestPausedMachine(t *testing.T) {
	pings := 0
	w := New(Config{Time: 10 * time.Second, Supervisor: time.Minute, Ping: func() error { pings++; return nil },
		Die: func() { t.Error("died") }})
	quick, slow := w.Register("quick", 20*time.Second), w.Register("slow", 30*time.Second)
	now := time.Duration(0)
	for i := range 300 {
		switch {
		case i%7 == 3:
			now += 3 * time.Hour // and nobody has had the time to beat since
		case i%11 == 5: // it stood still
		default:
			now += 10 * time.Second
			quick.Beat()
			if i%2 == 0 {
				slow.Beat()
			}
		}
		if !w.look(now) {
			t.Fatal("the end")
		}
	}
	if pings != 300 || len(w.pending) != 0 {
		t.Errorf("%d pings, %d reports", pings, len(w.pending))
	}
}

// The supervisor hears of the agent four times in its span.
func TestPaceOfPings(t *testing.T) {
	for supervisor, want := range map[time.Duration]time.Duration{0: judge.DefaultTick,
		8 * time.Second: 2 * time.Second, time.Hour: judge.DefaultTick} {
		if got := New(Config{Supervisor: supervisor}).set.Tick; got != want {
			t.Errorf("supervised within %v: a look every %v, want %v", supervisor, got, want)
		}
	}
}
