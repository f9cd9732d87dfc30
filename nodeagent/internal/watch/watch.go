// Package watch is the agent's watchdog (seed 002, Watchdog Time). Every loop of the agent registers
// and beats; programs beside the agent touch files and name processes; the supervisor above the agent
// is told that all is well only while it is. Package judge decides; this one looks, and acts.
//
// It guarantees that a loop which hangs ends the process, with the reason and the stacks of all
// goroutines kept as far as the disk takes them in time: neither a full disk nor a hanging one keeps
// the end off. It must not depend on any loop that it watches, and it does not restart anything.
package watch

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/watch/judge"
	"tandem.internal/shared/wire"
)

// ExitHung is the exit status after a loop hung: as after SIGABRT.
const ExitHung = 134

// lastWords is how long the process may take to keep reason and stacks before it ends.
const lastWords = 5 * time.Second

// Config says what to watch and what to do about it.
type Config struct {
	Time time.Duration // the watchdog time; 0: judge.DefaultTime
	// within which the supervisor wants a ping; 0: there is none. See Notifier
	Supervisor time.Duration
	Ping       func() error // tells the supervisor that all is well; nil: nobody
	// of the programs' files, see Programs; "": there are none
	Dir  string
	Look func() ([]judge.Program, error) // nil: Programs(Dir)
	// directory for the stacks of a hung process; "": not kept
	Stacks string
	Keep   int // files of stacks at most, the oldest go first; 0: 5
	// keeps the boot reason, durably; called before the stacks are written; nil: nobody
	Reason func(reason wire.BootReason, detail string) error
	Die    func()      // ends the process at once; nil: exits with ExitHung
	Log    *zap.Logger // nil: nowhere
}

// Watch is a watchdog. Make it with New, run it once. Register and the Beats are for any goroutine.
type Watch struct {
	cfg  Config
	set  judge.Settings
	out  chan judge.Report
	last atomic.Uint64 // ID of the newest registration

	mu    sync.Mutex
	loops []*Beat

	// The rest belongs to Run's goroutine.
	state   judge.State
	pending []judge.Report
	trouble map[string]string // what has been logged
}

// Beat is one registered loop.
type Beat struct {
	w      *Watch
	id     uint64
	name   string
	period time.Duration
	count  atomic.Uint64
}

