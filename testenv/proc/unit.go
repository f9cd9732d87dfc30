package proc

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	controller "tandem.internal/controller/app"
	"tandem.internal/shared/wire"
)

var bin struct {
	dir string
	err error
}

// Main builds the programs, runs the tests and removes the programs again; a test package's
// TestMain exits with what it returns.
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "tandem-proc-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for _, module := range []string{"controller", "nodeagent", "nodeagent/key", "broker"} {
		build := exec.Command("go", "build", "-buildvcs=false", "-o", dir+"/", "./cmd/...")
		build.Dir = filepath.Join("..", "..", module)
		build.Env = append(os.Environ(), "CGO_ENABLED=0") // as they are shipped
		if out, err := build.CombinedOutput(); err != nil {
			bin.err = fmt.Errorf("go build in %s: %w\n%s", module, err, out)
		}
	}
	bin.dir = dir
	return m.Run()
}

// Binary is the path of one of the programs.
func Binary(t testing.TB, name string) string {
	t.Helper()
	if bin.err != nil {
		t.Fatal(bin.err)
	}
	return filepath.Join(bin.dir, name)
}

var ports struct {
	sync.Mutex
	given map[int]bool
}

// Port is a free TCP port on loopback, and the one after it is free as well. They lie outside the
// range from which the system takes ports for outgoing connections, and are given to nobody else in
// this program.
func Port(t testing.TB) int {
	t.Helper()
	ports.Lock()
	defer ports.Unlock()
	if ports.given == nil {
		ports.given = map[int]bool{}
	}
	for range 1000 {
		port := 18000 + 3*rand.IntN(4600)
		if ports.given[port] {
			continue
		}
		if free(t, port) && free(t, port+1) && free(t, port+2) {
			ports.given[port] = true
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

func free(t testing.TB, port int) bool {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return false
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return true
}

// Unit is a unit of real processes: one controller and nodes, each started by the test.
type Unit struct {
	Dir        string
	Port       int // of the controller's broker
	Socket     string
	Controller *Process
	Nodes      map[string]*Process

	t    testing.TB
	http *http.Client
}

// NewUnit prepares a unit; nothing runs yet.
func NewUnit(t testing.TB) *Unit {
	t.Helper()
	dir, err := os.MkdirTemp("", "unit-") // short: a socket's path has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	u := &Unit{Dir: dir, Port: Port(t), Socket: filepath.Join(dir, "control.sock"), Nodes: map[string]*Process{}, t: t}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", u.Socket)
	}
	transport := &http.Transport{DialContext: dial, DisableKeepAlives: true}
	u.http = &http.Client{Transport: transport, Timeout: Patience}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return u
}

// StateDir is where the controller or a node keeps its state.
func (u *Unit) StateDir(name string) string { return filepath.Join(u.Dir, name) }

// ControllerArgs is the controller's command line.
func (u *Unit) ControllerArgs(flags ...string) []string {
	u.t.Helper()
	return append([]string{Binary(u.t, "tandem-controller"), "--unit", "u1", "--state-dir", u.StateDir("controller"),
		"--listen", "127.0.0.1:" + strconv.Itoa(u.Port), "--socket", u.Socket}, flags...)
}

// StartController starts the controller and waits until it takes orders.
func (u *Unit) StartController(flags ...string) {
	u.t.Helper()
	u.Controller = Start(u.t, "controller", nil, u.ControllerArgs(flags...)...)
	u.AwaitReady()
}

// AwaitReady waits until the controller takes orders.
func (u *Unit) AwaitReady() {
	u.t.Helper()
	Until(u.t, "the controller is ready", func() string {
		if !u.Controller.Alive() {
			u.t.Fatal("the controller has ended")
		}
		status, _, err := u.request(http.MethodGet, "/readyz", nil)
		if err != nil {
			return err.Error()
		}
		if status != http.StatusOK {
			return "status " + strconv.Itoa(status)
		}
		return ""
	})
}

// NodeArgs is a node's command line.
func (u *Unit) NodeArgs(name, nodeType string, flags ...string) []string {
	u.t.Helper()
	return append([]string{Binary(u.t, "tandem-node"), "--unit", "u1", "--node", name, "--type", nodeType,
		"--broker", "tcp://127.0.0.1:" + strconv.Itoa(u.Port), "--state-dir", u.StateDir(name)}, flags...)
}

// StartNode starts a node and does not wait for it.
func (u *Unit) StartNode(name, nodeType string, flags ...string) *Process {
	u.t.Helper()
	u.Nodes[name] = Start(u.t, name, nil, u.NodeArgs(name, nodeType, flags...)...)
	return u.Nodes[name]
}

// Tandem runs the operator's command to its end.
func (u *Unit) Tandem(args ...string) Output {
	u.t.Helper()
	return Run(u.t, u.Dir, []string{"TANDEM_SOCKET=" + u.Socket}, append([]string{Binary(u.t, "tandem")}, args...)...)
}

// Verify runs tandem-controller on the file of a journal.
func (u *Unit) Verify(file string) Output {
	u.t.Helper()
	return Run(u.t, u.Dir, nil, Binary(u.t, "tandem-controller"), "journal", "verify", file)
}

// request makes an HTTP request of the controller.
func (u *Unit) request(method, path string, body []byte) (status int, answer []byte, err error) {
	r, err := http.NewRequest(method, "http://tandem"+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	res, err := u.http.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }() // whatever was wrong with it, reading has told
	answer, err = io.ReadAll(res.Body)
	return res.StatusCode, answer, err
}

// Get asks the controller for something.
func Get[T any](u *Unit, path string) (v T, err error) {
	status, answer, err := u.request(http.MethodGet, path, nil)
	if err != nil {
		return v, err
	}
	if status != http.StatusOK {
		return v, fmt.Errorf("GET %s: status %d: %s", path, status, answer)
	}
	return v, json.Unmarshal(answer, &v)
}

// Submit submits a unit configuration. An error means that the verdict is not known.
func (u *Unit) Submit(document []byte, query string) (res controller.Result, err error) {
	status, answer, err := u.request(http.MethodPost, "/v1/config"+query, document)
	if err != nil {
		return res, err
	}
	if status != http.StatusOK && status != http.StatusConflict {
		return res, fmt.Errorf("status %d: %s", status, answer)
	}
	return res, json.Unmarshal(answer, &res)
}

// AwaitVersion waits until every one of the nodes is online and runs a version, and has it in its
// config.json, mode 0600.
func (u *Unit) AwaitVersion(version string, nodes ...string) {
	u.t.Helper()
	for _, name := range nodes {
		Until(u.t, name+" runs "+version, func() string {
			n, err := Get[controller.Node](u, "/v1/nodes/"+name)
			if err != nil {
				return err.Error()
			}
			d := n.Documents[wire.KindConfig]
			switch {
			case !n.Online:
				return "it is offline"
			case d.Running == nil || d.Running.Version != version || !n.InSync:
				return fmt.Sprintf("it runs %v, last tried %v", d.Running, d.Last)
			}
			return ""
		})
		u.CheckFile(name, version)
	}
}

// CheckFile checks that a node's config.json is of a version and for the node alone.
func (u *Unit) CheckFile(name, version string) {
	u.t.Helper()
	path := filepath.Join(u.StateDir(name), "config.json")
	info, err := os.Stat(path)
	if err != nil {
		u.t.Error(err)
		return
	}
	if info.Mode().Perm() != 0o600 {
		u.t.Errorf("%s has mode %v, not 0600", path, info.Mode().Perm())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		u.t.Error(err)
	} else if !strings.Contains(string(data), `"version":"`+version+`"`) {
		u.t.Errorf("%s is not of version %s: %s", path, version, data)
	}
}

// AwaitOnline waits until the controller counts a node as online, or not.
func (u *Unit) AwaitOnline(name string, online bool) {
	u.t.Helper()
	Until(u.t, fmt.Sprintf("%s is online: %v", name, online), func() string {
		n, err := Get[controller.Node](u, "/v1/nodes/"+name)
		if err != nil {
			return err.Error()
		}
		if n.Online != online {
			return fmt.Sprintf("online is %v", n.Online)
		}
		return ""
	})
}

// Document is a unit configuration for nodes of the types main and second; mark lands in it, so
// that documents differ.
func Document(version string, mark int) []byte {
	return fmt.Appendf(nil, `{"formatVersion":"7","version":%q,"nodes":[
 {"nodeGroupSubject":{"codename":"main"},"labels":["main"],"priority":%d},
 {"nodeGroupSubject":{"codename":"second"},"labels":["second"],"priority":%d}]}`, version, mark, mark+1)
}

// Seed is what randomness in this run grows from: that of the variable TANDEM_TEST_SEED, else a new
// one; it is printed.
func Seed(t testing.TB) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("TANDEM_TEST_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("TANDEM_TEST_SEED: %v", err)
		}
	}
	t.Logf("TANDEM_TEST_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, seed))
}
