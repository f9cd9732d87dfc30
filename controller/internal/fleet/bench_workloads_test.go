package fleet

import (
	"fmt"
	"testing"

	"tandem.internal/shared/wire"
)

// BenchmarkWorkloadStatus asks for the state of ten thousand slots on as many nodes.
func BenchmarkWorkloadStatus(b *testing.B) {
	w := newWorld(b)
	var entries []string
	for i := range 10_000 {
		entries = append(entries, fmt.Sprintf("web@n%05d:a", i))
	}
	s := w.set("w", entries...)
	s.Sub.Offline = true
	for i := range 10_000 {
		w.step(origin, w.heard(fmt.Sprintf("n%05d", i),
			&wire.Live{V: wire.Version, Node: fmt.Sprintf("n%05d", i), Boot: "b", Session: 1, Up: true}))
	}
	if _, effects := w.step(origin, s); answerOrNone(effects).Result.State != "accepted" {
		b.Fatal(answerOrNone(effects))
	}
	for i := range 10_000 {
		node := fmt.Sprintf("n%05d", i)
		detail := wire.Encode(work(w, []string{"web@" + node + ":a:running"}, false))
		w.step(origin, w.heard(node, &wire.Reported{V: wire.Version, Node: node, Kind: wire.KindWorkloads,
			Boot: "b", Seq: 1, Detail: detail}))
	}
	for b.Loop() {
		if st := w.live.Status(wire.KindWorkloads); st.Slots.Running != 10_000 {
			b.Fatalf("%+v", st.Slots)
		}
	}
}
