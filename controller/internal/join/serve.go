package join

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"

	"tandem.internal/controller/internal/enrol"
)

// grace is what requests being answered have when the door closes.
const grace = 2 * time.Second

// Serve answers on l until ctx ends or l fails, and closes l. It returns when nothing of the door
// runs any more. A second call is a bug.
func (d *Door) Serve(ctx context.Context, l net.Listener) error {
	log, err := zap.NewStdLogAt(d.log, zap.DebugLevel) // strangers must not fill the log
	if err != nil {
		return errors.Join(err, l.Close())
	}
	srv := &http.Server{
		Handler:           d,
		ReadHeaderTimeout: d.cfg.Timeout, // for the TLS handshake as well
		ReadTimeout:       d.cfg.Timeout,
		WriteTimeout:      2 * d.cfg.Timeout,
		IdleTimeout:       d.cfg.Timeout,
		MaxHeaderBytes:    4 << 10,
		ErrorLog:          log,
	}
	srv.SetKeepAlivesEnabled(false) // a node asks once
	done := make(chan error, 1)
	go func() {
		done <- srv.Serve(tls.NewListener(&bounded{Listener: l, max: d.cfg.MaxConns, each: d.cfg.MaxPerAddress, from: map[netip.Prefix]int{}}, d.server.Optional()))
	}()
	select {
	case err := <-done:
		return errors.Join(fmt.Errorf("listening on %s: %w", l.Addr(), err), srv.Close())
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err = srv.Shutdown(late); err != nil {
		err = srv.Close()
	}
	<-done
	return err
}

// bounded turns connections away as they come when there are too many, of all or of one address.
type bounded struct {
	net.Listener
	max, each int

	mu   sync.Mutex
	all  int
	from map[netip.Prefix]int
}

// Accept returns the next connection that there is room for.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		a := netip.Prefix{}
		if r := c.RemoteAddr(); r != nil {
			a = enrol.Network(address(r.String()))
		}
		b.mu.Lock()
		ok := b.all < b.max && b.from[a] < b.each
		if ok {
			b.all++
			b.from[a]++
		}
		b.mu.Unlock()
		if ok {
			return &counted{Conn: c, release: func() { b.release(a) }}, nil
		}
		_ = c.Close() // a stranger's connection: there is nobody to tell
	}
}

func (b *bounded) release(a netip.Prefix) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all--
	if b.from[a]--; b.from[a] == 0 {
		delete(b.from, a)
	}
}

// counted is a connection that is counted until it is closed.
type counted struct {
	net.Conn
	once    sync.Once
	release func()
}

func (c *counted) Close() error {
	c.once.Do(c.release)
	return c.Conn.Close()
}
