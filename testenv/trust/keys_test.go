package trust

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zaptest/observer"

	"tandem.internal/broker/server"
	controller "tandem.internal/controller/app"
	node "tandem.internal/nodeagent/app"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// apply gives the unit a configuration of this version.
func (r *Rig) apply(version string) {
	r.t.Helper()
	doc := fmt.Sprintf(`{"formatVersion":"7","version":%q,"nodes":[`+
		`{"nodeGroupSubject":{"codename":"mainType"},"labels":["v%s"]}]}`, version, version)
	res, err := r.App.Unit().Submit(r.t.Context(), controller.Submission{Kind: "config", Document: []byte(doc),
		Who: "ann"})
	if err != nil || res.State != "accepted" {
		r.t.Fatalf("%s: %+v, %v", version, res, err)
	}
}

// runs waits until nodes run a version.
func (r *Rig) runs(version string, nodes ...string) {
	r.t.Helper()
	for _, name := range nodes {
		r.Until(name+" runs "+version, func() string {
			d := r.View(name).Documents[wire.KindConfig]
			if d.Running == nil || d.Running.Version != version || !d.InSync {
				return fmt.Sprintf("%+v %+v", d.Running, d.Last)
			}
			return ""
		})
	}
}

// unaware waits until these nodes, and no others, are not known to believe a key.
func (r *Rig) unaware(kid string, nodes ...string) {
	r.t.Helper()
	r.Until("key "+kid, func() string {
		k, err := r.App.Unit().SigningKeys(r.t.Context())
		if err != nil {
			return err.Error()
		}
		for _, key := range k.Keys {
			if key.ID == kid && slices.Equal(key.Missing, nodes) {
				return ""
			}
		}
		return fmt.Sprintf("%+v", k)
	})
}

// stolen reads the private half of a key from the controller's state directory.
func (r *Rig) stolen(file string) *seal.Signer {
	r.t.Helper()
	data, err := os.ReadFile(filepath.Join(r.Dir, "controller", file))
	if err != nil {
		r.t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		r.t.Fatal(err)
	}
	return seal.NewSigner(key.(ed25519.PrivateKey))
}

func foreign(seed byte) *seal.Signer {
	return seal.NewSigner(ed25519.NewKeyFromSeed(append([]byte{seed}, make([]byte, 31)...)))
}

// forged is a beacon with a list of keys; by nil leaves it unsigned.
func forged(by *seal.Signer, rev uint64, keys ...*seal.Signer) []byte {
	b := wire.Beacon{V: wire.Version, Unit: "u1", Epoch: 1, Up: true, Time: time.Now(), KeysRev: rev}
	for _, k := range keys {
		b.Keys = append(b.Keys, k.Key())
	}
	if by != nil {
		b.Sig = by.Sign(seal.BeaconPreimage(&b))
	}
	return wire.Encode(&b)
}

// retained waits until the broker retains something that is as it should be.
func (r *Rig) retained(b *server.Server, name string, good func([]byte) bool) []byte {
	r.t.Helper()
	var payload []byte
	r.Until(name, func() string {
		var ok bool
		if payload, ok = b.Retained(name); !ok || !good(payload) {
			return string(payload)
		}
		return ""
	})
	return payload
}

func desired(node string) string { return topic.ForNode("u1", node).Desired(wire.KindConfig) }

// sealedBy says that a desired document is of a version, and which key has sealed it.
func sealedBy(kid, version string) func([]byte) bool {
	return func(payload []byte) bool {
		d, err := wire.Decode[wire.Desired](payload)
		return err == nil && d.Sig != nil && d.Sig.KeyID == kid && d.Version == version
	}
}

// said counts what nodes have logged of a kind of event, with this in it.
func (r *Rig) said(event, with string) int {
	return r.Logs.FilterMessage("event").Filter(func(e observer.LoggedEntry) bool {
		m := e.ContextMap()
		return m["type"] == event && strings.Contains(fmt.Sprint(m), with)
	}).Len()
}

func refusedAs(t *testing.T, err error, with string) {
	t.Helper()
	if e, ok := errors.AsType[*wire.Error](err); !ok || e.Code != wire.CodeWrongState ||
		!strings.Contains(e.Message, with) {
		t.Errorf("%v, want wrong-state with %q", err, with)
	}
}

