package linktest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
)

// PipeQueue is the most connections that wait to be accepted. With a small queue, such as a backlog of 100, it takes
// long until many clients have connected again.
const PipeQueue = 4096

// Pipe is a network with one address, in memory, for brokers and clients in one process. It uses no sockets, so their
// limits do not matter, and it works in a testing/synctest bubble in which it was created. After the listener was
// closed, Listen may be called again.
type Pipe struct {
	mu       sync.Mutex
	listener *pipeListener // nil: there is none
}

// NewPipe returns a Pipe without a listener.
func NewPipe() *Pipe { return &Pipe{} }

// Listen opens a listener. Only one can be open at a time.
func (p *Pipe) Listen() (net.Listener, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		return nil, pipeError("listen", syscall.EADDRINUSE)
	}
	p.listener = &pipeListener{pipe: p, queue: make(chan net.Conn, PipeQueue), done: make(chan struct{})}
	return p.listener, nil
}

// Dial connects to the listener. It waits only while the queue of connections is full. Without a listener the error is
// ECONNREFUSED.
func (p *Pipe) Dial(ctx context.Context) (net.Conn, error) {
	p.mu.Lock()
	l := p.listener
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
		case <-l.done: // drain may have run before far was queued
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

// Close closes the connections that wait to be accepted; accepted ones stay open.
func (l *pipeListener) Close() error {
	l.pipe.mu.Lock()
	if l.pipe.listener != l {
		l.pipe.mu.Unlock()
		return fmt.Errorf("close: %w", net.ErrClosed)
	}
	l.pipe.listener = nil
	l.pipe.mu.Unlock()
	close(l.done)
	l.drain()
	return nil
}

// drain closes the connections that wait to be accepted.
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
