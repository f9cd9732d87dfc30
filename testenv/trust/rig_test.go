package trust

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	controller "tandem.internal/controller/app"
	node "tandem.internal/nodeagent/app"
	"tandem.internal/shared/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds waits that only a failing test waits out.
const patience = 20 * time.Second

// rig is a unit whose parts a test starts and stops.
type rig struct {
	t    *testing.T
	dir  string
	logs *observer.ObservedLogs
	log  *zap.Logger

	mu    sync.Mutex
	shift time.Duration // of the clock

	app  *controller.App
	stop func()
}

func newRig(t *testing.T) *rig {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	r := &rig{t: t, dir: t.TempDir(), logs: logs, log: zap.New(core)}
	r.start(nil)
	t.Cleanup(func() { r.stop() })
	return r
}

func (r *rig) now() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Add(r.shift)
}

// pass sets the clock forward; timers do not notice.
func (r *rig) pass(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shift += d
}

// config is the controller's.
func (r *rig) config() controller.Config {
	return controller.Config{Unit: "u1", StateDir: filepath.Join(r.dir, "controller"), ListenTLS: "127.0.0.1:0", Advertise: []string{"127.0.0.1"},
		SubscribeQoS: 1}
}

// start starts the controller; it stops when the test ends, or by r.stop.
func (r *rig) start(change func(*controller.Config)) {
	r.t.Helper()
	cfg := r.config()
	if change != nil {
		change(&cfg)
	}
	app, err := controller.New(cfg, controller.Deps{Log: r.log, Now: r.now, NoAPI: true})
	if err != nil {
		r.t.Fatal(err)
	}
	r.app = app
	r.stop = r.run("controller", app.Run)
}

// run runs a part; the function that it returns ends it, the first time.
func (r *rig) run(what string, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				r.t.Errorf("%s: %v", what, err)
			}
		case <-time.After(patience):
			r.t.Errorf("%s does not stop", what)
		}
	})
}

// enroll makes a token for a node.
func (r *rig) enroll(name string) (token string) {
	r.t.Helper()
	e, err := r.app.Unit().Enroll(r.t.Context(), name, 0, "ann")
	if err != nil {
		r.t.Fatal(err)
	}
	if e.Controller != r.app.JoinURL() || e.Node != name || e.CA == "" {
		r.t.Errorf("%+v", e)
	}
	return e.Token
}

// join has a machine, which is a directory, join with a token.
func (r *rig) join(machine, token string) error {
	_, err := node.Join(r.t.Context(), node.JoinConfig{Controller: r.app.JoinURL(), Token: token, StateDir: filepath.Join(r.dir, machine)}, node.JoinDeps{Now: r.now})
	return err
}

// joined has a machine of that name join.
func (r *rig) joined(name string) {
	r.t.Helper()
	if err := r.join(name, r.enroll(name)); err != nil {
		r.t.Fatal(err)
	}
}

// agent starts the agent of a machine that has joined. The broker's and the door's ports change with
// each start of the controller.
func (r *rig) agent(machine string) (stop func()) {
	r.t.Helper()
	cfg := node.NewConfig("", "", "mainType", filepath.Join(r.dir, machine))
	cfg.Broker, cfg.Controller = "tls://"+r.app.TLSAddr().String(), r.app.JoinURL()
	a, err := node.New(cfg, node.Deps{Log: r.log, Now: r.now, Capacity: func(*wire.NodeInfo) error { return nil }})
	if err != nil {
		r.t.Fatal(err)
	}
	stop = r.run(machine, a.Run)
	r.t.Cleanup(stop)
	return stop
}

// until waits for a condition: "" or why it is not so yet.
func (r *rig) until(what string, cond func() string) {
	r.t.Helper()
	why := ""
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if why = cond(); why == "" {
			return
		}
	}
	r.t.Fatalf("%s: %s", what, why)
}

func (r *rig) view(name string) controller.Node {
	r.t.Helper()
	n, err := r.app.Unit().Node(r.t.Context(), name)
	if err != nil && !errors.Is(err, &wire.Error{Code: wire.CodeNotFound}) {
		r.t.Fatal(err)
	}
	return n
}

func (r *rig) online(name string, want bool) {
	r.t.Helper()
	r.until(name, func() string {
		if n := r.view(name); n.Online != want {
			return "online: " + map[bool]string{true: "yes", false: "no"}[n.Online]
		}
		return ""
	})
}

// entries counts the journal's entries of a type.
func (r *rig) entries(typ string) []controller.Entry {
	r.t.Helper()
	all, err := r.app.Unit().Entries(r.t.Context(), controller.EntryFilter{Types: []string{typ}})
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

// secretFree looks for a token in everything that the unit has written.
func (r *rig) secretFree(tokens ...string) {
	r.t.Helper()
	err := filepath.WalkDir(r.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		for _, t := range tokens {
			if strings.Contains(string(data), t) {
				r.t.Errorf("%s has a token in it", path)
			}
		}
		return err
	})
	if err != nil {
		r.t.Error(err)
	}
	for _, e := range r.logs.All() {
		for _, f := range e.Context {
			for _, t := range tokens {
				if strings.Contains(f.String, t) || strings.Contains(e.Message, t) {
					r.t.Errorf("the log has a token in it: %s", e.Message)
				}
			}
		}
	}
}
