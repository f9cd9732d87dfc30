package keep

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"go.uber.org/zap"

	"tandem.internal/shared/wire"
)

// Config says which keeper is meant and how it is started.
type Config struct {
	Dir     string      // the keeper's own directory; made if it is missing
	Exe     string      // the program; "": this very one
	Args    []string    // its arguments; nil: keep --dir Dir
	Env     []string    // variables that it gets beside PATH, HOME, LANG and TZ
	Version string      // of Exe: a keeper of another version that has no runs is replaced; "": none is
	Log     *zap.Logger // nil: nowhere
	// Users are to be given to slots: a keeper that does not, and has no runs, is replaced.
	Users    Users
	Loopback Loopback // with Users
	// Served says that somebody else starts the keeper, and decides which version it is.
	Served bool
}

// Client speaks with the keeper of a directory. It holds no connection and has no goroutine: each
// call connects, asks and hangs up. Its methods are for any goroutine. Every error that the keeper
// gives is a *wire.Error; ErrAbsent and others are of the way there.
type Client struct {
	cfg      Config
	starts   bool       // what Ensure made starts the keeper when it is not there
	children chan []int // processes that this client started and has not taken leave of
}

// Dial returns a client for a keeper that runs, ErrAbsent if none does. It never starts one.
func Dial(ctx context.Context, dir string) (*Client, error) {
	c, err := newClient(Config{Dir: dir}, false)
	if err != nil {
		return nil, err
	}
	_, err = c.Keeper(ctx)
	return c, err
}

