package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// world is a shell, a disk and some servers for the properties. What is asked for may take its time
// and end in any way.
type world struct {
	t        *rapid.T
	state    State
	now      time.Time
	asked    map[Key]Effect // not answered
	disk     map[Key]Copy   // in place, verified
	parts    map[Key]int64
	reserved map[Key]int64
	total    int64 // bytes that the file system has for us
	wanted   []workload.Artifact
	known    bool
	sizes    map[string]int64 // real sizes, by URL
	steps    int
}

func (w *world) room() int64 {
	n := w.total
	for _, c := range w.disk {
		n -= c.Size
	}
	for _, p := range w.parts {
		n -= p
	}
	for _, r := range w.reserved {
		n -= r
	}
	return n
}

func (w *world) step(ev Event) {
	w.t.Helper()
	if w.steps++; w.steps > 5000 {
		w.t.Fatal("steps without end")
	}
	before := w.state
	room := w.room()
	state, effects := w.state.Step(Now{At: w.now, Chance: 0.5, Room: room}, ev)
	w.state = state
	var leaving []Copy
	room0 := room
	for _, e := range effects {
		switch e := e.(type) {
		case Fetch:
			w.ask(e.Key, e)
			if _, there := w.disk[e.Key]; there {
				w.t.Fatalf("%s is fetched and there", e.Key)
			}
			if !w.wants(e.Key) {
				w.t.Fatalf("%s is fetched and not wanted", e.Key)
			}
			need := max(e.Reserve-w.parts[e.Key], 0)
			if need > 0 && need > w.room() {
				w.t.Fatalf("%s: %d bytes are reserved of %d", e.Key, need, w.room())
			}
			if e.Sum != "" && e.Sum != e.Key.sum() || e.Sum == "" && !strings.HasPrefix(string(e.Key), uuidPrefix) {
				w.t.Fatalf("%s is to have %q", e.Key, e.Sum)
			}
			w.reserved[e.Key] = need
			room0 -= need
		case Check:
			w.ask(e.Copy.Key, e)
		case Remove:
			w.ask(e.Key, e)
			if !w.known {
				w.t.Fatalf("%s is removed before anything is known", e.Key)
			}
			if c, there := w.disk[e.Key]; there {
				checked, ok := ev.(Checked)
				damaged := ok && checked.Key == e.Key
				if w.wants(e.Key) && !damaged {
					w.t.Fatalf("%s is removed and wanted", e.Key)
				}
				if c.Cached && !w.wants(e.Key) && !damaged {
					leaving = append(leaving, state.items[e.Key].copy)
				}
			}
		case Cancel:
			if _, ok := w.asked[e.Key].(Fetch); !ok || w.wants(e.Key) {
				w.t.Fatalf("%s is cancelled; wanted: %v", e.Key, w.wants(e.Key))
			}
		case Save:
			if c, there := w.disk[e.Copy.Key]; !there || c.Size != e.Copy.Size {
				w.t.Fatalf("%+v is saved and not there", e.Copy)
			}
			w.disk[e.Copy.Key] = e.Copy
		}
	}
	w.order(before, leaving, room0)
	fetches := 0
	for _, e := range w.asked {
		if _, ok := e.(Fetch); ok {
			fetches++
		}
	}
	if fetches > 2 {
		w.t.Fatalf("%d fetches at a time", fetches)
	}
	if at, ok := w.state.NextDeadline(); ok && !at.After(w.now) {
		w.t.Fatalf("the deadline %v is over", at)
	}
}

// order holds that what was given up comes first in the order of Less, and that no more was given
// up than somebody needed.
func (w *world) order(before State, leaving []Copy, room int64) {
	for _, c := range leaving {
		for k := range w.disk {
			there := w.state.items[k].copy
			_, asked := w.asked[k]
			if !asked && !w.wants(k) && there.Cached && order(there, c) < 0 {
				w.t.Fatalf("%+v is given up before %+v", c, there)
			}
		}
	}
	if len(leaving) == 0 || !before.known {
		return
	}
	need, unknown := -room, false
	for _, it := range w.state.items {
		if it.wanted && !it.held && it.busy == opNone {
			need += max(it.spec.Size, most(it.tries))
			unknown = unknown || it.reserve(-1) == 0
		}
	}
	slices.SortFunc(leaving, order)
	sum := room
	for _, c := range leaving[:len(leaving)-1] {
		sum += c.Size
	}
	if !unknown && sum-room >= need && need > 0 {
		w.t.Fatalf("%d copies are given up, and one less would have made the %d bytes", len(leaving), need)
	}
}

