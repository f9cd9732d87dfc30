package fault

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"time"
)

// Weather is what a road does to the messages on it. The zero value does nothing. MQTT's other
// packets keep their order and are only delayed.
type Weather struct {
	Repeat  float64       // chance that a PUBLISH comes twice
	Shuffle float64       // chance that a PUBLISH is overtaken by what comes within Spread
	Spread  time.Duration // how much later an overtaken or repeated one comes, at most
	Delay   time.Duration // how long everything takes, at most
}

// Road is the network between one client and its broker: what Open returns goes through it. All
// methods are safe for concurrent use.
type Road struct {
	dial func(context.Context) (net.Conn, error)

	mu      sync.Mutex
	chance  *rand.Rand
	weather Weather
	mixed   bool // messages may have come out of order
	refuse  bool // new connections are refused
	lostUp  bool // what the client sends vanishes
	lostDn  bool // what the broker sends vanishes
	drop    func(fromBroker bool, topic string) bool
	toll    func(fromBroker bool, topic string) error
	relays  map[*relay]struct{}
}

// NewRoad returns a clear road to where dial leads. chance decides what weather does.
func NewRoad(dial func(context.Context) (net.Conn, error), chance *rand.Rand) *Road {
	return &Road{dial: dial, chance: chance, relays: map[*relay]struct{}{}}
}

// Open connects the client to the broker. While the road is lost it waits until ctx ends, as on a
// network that swallows packets.
func (r *Road) Open(ctx context.Context) (net.Conn, error) {
	r.mu.Lock()
	refuse, lost := r.refuse, r.lostUp || r.lostDn
	r.mu.Unlock()
	if lost {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if refuse {
		return nil, syscall.ECONNREFUSED
	}
	far, err := r.dial(ctx)
	if err != nil {
		return nil, err
	}
	near, client := net.Pipe()
	l := newRelay(r, near, far)
	r.mu.Lock()
	r.relays[l] = struct{}{}
	r.mu.Unlock()
	l.start()
	return client, nil
}

// Cut breaks the connections that are open. New ones can be made.
func (r *Road) Cut() {
	for _, l := range r.open() {
		l.sever()
	}
}

// Close cuts the road and refuses new connections until Clear.
func (r *Road) Close() {
	r.mu.Lock()
	r.refuse = true
	r.mu.Unlock()
	r.Cut()
}

// Lose lets vanish what the client sends (up), what the broker sends (down), or both, without a
// word to either.
func (r *Road) Lose(up, down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lostUp, r.lostDn = up, down
}

// Drop lets vanish single messages, by their topic; nil: none.
func (r *Road) Drop(drop func(fromBroker bool, topic string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop = drop
}

// Toll is met by every message before it goes on; with an error it, and the connection, end there.
func (r *Road) Toll(toll func(fromBroker bool, topic string) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.toll = toll
}

// SetWeather changes the weather.
func (r *Road) SetWeather(w Weather) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.weather = w
	r.mixed = r.mixed || w.Shuffle > 0 || w.Repeat > 0
}

// Mixed reports whether messages may have come out of order or late, so that the broker may retain
// an older one than the client sent last.
func (r *Road) Mixed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mixed
}

// Clear ends every fault but the toll. A connection that has lost something breaks.
func (r *Road) Clear() {
	r.mu.Lock()
	r.refuse, r.lostUp, r.lostDn, r.drop, r.weather = false, false, false, nil, Weather{}
	r.mu.Unlock()
	for _, l := range r.open() {
		if l.hasLost() {
			l.sever()
		}
	}
}

// Wait returns when no connection is left.
func (r *Road) Wait() {
	for _, l := range r.open() {
		l.ended.Wait()
	}
}

func (r *Road) open() []*relay {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*relay, 0, len(r.relays))
	for l := range r.relays {
		all = append(all, l)
	}
	return all
}

func (r *Road) forget(l *relay) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.relays, l)
}

// fate decides what becomes of a packet: after which pauses it arrives, once for each.
func (r *Road) fate(p Packet, fromBroker bool) (pauses []time.Duration, lost bool, err error) {
	r.mu.Lock()
	w, toll, drop := r.weather, r.toll, r.drop
	lost = fromBroker && r.lostDn || !fromBroker && r.lostUp
	var base, extra time.Duration
	repeat := false
	if w != (Weather{}) {
		base = r.upTo(w.Delay)
		if p.kind() == typePublish {
			if r.chance.Float64() < w.Shuffle {
				extra = r.upTo(w.Spread)
			}
			repeat = r.chance.Float64() < w.Repeat
		}
	}
	r.mu.Unlock()
	name := p.Topic()
	if name != "" && toll != nil {
		if err := toll(fromBroker, name); err != nil {
			return nil, false, err
		}
	}
	if lost {
		return nil, true, nil
	}
	if name != "" && drop != nil && drop(fromBroker, name) {
		return nil, false, nil
	}
	pauses = []time.Duration{base + extra}
	if repeat {
		r.mu.Lock()
		pauses = append(pauses, base+r.upTo(w.Spread))
		r.mu.Unlock()
	}
	return pauses, false, nil
}

// upTo draws a time; r.mu is held.
func (r *Road) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(r.chance.Int64N(int64(d)))
}
