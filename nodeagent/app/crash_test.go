package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/shared/durable"
	"tandem.internal/shared/link"
	"tandem.internal/shared/wire"
)

// fault stands between an agent and the world: it counts every commit, file step, command and
// publish, and at one of them lets the machine die, or one operation fail.
type fault struct {
	rig *rig

	mu    sync.Mutex
	armed bool
	at    int // the operation at which it happens, from 1; 0: never
	die   bool
	n     int
	dead  bool
	trace []string
}

// hit counts an operation. It says whether the operation fails, and whether the machine is dead.
func (f *fault) hit(what string) (fail, dead bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead {
		return true, true
	}
	if !f.armed {
		return false, false
	}
	f.n++
	f.trace = append(f.trace, what)
	if f.n != f.at {
		return false, false
	}
	f.dead = f.die
	return true, f.dead
}

// install puts the fault into the rig's next agents.
func (f *fault) install() {
	r := f.rig
	command := r.deps.RunCommand
	r.deps.Steps = func(s durable.Step) error {
		fail, dead := f.hit("file " + string(s))
		if dead {
			runtime.Goexit() // the applier's goroutine is no more; the disk stays as it is
		}
		if fail {
			return syscall.ENOSPC
		}
		return nil
	}
	r.deps.StoreFaults = func(p Point) error {
		if fail, _ := f.hit("commit " + string(p)); fail {
			return syscall.EIO
		}
		return nil
	}
	r.deps.RunCommand = func(ctx context.Context, env, argv []string) error {
		if _, dead := f.hit("command before"); dead {
			runtime.Goexit()
		}
		err := command(ctx, env, argv)
		if _, dead := f.hit("command after"); dead {
			runtime.Goexit()
		}
		return err
	}
	r.deps.NewLink = func(cfg link.Config, h link.Handler) (link.Link, error) {
		goodbye := cfg.Goodbye
		cfg.Goodbye = func(session uint64) []link.Publication {
			if _, dead := f.state(); dead {
				return nil
			}
			return goodbye(session)
		}
		l, err := r.link(cfg, h)
		return mortal{l, f}, err
	}
}

func (f *fault) state() (n int, dead bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n, f.dead
}

func (f *fault) arm(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = on
}

// mortal is a link that dies with the machine.
type mortal struct {
	link.Link
	f *fault
}

func (m mortal) Publish(ctx context.Context, topic string, payload []byte, retain bool) error {
	if fail, dead := m.f.hit("publish " + topic[strings.LastIndexByte(topic, '/')+1:]); fail {
		if !dead {
			m.f.rig.hub.Cut("node/n1") // a publish only fails with its session
		}
		return link.ErrDown
	}
	return m.Link.Publish(ctx, topic, payload, retain)
}

// story is what happens while the fault may strike, and what must be the end of it.
type story struct {
	name string
	play func(r *rig)
	end  string // the final report; alternatives are separated by " or "
	file string // versions that config.json may have at the end; "" for none
	mid  string // versions that it may have at any moment
	bare bool   // no document 1 beforehand
	fail string // version for which apply fails
}

var stories = []story{
	{name: "apply", play: func(r *rig) { r.desire(doc(1, 2)) }, end: "2/2 installed", file: "2.0.0",
		mid: "1.0.0 2.0.0"},
	{name: "first", play: func(r *rig) { r.desire(doc(1, 2)) }, end: "2/2 installed", file: "2.0.0", mid: " 2.0.0",
		bare: true},
	{name: "rejected", play: func(r *rig) { r.desire(with(doc(1, 2), "{}")) }, end: "1/2 rejected missing",
		file: "1.0.0", mid: "1.0.0"},
	{name: "failing", play: func(r *rig) { r.desire(doc(1, 2)) }, end: "1/2 failed apply-failed", file: "1.0.0",
		mid: "1.0.0 2.0.0", fail: "2.0.0"},
	{name: "first failing", play: func(r *rig) { r.desire(doc(1, 2)) }, end: "-/2 failed apply-failed", file: "",
		mid: " 2.0.0", fail: "2.0.0", bare: true},
	{name: "confirmed", play: func(r *rig) {
		r.desire(try(doc(1, 2), "PT2M"))
		r.pass(7 * time.Second)
		p := wire.ConfirmParams{Kind: wire.KindConfig, Epoch: 1, Rev: 2}
		r.mayAsk(wire.MethodConfirm, wire.Encode(&p))
	}, end: "2/2 installed or 1/2 rolledback unconfirmed", file: "1.0.0 2.0.0", mid: "1.0.0 2.0.0"},
	{name: "unconfirmed", play: func(r *rig) {
		r.desire(try(doc(1, 2), "PT20S"))
		r.pass(time.Minute)
	}, end: "1/2 rolledback unconfirmed", file: "1.0.0", mid: "1.0.0 2.0.0"},
	{name: "newer after trial", play: func(r *rig) {
		r.desire(try(doc(1, 2), "PT20S"))
		r.desire(doc(1, 3))
	}, end: "3/3 installed", file: "3.0.0", mid: "1.0.0 2.0.0 3.0.0"},
	{name: "refused after trial", play: func(r *rig) {
		r.desire(try(doc(1, 2), "PT20S"))
		r.desire(with(doc(1, 3), "{}"))
	}, end: "1/3 rejected missing", file: "1.0.0", mid: "1.0.0 2.0.0"},
}

