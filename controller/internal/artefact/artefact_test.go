package artefact

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tandem.internal/shared/wire"
)

var begin = time.Date(2026, 11, 24, 9, 0, 0, 0, time.UTC)

func digest(n int) string { return wire.Hash([]byte{byte(n)}) }

// unit is a state as a program has it: a decision is applied when it is durable.
type unit struct {
	*State
	now time.Time
}

func (u *unit) do(who string, ev Event) *wire.Error {
	d := u.Decide(u.now, ev)
	if d.Record != nil {
		if err := Check(d.Record); err != nil {
			panic(err)
		}
		u.Apply(u.now, who, d.Record)
	}
	return d.Err
}

func TestBoundsOfUploads(t *testing.T) {
	u := &unit{New(), begin}
	ask := func(n int, size int64, who string) *wire.Error {
		return u.do(who, Begin{Digest: digest(n), Size: size, Who: who, Quota: 1000, Free: 900,
			Used: map[string][]string{}})
	}
	for _, c := range []struct {
		ev   Begin
		path string
	}{
		{Begin{Digest: "sha256:12", Size: 1}, "/digest"}, {Begin{Digest: digest(0), Size: -1}, "/size"},
		{Begin{Digest: digest(0), Size: MaxSize + 1}, "/size"},
		{Begin{Digest: digest(0), Name: strings.Repeat("x", MaxName+1)}, "/name"},
		{Begin{Digest: digest(0), Name: "a\nb"}, "/name"},
	} {
		if err := u.do("ann", c.ev); err == nil || err.Path != c.path {
			t.Errorf("%+v: %v", c.ev, err)
		}
	}
	for n := range maxLeasesOf {
		if err := ask(n, 10, "ann"); err != nil {
			t.Fatal(err)
		}
	}
	if err := ask(8, 10, "ann"); err == nil || err.Code != wire.CodeUnavailable {
		t.Errorf("ann has %d: %v", len(u.Leases), err)
	}
	if err := ask(3, 10, "bob"); err != nil { // goes on with what ann has begun
		t.Error(err)
	}
	if err := ask(3, 11, "bob"); err == nil || err.Path != "/size" {
		t.Errorf("another size: %v", err)
	}
	if err := ask(8, 901, "bob"); err == nil || !strings.Contains(err.Message, "disk") {
		t.Errorf("beyond the disk: %v", err)
	} else if strings.Contains(err.Message, "in use") {
		t.Errorf("there is nothing that could be in use: %v", err)
	}
	if err := ask(8, 921, "bob"); err == nil || !strings.Contains(err.Message, "--artefact-quota") {
		t.Errorf("beyond the quota: %v", err)
	}
	if err := ask(8, 900, "bob"); err != nil || u.Reserved() != 980 {
		t.Errorf("%v, %d", err, u.Reserved())
	}
}

// A lease is renewed once an hour at most, and not by who is not its owner alone.
func TestLeasesAreRenewedSeldom(t *testing.T) {
	u := &unit{New(), begin}
	if err := u.do("ann", Begin{Digest: digest(1), Size: 5, Who: "ann", Quota: 10, Free: 10}); err != nil {
		t.Fatal(err)
	}
	records, begun := 0, u.now
	for range 100 * 60 {
		u.now = u.now.Add(time.Minute)
		again := Begin{Digest: digest(1), Size: 5, Who: "ann", Quota: 10, Free: 10} // who begins all the time
		for _, ev := range []Event{Touch{digest(1)}, again} {
			if u.Decide(u.now, ev).Record != nil {
				records++
			}
			if err := u.do("", ev); err != nil {
				t.Fatal(err)
			}
		}
		if err := u.do("", Touch{digest(1)}); err != nil {
			t.Fatal(err)
		}
		if d := u.Decide(u.now, Expire{digest(1)}); d.Record != nil {
			t.Fatal("it expires although it goes on")
		}
	}
	if l := u.Leases[digest(1)]; records != 100 || l.Who != "ann" || !l.Begun.Equal(begun) {
		t.Errorf("%d records in 100 hours; %+v", records, u.Leases)
	}
	u.now = u.now.Add(LeaseLife)
	if u.Decide(u.now, Expire{digest(1)}).Record == nil {
		t.Error("it never expires")
	}
	u.Opened(begin) // the clock was set back
	if l := u.Leases[digest(1)]; l.Expires.Sub(begin) > LeaseLife {
		t.Errorf("%+v", l)
	}
}

