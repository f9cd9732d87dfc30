package seal

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"tandem.internal/shared/wire"
)

func keys(seed byte) (*Signer, Trust) {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	pub := key.Public().(ed25519.PublicKey)
	return NewSigner(key), Trust{KeyID(pub): pub}
}

func document(i int) *wire.Desired {
	body := fmt.Appendf(nil, `{"i":%d}`, i)
	return &wire.Desired{V: 1, Unit: "u1", Node: fmt.Sprintf("n%d", i), Kind: wire.KindConfig, Epoch: 3,
		Rev: uint64(i + 1), Version: "2.0.0",
		Hash: wire.Hash(body), Issued: time.Unix(1_790_000_000, 0), Mode: wire.ModeApply, Body: body}
}

func preimages(n int) [][]byte {
	out := make([][]byte, n)
	for i := range out {
		out[i] = DesiredPreimage(document(i))
	}
	return out
}

func code(err error) wire.Code {
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return e.Code
	}
	return ""
}

// Every message of every batch size verifies; remembering checked roots keeps it quick.
func TestEveryBatchSize(t *testing.T) {
	signer, trust := keys(1)
	all := preimages(600)
	if got := signer.SignAll(nil); len(got) != 0 {
		t.Errorf("nothing makes %d signatures", len(got))
	}
	for n := 1; n <= 600; n++ {
		sigs := signer.SignAll(all[:n])
		if len(sigs) != n {
			t.Fatalf("%d signatures for %d", len(sigs), n)
		}
		checked := map[string]bool{}
		for i, sig := range sigs {
			err := trust.VerifyWith(all[i], sig, func(pub ed25519.PublicKey, message, sig []byte) bool {
				k := string(message) + string(sig)
				if !checked[k] {
					checked[k] = ed25519.Verify(pub, message, sig)
				}
				return checked[k]
			})
			if err != nil || len(sig.Path) > 8*sha256.Size {
				t.Fatalf("%d of %d: %v, a path of %d", i, n, err, len(sig.Path))
			}
		}
		if batches := (n + Batch - 1) / Batch; len(checked) != batches {
			t.Fatalf("%d documents: %d signatures made, want %d", n, len(checked), batches)
		}
	}
}

// Any one bit changed anywhere is noticed, and so is a path from another leaf.
func TestNothingElseVerifies(t *testing.T) {
	signer, trust := keys(1)
	all := preimages(300)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, len(all)).Draw(t, "n")
		i := rapid.IntRange(0, n-1).Draw(t, "i")
		sig := *signer.SignAll(all[:n])[i]
		pre := slices.Clone(all[i])
		sig.Path, sig.Ed25519 = slices.Clone(sig.Path), slices.Clone(sig.Ed25519)
		if err := trust.Verify(pre, &sig); err != nil {
			t.Fatal(err)
		}
		target := rapid.SampledFrom([][]byte{pre, sig.Path, sig.Ed25519}).Draw(t, "target")
		if len(target) == 0 {
			return
		}
		target[rapid.IntRange(0, len(target)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if err := trust.Verify(pre, &sig); code(err) != wire.CodeBadSignature {
			t.Fatalf("a changed bit: %v", err)
		}
	})
	for _, n := range []int{2, 3, 5, 8, 255, 256, 257, 300} {
		sigs := signer.SignAll(all[:n])
		for i, sig := range sigs {
			j := (i + 1) % n
			if err := trust.Verify(all[j], sig); code(err) != wire.CodeBadSignature {
				t.Fatalf("of %d: the path of %d fits %d", n, i, j)
			}
		}
	}
}

// Neither an inner node nor a root passes for a message, nor a message for a root.
func TestTreeAndMessagesDoNotMix(t *testing.T) {
	signer, trust := keys(1)
	all := preimages(4)
	sigs := signer.SignAll(all)
	inner := append(slices.Clone(sigs[0].Path[:32]), 0)
	a, b := leaf(all[0]), leaf(all[1])
	if bytes.Compare(a[:], b[:]) > 0 {
		a, b = b, a
	}
	joined := append(slices.Clone(a[:]), b[:]...)
	for name, pre := range map[string][]byte{"a leaf": inner, "two leaves": joined,
		"tagged": append([]byte{1}, joined...)} {
		if err := trust.Verify(pre, &wire.Signature{KeyID: sigs[0].KeyID, Ed25519: sigs[0].Ed25519,
			Path: sigs[0].Path[32:]}); code(err) != wire.CodeBadSignature {
			t.Errorf("%s passes for a message: %v", name, err)
		}
	}
	root := parent(parent(a, b), parent(leaf(all[2]), leaf(all[3])))
	if err := trust.Verify(root[:], &wire.Signature{KeyID: sigs[0].KeyID, Ed25519: sigs[0].Ed25519}); code(
		err) != wire.CodeBadSignature {
		t.Errorf("the root passes for a message: %v", err)
	}
	for _, p := range [][]byte{all[0], RequestPreimage(&wire.Request{}), BeaconPreimage(&wire.Beacon{})} {
		if bytes.HasPrefix(p, []byte("tandem/1/root\n")) {
			t.Errorf("%q looks like a root", p)
		}
	}
}

