package wire

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// reports are typical ones of many nodes, so that no cache of strings makes them look cheap.
func reports(n int) [][]byte {
	out := make([][]byte, n)
	for i := range out {
		h := Hash(fmt.Append(nil, i))
		out[i] = Encode(&Reported{V: 1, Node: fmt.Sprintf("node-%05d", i), Kind: KindConfig, Boot: h[7:39],
			Seq:     uint64(i + 1),
			Running: &DocRef{Epoch: 3, Rev: uint64(i + 1), Version: "2.0.0", Hash: h},
			Last: &Attempt{Epoch: 3, Rev: uint64(i + 1), Version: "2.0.0", Hash: h, State: StateInstalled,
				Attempt: 1, At: time.Unix(1_790_000_000, int64(i)).UTC()}})
	}
	return out
}

func BenchmarkDecodeReported(b *testing.B) {
	data := reports(10_000)
	b.ReportAllocs()
	b.SetBytes(int64(len(data[0])))
	i := 0
	for b.Loop() {
		if _, err := Decode[Reported](data[i%len(data)]); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

func BenchmarkEncodeReported(b *testing.B) {
	m, err := Decode[Reported](reports(1)[0])
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		Encode(m)
	}
}

// BenchmarkAppend10000 encodes a unit's documents, 400 bytes of body and a way up each.
func BenchmarkAppend10000(b *testing.B) {
	body := jsontext.Value(`{"a":"` + strings.Repeat("x", 400) + `"}`)
	d := Desired{V: 1, Unit: "unit-1", Node: "node-00001", Kind: KindConfig, Epoch: 3, Rev: 42, Version: "2.0.0",
		Hash: Hash(body), Issued: time.Unix(1_790_000_000, 0).UTC(),
		Mode: ModeApply, Body: body, Sig: &Signature{KeyID: "0123456789abcdef", Ed25519: make([]byte, 64),
			Path: make([]byte, 256)}}
	buf := make([]byte, 0, 2048)
	b.ReportAllocs()
	for b.Loop() {
		for range 10_000 {
			buf = d.Append(buf[:0])
		}
	}
}

func BenchmarkDecodeDesired(b *testing.B) {
	data := []byte(samples["desired"])
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode[Desired](data); err != nil {
			b.Fatal(err)
		}
	}
}
