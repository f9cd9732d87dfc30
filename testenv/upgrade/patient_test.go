package upgrade

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	controller "tandem.internal/controller/app"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/proc"
)

const (
	goodVersion = "2.0.0" // the agent as it is
	badVersion  = "3.0.0" // one with a fault, see testdata/badnode
)

// TestMain lets all tests wait at once: they need next to no processor.
func TestMain(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", "16"); err != nil {
			panic(err)
		}
	}
	os.Exit(proc.Main(m))
}

var built struct {
	sync.Once
	err error
}

// build builds what nodes are upgraded to.
func build(t *testing.T) {
	t.Helper()
	built.Do(func() { built.err = buildIn(filepath.Dir(proc.Binary(t, "tandem-node"))) })
	if built.err != nil {
		t.Fatal(built.err)
	}
}

func buildIn(dir string) error {
	for version, what := range map[string][2]string{goodVersion: {"../../nodeagent", "./cmd/tandem-node"},
		badVersion: {".", "./testdata/badnode"}} {
		build := exec.Command("go", "build", "-buildvcs=false", "-ldflags",
			"-X tandem.internal/shared/settings.Version="+version,
			"-o", filepath.Join(dir, "tandem-node-"+version), what[1])
		build.Dir = what[0]
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("go build %s: %w\n%s", what[1], err, out)
		}
	}
	return nil
}

// patient is a unit with the node n1, which a service manager keeps running through the launcher, and
// what must not change whatever becomes of its upgrades.
type patient struct {
	*proc.Unit
	t       *testing.T
	node    *proc.Service
	seen    uint64 // newest event that a test has waited for
	config  string // config.json
	desired wire.DocRef
	running wire.DocRef
}

// newPatient starts a unit whose node runs the installed agent and configuration 1.0.0. It judges an
// upgrade within the shortest times that there are.
func newPatient(t *testing.T, env []string, settings []string, flags ...string) *patient {
	t.Helper()
	build(t)
	u := proc.NewUnit(t)
	u.StartController("--report-jitter", "100ms")
	args := append(u.NodeArgs("n1", "main", flags...)[1:], "--sample-period", "2s")
	launch := append([]string{proc.Binary(t, "tandem-node"), "launch", "--state-dir", u.StateDir("n1"), "--"}, args...)
	p := &patient{Unit: u, t: t, node: proc.StartService(t, u.Dir, env, launch...)}
	u.AwaitOnline("n1", true)
	if res, err := u.Submit(proc.Document("1.0.0", 1), ""); err != nil || res.State != "accepted" {
		t.Fatalf("%+v %v", res, err)
	}
	u.AwaitVersion("1.0.0", "n1")
	has(t, u.Tandem(append([]string{"health", "set", "--node", "n1", "--test", "30s", "--watchdog", "10s"},
		settings...)...), 0, "set for n1", "")
	proc.Until(t, "the node has its settings", func() string {
		if h := p.health(); h == nil || h.Settings.Test.Std() != 30*time.Second {
			return fmt.Sprintf("%+v", h)
		}
		return ""
	})
	p.config, p.desired, p.running = p.documents()
	return p
}

// documents are what the node has, should have and runs.
func (p *patient) documents() (config string, desired, running wire.DocRef) {
	p.t.Helper()
	data, err := os.ReadFile(filepath.Join(p.StateDir("n1"), "config.json"))
	if err != nil {
		p.t.Fatal(err)
	}
	n, err := proc.Get[controller.Node](p.Unit, "/v1/nodes/n1")
	if err != nil {
		p.t.Fatal(err)
	}
	d := n.Documents[wire.KindConfig]
	if d.Desired == nil || d.Running == nil {
		p.t.Fatalf("%+v", d)
	}
	return string(data), d.Desired.DocRef, *d.Running
}

// untouched checks that configuration and desired state are as they were.
func (p *patient) untouched() {
	p.t.Helper()
	if config, desired, running := p.documents(); config != p.config || desired != p.desired || running != p.running {
		p.t.Errorf("%s, desired %+v, running %+v; before %s, desired %+v, running %+v", config, desired, running,
			p.config, p.desired, p.running)
	}
}

// health is what the node told last, nil if it has not.
func (p *patient) health() *wire.Health {
	p.t.Helper()
	h, err := proc.Get[struct {
		Report *wire.Health `json:"report"`
	}](p.Unit, "/v1/nodes/n1/health")
	if err != nil {
		p.t.Fatal(err)
	}
	return h.Report
}

func has(t *testing.T, o proc.Output, status int, out, errs string) {
	t.Helper()
	if o.Status != status || !strings.Contains(o.Out, out) || !strings.Contains(o.Errors, errs) {
		t.Errorf("status %d, want %d; wanted on standard output %q, on standard error %q\n--- output\n%s--- errors\n%s",
			o.Status, status, out, errs, o.Out, o.Errors)
	}
}

// told is an event of the node.
type told struct {
	Detail struct {
		Slot, Component, Version, Reason, Text string
		Restarts                               uint64
	}
}

