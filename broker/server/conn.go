package server

import (
	"bufio"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// conn is the net.Conn that mochi uses for a client; it wraps the network connection. Write never waits: bytes that the
// socket does not take at once are buffered, up to a limit, and a goroutine writes them that exists as long as there
// are any. So a client that does not read delays no other. It is disconnected when no buffered bytes could be written
// for Limits.WriteTimeout.
type conn struct {
	net.Conn
	limits *Limits
	remote string
	wg     *sync.WaitGroup // counts the flusher; the server waits for it
	raw    *rawWriter      // writes without waiting; nil if the connection has no such way

	waiting bool // nothing serves it yet; Server.mu guards it until it is served or has left the lobby

	// Owned by the goroutine that reads.
	in   *bufio.Reader // nil until the connection is served
	sess *session      // set once before the session is visible to other goroutines

	mu        sync.Mutex
	unwritten []byte // bytes that are not written yet, in order
	spare     []byte // a small buffer for unwritten
	flushing  bool   // flush runs
	closed    bool
	failed    error // why nothing more can be written
}

const (
	flushPiece = 16 << 10    // bytes that have Limits.WriteTimeout together
	linger     = time.Second // time for buffered bytes after Close
)

var (
	errStalled   = errors.New("the client does not read")
	errBacklog   = errors.New("the client reads too slowly: more waits for it than it may cost")
	longAgo      = time.Unix(1, 0)
	errNoConnect = errors.New("the first packet is not a CONNECT")
)

func newConn(c net.Conn, limits *Limits, wg *sync.WaitGroup) *conn {
	remote := "unknown"
	if a := c.RemoteAddr(); a != nil {
		remote = a.String()
	}
	return &conn{Conn: c, limits: limits, remote: remote, wg: wg, raw: newRawWriter(c), waiting: true}
}

// SetDeadline sets the deadline for reading, by which the keep-alive is checked. It is at most Limits.MaxSilence from
// now. Writing has other deadlines.
func (c *conn) SetDeadline(t time.Time) error {
	if bound := time.Now().Add(c.limits.MaxSilence); t.IsZero() || t.After(bound) {
		t = bound
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.failed != nil {
		return net.ErrClosed // the deadline that wakes the reader stays
	}
	return c.Conn.SetReadDeadline(t)
}

// Write takes all of p, or returns an error. It does not wait for the client.
func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed != nil {
		return 0, c.failed
	}
	if c.closed {
		return 0, net.ErrClosed
	}
	n := 0
	if !c.flushing && c.raw != nil {
		var err error
		if n, err = c.raw.write(p); err != nil {
			// Nothing more can be written. Reading fails too, which ends the session.
			c.failed = err
			return n, errors.Join(err, c.Conn.SetReadDeadline(longAgo))
		}
		if n == len(p) {
			return n, nil
		}
	}
	if len(c.unwritten)+len(p)-n > c.limits.PendingBytes {
		c.failed = errBacklog
		return n, errors.Join(errBacklog, c.Conn.SetDeadline(longAgo)) // wakes reader and flusher
	}
	if c.unwritten == nil {
		c.unwritten, c.spare = c.spare, nil
	}
	c.unwritten = append(c.unwritten, p[n:]...)
	if !c.flushing {
		c.flushing = true
		c.wg.Add(1) // allowed: the connection's goroutine is counted until it has closed c
		go c.flush()
	}
	return len(p), nil
}

// flush writes buffered bytes until there are none, or until writing fails.
func (c *conn) flush() {
	defer c.wg.Done()
	for {
		c.mu.Lock()
		b := c.unwritten
		c.unwritten = nil
		if len(b) == 0 || c.failed != nil {
			c.flushing = false
			closed := c.closed
			c.mu.Unlock()
			if closed {
				_ = c.Conn.Close() // an error changes nothing: the client has everything
			}
			return
		}
		c.mu.Unlock()
		err := c.writeAll(b)
		c.mu.Lock()
		if err != nil && c.failed == nil {
			if c.failed = err; errors.Is(err, os.ErrDeadlineExceeded) {
				c.failed = errStalled
			}
			_ = c.Conn.SetReadDeadline(longAgo) // it fails only if closed, which wakes the reader too
		}
		if cap(b) <= 4<<10 {
			c.spare = b[:0]
		}
		c.mu.Unlock()
	}
}

// writeAll writes b in pieces, each with a deadline.
func (c *conn) writeAll(b []byte) error {
	for len(b) > 0 {
		c.mu.Lock()
		if c.failed != nil {
			c.mu.Unlock()
			return c.failed
		}
		var err error
		if !c.closed { // otherwise disconnect has set the deadline
			err = c.Conn.SetWriteDeadline(time.Now().Add(c.limits.WriteTimeout))
		}
		c.mu.Unlock()
		if err != nil {
			return err
		}
		n, err := c.Conn.Write(b[:min(len(b), flushPiece)])
		if err != nil {
			return err
		}
		b = b[n:]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	return c.Conn.SetWriteDeadline(time.Time{}) // rawWriter must not find a deadline that has passed
}

// disconnect makes reading fail. The reading goroutine then publishes the last will and closes the connection. If the
// connection were closed at once, mochi would take that for a DISCONNECT.
func (c *conn) disconnect() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	_ = c.Conn.SetReadDeadline(longAgo) // it fails only if closed, which wakes the reader too
	flushing := c.flushing
	if flushing {
		_ = c.Conn.SetWriteDeadline(time.Now().Add(linger))
	}
	c.mu.Unlock()
	if !flushing {
		_ = belowTLS(c.Conn).Close() // an error changes nothing
	}
}

// belowTLS returns the connection below TLS. Closing a TLS connection waits until the client has read the close
// notification, and disconnect must not wait.
func belowTLS(c net.Conn) net.Conn {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		return t.NetConn()
	}
	return c
}

// Close closes the connection; in the background if there are buffered bytes.
func (c *conn) Close() error {
	c.disconnect()
	return nil
}

// writeFailure returns why writing has failed, nil if it has not.
func (c *conn) writeFailure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// rawWriter writes as many bytes as the socket takes at once.
type rawWriter struct {
	raw syscall.RawConn
	fn  func(fd uintptr) bool // created once, so that write does not allocate
	p   []byte
	n   int
	err error
}

// write returns how many bytes of p the socket has taken.
func (w *rawWriter) write(p []byte) (int, error) {
	w.p, w.n, w.err = p, 0, nil
	err := w.raw.Write(w.fn)
	w.p = nil
	if err == nil {
		err = w.err
	}
	return w.n, err
}
