package fleet

import (
	"fmt"
	"testing"
	"time"

	"tandem.internal/controller/internal/kinds"
	"tandem.internal/shared/wire"
)

// A node that comes online is greeted: in each session once, after a restart too; not for its slow
// beats, its farewell, or what the broker had kept of it.
func TestWhoComesIsGreeted(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	f := New(Options{Kinds: kinds.All(), Unit: "u1", Epoch: 1})
	var out Out
	for i, c := range []struct {
		node, boot string
		session    uint64
		up         bool
		retained   bool
		nodes      int // 0: not greeted
	}{
		{"n1", "1-a", 1, true, false, 1},
		{"n1", "1-a", 1, true, false, 0},
		{"n2", "1-a", 4, true, false, 2},
		{"n1", "1-a", 1, false, false, 0},
		{"n1", "1-a", 1, true, false, 0}, // its goodbye overtook it
		{"n1", "1-a", 2, true, false, 2},
		{"n1", "1-a", 1, false, false, 0},
		{"n1", "2-b", 1, true, false, 2},
		{"n1", "1-a", 2, false, false, 0},
		{"n3", "1-a", 1, true, true, 0},
		{"n3", "1-a", 1, true, false, 0},
	} {
		now = now.Add(time.Second)
		l := wire.Live{V: 1, Node: c.node, Boot: c.boot, Session: c.session, Up: c.up}
		f.Step(now, Heard{Node: c.node, Raw: wire.Encode(&l), Live: &l, Retained: c.retained}, &out)
		got := []Effect{}
		for _, e := range out.Effects {
			if g, ok := e.(Greet); ok {
				got = append(got, g)
			}
		}
		out.Reset()
		want := []Effect{}
		if c.nodes > 0 {
			want = append(want, Greet{Nodes: c.nodes})
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%d: %+v is answered with %v, want %v", i, c, got, want)
		}
	}
}
