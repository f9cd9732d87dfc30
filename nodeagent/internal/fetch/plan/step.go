package plan

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"tandem.internal/shared/wire"
)

// fetched: a copy has come into its place.
func (t *step) fetched(ev Fetched) {
	it := t.answered(ev.Copy.Key, opFetch)
	it.copy, it.held, it.partial, it.stop, it.err = ev.Copy, true, false, false, nil
	it.have, it.best, it.fulls, it.full, it.doubted, it.url, it.late = 0, 0, 0, false, false, "", false
	clear(t.renewed(&it))
	if it.wanted {
		it = t.adopt(it)
	}
	t.items[ev.Copy.Key] = it
}

// renewed gives it tries of its own, to be changed.
func (t *step) renewed(it *item) []try {
	it.tries = slices.Clone(it.tries)
	return it.tries
}

// failed: a fetch has ended otherwise.
func (t *step) failed(ev Failed) {
	it := t.answered(ev.Key, opFetch)
	url := it.url
	it.partial, it.stop, it.url = true, false, ""
	it.have = ev.Have
	forward := ev.Have > it.best
	it.best = max(it.best, ev.Have)
	tries := t.renewed(&it)
	i := slices.Index(it.spec.URLs, url)
	if i >= 0 {
		tries[i].turn = ev.Kind == Later
	}
	switch {
	case ev.Kind == Stopped:
	case ev.Kind == Full:
		it.err = ev.Err
		it.fulls++
		it.full = true
		it.roomAt = t.now.At.Add(backoff(it.fulls, passingMin, passingMax, t.now.Chance))
		if i >= 0 && ev.Total > it.spec.Size {
			// It may take that much, or lie: another address is asked first.
			tries[i].total = ev.Total
			tries[i].fails++
		}
	case i < 0:
		it.err = ev.Err // the address is not wanted any more
	case ev.Kind == Later:
		it.err = ev.Err
		tries[i].at = t.now.At.Add(ev.After)
	case ev.Kind == Wrong && ev.Resumed && !it.doubted:
		it.err, it.doubted = ev.Err, true // what was there before may be to blame: once again, from the start
	case ev.Kind == Wrong:
		it.err = ev.Err
		tries[i].fails++
		tries[i].wrong++
		tries[i].at = t.now.At.Add(backoff(tries[i].wrong, wrongMin, wrongMax, t.now.Chance))
	case ev.Kind == Never:
		it.err = ev.Err
		for i := range tries {
			tries[i].fails++
			tries[i].at = t.now.At.Add(wrongMax)
		}
	default:
		if !it.waits(t.now.At) { // else that is what it is about
			it.err = ev.Err
		}
		if forward {
			tries[i].fails = 0
		}
		tries[i].fails++
		tries[i].at = t.now.At.Add(backoff(tries[i].fails, passingMin, passingMax, t.now.Chance))
	}
	if it.late {
		t.afresh(&it)
	}
	it.late = false
	t.items[ev.Key] = it
}

// afresh has what waits after a failure tried again at once.
func (t *step) afresh(it *item) {
	clear(t.renewed(it))
	it.fulls, it.roomAt, it.removeAt, it.checkAt = 0, time.Time{}, time.Time{}, time.Time{}
}

func (t *step) checked(ev Checked) {
	it := t.answered(ev.Key, opCheck)
	switch ev.Outcome {
	case Sound:
		it.held, it.found, it.checkAt = true, false, time.Time{}
		it.copy.Size, it.copy.Sum, it.copy.Checked = ev.Copy.Size, ev.Copy.Sum, t.now.At
		it.copy.Digest = ev.Copy.Digest
		if it.wanted {
			it.err = nil
			it = t.adopt(it)
		}
		t.save(it)
	case Damaged:
		it.err = ev.Err
		if it.held {
			it.repaired++
		}
		it.held, it.found, it.partial = false, false, true
		it.busy = opRemove
		t.do(Remove{Key: ev.Key})
	case Unsure:
		it.checkAt = t.now.At.Add(checkAgain)
		if it.found {
			it.err = ev.Err
			it.checkAt = t.now.At.Add(lookAgain)
		}
	}
	t.items[ev.Key] = it
}

func (t *step) removed(ev Removed) {
	it := t.answered(ev.Key, opRemove)
	it.held, it.found, it.have = false, false, 0
	if ev.Err != nil {
		it.err, it.partial = ev.Err, true
		it.removeAt = t.now.At.Add(removeAgain)
		t.items[ev.Key] = it
		return
	}
	it.partial, it.removeAt = false, time.Time{}
	t.items[ev.Key] = it
	if !it.wanted {
		delete(t.items, ev.Key)
	} else {
		t.want(t.wanted, t.keep) // what a uuid stands for depends on what there is
	}
	// There is more room now: whoever waits for it tries again.
	for k, it := range t.items {
		it.roomAt, it.full = time.Time{}, false
		t.items[k] = it
	}
}

// decide asks for everything that is due and not asked for yet.
func (t *step) decide() {
	if !t.known {
		return
	}
	for _, k := range t.keys() {
		it := t.items[k]
		it.copy.Checked, it.copy.Used = earlier(it.copy.Checked, t.now.At), earlier(it.copy.Used, t.now.At)
		switch {
		case it.busy == opFetch && !it.wanted && !it.stop:
			it.stop = true
			t.do(Cancel{Key: k})
		case it.busy != opNone:
		case !it.wanted && !(it.held && it.spare()) && !t.now.At.Before(it.removeAt):
			it.busy = opRemove
			t.do(Remove{Key: k})
		case it.wanted && it.held && t.now.At.Sub(it.copy.Used) >= usedBeat:
			it.copy.Used = t.now.At
			t.save(it)
		}
		t.items[k] = it
	}
	t.check()
	t.fetch()
}

