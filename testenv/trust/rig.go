package trust

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	controller "tandem.internal/controller/app"
	node "tandem.internal/nodeagent/app"
	"tandem.internal/shared/wire"
)

// patience bounds waits that only a failing test waits out.
const patience = 45 * time.Second

// Rig is a unit whose parts a test starts and stops.
type Rig struct {
	t    *testing.T
	Dir  string // the controller's state is in controller, each machine's in its own name
	Logs *observer.ObservedLogs
	Log  *zap.Logger

	follow func() time.Time // when agents renew with a new CA

	mu    sync.Mutex
	shift time.Duration // of the clock

	// Deps has the last word on what the next controller is given; nil: nothing to say.
	Deps func(*controller.Deps)

	App  *controller.App
	Stop func() // ends the controller
}

// NewRig is a unit whose controller runs; it ends with the test.
func NewRig(t *testing.T) *Rig {
	t.Helper()
	r := Idle(t)
	r.Start(nil)
	return r
}

// Idle is a unit whose controller has never been started.
func Idle(t *testing.T) *Rig {
	core, logs := observer.New(zap.DebugLevel)
	r := &Rig{t: t, Dir: t.TempDir(), Logs: logs, Log: zap.New(core), Stop: func() {},
		follow: time.Now}
	t.Cleanup(func() { r.Stop() })
	return r
}

// Now is the time of the unit.
func (r *Rig) Now() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Add(r.shift)
}

// Pass sets the clock forward; timers do not notice.
func (r *Rig) Pass(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shift += d
}

// Config is the controller's.
func (r *Rig) Config() controller.Config {
	return controller.Config{Unit: "u1", StateDir: filepath.Join(r.Dir, "controller"), ListenTLS: "127.0.0.1:0",
		Advertise:    []string{"127.0.0.1"},
		SubscribeQoS: 1}
}

// Start starts the controller; it stops when the test ends, or by r.Stop.
func (r *Rig) Start(change func(*controller.Config)) {
	r.t.Helper()
	cfg := r.Config()
	if change != nil {
		change(&cfg)
	}
	deps := controller.Deps{Log: r.Log, Now: r.Now, NoAPI: cfg.Socket == "" && cfg.HTTP == ""}
	if r.Deps != nil {
		r.Deps(&deps)
	}
	app, err := controller.New(cfg, deps)
	if err != nil {
		r.t.Fatal(err)
	}
	r.App = app
	r.Stop = r.Run("controller", app.Run)
}

// Run runs a part; the function that it returns ends it, the first time.
func (r *Rig) Run(what string, run func(context.Context) error) (stop func()) {
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

// Enroll makes a token for a node.
func (r *Rig) Enroll(name string) (token string) {
	r.t.Helper()
	e, err := r.App.Unit().Enroll(controller.As(r.t.Context(), "ann"), controller.EnrollIn{
		NodeIn: controller.NodeIn{Node: name},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	if e.Controller != r.App.JoinURL() || e.Node != name || e.CA == "" {
		r.t.Errorf("%+v", e)
	}
	return e.Token
}

// Join has a machine, which is a directory, join with a token.
func (r *Rig) Join(machine, token string) error {
	_, err := node.Join(r.t.Context(),
		node.JoinConfig{Controller: r.App.JoinURL(), Token: token, StateDir: filepath.Join(r.Dir, machine)},
		node.JoinDeps{Now: r.Now})
	return err
}

// Joined has a machine of that name join.
func (r *Rig) Joined(name string) {
	r.t.Helper()
	if err := r.Join(name, r.Enroll(name)); err != nil {
		r.t.Fatal(err)
	}
}

// Agent starts the agent of a machine that has joined. The broker's and the door's ports change with
// each start of the controller; at a broker of the site the agent goes where it was told when it joined.
func (r *Rig) Agent(machine string, change ...func(*node.Config)) (stop func()) {
	r.t.Helper()
	return r.AgentIn(machine, nil, change...)
}

// AgentIn is Agent in an environment, in the form NAME=value.
func (r *Rig) AgentIn(machine string, env []string, change ...func(*node.Config)) (stop func()) {
	r.t.Helper()
	cfg := node.NewConfig("", "", "mainType", filepath.Join(r.Dir, machine))
	cfg.Controller = r.App.JoinURL()
	if at := r.App.TLSAddr(); at != nil {
		cfg.Broker = "tls://" + at.String()
	}
	for _, f := range change {
		f(&cfg)
	}
	lookup := func(name string) (string, bool) {
		for _, v := range env {
			if value, ok := strings.CutPrefix(v, name+"="); ok {
				return value, true
			}
		}
		return "", false
	}
	a, err := node.New(cfg, node.Deps{Log: r.Log, Now: r.Now, Capacity: func(*wire.NodeInfo) error { return nil },
		LookupEnv: lookup, Follow: r.follow})
	if err != nil {
		r.t.Fatal(err)
	}
	stop = r.Run(machine, a.Run)
	r.t.Cleanup(stop)
	return stop
}

// Until waits for a condition: "" or why it is not so yet.
func (r *Rig) Until(what string, cond func() string) {
	r.t.Helper()
	why := ""
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if why = cond(); why == "" {
			return
		}
	}
	r.t.Fatalf("%s: %s", what, why)
}

// View is what the controller knows of a node.
func (r *Rig) View(name string) controller.Node {
	r.t.Helper()
	n, err := r.App.Unit().Node(r.t.Context(), controller.NodeIn{Node: name})
	if err != nil && !errors.Is(err, &wire.Error{Code: wire.CodeNotFound}) {
		r.t.Fatal(err)
	}
	return n
}

// Online waits until the controller counts a node as online, or as offline.
func (r *Rig) Online(name string, want bool) {
	r.t.Helper()
	r.Until(name, func() string {
		if n := r.View(name); n.Online != want {
			return "online: " + map[bool]string{true: "yes", false: "no"}[n.Online]
		}
		return ""
	})
}

// Entries counts the journal's entries of a type.
func (r *Rig) Entries(typ string) []controller.Entry {
	r.t.Helper()
	all, err := r.App.Unit().Entries(r.t.Context(), controller.EntryFilter{Types: []string{typ}})
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

// SecretFree looks for a token in everything that the unit has written.
func (r *Rig) SecretFree(tokens ...string) {
	r.t.Helper()
	err := filepath.WalkDir(r.Dir, func(path string, d os.DirEntry, err error) error {
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
	for _, e := range r.Logs.All() {
		for _, f := range e.Context {
			for _, t := range tokens {
				if strings.Contains(f.String, t) || strings.Contains(e.Message, t) {
					r.t.Errorf("the log has a token in it: %s", e.Message)
				}
			}
		}
	}
}

// Credentials reads what a machine has; a thief would.
func (r *Rig) Credentials(machine string) (tls.Certificate, *x509.CertPool) {
	r.t.Helper()
	data, err := os.ReadFile(filepath.Join(r.Dir, machine, node.IdentityDir, "identity.json"))
	if err != nil {
		r.t.Fatal(err)
	}
	var f struct{ Key, Certificate, CA []byte }
	if err := json.Unmarshal(data, &f); err != nil {
		r.t.Fatal(err)
	}
	key, err := x509.ParsePKCS8PrivateKey(f.Key)
	if err != nil {
		r.t.Fatal(err)
	}
	ca, err := x509.ParseCertificate(f.CA)
	if err != nil {
		r.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	return tls.Certificate{Certificate: [][]byte{f.Certificate}, PrivateKey: key}, pool
}
