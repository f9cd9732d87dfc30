package cli

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/tokens"
	"tandem.internal/controller/internal/view"
)

const (
	exitRefused     = command.ExitRefused
	exitUsage       = command.ExitUsage
	exitUnreachable = command.ExitUnreachable
	exitIncomplete  = command.ExitIncomplete
)

// bench is a controller's API on a real socket, and a program run against it.
type bench struct {
	t      testing.TB
	unit   *apitest.Rig
	dir    string
	socket string
	tcp    string // address
	tokens map[tokens.Role]string
	env    map[string]string
	stop   func()
	io     IO
	ctx    context.Context
}

// newBench serves a core.
func newBench(t testing.TB, u *apitest.Rig) *bench { return benchOf(t, u, u) }

// benchOf serves a core that stands before a rig.
func benchOf(t testing.TB, u *apitest.Rig, core api.Core) *bench {
	t.Helper()
	b := &bench{t: t, unit: u, dir: u.Dir, env: map[string]string{}, ctx: context.Background()}
	b.socket = filepath.Join(b.dir, "control.sock")
	l, err := api.ListenUnix(b.socket, 0o660)
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := api.ListenTCP("127.0.0.1:0", nil, false)
	if err != nil {
		t.Fatal(err)
	}
	keys, byRole, err := apitest.Keys(b.dir, func() time.Time { return apitest.Now })
	if err != nil {
		t.Fatal(err)
	}
	b.tokens = byRole
	b.tcp = "http://" + tcp.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	a := api.New(core, api.Config{Tokens: keys, URL: "https://gateway:8885",
		CA:         func() string { return "sha256:" + strings.Repeat("ab", 32) },
		WatchEvery: time.Millisecond})
	go func() { served <- a.Serve(ctx, []net.Listener{l, tcp}...) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(b.stop)
	b.env["TANDEM_SOCKET"] = b.socket
	now := apitest.Now
	b.io = IO{Now: func() time.Time { return now }, Zone: time.UTC, User: "alice"}
	return b
}

// surroundings are those of a run without any input or output.
func (b *bench) surroundings() IO {
	io := b.io
	io.In, io.Out, io.Err = strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{}
	io.Env = func(k string) (string, bool) { v, ok := b.env[k]; return v, ok }
	return io
}

// run runs the program once.
func (b *bench) run(stdin string, args ...string) (stdout, stderr string, exit int) {
	b.t.Helper()
	var out, errs bytes.Buffer
	io := b.surroundings()
	io.In, io.Out, io.Err = strings.NewReader(stdin), &out, &errs
	exit = Run(b.ctx, args, io)
	return out.String(), errs.String(), exit
}

// transcript runs the program and writes down what a person would see.
func (b *bench) transcript(stdin string, args ...string) string {
	b.t.Helper()
	stdout, stderr, exit := b.run(stdin, args...)
	var t strings.Builder
	fmt.Fprintf(&t, "$ tandem %s\n", strings.Join(args, " "))
	if stdin != "" {
		fmt.Fprintf(&t, "(standard input: %d bytes)\n", len(stdin))
	}
	t.WriteString(stdout)
	if stderr != "" {
		t.WriteString("--- standard error\n" + stderr)
	}
	fmt.Fprintf(&t, "--- exit status %d\n", exit)
	return secret.ReplaceAllString(strings.NewReplacer(b.dir, "DIR", b.tcp, "TCP", whoRuns(b.t),
		"uid:0(root)").Replace(t.String()), "tdo1.SECRET")
}

// whoRuns is how the journal names whoever runs this test.
func whoRuns(t testing.TB) string {
	t.Helper()
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return "uid:" + u.Uid + "(" + u.Username + ")"
}

// secret is what a token looks like; each run has others.
var secret = regexp.MustCompile(`tdo1\.[A-Za-z0-9_-]{48}`)

// write puts a file into the bench's directory.
func (b *bench) write(name, text string) string {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// newest is the newest entry of the journal.
func (b *bench) newest() view.Entry {
	b.t.Helper()
	all, err := b.unit.Entries(b.t.Context(), view.EntryFilter{Reverse: true, Limit: 1})
	if err != nil || len(all) != 1 {
		b.t.Fatal(all, err)
	}
	return all[0]
}
