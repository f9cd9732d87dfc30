package cli

import (
	"bytes"
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// steps is what the nodes do after an apply, one step for each line of progress that was seen. A
// nil step is a person who interrupts.
type steps []func(*apitest.Rig)

// paced is a writer that makes the next step happen whenever progress is written.
type paced struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	steps steps
	unit  *apitest.Rig
	doing sync.WaitGroup
	stop  func()
}

func (p *paced) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if bytes.Contains(b, []byte("/4 nodes")) && len(p.steps) > 0 {
		step := p.steps[0]
		p.steps = p.steps[1:]
		p.doing.Go(func() {
			if step == nil {
				p.stop()
				return
			}
			step(p.unit)
		})
	}
	return p.buf.Write(b)
}

// settle moves a node on with its newest configuration.
func settle(node string, state wire.State, why *wire.Error) func(*apitest.Rig) {
	return func(u *apitest.Rig) { u.Report(node, wire.KindConfig, state, why, nil) }
}

// waited runs apply --wait while the nodes take their steps.
func waited(t *testing.T, s steps, terminal bool, args ...string) string {
	t.Helper()
	b := newBench(t, apitest.StartSample(t))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w := &paced{steps: s, unit: b.unit, stop: cancel}
	var out bytes.Buffer
	io, ticks := b.io, 0
	io.Out, io.Err = &out, w
	io.Env = func(k string) (string, bool) { v, ok := b.env[k]; return v, ok }
	io.ErrTerminal, io.Width = terminal, 60
	io.Now = func() time.Time { ticks++; return apitest.Now.Add(time.Duration(ticks) * time.Second) }
	args = append([]string{"config", "apply", b.write("good.json", string(apitest.Document("2.1.0")))}, args...)
	exit := Run(ctx, args, io)
	w.doing.Wait()
	text := "--- standard output\n" + out.String() + "--- standard error\n" + w.buf.String() + "--- exit status " +
		string(rune('0'+exit)) + "\n"
	return strings.ReplaceAll(strings.NewReplacer("\r", "<return>", "\x1b[K", "<clear>\n").Replace(text), b.dir, "DIR")
}

func TestApplyWaits(t *testing.T) {
	tried := steps{settle("node-1", wire.StateTrying, nil), settle("node-2", wire.StateApplying, nil),
		settle("node-2", wire.StateTrying, nil), settle("node-3", wire.StateTrying, nil)}
	bad := wire.New(wire.CodeBadValue, "/priority", "at most 10 here")
	all := steps{settle("node-1", wire.StateInstalled, nil), settle("node-2", wire.StateApplying, nil),
		settle("node-2", wire.StateInstalled, nil), settle("node-3", wire.StateInstalled, nil)}
	refused := steps{settle("node-1", wire.StateInstalled, nil), settle("node-2", wire.StateRejected, bad),
		settle("node-3", wire.StateInstalled, nil)}
	stuck := steps{settle("node-1", wire.StateInstalled, nil), settle("node-2", wire.StateApplying, nil), nil}
	for _, c := range []struct {
		name     string
		s        steps
		terminal bool
		args     []string
	}{
		{"wait", all, false, []string{"--wait"}},
		{"wait-refused", refused, false, []string{"--wait"}},
		{"wait-stuck", stuck, false, []string{"--wait=1m"}},
		{"wait-try", tried, false, []string{"--try", "2m", "--wait"}},
		{"wait-terminal", all, true, []string{"--wait"}},
		{"wait-terminal-json", all, true, []string{"--wait", "--json"}},
		{"wait-stuck-json", stuck, true, []string{"--wait", "--json"}},
	} {
		t.Run(c.name, func(t *testing.T) { golden(t, c.name, waited(t, c.s, c.terminal, c.args...)) })
	}
}

// TestWaitIsOvertaken: another configuration takes the place of the one that is waited for.
func TestWaitIsOvertaken(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	var errs bytes.Buffer
	var out bytes.Buffer
	io := b.io
	io.Out, io.Err = &out, writer(func(text []byte) (int, error) {
		if bytes.Contains(text, []byte("/4 nodes")) {
			b.unit.Submit(view.Submission{Document: apitest.Document("3.0.0"), Who: apitest.Ann, Via: "http"})
		}
		return errs.Write(text)
	})
	io.Env = func(k string) (string, bool) { v, ok := b.env[k]; return v, ok }
	exit := Run(context.Background(),
		[]string{"config", "apply", b.write("good.json", string(apitest.Document("2.1.0"))), "--wait"}, io)
	if exit != exitIncomplete || !strings.Contains(errs.String(), "tandem: stale: accepted, but 3.0.0 took its place") {
		t.Errorf("status %d, %s", exit, errs.String())
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// TestWaitOutlivesTheController: it restarts in the middle, and the wait goes on.
func TestWaitOutlivesTheController(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	var errs bytes.Buffer
	restarted := make(chan func(), 1)
	var once sync.Once
	var restarts sync.WaitGroup
	io := b.io
	io.Out = &bytes.Buffer{}
	io.Err = writer(func(text []byte) (int, error) {
		if bytes.Contains(text, []byte("/4 nodes")) {
			once.Do(func() {
				restarts.Go(func() {
					b.stop()
					arrive(b.unit, "node-1", "node-2", "node-3", "node-4")
					l, err := api.ListenUnix(b.socket, 0o660)
					if err != nil {
						t.Error(err)
						return
					}
					ctx, cancel := context.WithCancel(context.Background())
					served := make(chan error, 1)
					a := api.New(b.unit, api.Config{})
					go func() { served <- a.Serve(ctx, []net.Listener{l}...) }()
					restarted <- func() {
						cancel()
						if err := <-served; err != nil {
							t.Error(err)
						}
					}
				})
			})
		}
		return errs.Write(text)
	})
	io.Env = func(k string) (string, bool) { v, ok := b.env[k]; return v, ok }
	if exit := Run(context.Background(),
		[]string{"config", "apply", b.write("good.json", string(apitest.Document("2.1.0"))), "--wait"}, io); exit != 0 {
		t.Errorf("status %d, %s", exit, errs.String())
	}
	restarts.Wait()
	(<-restarted)()
}

// TestWaitLosesTheController: it never comes back.
func TestWaitLosesTheController(t *testing.T) {
	restarting := wire.New(wire.CodeUnavailable, "", "restarting")
	b := answered(apitest.Failing(apitest.Config.Status, restarting),
		apitest.Failing(apitest.Config.Watch, restarting)).bench(t)
	_, stderr, exit := b.run("", "config", "apply", b.write("good.json", string(apitest.Document("2.1.0"))),
		"--wait=20ms")
	if exit != exitIncomplete || !strings.Contains(stderr, "timeout: accepted, but nothing was heard") {
		t.Errorf("status %d, %s", exit, stderr)
	}
}

// TestWaitWithoutBroker: the controller has lost its broker, and says so; the exit status is the documented one.
func TestWaitWithoutBroker(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	b.unit.Disconnect("nothing listens there")
	var out, errs bytes.Buffer
	io := b.io
	io.Out, io.Err = &out, &errs
	io.Env = func(k string) (string, bool) { v, ok := b.env[k]; return v, ok }
	exit := Run(context.Background(),
		[]string{"config", "apply", b.write("good.json", string(apitest.Document("2.1.0"))), "--wait=1s"}, io)
	if exit != exitIncomplete || !strings.Contains(errs.String(),
		"tandem: unavailable: accepted, but no node hears of it: the controller has no session with its broker: "+
			"nothing listens there") {
		t.Errorf("status %d, %s%s", exit, out.String(), errs.String())
	}
}