// New makes a watchdog.
func New(cfg Config) *Watch {
	if cfg.Time == 0 {
		cfg.Time = judge.DefaultTime
	}
	if cfg.Keep == 0 {
		cfg.Keep = 5
	}
	if cfg.Ping == nil {
		cfg.Ping = func() error { return nil }
	}
	if cfg.Look == nil {
		cfg.Look = func() ([]judge.Program, error) { return Programs(cfg.Dir) }
	}
	if cfg.Die == nil {
		cfg.Die = func() { os.Exit(ExitHung) }
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	set := judge.Settings{Tick: judge.DefaultTick, Time: cfg.Time, Supervisor: cfg.Supervisor}
	if cfg.Supervisor > 0 {
		set.Tick = max(time.Millisecond, min(set.Tick, cfg.Supervisor/4))
	}
	return &Watch{cfg: cfg, set: set, out: make(chan judge.Report), state: judge.New(set), trouble: map[string]string{}}
}

// Register says that the caller's loop is going to beat at least once a period, from now until End.
// Two missed beats and a look make it late; see judge.Settings for the rest.
func (w *Watch) Register(name string, period time.Duration) *Beat {
	b := &Beat{w: w, id: w.last.Add(1), name: name, period: period}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loops = append(w.loops, b)
	return b
}

// Loop is Register for loops that do not know this package: a pulse.Watch.
func (w *Watch) Loop(name string, period time.Duration) (beat, end func()) {
	b := w.Register(name, period)
	return b.Beat, b.End
}

// Beat says that the loop goes round. It costs nothing and never waits.
func (b *Beat) Beat() { b.count.Add(1) }

// End says that the loop has ended in good order. A second call does nothing.
func (b *Beat) End() {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	b.w.loops = slices.DeleteFunc(b.w.loops, func(o *Beat) bool { return o == b })
}

// Reports is where Run tells of what is in trouble and out of it. Whoever receives may be late or gone:
// reports wait, and of one thing only the newest.
func (w *Watch) Reports() <-chan judge.Report { return w.out }

// Run watches until ctx ends. The watchdog is the last to be stopped, after everything that it
// watches has.
func (w *Watch) Run(ctx context.Context) {
	began := time.Now()
	ticker := time.NewTicker(w.set.Tick)
	defer ticker.Stop()
	for w.look(time.Since(began)) {
		for looked := false; !looked; {
			var out chan judge.Report
			var next judge.Report
			if len(w.pending) > 0 {
				out, next = w.out, w.pending[0]
			}
			select {
			case <-ctx.Done():
				return
			case out <- next:
				w.pending = w.pending[1:]
			case <-ticker.C:
				looked = true
			}
		}
	}
}

// look takes one look and does what follows from it. It says false after the end of the process.
func (w *Watch) look(now time.Duration) bool {
	seen := judge.Seen{Loops: w.beats()}
	programs, err := w.cfg.Look()
	w.once("look", "the files of watched programs cannot be looked at", err)
	seen.Programs, seen.Blind = programs, err != nil
	var effects []judge.Effect
	w.state, effects = w.state.Step(now, seen)
	for _, e := range effects {
		switch e := e.(type) {
		case judge.Ping:
			w.once("ping", "the supervisor cannot be told that all is well", w.cfg.Ping())
		case judge.Tell:
			w.tell(e.Report)
		case judge.Fatal:
			w.die(e)
			return false
		}
	}
	return true
}

func (w *Watch) beats() []judge.Loop {
	w.mu.Lock()
	defer w.mu.Unlock()
	loops := make([]judge.Loop, len(w.loops))
	for i, b := range w.loops {
		loops[i] = judge.Loop{ID: b.id, Name: b.name, Period: b.period, Beats: b.count.Load()}
	}
	return loops
}

// once logs an error when it begins and when it is over.
func (w *Watch) once(what, message string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == w.trouble[what] {
		return
	}
	w.trouble[what] = text
	if err != nil {
		w.cfg.Log.Error(message, zap.Error(err))
	} else {
		w.cfg.Log.Info("works again: " + what)
	}
}

func (w *Watch) tell(r judge.Report) {
	fields := []zap.Field{zap.Bool("program", r.Program), zap.String("name", r.Name),
		zap.String("verdict", string(r.Verdict))}
	if r.For > 0 {
		fields = append(fields, zap.Duration("for", r.For))
	}
	if r.Trouble != "" {
		fields = append(fields, zap.String("trouble", r.Trouble))
	}
	w.cfg.Log.Warn("watchdog", fields...)
	w.pending = append(slices.DeleteFunc(w.pending, func(o judge.Report) bool {
		return o.Program == r.Program &&
			o.Name == r.Name
	}), r)
}

// die keeps what can be kept of a hung process, and ends it. What is hung may be the disk.
func (w *Watch) die(f judge.Fatal) {
	detail := fmt.Sprintf("loop %s: %v without a beat", f.Loop, f.For)
	w.cfg.Log.Error("watchdog: the agent hangs and ends", zap.String("loop", f.Loop), zap.Duration("for", f.For))
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		if w.cfg.Reason != nil {
			if err := w.cfg.Reason(wire.BootWatchdogHung, detail); err != nil {
				w.cfg.Log.Error("the boot reason cannot be kept", zap.Error(err))
			}
		}
		if w.cfg.Stacks != "" {
			if err := keepStacks(w.cfg.Stacks, detail, w.cfg.Keep, time.Now()); err != nil {
				w.cfg.Log.Error("the stacks cannot be kept", zap.Error(err))
			}
		}
	}()
	limit := time.NewTimer(lastWords)
	defer limit.Stop()
	select {
	case <-kept:
	case <-limit.C:
	}
	w.cfg.Die()
}
