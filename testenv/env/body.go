package env

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	node "tandem.internal/nodeagent/app"
	"tandem.internal/nodeagent/slottest"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

// Body is what a tended node has beside its disk: a load, a power switch, a reboot command, and slots
// from which its agent is started, as the launcher and the service manager would.
type Body struct {
	CPU, RAM, Disk atomic.Int64 // what is used, per mille
	Stubborn       atomic.Bool  // the reboot command fails
	Alone          atomic.Bool  // no new connection to the broker comes about

	n        *Node
	slots    slottest.Slots
	kernel   atomic.Int64 // boots of the machine
	down     atomic.Bool  // the machine is down, not only the agent
	release  string       // that runs: a version and what it is like; "" is the installed one
	releases int          // staged so far

	mu      sync.Mutex
	reboots []Reboot
}

// Reboot is a run of the reboot command that worked.
type Reboot struct {
	At     time.Time
	Reason wire.BootReason
}

// What a release may be like.
const (
	Good   = "good"
	Crashy = "crashy" // ends a little after its start
	Deaf   = "deaf"   // never reaches the broker
	Hungry = "hungry" // takes all the RAM
)

func newBody(n *Node) *Body {
	b := &Body{n: n}
	b.Ease()
	b.slots = slottest.Open(n.Dir, b.evidence, b.step, func(_ context.Context, path string) (string, error) {
		data, err := os.ReadFile(path)
		version, _, _ := strings.Cut(string(data), " ")
		return version, err
	})
	return b
}

// Body is the node's; nil unless it is tended.
func (n *Node) Body() *Body { return n.body }

// Ease ends whatever loads the node.
func (b *Body) Ease() {
	b.CPU.Store(100)
	b.RAM.Store(250)
	b.Disk.Store(500)
}

func (b *Body) evidence() node.Evidence {
	return node.Evidence{Kernel: fmt.Sprint("boot ", b.kernel.Load())}
}

// step is met by the writing of the slots' record.
func (b *Body) step(s durable.Step) error {
	switch m := b.n.Machine; {
	case m.Dead():
		return syscall.EIO
	case m.Full() && s == durable.Write:
		return syscall.ENOSPC
	}
	return nil
}

// start picks the slot to start, and tells the agent of the body.
func (b *Body) start(cfg *node.Config, deps *node.Deps) error {
	if b.down.Swap(false) {
		b.kernel.Add(1)
	}
	path, env, err := b.slots.Start()
	if err != nil {
		return err
	}
	b.release = ""
	if path != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		b.release = string(data)
	}
	b.n.e.Note("%s: release %q, %v", b.n.Name, b.release, env)
	vars := map[string]string{}
	for _, kv := range env {
		k, v, _ := strings.Cut(kv, "=")
		vars[k] = v
	}
	like := b.Like()
	cfg.SamplePeriod = 2 * time.Minute
	cfg.RebootCommand = "reboot"
	cfg.Partitions = map[string]string{"services": "/services"}
	deps.LookupEnv = func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
	deps.Machine, deps.SlotSteps, deps.Sources = b.evidence, b.step, b.sources(like)
	deps.Die = func() {
		b.n.e.Wrong("%s: the watchdog ends it", b.n.Name)
		b.n.Machine.Kill()
	}
	software, open := deps.RunCommand, deps.OpenConn
	deps.RunCommand = func(ctx context.Context, env, argv []string) error {
		if argv[0] == "reboot" {
			return b.reboot(env)
		}
		return software(ctx, env, argv)
	}
	deps.OpenConn = func(ctx context.Context) (net.Conn, error) {
		if like == Deaf || b.Alone.Load() {
			return nil, syscall.ECONNREFUSED
		}
		return open(ctx)
	}
	return nil
}

func (b *Body) sources(like string) node.Sources {
	s := idle
	var at, busy, free float64
	began := time.Now()
	s.CPU = func() (node.Times, error) {
		now := time.Since(began).Seconds()
		load := float64(b.CPU.Load()) / 1000
		busy, free, at = busy+(now-at)*load, free+(now-at)*(1-load), now
		return node.Times{Busy: busy, Idle: free}, nil
	}
	s.RAM = func() (float64, error) {
		if like == Hungry {
			return 0.995, nil
		}
		return float64(b.RAM.Load()) / 1000, nil
	}
	s.Partition = func(string) (node.Usage, error) { return node.Usage{Bytes: float64(b.Disk.Load()) / 1000}, nil }
	return s
}

// reboot is the reboot command.
func (b *Body) reboot(env []string) error {
	if b.Stubborn.Load() {
		return errors.New("exit status 1")
	}
	r := Reboot{At: time.Now()}
	for _, kv := range env {
		if reason, ok := strings.CutPrefix(kv, "TANDEM_REASON="); ok {
			r.Reason = wire.BootReason(reason)
		}
	}
	b.mu.Lock()
	b.reboots = append(b.reboots, r)
	b.mu.Unlock()
	b.n.e.Note("%s: reboots, %s", b.n.Name, r.Reason)
	b.down.Store(true)
	b.n.Machine.Kill()
	return nil
}

// Reboots lists the runs of the reboot command that worked.
func (b *Body) Reboots() []Reboot {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]Reboot(nil), b.reboots...)
}

// PowerCut takes the power away.
func (b *Body) PowerCut() {
	b.down.Store(true)
	b.n.Kill()
}

// Stage puts a release into the free slot, by hand. The disk, or a trial, may refuse it.
func (b *Body) Stage(like string) (version string, err error) {
	b.releases++
	version = fmt.Sprintf("%d.0.0", b.releases)
	file := filepath.Join(b.n.Dir, "download")
	if err := os.WriteFile(file, []byte(version+" "+like), 0o600); err != nil {
		return "", err
	}
	err = b.slots.Stage(context.Background(), file)
	b.n.e.Note("%s: staged %s %s: %v", b.n.Name, version, like, err)
	return version, err
}

// Version is the version that runs, "" for the installed one; Like is what it is like.
func (b *Body) Version() string { v, _, _ := strings.Cut(b.release, " "); return v }

// Like is what the release that runs is like.
func (b *Body) Like() string {
	if _, like, ok := strings.Cut(b.release, " "); ok {
		return like
	}
	return Good
}

// Tend does what the service manager and the power supply do: what has ended by itself, was rebooted
// or crashes is started again. It says whether the agent was to be started and could not.
func (n *Node) Tend() error {
	switch {
	case n.agent != nil && len(n.done) > 0: // it has ended by itself
	case n.agent != nil && n.body.down.Load() && n.Machine.Dead(): // its reboot command has worked
	case n.Running() && n.body.Like() == Crashy:
		n.Kill()
	default:
		return nil
	}
	n.Stop()
	return n.TryStart()
}
