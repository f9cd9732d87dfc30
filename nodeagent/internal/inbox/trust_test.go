package inbox

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tandem.internal/shared/seal"
	"tandem.internal/shared/wire"
)

// keyed makes a beacon with a numbered list of keys, signed by one of them or by another.
func keyed(by *seal.Signer, rev uint64, keys ...*seal.Signer) []byte {
	return beacon(by, func(b *wire.Beacon) {
		b.KeysRev, b.Keys = rev, nil
		for _, k := range keys {
			b.Keys = append(b.Keys, k.Key())
		}
	})
}

func ids(signers ...*seal.Signer) []string {
	all := []string{}
	for _, s := range signers {
		all = append(all, s.Key().ID)
	}
	return all
}

// A key is announced, takes over, and its predecessor is retired.
func TestRotation(t *testing.T) {
	one, two, three := signer(1), signer(2), signer(3)
	tr := Trust{}
	hear := func(payload []byte) Heard {
		var h Heard
		tr, h = tr.Beacon("u1", epoch, payload, false)
		return h
	}
	believes := func(when string, want ...*seal.Signer) {
		t.Helper()
		if !slices.Equal(tr.Order, ids(want...)) || len(tr.Keys) != len(want) {
			t.Fatalf("%s: %v, want %v", when, tr.Order, ids(want...))
		}
	}
	first := keyed(one, 0, one)
	hear(first)
	believes("first contact", one)
	if h := hear(keyed(one, 0, one, two)); h.Changed || h.Refused != nil {
		t.Errorf("another list under the same number: %+v", h)
	}
	believes("the same number", one)
	announced := keyed(one, 5, one, two)
	if h := hear(announced); !h.Pinned || !h.Changed || len(h.Dropped) > 0 {
		t.Errorf("announced: %+v", h)
	}
	believes("announced", one, two)
	switched := keyed(two, 6, one, two)
	if h := hear(switched); h.Pinned || !h.Changed || len(h.Dropped) > 0 || tr.Signer != two.Key().ID {
		t.Errorf("switched: %+v %+v", h, tr)
	}
	for what, payload := range map[string][]byte{"an older beacon": announced, "the oldest": first,
		"a list by the key that goes": keyed(one, 9, one)} {
		if h := hear(payload); codeOf(h.Refused) != wire.CodeStale || h.KnownKey {
			t.Errorf("after the switch, %s: %+v", what, h)
		}
	}
	believes("switched", one, two)
	if h := hear(keyed(two, 7, two)); h.Pinned || !slices.Equal(h.Dropped, ids(one)) || !h.Changed {
		t.Errorf("retired: %+v", h)
	}
	believes("retired", two)
	if h := hear(switched); h.Refused != nil || h.Changed {
		t.Errorf("a recorded list of the same key: %+v", h)
	}
	believes("after a recorded list that has the retired key", two)
	for _, c := range []struct {
		name    string
		payload []byte
		want    wire.Code
	}{
		{"a list by the retired key", keyed(one, 99, one, two), wire.CodeUnknownKey},
		{"a recorded beacon of the retired key", announced, wire.CodeUnknownKey},
		{"a list by a foreign key", keyed(three, 99, two, three), wire.CodeUnknownKey},
		{"an empty list", keyed(two, 99), wire.CodeBadValue},
		{"a list without the key that signs it", keyed(two, 99, one), wire.CodeBadValue},
		{"a key twice", keyed(two, 99, two, two), wire.CodeBadValue},
		{"unsigned", beacon(two, func(b *wire.Beacon) { b.KeysRev = 99 })[:40], wire.CodeMalformed},
	} {
		if h := hear(c.payload); codeOf(h.Refused) != c.want {
			t.Errorf("%s: %+v", c.name, h)
		}
	}
	unsigned := func() []byte {
		b, err := wire.Decode[wire.Beacon](keyed(two, 99, one, two))
		if err != nil {
			t.Fatal(err)
		}
		b.Sig = nil
		return wire.Encode(b)
	}
	if h := hear(unsigned()); codeOf(h.Refused) != wire.CodeUnsigned {
		t.Errorf("an unsigned list: %+v", h)
	}
	believes("after the attacks", two)
}

