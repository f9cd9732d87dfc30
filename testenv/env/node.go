package env

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	node "tandem.internal/nodeagent/app"
	"tandem.internal/shared/link"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/fault"
)

// NodeSpec describes a node.
type NodeSpec struct {
	Name        string
	Type        string             // "": mainType
	MaxPriority int                // the highest that it takes; 0: any
	Late        bool               // it is there only when the test starts it
	Tended      bool               // it has a body, see Body, and whoever starts it again when it ends
	Config      func(*node.Config) // has the last word on the agent's configuration. Nil: none
}

// Node is a node's machine, and the agent and the node's software on it.
type Node struct {
	Name    string
	Machine *fault.Machine
	Dir     string // its state directory

	e      *Env
	spec   NodeSpec
	road   *fault.Road
	offset atomic.Int64 // of its clock, nanoseconds
	body   *Body        // nil unless NodeSpec.Tended

	agent  *node.Agent // nil: it does not run
	cancel context.CancelFunc
	done   chan error

	mu      sync.Mutex
	running wire.Stamp            // the newest that was ever committed
	hashes  map[wire.Stamp]string // of what was committed
	heard   map[wire.Stamp]string // hashes of all that ever came
	last    *wire.Attempt         // the newest reported
	told    string                // version that the software was last told of
	tellers int                   // runs of the on-apply command
	spoilt  bool                  // somebody has altered config.json: it may not say that it runs anything
	lost    bool                  // its state was lost: it may run nothing until it has its document again
}

func newNode(e *Env, spec NodeSpec) *Node {
	n := &Node{Name: spec.Name, e: e, spec: spec, hashes: map[wire.Stamp]string{}, heard: map[wire.Stamp]string{}}
	n.Machine, n.Dir = e.machine(spec.Name)
	if spec.Tended {
		n.body = newBody(n)
	}
	n.road = fault.NewRoad(e.dial, e.rand())
	n.road.Toll(func(fromBroker bool, _ string) error {
		switch {
		case !fromBroker:
			return n.Machine.Do("publish", syscall.EPIPE)
		case e.Broker == nil:
			return e.Controller.Machine.Do("publish", syscall.EPIPE)
		}
		return nil
	})
	n.Machine.Died = func() {
		e.Note("%s dies", n.Name)
		n.road.Close()
	}
	return n
}

// idle are the figures of a node with nothing to do.
var idle = node.Sources{
	CPU:        func() (node.Times, error) { return node.Times{Busy: 1, Idle: 99}, nil },
	RAM:        func() (float64, error) { return 0.25, nil },
	Interfaces: func() ([]node.Counters, error) { return nil, nil },
	Partition:  func(string) (node.Usage, error) { return node.Usage{Bytes: 0.5}, nil },
}

// Road is the way to the broker.
func (n *Node) Road() *fault.Road { return n.road }

// SetClock puts the node's clock this far from the true time, at once.
func (n *Node) SetClock(offset time.Duration) {
	n.e.Note("%s: clock off by %v", n.Name, offset)
	n.offset.Store(int64(offset))
}

// SetType gives the node another type from its next start on.
func (n *Node) SetType(t string) { n.spec.Type = t }

// SetMaxPriority changes the node's own rule from its next start on.
func (n *Node) SetMaxPriority(p int) { n.spec.MaxPriority = p }

// Start starts the agent on what the machine's disk holds.
func (n *Node) Start() {
	n.e.Helper()
	if err := n.TryStart(); err != nil {
		n.e.Fatalf("%s%s does not start: %v", n.e.setup.Label, n.Name, err)
	}
}

