package fleet

import (
	"bytes"
	"crypto/ed25519"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/kinds"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/signing"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/wire"
)

func testKey(n byte) wire.Key { return testSigner(n).Key() }

func testSigner(n byte) *seal.Signer {
	return seal.NewSigner(ed25519.NewKeyFromSeed(append([]byte{n}, make([]byte, 31)...)))
}

// keyed is a Fleet whose keys are ordered about.
type keyed struct {
	f       *Fleet
	now     time.Time
	journal []record.Record
}

func newKeyed() *keyed {
	f := New(Options{Kinds: kinds.All(), Unit: "u1", Epoch: 5})
	return &keyed{f: f, now: time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)}
}

func (k *keyed) step(ev Event) (changed bool, err error) {
	var out Out
	k.f.Step(k.now, ev, &out)
	k.journal = append(k.journal, slices.Clone(out.Records)...)
	for _, e := range out.Effects {
		switch e := e.(type) {
		case KeysChanged:
			changed = true
		case Answer:
			err = e.Err
		}
	}
	return changed, err
}

func (k *keyed) order(do record.KeyStep, key wire.Key, force bool) error {
	o := signing.Order{Do: do, Key: key, First: testKey(1), Force: force, Who: "ann"}
	_, err := k.step(KeyOrder{Ticket: 1, Order: o})
	return err
}

// tells has a node report the keys that it believes.
func (k *keyed) tells(node string, seq uint64, kids ...string) {
	i := wire.NodeInfo{Type: "t", Keys: kids}
	r := wire.Reported{V: 1, Node: node, Kind: wire.KindInfo, Boot: "b", Seq: seq, Detail: wire.Encode(&i)}
	_, _ = k.step(Heard{Node: node, Raw: wire.Encode(&r), Reported: &r, Detail: &i})
}

// replayed makes sure that the records, and a checkpoint, lead to the same.
func (k *keyed) replayed() string {
	again := New(Options{Kinds: kinds.All(), Unit: "u1", Epoch: 5})
	for i := range k.journal {
		if err := again.Replay(&k.journal[i]); err != nil {
			return err.Error()
		}
	}
	restored, err := Restored(Options{Kinds: kinds.All(), Unit: "u1", Epoch: 5}, k.f.Checkpoint())
	if err != nil {
		return err.Error()
	}
	for _, f := range []*Fleet{again, restored} {
		if !bytes.Equal(f.Checkpoint(), k.f.Checkpoint()) {
			return string(f.Checkpoint()) + "\n" + string(k.f.Checkpoint())
		}
	}
	return ""
}

