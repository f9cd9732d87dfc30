package door

import (
	"net/netip"
	"time"

	"tandem.internal/shared/flow"
)

// The limits on attempts to get in, of which those that succeed are given back.
var (
	ofAddress = flow.Rate{Burst: 10, Every: 30 * time.Second}
	ofAll     = flow.Rate{Burst: 200, Every: 20 * time.Millisecond}
)

const (
	maxAddresses = 4096
	sweepEvery   = time.Second
)

// Limiter bounds attempts to get in that fail: ten at once and then two a minute from one address
// (IPv6: one network of 64 bits), two hundred at once and then fifty a second from everywhere. With
// secrets of 128 bits it guards the processor and the log, not the secrets. The zero value is ready.
// It belongs to one goroutine, or to a lock.
type Limiter struct{ LimiterOf[netip.Prefix] }

// Take asks to make an attempt. If it may not be made, wait is when to ask again.
func (l *Limiter) Take(now time.Time, from netip.Addr) (wait time.Duration, ok bool) {
	return l.LimiterOf.Take(now, Network(from))
}

// Return gives an attempt back that succeeded. One of an address without a bucket of its own was the crowd's.
func (l *Limiter) Return(from netip.Addr) { l.LimiterOf.Return(Network(from)) }

// LimiterOf is a Limiter that tells apart by something else than addresses, such as who somebody has proved to be.
type LimiterOf[K comparable] struct {
	all   flow.Bucket
	from  map[K]*flow.Bucket
	crowd flow.Bucket // for those that there is no room to tell apart
	swept time.Time
}

// Take asks to make an attempt. If it may not be made, wait is when to ask again.
func (l *LimiterOf[K]) Take(now time.Time, who K) (wait time.Duration, ok bool) {
	b := l.bucket(now, who)
	if !b.Take(now, ofAddress) {
		return max(time.Second, b.Next(ofAddress, 1).Sub(now)), false
	}
	if !l.all.Take(now, ofAll) {
		b.Return(ofAddress)
		return time.Second, false
	}
	return 0, true
}

// Return gives an attempt back that succeeded.
func (l *LimiterOf[K]) Return(who K) {
	b := l.from[who]
	if b == nil {
		b = &l.crowd
	}
	b.Return(ofAddress)
	l.all.Return(ofAll)
}

func (l *LimiterOf[K]) bucket(now time.Time, who K) *flow.Bucket {
	if b := l.from[who]; b != nil {
		return b
	}
	if l.from == nil {
		l.from = map[K]*flow.Bucket{}
	}
	if len(l.from) >= maxAddresses {
		if now.Sub(l.swept).Abs() < sweepEvery {
			return &l.crowd
		}
		l.swept = now
		for q, b := range l.from { // those that have been quiet for long enough are as good as new
			if b.Full(now) {
				delete(l.from, q)
			}
		}
		if len(l.from) >= maxAddresses {
			return &l.crowd
		}
	}
	b := &flow.Bucket{}
	l.from[who] = b
	return b
}