func TestRefusals(t *testing.T) {
	signer, trust := keys(1)
	other, _ := keys(2)
	pre := preimages(1)[0]
	good := signer.Sign(pre)
	for _, test := range []struct {
		name string
		sig  *wire.Signature
		want wire.Code
	}{
		{"good", good, ""},
		{"none", nil, wire.CodeUnsigned},
		{"empty", &wire.Signature{KeyID: good.KeyID}, wire.CodeUnsigned},
		{"another key", other.Sign(pre), wire.CodeUnknownKey},
		{"another key under this name", &wire.Signature{KeyID: good.KeyID, Ed25519: other.Sign(pre).Ed25519},
			wire.CodeBadSignature},
		{"no key name", &wire.Signature{Ed25519: good.Ed25519}, wire.CodeUnknownKey},
		{"short", &wire.Signature{KeyID: good.KeyID, Ed25519: good.Ed25519[:63]}, wire.CodeBadSignature},
		{"long", &wire.Signature{KeyID: good.KeyID, Ed25519: append(slices.Clone(good.Ed25519), 0)},
			wire.CodeBadSignature},
		{"odd path", &wire.Signature{KeyID: good.KeyID, Ed25519: good.Ed25519, Path: make([]byte, 33)},
			wire.CodeBadSignature},
		{"endless path", &wire.Signature{KeyID: good.KeyID, Ed25519: good.Ed25519, Path: make([]byte, 65*32)},
			wire.CodeBadSignature},
		{"a trusted key that is none", &wire.Signature{KeyID: "broken", Ed25519: good.Ed25519}, wire.CodeUnknownKey},
	} {
		trust["broken"] = []byte{1, 2, 3}
		if err := trust.Verify(pre, test.sig); code(err) != test.want {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	k := signer.Key()
	if k.ID != good.KeyID || len(k.ID) != 16 || KeyID(k.Ed25519) != k.ID {
		t.Errorf("%+v", k)
	}
}

// The contract prints these; changing one breaks every agent in the field.
func TestPreimagesAreAsWritten(t *testing.T) {
	at := time.Date(2026, 11, 20, 11, 0, 0, 500_000_000, time.FixedZone("x", 3600))
	d := document(0)
	d.Mode, d.ConfirmWithin = wire.ModeTry, "PT2M"
	for _, test := range []struct{ got, want string }{
		{string(DesiredPreimage(d)), "tandem/1/desired\nu1\nn0\nconfig\n3\n1\n2.0.0\n" + d.Hash + "\ntry\nPT2M\n"},
		{string(RequestPreimage(&wire.Request{Unit: "u1", Node: "n1", ID: "i", Method: "report", NotAfter: at})),
			"tandem/1/request\nu1\nn1\ni\nreport\n2026-11-20T10:00:00.5Z\n" +
				"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n"},
		{string(BeaconPreimage(&wire.Beacon{Unit: "u1", Epoch: 3, Up: true, Time: at,
			Keys: []wire.Key{{ID: "k", Ed25519: []byte{0xab, 1}}}, Jitter: "PT30S"})),
			"tandem/1/beacon\nu1\n3\ntrue\n2026-11-20T10:00:00.5Z\nk\nab01\nPT30S\n"},
		{string(BeaconPreimage(&wire.Beacon{Unit: "u1", Epoch: 3, Time: at,
			Keys: []wire.Key{{ID: "k", Ed25519: []byte{0xab, 1}}}, KeysRev: 7})),
			"tandem/1/beacon\nu1\n3\nfalse\n2026-11-20T10:00:00.5Z\nk\nab01\n\nkeys 7\n"},
	} {
		if test.got != test.want {
			t.Errorf("got  %q\nwant %q", test.got, test.want)
		}
	}
}

// field draws a string as an attacker would choose it, one time in five, and otherwise one that
// collides often.
func field(t *rapid.T, label string) string {
	if rapid.IntRange(0, 4).Draw(t, label+"?") > 0 {
		return rapid.SampledFrom([]string{"a", "b"}).Draw(t, label)
	}
	return rapid.OneOf(rapid.SampledFrom([]string{"", "a\n", "\na", "a\nb", "1\n2", "\x00", "a\x00b", "apply", "PT1M"}),
		rapid.StringMatching(`[a-c1-3\n\x00.]{0,4}`)).Draw(t, label)
}

// Two messages that a decoder accepts have the same preimage only if they say the same.
func TestPreimagesAreInjective(t *testing.T) {
	decoded := func(t *rapid.T, label string) *wire.Desired {
		d := &wire.Desired{V: wire.Version, Unit: field(t, label+"unit"), Node: field(t, label+"node"),
			Kind:  wire.Kind(field(t, label+"kind")),
			Epoch: rapid.Uint64Range(1, 3).Draw(t, label+"epoch"), Rev: rapid.Uint64Range(1, 3).Draw(t, label+"rev"),
			Version: field(t, label+"version"),
			Hash:    wire.Hash([]byte(rapid.SampledFrom([]string{"1", "2"}).Draw(t, label+"body"))),
			Issued:  time.Unix(1, 0), Body: jsontext.Value("1"),
			Mode: rapid.SampledFrom([]wire.Mode{wire.ModeApply, wire.ModeTry}).Draw(t, label+"mode"),
			ConfirmWithin: rapid.SampledFrom([]string{"PT1M", "PT1M", "PT1M", "PT2M", "", "PT1M\n"}).Draw(t, label+
				"within")}
		if d.Mode == wire.ModeApply {
			d.ConfirmWithin = ""
		}
		out, err := wire.Decode[wire.Desired](wire.Encode(d))
		if err != nil {
			return nil
		}
		return out
	}
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		a, b := decoded(t, "a "), decoded(t, "b ")
		if a == nil || b == nil {
			return
		}
		accepted++
		if bytes.Count(DesiredPreimage(a), []byte("\n")) != 10 {
			t.Fatalf("%q", DesiredPreimage(a))
		}
		same := a.Unit == b.Unit && a.Node == b.Node && a.Kind == b.Kind && a.Stamp() == b.Stamp() &&
			a.Version == b.Version && a.Hash == b.Hash &&
			a.Mode == b.Mode && a.ConfirmWithin == b.ConfirmWithin
		if bytes.Equal(DesiredPreimage(a), DesiredPreimage(b)) != same {
			t.Fatalf("%q\n%q", DesiredPreimage(a), DesiredPreimage(b))
		}
	})
	t.Logf("%d pairs", accepted)
	if accepted == 0 {
		t.Error("no message was valid: the test looks at nothing")
	}
	// Nor does what is refused look like what is accepted.
	evil, good := document(0), document(0)
	evil.Unit, evil.Node, evil.Kind = "u1\nn0", "config", ""
	good.Unit, good.Node, good.Kind = "u1", "n0", "config"
	if bytes.HasPrefix(DesiredPreimage(evil), []byte("tandem/1/desired\nu1\nn0\n")) ||
		!bytes.HasPrefix(DesiredPreimage(good), []byte("tandem/1/desired\nu1\nn0\n")) {
		t.Error("a line feed within a field is a line feed of the preimage")
	}
}

