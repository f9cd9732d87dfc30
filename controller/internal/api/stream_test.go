package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/tokens"
	"tandem.internal/controller/internal/view"
)

// sights are what watchers of nodes see: the names, and how often somebody has looked.
type sights struct {
	names  atomic.Pointer[[]string]
	looks  atomic.Int64
	during atomic.Pointer[func(context.Context) error] // what happens once while somebody looks
}

func (s *sights) set(names ...string) { s.names.Store(&names) }

func (s *sights) once(do func(context.Context) error) { s.during.Store(&do) }

func (s *sights) see(ctx context.Context) (op.Nodes, error) {
	s.looks.Add(1)
	var all op.Nodes
	for _, name := range *s.names.Load() {
		all.Nodes = append(all.Nodes, view.Node{Node: name})
	}
	if do := s.during.Swap(nil); do != nil {
		return all, (*do)(ctx)
	}
	return all, nil
}

// watching has a test run with an API whose nodes are what it says.
func watching(t *testing.T, cfg api.Config, test func(*bubble, *sights)) {
	s := &sights{}
	s.set()
	core := apitest.Instead(apitest.Start(t), api.WatchNodes(s.see))
	inBubble(t, core, cfg, func(b *bubble) { test(b, s) })
}

const (
	watchPath = "/v1/nodes?watch=1"
	complete  = `{"complete":true}` + "\n"
)

// TestWatchSaysWhatChanged: all there is at first, be it nothing, then what changes, each once, and nothing else.
func TestWatchSaysWhatChanged(t *testing.T) {
	watching(t, api.Config{WatchEvery: time.Second, KeepAlive: time.Hour}, func(b *bubble, s *sights) {
		var k taker
		defer b.take(tokens.View, "GET", watchPath, &k)()
		if got := k.got(); got != complete {
			t.Errorf("without nodes: %q", got)
		}
		for _, c := range []struct {
			names []string
			want  string // what the names on its lines are
		}{
			{nil, ""}, {[]string{"a", "b"}, `"node":"a" "node":"b"`}, {[]string{"a", "b"}, ""},
			{[]string{"b"}, `"gone":"a"`}, {[]string{"b", "c"}, `"node":"c"`}, {[]string{"b", "c"}, ""},
			{[]string{"a", "b", "c"}, `"node":"a"`},
		} {
			s.set(c.names...)
			b.ring()
			time.Sleep(time.Second)
			var named []string
			got := k.got()
			for line := range strings.Lines(got) {
				if line != complete {
					line = line[strings.LastIndex(line, `{`)+1:]
					end := strings.Index(line[strings.Index(line, ":")+2:], `"`) + strings.Index(line, ":") + 3
					named = append(named, line[:end])
				}
			}
			if strings.Join(named, " ") != c.want || strings.HasSuffix(got, complete) != (c.want != "") ||
				strings.Count(got, complete) > 1 {
				t.Errorf("%v: %q", c.names, got)
			}
		}
	})
}

// TestStatusIsToldWhenItChanges: and not when something else does.
func TestStatusIsToldWhenItChanges(t *testing.T) {
	var version atomic.Pointer[string]
	see := func(context.Context) (st view.SourceStatus, err error) {
		st.Version = *version.Load()
		return st, nil
	}
	core := apitest.Instead(apitest.Start(t), api.Watch(apitest.Config.Watch, see))
	inBubble(t, core, api.Config{WatchEvery: time.Second, KeepAlive: time.Hour}, func(b *bubble) {
		version.Store(new("1.0.0"))
		var k taker
		defer b.take(tokens.View, "GET", "/v1/config/status?watch=1", &k)()
		for _, c := range []struct{ version, want string }{{"1.0.0", "1.0.0"}, {"1.0.0", ""}, {"2.0.0", "2.0.0"}} {
			version.Store(&c.version)
			b.ring()
			time.Sleep(time.Second)
			if got := k.got(); strings.Count(got, "\n") > 1 || !strings.Contains(got, c.want) ||
				c.want == "" && got != "" {
				t.Errorf("%s: %q", c.version, got)
			}
		}
	})
}

