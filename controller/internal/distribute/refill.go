package distribute

import (
	"context"
	"slices"
	"time"

	"tandem.internal/shared/link"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// compare finds out what the broker retains and puts on the list what is missing or different. A
// broker in this process is asked directly; another one sends what it has when it is subscribed
// to, shard by shard, and the beacon after it tells that all has come.
func (o *outbox) compare(ctx context.Context) error {
	switch l := o.link.(type) {
	case link.Retainer:
		o.mu.Lock()
		all := make([]*slot, 0, len(o.slots))
		for _, s := range o.slots {
			all = append(all, s)
		}
		o.mu.Unlock()
		for _, s := range all {
			if payload, ok := l.Retained(s.topic); ok {
				o.found(s.node, s.kind, payload)
			}
		}
	case link.Subscriber:
		if err := o.collect(ctx, l); err != nil {
			return err
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.slots {
		if !s.dirty && !s.same && s.doc != nil {
			s.dirty = true
			o.dirty = append(o.dirty, s)
		}
	}
	return nil
}

// echoWait bounds the wait for the beacon to come back. What the broker sends later is at worst
// published once more.
const echoWait = 2 * time.Second

// quietWait is after how long without a retained document no more are expected: behind ten thousand
// nodes that come back at once the beacon may be late, or lost with what the broker had no room for.
const quietWait = 300 * time.Millisecond

// shardsAtOnce is how many shards are subscribed to together: few enough that what they retain does
// not burst a broker's queue, enough that a slow link is not crossed 256 times.
const shardsAtOnce = 16

func (o *outbox) collect(ctx context.Context, l link.Subscriber) error {
	var filters []string
	for _, shard := range topic.Shards() {
		filters = append(filters, topic.ShardDesired(o.c.cfg.Unit, shard))
	}
	for some := range slices.Chunk(filters, shardsAtOnce) {
		if err := l.Subscribe(ctx, some...); err != nil {
			return err
		}
	}
	echo := make(chan struct{})
	o.mu.Lock()
	o.echoed = echo
	o.mu.Unlock()
	if err := o.sendPlain(ctx, []link.Publication{o.beacon(true)}); err != nil {
		return err
	}
	if err := o.settle(ctx, echo); err != nil {
		return err
	}
	return l.Unsubscribe(ctx, filters...)
}

// settle waits until what the broker retains has come.
func (o *outbox) settle(ctx context.Context, echo <-chan struct{}) error {
	over := time.After(echoWait)
	for before := -1; ; {
		o.mu.Lock()
		now := o.finds
		o.mu.Unlock()
		if now == before {
			return nil
		}
		before = now
		select {
		case <-echo:
			return nil
		case <-over:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(quietWait):
		}
	}
}

// found compares a retained document with what should be there.
func (o *outbox) found(node string, kind wire.Kind, payload []byte) {
	d, err := wire.Decode[wire.Desired](payload)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finds++
	s := o.slots[slotKey{node, kind}]
	switch {
	case s != nil && s.doc != nil:
		s.same = err == nil && s.doc.Same(d) && o.sealed(d)
	case err == nil && d.Mode == wire.ModeTry:
		// A trial that was withdrawn, perhaps just before a crash: nobody is to begin it now.
		if s == nil {
			s = &slot{slotKey: slotKey{node, kind}, topic: topic.ForNode(o.c.cfg.Unit, node).Desired(kind)}
			o.slots[s.slotKey] = s
		}
		if !s.dirty {
			s.dirty = true
			o.dirty = append(o.dirty, s)
			o.kick()
		}
	}
}

// echo hears the controller's own beacon.
func (o *outbox) echo(payload []byte) {
	b, err := wire.Decode[wire.Beacon](payload)
	if err != nil || !b.Up {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.echoed != nil {
		close(o.echoed)
		o.echoed = nil
	}
}
