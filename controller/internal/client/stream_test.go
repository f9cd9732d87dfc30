package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/controller/internal/op"
)

// answering answers every request with a body.
type answering func(context.Context) io.ReadCloser

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: a(r.Context()), Request: r}, nil
}

// TestSilence: a stream to which not even a blank line comes any more ends with words; one that has those goes on.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Client{opt: Options{Socket: "/run/c.sock"}, base: "http://tandem"}
		c.http = &http.Client{Transport: answering(func(ctx context.Context) io.ReadCloser {
			r, w := io.Pipe()
			go func() {
				for range 10 {
					time.Sleep(op.KeepAlive)
					_, _ = io.WriteString(w, "\n") // a reader who is gone does not count
				}
				<-ctx.Done()
				w.CloseWithError(ctx.Err())
			}()
			return r
		})}
		began := time.Now()
		err := c.follow(t.Context(), op.Live.Spec(), &op.LiveIn{}, nil)
		var u *Unreachable
		if !errors.As(err, &u) || !strings.Contains(u.Hint, "nothing has come for 45s") {
			t.Error(err)
		}
		if took := time.Since(began); took != 13*op.KeepAlive {
			t.Errorf("after %s", took)
		}
	})
}