// TryStart is Start for an agent that may refuse.
func (n *Node) TryStart() error {
	if n.agent != nil {
		return errors.New("it runs already")
	}
	if n.Machine.Dead() {
		if err := n.Machine.Revive(); err != nil {
			return err
		}
		n.road.Clear()
	}
	cfg := node.NewConfig(Unit, n.Name, n.spec.Type, n.Dir)
	cfg.OnApply = "software"
	cfg.SamplePeriod = 10 * time.Minute
	if n.spec.MaxPriority > 0 {
		cfg.MaxPriority = n.spec.MaxPriority
	}
	chance := n.e.rand()
	deps := node.Deps{
		Now: func() time.Time { return time.Now().Add(time.Duration(n.offset.Load())) }, Rand: n.e.rand(),
		Log: n.e.log(n.Name),
		NewLink: func(cfg link.Config, h link.Handler) (link.Link, error) {
			cfg.Rand = chance
			return link.Dial(cfg, h)
		},
		OpenConn: n.road.Open, Steps: n.Machine.Step, RunCommand: n.software, OnState: n.watch,
		StoreFaults: func(p node.Point) error { return n.Machine.Commit(p == "after") },
		Capacity:    func(i *wire.NodeInfo) error { i.CPUs, i.RAM = 2, 1<<30; return nil },
		Sources:     idle, Address: func(string) bool { return true },
		Machine: func() node.Evidence { return node.Evidence{Kernel: "the only boot"} },
	}
	if n.body != nil {
		if err := n.body.start(&cfg, &deps); err != nil {
			return err
		}
	}
	if n.spec.Config != nil {
		n.spec.Config(&cfg)
	}
	a, err := node.New(cfg, deps)
	if err != nil {
		return err
	}
	n.e.Note("%s starts", n.Name)
	ctx, cancel := context.WithCancel(context.Background())
	n.agent, n.cancel, n.done = a, cancel, make(chan error, 1)
	go func() { n.done <- a.Run(ctx) }()
	return nil
}

// Running reports whether the agent is there; a dead one is not.
func (n *Node) Running() bool { return n.agent != nil && !n.Machine.Dead() }

// Stop ends the agent in good order, or collects it if it is dead.
func (n *Node) Stop() {
	if n.agent == nil {
		return
	}
	dead := n.Machine.Dead()
	n.cancel()
	err := <-n.done
	n.agent = nil
	if !dead {
		n.e.Note("%s stopped: %v", n.Name, err)
	}
	if err != nil && !n.Machine.Dead() {
		n.e.Wrong("%s ended with: %v", n.Name, err)
	}
}

// Kill lets the machine die; what it had on the disk stays.
func (n *Node) Kill() {
	n.Machine.Kill()
	n.Stop()
}

// Restart stops the agent, however it is, and starts it again.
func (n *Node) Restart() {
	n.e.Helper()
	n.Stop()
	n.Start()
}

// File returns config.json, nil if there is none.
func (n *Node) File() []byte {
	data, err := os.ReadFile(filepath.Join(n.Dir, node.ConfigFile))
	if err != nil && !os.IsNotExist(err) {
		n.e.Wrong("%s: %v", n.Name, err)
	}
	return data
}

// Last is the newest attempt that the node reported; nil before the first.
func (n *Node) Last() *wire.Attempt {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.last
}

// Committed is the stamp of the newest document that the node has committed to.
func (n *Node) Committed() wire.Stamp {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.running
}

// Told is the version that the node's software was last told of, and how often it was told
// anything.
func (n *Node) Told() (version string, times int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.told, n.tellers
}