// The same holds for requests and beacons, whose free fields are fewer.
func TestOtherPreimagesAreInjective(t *testing.T) {
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		request := func(label string) *wire.Request {
			r := &wire.Request{V: 1, Unit: "u", Node: field(t, label+"node"), ID: field(t, label+"id"),
				Method:   wire.Method(field(t, label+"method")),
				NotAfter: time.Unix(rapid.Int64Range(0, 2).Draw(t, label+"after"), 0),
				Params:   jsontext.Value(rapid.SampledFrom([]string{"", "{}", "{ }"}).Draw(t, label+"params"))}
			out, err := wire.Decode[wire.Request](wire.Encode(r))
			if err != nil {
				return nil
			}
			return out
		}
		a, b := request("a "), request("b ")
		if a != nil && b != nil {
			accepted++
			same := a.Node == b.Node && a.ID == b.ID && a.Method == b.Method && a.NotAfter.Equal(b.NotAfter) &&
				string(a.Params) == string(b.Params)
			if bytes.Equal(RequestPreimage(a), RequestPreimage(b)) != same {
				t.Fatalf("%+v\n%+v", a, b)
			}
		}
		beacon := func(label string) *wire.Beacon {
			m := &wire.Beacon{V: 1, Unit: "u", Epoch: 1, Time: time.Unix(1, 0),
				KeysRev: rapid.SampledFrom([]uint64{0, 1, 11}).Draw(t, label+"rev"),
				Jitter:  rapid.SampledFrom([]string{"", "PT1S"}).Draw(t, label+"jitter")}
			for range rapid.IntRange(0, 2).Draw(t, label+"keys") {
				m.Keys = append(m.Keys, wire.Key{ID: rapid.SampledFrom([]string{"a", "b", "1", "PT1S"}).Draw(t, label+
					"kid"), Ed25519: bytes.Repeat([]byte{byte(rapid.IntRange(0, 1).Draw(t, label+"key"))}, 32)})
			}
			out, err := wire.Decode[wire.Beacon](wire.Encode(m))
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		c, d := beacon("c "), beacon("d ")
		same := c.Jitter == d.Jitter && c.KeysRev == d.KeysRev &&
			slices.EqualFunc(c.Keys, d.Keys, func(a, b wire.Key) bool {
				return a.ID == b.ID &&
					bytes.Equal(a.Ed25519, b.Ed25519)
			})
		if bytes.Equal(BeaconPreimage(c), BeaconPreimage(d)) != same {
			t.Fatalf("%+v\n%+v", c, d)
		}
	})
	t.Logf("%d pairs", accepted)
	if accepted == 0 {
		t.Error("no request was valid: the test looks at nothing")
	}
}

