package identity

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/shared/durable"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

// bubble is the time in a synctest bubble, moved into this century's better part.
func bubble() time.Time { return time.Now().Add(27 * 365 * 24 * time.Hour) }

// kept is a controller and a keeper that has joined it, in a bubble.
type kept struct {
	*controller
	k      *Renewer
	dir    string
	dial   DialFunc
	events []Event
	lists  []Keys
	steps  durable.Steps
	stop   func()

	stopLoops func() // Run and RunKeys end; the rest stays
}

// keep starts a keeper; stop has to be called before the bubble ends.
func keep(t *testing.T) *kept {
	t.Helper()
	b := &kept{controller: newController(t, bubble), dir: filepath.Join(t.TempDir(), "identity")}
	dial, closeDoor := b.serveInBubble(t, b.serverTLS())
	b.dial = dial
	if _, err := Join(t.Context(), JoinConfig{Dir: b.dir, Controller: "gateway:1", Token: b.tok, Now: bubble,
		Dial: dial}); err != nil {
		t.Fatal(err)
	}
	var err error
	b.k, err = NewRenewer(RenewerConfig{Dir: b.dir, Now: bubble, Dial: dial, Rand: rand.New(rand.NewPCG(1, 2)),
		Steps:   func(s durable.Step) error { return b.step(s) },
		OnEvent: func(ev Event) { b.mu.Lock(); b.events = append(b.events, ev); b.mu.Unlock() },
		OnKeys:  func(k Keys) { b.mu.Lock(); b.lists = append(b.lists, k); b.mu.Unlock() }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { b.k.Run(ctx) })
	running.Go(func() { b.k.RunKeys(ctx) })
	b.stopLoops = func() {
		cancel()
		running.Wait()
	}
	b.stop = func() {
		b.stopLoops()
		closeDoor()
	}
	return b
}

func (b *kept) step(s durable.Step) error {
	b.mu.Lock()
	steps := b.steps
	b.mu.Unlock()
	if steps == nil {
		return nil
	}
	return steps(s)
}

func (b *kept) set(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// pass lets time pass, and what is to happen happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestRenewsByItselfForYears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := keep(t)
		defer b.stop()
		for end := bubble().AddDate(3, 0, 0); bubble().Before(end); pass(24 * time.Hour) {
			if left := b.k.Current().Expires().Sub(bubble()); left < life/4 {
				t.Fatalf("%v left at %v", left, bubble())
			}
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if n := len(b.asked); n < 17 || n > 21 {
			t.Errorf("asked %d times in three years", n)
		}
		for _, ev := range b.events {
			if ev.Type != Renewed {
				t.Errorf("%+v", ev)
			}
		}
		disk, err := Load(b.dir, nil)
		if err != nil || !disk.cert.Leaf.Equal(b.k.Current().cert.Leaf) {
			t.Errorf("the disk has another identity: %v", err)
		}
	})
}

// A controller that is away for a while: patience, one event, and no hammering.
func TestKeepsTrying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := keep(t)
		defer b.stop()
		first := b.k.Current()
		b.set(func() { b.refuse = wire.New(wire.CodeUnavailable, "", "later") })
		pass(61 * 24 * time.Hour)
		b.set(func() {
			if n := len(b.asked); n < 5 || n > 45 {
				t.Errorf("asked %d times in one to five days", n)
			}
			for i := 1; i < len(b.asked); i++ {
				if gap := b.asked[i].Sub(b.asked[i-1]); gap < backoff/2 || gap > maxPause {
					t.Errorf("%v between two attempts", gap)
				}
			}
			if n := len(b.events); n < 1 || n > 6 || b.events[0].Type != NotRenewed ||
				b.events[0].Error.Code != wire.CodeUnavailable {
				t.Errorf("%+v", b.events)
			}
			b.refuse, b.events = nil, nil
		})
		pass(maxPause)
		b.set(func() {
			if len(b.events) != 1 || b.events[0].Type != Renewed {
				t.Errorf("%+v", b.events)
			}
		})
		if !b.k.Current().Expires().After(first.Expires()) {
			t.Error("not renewed")
		}
	})
}

func TestTellsWhenItIsTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := keep(t)
		defer b.stop()
		b.set(func() { b.refuse = wire.New(wire.CodeUnavailable, "", "later") })
		pass(100 * 24 * time.Hour)
		b.set(func() {
			last := b.events[len(b.events)-1]
			if last.Type != Expired {
				t.Errorf("%+v", last)
			}
			if n := len(b.events); n > 45 {
				t.Errorf("%d events in forty days", n)
			}
			b.refuse = nil
		})
		pass(24 * time.Hour) // TLS refuses what has expired, whatever the controller would do
		if !b.k.Current().Expires().Before(bubble()) {
			t.Error("an expired certificate was renewed")
		}
	})
}

// A new reason is told at once.
func TestTellsANewReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := keep(t)
		defer b.stop()
		b.set(func() { b.refuse = wire.New(wire.CodeUnavailable, "", "later") })
		pass(60 * 24 * time.Hour)
		b.set(func() {
			b.events = nil
			b.refuse = wire.New(wire.CodeNotAllowed, "", "revoked")
		})
		pass(maxPause)
		b.set(func() {
			if len(b.events) != 1 || b.events[0].Error.Code != wire.CodeNotAllowed {
				t.Errorf("%+v", b.events)
			}
		})
	})
}

