package fleet

import (
	"testing"
	"time"

	"tandem.internal/controller/internal/kinds"
	"tandem.internal/shared/wire"
)

// A node that is heard although it is not known to be online is asked, a few times, whether it is:
// its live message may be lost. What a broker had kept of it says nothing.
func TestNodeThatIsHeardButNotOnline(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	f := New(Options{Kinds: kinds.All(), Unit: "u1", Epoch: 1})
	var out Out
	asked := 0
	step := func(ev Event) {
		f.Step(now, ev, &out)
		for _, e := range out.Effects {
			if a, ok := e.(Ask); ok && a.Method == wire.MethodReport {
				asked++
			}
		}
		out.Reset()
	}
	wait := func() (asks int) {
		t.Helper()
		before := asked
		for range 20 {
			next, ok := f.NextDeadline()
			if !ok {
				return asked - before
			}
			now = next
			step(Tick{})
		}
		t.Fatal("it is asked for ever")
		return 0
	}
	seq := uint64(0)
	report := func(retained bool) {
		seq++
		r := wire.Reported{V: 1, Node: "n1", Kind: wire.KindInfo, Boot: "b1", Seq: seq,
			Detail: []byte(`{"type":"a","os":"","arch":"","cpus":0,"ram":0,"agentVersion":""}`)}
		info, err := wire.Decode[wire.NodeInfo](r.Detail)
		if err != nil {
			t.Fatal(err)
		}
		step(Heard{Node: "n1", Raw: wire.Encode(&r), Retained: retained, Reported: &r, Detail: info})
	}
	live := func(session uint64, up bool) {
		l := wire.Live{V: 1, Node: "n1", Boot: "b1", Session: session, Up: up}
		step(Heard{Node: "n1", Raw: wire.Encode(&l), Live: &l})
	}

	report(true)
	if n := wait(); n != 0 {
		t.Errorf("asked %d times because of what the broker had kept", n)
	}
	report(false)
	if n := wait(); n != maxCalls {
		t.Errorf("asked %d times, want %d", n, maxCalls)
	}
	report(false)
	live(1, true)
	if n := wait(); n != 0 || !f.Lookup("n1").Up {
		t.Errorf("asked %d times although it said live", n)
	}
	report(false)
	live(1, false)
	if n := wait(); n != 0 {
		t.Errorf("asked %d times after its last will", n)
	}
	live(2, true)
	step(Opened{})
	if n := wait(); n != 0 {
		t.Errorf("asked %d times after a start", n)
	}
	report(false)
	if n := wait(); n != maxCalls {
		t.Errorf("asked %d times, want %d", n, maxCalls)
	}
}
