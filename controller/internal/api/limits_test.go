package api_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/apitoken"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/tokens"
	"tandem.internal/shared/wire"
)

// TestGuessing: wrong tokens from one address are slowed down; a right one is not.
func TestGuessing(t *testing.T) {
	r := serveTCP(t, true, api.Config{})
	seen := map[int]int{}
	for range 30 {
		got, h := r.status("GET", "/v1/nodes", apitoken.New().Text(), nil)
		seen[got]++
		if got == 429 && h.Get("Retry-After") == "" {
			t.Error("nobody says when to try again")
		}
		if got == 429 && h.Get("Www-Authenticate") != "" {
			t.Error("and asks for another token all the same")
		}
	}
	if seen[401] < 10 || seen[429] < 15 || seen[401]+seen[429] != 30 {
		t.Errorf("%v", seen)
	}
	if got, _ := r.status("GET", "/v1/nodes", r.by[tokens.View], nil); got != 200 {
		t.Errorf("the right token: %d", got)
	}
	if got, _ := r.status("GET", "/v1/nodes", "", nil); got != 401 {
		t.Errorf("no token: %d", got)
	}
}

// TestRevokedStreamsEnd: whatever streams with a token ends with it, and says why.
func TestRevokedStreamsEnd(t *testing.T) {
	r := serveTCP(t, true, api.Config{WatchEvery: time.Millisecond, KeepAlive: time.Hour})
	var streams []*bufio.Reader
	for _, path := range []string{"/v1/events?follow=1", "/v1/nodes?watch=1", "/v1/config/status?watch=1"} {
		res := r.ask("GET", path, r.by[tokens.View], nil)
		defer func() { _ = res.Body.Close() }() // it has ended
		b := bufio.NewReader(res.Body)
		if _, err := b.ReadBytes('\n'); err != nil {
			t.Fatal(err)
		}
		streams = append(streams, b)
	}
	if _, err := r.keys.Revoke(t.Context(), "view"); err != nil {
		t.Fatal(err)
	}
	for i, b := range streams {
		rest, err := io.ReadAll(b)
		lines := strings.Split(strings.TrimSpace(string(rest)), "\n")
		if last := lines[len(lines)-1]; err != nil || code(t, []byte(last)) != wire.CodeNotAllowed ||
			!strings.Contains(last, "revoked") {
			t.Errorf("stream %d ended with %q (%v)", i, last, err)
		}
	}
	if got, _ := r.status("GET", "/v1/nodes", r.by[tokens.View], nil); got != 401 {
		t.Errorf("%d", got)
	}
	// A token may revoke itself, and hears that it did.
	if got, _ := r.status("POST", "/v1/tokens/admin/revoke", r.by[tokens.Admin], nil); got != 200 {
		t.Errorf("%d", got)
	}
	if got, _ := r.status("GET", "/v1/tokens", r.by[tokens.Admin], nil); got != 401 {
		t.Errorf("%d", got)
	}
}

// held answers Nodes when it is let.
type held struct {
	*apitest.Rig
	began, let chan struct{}
}

func (h *held) Operations() []api.Operation {
	return apitest.Instead(h.Rig, api.Bind(op.ListNodes, h.Nodes)).Operations()
}

func (h *held) Nodes(ctx context.Context, _ op.NodesIn) (op.Nodes, error) {
	h.began <- struct{}{}
	select {
	case <-h.let:
		return h.Rig.Nodes(ctx)
	case <-ctx.Done():
		return op.Nodes{}, ctx.Err()
	}
}

// TestRevokedRequestsEnd: so does what is being worked on.
func TestRevokedRequestsEnd(t *testing.T) {
	own, by := ownKeys(t, nil)
	u := &held{Rig: apitest.StartSample(t), began: make(chan struct{}), let: make(chan struct{})}
	h := api.New(u, api.Config{Tokens: own})
	answered := make(chan string)
	go func() {
		req, err := http.NewRequest("GET", "/v1/nodes", nil)
		if err != nil {
			t.Error(err)
		}
		req.Header.Set("Authorization", "Bearer "+by[tokens.View])
		w := newAnswer()
		h.ServeHTTP(w, req)
		answered <- fmt.Sprint(w.status, " ", w.String())
	}()
	<-u.began
	if _, err := own.Revoke(t.Context(), "view"); err != nil {
		t.Fatal(err)
	}
	if got := <-answered; !strings.HasPrefix(got, "403") || !strings.Contains(got, "revoked") {
		t.Errorf("%s", got)
	}
}

// answer keeps what a handler answers.
type answer struct {
	bytes.Buffer
	header http.Header
	status int
}

func newAnswer() *answer                 { return &answer{header: http.Header{}} }
func (a *answer) Header() http.Header    { return a.header }
func (a *answer) WriteHeader(status int) { a.status = status }

