package link

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"tandem.internal/shared/pulse"
)

// Dialled is a Link over MQTT 3.1.1, and a Subscriber. Create it with Dial.
//
// Each call of Handler.Message has its own goroutine. With QoS 1 the broker limits their number by the messages
// that it leaves unacknowledged; with QoS 0 nothing does. The first call may come before Up, as soon as the broker
// has granted a filter.
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
	_ Cutter     = (*Dialled)(nil)
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

// Run implements Link. It returns nil within two seconds after ctx has ended, but not before the last Handler call
// has returned.
func (d *Dialled) Run(ctx context.Context) error {
	if !d.started.CompareAndSwap(false, true) {
		return errRunTwice
	}
	d.beat = d.cfg.Watch.Start("link", max(d.cfg.ConnectTimeout, d.cfg.AckTimeout))
	defer d.beat.End()
	defer d.calls.Wait()
	attempt, refusals := 0, 0
	for id := uint64(1); ctx.Err() == nil; id++ {
		upTime, err := d.runSession(ctx, id)
		if d.cfg.Backoff.good(upTime, attempt) {
			attempt = 0
		}
		pause := d.cfg.pause(d.cfg.Backoff, attempt)
		attempt++
		if !errors.Is(err, ErrRefused) {
			refusals = 0
		} else {
			pause = d.cfg.pause(d.cfg.Backoff.refused(), refusals)
			refusals++
		}
		d.beat.Sleep(ctx, pause)
	}
	return nil
}

// runSession connects once and, if that succeeds, waits until the session or ctx ends. It returns how long the
// session was up; 0 and why if it never was.
func (d *Dialled) runSession(ctx context.Context, id uint64) (time.Duration, error) {
	s, err := d.connect(ctx, id)
	if err != nil {
		if ctx.Err() == nil {
			d.handler.Down(0, err)
		}
		return 0, err
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
	if s.end() {
		err = fmt.Errorf("stopped: %w", context.Cause(ctx))
	} else {
		err = s.err
	}
	d.handler.Down(id, err)
	return time.Since(start), nil
}

// Cut ends the current session, if there is one, for a reason; the next attempt follows as after any other end.
func (d *Dialled) Cut(why error) {
	if s := d.current.Load(); s != nil {
		s.fail(why)
	}
}

// Publish implements Link. The error is ErrDown, ctx's error, or about the message: a topic that CheckTopic refuses,
// or a packet larger than Config.MaxPacket.
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

// publishSize returns an upper bound, in bytes, of the size of a QoS 1 PUBLISH packet: type and flags, length, topic
// length, topic, packet ID, payload (MQTT 3.1.1, section 3.3).
func publishSize(topic string, payload []byte) int {
	return 1 + 4 + 2 + len(topic) + 2 + len(payload)
}

// Subscribe implements Subscriber. A filter that the broker refuses is an error, and the session goes on.
func (d *Dialled) Subscribe(ctx context.Context, filters ...string) error {
	s, err := d.sessionFor(ctx, filters)
	if err != nil {
		return err
	}
	return s.subscribe(ctx, pulse.None(), filters)
}

// Unsubscribe implements Subscriber.
func (d *Dialled) Unsubscribe(ctx context.Context, filters ...string) error {
	s, err := d.sessionFor(ctx, filters)
	if err != nil {
		return err
	}
	return s.unsubscribe(ctx, filters)
}

// sessionFor checks the filters and returns the current session, or ErrDown.
func (d *Dialled) sessionFor(ctx context.Context, filters []string) (*session, error) {
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
