package link_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/shared/link"
	"tandem.internal/shared/link/linktest"
)

// dialled is a link under test that runs.
type dialled struct {
	*link.Dialled
	*linktest.Recorder
	t      *testing.T
	cancel context.CancelFunc
	done   chan error
}

// dial starts a link to s, unless cfg has an OpenConn or a Broker of its own.
func dial(t *testing.T, s *server, cfg link.Config, r *linktest.Recorder) *dialled {
	t.Helper()
	if cfg.ClientID == "" {
		cfg.ClientID = "x"
	}
	if cfg.OpenConn == nil && cfg.Broker == "" {
		cfg.OpenConn = s.open(cfg.ClientID)
	}
	if r == nil {
		r = &linktest.Recorder{}
	}
	l, err := link.Dial(cfg, r)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	d := &dialled{l, r, t, cancel, make(chan error, 1)}
	go func() { d.done <- l.Run(ctx) }()
	return d
}

// stop ends Run and returns how long that took.
func (d *dialled) stop() time.Duration {
	d.t.Helper()
	begin := time.Now()
	d.cancel()
	if err := <-d.done; err != nil {
		d.t.Errorf("Run: %v", err)
	}
	return time.Since(begin)
}

func (d *dialled) publish(topic, payload string) {
	d.t.Helper()
	if err := d.Publish(context.Background(), topic, []byte(payload), false); err != nil {
		d.t.Errorf("Publish: %v", err)
	}
}

// firstDown returns the first Down call, whose error must contain all words.
func (d *dialled) firstDown(session uint64, words ...string) {
	d.t.Helper()
	downs := d.Downs()
	if len(downs) == 0 {
		d.t.Fatalf("no Down call; Up %v", d.Ups())
	}
	if downs[0].Session != session {
		d.t.Errorf("Down(%d, %v), want session %d", downs[0].Session, downs[0].Err, session)
	}
	for _, w := range words {
		if !strings.Contains(downs[0].Err.Error(), w) {
			d.t.Errorf("Down says %q, want %q", downs[0].Err, w)
		}
	}
}

// never opens no connection; silent opens one whose other end is not read.
func never(ctx context.Context) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
func silent(context.Context) (net.Conn, error)    { c, _ := net.Pipe(); return c, nil }

// bubble runs f in virtual time with a server.
func bubble(t *testing.T, f func(t *testing.T, s *server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		f(t, s)
		s.Close()
	})
}

// pass lets virtual time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func contains(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}
