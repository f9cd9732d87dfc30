package linktest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
)

// PipeQueue is how many connections wait to be accepted. A small queue makes a reconnect storm
// slow, as with brokers that listen with a backlog of 100.
const PipeQueue = 4096

// Pipe is a network of one address in memory, for brokers and clients in one process: without
// sockets, so without their limits, and inside a testing/synctest bubble if it was made there.
// Like a real address it outlives its listener: after Close, Listen may be called again.
type Pipe struct {
	mu  sync.Mutex
	cur *pipeListener // nil: nobody listens
}

// NewPipe returns an address that nobody listens on yet.
func NewPipe() *Pipe { return &Pipe{} }

// Listen starts to listen. Only one listener can be open at a time.
func (p *Pipe) Listen() (net.Listener, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cur != nil {
		return nil, pipeError("listen", syscall.EADDRINUSE)
	}
	p.cur = &pipeListener{pipe: p, queue: make(chan net.Conn, PipeQueue), done: make(chan struct{})}
	return p.cur, nil
}

// Dial connects to the listener; it waits only while the queue of connections to accept is full.
// Without a listener the connection is refused.
func (p *Pipe) Dial(ctx context.Context) (net.Conn, error) {
	p.mu.Lock()
	l := p.cur
	p.mu.Unlock()
	if l == nil {
		return nil, pipeError("dial", syscall.ECONNREFUSED)
	}
	near, far := net.Pipe()
	err := error(syscall.ECONNREFUSED)
	select {
	case <-l.done:
	case <-ctx.Done():
		err = ctx.Err()
	case l.queue <- far:
		select {
		case <-l.done: // it may have been drained before far came in
			l.drain()
		default:
		}
		return near, nil
	}
	return nil, errors.Join(pipeError("dial", err), near.Close(), far.Close())
}

func pipeError(op string, err error) error {
	return &net.OpError{Op: op, Net: pipeAddr{}.Network(), Addr: pipeAddr{}, Err: err}
}

type pipeListener struct {
	pipe  *Pipe
	queue chan net.Conn
	done  chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case <-l.done:
		return nil, pipeError("accept", net.ErrClosed)
	default:
	}
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.done:
		return nil, pipeError("accept", net.ErrClosed)
	}
}

// Close refuses what waits to be accepted; what was accepted lives on.
func (l *pipeListener) Close() error {
	l.pipe.mu.Lock()
	if l.pipe.cur != l {
		l.pipe.mu.Unlock()
		return fmt.Errorf("close: %w", net.ErrClosed)
	}
	l.pipe.cur = nil
	l.pipe.mu.Unlock()
	close(l.done)
	l.drain()
	return nil
}

func (l *pipeListener) drain() {
	for {
		select {
		case c := <-l.queue:
			_ = c.Close() // a pipe's Close does not fail
		default:
			return
		}
	}
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }
