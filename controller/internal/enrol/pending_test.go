package enrol

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/wire"
)

// The keys of those that ask in the tests below.
var (
	honest   = strings.Repeat("a", 64)
	stranger = strings.Repeat("b", 64)
	another  = strings.Repeat("c", 64)
)

func (r *rig) waits(node string) bool {
	return slices.ContainsFunc(r.Waiting(r.now), func(w Waiting) bool { return w.Node == node })
}

// asks has a node ask with a secret and key, from an address.
func (r *rig) asks(hash, node, key, from string) wire.Code {
	j := join(node, hash, key, "s")
	j.From = from
	return wire.CodeOf(r.do("", j).Err)
}

func (r *rig) approves(node, key string) *wire.Error {
	return r.do("ann", Approve{[]Named{{node, key}}}).Err
}

// open makes a batch of any names.
func (r *rig) open(name, hash string, from ...string) {
	r.t.Helper()
	r.good(name, r.do("ann", NewBatch{Name: name, Hash: hash, Count: 100, From: from}))
}

// Whoever has the secret can ask under any number of names: that is bounded, keeps nobody out who comes from elsewhere,
// and writes nothing.
func TestWaitingIsBounded(t *testing.T) {
	r := newRig(t)
	b := line4()
	b.From, b.Names, b.Count = []string{"10.0.0.0/8", "2001:db8::/32"}, nil, 100
	r.do("ann", b)
	before := len(r.records)
	ask := func(node, from string) wire.Code {
		j := by(node, "k-"+node, "s")
		j.From = from
		return wire.CodeOf(r.do("", j).Err)
	}
	if got := ask("honest-0", "10.0.0.1"); got != wire.CodeUnavailable {
		t.Fatal(got)
	}
	for i := range 2 * maxWaiting { // one network of 64 bits counts as one address
		ask(fmt.Sprintf("flood-%d", i), fmt.Sprintf("2001:db8::%x", i+1))
	}
	for i := 1; i <= 50; i++ {
		ask(fmt.Sprintf("honest-%d", i), fmt.Sprintf("10.0.1.%d", i))
	}
	if got := len(r.Waiting(r.now)); got != maxWaiting {
		t.Errorf("%d wait, at most %d are to", got, maxWaiting)
	}
	for i := range 51 {
		name := fmt.Sprintf("honest-%d", i)
		if !slices.ContainsFunc(r.Waiting(r.now), func(w Waiting) bool { return w.Node == name }) {
			t.Errorf("%s was pushed out", name)
		}
	}
	if got := len(r.records) - before; got != 0 {
		t.Errorf("%d records of what strangers ask", got)
	}
}

// Whoever has the secret and many addresses does not keep out networks where he has none, nor push out who waits there.
func TestWaitingIsSharedByNetworks(t *testing.T) {
	r := newRig(t)
	r.open("line4", "b", "10.0.0.0/8", "10.1.0.0/16", "10.9.0.0/16", "2001:db8::/32")
	r.open("line5", "b5", "10.0.0.0/8")
	for i := range 200 { // behind one address, in a network of 24 bits of its own
		r.asks("b", fmt.Sprintf("line-%d", i), honest, "10.1.200.1")
	}
	r.now = r.now.Add(time.Second)
	for i := range 20 * 256 {
		r.asks("b", fmt.Sprintf("flood-%d", i), stranger, fmt.Sprintf("10.1.%d.%d", i/256, i%256))
	}
	if got := len(r.Waiting(r.now)); got != maxWaiting {
		t.Fatalf("%d wait", got)
	}
	r.now = r.now.Add(time.Second)
	for i := range 150 { // its share is 4096 of 22
		r.asks("b", fmt.Sprintf("late-%d", i), honest, fmt.Sprintf("10.1.201.%d", i))
	}
	for i := range 2048 { // another network of the batch, and then another batch
		r.asks("b", fmt.Sprintf("far-%d", i), honest, "10.9.0.1")
	}
	for i := range 2048 {
		r.asks("b5", fmt.Sprintf("other-%d", i), honest, "10.1.0.1")
	}
	r.asks("b", "six", honest, "2001:db8::1")
	held := map[string]int{}
	for _, w := range r.Waiting(r.now) {
		name, _, _ := strings.Cut(w.Node, "-")
		held[name]++
	}
	// Two batches have a half each, and the three networks of the first a third of that, if they want as much.
	if held["other"] < maxWaiting/2-2 || held["far"] < maxWaiting/4-2 || held["six"] != 1 {
		t.Errorf("%v", held)
	}
	if share := maxWaiting / 4 / 22; held["line"] < share-1 || held["late"] < share-1 || held["line"] > 200 {
		t.Errorf("%v, and the share of a network of 24 bits is %d", held, share)
	}
	if !r.waits("line-0") || !r.waits("late-0") || !r.waits("far-0") {
		t.Error("who has waited for longest was pushed out for who has not")
	}
}

// While the groups of who waits have no more than their share, nobody makes way for who comes later.
func TestNobodyMakesWayWithinHisShare(t *testing.T) {
	r := newRig(t)
	r.open("line4", "b", "10.0.0.0/16")
	for i := range 100 {
		r.asks("b", fmt.Sprintf("line-%d", i), honest, "10.0.200.1")
	}
	for i := range 2 * maxWaiting { // 32 networks, of which the share is 4096 of 33
		r.now = r.now.Add(time.Millisecond)
		r.asks("b", fmt.Sprintf("flood-%d", i), stranger, fmt.Sprintf("10.0.%d.%d", i/256, i%256))
	}
	for i := range 100 {
		if node := fmt.Sprintf("line-%d", i); !r.waits(node) {
			t.Fatalf("%s was pushed out", node)
		}
	}
	if got := r.asks("b", "late", honest, "10.0.201.1"); got != wire.CodeUnavailable || !r.waits("late") {
		t.Errorf("a network where he has no address is kept out: %v", got)
	}
}

// Who takes a name whose first key is gone is not approved by the name alone, however the first has left.
func TestNameWithAnEarlierKey(t *testing.T) {
	for how, leaves := range map[string]func(r *rig){
		"pushed out": func(r *rig) {
			r.asks("b", "more", stranger, "10.0.1.1")
		},
		"refused":   func(r *rig) { r.do("ann", Refuse{Nodes: []Named{{"press-1", honest}}}) },
		"forgotten": func(r *rig) { r.now = r.now.Add(waitLife + time.Second) },
		"approved, and taken back": func(r *rig) {
			r.approves("press-1", "")
			r.do("ann", Refuse{Nodes: []Named{{Node: "press-1"}}})
		},
		"approved, and the batch revoked": func(r *rig) {
			r.approves("press-1", "")
			r.do("ann", RevokeBatch{Name: "line5"})
		},
		"waiting, and the batch revoked": func(r *rig) { r.do("ann", RevokeBatch{Name: "line5"}) },
	} {
		t.Run(how, func(t *testing.T) {
			r := newRig(t)
			r.open("line4", "b", "10.0.0.0/8")
			r.open("line5", "b5", "10.0.0.0/8")
			hash := "b5"
			if how == "pushed out" {
				hash = "b"
				for i := range maxWaiting - 1 {
					r.asks("b", fmt.Sprintf("before-%d", i), stranger, "10.0.0.1")
				}
			}
			r.asks(hash, "press-1", honest, "10.0.0.1")
			leaves(r)
			if r.waits("press-1") {
				t.Fatal("it is still there")
			}
			r.asks("b", "press-1", stranger, "10.2.0.1")
			if err := r.approves("press-1", ""); wire.CodeOf(err) != wire.CodeWrongState {
				t.Fatalf("the stranger is approved by the name: %v", err)
			}
			if err := r.approves("press-1", honest[:16]); err != nil {
				t.Fatal(err)
			}
			r.good("the honest one", r.do("", by("press-1", honest, "s1")))
		})
	}
}

// What is remembered of earlier keys is bounded. When there is no room for more, names alone do not do for who came
// after that.
func TestEarlierKeysAreBounded(t *testing.T) {
	r := newRig(t)
	r.open("line4", "b", "10.0.0.0/8")
	r.asks("b", "press-1", honest, "10.0.0.1")
	r.now = r.now.Add(time.Second)
	for i := range maxEarlier + 1 {
		node := fmt.Sprintf("n-%d", i)
		r.asks("b", node, fmt.Sprintf("%064d", i), "10.0.0.1")
		r.do("ann", Refuse{Nodes: []Named{{Node: node}}})
	}
	if got := len(r.waiting.earlier); got != maxEarlier {
		t.Errorf("%d are remembered", got)
	}
	r.now = r.now.Add(time.Second)
	r.asks("b", fmt.Sprintf("n-%d", maxEarlier), another, "10.0.0.1")
	if err := r.approves(fmt.Sprintf("n-%d", maxEarlier), ""); wire.CodeOf(err) != wire.CodeWrongState {
		t.Errorf("another key has this name: %v", err)
	}
	if err := r.approves("press-1", ""); err != nil {
		t.Errorf("it has waited since before: %v", err)
	}
	r.now = r.now.Add(earlyLife + time.Minute)
	r.open("line6", "b6", "10.0.0.0/8")
	r.asks("b6", "press-2", honest, "10.0.0.1")
	if err := r.approves("press-2", ""); err != nil {
		t.Errorf("a day later: %v", err)
	}
	r.asks("b6", "press-3", honest, "10.0.0.1")
	r.do("ann", Refuse{Nodes: []Named{{Node: "press-3"}}})
	if got := len(r.waiting.earlier); got != 1 {
		t.Errorf("a day later %d are remembered", got)
	}
}