// What the unit's CA vouches for replaces the list, whatever was believed before.
func TestVouched(t *testing.T) {
	one, two, three := signer(1), signer(2), signer(3)
	keys := func(signers ...*seal.Signer) (all []wire.Key) {
		for _, s := range signers {
			all = append(all, s.Key())
		}
		return all
	}
	tr, _ := Trust{}.Beacon("u1", epoch, keyed(one, 3, one), false)
	if next, h := tr.Vouched(keys(one), 3); h.Changed || len(next.Keys) != 1 {
		t.Errorf("the same: %+v", h)
	}
	if next, h := tr.Vouched(keys(three, one), 2); h.Changed || len(next.Keys) != 1 {
		t.Errorf("an answer that a beacon has overtaken: %+v", h)
	}
	if _, h := tr.Vouched(nil, 9); h.Refused == nil {
		t.Error("an empty list was taken")
	}
	tr, h := tr.Vouched(keys(two, three), 1) // the controller lost its state, and counts anew
	if !h.Pinned || !slices.Equal(h.Dropped, ids(one)) || !slices.Equal(tr.Order, ids(two, three)) || tr.KeysRev != 1 {
		t.Errorf("%+v %+v", h, tr)
	}
	if _, h := tr.Beacon("u1", epoch, keyed(two, 2, two, three), false); h.Refused != nil {
		t.Errorf("%+v", h)
	}
}

// A provisioned key stays in the settings of a node for good; the list that descends from it counts.
func TestProvisioned(t *testing.T) {
	one, two, three := signer(1), signer(2), signer(3)
	tr, changed := Trust{Epoch: 4}.Provisioned(trusting(one))
	if !changed || tr.Epoch != 4 || !slices.Equal(tr.Order, ids(one)) {
		t.Fatalf("%+v", tr)
	}
	for _, b := range [][]byte{keyed(one, 1, one, two), keyed(two, 2, one, two), keyed(two, 3, two)} {
		tr, _ = tr.Beacon("u1", epoch, b, false)
	}
	if tr, changed = tr.Provisioned(trusting(one)); changed || !slices.Equal(tr.Order, ids(two)) {
		t.Errorf("a restart after a rotation: %+v", tr)
	}
	if tr, changed = tr.Provisioned(trusting(three)); !changed || !slices.Equal(tr.Order, ids(three)) ||
		tr.KeysRev != 0 {
		t.Errorf("another key by hand: %+v", tr)
	}
	pinned, _ := Trust{}.Beacon("u1", epoch, keyed(one, 5, one, two), false)
	if next, changed := pinned.Provisioned(trusting(one)); !changed || len(next.Keys) != 2 ||
		next.Anchor != one.Key().ID {
		t.Errorf("given by hand what was pinned already: %+v", next)
	}
}

func TestFloor(t *testing.T) {
	f := Floor{All: wire.Stamp{Epoch: 3, Rev: 40}, Kinds: map[wire.Kind]wire.Stamp{"config": {Epoch: 3, Rev: 12}}}
	for _, c := range []struct {
		kind       wire.Kind
		epoch, rev uint64
		stale      bool
	}{
		{"config", 3, 11, true}, {"config", 2, 90, true}, {"config", 3, 12, false}, {"config", 3, 13, false},
		{"config", 4, 1, false},
		{"policies", 3, 40, true}, {"policies", 3, 12, true}, {"policies", 3, 41, false}, {"policies", 4, 1, false},
	} {
		if err := f.Check(c.kind, wire.Stamp{Epoch: c.epoch, Rev: c.rev}); (err != nil) != c.stale ||
			err != nil && err.Code != wire.CodeStale {
			t.Errorf("%s (%d, %d): %v", c.kind, c.epoch, c.rev, err)
		}
	}
	if err := (Floor{}).Check("config", wire.Stamp{Epoch: 1, Rev: 1}); err != nil {
		t.Errorf("without a floor: %v", err)
	}
}

