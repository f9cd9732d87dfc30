package journal

import (
	"math/rand/v2"
	"testing"
)

// What is missing between two records is what was removed there, however the gaps lie.
func TestMissing(t *testing.T) {
	j := mustOpen(t, tempPath(t), Options{})
	mustAppend(t, j, Batch{Records: recs(0, 300), Checkpoint: &Checkpoint{Seq: 300}})
	chance := rand.New(rand.NewPCG(1, 1))
	gone := map[uint64]bool{}
	var doomed []uint64
	for seq := uint64(1); seq <= 280; seq++ {
		if chance.IntN(3) > 0 {
			gone[seq] = true
			doomed = append(doomed, seq)
		}
	}
	if _, err := j.Drop(t.Context(), doomed); err != nil {
		t.Fatal(err)
	}
	for after := range uint64(300) {
		for _, to := range []uint64{after, after + 1, after + 7, after + 100, 300} {
			var first, last, n uint64
			for seq := after + 1; seq <= to; seq++ {
				if gone[seq] {
					if last, n = seq, n+1; first == 0 {
						first = seq
					}
				}
			}
			f, l, m, err := j.Missing(after, to)
			if f != first || l != last || m != n || err != nil {
				t.Fatalf("after %d to %d: %d to %d, %d; want %d to %d, %d; %v", after, to, f, l, m, first, last, n, err)
			}
		}
	}
	for seq := range uint64(302) {
		h, ok, err := j.HashOf(seq)
		if want := seq > 0 && seq <= 300 && !gone[seq]; ok != want || err != nil || ok == (h == Hash{}) {
			t.Errorf("record %d: %x %v %v", seq, h, ok, err)
		}
	}
}
