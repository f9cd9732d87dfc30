package inbox

import (
	"bytes"
	"crypto/ed25519"
	"strings"
	"testing"
	"time"

	"tandem.internal/shared/clock"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/wire"
)

var me = Identity{"u1", "n1"}

func signer(seed byte) *seal.Signer {
	s := make([]byte, ed25519.SeedSize)
	s[0] = seed
	return seal.NewSigner(ed25519.NewKeyFromSeed(s))
}

func trusting(signers ...*seal.Signer) seal.Trust {
	t := seal.Trust{}
	for _, s := range signers {
		t[s.Key().ID] = s.Key().Ed25519
	}
	return t
}

func envelope(change func(*wire.Desired)) []byte {
	d := &wire.Desired{V: 1, Unit: "u1", Node: "n1", Kind: "config", Epoch: 1, Rev: 2, Version: "1.0.0",
		Hash: wire.Hash([]byte("{}")), Issued: epoch, Mode: wire.ModeApply, Body: []byte("{}")}
	d.Sig = signer(1).Sign(seal.DesiredPreimage(d))
	change(d)
	return d.Append(nil)
}

func resigned(change func(*wire.Desired)) []byte {
	return envelope(func(d *wire.Desired) {
		change(d)
		d.Sig = signer(1).Sign(seal.DesiredPreimage(d))
	})
}

func TestDocument(t *testing.T) {
	good := string(envelope(func(*wire.Desired) {}))
	deep := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)
	for _, c := range []struct {
		name    string
		payload []byte
		want    wire.Code
	}{
		{"good", []byte(good), ""},
		{"garbage", []byte("garbage"), wire.CodeMalformed},
		{"empty", nil, wire.CodeMalformed},
		{"trailing", []byte(good + "x"), wire.CodeMalformed},
		{"unknown field", []byte(strings.Replace(good, `"v":1`, `"v":1,"x":1`, 1)), wire.CodeUnknownField},
		{"twice", []byte(strings.Replace(good, `"v":1`, `"v":1,"v":1`, 1)), wire.CodeDuplicate},
		{"too large", bytes.Repeat([]byte(" "), wire.MaxPayload+1), wire.CodeTooLarge},
		{"10 MiB", bytes.Repeat([]byte("["), 10<<20), wire.CodeTooLarge},
		{"deep", []byte(strings.Repeat("[", 100_000)), wire.CodeMalformed},
		{"deep body", []byte(strings.Replace(good, `"body":{}`, `"body":`+deep, 1)), wire.CodeMalformed},
		{"other unit", resigned(func(d *wire.Desired) { d.Unit = "u2" }), wire.CodeWrongTarget},
		{"other node", resigned(func(d *wire.Desired) { d.Node = "n2" }), wire.CodeWrongTarget},
		{"other kind", resigned(func(d *wire.Desired) { d.Kind = "policies" }), wire.CodeWrongTarget},
		{"other version", resigned(func(d *wire.Desired) { d.V = 2 }), wire.CodeWrongVersion},
		{"unsigned", envelope(func(d *wire.Desired) { d.Sig = nil }), wire.CodeUnsigned},
		{"unknown key", envelope(func(d *wire.Desired) { d.Sig = signer(2).Sign(seal.DesiredPreimage(d)) }),
			wire.CodeUnknownKey},
		{"rev changed", envelope(func(d *wire.Desired) { d.Rev = 9 }), wire.CodeBadSignature},
		{"mode changed", envelope(func(d *wire.Desired) { d.Mode, d.ConfirmWithin = wire.ModeTry, "PT1S" }),
			wire.CodeBadSignature},
		{"body changed", envelope(func(d *wire.Desired) { d.Body = []byte(`{"a":1}`) }), wire.CodeHashMismatch},
		{"reference to another",
			resigned(func(d *wire.Desired) {
				d.Body, d.Ref = nil, &wire.Ref{URL: "http://x", Hash: wire.Hash([]byte("x"))}
			}), wire.CodeHashMismatch},
	} {
		t.Run(c.name, func(t *testing.T) {
			ev, err := me.Document(trusting(signer(1)), "config", c.payload)
			doc := ev.Doc
			if got := codeOf(err); got != c.want {
				t.Fatalf("%v, want %q", err, c.want)
			}
			if err == nil && (string(doc.Body) != "{}" || doc.Stamp != wire.Stamp{Epoch: 1, Rev: 2}) {
				t.Errorf("%+v", doc)
			}
		})
	}
}

