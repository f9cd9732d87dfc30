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
	res, err := c.ask(ctx, s, in)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	lines := bufio.NewScanner(res.Body)
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

func (c *Client) download(ctx context.Context, s op.Spec, in any, w io.Writer) error {
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
