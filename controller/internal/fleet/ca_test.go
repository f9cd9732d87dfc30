package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/signing"
	"tandem.internal/shared/wire"
)

func testCA(n int) string { return fmt.Sprintf("sha256:%016x%048x", n, n) }

// believes has a node that is online describe itself, with the CAs that it believes; none: an older agent. It returns
// whether the node is asked to look at the join door.
func (k *keyed) believes(node string, seq uint64, cas ...int) (prompted bool) {
	i := wire.NodeInfo{Type: "t"}
	if len(cas) > 0 {
		var ids []string
		for _, n := range cas {
			ids = append(ids, record.CAID(testCA(n)))
		}
		i.Attributes = map[string]string{wire.AttributeCA: strings.Join(ids, " ")}
	}
	r := wire.Reported{V: 1, Node: node, Kind: wire.KindInfo, Boot: "b", Seq: seq, Detail: wire.Encode(&i)}
	return slices.Contains(k.prompts(Heard{Node: node, Raw: wire.Encode(&r), Reported: &r, Detail: &i}), node)
}

// connects has a node say that it is online.
func (k *keyed) connects(node string, session uint64) (prompted bool) {
	l := wire.Live{V: 1, Node: node, Boot: "b", Session: session, Up: true}
	return slices.Contains(k.prompts(Heard{Node: node, Raw: wire.Encode(&l), Live: &l}), node)
}

// prompts takes a step, and returns who is asked to look at the join door.
func (k *keyed) prompts(ev Event) (nodes []string) {
	var out Out
	k.f.Step(k.now, ev, &out)
	k.journal = append(k.journal, slices.Clone(out.Records)...)
	for _, e := range out.Effects {
		if a, ok := e.(Ask); ok && a.Method == wire.MethodCA {
			nodes = append(nodes, a.Nodes...)
		}
	}
	return nodes
}

func (k *keyed) enrolment(t *testing.T, ev enrol.Event) {
	t.Helper()
	k.now = k.now.Add(2 * time.Minute)
	if _, err := k.step(Enrolment{Ticket: 1, Event: ev}); err != nil {
		t.Fatal(err)
	}
}

// joins has a subject certified by a CA.
func (k *keyed) joins(t *testing.T, subject string, by int, life time.Duration) {
	t.Helper()
	if strings.HasPrefix(subject, nodePrefix) {
		k.enrolment(t, enrol.Enrol{Subject: subject, Hash: "h-" + subject + testCA(by)})
		k.enrolment(t, enrol.Join{Subject: subject, Hash: "h-" + subject + testCA(by),
			Key: "k-" + subject + testCA(by), Serial: "1-" + subject, Expires: k.now.Add(life), CA: testCA(by)})
		return
	}
	k.enrolment(t, enrol.Certify{Subject: subject, Key: "k-" + subject, Serial: "1-" + subject,
		Expires: k.now.Add(life), CA: testCA(by)})
}

func (k *keyed) caOrder(do record.KeyStep, n int, force bool) error {
	ca := testCA(n)
	if do == record.SignWithKey || do == record.RetireKey {
		ca = record.CAID(ca)
	}
	_, err := k.step(CAOrder{Ticket: 1,
		CAOrder: signing.CAOrder{Do: do, CA: ca, First: testCA(1), Force: force, Who: "ann"}})
	return err
}