// TestRequestsOfOneAddressAreBounded: one address cannot take what others need, and the unix socket
// is not counted at all.
func TestRequestsOfOneAddressAreBounded(t *testing.T) {
	u := &held{Rig: apitest.StartSample(t), began: make(chan struct{}), let: make(chan struct{})}
	h := api.New(u, api.Config{Tokens: keys, MaxPerPeer: 2, MaxRequests: 3})
	ask := func(from string) *answer {
		req, err := http.NewRequest("GET", "/v1/nodes", nil)
		if err != nil {
			t.Error(err)
		}
		req.RemoteAddr = from
		req.Header.Set("Authorization", "Bearer "+bearers[tokens.View])
		w := newAnswer()
		h.ServeHTTP(w, req)
		return w
	}
	var under sync.WaitGroup
	hold := func(from string) {
		under.Go(func() {
			if w := ask(from); w.status != 200 {
				t.Errorf("from %s: %d %s", from, w.status, w)
			}
		})
		<-u.began
	}
	hold("[2001:db8::1]:1")
	hold("[2001:db8::2]:1")
	if w := ask("[2001:db8::3]:9"); w.status != 429 || w.header.Get("Retry-After") == "" {
		t.Errorf("a third of one network: %d", w.status)
	}
	hold("10.0.0.1:1")
	if w := ask("10.0.0.2:1"); w.status != 429 {
		t.Errorf("a fourth of all: %d", w.status)
	}
	close(u.let)
	under.Wait()
	under.Go(func() {
		if w := ask("[2001:db8::3]:9"); w.status != 200 {
			t.Errorf("when there is room again: %d", w.status)
		}
	})
	<-u.began
	under.Wait()
}

// TestConnectionsOfOneAddressAreBounded: those beyond are closed as they come.
func TestConnectionsOfOneAddressAreBounded(t *testing.T) {
	r := serveTCP(t, false, api.Config{})
	var open []net.Conn
	request := "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
	answers := func(c net.Conn) bool {
		if _, err := io.WriteString(c, request); err != nil {
			return false
		}
		_, err := c.Read(make([]byte, 4096))
		return err == nil
	}
	for i := range 64 {
		c := r.dial()
		open = append(open, c)
		if !answers(c) {
			t.Fatalf("connection %d was refused", i)
		}
	}
	late := r.dial()
	if answers(late) {
		t.Error("the 65th connection of one address is answered")
	}
	if err := errors.Join(late.Close(), open[0].Close()); err != nil {
		t.Error(err)
	}
	for deadline := time.Now().Add(patience); ; { // the server notices the end when it reads
		c := r.dial()
		ok := answers(c)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if ok {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a place that became free stays taken")
		}
	}
	for _, c := range open[1:] {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestSlowLoris: who does not finish its header is cut off, while others are served.
func TestSlowLoris(t *testing.T) {
	if testing.Short() {
		t.Skip("takes five seconds")
	}
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %v", secure), func(t *testing.T) {
			t.Parallel()
			r := serveTCP(t, secure, api.Config{})
			began := time.Now()
			silent, err := net.Dial("tcp", r.addr) // not even a handshake
			if err != nil {
				t.Fatal(err)
			}
			slow := r.dial()
			if _, err := io.WriteString(slow, "GET /v1/nodes HTTP/1.1\r\nHost: x\r\nX-Slow: "); err != nil {
				t.Fatal(err)
			}
			if got, _ := r.status("GET", "/v1/nodes", r.by[tokens.View], nil); got != 200 {
				t.Errorf("%d", got)
			}
			for name, c := range map[string]net.Conn{"silent": silent, "slow": slow} {
				if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
					t.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%s was not cut off in %v", name, time.Since(began))
				}
				_ = c.Close() // the other side has, too
			}
		})
	}
}

// exchange sends raw bytes over the socket and returns the status of the answer.
func (s *served) exchange(raw string) int {
	s.t.Helper()
	c, err := net.Dial("unix", s.path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // only read from
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		s.t.Fatal(err)
	}
	if _, err := io.WriteString(c, raw); err != nil {
		s.t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode
}

// TestHeaderLimit: the longest header is as long as http.md says.
func TestHeaderLimit(t *testing.T) {
	s := serve(t, api.Config{})
	ask := func(size int) int {
		head, end := "GET /healthz HTTP/1.1\r\nHost: tandem\r\nX: ", "\r\n\r\n"
		return s.exchange(head + strings.Repeat("x", size-len(head)-len(end)) + end)
	}
	if got := ask(16 << 10); got != 200 {
		t.Errorf("16 KiB: %d", got)
	}
	if got := ask(16<<10 + 1); got != 431 {
		t.Errorf("one more: %d", got)
	}
}

// TestLargeBodyIsRefusedAtOnce: nobody waits for a body that is announced as too large.
func TestLargeBodyIsRefusedAtOnce(t *testing.T) {
	s := serve(t, api.Config{MaxBody: 10})
	if got := s.exchange("POST /v1/config HTTP/1.1\r\nHost: tandem\r\nContent-Length: 11\r\n\r\n"); got != 413 {
		t.Errorf("status %d", got)
	}
}
