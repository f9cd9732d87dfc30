package join

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"

	"tandem.internal/shared/door"
)

// grace is how long requests in progress may take when the door closes.
const grace = 2 * time.Second

// maxHeader is the size of the longest header of a request, in bytes.
const maxHeader = 8 << 10

// Serve answers on l until ctx ends or l fails, and closes l. It returns after every goroutine of the
// door has ended. A second call is a bug.
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
		MaxHeaderBytes:    maxHeader - 4<<10, // the server adds 4 KiB to it
		ConnState:         door.LiftActive,
		ErrorLog:          log,
	}
	srv.SetKeepAlivesEnabled(false) // a node sends one request
	done := make(chan error, 1)
	go func() {
		done <- srv.Serve(door.TLS(door.Bound(l, d.cfg.MaxConns, d.cfg.MaxPerAddress), d.server.Keyed(), maxHeader))
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
