package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tandem.internal/controller/internal/artefact"
	"tandem.internal/controller/internal/artefact/store"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/door"
	"tandem.internal/shared/filetest"
	"tandem.internal/shared/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ledger is a journal of artefacts in memory.
type ledger struct {
	mu    sync.Mutex
	state *artefact.State
}

func (l *ledger) DecideArtefact(_ context.Context, who string, ev artefact.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.state.Decide(time.Now(), ev)
	if d.Record != nil {
		l.state.Apply(time.Now(), who, d.Record)
	}
	if d.Err != nil {
		return d.Err
	}
	return nil
}

func (l *ledger) SeeArtefacts(_ context.Context, fn func(*artefact.State)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	fn(l.state)
	return nil
}

func (l *ledger) ArtefactsUsed(context.Context) (map[string][]string, error) { return nil, nil }
func (l *ledger) ArtefactDamaged(*wire.Error)                                {}

type body struct{ io.Reader }

func (body) Interrupt() {}

// rig serves a store over HTTP. Node n1 may fetch what is in allowed.
type rig struct {
	*testing.T
	dir     string
	store   *store.Store
	server  *Server
	web     *httptest.Server
	allowed map[string]bool
}

func newRig(t *testing.T, rate float64) *rig {
	r := &rig{T: t, dir: filepath.Join(t.TempDir(), "artefacts"), allowed: map[string]bool{}}
	l := &ledger{state: artefact.New()}
	var err error
	if r.store, err = store.New(store.Config{Dir: r.dir, Ledger: l, Quota: 1 << 30}, l.state.Clone()); err != nil {
		t.Fatal(err)
	}
	r.server = New(Config{Store: r.store, Rate: rate, Chance: func() float64 { return 0.5 },
		Allowed: func(_ context.Context, node, digest string) (bool, error) {
			if node == "ill" {
				return false, errors.New("the journal cannot be read")
			}
			return r.allowed[digest], nil
		}})
	r.web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		err := r.server.Send(w, q, q.Header.Get("Node"), strings.TrimPrefix(q.URL.Path, "/"))
		if e, ok := errors.AsType[*wire.Error](err); ok {
			w.WriteHeader(door.Status(e.Code))
			fmt.Fprint(w, err)
		} else if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(func() {
		r.web.Close()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		r.store.Run(ctx) // ends what is under way
	})
	return r
}

// add has an artefact in the store that n1 may fetch.
func (r *rig) add(b []byte) string {
	r.Helper()
	digest := wire.Hash(b)
	r.allowed[digest] = true
	ctx := r.Context()
	if _, err := r.store.Begin(ctx, op.NewArtefact{Digest: digest, Size: int64(len(b))}); err != nil {
		r.Fatal(err)
	}
	if _, err := r.store.Write(ctx, digest, 0, body{bytes.NewReader(b)}); err != nil {
		r.Fatal(err)
	}
	if v, err := r.store.Complete(ctx, digest); err != nil || v.State != view.UploadAdded {
		r.Fatalf("%+v %v", v, err)
	}
	return digest
}

// get makes a request with headers "Name: value".
func (r *rig) get(method, digest string, headers ...string) (*http.Response, []byte, error) {
	r.Helper()
	q, err := http.NewRequestWithContext(r.Context(), method, r.web.URL+"/"+digest, nil)
	if err != nil {
		r.Fatal(err)
	}
	q.Header.Set("Node", "n1")
	for _, h := range headers {
		if name, value, ok := strings.Cut(h, ": "); ok {
			q.Header.Set(name, value)
		}
	}
	res, err := r.web.Client().Do(q)
	if err != nil {
		r.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res, b, err
}

func content(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8 + i>>16)
	}
	return b
}

