package link

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"tandem.internal/shared/pulse"
)

// linger is the most time that an orderly close takes: it writes the buffer, and reads until the broker has closed too.
// A socket that is closed with unread input is reset, and the broker could then lose the DISCONNECT.
const linger = 500 * time.Millisecond

// conn is the net.Conn that paho uses; it wraps the network connection. It
//   - writes from a goroutine of its own: at once while the network is idle, else many packets in one write;
//   - never blocks paho in Write: publishers wait for room before, in reserve, which can be cancelled; all other
//     packets of paho are small;
//   - looks like a working connection to paho until release: after a failure it discards writes and blocks paho's
//     reader, because a paho client that has noticed a failure never completes a Publish;
//   - limits the time in which the broker sends nothing, and the time of every write;
//   - passes only well-formed packets of a limited size to paho (checkNextPacket, frame.go), and reads past a PUBLISH
//     that is larger (skipPublish).
//
// It ignores the deadlines that paho sets. It calls fail with the first failure, and possibly with later ones.
type conn struct {
	nc           net.Conn
	limit        int           // largest packet from the broker, in bytes
	highWater    int           // with so many bytes in the buffer, publishers wait
	silence      time.Duration // longest time without a byte from the broker
	writeTimeout time.Duration
	watch        pulse.Watch
	name         string // of the broker, in errors
	fail         func(error)
	skipped      func(m Message, ack func()) // takes what is known of a PUBLISH that was read past; does not block

	// owned by the goroutine that reads
	in     *bufio.Reader
	unread int // bytes of the current packet that paho has not read yet

	mu        sync.Mutex
	out       []byte         // bytes to write
	writing   int            // bytes that the writer is writing
	reserved  int            // bytes reserved by publishers
	room      chan struct{}  // closed when there is room; nil while nobody waits
	subs      map[uint16]int // number of filters of each SUBSCRIBE without a SUBACK yet, by packet ID
	closing   bool           // orderly close: write the buffer, then close
	discarded bool           // nc is closed, and nothing more is written
	unblocked bool           // release was called
	skipping  bool           // a PUBLISH is being read past
	skippedAt time.Time      // when the newest of these was over

	wake     chan struct{} // capacity 1; holds a value if the writer has something to do
	released chan struct{} // closed by release
	done     chan struct{} // closed when the writer has ended and nc is closed
}

func newConn(nc net.Conn, cfg *Config, fail func(error), skipped func(m Message, ack func())) *conn {
	c := &conn{
		nc:           nc,
		limit:        cfg.MaxPacket,
		highWater:    cfg.BufferSize,
		silence:      2 * cfg.KeepAlive,
		writeTimeout: cfg.WriteTimeout,
		watch:        cfg.Watch,
		name:         cfg.brokerName(),
		fail:         fail,
		skipped:      skipped,
		subs:         map[uint16]int{},
		wake:         make(chan struct{}, 1),
		released:     make(chan struct{}),
		done:         make(chan struct{}),
	}
	c.in = bufio.NewReaderSize(silenceReader{c}, max(cfg.BufferSize, 64))
	go c.writeLoop()
	return c
}

// silenceReader reads from the network. Read fails when the broker sends nothing for conn.silence.
type silenceReader struct{ c *conn }

func (r silenceReader) Read(p []byte) (int, error) {
	c := r.c
	c.mu.Lock()
	if !c.closing && !c.discarded { // otherwise Close has set a shorter deadline, or nc is closed
		if err := c.nc.SetReadDeadline(time.Now().Add(c.silence)); err != nil {
			c.mu.Unlock()
			return 0, err
		}
	}
	c.mu.Unlock()
	return c.nc.Read(p)
}

// Read returns the next bytes of the current packet.
func (c *conn) Read(p []byte) (int, error) {
	for c.unread == 0 {
		n, err := c.checkNextPacket()
		if err != nil {
			return 0, c.readEnded(err)
		}
		c.unread = n
	}
	n, err := c.in.Read(p[:min(len(p), c.unread)])
	c.unread -= n
	if err != nil && n == 0 {
		return 0, c.readEnded(err)
	}
	return n, nil
}

// readEnded calls fail with the reason why reading ended, and waits for release. It returns net.ErrClosed, with which
// paho's reader ends without a report.
func (c *conn) readEnded(err error) error {
	c.mu.Lock()
	closing := c.closing
	c.mu.Unlock()
	if closing {
		c.release()
		return net.ErrClosed
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = fmt.Errorf("the broker closed the connection: %w", err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("nothing heard from the broker for %v: %w", c.silence, err)
	case errors.Is(err, errProtocol), errors.Is(err, ErrRefused):
	default:
		err = fmt.Errorf("the connection broke: %w", err)
	}
	c.fail(err)
	<-c.released
	return net.ErrClosed
}

// Write appends one whole packet, which paho never splits, to the buffer. It does not block.
func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.discarded || c.closing {
		return len(p), nil
	}
	if id, n, ok := subscribeFilters(p); ok {
		c.subs[id] = n
	}
	c.out = append(c.out, p...)
	c.wakeWriter()
	return len(p), nil
}

