package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"tandem.internal/shared/door"
)

// maxHeader is the size of the longest header of a request, in bytes.
const maxHeader = 16 << 10

// Serve answers on the listeners until ctx ends or one of them fails, and closes them. It returns
// when every request has ended: streams at once, the rest within Config.Grace. It is called once.
func (a *API) Serve(ctx context.Context, listeners ...net.Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	srv := &http.Server{
		Handler:           a,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      30*time.Second + a.cfg.WriteTimeout,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    maxHeader - 4<<10, // the server adds 4 KiB to it
		ConnContext:       withPeer,
		ConnState:         door.LiftActive,
		ErrorLog:          zap.NewStdLog(a.log.WithOptions(zap.IncreaseLevel(zap.WarnLevel))),
	}
	var accepting sync.WaitGroup
	for _, l := range listeners {
		accepting.Go(func() {
			if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				cancel(fmt.Errorf("listening on %s: %w", l.Addr(), err))
			}
		})
	}
	<-ctx.Done()
	a.stop()
	grace, done := context.WithTimeout(context.Background(), a.cfg.Grace)
	defer done()
	if err := srv.Shutdown(grace); err != nil {
		a.log.Warn("cutting off requests that did not end in time", zap.Duration("grace", a.cfg.Grace))
		if err := srv.Close(); err != nil {
			a.log.Debug("closing the listeners", zap.Error(err))
		}
	}
	accepting.Wait()
	a.drain()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// maxSocketPath is what fits a sockaddr_un on Linux, with its closing zero.
const maxSocketPath = 107

// ListenUnix listens on a unix socket at path with the given mode. Nobody can connect before the
// mode is set. A socket that a dead process left is replaced; anything that is not a socket, or a
// socket on which somebody answers, is an error. A lock file beside the socket, path + ".lock",
// decides between two controllers that start together; it stays.
func ListenUnix(path string, mode fs.FileMode) (net.Listener, error) {
	fail := func(err error) (net.Listener, error) { return nil, fmt.Errorf("socket %s: %w", path, err) }
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fail(err)
	}
	l := &socket{path: path, lock: lock}
	if err := l.open(mode); err != nil {
		return fail(errors.Join(err, lock.Close()))
	}
	return l, nil
}

// socket is a unix listener that removes its file and then gives up its lock.
type socket struct {
	*net.UnixListener
	path string
	lock *os.File
	once sync.Once
	err  error
}

func (s *socket) open(mode fs.FileMode) error {
	if err := syscall.Flock(int(s.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return errors.New("another controller holds it; stop that one, or give this one another socket")
		}
		return fmt.Errorf("locking %s: %w", s.lock.Name(), err)
	}
	if err := vacant(s.path); err != nil {
		return err
	}
	// Bound in a directory that only we may enter, then moved: no moment with a wrong mode, and
	// the stale socket is replaced in one step.
	dir, err := os.MkdirTemp(filepath.Dir(s.path), ".t")
	if err != nil {
		return err
	}
	born := filepath.Join(dir, "s")
	if n := max(len(s.path), len(born)); n > maxSocketPath {
		return errors.Join(fmt.Errorf("the path is too long for a socket: %d bytes, at most %d fit", n, maxSocketPath),
			os.Remove(dir))
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: born, Net: "unix"})
	if err != nil {
		return errors.Join(err, os.Remove(dir))
	}
	l.SetUnlinkOnClose(false)
	s.UnixListener = l
	if err := errors.Join(os.Chmod(born, mode), os.Rename(born, s.path)); err != nil {
		return errors.Join(err, l.Close(), os.RemoveAll(dir))
	}
	return os.Remove(dir)
}

// vacant says why a listener must not take path.
func vacant(path string) error {
	stat, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if stat.Mode().Type() != fs.ModeSocket {
		return errors.New("something that is not a socket is there already; it was left alone")
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		return errors.Join(errors.New("another program answers on it"), c.Close())
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	}
	return fmt.Errorf("cannot tell whether the socket there is in use: %w", err)
}

// Addr is the socket's path.
func (s *socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

// Close stops listening and removes the socket file.
func (s *socket) Close() error {
	s.once.Do(func() {
		err := s.UnixListener.Close()
		if rm := os.Remove(s.path); !errors.Is(rm, fs.ErrNotExist) {
			err = errors.Join(err, rm)
		}
		s.err = errors.Join(err, s.lock.Close())
	})
	return s.err
}

// How many connections a TCP listener has at once, of all addresses and of one.
const (
	maxConns        = 512
	maxConnsPerPeer = 64
)

// ListenTCP listens on address, host:port, with TLS if conf is there. Without it tokens cross the
// network in the clear, so an address that is not loopback is refused unless insecure says
// otherwise.
func ListenTCP(address string, conf *tls.Config, insecure bool) (net.Listener, error) {
	fail := func(why string) (net.Listener, error) { return nil, fmt.Errorf("HTTP on %s: %s", address, why) }
	addr, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return fail(err.Error())
	}
	if conf == nil && !addr.IP.IsLoopback() && !insecure {
		return fail("the address is not loopback, and without TLS tokens could be read on the network")
	}
	l, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return nil, err
	}
	b := door.Bound(l, maxConns, maxConnsPerPeer)
	if conf == nil {
		return b, nil
	}
	conf = conf.Clone()
	conf.MinVersion = tls.VersionTLS13
	conf.NextProtos = []string{"http/1.1"} // one request at a time on a connection, so that counting connections counts
	conf.ClientAuth = tls.NoClientCert     // tokens say who comes, and browsers would ask for a certificate
	return door.TLS(b, conf, maxHeader), nil
}