// TestRanges: a node gets the part that it asks for, as RFC 9110 has it, and a part of another content never.
func TestRanges(t *testing.T) {
	r := newRig(t, 0)
	b := content(2*store.Chunk + 1000)
	d, size := r.add(b), len(b)
	tag := `"` + d + `"`
	for _, c := range []struct {
		headers  string
		status   int
		from, to int
	}{
		{"", 200, 0, size},
		{"Range: bytes=0-", 206, 0, size},
		{"Range: bytes=5-9", 206, 5, 10},
		{"Range: bytes=1048570-2097160", 206, 1048570, 2097161},
		{"Range: bytes=2097152-", 206, 2097152, size},
		{"Range: bytes=7-99999999", 206, 7, size},
		{"Range: bytes=-10", 206, size - 10, size},
		{"Range: bytes=-99999999", 206, 0, size},
		{fmt.Sprintf("Range: bytes=%d-", size-1), 206, size - 1, size},
		{fmt.Sprintf("Range: bytes=%d-", size), 416, 0, 0},
		{"Range: bytes=-0", 416, 0, 0},
		{"Range: bytes=9-5", 200, 0, size},
		{"Range: bytes=1-2,5-9", 200, 0, size},
		{"Range: lines=1-2", 200, 0, size},
		{"Range: bytes=a-2", 200, 0, size},
		{"Range: bytes=99999999999999999999-", 200, 0, size},
		{"Range: bytes=5-9\nIf-Range: " + tag, 206, 5, 10},
		{"Range: bytes=5-9\nIf-Range: \"other\"", 200, 0, size},
		{"Range: bytes=5-9\nIf-Range: Tue, 24 Nov 2026 09:00:00 GMT", 200, 0, size},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			res, got, err := r.get(method, d, strings.Split(c.headers, "\n")...)
			want := b[c.from:c.to]
			if method == "HEAD" {
				want = nil
			}
			if err != nil || res.StatusCode != c.status || !bytes.Equal(got, want) || res.Header.Get("ETag") != tag ||
				res.Header.Get("Content-Length") != strconv.Itoa(c.to-c.from) {
				t.Errorf("%s %q: %d, %d bytes, %v, %v", method, c.headers, res.StatusCode, len(got), res.Header, err)
			}
			wantRange := map[int]string{206: fmt.Sprintf("bytes %d-%d/%d", c.from, c.to-1, size),
				416: fmt.Sprintf("bytes */%d", size)}[c.status]
			if got := res.Header.Get("Content-Range"); got != wantRange {
				t.Errorf("%s %q: Content-Range %q", method, c.headers, got)
			}
		}
	}
	empty := r.add(nil)
	if res, got, err := r.get("GET", empty); err != nil || res.StatusCode != 200 || len(got) != 0 {
		t.Errorf("nothing: %d %q %v", res.StatusCode, got, err)
	}
}

// TestForbiddenIsUnknown: what a node may not fetch does not exist for it.
func TestForbiddenIsUnknown(t *testing.T) {
	r := newRig(t, 0)
	d := r.add(content(100))
	delete(r.allowed, d)
	unknown := wire.Hash([]byte("never there"))
	r.allowed[unknown] = true
	var answers []string
	for _, digest := range []string{d, unknown, wire.Hash(nil), "x", d + "0"} {
		res, got, err := r.get("GET", digest)
		if err != nil {
			t.Fatal(err)
		}
		res.Header.Del("Date")
		answers = append(answers, fmt.Sprint(res.StatusCode, res.Header, string(got)))
	}
	for i, a := range answers {
		if a != answers[0] || !strings.HasPrefix(a, "404") {
			t.Errorf("%d: %s, not %s", i, a, answers[0])
		}
	}
	if res, _, _ := r.get("GET", d, "Node: ill"); res.StatusCode != 500 {
		t.Errorf("the core fails: %d", res.StatusCode)
	}
}

