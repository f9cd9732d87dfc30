package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/tokens"
)

// writeTimeout is that of a bubble's API.
const writeTimeout = 7 * time.Second

// bell is a core whose journal grows when a test says so.
type bell struct {
	api.Core
	mu      sync.Mutex
	changed chan struct{}
}

func (b *bell) Changed() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed
}

// ring says that the journal has grown.
func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.changed)
	b.changed = make(chan struct{})
}

// bubble is an API within a synctest bubble, with keys of its own: those of other tests belong to no bubble.
type bubble struct {
	*bell
	t    *testing.T
	h    *api.API
	keys *tokens.Store
	by   map[tokens.Role]string
	end  context.CancelFunc // stops the API
	done chan error         // what became of it
}

// inBubble has a test run with an API of a core. The API has stopped when it returns.
func inBubble(t *testing.T, core api.Core, cfg api.Config, test func(*bubble)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{bell: &bell{Core: core, changed: make(chan struct{})}, t: t, done: make(chan error, 1)}
		b.keys, b.by = ownKeys(t, nil)
		cfg.Tokens, cfg.WriteTimeout = b.keys, writeTimeout
		b.h = api.New(b.bell, cfg)
		var ctx context.Context
		ctx, b.end = context.WithCancel(context.Background())
		go func() { b.done <- b.h.Serve(ctx) }()
		test(b)
		b.end()
		if err := <-b.done; err != nil {
			t.Error(err)
		}
	})
}

// take has somebody ask with the token of a role, and returns when the answer waits for something; leave ends it.
func (b *bubble) take(role tokens.Role, method, path string, k *taker) (leave func()) {
	ctx, cancel := context.WithCancel(context.Background())
	r := httptest.NewRequestWithContext(ctx, method, path, nil)
	r.Header.Set("Authorization", "Bearer "+b.by[role])
	b.send(r, k)
	return cancel
}

// send is take of any request.
func (b *bubble) send(r *http.Request, k *taker) {
	k.t, k.header, k.ended = b.t, http.Header{}, make(chan struct{})
	go func() {
		defer close(k.ended)
		defer func() {
			if k.cut = recover(); k.cut != nil && k.cut != http.ErrAbortHandler {
				panic(k.cut)
			}
		}()
		b.h.ServeHTTP(k, r)
	}()
	synctest.Wait()
}

// taker takes an answer within a bubble. What was written has left when it was flushed.
type taker struct {
	t      *testing.T
	header http.Header
	ended  chan struct{} // closed when the answer has ended
	cut    any           // then: why it was cut off; nil: it was not

	mu     sync.Mutex
	status int
	held   strings.Builder
	left   strings.Builder
	writes []int       // their sizes
	reads  []time.Time // deadlines of reading
	until  time.Time   // deadline of the next write
	fails  error       // of each write; nil: it is taken

	// what happens meanwhile; nil: nothing
	writing  func()
	flushing func()
}

func (k *taker) Header() http.Header { return k.header }

func (k *taker) WriteHeader(status int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.status = status
}

func (k *taker) SetWriteDeadline(at time.Time) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.until = at
	return nil
}

func (k *taker) SetReadDeadline(at time.Time) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reads = append(k.reads, at)
	return nil
}

func (k *taker) Write(p []byte) (int, error) {
	if k.writing != nil {
		k.writing()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.until.Equal(time.Now().Add(writeTimeout)) {
		k.t.Errorf("%d bytes are sent with the deadline %v at %v", len(p), k.until, time.Now())
	}
	k.until = time.Time{} // each write has its own
	k.writes = append(k.writes, len(p))
	if k.fails != nil {
		return 0, k.fails
	}
	return k.held.Write(p)
}

func (k *taker) Flush() {
	k.mu.Lock()
	k.left.WriteString(k.held.String())
	k.held.Reset()
	k.mu.Unlock()
	if k.flushing != nil {
		k.flushing()
	}
}

// fail has each write from now on fail.
func (k *taker) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fails = err
}

// code is the status, 0 if there is none yet; sizes are those of the writes, and unread the deadlines of reading.
func (k *taker) code() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.status
}

func (k *taker) sizes() []int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.writes)
}

func (k *taker) unread() []time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.reads)
}

// got returns what has left since it was asked last, and after the end what the server sends by itself then.
func (k *taker) got() string {
	synctest.Wait()
	if k.over() {
		k.Flush()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.left.Reset()
	return k.left.String()
}

// over reports whether the answer has ended.
func (k *taker) over() bool {
	synctest.Wait()
	select {
	case <-k.ended:
		return true
	default:
		return false
	}
}