func most(tries []try) int64 {
	n := int64(0)
	for _, y := range tries {
		n = max(n, y.total)
	}
	return n
}

func (w *world) ask(k Key, e Effect) {
	if other, busy := w.asked[k]; busy {
		w.t.Fatalf("%s: %T is asked for while %T is out", k, e, other)
	}
	w.asked[k] = e
}

func (w *world) wants(k Key) bool {
	it, ok := w.state.items[k]
	return ok && it.wanted
}

// answer ends something that was asked for.
func (w *world) answer(k Key, how int) {
	e := w.asked[k]
	delete(w.asked, k)
	bad := wire.New(wire.CodeUnavailable, "", "no")
	switch e := e.(type) {
	case Fetch:
		delete(w.reserved, k)
		real, have := w.sizes[e.URL], w.parts[k]
		delete(w.parts, k)
		switch {
		case how == 0 && real <= w.room():
			c := e.Copy
			c.Size, c.Sum, c.Checked = real, sumOr(e.Sum), w.now
			w.disk[k] = c
			w.step(Fetched{Copy: c})
		case how <= 1:
			w.step(Failed{Key: k, Kind: Full, Err: wire.New(wire.CodeStorage, "", "full"),
				Total: []int64{0, real}[how]})
		case how == 2:
			w.step(Failed{Key: k, Kind: Wrong, Err: bad, Resumed: have > 0})
		case how == 3 && !w.wants(k):
			w.step(Failed{Key: k, Kind: Stopped, Err: bad})
		default:
			w.parts[k] = min(have+int64(how), have+max(w.room(), 0))
			w.step(Failed{Key: k, Kind: Passing, Err: bad, Have: w.parts[k]})
		}
	case Check:
		switch c, there := w.disk[k]; {
		case how == 0 || !there:
			w.step(Checked{Key: k, Outcome: Damaged, Err: bad})
		case how == 1:
			w.step(Checked{Key: k, Outcome: Unsure, Err: bad})
		default:
			c.Sum = sumOr(e.Copy.Sum)
			w.step(Checked{Key: k, Outcome: Sound, Copy: c})
		}
	case Remove:
		delete(w.parts, k)
		if how == 3 {
			delete(w.disk, k) // nobody knows what is left of it
			w.step(Removed{Key: k, Err: bad})
			return
		}
		delete(w.disk, k)
		w.step(Removed{Key: k})
	}
}

func sumOr(s string) string {
	if s == "" {
		return "SHA256:" + strings.Repeat("0", 64)
	}
	return s
}

func someArtifact(t *rapid.T) workload.Artifact {
	n := rapid.IntRange(0, 5).Draw(t, "content")
	a := workload.Artifact{Size: int64(rapid.IntRange(0, 4).Draw(t, "size")) * 20,
		Cached: rapid.Bool().Draw(t, "cached")}
	for i := range rapid.IntRange(1, 3).Draw(t, "urls") {
		a.URLs = append(a.URLs, fmt.Sprintf("http://h/%d/%d", n, i))
	}
	if rapid.Bool().Draw(t, "summed") {
		a.Verification.Checksum = fmt.Sprintf("MD5:%032x", n)
	} else {
		a.UUID = fmt.Sprint("u", n/2)
	}
	if rapid.Bool().Draw(t, "named") {
		a.UUID = fmt.Sprint("u", n/2)
	}
	a.Verification.CheckPeriod = workload.CheckPeriod(rapid.IntRange(0, 2).Draw(t, "period")) * workload.CheckPeriod(
		time.Hour)
	return a
}

