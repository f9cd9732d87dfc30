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
			{0, at(0, "a"), 5, "3s"}, {10 * s, (*View).Offline, 5, "never"}, {500 * s, nil, 5, "never"},
			{600 * s, at(600*s, "a"), 5, "10m3s"}, {603 * s, nil, 5, "ask a, 10m13s"},
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
			{40 * s, (*View).Offline, 5, "never"}, {41 * s, at(41*s, "a"), 5, "44s"},
			{44 * s, nil, 5, "ask a, 54s"}, {45 * s, tell("a", 6), 5, "1m26s"},
			{86 * s, nil, 5, "stale [config], never"},
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
