package distribute_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/shared/link"
	"tandem.internal/shared/link/linktest"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// seedNode is a node agent as the wire sees it: it says what the contract wants of it, in the order
// in which the real one does, and takes every document that refuse does not refuse.
type seedNode struct {
	u          *seedUnit
	name, kind string // kind: the node type
	refuse     func(version string) *wire.Error
	mute       bool // does not answer requests
	topics     topic.Node
	link       link.Link
	stop       func()

	mu      sync.Mutex
	boot    int
	seqs    map[wire.Kind]uint64
	running *wire.DocRef
	last    *wire.Attempt
	got     []*wire.Desired // that were newer than what it had
	checks  []wire.CheckParams
	work    *seedWork // nil: an agent that does not know workloads
}

// node brings a node up.
func (u *seedUnit) node(name, kind string) *seedNode {
	n := &seedNode{u: u, name: name, kind: kind, topics: topic.ForNode(seedName, name)}
	n.start()
	u.nodes = append(u.nodes, n)
	return n
}

// start is a boot. The document that the node runs outlives it.
func (n *seedNode) start() {
	n.boot++
	n.seqs = map[wire.Kind]uint64{}
	n.link = n.u.hub.Link(linktest.Options{
		ID: "node/" + n.name, Filters: []string{n.topics.DesiredFilter(), n.topics.Request()},
		Will: func(session uint64) *link.Publication {
			return &link.Publication{Topic: n.topics.Live(), Payload: n.live(session, false), Retain: true}
		},
		Goodbye: func(session uint64) []link.Publication {
			return []link.Publication{{Topic: n.topics.Live(), Payload: n.live(session, false), Retain: true}}
		},
	}, n)
	end := n.u.run(n.link.Run)
	n.stop = func() {
		end()
		n.stop = func() {}
		synctest.Wait()
	}
	synctest.Wait()
}

func (n *seedNode) reboot() {
	n.stop()
	n.start()
}

func (n *seedNode) live(session uint64, up bool) []byte {
	return wire.Encode(&wire.Live{V: wire.Version, Node: n.name, Boot: n.bootID(), Session: session, Up: up})
}

func (n *seedNode) bootID() string { return fmt.Sprint("boot-", n.boot) }

// Up implements link.Handler: live, then info, then what runs.
func (n *seedNode) Up(session uint64) {
	n.publish(n.topics.Live(), n.live(session, true), true)
	n.info()
	n.report()
	if n.work != nil {
		n.work.report(n)
	}
}

// info tells what the node is.
func (n *seedNode) info() {
	info := &wire.NodeInfo{Type: n.kind, OS: "linux", Arch: "arm64", AgentVersion: "1"}
	if n.work != nil {
		info.CPU = 1000
		info.Runtimes = []wire.Runtime{{ID: wire.RuntimeProcess, Type: wire.RuntimeProcess, Architecture: "arm64"}}
	}
	n.say(wire.KindInfo, &wire.Reported{Detail: wire.Encode(info)})
}

func (n *seedNode) report() {
	n.mu.Lock()
	r := wire.Reported{Running: n.running, Last: n.last}
	n.mu.Unlock()
	n.say(wire.KindConfig, &r)
}

func (n *seedNode) say(kind wire.Kind, r *wire.Reported) {
	n.mu.Lock()
	n.seqs[kind]++
	r.V, r.Node, r.Kind, r.Boot, r.Seq = wire.Version, n.name, kind, n.bootID(), n.seqs[kind]
	n.mu.Unlock()
	n.publish(n.topics.Reported(kind), wire.Encode(r), true)
}

func (n *seedNode) publish(to string, payload []byte, retain bool) {
	if err := n.link.Publish(context.Background(), to, payload, retain); err != nil {
		n.u.Errorf("node %s: %v", n.name, err)
	}
}

// Down implements link.Handler.
func (n *seedNode) Down(uint64, error) {}

// Message implements link.Handler.
func (n *seedNode) Message(m link.Message) {
	if len(m.Payload) == 0 {
		return
	}
	if m.Topic == n.topics.Request() {
		n.request(m.Payload)
		return
	}
	d, err := wire.Decode[wire.Desired](m.Payload)
	if err != nil {
		n.u.Errorf("node %s: %v", n.name, err)
		return
	}
	if d.Kind == wire.KindWorkloads {
		n.desiredWork(d)
		return
	}
	n.mu.Lock()
	if n.last != nil && d.Stamp().Compare(n.last.Stamp()) <= 0 {
		n.mu.Unlock()
		return
	}
	n.got = append(n.got, d)
	n.last = &wire.Attempt{Epoch: d.Epoch, Rev: d.Rev, Version: d.Version, Hash: d.Hash, State: wire.StateInstalled,
		Attempt: 1, At: time.Now()}
	if n.refuse != nil && n.refuse(d.Version) != nil {
		n.last.State, n.last.Error = wire.StateRejected, n.refuse(d.Version)
	} else {
		n.running = &wire.DocRef{Epoch: d.Epoch, Rev: d.Rev, Version: d.Version, Hash: d.Hash}
	}
	n.mu.Unlock()
	n.report()
}

func (n *seedNode) request(payload []byte) {
	r, err := wire.Decode[wire.Request](payload)
	if err != nil {
		n.u.Errorf("node %s: %v", n.name, err)
		return
	}
	if n.mute {
		return
	}
	if r.Method == wire.MethodReport {
		n.publish(n.topics.Reply(),
			wire.Encode(&wire.Reply{V: wire.Version, Node: n.name, ID: r.ID, Result: jsontext.Value("null")}), false)
		n.info()
		n.report()
		if n.work != nil {
			n.work.report(n)
		}
	}
	switch r.Method {
	case wire.MethodLogs, wire.MethodRestart, wire.MethodAgentLog, wire.MethodLogLevel, wire.MethodSamples:
		n.publish(n.topics.Reply(), wire.Encode(n.work.reply(n, r)), false)
		return
	}
	if r.Method != wire.MethodCheck {
		return
	}
	p, err := wire.Decode[wire.CheckParams](r.Params)
	if err != nil {
		n.u.Errorf("node %s: %v", n.name, err)
		return
	}
	n.mu.Lock()
	n.checks = append(n.checks, *p)
	n.mu.Unlock()
	if p.Kind == wire.KindWorkloads && n.refuse == nil {
		n.publish(n.topics.Reply(), wire.Encode(n.work.check(n, r.ID, p)), false)
		return
	}
	result := wire.CheckResult{OK: true}
	if n.refuse != nil {
		if e := n.refuse(p.Version); e != nil {
			result = wire.CheckResult{Errors: []*wire.Error{e}}
		}
	}
	n.publish(n.topics.Reply(),
		wire.Encode(&wire.Reply{V: wire.Version, Node: n.name, ID: r.ID, Result: wire.Encode(&result)}), false)
}

// received lists the versions of the documents that reached the node, oldest first, and forgets
// them.
func (n *seedNode) received() string {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []string
	for _, d := range n.got {
		all = append(all, d.Version)
	}
	n.got = nil
	return strings.Join(all, " ")
}

// body is the document that the node has dealt with last, as it came.
func (n *seedNode) body() []byte {
	payload, ok := n.u.hub.Retained(n.topics.Desired(wire.KindConfig))
	if !ok {
		return nil
	}
	d, err := wire.Decode[wire.Desired](payload)
	if err != nil {
		n.u.Fatal(err)
	}
	return bytes.Clone(d.Body)
}

// as returns a context in which somebody asks.
func as(ctx context.Context, who string) context.Context { return caller.Named(ctx, who, "http") }
