package wire

import (
	"bytes"
	"testing"
)

// BenchmarkProof is what a controller does more for a proved report of the usual length, without the key.
func BenchmarkProof(b *testing.B) {
	report := append(append([]byte(`{"v":1,"detail":"`), bytes.Repeat([]byte("x"), 500)...), `"}`...)
	data := Prove(proofKey, proofTopic, report, proofHeard)
	b.ReportAllocs()
	for b.Loop() {
		if m, p := SplitProof(data); p == nil || !p.Verify(proofKey, proofTopic, m) {
			b.Fatal("the proof does not hold")
		}
	}
}