// TestWatchLooksSeldom: once at the begin and once after each change, but no more often than it should, and also after
// what comes while it looks.
func TestWatchLooksSeldom(t *testing.T) {
	watching(t, api.Config{WatchEvery: time.Second, KeepAlive: 30 * time.Second}, func(b *bubble, s *sights) {
		ringing := func(context.Context) error { b.ring(); return nil }
		var k taker
		s.once(ringing)
		defer b.take(tokens.View, "GET", watchPath, &k)()
		looked := func(when string, want int64) {
			t.Helper()
			time.Sleep(10 * time.Second)
			if n := s.looks.Swap(0); n != want {
				t.Errorf("%s: %d looks, want %d", when, n, want)
			}
		}
		looked("a change while it looks at first", 2)
		s.once(ringing)
		b.ring()
		looked("a change while it looks later", 2)
		for range 9 {
			b.ring()
			time.Sleep(100 * time.Millisecond)
		}
		looked("many changes", 2)
		k.got()
		time.Sleep(time.Hour)
		looked("nothing", 0)
		if got := k.got(); got != strings.Repeat("\n", 120) {
			t.Errorf("to keep the line alive in an hour: %q", got)
		}
	})
}

// TestStreamsLeaveInPieces: of many nodes no more is written at once than a piece, each once, and nothing stays behind.
func TestStreamsLeaveInPieces(t *testing.T) {
	watching(t, api.Config{}, func(b *bubble, s *sights) {
		var names []string
		for i := range 5000 {
			names = append(names, fmt.Sprintf("node-%05d", i))
		}
		s.set(names...)
		var k taker
		defer b.take(tokens.View, "GET", watchPath, &k)()
		got, at := k.got(), 0
		for _, name := range names {
			i := strings.Index(got[at:], `"`+name+`"`)
			if i < 0 {
				t.Fatalf("%s is not there, or too late", name)
			}
			at += i
		}
		if n := strings.Count(got, "\n"); n != len(names)+1 || !strings.HasSuffix(got, complete) {
			t.Errorf("%d lines of %d nodes", n, len(names))
		}
		for _, n := range k.sizes() {
			if n > 65<<10 {
				t.Errorf("%d bytes are written at once", n)
			}
		}
		if b.take(tokens.View, "HEAD", watchPath, &k)(); !k.over() {
			t.Error("a HEAD has no end")
		}
	})
}

// TestStreamsEndWithWhoReads: nothing more is written to somebody who takes nothing, and nobody looks for him.
func TestStreamsEndWithWhoReads(t *testing.T) {
	gone := errors.New("gone")
	var many []string
	for i := range 5000 {
		many = append(many, fmt.Sprintf("node-%05d", i))
	}
	for name, c := range map[string]struct {
		nodes  []string
		within time.Duration
		writes int // with that of why it ends, if somebody has looked
	}{"few": {[]string{"a"}, 30 * time.Second, 2}, "many": {many, 30 * time.Second, 2}, "alive": {nil, time.Hour, 1}} {
		watching(t, api.Config{WatchEvery: time.Second, KeepAlive: time.Minute}, func(b *bubble, s *sights) {
			var k taker
			defer b.take(tokens.View, "GET", watchPath, &k)()
			k.fail(gone)
			before := len(k.sizes())
			if s.set(c.nodes...); c.nodes != nil {
				b.ring()
			}
			if time.Sleep(c.within); !k.over() || len(k.sizes()) != before+c.writes {
				t.Errorf("%s: ended %v, after %d writes", name, k.over(), len(k.sizes())-before)
			}
		})
	}
}

