package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/op"
)

// ErrStop is returned by a function that has seen enough of a stream; the stream then ends
// without an error.
var ErrStop = errors.New("enough")

// maxLine bounds a line of a stream: an entry holds at most a submitted document, escaped.
const maxLine = 64 << 20

// follow reads a stream of JSON lines. A line with an error ends it, and so does its own end. decode returns
// what is to be done with a line.
func (c *Client) follow(
	ctx context.Context, s op.Spec, in any, decode func([]byte) (func() error, error),
) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	res, err := c.ask(ctx, s, in)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	from := io.Reader(res.Body)
	if e, ok := in.(*op.EventsIn); !ok || e.Follow { // who looks for old entries may find none for long
		from = &heard{r: res.Body, cut: cancel}
	}
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for lines.Scan() {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if bytes.HasPrefix(line, []byte(`{"error":`)) {
			var p op.Problem
			if err := json.Unmarshal(line, &p, json.RejectUnknownMembers(true)); err == nil && p.Error != nil {
				return p.Error
			}
		}
		each, err := decode(line)
		if err != nil {
			return c.foreign(err)
		}
		if err := each(); err != nil {
			if errors.Is(err, ErrStop) {
				return nil
			}
			return err
		}
	}
	if err := lines.Err(); err != nil {
		if context.Cause(ctx) == errSilent {
			return &Unreachable{c.place(), errSilent.Error(), err}
		}
		return c.unreachable(ctx, http.MethodGet, fmt.Errorf("the stream was cut off: %w", err))
	}
	return nil
}

// Profile writes one of Go's profiles of the controller's process to w, in the form that debug says: 2 of goroutine is
// a text. Only the socket has them.
func (c *Client) Profile(ctx context.Context, name string, debug int, w io.Writer) error {
	query := url.Values{"debug": {strconv.Itoa(debug)}}
	res, err := c.send(ctx, http.MethodGet, "/debug/pprof/"+url.PathEscape(name), query, nil)
	if err != nil {
		return err
	}
	return c.copyTo(ctx, w, res)
}

// silence is after how long without a byte a stream counts as cut.
const silence = 3 * op.KeepAlive

var errSilent = errors.New("nothing has come for " + silence.String() + "; it hangs, or the network between is cut: " +
	"try again")

// heard cuts a stream off when a read of it gets nothing for long. The time between reads does not count: it is that
// of who looks.
type heard struct {
	r   io.Reader
	cut context.CancelCauseFunc
}

func (h *heard) Read(b []byte) (int, error) {
	t := time.AfterFunc(silence, func() { h.cut(errSilent) })
	defer t.Stop()
	return h.r.Read(b)
}

func (c *Client) download(ctx context.Context, s op.Spec, in any, w io.Writer) (err error) {
	res, err := c.ask(ctx, s, in)
	if err != nil {
		return err
	}
	return c.copyTo(ctx, w, res)
}

// copyTo writes an answer to w.
func (c *Client) copyTo(ctx context.Context, w io.Writer, res *http.Response) (err error) {
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	from := &reading{r: res.Body}
	if _, err := io.Copy(w, from); err != nil {
		if from.err != nil {
			return c.unreachable(ctx, http.MethodGet, fmt.Errorf("the download was cut off: %w", err))
		}
		return fmt.Errorf("writing the download: %w", err)
	}
	return nil
}

// reading remembers an error of the reader, to tell it from one of the writer.
type reading struct {
	r   io.Reader
	err error
}

func (r *reading) Read(b []byte) (int, error) {
	n, err := r.r.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}
