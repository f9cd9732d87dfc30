package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"time"

	"tandem.internal/shared/link/linktest"
	"tandem.internal/testenv/fleet"
)

// nodes is the role of the other side: a fleet, in a process of its own so that its heap and file
// descriptors are nobody else's.
type nodes struct {
	f       *fleet.Fleet
	expects <-chan struct{}
	resume  func()
}

func newNodes(cfg hostConfig, pipe *linktest.Pipe) (role, error) {
	if pipe == nil {
		debug.SetGCPercent(400) // a process of nodes is scenery: it shall take little from what is measured
	}
	c := fleet.Config{Unit: unitName, Nodes: cfg.Nodes, Types: nodeTypes, Echo: cfg.Echo}
	c.Dial = func(ctx context.Context) (net.Conn, error) {
		if pipe != nil {
			return pipe.Dial(ctx)
		}
		var d net.Dialer
		return d.DialContext(ctx, "tcp", cfg.Connect)
	}
	if cfg.Certs != "" {
		if err := mutual(cfg, &c); err != nil {
			return nil, err
		}
	}
	return &nodes{f: fleet.New(c)}, nil
}

// nodeStats is fleet.Stats as it travels.
type nodeStats struct {
	fleet.Stats
	Errors []string
}

func (n *nodes) do(op string, args json.RawMessage) (any, error) {
	ctx, cancel := patient()
	defer cancel()
	var count int
	if len(args) > 0 {
		if err := json.Unmarshal(args, &count); err != nil {
			return nil, err
		}
	}
	switch op {
	case "start":
		n.f.Start()
	case "drop":
		n.f.Drop()
	case "online": // args: how many
		return nil, n.f.AwaitOnline(ctx, count)
	case "expect": // args: how many statuses are to be acknowledged
		n.expects = n.f.Expect(count)
	case "await": // the outcome is when they were, Unix nanoseconds
		select {
		case <-n.expects:
			return time.Now().UnixNano(), nil
		case <-ctx.Done():
			return nil, fmt.Errorf("not every status was acknowledged: %+v", n.f.Stats())
		}
	case "stats":
		s := nodeStats{Stats: n.f.Stats()}
		for _, err := range s.Stats.Errors {
			s.Errors = append(s.Errors, err.Error())
		}
		s.Stats.Errors = nil
		return s, nil
	case "acked": // the outcome is when each node's newest status was acknowledged, Unix nanoseconds
		at := make([]int64, count)
		for i := range at {
			at[i] = n.f.AckedAt(i).UnixNano()
		}
		return at, nil
	case "stall": // args: which node
		n.resume = n.f.Stall(count)
	case "resume":
		n.resume()
	default:
		return nil, errors.New("the nodes do not know " + op)
	}
	return nil, nil
}

func (n *nodes) addr() net.Addr { return nil }

func (n *nodes) close() error {
	n.f.Close()
	return nil
}
