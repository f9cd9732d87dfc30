package enrol

import (
	"net/netip"
	"time"

	"tandem.internal/controller/internal/record"
)

// A refusal is journaled if this budget has room, else counted into the next one that is: guessing
// must not fill the disk.
const (
	refusalBurst = 32
	refusalEvery = 10 * time.Second
)

// throttle lets a burst through, then one at a time.
type throttle struct {
	bucket bucket
	held   int
}

// refusal adds the record to a refusing decision.
func (s *State) refusal(now time.Time, d Decision, subject, from string) Decision {
	if d.Err == nil {
		return d
	}
	if !s.refusals.bucket.take(now, refusalBurst, refusalEvery) {
		s.refusals.held++
		return d
	}
	d.Record = record.JoinRefusedData{Subject: subject, From: from, Error: d.Err, Count: 1 + s.refusals.held}
	s.refusals.held = 0
	return d
}

// bucket holds the right to do something; it fills by one every so often.
type bucket struct {
	level int
	at    time.Time // when level was true
	begun bool
}

func (b *bucket) refill(now time.Time, size int, every time.Duration) {
	if !b.begun || now.Before(b.at) { // the clock went back: begin anew rather than wait for it
		if !b.begun {
			b.level = size
		}
		b.at, b.begun = now, true
		return
	}
	n := int(min(int64(now.Sub(b.at)/every), int64(size)))
	b.level = min(size, b.level+n)
	if b.level == size {
		b.at = now
	} else {
		b.at = b.at.Add(time.Duration(n) * every)
	}
}

func (b *bucket) take(now time.Time, size int, every time.Duration) bool {
	if b.refill(now, size, every); b.level == 0 {
		return false
	}
	b.level--
	return true
}

// The limits on attempts to join, of which those that succeed are given back.
const (
	addressBurst = 10
	addressEvery = 30 * time.Second
	allBurst     = 200
	allEvery     = 20 * time.Millisecond
	maxAddresses = 4096
	sweepEvery   = time.Second
)

// Limiter bounds attempts to join that fail: ten at once and then two a minute from one address
// (IPv6: one network of 64 bits), two hundred at once and then fifty a second from everywhere. It
// is not part of the state: with secrets of 128 bits it guards the processor and the log, not the
// secrets. The zero value is ready. It belongs to one goroutine, or to a lock.
type Limiter struct {
	all   bucket
	from  map[netip.Prefix]*bucket
	crowd bucket // for addresses that there is no room to tell apart
	swept time.Time
}

// Take asks to make an attempt. If it may not be made, wait is when to ask again.
func (l *Limiter) Take(now time.Time, from netip.Addr) (wait time.Duration, ok bool) {
	b := l.bucket(now, Network(from))
	if !b.take(now, addressBurst, addressEvery) {
		return max(time.Second, b.at.Add(addressEvery).Sub(now)), false
	}
	if !l.all.take(now, allBurst, allEvery) {
		b.level++
		return time.Second, false
	}
	return 0, true
}

// Return gives an attempt back that succeeded.
func (l *Limiter) Return(from netip.Addr) {
	if b, ok := l.from[Network(from)]; ok && b.level < addressBurst {
		b.level++
	}
	if l.all.level < allBurst {
		l.all.level++
	}
}

// Network is what an address counts as where strangers are bounded: an IPv6 address as its network of 64
// bits, since whoever has one has all of it; what is no address as the zero Prefix.
func Network(a netip.Addr) netip.Prefix {
	a = a.Unmap()
	bits := 32
	if a.Is6() {
		bits = 64
	}
	p, err := a.WithZone("").Prefix(bits)
	if err != nil {
		return netip.Prefix{} // no address: all of those are one
	}
	return p
}

func (l *Limiter) bucket(now time.Time, p netip.Prefix) *bucket {
	if b := l.from[p]; b != nil {
		return b
	}
	if l.from == nil {
		l.from = map[netip.Prefix]*bucket{}
	}
	if len(l.from) >= maxAddresses {
		if now.Sub(l.swept).Abs() < sweepEvery {
			return &l.crowd
		}
		l.swept = now
		for q, b := range l.from { // those that have been quiet for long enough are as good as new
			if b.refill(now, addressBurst, addressEvery); b.level == addressBurst {
				delete(l.from, q)
			}
		}
		if len(l.from) >= maxAddresses {
			return &l.crowd
		}
	}
	b := &bucket{}
	l.from[p] = b
	return b
}