// Three nodes at a hostile broker go through a rotation, one of them away through all of it. The broker has
// every message of before, and in the end the old key, too.
func TestKeyRotation(t *testing.T) {
	r := NewRig(t)
	b, again := site(t, r)
	unit := r.App.Unit()
	stop := map[string]func(){}
	for _, n := range []string{"n1", "n2", "n3"} {
		r.Joined(n)
		stop[n] = r.Agent(n)
	}
	for n := range stop {
		r.Online(n, true)
	}
	r.apply("1.0.0")
	r.runs("1.0.0", "n1", "n2", "n3")
	k, err := unit.SigningKeys(t.Context())
	if err != nil || len(k.Keys) != 1 || k.Keys[0].State != "signing" || k.Rev != 0 {
		t.Fatalf("%+v, %v", k, err)
	}
	one := r.stolen("unit-key.pem")
	r.unaware(one.Key().ID)
	beacon := topic.ForController("u1")
	first := r.retained(b, beacon, func([]byte) bool { return true })
	stop["n3"]()
	r.Online("n3", false)

	// Announced.
	k, err = unit.RotateKey(controller.As(t.Context(), "ann"), controller.RotateKey{})
	if err != nil || len(k.Keys) != 2 || k.Keys[1].State != "announced" || k.Keys[0].ID != one.Key().ID {
		t.Fatalf("%+v, %v", k, err)
	}
	two := k.Keys[1].ID
	r.unaware(two, "n3")
	announced := r.retained(b, beacon, func(p []byte) bool { return strings.Contains(string(p), two) })
	_, err = unit.RotateKey(controller.As(t.Context(), "ann"), controller.RotateKey{})
	refusedAs(t, err, "n3 is not known")
	_, err = unit.RetireKey(controller.As(t.Context(), "ann"), controller.RetireKey{ID: one.Key().ID, Force: true})
	refusedAs(t, err, "signs")

	// Switched: everything is sealed anew, and nobody has anything to do.
	if k, err = unit.RotateKey(controller.As(t.Context(), "ann"), controller.RotateKey{
		Force: true,
	}); err != nil || k.Keys[0].State != "leaving" || k.Keys[1].State != "signing" {
		t.Fatalf("%+v, %v", k, err)
	}
	for n := range stop {
		r.retained(b, desired(n), sealedBy(two, "1.0.0"))
	}
	r.apply("2.0.0")
	r.runs("2.0.0", "n1", "n2")
	old := r.retained(b, desired("n1"), sealedBy(two, "2.0.0"))

	// Retired.
	_, err = unit.RetireKey(controller.As(t.Context(), "ann"), controller.RetireKey{ID: one.Key().ID})
	refusedAs(t, err, "n3 is not known")
	if k, err = unit.RetireKey(controller.As(t.Context(), "ann"), controller.RetireKey{
		ID: one.Key().ID, Force: true,
	}); err != nil || len(k.Keys) != 1 || k.Keys[0].ID != two {
		t.Fatalf("%+v, %v", k, err)
	}
	if _, err := os.Stat(filepath.Join(r.Dir, "controller", "unit-key.pem")); err == nil {
		t.Error("the private half of the retired key is still there")
	}
	r.Until("n1 and n2 drop the key", func() string {
		for _, n := range []string{"n1", "n2"} {
			if got := r.View(n).Info.Keys; !slices.Equal(got, []string{two}) {
				return fmt.Sprintf("%s believes %v", n, got)
			}
		}
		return ""
	})

	// The broker does what it can.
	evil := foreign(1)
	attacks := [][]byte{forged(nil, 9e9, evil), forged(one, 9e9, one, evil), forged(evil, 9e9, evil), first, announced}
	for _, payload := range attacks {
		before := r.said("key-refused", "") + r.said("refused-message", "")
		if err := b.Publish(beacon, payload, false); err != nil {
			t.Fatal(err)
		}
		r.Until("both refuse", func() string {
			if n := r.said("key-refused", "") + r.said("refused-message", ""); n < before+2 {
				return fmt.Sprintf("%d events, want %d: %s", n, before+2, payload)
			}
			return ""
		})
	}
	d, err := wire.Decode[wire.Desired](old)
	if err != nil {
		t.Fatal(err)
	}
	d.Rev, d.Version = d.Rev+1000, "6.6.6"
	for _, by := range []*seal.Signer{one, evil} {
		d.Sig = by.Sign(seal.DesiredPreimage(d))
		if err := b.Publish(desired("n1"), d.Append(nil), false); err != nil {
			t.Fatal(err)
		}
	}

	// A node that missed all of it falls to whoever has the old key, as long as the controller is away; and
	// finds back by itself.
	r.Stop()
	if err := b.Publish(beacon, forged(one, 9e9, one, evil), true); err != nil {
		t.Fatal(err)
	}
	stop["n3"] = r.Agent("n3")
	r.Until("n3 believes the thief", func() string {
		if r.said("key-pinned", evil.Key().ID) == 0 {
			return "not yet"
		}
		return ""
	})
	stop["n3"]()
	r.Start(again)
	stop["n3"] = r.Agent("n3")
	r.runs("2.0.0", "n1", "n2", "n3")
	r.unaware(two)

	// One that joins later only ever hears of the new key.
	r.Joined("n4")
	r.Agent("n4")
	r.runs("2.0.0", "n4")

	// n1's machine is exchanged. The broker offers the new one what the old one ran.
	stop["n1"]()
	r.Online("n1", false)
	r.apply("3.0.0")
	r.runs("3.0.0", "n2", "n3", "n4")
	now := r.retained(b, desired("n1"), sealedBy(two, "3.0.0"))
	if err := r.Join("machine", r.Enroll("n1")); err != nil {
		t.Fatal(err)
	}
	if err := b.Publish(desired("n1"), old, true); err != nil {
		t.Fatal(err)
	}
	r.Agent("machine")
	r.Until("the old document is stale", func() string {
		if r.said("stale", "was old when this node joined") == 0 {
			return "no event"
		}
		return ""
	})
	if _, err := os.Stat(filepath.Join(r.Dir, "machine", "config.json")); err == nil {
		if data, err := os.ReadFile(filepath.Join(r.Dir, "machine", "config.json")); err != nil ||
			strings.Contains(string(data), "2.0.0") {
			t.Errorf("the old configuration was applied: %s %v", data, err)
		}
	}
	if err := b.Publish(desired("n1"), now, true); err != nil { // what the floor names is taken
		t.Fatal(err)
	}
	r.runs("3.0.0", "n1")
	if r.said("key-refused", "") == 0 || len(r.Entries("keys")) != 3 {
		t.Errorf("%d records about keys", len(r.Entries("keys")))
	}
	if err := r.App.Audit(t.Context()); err != nil {
		t.Error(err)
	}
}