// earlier keeps a time that was saved from lying in the future, where a clock that was set back put it.
func earlier(a, b time.Time) time.Time {
	if a.After(b) {
		return b
	}
	return a
}

// checkDue is when a copy that is held is to be checked again.
func (it item) checkDue() (time.Time, bool) {
	if it.spec.Period <= 0 {
		return time.Time{}, false
	}
	at := it.copy.Checked.Add(it.spec.Period)
	if it.checkAt.After(at) {
		at = it.checkAt
	}
	return at, true
}

// check lets one copy at a time be checked: first those that wait for it, then the one that has
// been due for longest.
func (t *step) check() {
	var next Key
	var nextAt time.Time
	urgent := false
	for _, k := range t.keys() {
		it := t.items[k]
		if it.busy == opCheck {
			return
		}
		if it.busy != opNone || !it.wanted || urgent {
			continue
		}
		at, ok := it.checkAt, it.found
		if it.held {
			at, ok = it.checkDue()
		}
		if !ok || at.After(t.now.At) || next != "" && !it.found && !at.Before(nextAt) {
			continue
		}
		next, nextAt, urgent = k, at, it.found
	}
	if next == "" {
		return
	}
	it := t.items[next]
	it.busy = opCheck
	t.items[next] = it
	c := it.copy
	if it.spec.Sum != "" {
		c.Sum = it.spec.Sum
	}
	t.do(Check{Copy: c, Urgent: urgent})
}

// nextTry is when it may be fetched again; zero: at once.
func (it item) nextTry() time.Time {
	var at time.Time
	for i, y := range it.tries {
		if i == 0 || y.at.Before(at) {
			at = y.at
		}
	}
	for _, other := range []time.Time{it.roomAt, it.removeAt} {
		if other.After(at) {
			at = other
		}
	}
	return at
}

// fetch lets wanted copies be fetched, as many as may be at a time, those first that failed least.
func (t *step) fetch() {
	room := t.now.Room
	running := 0
	var due []Key
	for _, k := range t.keys() {
		it := t.items[k]
		if it.busy == opFetch {
			running++
		}
		if it.wanted && !it.held && !it.found && it.busy == opNone && len(it.tries) > 0 &&
			!it.nextTry().After(t.now.At) || it.full {
			due = append(due, k)
		}
	}
	sort.SliceStable(due, func(i, j int) bool { // a generic sort would make the agent larger
		x, y := t.items[due[i]], t.items[due[j]]
		return cmp.Or(cmp.Compare(x.fails(), y.fails()), cmp.Compare(x.spec.order, y.spec.order)) < 0
	})
	for _, k := range due {
		it := t.items[k]
		pick := it.pick(t.now.At)
		switch need := max(it.reserve(pick)-it.have, 0) + it.spec.Plain + it.spec.Extra; {
		case !it.wanted || it.held:
			it.full = false
		case it.full:
			// It ran out of room. How much it takes is known, or one copy after another goes.
			if need <= 0 {
				need = room + t.leaving() + 1
			}
			it.full = false
			if need > room && t.giveUp(need-room) {
				room -= need
				it.roomAt = t.now.At.Add(lookAgain) // or as soon as something is gone
			}
		case running >= t.parallel:
		case need > 0 && need > room:
			it.roomAt = t.now.At.Add(lookAgain)
			it.err = NoRoom(need, room)
			if t.giveUp(need - room) {
				room -= need
			}
		default:
			room -= need
			running++
			t.begin(&it, pick)
		}
		t.items[k] = it
	}
	t.lookAt = time.Time{}
	if t.now.Room < 0 {
		t.giveUpSome(-t.now.Room)
	}
	for _, it := range t.items {
		if it.evictable() {
			t.lookAt = t.now.At.Add(lookAgain)
		}
	}
}

// reserve is how many bytes a copy is known to take when it comes from address i; 0: not known.
func (it item) reserve(i int) int64 {
	if i < 0 {
		return it.spec.Size
	}
	return max(it.spec.Size, it.tries[i].total)
}

// waits reports whether an address sends to others first.
func (it item) waits(now time.Time) bool {
	return slices.ContainsFunc(it.tries, func(y try) bool { return y.turn && y.at.After(now) })
}

// pick is the address that failed least of those that are due; -1 if there is none.
func (it item) pick(now time.Time) int {
	best := -1
	for i, y := range it.tries {
		if !y.at.After(now) && (best < 0 || y.fails < it.tries[best].fails) {
			best = i
		}
	}
	return best
}

func (it item) fails() int {
	n := 0
	for i, y := range it.tries {
		if i == 0 || y.fails < n {
			n = y.fails
		}
	}
	return n
}

func (t *step) begin(it *item, pick int) {
	it.url, it.busy, it.partial = it.spec.URLs[pick], opFetch, true
	t.do(Fetch{Key: it.spec.Key, URL: it.url, Sum: it.spec.Sum, Reserve: it.reserve(pick),
		Plain: it.spec.Plain, Extra: it.spec.Extra, Encrypted: it.spec.Encrypted,
		Copy: Copy{Key: it.spec.Key, Cached: it.spec.Cached, UUIDs: together(nil, it.spec.UUIDs), Used: t.now.At,
			Checked: t.now.At}})
}

// NoRoom says that so many bytes have no room.
func NoRoom(need, room int64) *wire.Error {
	return wire.New(wire.CodeStorage, "", "there is no room for "+bytes(need)+" more: "+bytes(max(room, 0))+
		" may be taken. Free space on the node, or let it keep less free")
}
