package enrol

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/wire"
)

// line4 is a batch of the network of join.
func line4() NewBatch {
	return NewBatch{Name: "line4", Hash: "b", Count: 2, From: []string{"10.0.0.0/24"},
		Names: []string{"press-*", "oven"}, Type: "mainType"}
}

// by returns a join with the secret of line4.
func by(node, key, serial string) Join { return join(node, "b", key, serial) }

func onSight() NewBatch {
	b := line4()
	b.OnSight = true
	return b
}

func (r *rig) good(what string, d Decision) {
	r.t.Helper()
	if d.Err != nil || d.Record == nil {
		r.t.Fatalf("%s: %v %v", what, d.Record, d.Err)
	}
}

func TestBatchOnSight(t *testing.T) {
	r := newRig(t)
	r.good("create", r.do("ann", onSight()))
	r.good("the first", r.do("", by("press-1", "k1", "s1")))
	r.good("its answer was lost", r.do("", by("press-1", "k1", "s1b")))
	if b := r.Batch("line4"); b.Joined != 1 || b.Room() != 1 {
		t.Errorf("a repeated join counts: %+v", b)
	}
	r.want("another machine under its name", r.do("", by("press-1", "k9", "s9")), wire.CodeWrongState)
	r.want("another name", r.do("", by("drill-1", "k2", "s2")), wire.CodeWrongTarget)
	away := by("press-2", "k2", "s2")
	away.From = "10.0.1.9"
	r.want("another network", r.do("", away), wire.CodeNotAllowed)
	away.From = ""
	r.want("no address", r.do("", away), wire.CodeNotAllowed)
	r.want("another's key", r.do("", by("press-2", "k1", "s2")), wire.CodeBadValue)
	six := by("oven", "k2", "s2")
	six.From = "::ffff:10.0.0.7"
	r.good("the second", r.do("", six))
	r.want("the third", r.do("", by("press-3", "k3", "s3")), wire.CodeWrongState)
	r.good("the first asks again, and takes no place", r.do("", by("press-1", "k1", "s1c")))
	if got := r.Lookup("node/press-1").Type; got != "mainType" {
		t.Errorf("type %q", got)
	}
	if b := r.Batch("line4"); b.Joined != 2 || !b.Over(r.now) {
		t.Errorf("%+v", b)
	}
	if got := r.replayed().Checkpoint(); string(got) != string(r.Checkpoint()) {
		t.Errorf("replayed %s\nlive     %s", got, r.Checkpoint())
	}
}

func TestBatchEnds(t *testing.T) {
	r := newRig(t)
	r.do("ann", onSight())
	r.now = r.now.Add(TokenLife - time.Second)
	r.good("in time", r.do("", by("press-1", "k1", "s1")))
	r.now = r.now.Add(time.Second)
	r.want("late", r.do("", by("press-2", "k2", "s2")), wire.CodeExpired)
	r.want("late again", r.do("", by("press-1", "k1", "s1b")), wire.CodeExpired)

	b := onSight()
	b.Name, b.Hash = "line5", "b5"
	r.good("create", r.do("ann", b))
	r.good("revoke", r.do("bob", RevokeBatch{Name: "line5", Reason: "lost"}))
	if d := r.do("bob", RevokeBatch{Name: "line5"}); d.Err != nil || d.Record != nil {
		t.Errorf("revoked twice: %+v", d)
	}
	r.want("revoked", r.do("", join("press-2", "b5", "k2", "s2")), wire.CodeNotAllowed)
	r.want("unknown", r.do("bob", RevokeBatch{Name: "line6"}), wire.CodeNotFound)
	if err := r.Counts("node/press-1", "s1"); err != nil {
		t.Errorf("who has joined is let go: %v", err)
	}
}

// A batch lets new nodes in, and nobody in place of one that is there.
func TestBatchTakesNobodyOver(t *testing.T) {
	r := newRig(t)
	b := onSight()
	b.Count = 100
	r.do("ann", b)
	r.do("ann", Enrol{Subject: "node/press-1", Hash: "h1"})
	r.want("one with a token of its own", r.do("", by("press-1", "k1", "s1")), wire.CodeWrongState)
	r.good("which it joins with", r.do("", join("press-1", "h1", "k1", "s1")))
	r.want("one that has joined", r.do("", by("press-1", "k2", "s2")), wire.CodeWrongState)
	r.want("by its own key", r.do("", by("press-1", "k1", "s2")), wire.CodeWrongState)
	r.do("ann", Revoke{Subject: "node/press-1"})
	r.want("one that was revoked", r.do("", by("press-1", "k3", "s3")), wire.CodeWrongState)
	heard := by("press-2", "k2", "s2")
	heard.Known = true
	r.want("one that was heard", r.do("", heard), wire.CodeWrongState)
	r.good("a new one", r.do("", by("press-3", "k4", "s4")))
	r.good("and another machine for it", r.do("ann", Enrol{Subject: "node/press-3", Hash: "h3"}))
	r.good("by a token", r.do("", join("press-3", "h3", "k5", "s5")))
	r.want("not back by the batch", r.do("", by("press-3", "k4", "s6")), wire.CodeWrongState)
	if got := r.Batch("line4").Joined; got != 1 {
		t.Errorf("%d joined", got)
	}
}

