package distribute_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/bindings"
	"tandem.internal/controller/internal/cli"
	"tandem.internal/controller/internal/distribute"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/kinds"
)

// toyDoors is a controller that knows the toys, with its API on a socket.
type toyDoors struct {
	*testing.T
	socket string
	http   http.Client
}

func openToyDoors(t *testing.T) *toyDoors {
	d := &toyDoors{T: t, socket: filepath.Join(t.TempDir(), "s")}
	l, err := api.ListenUnix(d.socket, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	a := api.New(bindings.Core{Core: distribute.StartToys(t)}, api.Config{WatchEvery: time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- a.Serve(ctx, l) }()
	d.http.Transport = &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", d.socket)
		}}
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return d
}

// asks makes a request; the answer has to have a status and some words.
func (d *toyDoors) asks(request, body string, status int, has string) {
	d.Helper()
	method, path, _ := strings.Cut(request, " ")
	r, err := http.NewRequestWithContext(d.Context(), method, "http://tandem"+path, strings.NewReader(body))
	if err != nil {
		d.Fatal(err)
	}
	w, err := d.http.Do(r)
	if err != nil {
		d.Fatal(err)
	}
	answer, err := io.ReadAll(w.Body)
	if err != nil || w.Body.Close() != nil || w.StatusCode != status || !strings.Contains(string(answer), has) {
		d.Errorf("%s: %d %s (%v), want %d %s", request, w.StatusCode, answer, err, status, has)
	}
}

// runs runs the program tandem; it has to end with a status and to say some words.
func (d *toyDoors) runs(args string, exit int, has ...string) {
	d.Helper()
	var out bytes.Buffer
	got := cli.Run(d.Context(), strings.Fields(args), cli.IO{
		In: strings.NewReader(""), Out: &out, Err: &out, Now: time.Now, Zone: time.UTC,
		Kinds: kind.Join(kinds.All(), distribute.ToySet()),
		Env: func(name string) (string, bool) {
			if name != "TANDEM_SOCKET" {
				return "", false
			}
			return d.socket, true
		},
	})
	for _, words := range has {
		if got != exit || !strings.Contains(out.String(), words) {
			d.Errorf("tandem %s: status %d, %s, want %d, %s", args, got, &out, exit, words)
		}
	}
}

func toyBox(version, toy string) string {
	return fmt.Sprintf(`{"version":%q,"toys":{"n1":%q}}`, version, toy)
}

// TestToyKindByHTTP: a kind that is added from its own files has routes; its documents are checked, applied, tried,
// shown, compared and rolled back.
func TestToyKindByHTTP(t *testing.T) {
	d := openToyDoors(t)
	d.asks("GET /v1/toys", "", 404, "no toy box is installed")
	d.asks("GET /v1/toys/status", "", 200, `{"state":"absent","version":""`)
	d.asks("POST /v1/toys?dryRun=1", toyBox("1.0.0", "car"), 200, `"state":"acceptable","version":"1.0.0"`)
	d.asks("GET /v1/toys/history", "", 200, `{"versions":[]}`)
	d.asks("POST /v1/toys", toyBox("1.0.0", "car"), 200, `"state":"accepted","version":"1.0.0"`)
	d.asks("POST /v1/toys", toyBox("0.9.0", "car"), 409, `"code":"wrong-state"`)
	d.asks("POST /v1/toys", "{", 400, `"state":"refused"`)
	d.asks("POST /v1/toys", "", 400, "the request body is the toy box, and it is empty")
	d.asks("POST /v1/toys?lenient=1", "{}", 400, "known here: mode, confirmWithin, dryRun, rollout, offline, force, id")
	d.asks("POST /v1/toys?mode=try&confirmWithin=PT1M", toyBox("1.1.0", "bus"), 200, `"deadline":`)
	d.asks("POST /v1/toys/confirm", "", 200, `"state":"accepted","version":"1.1.0"`)
	d.asks("POST /v1/toys/confirm", "", 404, "no toy box is on trial")
	d.asks("GET /v1/toys", "", 200, toyBox("1.1.0", "bus"))
	d.asks("GET /v1/toys?version=1.0.0", "", 200, toyBox("1.0.0", "car"))
	d.asks("GET /v1/toys/diff?from=1.0.0", "", 200, `{"from":"1.0.0","to":"1.1.0","changes":[`+
		`{"pointer":"/toys/n1","before":"car","after":"bus"},{"pointer":"/version","before":"1.0.0","after":"1.1.0"}]`)
	d.asks("POST /v1/toys/rollback", `{"version":"1.0.0","as":"1.2.0"}`, 200, `"state":"accepted","version":"1.2.0"`)
	d.asks("GET /v1/toys", "", 200, toyBox("1.2.0", "car"))
	d.asks("GET /v1/toys/status", "", 200, `{"state":"installed","version":"1.2.0"`)
	d.asks("GET /v1/toys/history", "", 200, `"version":"1.2.0","state":"accepted"`)
	d.asks("POST /v1/toys/restore", "", 404, "nothing at")
	many := strings.Builder{}
	for i := range 10_000 {
		fmt.Fprintf(&many, `,"m%04d":"car"`, i)
	}
	d.asks("POST /v1/toys", `{"version":"2.0.0","toys":{"n1":"car"`+many.String()+"}}", 200, `"version":"2.0.0"`)
	d.asks("GET /v1/toys/diff?from=1.2.0", "", 200, `],"omitted":1}`)
	d.asks("GET /v1/tints", "", 404, "nothing at") // it is changed piece by piece
}

// TestToyKindByCommand: it has a command with every verb.
func TestToyKindByCommand(t *testing.T) {
	d := openToyDoors(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	car, bus, bad := write("car", toyBox("1.0.0", "car")), write("bus", toyBox("1.1.0", "bus")), write("bad", "{")
	d.runs("toys --help", 0, "Check, apply and look at the toy box", "apply", "check", "confirm", "diff", "history",
		"rollback", "show", "status", "wait")
	d.runs("toys wait", 1, "no toy box was accepted yet")
	d.runs("toys check --offline "+car, 0, "is well formed")
	d.runs("toys check --offline "+bad, 2, bad)
	d.runs("toys check "+car, 0, "1.0.0 would be accepted")
	d.runs("toys apply "+car+" --wait", 0, "accepted 1.0.0", "no node is known yet")
	d.runs("toys apply "+car, 1, "already-exists")
	d.runs("toys apply "+bus+" --try 1m", 0, "keep it with: tandem toys confirm")
	d.runs("toys confirm", 0, "confirmed 1.1.0")
	d.runs("toys status", 0, "installed", "1.1.0")
	d.runs("toys status --json", 0, `{"state":"installed","version":"1.1.0"`)
	d.runs("toys show", 0, toyBox("1.1.0", "bus"))
	d.runs("toys show --version 1.0.0", 0, toyBox("1.0.0", "car"))
	d.runs("toys show --version 1.0", 1, "did you mean 1.0.0")
	d.runs("toys diff 1.0.0 1.1.0", 0, `~ /toys/n1: "car" -> "bus"`)
	d.runs("toys diff 1.1.0 "+car, 0, `~ /toys/n1: "bus" -> "car"`)
	d.runs("toys diff "+car+" "+bus, 0, `~ /toys/n1: "car" -> "bus"`)
	d.runs("toys rollback 1.0.0 --as 1.2.0 --wait", 0, "accepted 1.2.0")
	d.runs("toys show", 0, toyBox("1.2.0", "car"))
	d.runs("toys history", 0, "1.2.0", "rollback")
	d.runs("tints", 2, "tints") // it is changed piece by piece
}
