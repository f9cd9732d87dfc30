package distribute

import (
	"context"
	"slices"
	"time"

	"tandem.internal/shared/link"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// fill begins a session: it says what every session says first, and puts on the list the documents
// that the broker may not retain.
func (o *outbox) fill(ctx context.Context, plain []link.Publication) error {
	o.mu.Lock()
	filled := o.filled
	o.mu.Unlock()
	dialled, ok := o.link.(link.Subscriber)
	wiped := false
	var err error
	if first := append([]link.Publication{o.beacon(true)}, plain...); ok && filled {
		wiped, err = o.wiped(ctx, dialled, first)
	} else {
		err = o.sendPlain(ctx, first)
	}
	if err == nil && !wiped {
		err = o.compare(ctx)
	}
	if err == nil {
		err = o.sendPlain(ctx, o.unfound())
	}
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.filled, o.relive = true, wiped
	for _, s := range o.slots {
		if !s.dirty && !s.same && s.doc != nil {
			s.dirty = true
			o.dirty = append(o.dirty, s)
		}
	}
	return nil
}

// wiped publishes the beacon, and what comes with it, and reports whether the broker has come back empty: it had no
// beacon retained, although earlier sessions of this process left one. Then everything is to be published, and looking
// for what is there would only put it off, while thousands of nodes come back. A broker answers the question before it
// sends the beacon back; one that does not send it in time is looked at. Should an answer be lost all the same, then
// what nodes have already is published once more.
func (o *outbox) wiped(ctx context.Context, l link.Subscriber, first []link.Publication) (bool, error) {
	if err := l.Subscribe(ctx, topic.ForController(o.c.cfg.Unit)); err != nil { // again: it sends what it retains
		return false, err
	}
	echo := o.expectEcho()
	if err := o.sendPlain(ctx, first); err != nil {
		return false, err
	}
	select {
	case <-echo:
	case <-time.After(echoWait):
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if o.hasBeacon() {
		return false, nil
	}
	select {
	case <-time.After(handling):
	case <-ctx.Done():
		return false, ctx.Err()
	}
	return !o.hasBeacon(), nil
}

// hasBeacon reports whether the broker retained a beacon when this session began.
func (o *outbox) hasBeacon() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.beaconed
}

// hearAgain asks a broker that came back empty for what it now retains of who is there. Documents are
// published while thousands of nodes return, and what a broker has no room for on the way to the
// controller it drops; a node whose every word is lost would be missed until its next beat, a minute
// away.
func (o *outbox) hearAgain(ctx context.Context) error {
	l, ok := o.link.(link.Subscriber)
	if !ok {
		return nil
	}
	for shards := range slices.Chunk(topic.Shards(), shardsAtOnce) {
		var filters []string
		for _, shard := range shards {
			filters = append(filters, topic.ShardFilters(o.c.cfg.Unit, shard)[0]) // live
		}
		if err := l.Subscribe(ctx, filters...); err != nil { // they are subscribed to, and stay so
			return err
		}
	}
	return nil
}

// handling is how long a message may take through this process: the retained beacon, which came
// first, is handled beside the one that was sent back.
const handling = 20 * time.Millisecond

// expectEcho returns a channel that is closed when the broker sends back a beacon that is published
// from now on.
func (o *outbox) expectEcho() <-chan struct{} {
	echo := make(chan struct{})
	o.mu.Lock()
	defer o.mu.Unlock()
	o.echoed = echo
	return echo
}

// compare finds out what the broker retains. A broker in this process is asked directly; another one
// sends what it has when it is subscribed to, shard by shard, and the beacon after it tells that all
// has come.
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
		return o.collect(ctx, l)
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
	filters := []string{topic.ForOutbox(o.c.cfg.Unit, "+")}
	for _, shard := range topic.Shards() {
		filters = append(filters, topic.ShardDesired(o.c.cfg.Unit, shard))
	}
	for some := range slices.Chunk(filters, shardsAtOnce) {
		if err := l.Subscribe(ctx, some...); err != nil {
			return err
		}
	}
	echo := o.expectEcho()
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

// found compares a retained document with what should be there; nil stands for one that is too long.
func (o *outbox) found(node string, kind wire.Kind, payload []byte) {
	d, err := wire.Decode[wire.Desired](payload)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finds++
	s := o.slots[slotKey{node, kind}]
	switch {
	case s != nil && s.doc != nil:
		s.same = err == nil && s.doc.Same(d) && o.sealed(d)
	case s != nil, payload == nil, err == nil && d.Mode == wire.ModeTry:
		// Nothing is to be there. A trial was withdrawn, perhaps just before a crash: nobody is to begin it now. What
		// is too long is nothing that a node could take, and would come again in every session.
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

// echo hears the controller's own beacon, or the last will in its place.
func (o *outbox) echo(payload []byte, retained bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if retained {
		o.beaconed = true
		return
	}
	b, err := wire.Decode[wire.Beacon](payload)
	if err == nil && b.Up && o.echoed != nil {
		close(o.echoed)
		o.echoed = nil
	}
}