// tell runs a story with the fault at operation n (0: none) and returns how many there were.
func (s story) tell(t *testing.T, n int, die bool) (operations int) {
	where := ""
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.listen()
		r.beacon(1, r.signer)
		told := ""
		r.onCommand(func(_ context.Context, mode, version string) error {
			r.mu.Lock()
			told = version
			r.mu.Unlock()
			if s.fail != "" && version == s.fail {
				return errors.New("exit status 1")
			}
			return nil
		})
		f := &fault{rig: r, at: n, die: die}
		f.install()
		r.start()
		if !s.bare {
			r.desire(doc(1, 1))
		}
		f.arm(true)
		s.play(r)
		f.arm(false)
		operations, _ = f.state()
		if n > 0 {
			where = fmt.Sprintf("%s at %d (%s) of %d", map[bool]string{true: "death", false: "error"}[die],
				n, f.trace[min(n, len(f.trace))-1], operations)
		}
		r.wantOneOf(where, s.mid)
		if die && n > 0 {
			r.stop()
			r.wantOneOf(where, s.mid)
			r.deps.Steps, r.deps.StoreFaults, r.deps.NewLink = nil, nil, r.link
			f.mu.Lock()
			f.dead = false
			f.mu.Unlock()
			r.start()
			r.wantOneOf(where, s.mid)
			r.recovered(where)
		}
		r.pass(time.Hour)
		if got := r.last(); !strings.Contains(" or "+s.end+" or ", " or "+got+" or ") {
			t.Errorf("%s: reported %q at the end, want %q", where, got, s.end)
		}
		r.wantOneOf(where, s.file)
		r.consistent(where)
		if r.mu.Lock(); told != r.fileVersion() {
			t.Errorf("%s: the node's software was last told of %q, config.json is %q", where, told, r.fileVersion())
		}
		r.mu.Unlock()
		r.stop()
		if left, err := filepath.Glob(filepath.Join(r.dir, ".*")); err != nil || len(left) > 0 {
			t.Errorf("%s: left behind %v (%v)", where, left, err)
		}
	})
	return operations
}

// mayAsk publishes a request whose answer may never come.
func (r *rig) mayAsk(method wire.Method, params []byte) {
	r.asked++
	q := &wire.Request{V: wire.Version, Unit: "u1", Node: "n1", ID: fmt.Sprint("q", r.asked), Method: method,
		Params: params, NotAfter: time.Now().Add(time.Minute)}
	r.sign(q)
	r.publish(r.topics.Request(), wire.Encode(q), false)
}

// fileVersion is whose document config.json is: a version, "" for none, or "torn".
func (r *rig) fileVersion() string {
	data, err := os.ReadFile(filepath.Join(r.dir, ConfigFile))
	if os.IsNotExist(err) {
		return ""
	}
	for i := 1; i < 10; i++ {
		if v := fmt.Sprintf("%d.0.0", i); string(data) == string(body(v)) {
			return v
		}
	}
	return fmt.Sprintf("torn: %q (%v)", data, err)
}

func (r *rig) wantOneOf(where, versions string) {
	r.Helper()
	got := r.fileVersion()
	for v := range strings.SplitSeq(versions, " ") {
		if v == got {
			return
		}
	}
	r.Errorf("%s: config.json is %q, want one of %q", where, got, versions)
}

// recovered checks that right after a restart, before anything is tried again, the node runs what it
// says it runs, unless a trial goes on.
func (r *rig) recovered(where string) {
	r.Helper()
	said := r.last()
	running, last, _ := strings.Cut(said, "/")
	file, _, _ := strings.Cut(r.fileVersion(), ".")
	if strings.Contains(last, string(wire.StateApplying)) || !strings.Contains(last, string(wire.StateTrying)) &&
		strings.TrimPrefix(running, "-") != file {
		r.Errorf("%s: after the restart %q was reported, config.json is of %q", where, said, file)
	}
}

// consistent checks what all reports together must not do.
func (r *rig) consistent(where string) {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var running wire.Stamp
	for _, p := range r.reports[wire.KindConfig] {
		if p.Running == nil && !running.IsZero() || p.Running != nil && p.Running.Stamp().Compare(running) < 0 {
			r.Errorf("%s: running went back from %v to %v", where, running, p.Running)
		}
		if p.Running != nil {
			running = p.Running.Stamp()
		}
		if l := p.Last; l != nil && l.State == wire.StateInstalled && l.Stamp() != running {
			r.Errorf("%s: installed %v reported while %v runs", where, l.Stamp(), running)
		}
	}
}

// TestCrashEverywhere lets the machine die before and after every commit, before every step of
// writing config.json, around every command and before every publish of each story.
func TestCrashEverywhere(t *testing.T) {
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			n := s.tell(t, 0, false)
			if n < 4 {
				t.Fatalf("only %d operations", n)
			}
			// reports may take another's place, so the number differs by a few
			for i := 1; i <= n+2 && !t.Failed(); i++ {
				s.tell(t, i, true)
			}
			t.Logf("%d moments", n)
		})
	}
}

// TestErrorEverywhere lets each of these operations fail once instead.
func TestErrorEverywhere(t *testing.T) {
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			n := s.tell(t, 0, false)
			// reports may take another's place, so the number differs by a few
			for i := 1; i <= n+2 && !t.Failed(); i++ {
				s.tell(t, i, false)
			}
		})
	}
}
