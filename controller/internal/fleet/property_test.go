package fleet

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tandem.internal/controller/internal/kinds"
	"tandem.internal/controller/internal/kinds/health"
	"tandem.internal/controller/internal/kinds/workloads"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/signing"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// TestProperties: whatever comes, replay equals live, equal input gives equal output, what was
// issued to a node never goes back, and nothing is published that the journal does not know.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		w.t = fatal{t, rt}
		twin := New(w.opt)
		d := &drawn{T: rt, w: w, now: origin.In(time.FixedZone("here", 3600)), plans: rolloutPlans(t)}
		newest := map[string]wire.Stamp{}
		var old []byte // a checkpoint on the way
		oldAt := 0
		feed := func(ev Event) []Effect {
			var out Out
			before := w.live.Seq()
			twin.Step(d.now, ev, &out)
			records, effects := w.step(d.now, ev)
			if a, b := fmt.Sprintf("%+v", out.Records), fmt.Sprintf("%+v", records); a != b &&
				len(records)+len(out.Records) > 0 {
				rt.Fatalf("equal input, different records:\n%s\n%s", a, b)
			}
			if a, b := say(out.Effects), say(effects); a != b {
				rt.Fatalf("equal input, different effects:\n%s\n%s", a, b)
			}
			if w.live.Seq() != before+uint64(len(records)) {
				rt.Fatalf("%d records take the state from %d to %d", len(records), before, w.live.Seq())
			}
			for _, e := range effects {
				p, ok := e.(Publish)
				if !ok || p.Doc == nil {
					continue
				}
				if p.Doc.Rev > w.live.Seq() || p.Doc.Rev == 0 {
					rt.Fatalf("published rev %d, the journal ends at %d", p.Doc.Rev, w.live.Seq())
				}
				if p.Body != nil && wire.Hash(p.Body) != p.Doc.Hash {
					rt.Fatalf("published a body of another hash")
				}
				for _, n := range p.Nodes {
					n += "/" + string(p.Kind)
					if p.Doc.Stamp().Compare(newest[n]) < 0 {
						rt.Fatalf("%s: published %v after %v", n, p.Doc.Stamp(), newest[n])
					}
					newest[n] = p.Doc.Stamp()
				}
			}
			return effects
		}
		feed(Opened{}) // as every journal begins: its epoch is that of the records behind it
		for range rapid.IntRange(1, 80).Draw(rt, "events") {
			d.now = d.now.Add(time.Duration(rapid.SampledFrom([]int{0, 0, 1, 5, 60, 600, -3600}).Draw(rt,
				"seconds")) * time.Second)
			for _, e := range feed(d.event()) {
				switch e := e.(type) {
				case Ask:
					switch e.Method {
					case wire.MethodCheck:
						d.checks = append(d.checks, e.ID)
					case wire.MethodLogs:
						d.queries = append(d.queries, e.ID+e.Nodes[0])
					case wire.MethodShow:
						for _, e := range feed(d.shown(e)) {
							if r, ok := e.(RaiseEpoch); ok {
								w.opt.Epoch = max(w.opt.Epoch, r.Above) + 1
								feed(EpochRaised{Epoch: w.opt.Epoch})
							}
						}
					case wire.MethodReboot, wire.MethodRestart:
						if n := len(w.journal); w.journal[n-1].Type != record.Request {
							rt.Fatalf("asked to %s before it was in the journal", e.Method)
						}
						d.orders = append(d.orders, e.ID+e.Nodes[0])
					}
				}
			}
			if rapid.IntRange(0, 15).Draw(rt, "checkpoint") == 0 {
				old, oldAt = w.live.Checkpoint(), len(w.journal)
			}
		}
		w.check()
		if old != nil {
			f, err := Restored(w.opt, old)
			if err != nil {
				rt.Fatal(err)
			}
			if got, want := w.replayed(oldAt, f).Checkpoint(), w.live.Checkpoint(); !bytes.Equal(got, want) {
				rt.Fatalf("replay from a checkpoint leads elsewhere:\nreplayed %s\nlive     %s", got, want)
			}
		}
		if next, ok := w.live.NextDeadline(); ok && next.IsZero() {
			rt.Fatal("due at no time")
		}
	})
}

// fatal lets a world fail a rapid test.
type fatal struct {
	testing.TB
	rt *rapid.T
}

func (f fatal) Fatal(a ...any)                 { f.rt.Fatal(a...) }
func (f fatal) Fatalf(format string, a ...any) { f.rt.Fatalf(format, a...) }

// say writes effects so that equal ones are equal text.
func say(effects []Effect) string {
	var b bytes.Buffer
	for _, e := range effects {
		switch e := e.(type) {
		case Publish:
			fmt.Fprintf(&b, "publish %s %+v %x %v\n", e.Kind, e.Doc, wire.Hash(e.Body), e.Nodes)
		case Ask:
			fmt.Fprintf(&b, "ask %s %v %s %v", e.ID, e.Nodes, e.Method, e.NotAfter)
			if e.Params != nil {
				for _, n := range e.Nodes {
					fmt.Fprintf(&b, " %s", e.Params(n))
				}
			}
			fmt.Fprintln(&b)
		case Answer:
			r := e.Result
			if r.Placed != nil {
				fmt.Fprintf(&b, "%+v ", *r.Placed)
				r.Placed = nil
			}
			fmt.Fprintf(&b, "answer %d %+v %s %v\n", e.Ticket, r, e.Data, e.Err)
		default:
			fmt.Fprintf(&b, "%T %+v\n", e, e)
		}
	}
	return b.String()
}