// Faults of the disk and lost answers: the old identity stays in use and counts.
func TestRenewalThatFailsHalfWay(t *testing.T) {
	full := errors.New("disk full")
	for _, tt := range []struct {
		name  string
		spoil func(b *kept)
	}{
		{"lost answers", func(b *kept) { b.lose = true }},
		{"a full disk", func(b *kept) { b.steps = func(durable.Step) error { return full } }},
		{"a disk that fails late", func(b *kept) {
			b.steps = func(s durable.Step) error {
				if s == durable.SyncDir {
					return full
				}
				return nil
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := keep(t)
				defer b.stop()
				first := b.k.Current()
				b.set(func() { tt.spoil(b) })
				pass(62 * 24 * time.Hour)
				if b.k.Current() != first {
					t.Fatal("an identity that is not on the disk is in use")
				}
				if _, err := Load(b.dir, nil); err != nil {
					t.Fatal(err)
				}
				b.set(func() { b.lose, b.steps = false, nil })
				pass(maxPause)
				if b.k.Current() == first {
					t.Error("not renewed afterwards")
				}
			})
		})
	}
}

// A crash at any step of a renewal: the next start has an identity that counts.
func TestCrashWhileRenewing(t *testing.T) {
	for n := 1; ; n++ {
		c, cfg := start(t)
		old, err := Join(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		steps, count := crashing(n)
		k, err := NewRenewer(RenewerConfig{Dir: cfg.Dir, Now: atDay, Dial: cfg.Dial, Steps: steps})
		if err != nil {
			t.Fatal(err)
		}
		crashed := survive(t, func() {
			if err := k.renew(t.Context(), k.Current()); err != nil {
				t.Error(err)
			}
		})
		if crashed && !k.Current().cert.Leaf.Equal(old.cert.Leaf) {
			t.Fatalf("crash at step %d: in use before it is durable", n)
		}
		k, err = NewRenewer(RenewerConfig{Dir: cfg.Dir, Now: atDay, Dial: cfg.Dial})
		if err != nil {
			t.Fatalf("crash at step %d: %v", n, err)
		}
		counts := false
		for _, der := range c.newest {
			counts = counts || bytes.Equal(der, k.Current().cert.Leaf.Raw)
		}
		if !counts {
			t.Fatalf("crash at step %d: the identity does not count", n)
		}
		if err := k.renew(t.Context(), k.Current()); err != nil {
			t.Fatalf("crash at step %d, and then: %v", n, err)
		}
		if !crashed {
			if *count < 6 {
				t.Fatalf("only %d steps", *count)
			}
			return
		}
	}
}

func TestRenewalChecksTheAnswer(t *testing.T) {
	for name, spoil := range map[string]func(c *controller, a *jointoken.Admission){
		"another CA":   func(c *controller, a *jointoken.Admission) { a.CA = newAuthority(c.t, day).cert.Raw },
		"another node": func(_ *controller, a *jointoken.Admission) { a.Node = "n2" },
		"another unit": func(_ *controller, a *jointoken.Admission) { a.Unit = "u2" },
		"another key":  func(c *controller, a *jointoken.Admission) { a.Certificate = c.newest[0] },
	} {
		c, cfg := start(t)
		if _, err := Join(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		c.spoil = func(a *jointoken.Admission) { spoil(c, a) }
		k, err := NewRenewer(RenewerConfig{Dir: cfg.Dir, Now: atDay, Dial: cfg.Dial})
		if err != nil {
			t.Fatal(err)
		}
		old := k.Current()
		if err := k.renew(t.Context(), old); err == nil || k.Current() != old {
			t.Errorf("%s: taken (%v)", name, err)
		}
	}
}

// What a broker sees: the newest certificate on each connection, and nothing below TLS 1.3.
func TestTLS(t *testing.T) {
	c, cfg := start(t)
	if _, err := Join(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	k, err := NewRenewer(RenewerConfig{Dir: cfg.Dir, Now: atDay, Dial: cfg.Dial})
	if err != nil {
		t.Fatal(err)
	}
	conf := k.TLS(jointoken.ServerName)
	conns := &pipes{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
	connect := func(server *tls.Config) (tls.ConnectionState, error) {
		ours, err := conns.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := conns.Accept()
		if err != nil {
			t.Fatal(err)
		}
		s := tls.Server(theirs, server)
		done := make(chan error, 1)
		go func() {
			defer theirs.Close()
			done <- s.HandshakeContext(t.Context())
		}()
		cl := tls.Client(ours, conf.Clone())
		cerr := cl.HandshakeContext(t.Context())
		ours.Close()
		serr := <-done
		return s.ConnectionState(), errors.Join(cerr, serr)
	}
	server := c.serverTLS()
	server.ClientAuth = tls.RequireAndVerifyClientCert
	server.SessionTicketsDisabled = true // a pipe holds nothing that nobody reads
	shown := func() []byte {
		t.Helper()
		state, err := connect(server)
		if err != nil {
			t.Fatal(err)
		}
		return state.PeerCertificates[0].Raw
	}
	if !bytes.Equal(shown(), k.Current().cert.Leaf.Raw) {
		t.Error("another certificate is shown")
	}
	if err := k.renew(t.Context(), k.Current()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(shown(), k.Current().cert.Leaf.Raw) || !bytes.Equal(shown(), c.newest[1]) {
		t.Error("the renewal takes no effect")
	}
	foreign := newController(t, atDay).serverTLS()
	foreign.SessionTicketsDisabled = true
	if _, err := connect(foreign); err == nil {
		t.Error("another CA's broker is believed")
	}
	old := server.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if _, err := connect(old); err == nil {
		t.Error("TLS 1.2 is spoken")
	}
}