func TestObey(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2026, 11, 20, 10, 0, s, 0, time.UTC) }
	tr := Trust{Epoch: 3}
	for i, c := range []struct {
		id   string
		at   time.Time
		code wire.Code
	}{
		{"b", at(20), ""},
		{"b", at(20), wire.CodeStale}, // again
		{"a", at(19), wire.CodeStale}, // made before
		{"c", at(20), ""},             // made at the same moment
		{"d", at(30), ""},
		{"c", at(20), wire.CodeStale},
	} {
		next, err := tr.Obey(c.id, c.at)
		if got := err; (got == nil) != (c.code == "") || got != nil && got.Code != c.code {
			t.Errorf("%d: %v, want %q", i, err, c.code)
		}
		if err != nil && next.Obeyed != tr.Obeyed || next.Epoch != 3 {
			t.Errorf("%d: %+v", i, next)
		}
		tr = next
	}
}

func TestClock(t *testing.T) {
	one := signer(1)
	at := func(d time.Duration) []byte { return beacon(one, func(b *wire.Beacon) { b.Time = epoch.Add(d) }) }
	tr, _ := Trust{}.Beacon("u1", epoch, at(-time.Hour), true)
	if got := tr.Corrected(epoch); !got.Equal(epoch) {
		t.Errorf("a retained beacon's time was taken for the present: %v", got)
	}
	tr, h := tr.Beacon("u1", epoch, at(20*time.Second), false)
	if h.Skew != 0 || !tr.Corrected(epoch).Equal(epoch.Add(20*time.Second)) {
		t.Errorf("20 s: %+v", h)
	}
	tr, h = tr.Beacon("u1", epoch, at(time.Hour), false)
	if h.Skew != time.Hour {
		t.Errorf("an hour: %+v", h)
	}
	tr, h = tr.Beacon("u1", epoch, at(time.Minute), false)
	if h.Skew != 0 || !tr.Corrected(epoch).Equal(epoch.Add(time.Hour)) {
		t.Errorf("an old beacon that was played again moved the clock: %+v", h)
	}
	// After a restart, with a clock that begins in 1970.
	again := Trust{Keys: tr.Keys, Order: tr.Order, Signer: tr.Signer, Epoch: tr.Epoch, Newest: tr.Newest}
	dawn := time.Unix(0, 0)
	for _, retained := range []bool{true, false, false} {
		again, _ = again.Beacon("u1", dawn, at(time.Minute), retained)
		if got := again.Corrected(dawn); !got.Equal(epoch.Add(time.Hour)) {
			t.Errorf("a recorded beacon after a restart, retained %v: it counts as %v", retained, got)
		}
	}
	again, _ = again.Beacon("u1", dawn, at(time.Hour+time.Second), false)
	if got := again.Corrected(dawn.Add(time.Minute)); !got.Equal(epoch.Add(time.Hour + time.Second + time.Minute)) {
		t.Errorf("a new beacon after a restart: it counts as %v", got)
	}
}

// A controller whose clock was ahead and has been set right must be listened to again, without a
// restart of the node; but no beacon that is played again may take a node back.
func TestClockSetBack(t *testing.T) {
	one := signer(1)
	tr := Trust{}
	hear := func(e uint64, d time.Duration) {
		tr, _ = tr.Beacon("u1", epoch, beacon(one, func(b *wire.Beacon) { b.Epoch, b.Time = e, epoch.Add(d) }), false)
	}
	want := func(d time.Duration) {
		t.Helper()
		if got := tr.Corrected(epoch).Sub(epoch); got != d {
			t.Errorf("the controller's clock counts as %v ahead, want %v", got, d)
		}
	}
	hear(1, time.Hour)
	want(time.Hour)
	for _, d := range []time.Duration{-20 * time.Hour, -20*time.Hour + time.Minute, -20*time.Hour + 2*time.Minute} {
		hear(1, d) // recorded, one after the other
		want(time.Hour)
	}
	hear(1, 2*time.Second) // which this node's clock bears out
	want(2 * time.Second)
	hear(1, 5*time.Hour)
	hear(2, -time.Hour) // a new epoch cannot have been recorded
	tr.Newest = time.Time{}
	want(-time.Hour)
	hear(1, 9*time.Hour) // and one of an older epoch tells nothing
	want(-time.Hour)
}

