package browser

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/go-json-experiment/json"

	"tandem.internal/controller/app"
	"tandem.internal/shared/link"
	"tandem.internal/shared/link/linktest"
	"tandem.internal/testenv/fleet"
)

var (
	ship     = flag.Bool("ship", false, "10,000 nodes, and the times")
	pictures = flag.String("pictures", "", "directory for pictures of the pages")
)

// patience is how long anything may take on a machine that is busy with other things.
const patience = 60 * time.Second

// rig is a unit, and how to look at it.
type rig struct {
	t     *testing.T
	app   *app.App
	nodes *fleet.Fleet
	asked asked

	refuses atomic.Bool // some nodes refuse version 1.1.0
	url     string
	socket  string
	ctx     context.Context
}

// manyNodes and more are in a process of their own.
const manyNodes = 10_000

// newRig runs a controller and plays nodes of the types press, mill and robot, which are in step with version 1.0.0.
// change has the last word on the controller's settings.
func newRig(t *testing.T, nodes int, change ...func(*app.Config)) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "unit-") // short: a socket's path has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	pipe, deps, large := linktest.NewPipe(), app.Deps{}, nodes >= manyNodes
	if !large {
		l, err := pipe.Listen()
		if err != nil {
			t.Fatal(err)
		}
		deps.Listeners = []net.Listener{l}
	}
	r := &rig{t: t, socket: filepath.Join(dir, "control.sock"), ctx: ctx}
	cfg := app.Config{Unit: "plant-7", StateDir: filepath.Join(dir, "state"), Listen: "127.0.0.1:0",
		Socket: r.socket, HTTP: "127.0.0.1:0", CheckTimeout: 10 * time.Second, ReportJitter: 2 * time.Second}
	for _, c := range change {
		c(&cfg)
	}
	r.app, err = app.New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	r.url = r.app.HTTPURL()
	running, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.app.Run(running) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if large {
		r.apart(nodes)
		r.apply("1.0.0", 1)
		return r
	}
	of := fleetOf(nodes, pipe.Dial)
	of.Answer, of.Refuse = r.asked.answer, r.refuse
	r.nodes = fleet.New(of)
	t.Cleanup(r.nodes.Close)
	r.nodes.Start()
	if err := r.nodes.AwaitOnline(ctx, nodes); err != nil {
		t.Fatal(err)
	}
	r.apply("1.0.0", 1)
	return r
}

// fleetOf are nodes of the rig's unit and types.
func fleetOf(nodes int, dial func(context.Context) (net.Conn, error)) fleet.Config {
	return fleet.Config{Unit: "plant-7", Nodes: nodes, Types: []string{"press", "press", "mill", "robot"}, Dial: dial,
		Backoff: link.Backoff{Min: 250 * time.Millisecond, Max: 5 * time.Second}}
}

// document is a unit configuration for the types of the rig.
func document(version string, mark int) []byte {
	return fmt.Appendf(nil, `{"formatVersion":"7","version":%q,"nodes":[
 {"nodeGroupSubject":{"codename":"press"},"labels":["main"],"priority":%d,"alertRules":{
  "cpu":{"minTimeout":"PT30S","minThreshold":0.5,"maxThreshold":0.8},"ram":{"minThreshold":0.75,"maxThreshold":0.9},
  "partitions":[{"name":"services","minThreshold":0.85,"maxThreshold":0.95}],
  "download":{"minThreshold":1500000,"maxThreshold":2500000}}},
 {"nodeGroupSubject":{"codename":"mill"},"labels":["second"],"priority":%d}]}`, version, mark, mark+1)
}

// apply submits a configuration and waits until every node runs it.
func (r *rig) apply(version string, mark int) {
	r.t.Helper()
	res, err := r.app.Unit().Submit(r.ctx, app.Submission{Kind: "config", Document: document(version, mark),
		Who: "uid:1000(ann)", Via: "cli"})
	if err != nil || res.State != "accepted" {
		r.t.Fatalf("%+v %v", res, err)
	}
	for {
		changed := r.app.Unit().Changed()
		s, err := r.app.Unit().SourceStatus(r.ctx, "config")
		if err != nil {
			r.t.Fatal(err)
		}
		if s.Version == version && s.Progress.Installed == s.Progress.Nodes {
			return
		}
		select {
		case <-changed:
		case <-r.ctx.Done():
			r.t.Fatalf("%+v", s.Progress)
		}
	}
}