func codeOf(err *wire.Error) wire.Code {
	if err == nil {
		return ""
	}
	return err.Code
}

func TestRequest(t *testing.T) {
	q := func(change func(*wire.Request)) []byte {
		r := &wire.Request{V: 1, Unit: "u1", Node: "n1", ID: "q1", Method: wire.MethodReport, NotAfter: epoch}
		change(r)
		if r.Sig == nil {
			r.Sig = signer(1).Sign(seal.RequestPreimage(r))
		}
		return wire.Encode(r)
	}
	for _, c := range []struct {
		name     string
		payload  []byte
		at       time.Time
		want     wire.Code
		answered bool
	}{
		{"good", q(func(*wire.Request) {}), epoch, "", true},
		{"late", q(func(*wire.Request) {}), epoch.Add(time.Second), wire.CodeExpired, true},
		{"other node", q(func(r *wire.Request) { r.Node = "n2" }), epoch, wire.CodeWrongTarget, false},
		{"other key", q(func(r *wire.Request) { r.Sig = signer(2).Sign(seal.RequestPreimage(r)) }), epoch,
			wire.CodeUnknownKey, false},
		{"long ID", q(func(r *wire.Request) { r.ID = strings.Repeat("x", 300) }), epoch, wire.CodeTooLarge, false},
		{"garbage", []byte("{"), epoch, wire.CodeMalformed, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := me.Request(trusting(signer(1)), c.at, c.payload)
			if codeOf(err) != c.want || (r != nil) != c.answered {
				t.Errorf("%v, %v", r, err)
			}
		})
	}
}

func beacon(s *seal.Signer, change func(*wire.Beacon), more ...*seal.Signer) []byte {
	b := &wire.Beacon{V: 1, Unit: "u1", Epoch: 1, Up: true, Time: epoch, Jitter: "PT5S", Keys: []wire.Key{s.Key()}}
	for _, m := range more {
		b.Keys = append(b.Keys, m.Key())
	}
	if change != nil {
		change(b)
	}
	b.Sig = s.Sign(seal.BeaconPreimage(b))
	return wire.Encode(b)
}

func TestBeacon(t *testing.T) {
	one, two, three := signer(1), signer(2), signer(3)
	tr, h := Trust{}.Beacon("u1", epoch, beacon(one, nil), true)
	if !h.Pinned || !h.Changed || h.Again || len(tr.Keys) != 1 || h.Jitter != 5*time.Second {
		t.Fatalf("first contact: %+v", h)
	}
	refused := func(name string, payload []byte, want wire.Code) {
		t.Helper()
		next, h := tr.Beacon("u1", epoch, payload, false)
		if codeOf(h.Refused) != want || h.KnownKey == (want == wire.CodeUnknownKey) || h.Pinned ||
			len(next.Keys) != len(tr.Keys) || next.Epoch != tr.Epoch {
			t.Errorf("%s: %+v", name, h)
		}
	}
	refused("another key", beacon(two, func(b *wire.Beacon) { b.Epoch = 9 }), wire.CodeUnknownKey)
	refused("another key that announces ours", beacon(two, nil, one), wire.CodeUnknownKey)
	refused("another unit", beacon(one, func(b *wire.Beacon) { b.Unit = "u2" }), wire.CodeWrongTarget)
	refused("a key under another's ID", beacon(one, func(b *wire.Beacon) { b.Keys[0].ID = two.Key().ID }),
		wire.CodeBadValue)
	refused("a short key", beacon(one, func(b *wire.Beacon) { b.Keys[0].Ed25519 = []byte{1} }), wire.CodeBadValue)
	refused("garbage", []byte("x"), wire.CodeMalformed)

	if _, h := tr.Beacon("u1", epoch, beacon(one, nil), false); h.Changed || h.Refused != nil {
		t.Errorf("the same again: %+v", h)
	}
	tr, h = tr.Beacon("u1", epoch, beacon(one, func(b *wire.Beacon) { b.Epoch, b.KeysRev = 2, 1 }, two), false)
	if !h.Pinned || !h.Again || tr.Epoch != 2 || len(tr.Keys) != 2 {
		t.Errorf("rotation and a new epoch: %+v", h)
	}
	if next, h := tr.Beacon("u1", epoch, beacon(two, func(b *wire.Beacon) { b.Epoch, b.KeysRev = 1, 2 }, three),
		false); h.Again || next.Epoch != 2 || len(next.Keys) != 2 || next.Keys[three.Key().ID] == nil {
		t.Errorf("signed by an announced key, lower epoch: %+v %+v", h, next)
	}
}