// The signing key is lost. Nothing happens in silence; then nodes that have joined find the new one at the
// door, but for n2, which wants hands.
func TestSigningKeyIsLost(t *testing.T) {
	r := NewRig(t)
	pinned := func(c *node.Config) { c.PinKeys = true }
	r.Joined("n1")
	r.Joined("n2")
	stop, stop2 := r.Agent("n1"), r.Agent("n2", pinned)
	r.Online("n1", true)
	r.Online("n2", true)
	r.apply("1.0.0")
	r.runs("1.0.0", "n1", "n2")
	old := r.View("n2").Info.Keys
	r.Stop()
	stop()
	stop2()
	if err := os.Remove(filepath.Join(r.Dir, "controller", "unit-key.pem")); err != nil {
		t.Fatal(err)
	}
	if _, err := controller.New(r.Config(), controller.Deps{Log: r.Log, Now: r.Now, NoAPI: true}); err == nil ||
		!strings.Contains(err.Error(), "--new-key") {
		t.Fatalf("without the key: %v", err)
	}
	for range 2 { // the flag may stay: it does nothing while there is a key
		r.Start(func(c *controller.Config) { c.NewKey = true })
		r.Stop()
	}
	r.Start(nil)
	before := r.said("key-refused", "")
	stop2 = r.Agent("n2", pinned)
	r.Until("n2 refuses the key", func() string {
		if r.said("key-refused", "") == before {
			return "it has not"
		}
		return ""
	})
	r.Agent("n1")
	r.apply("2.0.0")
	r.runs("2.0.0", "n1")
	if n := r.View("n2"); n.Documents[wire.KindConfig].Running.Version != "1.0.0" || !slices.Equal(n.Info.Keys, old) {
		t.Errorf("n2 believes %v without hands, and runs %+v", n.Info.Keys, n.Documents[wire.KindConfig].Running)
	}
	stop2()
	r.Joined("n2")
	r.Agent("n2", pinned)
	r.runs("2.0.0", "n2")
	if got := r.Entries("keys"); len(got) != 1 || !strings.Contains(string(got[0].Data), `"replaced"`) {
		t.Errorf("%+v", got)
	}
	if err := r.App.Audit(t.Context()); err != nil {
		t.Error(err)
	}
}

// All of the controller's state is lost: hands on the node, a new token.
func TestControllerStateIsLost(t *testing.T) {
	r := NewRig(t)
	r.Joined("n1")
	stop := r.Agent("n1")
	r.apply("1.0.0")
	r.runs("1.0.0", "n1")
	r.Stop()
	stop()
	if err := os.RemoveAll(filepath.Join(r.Dir, "controller")); err != nil {
		t.Fatal(err)
	}
	r.Pass(2 * time.Second) // epochs are seconds
	r.Start(nil)
	r.apply("1.0.1")
	r.Joined("n1")
	r.Agent("n1")
	r.runs("1.0.1", "n1")
}