// Who has to be waited for, and who has not.
func TestKeyOrders(t *testing.T) {
	k := newKeyed()
	one, two, three := testKey(1), testKey(2), testKey(3)
	for _, n := range []string{"n1", "n2", "n3"} {
		k.tells(n, 1, one.ID)
	}
	refused := func(err error, code wire.Code, with string) {
		t.Helper()
		if e := wire.AsError(err); err == nil || e.Code != code || !strings.Contains(e.Message, with) {
			t.Errorf("%v, want %s with %q", err, code, with)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	refused(k.order(record.SignWithKey, two, true), wire.CodeWrongState, "not announced")
	refused(k.order(record.AnnounceKey, one, false), wire.CodeWrongState, "in use before")
	refused(k.order(record.RetireKey, one, true), wire.CodeWrongState, "signs")
	refused(k.order(record.RetireKey, three, true), wire.CodeNotFound, "no key")
	must(k.order(record.AnnounceKey, two, false))
	rev := k.f.Keys().Rev
	if rev != uint64(k.now.Unix()) {
		t.Errorf("the list has number %d", rev)
	}
	refused(k.order(record.AnnounceKey, three, true), wire.CodeWrongState, "announced already")
	refused(k.order(record.SignWithKey, two, false), wire.CodeWrongState, "n1, n2, n3 are not known")
	k.tells("n1", 2, one.ID, two.ID)
	k.tells("n2", 2, one.ID, two.ID)
	refused(k.order(record.SignWithKey, two, false), wire.CodeWrongState, "n3 is not known")
	if v := k.f.KeysView(one); len(v.Keys) != 2 || v.Keys[1].Nodes != 2 ||
		!slices.Equal(v.Keys[1].Missing, []string{"n3"}) || len(v.Keys[0].Missing) != 0 {
		t.Errorf("%+v", v)
	}

	// Whoever joined before the announcement and was not heard since is waited for as well.
	enrolment := func(ev enrol.Event) {
		_, err := k.step(Enrolment{Event: ev, Who: "ann"})
		must(err)
	}
	join := func(node string) {
		enrolment(enrol.Enrol{Subject: "node/" + node, Hash: node})
		enrolment(enrol.Join{Subject: "node/" + node, Hash: node, Key: "k" + node, Serial: "s" + node,
			Expires: k.now.Add(time.Hour), CA: "ca"})
	}
	k.now = k.now.Add(-time.Hour)
	join("n4")
	k.now = k.now.Add(2 * time.Hour)
	join("n5") // was given both keys
	refused(k.order(record.SignWithKey, two, false), wire.CodeWrongState, "n3, n4 are not known")
	enrolment(enrol.Revoke{Subject: "node/n3", Known: true})
	enrolment(enrol.Revoke{Subject: "node/n4"})
	must(k.order(record.SignWithKey, two, false))
	if s := k.f.Keys().Signs(); s.ID != two.ID || s.Who != "ann" || k.f.Keys().Rev <= rev {
		t.Errorf("%+v", k.f.Keys())
	}
	k.tells("n6", 1, one.ID) // a backup of a node came back
	refused(k.order(record.RetireKey, one, false), wire.CodeWrongState, "n6 is not known")
	must(k.order(record.RetireKey, one, true))
	last := k.journal[len(k.journal)-1]
	if last.Type != record.Keys || last.Who != "ann" || !strings.Contains(string(last.Data), `"forced":true`) ||
		!strings.Contains(string(last.Data), `"n6"`) {
		t.Errorf("%s %s", last.Type, last.Data)
	}
	refused(k.order(record.RetireKey, one, true), wire.CodeWrongState, "retired already")
	refused(k.order(record.AnnounceKey, one, true), wire.CodeWrongState, "in use before")
	if why := k.replayed(); why != "" {
		t.Error(why)
	}
}

// Whatever is ordered: exactly one key signs, the number of the list rises with each change, also if the
// clock goes back, no retired key comes back, and replay leads to the same.
func TestKeyProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := newKeyed()
		k.tells("n1", 1)
		gone := map[string]bool{}
		for range rapid.IntRange(1, 25).Draw(t, "orders") {
			k.now = k.now.Add(time.Duration(rapid.IntRange(-5, 5).Draw(t, "seconds")) * time.Second)
			before := k.f.Keys()
			steps := []record.KeyStep{
				record.AnnounceKey, record.AnnounceKey, record.SignWithKey, record.SignWithKey,
				record.RetireKey, record.ReplaceKey,
			}
			do := rapid.SampledFrom(steps).Draw(t, "order")
			key := testKey(byte(rapid.IntRange(1, 6).Draw(t, "key")))
			if n := before.Next(); n != nil && do == record.SignWithKey {
				key = n.Key
			}
			if do == record.ReplaceKey && gone[key.ID] {
				continue // the shell takes no retired key
			}
			o := signing.Order{Do: do, Key: key, First: testKey(1), Force: rapid.Bool().Draw(t, "force")}
			changed, err := k.step(KeyOrder{Ticket: 1, Order: o})
			after := k.f.Keys()
			if changed != (err == nil) || changed != (after.Rev > before.Rev) {
				t.Fatalf("%s: changed %v, %v, list %d after %d", do, changed, err, after.Rev, before.Rev)
			}
			if len(after.List) == 0 {
				continue
			}
			if err := after.Check(); err != nil {
				t.Fatal(err)
			}
			for _, key := range before.List {
				if after.Find(key.ID) == nil {
					gone[key.ID] = true
				}
			}
			for _, key := range after.List {
				if gone[key.ID] {
					t.Fatalf("%s is back", key.ID)
				}
			}
		}
		if why := k.replayed(); why != "" {
			t.Fatal(why)
		}
	})
}

// Records about keys that this program cannot have written are refused.
func TestReplayRefusesKeys(t *testing.T) {
	k := newKeyed()
	if err := k.order(record.AnnounceKey, testKey(2), false); err != nil {
		t.Fatal(err)
	}
	good := k.journal[len(k.journal)-1]
	for what, data := range map[string]string{
		"no list":       `{"did":"announced","key":"k","keys":{"rev":1}}`,
		"nobody signs":  strings.Replace(string(good.Data), `"signing"`, `"leaving"`, 1),
		"two sign":      strings.Replace(string(good.Data), `"state":"announced"`, `"state":"signing"`, 1),
		"another ID":    strings.Replace(string(good.Data), `"kid":"`+testKey(2).ID, `"kid":"`+testKey(3).ID, 1),
		"another state": strings.Replace(string(good.Data), `"state":"announced"`, `"state":"trusted"`, 1),
		"no JSON":       `{`,
	} {
		r := good
		r.Data = []byte(data)
		if data == string(good.Data) {
			t.Errorf("%s: nothing was changed in %s", what, data)
		}
		f := New(Options{Kinds: kinds.All(), Unit: "u1", Epoch: 5})
		r.Seq = 1
		if err := f.Replay(&r); err == nil {
			t.Errorf("%s: taken: %s", what, data)
		}
	}
}

// TestShownByWhichKey: what a node shows counts if a key has signed it that the journal lists, or that is on the disk
// and was not retired.
func TestShownByWhichKey(t *testing.T) {
	f := New(Options{Kinds: kinds.All(), Unit: "u1", Epoch: 5, Keys: []wire.Key{testKey(1), testKey(2)}})
	f.keys = record.SigningKeys{List: []record.SigningKey{{Key: testKey(3)}}, Retired: []string{testKey(2).ID}}
	for n, want := range map[byte]bool{1: true, 2: false, 3: true, 4: false} {
		shown := &wire.Shown{Epoch: 9, Rev: 1, Version: "1.0.0", Hash: wire.Hash(nil), Mode: wire.ModeApply}
		shown.Sig = testSigner(n).Sign(seal.DesiredPreimage(shown.Of("u1", "n1", wire.KindConfig)))
		s := step{Fleet: f, now: origin}
		node := &Node{Name: "n1", Kinds: map[wire.Kind]*KindState{}}
		_, err := s.signed(node, f.output(wire.KindConfig), wire.Encode(shown))
		if (err == nil) != want {
			t.Errorf("key %d: %v", n, err)
		}
	}
}
