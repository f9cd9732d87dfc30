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
