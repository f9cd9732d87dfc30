package api

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"tandem.internal/controller/internal/dashboard"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/tokens"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/door"
	"tandem.internal/shared/unitconfig"
)

// Config says how to serve. The zero value serves unix sockets.
type Config struct {
	Tokens *tokens.Store // what callers over TCP present; nil: every TCP caller is refused
	URL    string        // under which callers reach the API over TCP, for whoever gets a new token; "": not at all
	CA     func() string // fingerprints of the CAs that may vouch for URL, with commas between; nil: none

	// Metrics writes the answer of GET /metrics, and says of which type it is; nil: there is none
	Metrics func(ctx context.Context) (text []byte, contentType string, err error)
	// Answered is told of each request, when it was answered or an answer that has no end has begun: the pattern of its
	// route, "" if there is none, the status, and how long it took until then; nil: nobody. It must not wait.
	Answered func(route string, status int, took time.Duration)

	Log     *zap.Logger // nil: no log; each request at debug, what the API itself broke at error
	MaxBody int64       // bytes of a request body; 0: a unit configuration and 4 KiB
	// streams, exports and backups at once, of TCP callers and of others; a quarter of them with one token; 0: 64
	MaxStreams   int
	MaxViewers   int           // live streams likewise, beside the others; 0: 256
	MaxRequests  int           // being answered at once over TCP; 0: 256
	MaxPerPeer   int           // of them, from one address; 0: 32
	WatchEvery   time.Duration // least time between two looks at the unit for one watcher; 0: 250 ms
	KeepAlive    time.Duration // an idle stream gets a blank line this often; 0: op.KeepAlive
	WriteTimeout time.Duration // for an answer, and for each piece of a stream, to leave; 0: 30 s
	Grace        time.Duration // for requests being worked on when the API stops; 0: 5 s
}

// API answers HTTP requests about one unit.
type API struct {
	core     Core
	cfg      Config
	log      *zap.Logger
	mux      *http.ServeMux
	roles    map[string]op.Role // by pattern
	guard    guard
	local    door.Crowd[string]    // streams of local callers
	remote   door.Crowd[string]    // streams over TCP, by token: they cannot take what local ones need
	viewers  [2]door.Crowd[string] // live streams likewise, of local callers and over TCP
	stopping context.Context       // done when streams and measurements have to end
	stop     context.CancelFunc    // ends stopping

	mu      sync.Mutex
	open    int           // requests being answered
	stopped bool          // no more are taken
	idle    chan struct{} // closed when stopped and open is 0
}

// Core is what the API serves. Its methods, and what its operations do, are safe for concurrent use. Errors
// that a caller can act on are *wire.Error: CodeNotFound, CodeWrongState, CodeInvalidArgument,
// CodeUnavailable (not ready), CodeStorage.
type Core interface {
	// Operations is everything in the table of package op, but for what the API does by itself.
	Operations() []Operation
	// Status is the unit at a glance.
	Status(ctx context.Context) (view.UnitStatus, error)
	// Refusing is why no submission is taken at the moment, nil if they are.
	Refusing() error
	// Entries returns journal entries in order; Changed is closed at the next append, for callers that follow.
	Entries(ctx context.Context, f view.EntryFilter) ([]view.Entry, error)
	Changed() <-chan struct{}
	// Remark writes a note into the journal and returns when it is durable.
	Remark(ctx context.Context, r view.Remark) error
}

// New makes the handler; Serve puts it on listeners. It panics unless each operation has one thing that does it.
func New(core Core, cfg Config) *API {
	setDefault(&cfg.MaxBody, unitconfig.MaxDocument+4<<10)
	setDefault(&cfg.MaxStreams, 64)
	setDefault(&cfg.MaxViewers, 256)
	setDefault(&cfg.MaxRequests, 256)
	setDefault(&cfg.MaxPerPeer, 32)
	setDefault(&cfg.WatchEvery, 250*time.Millisecond)
	setDefault(&cfg.KeepAlive, op.KeepAlive)
	setDefault(&cfg.WriteTimeout, 30*time.Second)
	setDefault(&cfg.Grace, 5*time.Second)
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	if cfg.Answered == nil {
		cfg.Answered = func(string, int, time.Duration) {}
	}
	a := &API{
		guard: guard{flight: door.Crowd[netip.Prefix]{Max: cfg.MaxRequests, Each: cfg.MaxPerPeer}},
		core:  core, cfg: cfg, log: cfg.Log, mux: http.NewServeMux(), roles: map[string]op.Role{},
		local:  door.Crowd[string]{Max: cfg.MaxStreams, Each: cfg.MaxStreams},
		remote: door.Crowd[string]{Max: cfg.MaxStreams, Each: max(cfg.MaxStreams/4, 1)},
		viewers: [2]door.Crowd[string]{{Max: cfg.MaxViewers, Each: cfg.MaxViewers},
			{Max: cfg.MaxViewers, Each: max(cfg.MaxViewers/4, 1)}},
		idle: make(chan struct{}),
	}
	a.stopping, a.stop = context.WithCancel(context.Background())
	all := append(core.Operations(), a.own()...)
	bound := map[string]int{}
	for _, o := range all {
		bound[o.Name()]++
	}
	for _, s := range op.All() {
		bound[s.Name] += 0 // one that nothing does counts, too
	}
	for name, n := range bound {
		if n != 1 {
			panic(fmt.Sprintf("api: %d things do %s", n, name))
		}
	}
	for _, rt := range routes(all) {
		a.handle(rt.pattern, rt.role, func(w http.ResponseWriter, r *http.Request) error { return rt.handle(a, w, r) })
	}
	a.handle("GET /debug/pprof/{profile}", op.Admin, a.profile)
	a.handle("GET /metrics", op.Metrics, a.metrics)
	for _, f := range dashboard.Files() {
		a.handle("GET "+strings.TrimSuffix(f.Path, "/")+end(f.Path), op.Anybody, a.file(f))
	}
	return a
}

// end is what ends the pattern of a path: a folder's is for itself alone, not for what is in it.
func end(path string) string {
	if strings.HasSuffix(path, "/") {
		return "/{$}"
	}
	return ""
}

// handle has do answer what matches a pattern. It answers, or returns the error that the caller gets instead;
// after it has begun to answer it returns nil.
func (a *API) handle(pattern string, role op.Role, do func(http.ResponseWriter, *http.Request) error) {
	a.roles[pattern] = role
	a.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if err := do(w, r); err != nil {
			a.fail(w, r, err)
		}
	})
}

func setDefault[T comparable](p *T, def T) {
	var zero T
	if *p == zero {
		*p = def
	}
}

// Routes is the least role that a token needs for each request that is answered, "METHOD /path";
// "" is none.
func (a *API) Routes() map[string]string {
	all := map[string]string{}
	for pattern, role := range a.roles {
		all[strings.TrimSuffix(pattern, "{$}")] = string(role)
	}
	return all
}

// begin counts a request in, unless the API has stopped.
func (a *API) begin() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return false
	}
	a.open++
	return true
}

func (a *API) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open--; a.open == 0 && a.stopped {
		close(a.idle)
	}
}

// drain takes no more requests and waits for those that are being answered.
func (a *API) drain() {
	a.mu.Lock()
	first := !a.stopped
	a.stopped = true
	if first && a.open == 0 {
		close(a.idle)
	}
	a.mu.Unlock()
	<-a.idle
}