// FuzzReplay replays arbitrary records: a journal that was tampered with is refused or replayed,
// and never breaks the program. What it leads to can be kept and restored.
func FuzzReplay(f *testing.F) {
	seed := newWorld(f)
	for _, ev := range []Event{
		Opened{Version: "1"},
		seed.heard("n1", &wire.Live{V: wire.Version, Node: "n1", Boot: "b", Session: 1, Up: true}),
		seed.info("n1", "b", 1, "mainType"), seed.submit("s1", "1.0.0"), Tick{}, Copy{Missing: true},
		Bad{Node: "n1", Err: wire.New(wire.CodeMalformed, "", "x")},
		KeyOrder{Order: signing.Order{Do: record.AnnounceKey, Key: testKey(2), First: testKey(1)}},
		CAOrder{CAOrder: signing.CAOrder{Do: record.AnnounceKey, CA: testCA(2), First: testCA(1)}},
		setHealth(view.Scope{All: true}, &wire.HealthSettings{FormatVersion: "1", Reset: wire.SpanOf(time.Hour)}),
		setHealth(view.Scope{Nodes: []string{"n1", "n2"}},
			&wire.HealthSettings{FormatVersion: "1", Reset: wire.SpanOf(time.Hour)}),
		Order{Node: "n1", Method: wire.MethodReboot, Params: []byte(`{"reason":"x"}`)},
		Maintain{For: time.Hour, Reason: "x"},
		seed.set("w1", "web@n1:a", "web@n2:b"), Query{Node: "n1", Method: wire.MethodLogs, What: "read"},
		seed.heard("n1", &wire.Reported{V: wire.Version, Node: "n1", Kind: wire.KindWorkloads, Boot: "b", Seq: 1,
			Detail: wire.Encode(work(seed, []string{"web@n1:a:running"}, false))}),
		seed.heard("n1", &wire.Reported{V: wire.Version, Node: "n1", Kind: wire.KindHealth, Boot: "b", Seq: 1,
			Detail: wire.Encode(told(seed, nil, nil))}),
		seed.heard("n1", &wire.Event{V: wire.Version, Node: "n1", Boot: "b", Seq: 1, At: origin, Type: "alert",
			Detail: []byte(`{"tag":"t","parameter":"p","value":0.5,"state":"raise","since":"2026-01-01T00:00:00Z"}`)}),
	} {
		seed.step(origin.Add(time.Hour), ev)
	}
	var script []byte
	for _, r := range seed.journal {
		f.Add(uint16(r.Type), r.Kind, r.Data, script)
		script = append(append(script, byte(r.Type), byte(len(r.Data)), byte(len(r.Data)>>8)), r.Data...)
	}
	f.Add(uint16(record.Confirm), "config", []byte(`{"version":"1.0.0","rev":1}`), script)
	f.Add(uint16(record.Issued), "config",
		[]byte(`{"epoch":1,"version":"1","mode":"try","whole":true,"reason":"",`+
			`"docs":[{"hash":"x","nodes":["n1",""]}]}`), script)
	f.Add(uint16(record.Report), "", []byte(`{"v":1,"node":"n1","kind":"info","boot":"b","seq":1,"detail":null}`),
		script)
	f.Fuzz(func(t *testing.T, kind uint16, name string, data, script []byte) {
		fleet := New(Options{Kinds: kinds.All(), Unit: "u1", Epoch: 5})
		var seq uint64
		replay := func(r record.Record) {
			seq++
			r.Seq, r.At = seq, origin.Add(time.Duration(seq)*time.Second)
			_ = fleet.Replay(&r) // an error is an answer, too
		}
		for len(script) >= 3 {
			n := int(script[1]) | int(script[2])<<8
			rest := script[3:]
			n = min(n, len(rest))
			replay(record.Record{Type: record.Type(script[0]), Kind: string(wire.KindConfig), Data: rest[:n]})
			script = rest[n:]
		}
		replay(record.Record{Type: record.Type(kind), Kind: name, Data: data})
		cp := fleet.Checkpoint()
		again, err := Restored(Options{Kinds: kinds.All(), Unit: "u1", Epoch: 5}, cp)
		if err != nil {
			t.Fatalf("a checkpoint cannot be restored: %v\n%s", err, cp)
		}
		if got := again.Checkpoint(); !bytes.Equal(got, cp) {
			t.Fatalf("a restored checkpoint is another:\n%s\n%s", got, cp)
		}
		fleet.Status(wire.KindConfig)
		fleet.Views(anyName)
		health.List(fleet)
		fleet.Trouble()
		workloads.Slots(fleet, "")
		fleet.Status(wire.KindWorkloads)
		fleet.NextDeadline()
	})
}