// Whoever is first under a name, or asks more often, does not keep out a key that an operator names.
func TestApprovedKeyNeedNotWait(t *testing.T) {
	r := newRig(t)
	r.open("line4", "b", "10.0.0.0/8")
	r.open("line5", "b5", "10.0.0.0/8")
	r.asks("b5", "press-1", stranger, "10.0.0.1") // by another batch
	if d := r.do("", by("press-1", honest, "s1")); wire.CodeOf(d.Err) != wire.CodeWrongState ||
		strings.Contains(d.Err.Message, KeyID(stranger)) || !strings.Contains(d.Err.Message, KeyID(honest)) {
		t.Errorf("a rival is to be told its own key, and no other: %v", d.Err)
	}
	r.good("refuse", r.do("ann", Refuse{Nodes: []Named{{"press-1", KeyID(stranger)}}}))
	r.asks("b5", "press-1", another, "10.0.0.1") // he has made a new key
	r.asks("b", "press-1", honest, "10.0.0.1")
	if err := r.approves("press-1", KeyID(honest)); err != nil {
		t.Fatal("the rival: ", err)
	}
	if a := r.Batch("line4").approval("press-1"); a == nil || a.Key != honest || r.Batch("line5").Room() != 100 {
		t.Errorf("the rival has asked with %s by line4, and approved is %+v", honest, a)
	}
	if d := r.do("", by("press-1", another, "s1")); wire.CodeOf(d.Err) != wire.CodeWrongState ||
		strings.Contains(d.Err.Message, KeyID(honest)) {
		t.Errorf("the key that was approved is told: %v", d.Err)
	}
	r.asks("b5", "press-1", another, "10.0.0.1")
	r.want("two approvals", r.do("ann", Approve{[]Named{{"press-1", another}}}), wire.CodeWrongState)
	if d := r.do("ann", Approve{[]Named{{"press-1", KeyID(honest)}}}); d.Err != nil || d.Record != nil {
		t.Errorf("approved before: %+v", d)
	}
	r.good("the rival", r.do("", by("press-1", honest, "s1")))

	r.asks("b", "press-2", stranger, "10.0.0.1")
	r.asks("b", "press-2", another, "10.0.0.1") // hides the next one
	r.want("too few digits", r.do("ann", Approve{[]Named{{"press-2", strings.Repeat("d", 15)}}}),
		wire.CodeInvalidArgument)
	unseen := strings.Repeat("d", 64)
	r.good("not seen", r.do("ann", Approve{[]Named{{"press-2", KeyID(unseen)}, {"press-3", KeyID(unseen)}}}))
	r.good("taken back", r.do("ann", Refuse{Nodes: []Named{{"press-3", unseen}}}))
	for _, hash := range []string{"b", "b5"} {
		if got := r.asks(hash, "press-3", unseen, "10.0.0.1"); got != wire.CodeNotAllowed {
			t.Errorf("taken back: %v", got)
		}
	}
	r.want("the first", r.do("", by("press-2", stranger, "s2")), wire.CodeWrongState)
	if got := string(r.replayed().Checkpoint()); got != string(r.Checkpoint()) {
		t.Errorf("replayed %s\nlive     %s", got, r.Checkpoint())
	}
	r.State = r.replayed()
	r.good("approved after all", r.do("ann", Approve{[]Named{{"press-3", KeyID(unseen)}}}))
	r.good("not seen, with its next try", r.do("", join("press-2", "b5", unseen, "s2")))
	for _, name := range []string{"line4", "line5"} {
		if b := r.Batch(name); b.Joined != 1 || len(b.Approved) != 1 || b.Approved[0].Node != "press-3" {
			t.Errorf("%+v", b)
		}
	}
	r.want("a node", r.do("ann", Approve{[]Named{{"press-2", KeyID(honest)}}}), wire.CodeWrongState)
}

// A key that nobody has seen gets a place in the batches that its node may come by, and no other.
func TestPlaceOfAnUnseenKey(t *testing.T) {
	r := newRig(t)
	r.do("ann", line4()) // two of press-* and oven
	name := func(nodes ...string) (all Approve) {
		for _, node := range nodes {
			all.Nodes = append(all.Nodes, Named{node, KeyID(honest)})
		}
		return all
	}
	sight := onSight()
	sight.Name, sight.Hash, sight.Names = "sight", "bs", nil
	r.do("ann", sight)
	r.want("no batch for the name", r.do("ann", name("drill")), wire.CodeNotFound)
	r.want("more than it is for", r.do("ann", name("press-1", "press-2", "oven")), wire.CodeWrongState)
	d := r.do("ann", name("press-1"))
	r.good("one", d)
	if got := d.Record.(record.BatchData).Approved; len(got) != 1 || got[0].Batch != "line4" ||
		r.Batch("line4").Room() != 1 {
		t.Errorf("%+v", got)
	}
	r.do("ann", RevokeBatch{Name: "line4"})
	r.want("a batch that has ended", r.do("ann", name("press-2")), wire.CodeNotFound)
}
