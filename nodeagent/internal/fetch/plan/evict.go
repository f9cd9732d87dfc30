package plan

import (
	"cmp"
	"sort"
	"strconv"
	"time"
)

// The pauses before an address is tried again: the first, doubled with every failure in a row up to
// the second, shortened by up to a half at random. What comes and is wrong has cost the whole way, so
// it is not fetched again as soon.
const (
	passingMin = time.Second
	passingMax = 10 * time.Minute
	wrongMin   = time.Minute
	wrongMax   = 6 * time.Hour
)

func backoff(n int, least, most time.Duration, chance float64) time.Duration {
	d := most
	if n < 20 {
		d = min(d, least<<max(n-1, 0))
	}
	return d - time.Duration(chance*float64(d)/2)
}

// order is that in which copies that nobody wants are given up: those first that were used on
// the earliest day (UTC), of one day the smallest first, for they cost least to fetch again
// (seed 004, cached).
func order(a, b Copy) int {
	return cmp.Or(cmp.Compare(day(a.Used), day(b.Used)), cmp.Compare(a.Size, b.Size), cmp.Compare(a.Key, b.Key))
}

func day(t time.Time) int64 {
	const seconds = 24 * 60 * 60
	d := t.Unix() / seconds
	if t.Unix() < 0 {
		d-- // a clock before 1970 is a clock all the same
	}
	return d
}

// evictable reports whether a copy may be given up for room.
func (it item) evictable() bool { return it.held && !it.wanted && it.busy == opNone && it.spare() }

// spare reports whether a copy stays although it is not wanted.
func (it item) spare() bool { return it.copy.Cached || it.kept }

func (s State) evictable() []Copy {
	var all []Copy
	for _, it := range s.items {
		if it.evictable() {
			all = append(all, it.copy)
		}
	}
	// a generic sort would be 15 KB of the agent
	sort.Slice(all, func(i, j int) bool { return order(all[i], all[j]) < 0 })
	return all
}

// leaving is how many bytes are being given up already.
func (s State) leaving() int64 {
	var n int64
	for _, it := range s.items {
		if it.held && it.busy == opRemove {
			n += it.copy.Size
		}
	}
	return n
}

// giveUp removes copies until need bytes more are free, and says whether they will be. If all that
// may go is not enough, nothing goes.
func (t *step) giveUp(need int64) bool {
	need -= t.leaving()
	sum := int64(0)
	for _, c := range t.evictable() {
		sum += c.Size
	}
	if need > sum {
		return false
	}
	t.remove(need)
	return true
}

// giveUpSome removes what there is of copies until need bytes more are free.
func (t *step) giveUpSome(need int64) { t.remove(need - t.leaving()) }

func (t *step) remove(need int64) {
	for _, c := range t.evictable() {
		if need <= 0 {
			return
		}
		need -= c.Size
		it := t.items[c.Key]
		it.busy = opRemove
		t.items[c.Key] = it
		t.do(Remove{Key: c.Key})
	}
}

// bytes writes a number of bytes for people.
func bytes(n int64) string {
	const unit = 1 << 20
	if n < 10*unit {
		return strconv.FormatInt(n, 10) + " bytes"
	}
	return strconv.FormatInt(n/unit, 10) + " MiB"
}