// event waits for the node's next event of one of the types that says what is asked for, in the
// controller's journal.
func (p *patient) event(within time.Duration, says func(told) bool, types ...string) told {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), within)
	defer cancel()
	query := url.Values{"follow": {"1"}, "node": {"n1"}, "type": types, "after": {strconv.FormatUint(p.seen, 10)}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://tandem/v1/events?"+query.Encode(), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	stream := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _,
		_ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", p.Socket)
	}}}
	res, err := stream.Do(r)
	if err != nil {
		p.t.Fatalf("waiting for %v: %v", types, err)
	}
	defer func() { _ = res.Body.Close() }() // enough was read
	var others []string
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		var e controller.Entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || e.Seq == 0 {
			continue // a sign of life
		}
		var ev told
		if err := json.Unmarshal(e.Data, &ev, json.MatchCaseInsensitiveNames(true)); err != nil {
			p.t.Fatalf("%s: %v", e.Data, err)
		}
		if says == nil || says(ev) {
			p.seen = e.Seq
			return ev
		}
		others = append(others, string(e.Data))
	}
	p.t.Fatalf("waited %v for %v: %v; the controller has told %s\n%s", within, types, lines.Err(), others,
		p.Tandem("events", "--node", "n1").Out)
	return told{}
}

func because(reason wire.BootReason) func(told) bool {
	return func(ev told) bool { return ev.Detail.Reason == string(reason) }
}

// now lets what follows wait only for events that are yet to come.
func (p *patient) now() {
	p.t.Helper()
	status, err := proc.Get[struct {
		Rev uint64 `json:"rev"`
	}](p.Unit, "/v1/unit/status")
	if err != nil {
		p.t.Fatal(err)
	}
	p.seen = status.Rev
}

// slots is what tandem-node slot status says.
type slots struct {
	Slots []struct{ Slot, State, Version, Verdict string }

	Running, Trying, Previous string
	Trial                     bool
	TriesLeft                 int
	Brings                    map[string][]string
	Next, Boot                *struct{ Reason, Detail, Slot string }
	Last                      struct {
		Slot, Version, Reason, Detail string
		Committed                     bool
	}
}

// slot runs a command on the slots, at the node, and returns what it says.
func (p *patient) slot(args ...string) (s slots) {
	p.t.Helper()
	o := proc.Run(p.t, p.Dir, nil, append([]string{proc.Binary(p.t, "tandem-node"), "slot", args[0], "--state-dir",
		p.StateDir("n1"), "--json"}, args[1:]...)...)
	has(p.t, o, 0, "", "")
	if err := json.Unmarshal([]byte(o.Out), &s, json.MatchCaseInsensitiveNames(true)); err != nil &&
		args[0] == "status" {
		p.t.Fatalf("%v: %s", err, o.Out)
	}
	return s
}

// stage puts a version in the free slot.
func (p *patient) stage(version string) {
	p.t.Helper()
	p.slot("stage", proc.Binary(p.t, "tandem-node-"+version), "--version", version)
}

// in says which slot runs, is active, and holds the version; and whether on trial with so many tries left.
func (p *patient) in(running, active, of, state string, trial bool, tries int) slots {
	p.t.Helper()
	s := p.slot("status")
	good := ""
	i := slices.IndexFunc(s.Slots, func(x struct{ Slot, State, Version, Verdict string }) bool { return x.Slot == of })
	for _, x := range s.Slots {
		if x.State == "active" {
			good += x.Slot
		}
	}
	if s.Running != running || good != active || i < 0 || s.Slots[i].State != state || s.Trial != trial ||
		s.TriesLeft != tries {
		p.t.Errorf("slots: %+v; want slot %s to run, %s to be active, %s to be %s; on trial: %v, with %d tries left", s,
			running, active, of, state, trial, tries)
	}
	return s
}

// word has the controller ask the node something: a sign of life that does not wait for the next
// beacon, and changes nothing.
func (p *patient) word() {
	p.t.Helper()
	p.AwaitOnline("n1", true)
	file := filepath.Join(p.Dir, "other.json")
	if err := os.WriteFile(file, proc.Document("9.9.9", 9), 0o600); err != nil {
		p.t.Fatal(err)
	}
	proc.Until(p.t, "the node has answered", func() string {
		if o := p.Tandem("config", "check", file); o.Status != 0 {
			return o.Out + o.Errors
		}
		return ""
	})
}

// program is the path of a slot's binary.
func (p *patient) program(slot string) string {
	return filepath.Join(p.StateDir("n1"), "slots", slot, "tandem-node")
}

// ended stops the node, and checks that nothing of it is left.
func (p *patient) ended() {
	p.t.Helper()
	p.node.Stop()
	for i, r := range p.node.Runs() {
		if r.Left {
			p.t.Errorf("run %d has left processes behind: %+v", i, r)
		}
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		p.t.Fatal(err)
	}
	for _, file := range lines {
		line, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		if text := strings.ReplaceAll(string(line), "\x00", " "); strings.Contains(text, p.StateDir("n1")) {
			p.t.Errorf("%s runs still: %s", filepath.Dir(file), text)
		}
	}
}

// restart is systemctl restart; it returns the number of the run that is ready then.
func (p *patient) restart() int { return p.node.Ready(p.node.Signal(syscall.SIGTERM)) }
