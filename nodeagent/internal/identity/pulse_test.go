package identity

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/nodeagent/internal/watch"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

// watched runs a keeper's loops once more, under a watchdog; died tells what ended the process.
func watched(t *testing.T, b *kept) (died <-chan string, stacks string, stop func()) {
	t.Helper()
	b.stopLoops()
	why, end := "", make(chan string, 1)
	stacks = filepath.Join(t.TempDir(), "stacks")
	w := watch.New(watch.Config{Time: time.Minute, Stacks: stacks, Die: func() { end <- why },
		Reason: func(reason wire.BootReason, detail string) error { why = string(reason) + ", " + detail; return nil }})
	b.k.cfg.Watch = w.Loop
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { b.k.Run(ctx) })
	running.Go(func() { b.k.RunKeys(ctx) })
	running.Go(func() { w.Run(ctx) })
	return end, stacks, func() { cancel(); running.Wait() }
}

// A disk that hangs while the certificate is renewed, and somebody who never takes the keys: each is
// found by the loop's name.
func TestHangsAreFound(t *testing.T) {
	for loop, c := range map[string]struct {
		in  string
		set func(b *kept, gate <-chan struct{})
	}{
		"certificate": {"(*Renewer).Run", func(b *kept, gate <-chan struct{}) {
			b.set(func() { b.steps = func(durable.Step) error { <-gate; return nil } })
		}},
		"keys": {"(*Renewer).RunKeys", func(b *kept, gate <-chan struct{}) {
			b.k.cfg.OnKeys = func(Keys) { <-gate }
			b.k.AskKeys()
		}},
	} {
		t.Run(loop, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := keep(t)
				defer b.stop()
				gate := make(chan struct{})
				b.stopLoops()
				time.Sleep(life * 6 / 10) // soon it is time to renew
				c.set(b, gate)
				died, stacks, stop := watched(t, b)
				why := <-died
				if !strings.HasPrefix(why, "watchdog-hung, loop "+loop+": ") {
					t.Errorf("ended because of %q", why)
				}
				close(gate)
				stop()
				files, err := filepath.Glob(filepath.Join(stacks, "*"))
				if err != nil || len(files) != 1 {
					t.Fatalf("stacks: %v %v", files, err)
				}
				if text, err := os.ReadFile(files[0]); err != nil || !strings.Contains(string(text), c.in) {
					t.Errorf("the stacks do not show it: %v", err)
				}
			})
		})
	}
}

// A controller that cannot be reached, or takes the connection and never answers, makes nothing hang.
func TestSilentControllerIsNoHang(t *testing.T) {
	for name, dial := range map[string]DialFunc{
		"away": func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no way") },
		"silent": func(context.Context, string, string) (net.Conn, error) {
			here, _ := net.Pipe()
			return here, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := keep(t)
				defer b.stop()
				b.stopLoops()
				b.k.cfg.Dial = dial
				time.Sleep(life * 7 / 10) // it is time to renew
				b.k.AskKeys()
				died, _, stop := watched(t, b)
				select {
				case why := <-died:
					t.Errorf("ended because of %q", why)
				case <-time.After(24 * time.Hour):
				}
				stop()
				time.Sleep(2 * timeout) // and no connection is left behind, or the bubble fails
			})
		})
	}
}
