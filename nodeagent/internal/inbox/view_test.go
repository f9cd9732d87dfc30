package inbox

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tandem.internal/shared/wire"
)

// TestView: a node that has everything is never late; one that has not says so once, and says when it has.
func TestView(t *testing.T) {
	const s = time.Second
	stamps := func(rev uint64) map[wire.Kind]wire.Stamp {
		return map[wire.Kind]wire.Stamp{wire.KindConfig: {Epoch: 1, Rev: rev}, "later": {Epoch: 1, Rev: 99}}
	}
	type step struct {
		at   time.Duration
		do   func(v *View)
		high uint64
		want string
	}
	at := func(now time.Duration, mark string) func(*View) {
		return func(v *View) { v.Hear(now, mark, 3*s) }
	}
	offline := func(now time.Duration) func(*View) { return func(v *View) { v.Offline(now) } }
	tell := func(mark string, rev uint64) func(*View) { return func(v *View) { v.Tell(mark, stamps(rev)) } }
	for name, steps := range map[string][]step{
		"no mark": {{0, at(0, ""), 0, "never"}, {200 * s, nil, 0, "never"}},
		"in step": {
			{0, at(0, "a"), 5, "3s"}, {3 * s, nil, 5, "ask a, 13s"}, {4 * s, tell("a", 5), 5, "never"},
			{60 * s, at(60*s, "a"), 5, "never"},
			{120 * s, at(120*s, "b"), 5, "2m3s"}, {123 * s, nil, 5, "ask b, 2m13s"},
			{124 * s, tell("b", 5), 6, "never"},
		},
		"on its way": {
			{0, at(0, "a"), 5, "3s"}, {3 * s, nil, 5, "ask a, 13s"}, {4 * s, tell("a", 6), 5, "45s"},
			{9 * s, nil, 6, "never"},
		},
		"withheld": {
			{0, at(0, "a"), 5, "3s"}, {3 * s, nil, 5, "ask a, 13s"}, {4 * s, tell("a", 6), 5, "45s"},
			{45 * s, nil, 5, "stale [config], never"}, {60 * s, at(60*s, "a"), 5, "1m3s"},
			{63 * s, nil, 5, "ask a, never"}, {64 * s, tell("a", 6), 5, "never"}, {70 * s, nil, 6, "current, never"},
			{120 * s, at(120*s, "a"), 6, "never"},
		},
		"no answer": {
			{0, at(0, "a"), 5, "3s"}, {3 * s, nil, 5, "ask a, 13s"}, {13 * s, nil, 5, "ask a, 23s"},
			{23 * s, nil, 5, "ask a, 33s"}, {33 * s, nil, 5, "ask a, 43s"}, {43 * s, nil, 5, "ask a, 45s"},
			{45 * s, nil, 5, "stale [], never"},
			{60 * s, at(60*s, "b"), 5, "1m3s"}, {63 * s, nil, 5, "ask b, never"},
			{64 * s, tell("a", 5), 5, "never"}, // of the question before
			{65 * s, tell("b", 5), 5, "current, never"},
		},
		"offline": {
			{0, at(0, "a"), 5, "3s"}, {10 * s, offline(10 * s), 5, "never"}, {500 * s, nil, 5, "never"},
			{600 * s, at(600*s, "a"), 5, "10m0.75s"}, {601 * s, nil, 5, "ask a, 10m11s"},
			{604 * s, tell("a", 5), 5, "never"},
		},
		"an answer of another mark": {
			{0, at(0, "a"), 5, "3s"}, {3 * s, nil, 5, "ask a, 13s"}, {4 * s, at(4*s, "b"), 5, "13s"},
			{5 * s, tell("a", 5), 5, "13s"}, {13 * s, nil, 5, "ask b, 23s"}, {23 * s, nil, 5, "ask b, 33s"},
			{24 * s, tell("b", 5), 5, "never"},
		},
		"an old beacon played again": {
			{0, at(0, "a"), 5, "3s"}, {3 * s, nil, 5, "ask a, 13s"}, {4 * s, tell("a", 5), 5, "never"},
			{60 * s, at(60*s, "b"), 5, "1m3s"}, {61 * s, at(61*s, "a"), 5, "1m3s"},
			{63 * s, nil, 5, "ask a, 1m13s"}, {64 * s, tell("a", 6), 5, "1m45s"},
			{105 * s, nil, 5, "stale [config], never"},
		},
		"a session that ends while a document is missing": {
			{0, at(0, "a"), 5, "3s"}, {3 * s, nil, 5, "ask a, 13s"}, {4 * s, tell("a", 6), 5, "45s"},
			{40 * s, offline(40 * s), 5, "never"}, {41 * s, at(41*s, "a"), 5, "41.75s"},
			{42 * s, nil, 5, "ask a, 51s"}, {45 * s, tell("a", 6), 5, "51s"},
			{51 * s, nil, 5, "stale [config], never"}, {80 * s, offline(80 * s), 5, "never"},
			{81 * s, at(81*s, "a"), 5, "1m21.75s"}, {82 * s, nil, 5, "ask a, never"},
			{83 * s, tell("a", 6), 6, "current, never"},
		},
		"sessions that end again and again": {
			{0, at(0, "a"), 5, "3s"}, {4 * s, offline(4 * s), 5, "never"}, {5 * s, at(5*s, "a"), 5, "5.75s"},
			{20 * s, offline(20 * s), 5, "never"}, {21 * s, at(21*s, "a"), 5, "21.75s"},
			{40 * s, offline(40 * s), 5, "never"}, {41 * s, at(41*s, "a"), 5, "41.75s"},
			{48 * s, offline(48 * s), 5, "stale [], never"}, {49 * s, at(49*s, "a"), 5, "49.75s"},
			{50 * s, nil, 5, "ask a, never"}, {51 * s, tell("a", 5), 5, "current, never"},
			{60 * s, at(60*s, "b"), 5, "1m3s"}, {70 * s, tell("b", 6), 5, "1m45s"},
		},
	} {
		v := &View{}
		for i, st := range steps {
			if st.do != nil {
				st.do(v)
			}
			l := v.Look(st.at, func(k wire.Kind) (wire.Stamp, bool) {
				return wire.Stamp{Epoch: 1, Rev: st.high}, k == wire.KindConfig
			})
			var got []string
			if l.Ask != "" {
				got = append(got, "ask "+l.Ask)
			}
			if l.Changed && l.Stale {
				got = append(got, fmt.Sprintf("stale %v", l.Missing))
			} else if l.Changed {
				got = append(got, "current")
			}
			if due, ok := v.Due(); ok {
				got = append(got, due.String())
			} else {
				got = append(got, "never")
			}
			if g := strings.Join(got, ", "); g != st.want {
				t.Errorf("%s, step %d at %v: %s, want %s", name, i, st.at, g, st.want)
			}
		}
	}
}
