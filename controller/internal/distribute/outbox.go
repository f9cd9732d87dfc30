package distribute

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/link"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// outbox publishes. It holds what every node should find retained at the broker, and a list of
// those that may differ from it; its goroutine works the list off, always with the newest.
type outbox struct {
	c    *Core
	wake chan struct{}

	mu       sync.Mutex
	link     link.Link
	slots    map[slotKey]*slot
	dirty    []*slot
	asks     []fleet.Ask
	plain    []link.Publication // small messages of the controller's own: answers, status
	kept     map[string]kept    // what outbox topics are to retain, by topic
	epoch    uint64
	session  uint64             // 0: down
	refill   bool               // the session is new: look at what the broker retains
	over     context.CancelFunc // ends the work of the session
	ctx      context.Context
	echoed   chan struct{}   // closed when the broker has sent the beacon back
	beaconed bool            // the broker retained a beacon when this session began
	filled   bool            // an earlier session has published everything
	relive   bool            // when everything is published, nodes are to be heard again
	finds    int             // retained documents that came
	flushed  []chan struct{} // of those who wait until nothing is to be sent

	beaconAt time.Time     // that the newest beacon tells
	spoken   time.Time     // when the newest beacon was made
	greeting bool          // nodes have come online since
	apart    time.Duration // the next is made so long after that, or when it is due
}

type slotKey struct {
	node string
	kind wire.Kind
}

// slot is one desired topic.
type slot struct {
	slotKey
	topic string
	doc   *kind.Doc // nil: nothing is to be retained
	body  []byte    // nil: the journal has it
	dirty bool
	same  bool // found retained in this session as it should be
}

func newOutbox(c *Core) *outbox {
	o := &outbox{c: c, wake: make(chan struct{}, 1), epoch: c.journal.Load().Epoch(), slots: map[slotKey]*slot{},
		kept: c.recall()}
	o.reset(c.desired())
	return o
}

// desired lists what the Fleet wants retained, and where nothing is to be.
func (c *Core) desired() []fleet.Publish {
	byDoc := map[*kind.Doc]*fleet.Publish{}
	var all []*fleet.Publish
	for _, n := range c.fleet.Nodes() {
		for name, k := range n.Kinds {
			if k.Desired == nil {
				continue
			}
			p := byDoc[k.Desired]
			if p == nil {
				p = &fleet.Publish{Kind: name, Doc: k.Desired}
				byDoc[k.Desired] = p
				all = append(all, p)
			}
			p.Nodes = append(p.Nodes, n.Name)
		}
	}
	out := c.fleet.Withdrawn()
	for _, p := range all {
		out = append(out, *p)
	}
	return out
}

// reset replaces everything by what the Fleet wants and looks at the broker again. It does so at one go: the outbox's
// goroutine may be at work, and what it does not find in slots when it looks is not published in this session.
func (o *outbox) reset(all []fleet.Publish) {
	o.mu.Lock()
	clear(o.slots)
	o.dirty = nil
	o.refill = o.session != 0
	o.epoch = o.c.journal.Load().Epoch()
	for _, p := range all {
		o.set(p, false)
	}
	o.mu.Unlock()
	o.kick()
}

func (o *outbox) kick() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// publish takes new documents over.
func (o *outbox) publish(p fleet.Publish) {
	o.mu.Lock()
	o.set(p, true)
	o.mu.Unlock()
	o.kick()
}

// set is called with mu held.
func (o *outbox) set(p fleet.Publish, dirty bool) {
	for _, node := range p.Nodes {
		key := slotKey{node, p.Kind}
		s := o.slots[key]
		if s == nil {
			s = &slot{slotKey: key, topic: topic.ForNode(o.c.cfg.Unit, node).Desired(p.Kind)}
			o.slots[key] = s
		}
		s.doc, s.body, s.same = p.Doc, p.Body, false
		if dirty && !s.dirty {
			s.dirty = true
			o.dirty = append(o.dirty, s)
		}
	}
}

func (o *outbox) ask(a fleet.Ask) {
	silent := o.c.silent()
	o.mu.Lock()
	if o.session != 0 && !silent {
		o.asks = append(o.asks, a)
	}
	o.mu.Unlock()
	o.kick()
}

// send publishes a message, now or in the next session. What an outbox topic is to retain is published again in every
// session to come.
func (o *outbox) send(p link.Publication) {
	o.mu.Lock()
	if p.Retain {
		o.keep(p)
	}
	if i := slices.IndexFunc(o.plain,
		func(old link.Publication) bool { return p.Retain && old.Topic == p.Topic }); i >= 0 && !isAnswer(p.Topic) {
		o.plain[i] = p // what nobody has heard yet is replaced
	} else {
		o.plain = append(o.plain, p)
	}
	o.mu.Unlock()
	o.kick()
}

// isAnswer tells the topics whose every message has a reader of its own.
func isAnswer(name string) bool {
	t, err := topic.Parse(name)
	return err == nil && t.Leaf == topic.Outbox && t.What != statusTopic
}