// Who has to be waited for in a rotation of the CA, and who has not; who is asked to look at the join door.
func TestCAOrders(t *testing.T) {
	k := newKeyed()
	for _, n := range []string{"n1", "n2", "n3", "n4", "n5", "n6"} {
		life := 1000 * time.Hour
		if n == "n4" {
			life = time.Hour // it is away for longer than that
		}
		k.joins(t, "node/"+n, 1, life)
		k.believes(n, 1, 1)
	}
	k.connects("n1", 1)
	k.believes("n3", 2) // an older agent
	k.connects("n3", 1)
	k.enrolment(t, enrol.Revoke{Subject: "node/n5"})
	k.step(Forget{Ticket: 1, Nodes: []string{"n6"}})
	k.joins(t, "cloud/eu", 1, 1000*time.Hour)
	k.joins(t, "broker/b1", 1, 1000*time.Hour)
	k.enrolment(t, enrol.Enrol{Subject: "node/n7", Hash: "h7", Life: 30 * 24 * time.Hour})
	k.now = k.now.Add(2 * time.Hour)
	if k.connects("n1", 2) {
		t.Error("asked without a reason")
	}
	missing := func(n int) []string {
		for _, ca := range k.f.CAView(k.now, testCA(1)).CAs {
			if ca.ID == record.CAID(testCA(n)) {
				return ca.Missing
			}
		}
		return []string{"it is not listed"}
	}
	is := func(when string, n int, want ...string) {
		t.Helper()
		if got := missing(n); !slices.Equal(got, want) {
			t.Errorf("%s: %v are in the way of %d, want %v", when, got, n, want)
		}
	}
	is("at first", 1)
	ev := CAOrder{CAOrder: signing.CAOrder{Do: record.AnnounceKey, CA: testCA(2), First: testCA(1)}}
	if asked := k.prompts(ev); !slices.Equal(asked, []string{"n1"}) {
		t.Errorf("%v are asked; n3 does not know how", asked)
	}
	is("announced", 2, "n1", "n2", "n3")
	if !k.connects("n2", 1) || k.connects("n3", 2) {
		t.Error("who connects and does not believe it is not asked")
	}
	if k.believes("n1", 2, 1, 2) || k.believes("n2", 2, 1, 2) || k.connects("n1", 3) {
		t.Error("who believes it is asked")
	}
	is("believed", 2, "n3")
	if err := k.caOrder(record.SignWithKey, 2, false); err == nil || !strings.Contains(err.Error(), "n3 is") {
		t.Errorf("%v", err)
	}
	if err := k.caOrder(record.SignWithKey, 2, true); err != nil {
		t.Fatal(err)
	}
	is("switched", 1, "a token for n7", "broker/b1", "cloud/eu", "n1", "n2", "n3")
	if !k.connects("n1", 4) {
		t.Error("who may have been away at the switch is not asked")
	}
	k.enrolment(t, enrol.Renew{Subject: "node/n1", Serial: "1-node/n1", Shown: "k-node/n1" + testCA(1), Key: "k2",
		Next: "2-n1", Expires: k.now.Add(time.Hour * 900), CA: testCA(2)})
	if k.connects("n1", 5) {
		t.Error("who has renewed is asked")
	}
	k.joins(t, "cloud/eu2", 2, 100*time.Hour)
	k.enrolment(t, enrol.Certify{Subject: "broker/b1", Key: "k3", Serial: "3", Expires: k.now.Add(900 * time.Hour),
		CA: testCA(2)})
	k.enrolment(t, enrol.Revoke{Subject: "cloud/eu"})
	k.joins(t, "node/n3", 2, 900*time.Hour) // by a new token
	k.enrolment(t, enrol.Enrol{Subject: "node/n7", Hash: "h8"})
	is("renewed", 1, "n2")
	if err := k.caOrder(record.RetireKey, 1, false); err == nil || !strings.Contains(err.Error(), "n2 is in need") {
		t.Errorf("%v", err)
	}
	if err := k.caOrder(record.RetireKey, 1, true); err != nil {
		t.Fatal(err)
	}
	// Who was left behind does not stand in the way of the next rotation.
	if err := k.caOrder(record.AnnounceKey, 3, false); err != nil {
		t.Fatal(err)
	}
	is("the next one", 3, "n1", "n3")
	if why := k.replayed(); why != "" {
		t.Error(why)
	}
}

