package api

import (
	"crypto/sha256"
	"net/http"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// DefaultSocket is where the controller listens and the CLI looks unless told otherwise.
const DefaultSocket = "/run/tandem/control.sock"

// UserHeader carries the name of the person at the CLI. It is a claim, not a proof: what the
// journal says first is what the kernel or the token said.
const UserHeader = "Tandem-User"

// Config says how to serve. The zero value serves unix sockets.
type Config struct {
	Tokens       []string      // what callers over TCP present, any one of them; none: every TCP caller is refused
	Log          *zap.Logger   // nil: no log; each request at debug, what the API itself broke at error
	MaxBody      int64         // bytes of a request body; 0: a unit configuration and 4 KiB
	MaxStreams   int           // streams, exports and backups at once; 0: 64
	WatchEvery   time.Duration // least time between two looks at the unit for one watcher; 0: 250 ms
	KeepAlive    time.Duration // an idle stream gets a blank line this often; 0: 15 s
	WriteTimeout time.Duration // for an answer, and for each piece of a stream, to leave; 0: 30 s
	Grace        time.Duration // for requests being worked on when the API stops; 0: 5 s
}

// API answers HTTP requests about one unit.
type API struct {
	unit    Unit
	cfg     Config
	log     *zap.Logger
	mux     *http.ServeMux
	routes  []string
	tokens  [][sha256.Size]byte
	streams chan struct{} // holds one value for each open stream
	stop    chan struct{} // closed when streams have to end

	mu      sync.Mutex
	open    int           // requests being answered
	stopped bool          // no more are taken
	idle    chan struct{} // closed when stopped and open is 0
}

// New makes the handler; Serve puts it on listeners.
func New(unit Unit, cfg Config) *API {
	setDefault(&cfg.MaxBody, unitconfig.MaxDocument+4<<10)
	setDefault(&cfg.MaxStreams, 64)
	setDefault(&cfg.WatchEvery, 250*time.Millisecond)
	setDefault(&cfg.KeepAlive, 15*time.Second)
	setDefault(&cfg.WriteTimeout, 30*time.Second)
	setDefault(&cfg.Grace, 5*time.Second)
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	a := &API{
		unit: unit, cfg: cfg, log: cfg.Log, mux: http.NewServeMux(),
		streams: make(chan struct{}, cfg.MaxStreams), stop: make(chan struct{}), idle: make(chan struct{}),
	}
	for _, t := range cfg.Tokens {
		a.tokens = append(a.tokens, sha256.Sum256([]byte(t)))
	}
	a.route("GET /healthz", a.health)
	a.route("GET /readyz", a.ready)
	a.route("POST /v1/config", a.submit)
	a.route("POST /v1/config/confirm", a.confirm)
	a.route("POST /v1/config/restore", a.restore)
	a.route("POST /v1/config/rollback", a.rollback)
	a.route("GET /v1/config", a.config)
	a.route("GET /v1/config/status", a.configStatus)
	a.route("GET /v1/config/history", a.history)
	a.route("GET /v1/config/resolved", a.resolved)
	a.route("GET /v1/config/explain", a.explain)
	a.route("GET /v1/nodes", a.nodes)
	a.route("GET /v1/nodes/{node}", a.node)
	a.route("POST /v1/nodes/{node}/enroll", a.enroll)
	a.route("POST /v1/nodes/{node}/revoke", a.revoke)
	a.route("POST /v1/identities/certify", a.certify)
	a.route("POST /v1/identities/revoke", a.disown)
	a.route("GET /v1/events", a.events)
	a.route("GET /v1/journal/verify", a.verify)
	a.route("GET /v1/journal/export", a.export)
	a.route("GET /v1/journal/backup", a.backup)
	a.route("GET /v1/unit/status", a.unitStatus)
	return a
}

func setDefault[T comparable](p *T, def T) {
	var zero T
	if *p == zero {
		*p = def
	}
}

// endpoint answers one request, or returns the error that the caller gets instead. After it has begun to answer
// it returns nil.
type endpoint func(w http.ResponseWriter, r *http.Request) error

func (a *API) route(pattern string, e endpoint) {
	a.routes = append(a.routes, pattern)
	a.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if err := e(w, r); err != nil {
			a.fail(w, r, err)
		}
	})
}

// Problem is the body of every answer that is not a 2xx. A refused submission has more fields: those
// of view.Result.
type Problem struct {
	Error *wire.Error `json:"error"`
}

// Routes lists what is answered, as "METHOD /path".
func (a *API) Routes() []string { return slices.Clone(a.routes) }

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