// watch checks everything that the agent says of itself, at the moment it says it.
func (n *Node) watch(kind wire.Kind, running *wire.DocRef, last *wire.Attempt) {
	if kind != wire.KindConfig {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last = last
	if last != nil {
		if last.Error == nil || last.Error.Code != wire.CodeFork {
			n.heard[last.Stamp()] = last.Hash
		}
		n.e.Note("%s: %s of %s is %s (%d.%d) %v", n.Name, kind, last.Version, last.State, last.Epoch, last.Rev,
			last.Error)
	}
	switch {
	case running == nil && (n.lost || n.spoilt):
	case running == nil && !n.running.IsZero():
		n.e.Wrong("%s: ran %v and now runs nothing", n.Name, n.running)
	case running == nil:
	case running.Stamp().Compare(n.running) < 0:
		n.e.Wrong("%s: runs %v after %v", n.Name, running.Stamp(), n.running)
	default:
		if old, ok := n.hashes[running.Stamp()]; ok && old != running.Hash {
			n.e.Wrong("%s: two documents of %v", n.Name, running.Stamp())
		}
		n.running, n.hashes[running.Stamp()] = running.Stamp(), running.Hash
		n.lost, n.spoilt = false, false
	}
	if last == nil || last.State != wire.StateInstalled || running == nil && last.Error != nil &&
		last.Error.Code == wire.CodeDrift {
		return
	}
	if running == nil || running.Stamp() != last.Stamp() || running.Hash != last.Hash {
		n.e.Wrong("%s: reports %v installed and runs %v", n.Name, last.Stamp(), running)
	} else if file := n.File(); wire.Hash(file) != running.Hash {
		n.e.Wrong("%s: reports %s (%v) installed, but config.json is %.200s", n.Name, running.Version, running.Stamp(),
			file)
	} else if n.told != running.Version {
		n.e.Wrong("%s: reports %s installed, but the node's software was last told of %q", n.Name, running.Version,
			n.told)
	}
}

// software is what the on-apply command tells of a new configuration. It reads the file, as real
// software would, and fails for what is labelled so.
func (n *Node) software(_ context.Context, env, _ []string) error {
	if err := n.Machine.Do("command", syscall.EAGAIN); err != nil {
		return err // it could not be started
	}
	vars := map[string]string{}
	for _, kv := range env {
		k, v, _ := strings.Cut(kv, "=")
		vars[k] = v
	}
	file, mode := n.File(), vars["TANDEM_MODE"]
	if (file == nil) != (vars["TANDEM_VERSION"] == "") || file != nil &&
		!bytes.Contains(file, []byte(strconv.Quote(vars["TANDEM_VERSION"]))) {
		n.e.Wrong("%s: told to %s %q while config.json is %.200s", n.Name, mode, vars["TANDEM_VERSION"], file)
	}
	n.mu.Lock()
	n.told = vars["TANDEM_VERSION"]
	n.tellers++
	n.mu.Unlock()
	n.e.Note("%s: software told to %s %q", n.Name, mode, vars["TANDEM_VERSION"])
	if (mode == "apply" || mode == "try") && bytes.Contains(file, []byte(strconv.Quote(Boom))) {
		return errors.New("exit status 1")
	}
	return n.Machine.Do("command after", nil)
}

// Holds reports whether config.json is of a version; "" means that there is none.
func (n *Node) Holds(version string) bool {
	file := n.File()
	return file == nil && version == "" || version != "" &&
		bytes.Contains(file, []byte(`"version":`+strconv.Quote(version)))
}

// Spoil puts something else into config.json.
func (n *Node) Spoil(data []byte) {
	n.e.Note("%s: config.json is spoilt", n.Name)
	n.mu.Lock()
	n.spoilt = true
	n.mu.Unlock()
	if err := os.WriteFile(filepath.Join(n.Dir, node.ConfigFile), data, 0o600); err != nil {
		n.e.Fatal(err)
	}
}

// Damage changes the file of the stopped agent's state, or removes it if change returns nil.
func (n *Node) Damage(change func(data []byte) []byte) {
	n.e.Helper()
	n.e.Note("%s: its state is damaged", n.Name)
	path := filepath.Join(n.Dir, node.StateFile)
	data, err := os.ReadFile(path)
	if err == nil {
		if data = change(data); data == nil {
			err = os.Remove(path)
		} else {
			err = os.WriteFile(path, data, 0o600)
		}
	}
	if err != nil {
		n.e.Fatal(err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lost = true
}