// TestLedgerProperties: what is promised never exceeds the quota, what somebody refers to is never removed, and nothing
// becomes visible without a lease.
func TestLedgerProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		u := &unit{New(), begin}
		for range rapid.IntRange(1, 80).Draw(rt, "events") {
			u.now = u.now.Add(time.Duration(rapid.IntRange(0, 90_000).Draw(rt, "seconds")) * time.Second)
			n := rapid.IntRange(0, 7).Draw(rt, "digest")
			d := digest(n)
			_, there := u.Artefacts[d]
			_, open := u.Leases[d]
			var used []string
			if rapid.Bool().Draw(rt, "used") {
				used = []string{"a node"}
			}
			ev := rapid.SampledFrom([]Event{
				Begin{Digest: d, Size: int64(n) * 100, Who: "ann", Quota: 1000, Free: 2000,
					Damaged: rapid.Bool().Draw(rt, "damaged")},
				Touch{d}, Complete{d, digest(99)}, Remove{Digest: d, Used: used}, Discard{Digest: d}, Expire{d},
			}).Draw(rt, "event")
			err := u.do("ann", ev)
			_, after := u.Artefacts[d]
			_, isRemove := ev.(Remove)
			switch {
			case u.Reserved() > 1000:
				rt.Fatalf("%d bytes are promised", u.Reserved())
			case there && !after && (!isRemove || used != nil || err != nil):
				rt.Fatalf("%T took away what is visible", ev)
			case !there && after && !open:
				rt.Fatalf("%T made visible what had no lease", ev)
			case err != nil && err.Code == wire.CodeInternal:
				rt.Fatal(err)
			}
			if other := u.Clone(); fmt.Sprint(other) != fmt.Sprint(u.State) {
				rt.Fatal("a clone is another state")
			}
		}
	})
}

// TestTurns: of a thousand nodes that come together at most MaxTransfers fetch at once, everybody gets its turn in not
// much more than the time that the transfers take, and few come in vain.
func TestTurns(t *testing.T) {
	const nodes, takes = 1000, 5 * time.Second
	var turns Turns
	chance := rand.New(rand.NewPCG(3, 4))
	due := map[string]time.Duration{} // when it asks next
	for n := range nodes {
		due[fmt.Sprint("n", n)] = 0
	}
	type transfer struct {
		node string
		ends time.Duration
	}
	var busy []transfer
	var now, end time.Duration
	asked := 0
	for len(due) > 0 || len(busy) > 0 {
		for i := 0; i < len(busy); {
			if busy[i].ends <= now {
				turns.Done(busy[i].node, takes)
				busy = append(busy[:i], busy[i+1:]...)
				end = now
				continue
			}
			i++
		}
		for n := range nodes {
			name := fmt.Sprint("n", n)
			at, waits := due[name]
			if !waits || at > now {
				continue
			}
			asked++
			wait, ok := turns.Take(begin.Add(now), name, chance.Float64())
			if ok {
				delete(due, name)
				busy = append(busy, transfer{name, now + takes})
			} else if due[name] = now + wait; wait < time.Second || wait > time.Hour {
				t.Fatalf("wait %v", wait)
			}
		}
		if len(busy) > MaxTransfers || turns.Busy() != len(busy) {
			t.Fatalf("%d fetch at once, %d are counted", len(busy), turns.Busy())
		}
		if now += 250 * time.Millisecond; now > time.Hour {
			t.Fatalf("%d nodes never had their turn", len(due))
		}
	}
	best := takes * nodes / MaxTransfers
	t.Logf("all have it after %v, %v is the least; %.1f requests a node", end, best, float64(asked)/nodes)
	if end > 3*best || asked > 12*nodes || turns.Waiting() != 0 {
		t.Errorf("%v of %v, %d requests, %d still wait", end, best, asked, turns.Waiting())
	}
}

// One node does not make the others wait by how long its transfers take: neither for hours, by crawling, nor for
// nothing, so that all come together.
func TestTurnsOfACrawler(t *testing.T) {
	for _, took := range []time.Duration{time.Hour, time.Millisecond} {
		var turns Turns
		now := begin
		for range 1000 {
			turns.Take(now, "crawler", 0.5)
			turns.Done("crawler", took)
		}
		for i := range MaxTransfers {
			turns.Take(now, fmt.Sprint("n", i), 0.5)
		}
		if wait, ok := turns.Take(now, "next", 0.5); ok || wait < 2*time.Second || wait > 5*time.Second {
			t.Errorf("after transfers of %v of one node the next one waits %v, %v", took, wait, ok)
		}
		for i := range 1000 { // among others
			turns.Done(fmt.Sprint("n", i%MaxTransfers), 2*time.Second)
			turns.Take(now, "crawler", 0.5)
			turns.Done("crawler", took)
			turns.Take(now, fmt.Sprint("n", i%MaxTransfers), 0.5)
		}
		if wait, ok := turns.Take(now, "next", 0.5); ok || wait < time.Second || wait > 10*time.Second {
			t.Errorf("with transfers of %v of one node between others the next one waits %v, %v", took, wait, ok)
		}
	}
}

// One node does not take the turns of all.
func TestTurnsOfOneNode(t *testing.T) {
	var turns Turns
	for i := range 6 {
		if _, ok := turns.Take(begin, "n1", 0.5); ok != (i < maxOfNode) {
			t.Errorf("%d: %v", i, ok)
		}
	}
	if _, ok := turns.Take(begin, "n2", 0.5); !ok {
		t.Error("another node has to wait")
	}
	turns.Done("n1", time.Second)
	if _, ok := turns.Take(begin, "n1", 0.5); !ok {
		t.Error("its turn is not given back")
	}
	for range 4 {
		turns.Done("n1", time.Second)
	}
	if turns.Done("n2", time.Second); turns.Busy() != 0 || len(turns.busy) != 0 {
		t.Errorf("%+v", turns)
	}
}
