package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// conn stands between mochi and a client's connection. Its Write never waits: what the socket
// does not take at once is kept, up to a limit, and written by a goroutine that lives as long as
// something is kept. So a client that stops reading delays no other, and is disconnected when nothing
// of what is kept could be written for WriteTimeout.
type conn struct {
	net.Conn
	limits *Limits
	remote string
	wg     *sync.WaitGroup // counts the flusher; the server waits for it
	raw    *rawWriter      // writes without waiting; nil where the connection cannot

	// Owned by the goroutine that reads.
	header  []byte   // the first bytes, until the CONNECT's header is complete; then nil
	checked bool     // the header was found good
	sess    *session // set once before the session is visible to other goroutines

	mu       sync.Mutex
	kept     []byte // not yet written, in order
	spare    []byte // a small buffer to keep in next time
	flushing bool
	closed   bool
	failed   error // why nothing more can be written
}

const (
	flushPiece = 16 << 10    // bytes per write deadline
	linger     = time.Second // what is kept has this long to go out after Close
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
	return &conn{Conn: c, limits: limits, remote: remote, wg: wg, raw: newRawWriter(c)}
}

// Read refuses, before mochi makes room for it, a first packet that is no CONNECT or too long.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.checked && n > 0 {
		if bad := c.check(p[:n]); bad != nil {
			return 0, bad
		}
	}
	return n, err
}

func (c *conn) check(p []byte) error {
	c.header = append(c.header, p[:min(len(p), 5-len(c.header))]...)
	const connect = 0x10
	if c.header[0] != connect {
		return errNoConnect
	}
	length := 0
	for i, b := range c.header[1:] {
		length |= int(b&0x7f) << (7 * i)
		if b&0x80 == 0 {
			c.header, c.checked = nil, true
			if length > c.limits.MaxConnect {
				return fmt.Errorf("a CONNECT of %d bytes, more than %d", length, c.limits.MaxConnect)
			}
			return nil
		}
	}
	if len(c.header) == 5 {
		return errors.New("malformed packet length")
	}
	return nil
}

// SetDeadline is how mochi keeps the keep-alive. It concerns reading only, for writing has
// deadlines of its own, and no client may be silent without bound.
func (c *conn) SetDeadline(t time.Time) error {
	if bound := time.Now().Add(c.limits.MaxSilence); t.IsZero() || t.After(bound) {
		t = bound
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.failed != nil {
		return net.ErrClosed // and leave the deadline that wakes the reader
	}
	return c.Conn.SetReadDeadline(t)
}

// Write takes all of p or fails. It does not wait for the client.
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
			// Nothing more can go out; the reading side finds the same out and ends the session.
			c.failed = err
			return n, errors.Join(err, c.Conn.SetReadDeadline(longAgo))
		}
		if n == len(p) {
			return n, nil
		}
	}
	if len(c.kept)+len(p)-n > c.limits.PendingBytes {
		c.failed = errBacklog
		return n, errors.Join(errBacklog, c.Conn.SetDeadline(longAgo)) // wakes reader and flusher
	}
	if c.kept == nil {
		c.kept, c.spare = c.spare, nil
	}
	c.kept = append(c.kept, p[n:]...)
	if !c.flushing {
		c.flushing = true
		c.wg.Add(1) // not from zero: the connection's own goroutine is counted until it has closed c
		go c.flush()
	}
	return len(p), nil
}

// flush writes what is kept until nothing is, or until it cannot.
func (c *conn) flush() {
	defer c.wg.Done()
	for {
		c.mu.Lock()
		b := c.kept
		c.kept = nil
		if len(b) == 0 || c.failed != nil {
			c.flushing = false
			closed := c.closed
			c.mu.Unlock()
			if closed {
				_ = c.Conn.Close() // the client has everything; how its side ends is its own affair
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
			_ = c.Conn.SetReadDeadline(longAgo) // an error means closed, which wakes the reader too
		}
		if cap(b) <= 4<<10 {
			c.spare = b[:0]
		}
		c.mu.Unlock()
	}
}

func (c *conn) writeAll(b []byte) error {
	for len(b) > 0 {
		c.mu.Lock()
		if c.failed != nil {
			c.mu.Unlock()
			return c.failed
		}
		var err error
		if !c.closed { // else the deadline is Close's
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
	return c.Conn.SetWriteDeadline(time.Time{}) // a past one would fail the next write that does not wait
}

// hangUp makes the reading side end, which then says the last will and closes. Closing at once
// would let mochi take the end for a wanted one.
func (c *conn) hangUp() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	_ = c.Conn.SetReadDeadline(longAgo) // an error means closed, which wakes the reader too
	flushing := c.flushing
	if flushing {
		_ = c.Conn.SetWriteDeadline(time.Now().Add(linger))
	}
	c.mu.Unlock()
	if !flushing {
		_ = bare(c.Conn).Close() // there is nobody left to tell
	}
}

// bare returns the connection below TLS. Closing TLS itself waits until the client reads the close
// notification, and whoever disconnects a client must not wait for it.
func bare(c net.Conn) net.Conn {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		return t.NetConn()
	}
	return c
}

// Close ends the connection, in the background if something is still to be written.
func (c *conn) Close() error {
	c.hangUp()
	return nil
}

// writeFailure returns why writing ended, if it did.
func (c *conn) writeFailure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// rawWriter writes what the socket takes at once.
type rawWriter struct {
	raw syscall.RawConn
	fn  func(fd uintptr) bool // made once: a closure per write would be garbage
	p   []byte
	n   int
	err error
}

func (w *rawWriter) write(p []byte) (int, error) {
	w.p, w.n, w.err = p, 0, nil
	err := w.raw.Write(w.fn)
	w.p = nil
	if err == nil {
		err = w.err
	}
	return w.n, err
}