// What is signed before it is sent must verify after it has been received.
func TestOverTheWire(t *testing.T) {
	signer, trust := keys(1)
	params := jsontext.Value(" { \"after\" : 4.0e0,\n \"x\":\"\\u0041\" } ")
	r := &wire.Request{V: 1, Unit: "u1", Node: "n1", ID: "i", Method: wire.MethodEvents,
		Params: params[1 : len(params)-1], NotAfter: time.Now()}
	for _, p := range []jsontext.Value{r.Params, nil, jsontext.Value("{}"), jsontext.Value("null")} {
		r.Params = p
		r.Sig = signer.Sign(RequestPreimage(r))
		got, err := wire.Decode[wire.Request](wire.Encode(r))
		if err != nil {
			t.Fatal(err)
		}
		if err := trust.Verify(RequestPreimage(got), got.Sig); err != nil {
			t.Errorf("request with params %q: %v", p, err)
		}
	}
	docs := make([]*wire.Desired, 300)
	for i := range docs {
		docs[i] = document(i)
	}
	for i, sig := range signer.SignAll(preimages(300)) {
		docs[i].Sig = sig
		got, err := wire.Decode[wire.Desired](wire.Encode(docs[i]))
		if err != nil {
			t.Fatal(err)
		}
		if err := trust.Verify(DesiredPreimage(got), got.Sig); err != nil {
			t.Fatalf("document %d: %v", i, err)
		}
	}
	b := &wire.Beacon{V: 1, Unit: "u1", Epoch: 1, Up: true, Time: time.Now(), Keys: []wire.Key{signer.Key()},
		Jitter: "PT1M"}
	b.Sig = signer.Sign(BeaconPreimage(b))
	got, err := wire.Decode[wire.Beacon](wire.Encode(b))
	if err != nil {
		t.Fatal(err)
	}
	if err := trust.Verify(BeaconPreimage(got), got.Sig); err != nil {
		t.Error(err)
	}
}

func FuzzVerify(f *testing.F) {
	signer, trust := keys(1)
	all := preimages(5)
	good := map[string]bool{}
	for i, sig := range signer.SignAll(all) {
		good[string(all[i])] = true
		f.Add(all[i], sig.KeyID, sig.Ed25519, sig.Path)
	}
	direct := signer.Sign(all[0])
	f.Add(all[0], direct.KeyID, direct.Ed25519, direct.Path)
	f.Fuzz(func(t *testing.T, pre []byte, kid string, sig, path []byte) {
		err := trust.Verify(pre, &wire.Signature{KeyID: kid, Ed25519: sig, Path: path})
		if err == nil && !good[string(pre)] {
			t.Fatalf("%q verifies and was never signed", pre)
		}
		if err != nil && code(err) == "" {
			t.Fatalf("%v has no code", err)
		}
	})
}

// BenchmarkSignAll10000 seals a unit's documents; BenchmarkVerify is what it costs one node.
func BenchmarkSignAll10000(b *testing.B) {
	signer, _ := keys(1)
	all := preimages(10_000)
	b.ReportAllocs()
	for b.Loop() {
		signer.SignAll(all)
	}
}

func BenchmarkPreimage10000(b *testing.B) {
	d := document(1)
	b.ReportAllocs()
	for b.Loop() {
		for range 10_000 {
			DesiredPreimage(d)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	signer, trust := keys(1)
	all := preimages(256)
	sig := signer.SignAll(all)[100]
	for b.Loop() {
		if err := trust.Verify(all[100], sig); err != nil {
			b.Fatal(err)
		}
	}
}