// holds reports whether messages to a topic are still to be sent that it is not to retain.
func (o *outbox) holds(to string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.plain, func(p link.Publication) bool { return p.Topic == to && !p.Retain })
}

func (o *outbox) isUp() bool { return o.at() != 0 }

// at is the session that there is; 0: none.
func (o *outbox) at() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.session
}

func (o *outbox) setEpoch(epoch uint64) {
	o.mu.Lock()
	o.epoch, o.beaconAt = epoch, time.Time{}
	o.mu.Unlock()
	o.send(o.beacon(true))
}

// Attach gives the Core its link, before Run.
func (c *Core) Attach(l link.Link) { c.outbox.link = l }

func (c *Core) up(session uint64) {
	o := c.outbox
	o.mu.Lock()
	o.session, o.refill = session, true
	o.ctx, o.over = context.WithCancel(context.Background())
	for _, s := range o.slots {
		s.same = false
	}
	o.mu.Unlock()
	c.setRoad(true, "")
	o.kick()
	c.report.whole()
}

func (c *Core) down(session uint64, err error) {
	o := c.outbox
	o.mu.Lock()
	was := o.session
	o.beaconed = false // not in up: the next session's messages may come before that
	if session != 0 {
		o.session, o.refill, o.asks = 0, false, nil
		if o.over != nil {
			o.over()
		}
	}
	o.mu.Unlock()
	c.setRoad(false, err.Error())
	if was != 0 && session != 0 {
		lost := err.Error()
		if errors.Is(err, context.Canceled) {
			lost = record.LostByStop
		}
		c.queue.put(item{event: fleet.Opened{Version: c.cfg.Version, Lost: lost}}, nil)
	}
}

// run is the outbox's goroutine.
func (o *outbox) run(ctx context.Context) {
	beat := time.NewTicker(o.c.cfg.Beacon)
	defer beat.Stop()
	greet := time.NewTimer(0)
	defer greet.Stop()
	for {
		if at, ok := o.greetAt(); ok {
			greet.Reset(max(0, time.Until(at)))
		}
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			if o.c.silent() {
				continue
			}
			if b := o.beacon(true); o.isUp() {
				o.send(b)
			}
		case <-o.wake:
			o.work(ctx)
		case <-greet.C:
			o.work(ctx)
		}
	}
}

// work publishes until there is nothing left or the session ends.
func (o *outbox) work(ctx context.Context) {
	for ctx.Err() == nil && !o.c.silent() {
		o.mu.Lock()
		if o.session == 0 {
			o.mu.Unlock()
			return
		}
		session, refill, asks, plain, relive := o.ctx, o.refill, o.asks, o.plain, o.relive
		flushed := o.flushed
		greet := o.greeting && !time.Now().Before(o.spoken.Add(o.apart)) && !refill // which begins with one
		o.refill, o.asks, o.plain = false, nil, nil
		var docs []document
		var first []link.Publication
		if refill {
			first = o.opening(plain)
		} else {
			docs = o.takeDirty()
		}
		o.mu.Unlock()
		if greet {
			plain = append(plain, o.beacon(true))
		}
		var err error
		switch {
		case refill:
			err = o.fill(session, first)
			o.putAsks(asks)
		case len(asks)+len(docs)+len(plain) == 0 && relive:
			o.mu.Lock()
			o.relive = false
			o.mu.Unlock()
			err = o.hearAgain(session)
		case len(asks)+len(docs)+len(plain) == 0:
			o.empty(flushed)
			return
		default:
			if err = o.sendPlain(session, plain); err == nil {
				if err = o.sendDocs(session, docs); err == nil {
					err = o.sendAsks(session, asks)
				}
			}
		}
		if err != nil {
			o.mu.Lock()
			o.plain = append(plain, o.plain...)
			o.mu.Unlock()
		}
		if err != nil && session.Err() == nil {
			// The session lives but does not take messages: what was taken from the list is
			// found missing by looking at the broker again.
			o.c.cfg.Log.Warn("publishing to the broker", zap.Error(err))
			o.mu.Lock()
			o.refill = o.session != 0
			o.mu.Unlock()
			select {
			case <-session.Done():
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
}

// empty lets those go who waited already when nothing was to be sent: who came later may have brought something.
func (o *outbox) empty(flushed []chan struct{}) {
	o.mu.Lock()
	o.flushed = o.flushed[len(flushed):]
	o.mu.Unlock()
	for _, ch := range flushed {
		close(ch)
	}
}

// Flushed returns when everything that was to be published at the time of the call, documents above
// all, is on its way to the broker: at once in quiet times, in the next session when there is none.
func (c *Core) Flushed(ctx context.Context) error {
	o, ch := c.outbox, make(chan struct{})
	o.mu.Lock()
	o.flushed = append(o.flushed, ch)
	o.mu.Unlock()
	o.kick()
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("documents are still to be published: %w", ctx.Err())
	}
}

func (o *outbox) putAsks(asks []fleet.Ask) {
	o.mu.Lock()
	o.asks = append(asks, o.asks...)
	o.mu.Unlock()
}
