package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Call asks for an operation whose answer is one value, and returns that. Members that a newer controller
// added are passed over. A refusal of a submission is a view.Result, not an error.
func Call[In, Out any](ctx context.Context, c *Client, o op.Op[In, Out], in In) (out Out, err error) {
	err = c.call(ctx, o.Spec(), &in, &out)
	return out, err
}

// Follow calls each for every line of a stream, until that has ended or each returns an error; ErrStop ends
// it without one.
func Follow[In, Out any](ctx context.Context, c *Client, o op.Op[In, Out], in In, each func(Out) error) error {
	return c.follow(ctx, o.Spec(), &in, func(line []byte) (func() error, error) {
		var v Out
		err := json.Unmarshal(line, &v)
		return func() error { return each(v) }, err
	})
}

// Download writes the file that an operation answers with to w. What w got is whole only if the error is nil.
func Download[In, Out any](ctx context.Context, c *Client, o op.Op[In, Out], in In, w io.Writer) error {
	return c.download(ctx, o.Spec(), &in, w)
}

// Upload asks for an operation whose body is a piece of a file: size bytes of body. No time limit counts while they go.
func Upload[In, Out any](ctx context.Context, c *Client, o op.Op[In, Out], in In, body io.Reader, size int64,
) (out Out, err error) {
	err = c.upload(ctx, o.Spec(), &in, body, size, &out)
	return out, err
}

func (c *Client) upload(ctx context.Context, s op.Spec, in any, body io.Reader, size int64, out any) error {
	path, _ := s.Request(in)
	req, err := http.NewRequestWithContext(ctx, s.Method(), c.base+path, io.NopCloser(body))
	if err != nil {
		return wire.New(wire.CodeInvalidArgument, "", err.Error())
	}
	if req.ContentLength = size; size == 0 {
		req.Body = http.NoBody
	}
	req.Header.Set("Content-Type", s.Input().Type)
	for name, value := range s.Headers(in) {
		req.Header.Set(name, value)
	}
	res, err := c.do(req)
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return c.unreachable(ctx, s.Method(), fmt.Errorf("the answer was cut off: %w", err))
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return c.foreign(err)
	}
	return nil
}

// ask makes the request of an operation; in is a pointer to its input.
func (c *Client) ask(ctx context.Context, s op.Spec, in any) (*http.Response, error) {
	path, query := s.Request(in)
	var body []byte
	switch shape := s.Input(); {
	case shape.Text != nil:
		body = reflect.ValueOf(in).Elem().FieldByIndex(shape.Text).Bytes()
	case shape.Body:
		var err error
		if body, err = json.Marshal(in); err != nil {
			return nil, fmt.Errorf("writing the request: %w", err)
		}
	}
	var accepted []int
	if s.Form == op.Verdict {
		accepted = []int{http.StatusConflict, http.StatusBadRequest}
	}
	return c.send(ctx, s.Method(), path, query, body, accepted...)
}

// call makes the request and decodes its answer into out, a pointer.
func (c *Client) call(ctx context.Context, s op.Spec, in, out any) error {
	ctx, cancel := c.timed(ctx)
	defer cancel()
	res, err := c.ask(ctx, s, in)
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		err = c.unreachable(ctx, s.Method(), fmt.Errorf("the answer was cut off: %w", err))
		return errors.Join(err, res.Body.Close())
	}
	if err := res.Body.Close(); err != nil {
		return err
	}
	if s.Form == op.Raw {
		*out.(*[]byte) = answer
		return nil
	}
	err = json.Unmarshal(answer, out)
	if s.Form == op.Verdict && err == nil {
		return c.verdict(out.(*view.Result))
	}
	if err != nil {
		return c.foreign(err)
	}
	return nil
}

// verdict tells an error about the request from a verdict.
func (c *Client) verdict(r *view.Result) error {
	switch {
	case r.State != "":
		return nil
	case r.Error == nil:
		return c.foreign(nil)
	}
	err := r.Error
	*r = view.Result{}
	return err
}

// foreign is the error of an answer that makes no sense.
func (c *Client) foreign(err error) error {
	return &Unreachable{c.place(), "its answer cannot be understood; is it another version of Tandem?", err}
}