// Nodes are asked to look when a broker's certificate was revoked, and whoever connects from then on.
func TestBrokerIsRefused(t *testing.T) {
	k := newKeyed()
	k.joins(t, "node/n1", 1, 1000*time.Hour)
	k.believes("n1", 1, 1)
	k.connects("n1", 1)
	key := strings.Repeat("ab", 32)
	k.enrolment(t, enrol.Certify{Subject: "broker/b1", Key: key, Serial: "1", Expires: k.now.Add(time.Hour),
		CA: testCA(1)})
	if len(k.f.RefusedBrokers()) != 0 || k.connects("n1", 2) {
		t.Errorf("%v", k.f.RefusedBrokers())
	}
	asked := k.prompts(Enrolment{Event: enrol.Revoke{Subject: "broker/b1"}})
	if !slices.Equal(asked, []string{"n1"}) || !slices.Equal(k.f.RefusedBrokers(), []string{key[:32]}) {
		t.Errorf("%v asked, %v refused", asked, k.f.RefusedBrokers())
	}
	if !k.connects("n1", 3) {
		t.Error("who connects is not asked")
	}
	if why := k.replayed(); why != "" {
		t.Error(why)
	}
}

// Whatever is ordered about CAs: exactly one signs, the number of the list rises with each change, also if the clock
// goes back, no retired CA is announced again, and replay leads to the same.
func TestCAProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := newKeyed()
		gone := map[string]bool{}
		for range rapid.IntRange(1, 25).Draw(t, "orders") {
			k.now = k.now.Add(time.Duration(rapid.IntRange(-5, 5).Draw(t, "seconds")) * time.Second)
			before := k.f.CAs()
			do := rapid.SampledFrom([]record.KeyStep{record.AnnounceKey, record.SignWithKey, record.RetireKey,
				record.ReplaceKey}).Draw(t, "order")
			n := rapid.IntRange(1, 6).Draw(t, "ca")
			if do == record.ReplaceKey && gone[testCA(n)] {
				continue // the shell takes no retired CA
			}
			err := k.caOrder(do, n, rapid.Bool().Draw(t, "force"))
			after := k.f.CAs()
			if (err == nil) != (after.Rev > before.Rev) {
				t.Fatalf("%s: %v, list %d after %d", do, err, after.Rev, before.Rev)
			}
			if len(after.List) == 0 {
				continue
			}
			if err := after.Check(); err != nil {
				t.Fatal(err)
			}
			for _, ca := range before.List {
				if after.Find(ca.ID()) == nil {
					gone[ca.CA] = true
				}
			}
			for _, ca := range after.List {
				if gone[ca.CA] {
					t.Fatalf("%s is back", ca.ID())
				}
			}
		}
		if why := k.replayed(); why != "" {
			t.Fatal(why)
		}
	})
}

// Records about CAs that this program cannot have written are refused.
func TestReplayRefusesCAs(t *testing.T) {
	good := record.Authority{CA: testCA(1), State: record.KeySigning}
	for name, list := range map[string][]record.Authority{
		"none signs":     {{CA: testCA(1), State: record.KeyLeaving}},
		"two sign":       {good, {CA: testCA(2), State: record.KeySigning}},
		"twice":          {good, {CA: testCA(1), State: record.KeyAnnounced}},
		"another state":  {good, {CA: testCA(2), State: "x"}},
		"no fingerprint": {good, {CA: "sha256:00", State: record.KeyAnnounced}},
		"too many": {good, {CA: testCA(2), State: record.KeyAnnounced}, {CA: testCA(3), State: record.KeyAnnounced},
			{CA: testCA(4), State: record.KeyAnnounced}, {CA: testCA(5), State: record.KeyAnnounced}},
		"nothing is listed": nil,
	} {
		k := newKeyed()
		r := record.Record{Seq: 1, Type: record.CA, Data: record.Encode(record.CAData{Did: record.AnnounceKey,
			CAs: record.Authorities{Rev: 1, List: list}})}
		if err := k.f.Replay(&r); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
