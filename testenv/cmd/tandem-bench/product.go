package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"tandem.internal/broker/server"
	"tandem.internal/controller/app"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/fleet"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// product is the controller as it is shipped, with its HTTP API if viewers are to look.
type product struct {
	app  *app.App
	made atomic.Int64 // commits of the journal
	at   net.Addr
	stop func() error
}

func newProduct(cfg hostConfig, l net.Listener) (role, error) {
	// Nodes are asked to be patient with: a check of 10,000 nodes on a busy machine is no silence.
	c := app.Config{
		Unit: unitName, StateDir: filepath.Join(cfg.Dir, "state"), Listen: "127.0.0.1:0", KeepRecords: keepRecords,
		CheckTimeout: time.Minute, ReportGrace: 5 * time.Second,
	}
	c.Socket = cfg.Socket
	deps := app.Deps{NoAPI: cfg.Socket == ""}
	p := &product{}
	deps.JournalFaults.AfterCommit = func() error { // this one only counts
		p.made.Add(1)
		return nil
	}
	if cfg.Broker != "" {
		c.Broker, c.BrokerUser, c.BrokerSecret, c.SubscribeQoS = "tcp://"+cfg.Broker, "controller", brokerPassword, 1
	} else {
		deps.Listeners = []net.Listener{}
		if cfg.TLS {
			c.Listen, c.ListenTLS, c.Advertise = "", "127.0.0.1:0", []string{"127.0.0.1"}
			deps.TLSListener, p.at = l, l.Addr()
		} else if l != nil {
			deps.Listeners, p.at = append(deps.Listeners, l), l.Addr()
		}
	}
	var err error
	if p.app, err = app.New(c, deps); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.app.Run(ctx) }()
	p.stop = func() error {
		cancel()
		return <-done
	}
	return p, nil
}

func (p *product) commits() int64 { return p.made.Load() }
func (p *product) addr() net.Addr { return p.at }
func (p *product) close() error   { return p.stop() }

// submission asks for the unit configuration of a version to be applied.
type submission struct {
	Version string
	Offline bool
}

// fleetView is what the controller knows.
type fleetView struct {
	Nodes, Online, Installed int
	Version                  string
	Records                  uint64
	Up                       bool // there is a road to the broker
}

func (p *product) do(op string, args json.RawMessage) (any, error) {
	ctx, cancel := patient()
	defer cancel()
	switch op {
	case "submit":
		var s submission
		if err := json.Unmarshal(args, &s); err != nil {
			return nil, err
		}
		r, err := p.app.Unit().Submit(ctx,
			app.Submission{Kind: "config", Document: document(s.Version), Who: "bench", Via: "cli", Offline: s.Offline})
		if err == nil && r.State != "accepted" {
			err = fmt.Errorf("version %s is %s: %w", s.Version, r.State, r.Error)
		}
		if err == nil && !s.Offline && r.Checks.Agreed != r.Issued {
			err = fmt.Errorf("%d of %d nodes agreed", r.Checks.Agreed, r.Issued)
		}
		return r.Issued, err
	case "workloads":
		var w workloads
		if err := json.Unmarshal(args, &w); err != nil {
			return nil, err
		}
		r, err := p.app.Unit().Submit(ctx,
			app.Submission{Kind: wire.KindWorkloads, Document: w.Document, Version: w.Version, Who: "bench",
				Via: "cli"})
		if err == nil && r.State != "accepted" {
			err = fmt.Errorf("workloads %s are %s: %w", w.Version, r.State, r.Error)
		}
		return nil, err
	case "running": // the outcome is how many slots there are, if all of them run
		all, err := p.app.Unit().Slots(ctx, app.SlotsIn{})
		for _, s := range all.Slots {
			if s.Report == nil || s.Report.State != wire.WorkloadRunning {
				return -1, err
			}
		}
		return len(all.Slots), err
	case "flush": // the outcome is there when every document has been published
		return nil, p.app.Unit().Flushed(ctx)
	case "view":
		s, err := p.app.Unit().Status(ctx)
		g := s.Config.Progress
		return fleetView{Nodes: g.Nodes, Online: g.Online, Installed: g.Installed, Version: s.Config.Version,
			Records: s.Rev, Up: s.Broker.Up}, err
	case "enrol":
		var e enrolment
		if err := json.Unmarshal(args, &e); err != nil {
			return nil, err
		}
		return nil, enrol(ctx, e, p.app.JoinURL(), p.token)
	case "verify":
		v, err := p.app.Unit().Verify(ctx)
		if err == nil && !v.OK {
			err = errors.New(v.Report)
		}
		return nil, err
	}
	return nil, fmt.Errorf("the product does not know %q", op)
}

// nodeTypes are the types of the unit's nodes.
var nodeTypes = []string{"gateway", "camera", "door"}

// document is a unit configuration with an entry for each type that resolves to about 1 KiB.
func document(version string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `{"formatVersion":"7","version":%q,"nodes":[`, version)
	for i, t := range nodeTypes {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"nodeGroupSubject":{"codename":%q},"alertRules":{`+
			`"ram":{"minTimeout":"PT1S","minThreshold":0.1,"maxThreshold":0.9},`+
			`"cpu":{"minTimeout":"PT2S","minThreshold":0.3,"maxThreshold":0.8},"partitions":[`, t)
		for k := range 7 {
			if k > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `{"name":"part-%s-%d","minTimeout":"PT3S","minThreshold":0.5,"maxThreshold":0.9}`, t, k)
		}
		b.WriteString(`],"download":{"minTimeout":"PT5S","minThreshold":100,"maxThreshold":200},` +
			`"upload":{"minTimeout":"PT6S","minThreshold":300,"maxThreshold":400}},` +
			`"resourceRatios":{"cpu":50,"ram":51,"storage":52,"state":53},"labels":["mainNode"],"priority":1}`)
	}
	b.WriteString("]}")
	return []byte(b.String())
}

// brokerPassword is what a controller shows to a broker outside.
const brokerPassword = "bench-controller"

// broker is a broker outside of the controller's process.
type broker struct {
	s     *server.Server
	found int // documents, of the first nodes, that were seen retained: asking must cost little
}

func newBroker(l net.Listener) (role, error) {
	s, err := server.New(server.Config{
		Unit: unitName, Listeners: []net.Listener{l}, Limits: server.Collectors(),
		Passwords: map[string]string{"controller": brokerPassword},
	})
	if err != nil {
		return nil, err
	}
	return &broker{s: s}, s.Start()
}

func (b *broker) addr() net.Addr { return b.s.Addr() }
func (b *broker) close() error   { return b.s.Close() }

func (b *broker) do(op string, args json.RawMessage) (any, error) {
	switch op {
	case "retained":
	case "dropped": // the outcome is how many messages found no room on their way to a client
		return b.s.Stats().Dropped, nil
	default:
		return nil, fmt.Errorf("the broker does not know %q", op)
	}
	var nodes int
	if err := json.Unmarshal(args, &nodes); err != nil {
		return nil, err
	}
	for b.found < nodes {
		if _, ok := b.s.Retained(topic.ForNode(unitName, fleet.Name(b.found)).Desired(wire.KindConfig)); !ok {
			break
		}
		b.found++
	}
	return b.found, nil
}