// skips notes that a PUBLISH is being read past, or not any more.
func (c *conn) skips(now bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skipping, c.skippedAt = now, time.Now()
}

// patience is for how long more an acknowledgement is not late that should have come within limit: it may be behind
// what is being read past. That comes to an end, as conn.silence bounds every wait for a byte of it.
func (c *conn) patience(limit time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.skipping {
		return limit
	}
	return limit - time.Since(c.skippedAt)
}

// wakeWriter wakes writeLoop.
func (c *conn) wakeWriter() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// writeLoop writes the buffer to the network until the connection is closed.
func (c *conn) writeLoop() {
	defer close(c.done)
	beat := c.watch.Start("link writer", c.writeTimeout)
	defer beat.End()
	var spare []byte
	for {
		beat.Beat()
		c.mu.Lock()
		if c.discarded {
			c.mu.Unlock()
			return
		}
		batch, closing := c.out, c.closing
		c.out, c.writing = spare[:0], len(batch)
		c.signalRoom()
		c.mu.Unlock()

		if len(batch) == 0 {
			spare = batch
			if closing {
				c.closeInOrder()
				return
			}
			select {
			case <-c.wake:
			case <-beat.C:
			}
			continue
		}
		if err := c.send(batch, closing); err != nil {
			c.fail(fmt.Errorf("cannot write to the broker: %w", err))
			c.discard()
			return
		}
		spare = batch
		if cap(spare) > 2*c.highWater { // a large packet has made it grow
			spare = nil
		}
	}
}

// send writes batch to the network within the time limit.
func (c *conn) send(batch []byte, closing bool) error {
	timeout := c.writeTimeout
	if closing {
		timeout = min(timeout, linger)
	}
	if err := c.nc.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	_, err := c.nc.Write(batch)
	return err
}

// closeInOrder closes the sending direction, waits until the reader has read to the end, and closes nc.
func (c *conn) closeInOrder() {
	if half, ok := c.nc.(interface{ CloseWrite() error }); ok {
		if half.CloseWrite() == nil { // otherwise the broker has closed already
			<-c.released
		}
	} else {
		<-c.released
	}
	c.discard()
}

// reserve waits until there is room for n more bytes in the buffer, or until ctx, down or stop ends.
func (c *conn) reserve(ctx context.Context, n int, down, stop <-chan struct{}) error {
	for {
		c.mu.Lock()
		busy := len(c.out) + c.writing + c.reserved
		if busy == 0 || busy+n <= c.highWater {
			c.reserved += n
			c.mu.Unlock()
			return nil
		}
		if c.room == nil {
			c.room = make(chan struct{})
		}
		room := c.room
		c.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		case <-down:
			return ErrDown
		case <-stop:
			return ErrDown
		}
	}
}

// unreserve frees n bytes that reserve has reserved.
func (c *conn) unreserve(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reserved -= n
	c.signalRoom()
}

// signalRoom wakes the goroutines in reserve if there is room. The caller holds c.mu.
func (c *conn) signalRoom() {
	if c.room != nil && (c.discarded || len(c.out)+c.writing+c.reserved < c.highWater) {
		close(c.room)
		c.room = nil
	}
}

// Close begins an orderly close; paho calls it after its DISCONNECT. It returns at once.
func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing || c.discarded {
		return nil
	}
	c.closing = true
	c.wakeWriter()
	return c.nc.SetReadDeadline(time.Now().Add(linger))
}

// discard closes the network connection. To paho the connection still looks open until release. It may
// be called more than once, from any goroutine.
func (c *conn) discard() {
	c.mu.Lock()
	if c.discarded {
		c.mu.Unlock()
		return
	}
	c.discarded, c.out = true, nil
	c.signalRoom()
	c.wakeWriter()
	c.mu.Unlock()
	_ = c.nc.Close() // an error changes nothing: the connection is not used any more
}

// release unblocks paho's reader, which then ends.
func (c *conn) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.unblocked {
		c.unblocked = true
		close(c.released)
	}
}

func (c *conn) LocalAddr() net.Addr              { return c.nc.LocalAddr() }
func (c *conn) RemoteAddr() net.Addr             { return c.nc.RemoteAddr() }
func (c *conn) SetDeadline(time.Time) error      { return nil }
func (c *conn) SetReadDeadline(time.Time) error  { return nil }
func (c *conn) SetWriteDeadline(time.Time) error { return nil }