// Ensure starts the keeper if it does not run, and returns a client that does so again whenever it is
// found missing. Several may do this at the same time: one keeper comes out.
func Ensure(ctx context.Context, cfg Config) (*Client, error) {
	c, err := newClient(cfg, !cfg.Served)
	if err != nil {
		return nil, err
	}
	k, err := c.Keeper(ctx)
	if cfg.Served && errors.Is(err, ErrAbsent) {
		return nil, fmt.Errorf("%w; it is a service's, or root's, to start it (--workload-users)", err)
	}
	other := cfg.Version != "" && k.Version != cfg.Version || k.Users != cfg.Users.String()
	if cfg.Served {
		other = k.Users == ""
	}
	if err == nil && other {
		// A keeper that has runs stays what it is: they are its children. Only one that has none is replaced.
		if err := c.Quit(ctx, false); err != nil && !errors.Is(err, &wire.Error{Code: wire.CodeWrongState}) {
			return nil, err
		}
		if _, err = c.Keeper(ctx); cfg.Served && errors.Is(err, ErrAbsent) {
			err = nil // it comes
		}
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

func newClient(cfg Config, starts bool) (*Client, error) {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("keeper's directory: %w", err)
	}
	cfg.Dir = dir
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	if cfg.Args == nil {
		cfg.Args = []string{"keep", "--dir", dir}
		if !cfg.Users.None() {
			cfg.Args = append(cfg.Args, "--users", cfg.Users.String(), "--loopback", string(cfg.Loopback))
		}
	}
	c := &Client{cfg: cfg, starts: starts, children: make(chan []int, 1)}
	c.children <- nil
	return c, nil
}

// Keeper says which keeper answers.
func (c *Client) Keeper(ctx context.Context) (Keeper, error) {
	a, err := c.ask(ctx, request{Op: opHello})
	return a.Keeper, err
}

// Start starts a run. If its ID is known, nothing is started and the known run's status returned, so a
// Start that was not answered can be repeated. A program that cannot be executed is no error of Start:
// the run has Exited with Status.Error. So has one that cannot be confined as it should be, with a keeper that knows of
// that; one that does not answers CodeNotSupported, as one that knows of no containers does.
func (c *Client) Start(ctx context.Context, run Run) (Status, error) {
	if err := run.Check(); err != nil {
		return Status{}, err
	}
	op := opStart
	if run.Contain {
		op = opContain
	}
	if run.Confine != nil && run.Confine.Least.Demands() {
		op = opConfine
	}
	return c.one(ctx, request{Op: op, Run: &run})
}

// Clear removes a directory with all that is in it, also what slots with users of their own have made there. Links are
// not followed.
func (c *Client) Clear(ctx context.Context, dir string) error {
	_, err := c.ask(ctx, request{Op: opClear, Dir: dir})
	return err
}

// List returns every run that the keeper remembers, by ID.
func (c *Client) List(ctx context.Context) (all []Status, err error) {
	for after := ""; ; {
		a, err := c.ask(ctx, request{Op: opList, After: after})
		if err != nil {
			return nil, err
		}
		all = append(all, a.Status...)
		if !a.More || len(a.Status) == 0 {
			return all, nil
		}
		after = a.Status[len(a.Status)-1].ID
	}
}

// Get returns one run; CodeNotFound if the keeper does not know it.
func (c *Client) Get(ctx context.Context, id string) (Status, error) {
	return c.one(ctx, request{Op: opGet, ID: id})
}

// Stop begins to end a run and does not wait for it: SIGTERM to its process group, after grace SIGKILL to
// everything of it; at once if grace is 0. Of several Stops the earliest end counts. A run that has ended stays as it
// is.
func (c *Client) Stop(ctx context.Context, id string, grace time.Duration) (Status, error) {
	return c.one(ctx, request{Op: opStop, ID: id, Grace: grace})
}

// Signal sends a signal to the process group of a run; CodeWrongState if it has ended.
func (c *Client) Signal(ctx context.Context, id string, sig syscall.Signal) error {
	_, err := c.ask(ctx, request{Op: opSignal, ID: id, Signal: int(sig)})
	return err
}

// Forget removes what is remembered of a run that has ended; CodeWrongState if it has not. That the run
// is not known is no error. After it, the ID can be started anew.
func (c *Client) Forget(ctx context.Context, id string) error {
	_, err := c.ask(ctx, request{Op: opForget, ID: id})
	return err
}

// Wait waits until a run has ended.
func (c *Client) Wait(ctx context.Context, id string) (Status, error) {
	s, err := c.Get(ctx, id)
	if err != nil || s.State != Running {
		return s, err
	}
	limited, found := context.WithCancel(ctx)
	defer found()
	err = c.Follow(limited, func(o Status) {
		if o.ID == id && o.State != Running {
			s = o
			found()
		}
	})
	if s.State != Running {
		return s, nil
	}
	return s, err
}

// Quit ends the keeper and waits until it is gone: CodeWrongState if a run is left, unless force, which
// stops every run within its StopGrace first. No keeper is no error, and none is started for this.
func (c *Client) Quit(ctx context.Context, force bool) error {
	err := c.exchange(ctx, request{Op: opQuit, Force: force}, func(a answer) error {
		if a.Error != nil {
			return a.Error
		}
		return nil // until it hangs up
	})
	if errors.Is(err, ErrAbsent) || errors.Is(err, errHungUp) {
		return nil
	}
	return err
}

// Follow tells of every run as it is, and then of each change, from the caller's goroutine, until ctx
// ends; the error is ctx's then. Of several changes of one run only the newest is told. When the
// connection breaks, it begins anew with every run as it is: what was missed is told late, never lost; a
// run that is not among them was forgotten. each may use the client.
func (c *Client) Follow(ctx context.Context, each func(Status)) error {
	for {
		err := c.try(ctx, request{Op: opFollow}, func(a answer) error {
			if a.Error != nil {
				return a.Error
			}
			for _, s := range a.Status {
				each(s)
			}
			return ctx.Err()
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !errors.Is(err, errHungUp) {
			return err
		}
		c.cfg.Log.Warn("the connection to the keeper broke", zap.Error(err))
		if !c.starts {
			return ErrAbsent
		}
	}
}

// one asks for one status.
func (c *Client) one(ctx context.Context, r request) (Status, error) {
	a, err := c.ask(ctx, r)
	if err != nil {
		return Status{}, err
	}
	if len(a.Status) != 1 {
		return Status{}, fmt.Errorf("the keeper answered %s with %d runs, not one", r.Op, len(a.Status))
	}
	return a.Status[0], nil
}

// ask sends a request and waits for its one answer. Every request can be repeated, and is when the
// keeper went away before it had answered.
func (c *Client) ask(ctx context.Context, r request) (a answer, err error) {
	answered := errors.New("answered")
	for tries := 3; ; tries-- {
		err = c.try(ctx, r, func(got answer) error {
			a = got
			return answered
		})
		switch {
		case errors.Is(err, answered) && a.Error != nil:
			return a, a.Error
		case errors.Is(err, answered):
			return a, nil
		case !c.starts || tries == 1 || !errors.Is(err, errHungUp):
			return answer{}, err
		}
	}
}

// try does exchange, with a keeper started for it if need be.
func (c *Client) try(ctx context.Context, r request, each func(answer) error) error {
	err := c.exchange(ctx, r, each)
	if !errors.Is(err, ErrAbsent) || !c.starts {
		return err
	}
	if err := c.start(ctx); err != nil {
		return err
	}
	err = c.exchange(ctx, r, each)
	if errors.Is(err, ErrAbsent) {
		return fmt.Errorf("%w: it was started and went away again", errHungUp)
	}
	return err
}

// errHungUp says that the keeper hung up.
var errHungUp = errors.New("the keeper hung up")

// exchange connects, sends r, and gives each answer to each until that returns an error, which exchange
// returns, or the keeper hangs up: errHungUp.
func (c *Client) exchange(ctx context.Context, r request, each func(answer) error) (err error) {
	r.Protocol = Protocol
	data, err := encodeMessage(r)
	if err != nil {
		return err
	}
	conn, err := dial(ctx, c.cfg.Dir)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // nothing is lost with it
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	fail := func(err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w: %w", errHungUp, err)
	}
	if _, err := conn.Write(data); err != nil {
		return fail(err)
	}
	for in := bufio.NewReader(conn); ; {
		var a answer
		if err := readMessage(in, &a); err != nil {
			return fail(err)
		}
		if err := each(a); err != nil {
			return err
		}
	}
}

// dial connects to the keeper of a directory.
func dial(ctx context.Context, dir string) (net.Conn, error) {
	path, release, err := socketPath(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w in %s", ErrAbsent, dir)
	}
	if err != nil {
		return nil, err
	}
	defer release()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	switch {
	case ctx.Err() != nil && err != nil:
		return nil, ctx.Err()
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("%w in %s", ErrAbsent, dir)
	case err != nil:
		return nil, fmt.Errorf("connect to the keeper: %w", err)
	}
	return conn, nil
}

// socketName is the keeper's socket in its directory.
const socketName = "socket"

// longestSocket is how long the path of a socket may be (unix(7)), less a zero byte.
const longestSocket = 107

// socketPath is the path by which the socket can be reached, until release is called.
func socketPath(dir string) (path string, release func(), err error) {
	path = filepath.Join(dir, socketName)
	if len(path) <= longestSocket {
		return path, func() {}, nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return "", nil, fmt.Errorf("keeper's directory: %w", err)
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), socketName), func() { _ = d.Close() }, nil // only read
}
