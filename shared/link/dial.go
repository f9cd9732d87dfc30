package link

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"tandem.internal/shared/pulse"
)

// Dialled is a Link over MQTT 3.1.1, and a Subscriber. Create it with Dial.
//
// Its Message calls run one goroutine each, as many as the broker leaves unacknowledged (QoS 1)
// or sends (QoS 0), and may come before Up: from the moment that a filter is granted.
type Dialled struct {
	cfg     Config
	addr    address
	handler Handler
	started atomic.Bool
	current atomic.Pointer[session] // nil while no session is up
	calls   sync.WaitGroup          // Message calls
	beat    *pulse.Pulse            // of Run's goroutine
}

var (
	_ Link       = (*Dialled)(nil)
	_ Subscriber = (*Dialled)(nil)
)

// Dial checks cfg and returns a link that connects when it is run.
func Dial(cfg Config, h Handler) (*Dialled, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	d := &Dialled{cfg: cfg, handler: h}
	if cfg.Broker != "" {
		if d.addr, err = parseBroker(cfg.Broker); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// Run implements Link. It returns nil when ctx ends: within two seconds, and as soon as no
// Handler call is left.
func (d *Dialled) Run(ctx context.Context) error {
	if !d.started.CompareAndSwap(false, true) {
		return errRunTwice
	}
	d.beat = d.cfg.Watch.Start("link", max(d.cfg.ConnectTimeout, d.cfg.AckTimeout))
	defer d.beat.End()
	defer d.calls.Wait()
	attempt := 0
	for id := uint64(1); ctx.Err() == nil; id++ {
		lasted := d.session(ctx, id)
		if lasted >= d.cfg.Backoff.ceiling(attempt) {
			attempt = 0
		}
		d.beat.Sleep(ctx, d.cfg.pause(attempt))
		attempt++
	}
	return nil
}

// session makes one attempt and, if it succeeds, keeps the session until it or ctx ends. It
// returns how long the session was up.
func (d *Dialled) session(ctx context.Context, id uint64) time.Duration {
	s, err := d.connect(ctx, id)
	if err != nil {
		if ctx.Err() == nil {
			d.handler.Down(0, err)
		}
		return 0
	}
	start := time.Now()
	d.current.Store(s)
	d.handler.Up(id)
	for up := true; up; {
		d.beat.Beat()
		select {
		case <-s.down:
			up = false
		case <-ctx.Done():
			up = false
		case <-d.beat.C:
		}
	}
	d.current.Store(nil)
	if s.leave(ctx) {
		err = fmt.Errorf("stopped: %w", context.Cause(ctx))
	} else {
		err = s.err
	}
	d.handler.Down(id, err)
	return time.Since(start)
}

// Publish implements Link. Besides ErrDown and ctx's error it returns errors of the message
// itself: a topic that cannot be published to, or a packet larger than MaxPacket.
func (d *Dialled) Publish(ctx context.Context, topic string, payload []byte, retain bool) error {
	if err := CheckTopic(topic); err != nil {
		return err
	}
	if n := publishSize(topic, payload); n > d.cfg.MaxPacket {
		return fmt.Errorf("a packet of %d bytes for topic %.200q exceeds the limit of %d", n, topic, d.cfg.MaxPacket)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s := d.current.Load()
	if s == nil {
		return ErrDown
	}
	_, err := s.publish(ctx, Publication{topic, payload, retain}, s.stop)
	return err
}

// publishSize returns an upper bound of the size of a QoS 1 PUBLISH packet.
func publishSize(topic string, payload []byte) int {
	return 1 + 4 + 2 + len(topic) + 2 + len(payload)
}

// Subscribe implements Subscriber. A filter that the broker refuses is an error; the session
// goes on.
func (d *Dialled) Subscribe(ctx context.Context, filters ...string) error {
	s, err := d.forFilters(ctx, filters)
	if err != nil {
		return err
	}
	return s.subscribe(ctx, filters)
}

// Unsubscribe implements Subscriber.
func (d *Dialled) Unsubscribe(ctx context.Context, filters ...string) error {
	s, err := d.forFilters(ctx, filters)
	if err != nil {
		return err
	}
	return s.unsubscribe(ctx, filters)
}

func (d *Dialled) forFilters(ctx context.Context, filters []string) (*session, error) {
	for _, f := range filters {
		if err := CheckFilter(f); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s := d.current.Load(); s != nil {
		return s, nil
	}
	return nil, ErrDown
}