// FuzzInbox feeds any bytes to the whole acceptance path, with and without a good signature.
// Nothing but a valid document may move the high-water mark, and nothing may panic.
func FuzzInbox(f *testing.F) {
	f.Add(envelope(func(*wire.Desired) {}), uint8(0))
	f.Add(resigned(func(d *wire.Desired) { d.Mode, d.ConfirmWithin = wire.ModeTry, "PT1M" }), uint8(1))
	f.Add(resigned(func(d *wire.Desired) { d.Body, d.Ref = nil, &wire.Ref{URL: "u", Hash: d.Hash} }), uint8(1))
	f.Add(wire.Encode(&wire.Request{V: 1, Unit: "u1", Node: "n1", ID: "q", Method: "confirm", NotAfter: epoch}),
		uint8(2))
	f.Add(beacon(signer(1), nil), uint8(3))
	f.Add([]byte(strings.Repeat(`{"body":`, 200)), uint8(0))
	f.Fuzz(func(t *testing.T, data []byte, how uint8) {
		trust := Trust{Keys: trusting(signer(1))}
		s, _ := New(Durable{}, 0).Step(clock.Now{Wall: epoch}, 0, Started{})
		sealed := false
		if how%2 == 1 {
			if d, err := wire.Decode[wire.Desired](data); err == nil {
				d.Sig = signer(1).Sign(seal.DesiredPreimage(d))
				data, sealed = d.Append(nil), true
			}
		}
		ev, err := me.Document(trust.Keys, "config", data)
		doc := ev.Doc
		if err != nil && len(err.Message) > wire.MaxMessage {
			t.Errorf("a message of %d bytes", len(err.Message))
		}
		if err == nil {
			if !sealed && !bytes.Equal(data, envelope(func(*wire.Desired) {})) &&
				doc.Stamp != (wire.Stamp{Epoch: 1, Rev: 2}) {
				t.Fatalf("accepted what was not signed: %s", data)
			}
			var effects []Effect
			s, effects = s.Step(clock.Now{Wall: epoch}, 0, ev)
			if s.High != doc.Stamp {
				t.Errorf("high-water mark %v after %v", s.High, doc.Stamp)
			}
			if _, ok := effects[0].(Save); !ok {
				t.Errorf("accepted without a save: %v", effects)
			}
		}
		if r, err := me.Request(trust.Keys, epoch, data); err == nil && r == nil {
			t.Error("neither a request nor an error")
		}
		for _, tr := range []Trust{trust, {}} {
			next, h := tr.Beacon("u1", epoch, data, how%3 == 0)
			if h.Refused != nil && (len(next.Keys) != len(tr.Keys) || next.Epoch != tr.Epoch) {
				t.Error("a refused beacon changed something")
			}
		}
	})
}