// post asks the controller by its socket for something.
func (r *rig) post(path string, body any) []byte {
	r.t.Helper()
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			r.t.Fatal(err)
		}
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", r.socket)
		}}}
	req, err := http.NewRequestWithContext(r.ctx, http.MethodPost, "http://tandem"+path, bytes.NewReader(text))
	if err != nil {
		r.t.Fatal(err)
	}
	res, err := c.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }() // reading has told what is wrong
	var b bytes.Buffer
	if _, err := b.ReadFrom(res.Body); err != nil || res.StatusCode/100 != 2 {
		r.t.Fatalf("%s: %d %s %v", path, res.StatusCode, b.Bytes(), err)
	}
	return b.Bytes()
}

// link is an address that logs in once, with a role.
func (r *rig) link(role string) string {
	r.t.Helper()
	var g struct {
		Token string `json:"token"`
	}
	name := fmt.Sprintf("t%d", time.Now().UnixNano())
	if err := json.Unmarshal(r.post("/v1/tokens", map[string]any{"name": name, "role": role, "ttl": "PT1H",
		"once": true, "within": "PT5M"}), &g); err != nil {
		r.t.Fatal(err)
	}
	return r.url + "/#once=" + g.Token
}

// chromium starts the browser, and collects what pages complain of: nothing may.
func chromium(t *testing.T) (ctx context.Context, tab func() context.Context) {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("SKIPPED: chromium is not installed (apt-get install chromium)")
	}
	options := slices.Clone(chromedp.DefaultExecAllocatorOptions[:])
	options = append(options, chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.WindowSize(1280, 900))
	alloc, end := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(end)
	ctx, cancel := chromedp.NewContext(alloc, chromedp.WithListener(complaints(t)))
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	return ctx, func() context.Context {
		other, cancel := chromedp.NewContext(ctx, chromedp.WithListener(complaints(t)))
		t.Cleanup(cancel)
		if err := chromedp.Do(other); err != nil {
			t.Fatal(err)
		}
		return other
	}
}

// complaints fails the test for whatever a page's console has: errors, refused markup, what the policy forbids.
func complaints(t *testing.T) func(any) {
	return func(ev any) {
		switch e := ev.(type) {
		case *runtime.EventExceptionThrown:
			t.Errorf("the page has failed: %s", e.ExceptionDetails.Text+" "+exception(e.ExceptionDetails))
		case *runtime.EventConsoleAPICalled:
			t.Errorf("the page says something: %+v", e)
		}
	}
}

// do runs actions in a tab.
func do(t *testing.T, ctx context.Context, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := chromedp.Do(limited, actions...); err != nil {
		t.Fatalf("%v\n%s", err, visible(ctx))
	}
}

// eval is the value of an expression in a tab.
func eval[T any](t *testing.T, ctx context.Context, expression string) T {
	t.Helper()
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	v, err := chromedp.Run(limited, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%s: %v\n%s", expression, err, visible(ctx))
	}
	return v
}

func visible(ctx context.Context) string {
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	text, err := chromedp.Run(limited, chromedp.Evaluate[string](`document.body.innerText.slice(0, 3000)`))
	if err != nil {
		return err.Error()
	}
	return text
}

// until waits until an expression is true in a tab; the page is asked once a frame.
func until(t *testing.T, ctx context.Context, expression string) {
	t.Helper()
	if !eval[bool](t, ctx, fmt.Sprintf(`new Promise((done) => {
  const end = performance.now() + %d;
  const look = () => {
    let v = false;
    try { v = Boolean(%s); } catch { v = false; }
    if (v || performance.now() > end) done(v); else setTimeout(look, 16);
  };
  look();
})`, (patience-10*time.Second).Milliseconds(), expression)) {
		t.Fatalf("never true: %s\n%s", expression, visible(ctx))
	}
}

// has waits until the page shows some texts.
func has(t *testing.T, ctx context.Context, texts ...string) {
	t.Helper()
	for _, text := range texts {
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		until(t, ctx, `document.body.innerText.includes(`+string(quoted)+`)`)
	}
}

// media sets the colours that the user prefers, "light" or "dark", and whether they are forced: "active" or "none".
func media(t *testing.T, ctx context.Context, scheme, forced string) {
	t.Helper()
	do(t, ctx, func(ctx context.Context, tab *chromedp.Target) (chromedp.Void, error) {
		return cdp.Call(ctx, tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme},
				{Name: "forced-colors", Value: forced}}})
	})
}

// picture keeps what is seen, if somebody wants to look at it.
func picture(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	if *pictures == "" {
		return
	}
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(*pictures, name+".png"), png, 0o644)
	}
	if err != nil {
		t.Error(err)
	}
}

func exception(d *runtime.ExceptionDetails) string {
	if d.Exception == nil {
		return ""
	}
	return d.Exception.Description
}