// TestStreamsEnd: when the caller leaves nothing more is said; a failure is told, and written to the log if it was not
// meant for callers; and a token that was revoked gets nothing that was looked up meanwhile.
func TestStreamsEnd(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	cfg := api.Config{WatchEvery: time.Second, Log: zap.New(core)}
	for name, c := range map[string]struct {
		do     func(*bubble, func()) func(context.Context) error
		want   string
		logged int
	}{
		"the caller leaves": {func(_ *bubble, leave func()) func(context.Context) error {
			return func(ctx context.Context) error { leave(); return ctx.Err() }
		}, "", 0},
		"an error for callers": {func(*bubble, func()) func(context.Context) error {
			return func(context.Context) error { return context.DeadlineExceeded }
		}, `"code":"timeout"`, 0},
		"another error": {func(*bubble, func()) func(context.Context) error {
			return func(context.Context) error { return errors.New("secret") }
		}, `"code":"internal"`, 1},
		"the token is revoked": {func(b *bubble, _ func()) func(context.Context) error {
			return func(ctx context.Context) error {
				_, err := b.keys.Revoke(context.Background(), string(tokens.View))
				<-ctx.Done()
				return err
			}
		}, "the token was revoked", 0},
	} {
		watching(t, cfg, func(b *bubble, s *sights) {
			var k taker
			leave := b.take(tokens.View, "GET", watchPath, &k)
			defer leave()
			if got := k.got(); got != complete {
				t.Errorf("%s: first %q", name, got)
			}
			s.set("new")
			s.once(c.do(b, leave))
			b.ring()
			time.Sleep(time.Second)
			got := k.got()
			if !k.over() || strings.Contains(got, "new") || strings.Contains(got, "secret") ||
				c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("%s: ended %v, with %q", name, k.over(), got)
			}
			if n := len(logs.TakeAll()); n != c.logged {
				t.Errorf("%s: %d lines in the log", name, n)
			}
		})
	}
}

// TestStopDoesNotWaitForStreams: not for those that rest between two looks either.
func TestStopDoesNotWaitForStreams(t *testing.T) {
	watching(t, api.Config{WatchEvery: time.Hour}, func(b *bubble, _ *sights) {
		var k taker
		defer b.take(tokens.View, "GET", watchPath, &k)()
		k.got()
		began := time.Now()
		b.end()
		<-k.ended
		if took := time.Since(began); took > 0 || !strings.Contains(k.got(), "the controller is stopping") {
			t.Errorf("it took %s", took)
		}
	})
}

// TestDownloads: an empty one has its type; one that ends makes room; for a HEAD nothing is filled; a body is refused;
// and one that is cut off is in the log.
func TestDownloads(t *testing.T) {
	u := apitest.StartSample(t)
	text, filled := "", 0
	fill := func(_ context.Context, w io.Writer) error {
		if filled++; text == "" {
			return nil
		}
		_, err := io.WriteString(w, text)
		return errors.Join(err, errors.New("disk"))
	}
	core, logs := observer.New(zap.WarnLevel)
	h := api.New(apitest.Instead(u, api.File(op.BackupJournal, "journal.db", fill)),
		api.Config{Tokens: keys, MaxStreams: 1, Log: zap.New(core)})
	for range 2 {
		w := call(h, "GET", "/v1/journal/backup", "")
		if w.Code != 200 || w.Header().Get("Content-Type") != op.BackupJournal.Type || w.Body.Len() > 0 {
			t.Errorf("an empty one: %d %q %s", w.Code, w.Header(), w.Body)
		}
	}
	w := call(h, "HEAD", "/v1/journal/backup", "")
	if w.Code != 200 || w.Header().Get("Content-Type") != op.BackupJournal.Type || filled != 2 {
		t.Errorf("HEAD: %d %q, filled %d times", w.Code, w.Header(), filled)
	}
	gone, leave := context.WithCancel(t.Context())
	leave() // who gets a stream all the same does not wait for its end
	r := httptest.NewRequestWithContext(gone, "GET", watchPath, strings.NewReader("x"))
	r.Header.Set("Authorization", "Bearer "+token)
	w = httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != 400 || !strings.Contains(w.Body.String(), "takes no body") {
		t.Errorf("with a body: %d %s", w.Code, w.Body)
	}
	text = "half"
	func() {
		defer func() {
			if p := recover(); p != http.ErrAbortHandler {
				t.Errorf("half of it looks whole: %v", p)
			}
		}()
		call(h, "GET", "/v1/journal/backup", "")
	}()
	if logs.FilterMessage("download cut off").Len() != 1 {
		t.Errorf("%v", logs.All())
	}
}