// TestDamageCutsOff: of a damaged artefact a node gets nothing, or whole chunks before the damage and a connection that
// breaks; never bytes that are not its own, and never an end that looks good.
func TestDamageCutsOff(t *testing.T) {
	b := content(3 * store.Chunk)
	for at, want := range map[int64]int{3: 0, store.Chunk + 5: store.Chunk, 3*store.Chunk - 1: 2 * store.Chunk} {
		r := newRig(t, 0)
		d := r.add(b)
		name := strings.TrimPrefix(d, "sha256:")
		path := filepath.Join(r.dir, "sha256", name[:2], name)
		harmed := bytes.Clone(b)
		harmed[at] ^= 4
		if err := os.WriteFile(path, harmed, 0o600); err != nil {
			t.Fatal(err)
		}
		res, got, err := r.get("GET", d)
		switch {
		case want == 0 && res.StatusCode != 404:
			t.Errorf("at %d: %d", at, res.StatusCode)
		case want > 0 && (err == nil || !bytes.Equal(got, b[:want])):
			t.Errorf("at %d: %d bytes, %v", at, len(got), err)
		}
		if res, _, err := r.get("GET", d); err != nil || res.StatusCode != 404 {
			t.Errorf("at %d, once more: %d %v", at, res.StatusCode, err)
		}
		if len(r.store.Trouble()) != 1 {
			t.Errorf("at %d: %q", at, r.store.Trouble())
		}
	}
}

// TestHerd: of many nodes that come together, MaxTransfers fetch; the others are told when to come back, and get all
// then.
func TestHerd(t *testing.T) {
	r := newRig(t, 0)
	b := content(8 << 20) // more than sockets hold
	d := r.add(b)
	var held []*http.Response
	for i := range artefact.MaxTransfers {
		q, err := http.NewRequestWithContext(t.Context(), "GET", r.web.URL+"/"+d, nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Node", fmt.Sprint("n", i))
		res, err := r.web.Client().Do(q)
		if err != nil || res.StatusCode != 200 {
			t.Fatal(res, err)
		}
		held = append(held, res)
	}
	res, _, err := r.get("GET", d, "Node: late")
	if err != nil || res.StatusCode != 503 || res.Header.Get("Retry-After") != "3" {
		t.Errorf("%d %v %v", res.StatusCode, res.Header, err)
	}
	if res, _, _ := r.get("HEAD", d, "Node: late"); res.StatusCode != 200 {
		t.Errorf("HEAD needs no turn: %d", res.StatusCode)
	}
	for i, res := range held {
		if got, err := io.ReadAll(res.Body); err != nil || !bytes.Equal(got, b) {
			t.Errorf("%d: %d bytes %v", i, len(got), err)
		}
		if err := res.Body.Close(); err != nil {
			t.Error(err)
		}
	}
	for { // a turn is given back after the last byte was read
		res, got, err := r.get("GET", d, "Node: late")
		if err == nil && res.StatusCode == 200 && bytes.Equal(got, b) {
			break
		}
		if err != nil || res.StatusCode != 503 || t.Context().Err() != nil {
			t.Fatal(res, err)
		}
	}
}

// TestRate: all transfers together are no faster than is set.
func TestRate(t *testing.T) {
	r := newRig(t, 4<<20)
	b := content(1 << 20)
	d := r.add(b)
	begun := time.Now()
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if _, got, err := r.get("GET", d); err != nil || !bytes.Equal(got, b) {
				t.Errorf("%d bytes %v", len(got), err)
			}
		})
	}
	all.Wait()
	if took := time.Since(begun); took < 700*time.Millisecond {
		t.Errorf("3 MiB at 4 MiB a second took %v", took)
	}
}

// TestUnreadableIsThere: of an artefact that cannot be read now a node that may fetch it is not told that there is
// none.
func TestUnreadableIsThere(t *testing.T) {
	r := newRig(t, 0)
	d := r.add(content(100))
	back := filetest.Descriptors(t, 0)
	err := r.server.Send(httptest.NewRecorder(), httptest.NewRequest("GET", "/"+d, nil), "n1", d)
	back()
	if e, ok := errors.AsType[*wire.Error](err); !ok || e.Code != wire.CodeUnavailable ||
		strings.Contains(e.Message, r.dir) {
		t.Errorf("%v", err)
	}
	if res, b, err := r.get("GET", d); err != nil || res.StatusCode != 200 || len(b) != 100 {
		t.Errorf("%v %d bytes %v", res.Status, len(b), err)
	}
}
