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

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
)

// ErrStop is returned by a function that has seen enough of a stream; the stream then ends
// without an error.
var ErrStop = errors.New("enough")

// Events calls each for every entry that e selects, in the order in which they come.
func (c *Client) Events(ctx context.Context, e Entries, each func(view.Entry) error) error {
	if !e.Follow {
		var cancel context.CancelFunc
		ctx, cancel = c.timed(ctx)
		defer cancel()
	}
	return follow(ctx, c, "/v1/events", e.query(), each)
}

// WatchNodes calls each for what changes on the nodes, beginning with what they are now.
func (c *Client) WatchNodes(ctx context.Context, each func(op.NodeChange) error) error {
	return follow(ctx, c, "/v1/nodes", url.Values{"watch": {"1"}}, each)
}

// WatchConfig calls each with the unit configuration's state, now and whenever it changes.
func (c *Client) WatchConfig(ctx context.Context, each func(view.ConfigStatus) error) error {
	return follow(ctx, c, "/v1/config/status", url.Values{"watch": {"1"}}, each)
}

// maxLine bounds a line of a stream: an entry holds at most a submitted document, escaped.
const maxLine = 64 << 20

// follow reads a stream of JSON lines. A line with an error ends it, and so does its own end.
func follow[T any](ctx context.Context, c *Client, path string, q url.Values, each func(T) error) (err error) {
	res, err := c.send(ctx, http.MethodGet, path, q, nil)
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
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			return &Unreachable{c.Where(), "its answer cannot be understood; is it another version of Tandem?", err}
		}
		if err := each(v); err != nil {
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

// Export writes the journal to w as JSON lines; Backup a copy of its file. What w got is whole only
// if the error is nil.
func (c *Client) Export(ctx context.Context, w io.Writer) error {
	return c.download(ctx, "/v1/journal/export", w)
}

// Backup writes a copy of the journal's file to w.
func (c *Client) Backup(ctx context.Context, w io.Writer) error {
	return c.download(ctx, "/v1/journal/backup", w)
}

func (c *Client) download(ctx context.Context, path string, w io.Writer) (err error) {
	res, err := c.send(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return err
	}
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
