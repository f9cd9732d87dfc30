// Package key is the program tandem-key: it holds a node's private keys as another user than the agent's, and signs for
// the agent. It guarantees that no private key leaves it, that it signs nothing but what a node signs (TLS 1.3
// handshakes as a client, and requests for certificates of its own keys), that only the agent is answered, and that a
// key which it has answered with survives a crash.
package key

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/signer"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/flow"
	"tandem.internal/shared/wire"
)

// Config says where the program listens, and for whom.
type Config struct {
	Socket string
	Dir    string        // of its keys; made if missing
	Chip   Chip          // makes and uses the keys; nil: in files
	Guard  Guard         // who is answered
	Log    *zap.Logger   // nil: nowhere
	Steps  durable.Steps // fault seam; nil in production
}

// Bounds.
const (
	maxClients = 16
	askLimit   = 5 * time.Second // to ask, and to take the answer
)

// refusals bounds what the log says about those who are not answered.
var refusals = flow.Rate{Burst: 10, Every: time.Minute}

// call is a question on its way to the loop.
type call struct {
	question signer.Question
	answer   chan signer.Answer // has room for one
}

// server is the program. Its store belongs to the goroutine of Serve.
type server struct {
	cfg   Config
	store *store
	calls chan call
	group sync.WaitGroup
}

// Serve answers the agent until ctx ends. ready, if it is not nil, is closed when it listens.
func Serve(ctx context.Context, cfg Config, ready chan<- struct{}) (err error) {
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	if cfg.Chip == nil {
		cfg.Chip = Files{}
	}
	unlock, err := lock(cfg.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	s := &server{cfg: cfg, calls: make(chan call)}
	if s.store, err = openStore(cfg); err != nil {
		return err
	}
	l, err := listen(cfg.Socket)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	s.group.Go(func() { s.accept(ctx, l) })
	cfg.Log.Info("serving", zap.String("socket", cfg.Socket), zap.String("keys are in", cfg.Chip.Name()),
		zap.Int("keys", len(s.store.data.Keys)))
	if ready != nil {
		close(ready)
	}
	for done := ctx.Done(); done != nil; {
		select {
		case <-done:
			done = nil
		case c := <-s.calls:
			c.answer <- s.do(c.question)
		}
	}
	err = l.Close()
	cancel()
	s.group.Wait()
	return err
}

// lock makes the directory and takes it for this process alone.
func lock(dir string) (unlock func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("directory of the keys: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("directory of the keys: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("the directory %s is open to others (mode %v); chmod 700 it", dir, info.Mode().Perm())
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("directory of the keys: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errors.New("another tandem-key has it")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("directory %s: %w", dir, err), f.Close())
	}
	return f.Close, nil
}

// listen makes the socket. Everybody may connect: who is answered, the guard says.
func listen(path string) (*net.UnixListener, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSocket {
		if err := os.Remove(path); err != nil { // left by a crash
			return nil, fmt.Errorf("socket: %w", err)
		}
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		return nil, errors.Join(fmt.Errorf("socket: %w", err), l.Close())
	}
	return l, nil
}

// accept lets clients in until the listener is closed.
func (s *server) accept(ctx context.Context, l *net.UnixListener) {
	seats := make(chan struct{}, maxClients)
	var refused flow.Throttle
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			select { // out of file descriptors, say
			case <-ctx.Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		if err := s.admit(conn, seats); err != nil {
			_ = conn.Close() // whoever asks again is judged again
			if held, ok := refused.Pass(time.Now(), refusals); ok {
				s.cfg.Log.Warn("somebody was hung up on", zap.Error(err), zap.Int("more before", held))
			}
			continue
		}
		s.group.Go(func() {
			defer func() { <-seats }()
			s.attend(ctx, conn)
		})
	}
}

// admit gives a client a seat, or says why not.
func (s *server) admit(conn *net.UnixConn, seats chan<- struct{}) error {
	if err := s.cfg.Guard(conn); err != nil {
		return err
	}
	select {
	case seats <- struct{}{}:
		return nil
	default:
		return fmt.Errorf("%d others are being answered", maxClients)
	}
}

// attend answers one question.
func (s *server) attend(ctx context.Context, conn *net.UnixConn) {
	defer func() { _ = conn.Close() }() // whoever reads has all, or asks again
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if err := conn.SetDeadline(time.Now().Add(askLimit)); err != nil {
		return
	}
	c := call{answer: make(chan signer.Answer, 1)}
	err := signer.Read(conn, &c.question)
	if err != nil {
		if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) {
			_ = signer.Write(conn, signer.Answer{Error: wire.New(wire.CodeMalformed, "", err.Error())}) // and hang up
		}
		return
	}
	select {
	case s.calls <- c:
	case <-ctx.Done():
		return
	}
	select {
	case a := <-c.answer:
		if err := conn.SetDeadline(time.Now().Add(askLimit)); err == nil {
			_ = signer.Write(conn, a) // who has gone asks again
		}
	case <-ctx.Done():
	}
}

// do answers a question, in the loop.
func (s *server) do(q signer.Question) (a signer.Answer) {
	var err error
	switch q.Op {
	case signer.OpMake:
		a.Public, err = s.store.make(q.Keep)
	case signer.OpSign:
		a.Signature, err = s.store.sign(q.Key, q.Message)
	case signer.OpStore:
		err = s.store.keep(q.Label, q.Secret)
	case signer.OpRead:
		a.Label, a.Secret, err = s.store.read()
	default:
		err = wire.New(wire.CodeNotSupported, "", fmt.Sprintf("this program does not know %.40q", q.Op))
	}
	if err == nil {
		return a
	}
	refusal, ok := errors.AsType[*wire.Error](err)
	if !ok {
		refusal = wire.New(wire.CodeInternal, "", err.Error())
	}
	level := zap.WarnLevel
	if q.Op == signer.OpRead && refusal.Code == wire.CodeNotFound { // which a new node asks, too
		level = zap.DebugLevel
	}
	s.cfg.Log.Log(level, "refused", zap.String("what", q.Op), zap.Error(err))
	return signer.Answer{Error: refusal}
}