func TestOneByOne(t *testing.T) {
	r := newRig(t)
	k1, k2, k3 := strings.Repeat("1", 64), strings.Repeat("2", 64), strings.Repeat("3", 64)
	r.do("ann", line4())
	if d := r.do("", by("press-1", k1, "s1")); d.Err == nil || d.Err.Code != wire.CodeUnavailable || d.Record != nil {
		t.Fatalf("%+v", d)
	}
	r.want("another key under the name", r.do("", by("press-1", k2, "s2")), wire.CodeWrongState)
	w := r.Waiting(r.now)
	if len(w) != 1 || w[0].Key != k1 || w[0].Rival == nil || w[0].Rival.Key != k2 || w[0].Batch != "line4" {
		t.Fatalf("%+v", w)
	}
	r.want("without saying which of the two", r.do("ann", Approve{[]Named{{"press-1", ""}}}), wire.CodeWrongState)
	r.want("nobody", r.do("ann", Approve{[]Named{{"press-1", k1}, {"press-9", ""}}}), wire.CodeNotFound)
	if len(r.Batch("line4").Approved) != 0 {
		t.Fatal("an order that was refused was carried out in part")
	}
	r.good("approve", r.do("ann", Approve{[]Named{{"press-1", KeyID(k1)}}}))
	r.want("the other machine", r.do("", by("press-1", k2, "s2")), wire.CodeWrongState)
	r.good("the one that was approved", r.do("", by("press-1", k1, "s1")))
	if got := r.Waiting(r.now); len(got) != 0 {
		t.Errorf("still waits: %+v", got)
	}
	r.do("", by("press-2", k2, "s2"))
	r.do("", by("press-3", k3, "s3"))
	r.want("beyond the count", r.do("ann", Approve{[]Named{{"press-2", ""}, {"press-3", ""}}}), wire.CodeWrongState)
	r.good("as many as there is room for", r.do("ann", Approve{[]Named{{Node: "press-3"}}}))
	r.want("the count has its place", r.do("", by("press-2", k2, "s2")), wire.CodeWrongState)
	r.good("withdrawn", r.do("ann", Refuse{Nodes: []Named{{Node: "press-3"}}, Reason: "not ours"}))
	r.want("it is refused", r.do("", by("press-3", k3, "s3")), wire.CodeNotAllowed)
	if d := r.do("", by("press-2", k2, "s2")); d.Err.Code != wire.CodeUnavailable {
		t.Errorf("the place is not free again: %v", d.Err)
	}
	if got := string(r.replayed().Checkpoint()); got != string(r.Checkpoint()) {
		t.Errorf("replayed %s\nlive     %s", got, r.Checkpoint())
	}
}

