package distribute

import (
	"context"
	"errors"
	"sync"
	"time"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

const (
	samplesFor = 5 * time.Second // how long an answer of a node counts for everybody who looks
	maxLooks   = 64              // nodes whose answers are kept
)

// looks are the newest answers of nodes about what they have measured, so that many who look cost one question.
type looks struct {
	mu     sync.Mutex
	byNode map[string]*looked
}

// looked is one question. v, err and at belong to who asks it until done is closed.
type looked struct {
	done chan struct{}
	v    view.NodeSamples
	err  error
	at   time.Time
}

// begin returns the question that is asked of a node now, or was answered a moment ago; mine: the caller has to ask it.
func (l *looks) begin(node string, now time.Time) (q *looked, mine bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.byNode[node]; q != nil {
		select {
		case <-q.done:
			if age := now.Sub(q.at); q.err == nil && age >= 0 && age < samplesFor {
				return q, false
			}
		default:
			return q, false
		}
	}
	if l.byNode == nil || len(l.byNode) >= maxLooks {
		l.byNode = map[string]*looked{} // who waits for one that is under way has it
	}
	q = &looked{done: make(chan struct{})}
	l.byNode[node] = q
	return q, true
}

// Samples asks a node for what it has measured lately.
func (c *Core) Samples(ctx context.Context, in op.NodeIn) (view.NodeSamples, error) {
	for {
		q, mine := c.looks.begin(in.Node, c.cfg.Now())
		if mine {
			s, err := inquire[wire.Samples](ctx, c, in.Node, wire.MethodSamples, nil, "",
				"does not show what it has measured")
			if q.err = err; err == nil {
				q.v = view.NodeSamples{Node: in.Node, Samples: *s}
			}
			q.at = c.cfg.Now()
			close(q.done)
			return q.v, q.err
		}
		select {
		case <-q.done:
		case <-ctx.Done():
			return view.NodeSamples{}, ctx.Err()
		}
		if !errors.Is(q.err, context.Canceled) && !errors.Is(q.err, context.DeadlineExceeded) { // who asked has gone
			return q.v, q.err
		}
	}
}
