package client

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"tandem.internal/controller/internal/op"
)

// TestOrdersAreNotRepeated: a controller that is killed with an order in its hands gets it no second time from the same
// call, also on a connection that was there before; whoever gave it is told to look first.
func TestOrdersAreNotRepeated(t *testing.T) {
	var asked, ordered atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if body, err := io.ReadAll(r.Body); err != nil || !strings.Contains(string(body), "dryRun") {
			ordered.Add(1)
			panic(http.ErrAbortHandler) // the connection ends without an answer
		}
		w.Header().Set("Content-Type", "application/json")
		const dry = `{"dryRun":true,"selected":1,"expect":"1-0123456789abcdef","nodes":[]}`
		if _, err := io.WriteString(w, dry); err != nil {
			t.Error(err)
		}
	}))
	defer s.Close()
	c, err := New(Options{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	in := op.NodesOrder{Where: "press", DryRun: true, Reboot: &op.Reboot{Reason: "new kernel"}}
	v, err := Call(t.Context(), c, op.OrderNodes, in)
	if err != nil {
		t.Fatal(err)
	}
	in.DryRun, in.Expect = false, v.Expect
	_, err = Call(t.Context(), c, op.OrderNodes, in)
	var u *Unreachable
	if !errors.As(err, &u) || !strings.Contains(u.Hint, "may have been done: look (tandem events) before you try") {
		t.Error(err)
	}
	if asked.Load() != 2 || ordered.Load() != 1 {
		t.Errorf("asked %d times, of them %d with the order", asked.Load(), ordered.Load())
	}
}
