package health

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"tandem.internal/shared/wire"
)

// check is what is known about one functional check.
type check struct {
	name    string
	ok      bool
	message string
	since   time.Time     // of ok
	heard   time.Duration // monotonic: the newest word, or the start
	ttl     time.Duration
	awaited bool          // not heard in this run
	silent  bool          // heard+ttl has passed
	above   bool          // a value above its limit,
	from    time.Duration // since then
}

func (t *step) check(ev Check) {
	t.hearCheck(ev.Name, ev.OK, ev.Message, ev.TTL, func(*check) {})
}

// sample judges a value: above the limit, for as long as the limit says, the check fails.
func (t *step) sample(ev Sample) {
	var l *wire.HealthLimit
	form := "%.4g, above %.4g"
	switch c := t.settings.Checks; ev.Name {
	case SampleCPU:
		l = c.CPU
	case SampleRAM:
		l = c.RAM
	case SampleDisk:
		l = c.Disk
	case SampleNetwork:
		l, form = c.Network, "%.0f bytes per second, above %.0f"
	default:
		panic("health: no such sample: " + ev.Name)
	}
	old, there := t.find(ev.Name)
	if math.IsNaN(ev.Value) || math.IsInf(ev.Value, 0) { // unknown: without another word it falls silent
		if !there && l != nil {
			t.put(check{name: ev.Name, heard: t.now.Mono, ttl: cmp.Or(max(ev.TTL, 0), defaultTTL), awaited: true,
				since: wall(t.now)})
		}
		return
	}
	above := l != nil && ev.Value > l.Max
	from := t.now.Mono
	if old.above {
		from = old.from
	}
	ok, message := !above || t.now.Mono-from < l.For.Std(), ""
	switch {
	case ok: // what comes and goes below the limit's time is no news: a busy node would tell of it with every sample
	case there && !old.ok && !old.silent && old.above:
		message = old.message // likewise: it stays the value with which it began to fail
	default:
		message = fmt.Sprintf(form, ev.Value, l.Max)
	}
	t.hearCheck(ev.Name, ok, message, ev.TTL, func(c *check) { c.above, c.from = above, from })
}

func (t *step) hearCheck(name string, ok bool, message string, ttl time.Duration, set func(*check)) {
	name = plain(name)
	if name == "" {
		panic("health: a check without a name")
	}
	old, there := t.find(name)
	c := check{name: name, ok: ok, message: plain(message), since: old.since, heard: t.now.Mono, ttl: ttl}
	if ttl <= 0 {
		c.ttl = defaultTTL
	}
	if !there || old.ok != ok || old.awaited {
		c.since = wall(t.now)
	}
	set(&c)
	t.put(c)
	switch was := there && (!old.awaited || old.silent); {
	case !ok && (!was || old.ok):
		t.emit(EventCheckFailed, nil, Detail{Check: name, Text: c.message})
	case ok && was && !old.ok:
		t.emit(EventCheckRecovered, nil, Detail{Check: name})
	}
}

// fresher notices the checks that have fallen silent: the newest word of a dead module is no word.
func (t *step) fresher() {
	for _, c := range t.checks {
		if c.silent || t.now.Mono < c.heard+c.ttl {
			continue
		}
		if c.ok || c.awaited {
			c.since = wall(t.now)
			t.emit(EventCheckFailed, nil, Detail{Check: c.name, Text: fmt.Sprintf("silent for %v", wire.SpanOf(c.ttl))})
		}
		c.ok, c.silent, c.message = false, true, fmt.Sprintf("silent for %v", wire.SpanOf(c.ttl))
		t.put(c)
	}
}

// worse lists the checks that are not good and were not bad in the baseline. A check
// that this version has not been told of yet is not good.
func (s State) worse(b Baseline) (out []check) {
	for _, c := range s.checks {
		if !c.ok && !slices.Contains(b.Failing, c.name) {
			out = append(out, c)
		}
	}
	return out
}

// failing reports whether a check that has been told of is not good.
func (s State) failing() (string, bool) {
	for _, c := range s.checks {
		if !c.ok && (!c.awaited || c.silent) {
			return c.name, true
		}
	}
	return "", false
}

func (s State) place(name string) (int, bool) {
	return slices.BinarySearchFunc(s.checks, name,
		func(c check, name string) int { return strings.Compare(c.name, name) })
}

func (s State) find(name string) (check, bool) {
	if i, ok := s.place(name); ok {
		return s.checks[i], true
	}
	return check{}, false
}

// put replaces the check of this name, or adds it.
func (t *step) put(c check) {
	i, ok := t.place(c.name)
	t.checks = slices.Clone(t.checks)
	if ok {
		t.checks[i] = c
	} else {
		t.checks = slices.Insert(t.checks, i, c)
	}
}

func (t *step) drop(name string) {
	if i, ok := t.place(name); ok {
		t.checks = slices.Delete(slices.Clone(t.checks), i, i+1)
	}
}

// baseline is how the node is in normal operation.
func (s State) baseline() Baseline {
	b := Baseline{Known: s.Baseline.Known, Offline: s.Baseline.Offline}
	switch silent := s.clock()-s.success >= s.settings.Fallback.Std(); {
	case silent:
		b.Known, b.Offline = true, true
	case s.heard:
		b.Known, b.Offline = true, false
	}
	for _, c := range s.checks {
		if c.awaited && !c.silent && slices.Contains(s.Baseline.Failing, c.name) || !c.ok && (!c.awaited || c.silent) {
			b.Failing = append(b.Failing, c.name)
		}
	}
	return b
}