func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), asked: map[Key]Effect{},
			disk: map[Key]Copy{}, parts: map[Key]int64{}, reserved: map[Key]int64{},
			total: int64(rapid.IntRange(50, 400).Draw(t, "total")), sizes: map[string]int64{}}
		for n := range 6 {
			for i := range 3 {
				w.sizes[fmt.Sprintf("http://h/%d/%d", n, i)] = int64(n*15 + i)
			}
		}
		var held []Copy
		for range rapid.IntRange(0, 4).Draw(t, "held") {
			n := rapid.IntRange(0, 5).Draw(t, "copy")
			c := Copy{Key: Key(fmt.Sprintf("md5:%032x", n)), Sum: fmt.Sprintf("MD5:%032x", n), Size: int64(n * 10),
				Cached: rapid.Bool().Draw(t, "cached"),
				Used:   w.now.Add(-time.Duration(rapid.IntRange(-50, 200).Draw(t, "used")) * time.Hour),
				UUIDs:  []string{fmt.Sprint("u", n/2)}}
			if _, there := w.disk[c.Key]; !there {
				w.disk[c.Key] = c
				held = append(held, c)
			}
		}
		w.state = New(2, held, nil, nil, nil)
		want := func() {
			w.wanted = rapid.SliceOfN(rapid.Custom(someArtifact), 0, 5).Draw(t, "want")
			w.known = true
			w.step(Want{Specs: Join(w.wanted)})
		}
		w.step(Tick{})
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			keys := slices.Sorted(func(yield func(Key) bool) {
				for k := range w.asked {
					if !yield(k) {
						return
					}
				}
			})
			switch what := rapid.IntRange(0, 6).Draw(t, "event"); {
			case what == 0:
				want()
			case what == 6:
				w.step(Retry{w.wanted})
			case what == 1:
				w.total = int64(rapid.IntRange(0, 400).Draw(t, "total"))
				w.step(Tick{})
			case what == 2 || len(keys) == 0:
				w.now = w.now.Add(time.Duration(rapid.IntRange(-1000, 100_000).Draw(t, "passes")) * time.Second)
				w.step(Tick{})
			default:
				w.answer(rapid.SampledFrom(keys).Draw(t, "key"), rapid.IntRange(0, 4).Draw(t, "how"))
			}
		}
		// In the end everything goes well and there is room for all: everything that can be named is
		// there, and nothing else but what is cached.
		if !w.known {
			want()
		}
		w.total = 1 << 40
		w.now = w.now.Add(24 * time.Hour)
		w.step(Tick{})
		for range 500 {
			if len(w.asked) == 0 {
				at, ok := w.state.NextDeadline()
				if w.settled() || !ok {
					break
				}
				w.now = at
				w.step(Tick{})
				continue
			}
			for k := range w.asked {
				how := 0
				if _, ok := w.asked[k].(Check); ok {
					how = 2
				}
				w.answer(k, how)
				break
			}
		}
		if !w.settled() {
			t.Fatalf("it does not settle: asked %v\nitems %+v", w.asked, w.state.items)
		}
		for k, c := range w.disk {
			if !w.wants(k) && !c.Cached {
				t.Fatalf("%s is left over", k)
			}
		}
	})
}

// settled reports whether everything that is wanted is there, or cannot be named.
func (w *world) settled() bool {
	if len(w.asked) > 0 {
		return false
	}
	for _, a := range w.wanted {
		v := w.state.Look(a)
		if v.Phase != Ready && v.Key != "" {
			return false
		}
	}
	return true
}

func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one := rapid.Custom(func(t *rapid.T) Copy {
			return Copy{Key: Key(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key")),
				Size: rapid.Int64Range(0, 3).Draw(t, "size"),
				Used: time.Unix(rapid.Int64Range(-200_000, 200_000).Draw(t, "used"), 0)}
		})
		a, b := one.Draw(t, "a"), one.Draw(t, "b")
		da, db := a.Used.UTC().Format("2006-01-02"), b.Used.UTC().Format("2006-01-02")
		switch {
		case da != db:
			if (order(a, b) < 0) != (da < db) {
				t.Fatalf("%v before %v", a, b)
			}
		case a.Size != b.Size:
			if (order(a, b) < 0) != (a.Size < b.Size) {
				t.Fatalf("%v before %v", a, b)
			}
		default:
			if (order(a, b) < 0) != (a.Key < b.Key) {
				t.Fatalf("%v before %v", a, b)
			}
		}
	})
}
