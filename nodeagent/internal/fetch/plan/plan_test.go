package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

var begin = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// story is one State in time.
type story struct {
	t   *testing.T
	s   State
	now Now
}

func (y *story) step(ev Event) []Effect {
	y.t.Helper()
	var effects []Effect
	y.s, effects = y.s.Step(y.now, ev)
	return effects
}

func (y *story) want(all ...workload.Artifact) []Effect {
	y.t.Helper()
	return y.step(Want{Specs: Join(all)})
}

// does holds that effects are what they should be, in short.
func (y *story) does(effects []Effect, want ...string) {
	y.t.Helper()
	var got []string
	for _, e := range effects {
		switch e := e.(type) {
		case Fetch:
			got = append(got, fmt.Sprintf("fetch %s %d", e.URL, e.Reserve))
		case Remove:
			got = append(got, "remove "+string(e.Key))
		case Check:
			got = append(got, fmt.Sprintf("check %s %v", e.Copy.Key, e.Urgent))
		default:
			got = append(got, strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", e), "plan.")))
		}
	}
	if !slices.Equal(got, want) {
		y.t.Fatalf("effects %q, want %q", got, want)
	}
}

func hexSum(n int) string { return fmt.Sprintf("MD5:%032x", n) }

func key(n int) Key { return Key(strings.ToLower(hexSum(n))) }

func summed(n int, size int64, urls ...string) workload.Artifact {
	return workload.Artifact{Size: size, URLs: urls, Verification: workload.Verification{Checksum: hexSum(n)}}
}

func called(uuid string, a workload.Artifact) workload.Artifact { a.UUID = uuid; return a }

// What is the same, and what an artifact stands for.
func TestJoin(t *testing.T) {
	u := func(n int) workload.Artifact { return called("u", summed(n, 0, fmt.Sprint("h", n))) }
	bare := called("u", workload.Artifact{URLs: []string{"bare"},
		Verification: workload.Verification{Checksum: "EMPTY:"}})
	held := func(k Key) Copy { return Copy{Key: k, Sum: hexSum(9), UUIDs: []string{"u"}} }
	for _, c := range []struct {
		name     string
		held     []Copy
		sticky   Key
		all      []workload.Artifact
		keys     string
		stands   Key
		disputed bool
	}{
		{"a checksum", nil, "", []workload.Artifact{summed(1, 0, "h")}, "md5:1", "", false},
		{"alone", nil, "", []workload.Artifact{bare}, "uuid:u", "uuid:u", false},
		{"with a checksum", nil, "", []workload.Artifact{bare, u(1)}, "md5:1", key(1), false},
		{"the order makes no difference", nil, "", []workload.Artifact{u(1), bare}, "md5:1", key(1), false},
		{"two checksums", nil, "", []workload.Artifact{u(1), u(2)}, "md5:1 md5:2", "", true},
		{"two checksums and none", nil, "", []workload.Artifact{u(1), bare, u(2)}, "md5:1 md5:2", "", true},
		{"a copy of its own goes before a checksum", []Copy{held("uuid:u")}, "", []workload.Artifact{bare, u(1)},
			"md5:1 uuid:u", "uuid:u", false},
		{"a copy that it was once", []Copy{held(key(3))}, "", []workload.Artifact{bare}, "md5:3", key(3), false},
		{"a checksum goes before what it was once", []Copy{held(key(3))}, "", []workload.Artifact{bare, u(1)}, "md5:1",
			key(1), false},
		{"several that it was once", []Copy{held(key(3)), held(key(4))}, "", []workload.Artifact{bare}, "", "", true},
		{"what it stood for until now", []Copy{held(key(3)), held(key(4))}, key(4),
			[]workload.Artifact{bare, u(1), u(2)}, "md5:1 md5:2 md5:4", key(4), true},
		{"what it stood for is gone", []Copy{held(key(3))}, key(4), []workload.Artifact{bare}, "md5:3", key(3), false},
		{"nothing to be called by", nil, "", []workload.Artifact{{URLs: []string{"h"}}}, "", "", false},
	} {
		s := New(2, c.held, nil, nil, nil)
		if c.sticky != "" {
			s.uuids["u"] = c.sticky
		}
		specs, uuids, disputed := s.join(c.all)
		var keys []string
		for k, p := range specs {
			algorithm, rest, _ := strings.Cut(string(k), ":")
			keys = append(keys, algorithm+":"+strings.TrimLeft(rest, "0"))
			if (p.Sum == "") != (algorithm == "uuid") {
				t.Errorf("%s: %s is to have %q", c.name, k, p.Sum)
			}
		}
		slices.Sort(keys)
		if got := strings.Join(keys, " "); got != c.keys || uuids["u"] != c.stands || disputed["u"] != c.disputed {
			t.Errorf("%s: %q, u stands for %q, disputed %v", c.name, got, uuids["u"], disputed["u"])
		}
	}
}

// The strictest of what artifacts that are the same say.
func TestJoinedSpec(t *testing.T) {
	a, b := called("v", summed(1, 10, "x", "y")), called("u", summed(1, 20, "y", "z"))
	a.Cached = true
	a.Verification.CheckPeriod, b.Verification.CheckPeriod = workload.CheckPeriod(2*time.Hour),
		workload.CheckPeriod(time.Hour)
	specs, _, _ := New(1, nil, nil, nil, nil).join([]workload.Artifact{a, b, summed(1, 0, "x")})
	got := specs[key(1)]
	if !slices.Equal(got.URLs, []string{"x", "y", "z"}) || got.Size != 20 || !got.Cached || got.Period != time.Hour ||
		!slices.Equal(got.UUIDs, []string{"u", "v"}) {
		t.Errorf("%+v", got)
	}
}

// One address after the other, and each has its own pauses.
func TestPauses(t *testing.T) {
	y := &story{t: t, s: New(1, nil, nil, nil, nil), now: Now{At: begin, Room: 100}}
	bad := wire.New(wire.CodeUnavailable, "", "no")
	a := summed(1, 10, "x", "y")
	y.does(y.want(a), "fetch x 10")
	y.does(y.step(Failed{Key: key(1), Kind: Passing, Err: bad}), "fetch y 10")
	y.does(y.step(Failed{Key: key(1), Kind: Wrong, Err: bad}))
	if at, ok := y.s.NextDeadline(); !ok || !at.Equal(begin.Add(time.Second)) {
		t.Fatalf("next at %v", at)
	}
	if v := y.s.Look(a); v.Phase != Failing || v.Err != bad || !v.Next.Equal(begin.Add(time.Second)) {
		t.Errorf("%+v", v)
	}
	y.now.At = begin.Add(time.Second)
	y.does(y.step(Tick{}), "fetch x 10")
	y.now.Chance = 0.5 // shortens by a quarter
	y.does(y.step(Failed{Key: key(1), Kind: Passing, Err: bad}))
	y.now.At = y.now.At.Add(1500 * time.Millisecond)
	y.does(y.step(Tick{}), "fetch x 10")
	// Further than ever: the pauses begin again. As far as before: they do not.
	y.does(y.step(Failed{Key: key(1), Kind: Passing, Err: bad, Have: 5}))
	y.now.At = y.now.At.Add(750 * time.Millisecond)
	y.does(y.step(Tick{}), "fetch x 10")
	y.does(y.step(Failed{Key: key(1), Kind: Passing, Err: bad, Have: 5}))
	y.now.At = y.now.At.Add(750 * time.Millisecond)
	y.does(y.step(Tick{}))
	// The one that sent something wrong is not asked for a minute.
	y.now.At = begin.Add(59 * time.Second)
	y.does(y.step(Tick{}), "fetch x 10")
	y.now.At = begin.Add(time.Hour)
	y.does(y.step(Failed{Key: key(1), Kind: Passing, Err: bad, Have: 5}), "fetch y 10")
	// Wrong with the help of an old part: again at once, from the start.
	y.does(y.step(Failed{Key: key(1), Kind: Wrong, Err: bad, Resumed: true}), "fetch y 10")
	y.does(y.step(Fetched{Copy: Copy{Key: key(1), Size: 7, Used: y.now.At, Checked: y.now.At}}))
	if v := y.s.Look(a); v.Phase != Ready || v.Size != 7 || v.Err != nil {
		t.Errorf("%+v", v)
	}
	if at, ok := y.s.NextDeadline(); !ok || !at.Equal(y.now.At.Add(24*time.Hour)) {
		t.Errorf("next at %v", at)
	}
}

func TestBackoff(t *testing.T) {
	for _, c := range []struct {
		n      int
		chance float64
		want   time.Duration
	}{{1, 0, time.Second}, {2, 0, 2 * time.Second}, {10, 0, 512 * time.Second}, {11, 0, 10 * time.Minute},
		{1 << 40, 0, 10 * time.Minute}, {0, 0, time.Second}, {3, 0.5, 3 * time.Second}} {
		if got := backoff(c.n, passingMin, passingMax, c.chance); got != c.want {
			t.Errorf("%d, %v: %v", c.n, c.chance, got)
		}
	}
}

// A server that lies about the length makes nobody wait for room if there is another one.
func TestLieAboutTheLength(t *testing.T) {
	y := &story{t: t, s: New(1, nil, nil, nil, nil), now: Now{At: begin, Room: 100}}
	full := wire.New(wire.CodeStorage, "", "full")
	y.does(y.want(summed(1, 0, "liar", "good")), "fetch liar 0")
	y.does(y.step(Failed{Key: key(1), Kind: Full, Err: full, Total: 1 << 40}))
	if v := y.s.Look(summed(1, 0)); v.Phase != Waiting || v.Err != full || v.Next.IsZero() {
		t.Errorf("%+v", v)
	}
	at, _ := y.s.NextDeadline()
	y.now.At = at
	y.does(y.step(Tick{}), "fetch good 0")
}

// What is checked regularly is checked in its turn; what is damaged goes and comes again.
func TestChecks(t *testing.T) {
	a, b := summed(1, 0, "a"), summed(2, 0, "b")
	a.Verification.CheckPeriod, b.Verification.CheckPeriod = workload.CheckPeriod(time.Hour),
		workload.CheckPeriod(2*time.Hour)
	copyOf := func(n int, ago time.Duration) Copy {
		return Copy{Key: key(n), Sum: hexSum(n), Size: 1, Used: begin, Checked: begin.Add(-ago)}
	}
	y := &story{t: t, s: New(1, []Copy{copyOf(1, 90*time.Minute), copyOf(2, 3*time.Hour)}, []Copy{copyOf(3, 0)},
		[]string{key(4).Name(), "stray"}, nil), now: Now{At: begin, Room: 100}}
	y.does(y.step(Tick{}))
	y.does(y.want(a, b, summed(3, 0, "c"), summed(4, 0, "d")), "discard", "check "+string(key(3))+" true")
	y.does(y.step(Checked{Key: key(3), Outcome: Sound, Copy: copyOf(3, 0)}), "save", "check "+string(key(4))+" true")
	y.does(y.step(Checked{Key: key(4), Outcome: Damaged, Err: wire.New(wire.CodeHashMismatch, "", "bad")}), "remove "+
		string(key(4)), "check "+string(key(2))+" false")
	y.does(y.step(Removed{Key: key(4)}), "fetch d 0")
	y.does(y.step(Checked{Key: key(2), Outcome: Unsure}), "check "+string(key(1))+" false")
	y.does(y.step(Checked{Key: key(1), Outcome: Damaged, Err: wire.New(wire.CodeHashMismatch, "", "bad")}), "remove "+
		string(key(1)))
	if v := y.s.Look(a); v.Phase == Ready {
		t.Errorf("what is damaged can be used until it is removed: %+v", v)
	}
	y.does(y.step(Removed{Key: key(1)}))
	if v := y.s.Look(a); v.Repaired != 1 || v.Phase != Waiting || v.Err.Code != wire.CodeHashMismatch {
		t.Errorf("%+v", v)
	}
	y.does(y.step(Fetched{Copy: copyOf(4, 0)}), "fetch a 0")
	y.now.At = begin.Add(checkAgain)
	y.does(y.step(Tick{}), "check "+string(key(2))+" false")
}

// What is cached goes when that makes room enough, and no more of it than is needed; if all of it would not be
// enough, all of it stays (seed 004, cached).
func TestNothingGoesInVain(t *testing.T) {
	cached := func(n int, size int64) Copy {
		return Copy{Key: key(n), Sum: hexSum(n), Size: size, Used: begin, Checked: begin, Cached: true}
	}
	for size, want := range map[int64][]string{
		10: {"fetch x 10"}, 60: {"remove " + string(key(1))}, 61: {"remove " + string(key(1)), "remove " +
			string(key(2))}, 110: {"remove " + string(key(1)), "remove " + string(key(2))}, 111: nil,
	} {
		y := &story{t: t, s: New(1, []Copy{cached(1, 30), cached(2, 50)}, nil, nil, nil), now: Now{At: begin, Room: 30}}
		y.does(y.want(summed(9, size, "x")), want...)
		if v := y.s.Look(summed(9, size)); size > 30 && (v.Phase != Waiting || v.Err == nil ||
			v.Err.Code != wire.CodeStorage) {
			t.Errorf("%d bytes: %+v", size, v)
		}
	}
}

// A clock that was set back puts nothing into the future.
func TestClockSetBack(t *testing.T) {
	a := summed(1, 0, "a")
	a.Verification.CheckPeriod = workload.CheckPeriod(time.Hour)
	y := &story{t: t, s: New(1, []Copy{{Key: key(1), Sum: hexSum(1), Used: begin.Add(1000 * time.Hour),
		Checked: begin.Add(1000 * time.Hour)}}, nil, nil, nil), now: Now{At: begin}}
	y.does(y.want(a))
	if at, ok := y.s.NextDeadline(); !ok || !at.Equal(begin.Add(time.Hour)) {
		t.Errorf("next at %v", at)
	}
}

func TestNames(t *testing.T) {
	for _, k := range []Key{"", "uuid:../../x", "uuid:a\x00/b", key(1)} {
		if n := k.Name(); len(n) != 64 || strings.Trim(n, "0123456789abcdef") != "" {
			t.Errorf("%q: %q", k, n)
		}
	}
}

// What was corrected, or is asked for again, does not wait for the pause after the failure before.
func TestCorrected(t *testing.T) {
	bad := wire.New(wire.CodeTooLarge, "", "correct its size")
	y := &story{t: t, s: New(1, nil, nil, nil, nil), now: Now{At: begin, Room: 100}}
	fails := func(n int) []Effect { return y.step(Failed{Key: key(n), Kind: Wrong, Err: bad}) }
	y.does(y.want(summed(1, 10, "x")), "fetch x 10")
	y.does(fails(1))
	y.does(y.want(summed(1, 10, "x"))) // nothing has changed
	y.does(y.want(summed(1, 20, "x")), "fetch x 20")
	y.does(y.want(summed(1, 30, "x"))) // while it is fetched by the size before
	y.does(fails(1), "fetch x 30")
	y.does(fails(1)) // now it waits
	if v := y.s.Look(summed(1, 0)); v.Phase != Failing || !v.Next.After(begin) {
		t.Errorf("%+v", v)
	}
	y.does(y.want(summed(1, 30, "y", "x")), "fetch y 30") // another address
	y.does(fails(1))
	y.does(y.want(summed(2, 30, "y", "x")), "remove "+string(key(1)), "fetch y 30") // another content
	y.does(y.step(Removed{Key: key(1)}))
	y.does(fails(2), "fetch x 30")
	y.does(fails(2))
	y.does(y.step(Retry{[]workload.Artifact{summed(1, 0)}})) // of another resource
	y.does(y.step(Retry{[]workload.Artifact{summed(2, 0)}}), "fetch y 30")
	y.does(y.want(summed(3, 300, "x")), "cancel") // more than there is room for
	y.does(y.step(Failed{Key: key(2), Kind: Stopped}), "remove "+string(key(2)))
	y.does(y.want(summed(3, 60, "x")), "fetch x 60")
}

// What is of no use wherever it comes from is not asked of any address for six hours, unless it was corrected; of what
// several say that it has, the most counts.
func TestNever(t *testing.T) {
	says := func(size, plain int64) workload.Artifact {
		a := summed(1, plain, "x", "y")
		a.Encrypted = &wire.Encrypted{Digest: "d", Size: size}
		return a
	}
	y := &story{t: t, s: New(1, nil, nil, nil, nil), now: Now{At: begin, Room: 100}}
	k := KeyOf(says(1, 1))
	fails := func() []Effect { return y.step(Failed{Key: k, Kind: Never, Err: wire.New(wire.CodeTooLarge, "", "")}) }
	all := y.want(says(20, 1), says(30, 2), says(1, 1))
	y.does(all, "fetch x 30")
	if f := all[0].(Fetch); f.Encrypted.Size != 30 || f.Plain != 2 {
		t.Errorf("%+v", f)
	}
	y.does(fails())
	y.does(y.want(says(30, 3)), "fetch x 30")
	y.does(fails())
	y.now.At = begin.Add(wrongMax - 1)
	y.does(y.step(Tick{}))
	y.now.At = begin.Add(wrongMax)
	y.does(y.step(Tick{}), "fetch x 30")
	y.does(fails())
	y.does(y.step(Retry{[]workload.Artifact{says(1, 1)}}), "fetch x 30")
}

// TestLaterIsNoFailure: an address that says when to come back is asked again then, not before, with the part that is
// there; nothing is counted against it.
func TestLaterIsNoFailure(t *testing.T) {
	y := &story{t: t, s: New(2, nil, nil, nil, nil), now: Now{At: begin, Room: 1 << 30, Chance: 0.5}}
	a := summed(1, 100, "http://a/x")
	y.does(y.want(a), "fetch http://a/x 100")
	for range 20 {
		y.does(y.step(Failed{Key: key(1), Kind: Later, Have: 40, After: 30 * time.Minute,
			Err: wire.New(wire.CodeUnavailable, "", "waiting for the controller")}))
		v := y.s.Look(a)
		if v.Have != 40 || v.Err == nil || v.Next.Sub(y.now.At) != 30*time.Minute {
			t.Fatalf("%+v", v)
		}
		y.now.At = y.now.At.Add(30*time.Minute - time.Second)
		y.does(y.step(Tick{}))
		y.now.At = y.now.At.Add(time.Second)
		y.does(y.step(Tick{}), "fetch http://a/x 100")
	}
	y.step(Failed{Key: key(1), Kind: Passing, Have: 40, Err: wire.New(wire.CodeUnavailable, "", "x")})
	if v := y.s.Look(a); v.Next.Sub(y.now.At) > passingMin || v.Turn {
		t.Errorf("the first failure costs %+v", v)
	}
}

// TestOthersMeanwhile: while an address sends to others first another one is asked; that it has nothing is not what the
// copy waits for.
func TestOthersMeanwhile(t *testing.T) {
	y := &story{t: t, s: New(2, nil, nil, nil, nil), now: Now{At: begin, Room: 1 << 30}}
	a := summed(1, 100, "store", "peers")
	turn := Failed{Key: key(1), Kind: Later, After: time.Minute, Err: wire.New(wire.CodeUnavailable, "", "its turn")}
	alone := Failed{Key: key(1), Kind: Passing, Err: wire.New(wire.CodeTimeout, "", "nobody has it")}
	y.does(y.want(a), "fetch store 100")
	y.does(y.step(turn), "fetch peers 100")
	y.does(y.step(alone))
	if v := y.s.Look(a); v.Phase != Failing || !v.Turn || v.Err != turn.Err || !v.Next.Equal(begin.Add(passingMin)) {
		t.Errorf("%+v", v)
	}
	y.now.At = begin.Add(time.Second)
	y.does(y.step(Tick{}), "fetch peers 100")
	y.now.At = begin.Add(time.Minute)
	y.does(y.step(alone), "fetch store 100")
	y.does(y.step(Failed{Key: key(1), Kind: Passing, Err: wire.New(wire.CodeUnavailable, "", "gone")}))
	if v := y.s.Look(a); v.Turn || v.Err.Message != "gone" {
		t.Errorf("%+v", v)
	}
}

// TestKept: a copy that is kept for others stays without being wanted, with the addresses that it has today; it is not
// fetched for that, and goes for room and when it is kept no more.
func TestKept(t *testing.T) {
	begins := func() *story {
		there := Copy{Key: key(1), Sum: hexSum(1), Size: 50, Used: begin, Checked: begin}
		return &story{t: t, s: New(1, []Copy{there}, nil, nil, nil), now: Now{At: begin, Room: 30}}
	}
	want := func(all []workload.Artifact, kept ...workload.Artifact) Want {
		return Want{Specs: Join(all), Keep: Join(kept)}
	}
	one, gone := summed(1, 50, "a"), summed(2, 10, "b")
	y := begins()
	y.does(y.step(want(nil, one, gone)))
	if got := y.s.Kept(); len(got) != 1 || !slices.Equal(got[key(1)], []string{"a"}) {
		t.Errorf("%v are served", got)
	}
	more := []workload.Artifact{summed(3, 60, "c")}
	y.does(y.step(want(more, one, gone)), "remove "+string(key(1)))
	y.now.Room = 80
	y.does(y.step(Removed{Key: key(1)}), "fetch c 60")
	y.does(y.step(Fetched{Copy: Copy{Key: key(3), Size: 60, Used: begin, Checked: begin}}))
	y.does(y.step(want(nil, summed(3, 60, "d"))), "save") // when it was used
	y.does(y.step(want(nil)), "remove "+string(key(3)))

	y = begins()
	y.does(y.step(want([]workload.Artifact{one})))
	y.does(y.step(want([]workload.Artifact{one}, one)))
	y.does(y.step(want(nil, one)), "save")
	y.does(y.step(want([]workload.Artifact{one}, one)))
	y.does(y.step(want(nil)), "remove "+string(key(1)))
}
