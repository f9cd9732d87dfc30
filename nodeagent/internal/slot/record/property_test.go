package record

import (
	"testing"

	"pgregory.net/rapid"

	"tandem.internal/shared/wire"
)

// Any order of transitions leaves a record that is valid, has one active slot and at most one on its
// way, and whose trial never has more tries than it was armed with.
func TestTransitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := New()
		tries := 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			id := rapid.SampledFrom([]ID{A, B, Factory}).Draw(t, "slot")
			before, next, err := r, r, error(nil)
			what := rapid.IntRange(0, 8).Draw(t, "what")
			switch what {
			case 0:
				if id, err = r.Target(); err == nil {
					next = r.Begin(id)
				}
			case 1:
				next, err = r.Staged(r.WriteSeq, Slot{Version: "v", Hash: hash("b")})
			case 2:
				next, err = r.Arm(id, rapid.IntRange(1, MaxTries).Draw(t, "tries"))
			case 3:
				next, err = r.Commit(id)
			case 4:
				next, err = r.RollBack(id, wire.BootFallback, "x")
			case 5:
				next.Mark(Mark{Reason: wire.BootReboot, Planned: rapid.Bool().Draw(t, "planned")})
			default:
				bad := map[ID]error{}
				for _, id := range []ID{A, B, Factory} {
					if rapid.IntRange(0, 9).Draw(t, "bad") == 0 {
						bad[id] = rapid.SampledFrom([]error{errIO, ErrBroken}).Draw(t, "how")
					}
				}
				next = r.Start(Evidence{Kernel: rapid.SampledFrom([]string{"k1", "k2"}).Draw(t, "kernel")},
					func(id ID) error { return bad[id] })
			}
			if err != nil {
				continue
			}
			r = next
			r.Seq++
			if err := r.Validate(); err != nil {
				t.Fatalf("%d: %v\n%+v\n%+v", what, err, before, r)
			}
			count := map[State]int{}
			for _, id := range []ID{A, B, Factory} {
				count[r.State(id)]++
			}
			if count[Active] != 1 || count[Updating]+count[InProgress] > 1 {
				t.Fatalf("%d: %v\n%+v", what, count, r)
			}
			if what == 2 {
				tries = r.Tries
			} else if r.Tries > tries || r.Trying == before.Trying && r.Tries > before.Tries {
				t.Fatalf("%d: the tries rose: %+v, %+v", what, before, r)
			}
			if back, err := Decode(r.Encode()); err != nil || string(back.Encode()) != string(r.Encode()) {
				t.Fatalf("%v", err)
			}
		}
	})
}