// After a restart nobody waits until he asks again; who was approved may join.
func TestWaitingIsNotKept(t *testing.T) {
	r := newRig(t)
	r.do("ann", line4())
	r.do("", by("press-1", "k1", "s1"))
	r.do("", by("press-2", "k2", "s2"))
	r.good("approve", r.do("ann", Approve{[]Named{{Node: "press-1"}}}))
	var err error
	if r.State, err = Restored(r.Checkpoint()); err != nil {
		t.Fatal(err)
	}
	r.want("not asked yet", r.do("ann", Approve{[]Named{{Node: "press-2"}}}), wire.CodeNotFound)
	r.good("approved before", r.do("", by("press-1", "k1", "s1")))
	r.do("", by("press-2", "k2", "s2"))
	r.good("asked again", r.do("ann", Approve{[]Named{{Node: "press-2"}}}))
	r.now = r.now.Add(waitLife + time.Second)
	if got := r.Waiting(r.now); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestBatchesAreBounded(t *testing.T) {
	r := newRig(t)
	for i := range maxBatches {
		b := onSight()
		b.Name, b.Hash = fmt.Sprintf("b-%d", i), fmt.Sprintf("h-%d", i)
		r.good(b.Name, r.do("ann", b))
	}
	r.want("one too many", r.do("ann", line4()), wire.CodeTooLarge)
	r.good("a node of one that will be gone", r.do("", join("press-7", "h-7", "k7", "s7")))
	r.do("ann", RevokeBatch{Name: "b-7"})
	r.good("in place of one that is over", r.do("ann", line4()))
	if len(r.batches) != maxBatches || r.Batch("b-7") != nil {
		t.Errorf("%d batches, b-7 %v", len(r.batches), r.Batch("b-7"))
	}
	r.want("the same name", r.do("ann", line4()), wire.CodeAlreadyExists)
	restored, err := Restored(r.Checkpoint())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*State{r.State, restored} { // its secret is as good as any guess
		if d := s.Decide(r.now, join("press-7", "h-7", "k7", "s8")); !d.Guess {
			t.Errorf("the secret of a batch that is gone: %+v", d.Err)
		}
	}
	if got := string(r.replayed().Checkpoint()); got != string(r.Checkpoint()) {
		t.Error("replayed differs")
	}
}

func TestBatchIsChecked(t *testing.T) {
	r := newRig(t)
	for what, change := range map[string]func(*NewBatch){
		"/name":    func(b *NewBatch) { b.Name = "a b" },
		"/count":   func(b *NewBatch) { b.Count = 0 },
		"/ttl":     func(b *NewBatch) { b.Life = MaxTokenLife + time.Second },
		"/from":    func(b *NewBatch) { b.From = nil },
		"/from/0":  func(b *NewBatch) { b.From[0] = "10.0.0.1/24" },
		"/from/1":  func(b *NewBatch) { b.From = append(b.From, "10.0.0.1") },
		"/names/0": func(b *NewBatch) { b.Names[0] = "press-[" },
		"/names/1": func(b *NewBatch) { b.Names[1] = "a/b" },
	} {
		b := line4()
		change(&b)
		if d := r.do("ann", b); d.Err == nil || d.Err.Path != what || d.Record != nil {
			t.Errorf("%s: %v", what, d.Err)
		}
	}
}

// A batch that is open has the fingerprint of the CA of its day in its token.
func TestBatchNeedsItsCA(t *testing.T) {
	r := newRig(t)
	r.do("ann", onSight())
	later := r.now.Add(time.Minute)
	if got := r.NeedingCA(later, "sha256:ca", later); !slices.Equal(got, []string{"the batch line4"}) {
		t.Errorf("%q", got)
	}
	if got := r.NeedingCA(later, "sha256:ca", r.now); len(got) != 0 {
		t.Errorf("made after the switch: %q", got)
	}
	r.do("ann", RevokeBatch{Name: "line4"})
	if got := r.NeedingCA(later, "sha256:ca", later); len(got) != 0 {
		t.Errorf("revoked: %q", got)
	}
}

// Whatever happens: no more nodes join by a batch than it is for, each has been let in by somebody, and a replay and a
// checkpoint give the same state.
func TestBatchProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(t)
		b := line4()
		b.Count, b.Names, b.OnSight = rapid.IntRange(1, 3).Draw(t, "count"), nil, rapid.Bool().Draw(t, "on sight")
		r.do("ann", b)
		node := rapid.SampledFrom([]string{"n1", "n2", "n3", "n4", "n5"})
		key := rapid.SampledFrom([]string{"k1", "k2", "k3", "k4", "k5", "k6"})
		approved, joined := map[string]string{}, map[string]bool{}
		for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch n := node.Draw(t, "node"); rapid.IntRange(0, 5).Draw(t, "what") {
			case 0, 1, 2:
				k := key.Draw(t, "key")
				d := r.do("", by(n, k, fmt.Sprintf("s%d", i)))
				j, ok := d.Record.(record.JoinedData)
				if !ok {
					continue
				}
				if !b.OnSight && approved[n] != k {
					t.Fatalf("%s joined with %s, approved with %q", n, k, approved[n])
				}
				if joined[n] && !j.Again {
					t.Fatalf("%s joined twice", n)
				}
				joined[n] = true
			case 3:
				if d := r.do("ann", Approve{[]Named{{Node: n}}}); d.Err == nil {
					approved[n] = d.Record.(record.BatchData).Approved[0].Key
				}
			case 4:
				r.do("ann", Refuse{Nodes: []Named{{Node: n}}})
			case 5:
				s, err := Restored(r.Checkpoint())
				if err != nil {
					t.Fatal(err)
				}
				r.State = s
			}
			got := r.Batch("line4")
			if len(joined) > b.Count || got.Joined != len(joined) || got.Joined+len(got.Approved) > b.Count {
				t.Fatalf("%d joined, %+v", len(joined), got)
			}
		}
		if got := string(r.replayed().Checkpoint()); got != string(r.Checkpoint()) {
			t.Fatalf("replayed %s\nlive     %s", got, r.Checkpoint())
		}
	})
}
