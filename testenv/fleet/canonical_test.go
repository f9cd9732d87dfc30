package fleet

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"tandem.internal/shared/wire"
)

func canonicalNode() *node {
	return New(Config{Unit: "u1", Nodes: 1}).nodes[0]
}

func samples() (desired, request []byte) {
	sig := &wire.Signature{KeyID: "0123456789abcdef", Ed25519: make([]byte, 64), Path: bytes.Repeat([]byte{7}, 96)}
	body := []byte(`{"a":1}`)
	at := time.Unix(1_790_000_000, 5).UTC()
	return wire.Encode(&wire.Desired{V: 1, Unit: "u1", Node: Name(0), Kind: wire.KindConfig, Epoch: 2, Rev: 5,
			Version: "1.0.0", Hash: wire.Hash(body), Issued: at, Mode: wire.ModeApply, Body: body, Sig: sig}),
		wire.Encode(&wire.Request{V: 1, Unit: "u1", Node: Name(0), ID: "check-1-x", Method: wire.MethodCheck,
			NotAfter: at, Sig: sig,
			Params: wire.Encode(&wire.CheckParams{Kind: wire.KindConfig, Version: "1.0.0", Body: body})})
}

// The form that the controller writes is really read here, to the same message.
func TestCanonicalForm(t *testing.T) {
	n := canonicalNode()
	d, q := samples()
	for range 2 { // the second time the body is known
		got, err := n.desired(d)
		want, werr := wire.Decode[wire.Desired](d)
		if err != nil || werr != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v %v\n%+v %v", got, err, want, werr)
		}
		gotq, err := n.question(q)
		wantq, werr := wire.Decode[wire.Request](q)
		if err != nil || werr != nil || !reflect.DeepEqual(gotq, wantq) {
			t.Fatalf("%+v %v\n%+v %v", gotq, err, wantq, werr)
		}
		n.f.params.add(gotq.Params)
	}
	if n.shortDesired(d) == nil || n.shortRequest(q) == nil {
		t.Error("the form is not recognised")
	}
}

func TestReportIsAsEncoded(t *testing.T) {
	ref := wire.DocRef{Epoch: 3, Rev: 9, Version: "1.0.0", Hash: wire.Hash(nil)}
	last := wire.Attempt{Epoch: 3, Rev: 10, Version: "1.0.1", Hash: ref.Hash, State: wire.StateTrying, Attempt: 1,
		At: time.Unix(1_790_000_000, 50).UTC()}
	for _, r := range []wire.Reported{{Running: &ref, Last: &last}, {Running: &ref}, {Last: &last}, {}} {
		r.V, r.Node, r.Kind, r.Boot, r.Seq = 1, Name(3), wire.KindConfig, "boot-1", 7
		if got, want := string(appendReport(nil, &r)), string(wire.Encode(&r)); got != want {
			t.Errorf("\n%s\n%s", got, want)
		}
	}
}

// Whatever comes, the short way says what the general decoder says.
func FuzzCanonical(f *testing.F) {
	d, q := samples()
	f.Add(d)
	f.Add(q)
	for _, m := range [][]byte{d, q} {
		f.Add(bytes.Replace(m, []byte(`"u1"`), []byte(`"u2"`), 1))
		f.Add(bytes.Replace(m, []byte(`:1,`), []byte(`:01,`), 1))
		f.Add(bytes.Replace(m, []byte(`"sig":`), []byte(`"sig" :`), 1))
		f.Add([]byte(strings.Replace(string(m), `"}}`, `"},"x":1}`, 1)))
		f.Add([]byte(strings.Replace(string(m), `{"a":1}`, `{"a":2}`, 1)))
		f.Add([]byte(strings.Replace(string(m), `2026`, `0001`, 1)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		n := canonicalNode()
		if _, err := n.desired(d); err != nil {
			t.Fatal(err)
		}
		known, err := wire.Decode[wire.Request](q)
		if err != nil {
			t.Fatal(err)
		}
		n.f.params.add(known.Params)
		got, err := n.desired(data)
		want, werr := wire.Decode[wire.Desired](data)
		if (err == nil) != (werr == nil) || err == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("%s\n%+v %v\n%+v %v", data, got, err, want, werr)
		}
		gotq, err := n.question(data)
		wantq, werr := wire.Decode[wire.Request](data)
		if (err == nil) != (werr == nil) || err == nil && !reflect.DeepEqual(gotq, wantq) {
			t.Fatalf("%s\n%+v %v\n%+v %v", data, gotq, err, wantq, werr)
		}
	})
}