// Whatever is played, in whatever order: a node believes the list of the newest beacon that it has
// heard from the controller, or a newer one; never a key that was retired in a list it has heard, and
// never a foreign one.
func TestRecordedBeacons(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		evil := signer(200)
		listed := []*seal.Signer{signer(1)}
		signing, next := 0, byte(2)
		var recorded [][]byte // by the controller, in order; list i has number i+1
		var lists [][]string
		say := func() {
			recorded = append(recorded, keyed(listed[signing], uint64(len(recorded)+1), listed...))
			lists = append(lists, ids(listed...))
		}
		say()
		for range rapid.IntRange(1, 12).Draw(t, "changes") {
			switch rapid.SampledFrom([]string{"announce", "switch", "retire"}).Draw(t, "change") {
			case "announce":
				if len(listed)-signing < 2 {
					listed = append(slices.Clone(listed), signer(next))
					next++
				}
			case "switch":
				signing = len(listed) - 1
			case "retire":
				if signing > 0 {
					listed, signing = listed[1:], signing-1
				}
			}
			say()
		}
		tr, _ := Trust{}.Beacon("u1", epoch, recorded[0], false)
		newest := 0
		for range rapid.IntRange(0, 30).Draw(t, "beacons") {
			var payload []byte
			i := -1
			switch who := rapid.IntRange(0, 9).Draw(t, "who"); {
			case who == 0:
				payload = keyed(evil, 1000, evil)
			case who == 1:
				payload = keyed(evil, 1000, append(slices.Clone(listed), evil)...)
			default:
				i = rapid.IntRange(0, min(newest+2, len(recorded)-1)).Draw(t, "which")
				payload = recorded[i]
			}
			before := tr
			next, h := tr.Beacon("u1", epoch, payload, rapid.Bool().Draw(t, "retained"))
			tr = next
			if i > newest && h.Refused == nil {
				newest = i
			}
			if h.Refused != nil && fmt.Sprint(before) != fmt.Sprint(next) {
				t.Fatalf("a refused beacon changed something: %+v", h)
			}
			if !slices.Equal(tr.Order, lists[newest]) || len(tr.Keys) != len(tr.Order) {
				t.Fatalf("believes %v; the newest list heard, number %d, has %v", tr.Order, newest+1, lists[newest])
			}
		}
	})
}

// What a root key vouches for stands over any list of before: also one that a thief of the CA has numbered as high as
// can be, and that keeps the key which signs.
func TestRootedKeys(t *testing.T) {
	first, thiefs := signer(1).Key(), signer(2).Key()
	t1, h := Trust{}.Vouched([]wire.Key{first, thiefs}, 1<<62)
	if h.Refused != nil || len(t1.Keys) != 2 {
		t.Fatal(h.Refused)
	}
	t1.Signer = first.ID
	if t2, h := t1.Vouched([]wire.Key{first}, 7); h.Changed || len(t2.Keys) != 2 {
		t.Error("a CA's word stands over a newer one")
	}
	t3, h := t1.Rooted([]wire.Key{first}, 7)
	if !h.Changed || len(t3.Keys) != 1 || t3.Keys[thiefs.ID] != nil || t3.KeysRev != 7 || len(h.Dropped) != 1 {
		t.Errorf("%+v %+v", t3, h)
	}
	if _, h := t3.Rooted([]wire.Key{first}, 7); h.Changed {
		t.Error("the same list is new")
	}
	if t4, h := t3.Rooted(nil, 9); h.Refused == nil || len(t4.Keys) != 1 {
		t.Error("no key at all is taken")
	}
}
