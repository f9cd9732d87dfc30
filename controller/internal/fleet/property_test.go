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

// A generator of what may reach a Fleet: sensible most of the time, late, repeated, reordered or
// nonsense otherwise.
type drawn struct {
	*rapid.T
	w       *world
	now     time.Time
	version int
	checks  []string
	orders  []string // requests of operators, whole IDs
	queries []string // questions for logs, likewise
}

func (d *drawn) node() string {
	return rapid.SampledFrom([]string{"n1", "n2", "n3", "n4"}).Draw(d.T, "node")
}

func (d *drawn) small(what string) uint64 { return rapid.Uint64Range(1, 6).Draw(d.T, what) }

// document names one of a kind that was issued to the node, or one that nobody issued.
func (d *drawn) document(node string, kind wire.Kind) *wire.DocRef {
	if n := d.w.live.Lookup(node); n != nil && rapid.IntRange(0, 9).Draw(d.T, "issued") > 0 {
		k := n.Kinds[kind]
		switch {
		case k == nil:
		case k.Desired != nil && rapid.Bool().Draw(d.T, "desired"):
			ref := k.Desired.DocRef
			return &ref
		case k.Running != nil:
			return k.Running
		}
	}
	e := d.w.opt.Epoch + rapid.Uint64Range(0, 3).Draw(d.T, "epoch") - 2
	return &wire.DocRef{Epoch: e, Rev: rapid.Uint64Range(1, 60).Draw(d.T, "rev"), Version: "0.0.1",
		Hash: wire.Hash([]byte("x"))}
}

func (d *drawn) event() Event {
	switch rapid.IntRange(0, 23).Draw(d.T, "event") {
	case 0:
		return Opened{Version: "1.0.0"}
	case 1, 2, 3:
		node := d.node()
		l := &wire.Live{V: wire.Version, Node: node, Boot: d.boot(), Session: d.small("session"),
			Up:     rapid.IntRange(0, 3).Draw(d.T, "up") > 0,
			Events: rapid.Uint64Range(0, 9).Draw(d.T, "events")}
		if rapid.Bool().Draw(d.T, "seqs") {
			l.Seqs = map[wire.Kind]uint64{wire.KindConfig: d.small("seq"), wire.KindInfo: d.small("seq")}
		}
		return d.w.heard(node, l)
	case 4, 5:
		return d.w.info(d.node(), d.boot(), d.small("seq"),
			rapid.SampledFrom([]string{"mainType", "sideType", "odd"}).Draw(d.T, "type"))
	case 6, 7, 8:
		node := d.node()
		r := &wire.Reported{V: wire.Version, Node: node,
			Kind: rapid.SampledFrom([]wire.Kind{wire.KindConfig, wire.KindHealth, wire.KindWorkloads}).Draw(d.T,
				"kind"), Boot: d.boot(), Seq: d.small("seq")}
		if r.Kind == wire.KindHealth && rapid.Bool().Draw(d.T, "detail") {
			r.Detail = wire.Encode(told(d.w, nil, map[string]string{"trial": "1.5.0"}))
		}
		if r.Kind == wire.KindWorkloads && rapid.IntRange(0, 5).Draw(d.T, "detail") > 0 {
			r.Detail = d.work(node)
		}
		if rapid.Bool().Draw(d.T, "running") {
			r.Running = d.document(node, r.Kind)
		}
		if rapid.Bool().Draw(d.T, "last") {
			ref := d.document(node, r.Kind)
			state := rapid.SampledFrom([]wire.State{wire.StateReceived, wire.StateRejected, wire.StateApplying,
				wire.StateTrying, wire.StateInstalled,
				wire.StateFailed, wire.StateRolledBack, wire.StateSuperseded}).Draw(d.T, "state")
			r.Last = &wire.Attempt{Epoch: ref.Epoch, Rev: ref.Rev, Version: ref.Version, Hash: ref.Hash, State: state,
				Attempt: 1, At: d.now}
			if state == wire.StateFailed || state == wire.StateRejected {
				r.Last.Error = wire.New(wire.CodeApplyFailed, "", "no")
			}
		}
		return d.w.heard(node, r)
	case 9:
		node := d.node()
		return d.w.heard(node, &wire.Event{V: wire.Version, Node: node, Boot: d.boot(),
			Seq: rapid.Uint64Range(1, 12).Draw(d.T, "seq"), At: d.now,
			Type: "stale", Lost: rapid.Uint64Range(0, 2).Draw(d.T, "lost")})
	case 10, 11:
		if len(d.checks) == 0 {
			return Tick{}
		}
		node, id := d.node(), rapid.SampledFrom(d.checks).Draw(d.T, "check")
		result := wire.CheckResult{OK: rapid.IntRange(0, 4).Draw(d.T, "ok") > 0}
		return d.w.heard(node, &wire.Reply{V: wire.Version, Node: node, ID: id + node, Result: wire.Encode(&result)})
	case 12:
		d.version++
		version := fmt.Sprintf("%d.0.0", d.version-rapid.IntRange(0, 1).Draw(d.T, "again"))
		s := d.w.submit(fmt.Sprint("s", d.version), version, fmt.Sprint("x", d.small("label")))
		s.Sub.DryRun = rapid.IntRange(0, 9).Draw(d.T, "dry") == 0
		s.Sub.Offline = rapid.Bool().Draw(d.T, "offline")
		if rapid.IntRange(0, 2).Draw(d.T, "try") == 0 {
			s.Sub.Mode, s.Sub.ConfirmWithin = wire.ModeTry, time.Duration(d.small("within"))*time.Minute
		}
		return s
	case 13:
		if rapid.Bool().Draw(d.T, "confirm") {
			return Confirm{Ticket: 1, Source: wire.KindConfig, Who: "ann"}
		}
		return Restore{Ticket: 1, Who: "ann"}
	case 14:
		switch rapid.IntRange(0, 4).Draw(d.T, "copy") {
		case 0:
			return Copy{Missing: true}
		case 1:
			return Copy{Hash: "sha256:altered"}
		case 2:
			return Copy{Hash: "sha256:bad", Error: wire.New(wire.CodeMalformed, "", "no JSON")}
		case 3:
			return Copy{Hash: "sha256:older", Known: true}
		}
		return Copy{Hash: d.w.live.State(wire.KindConfig).Hash, Known: true}
	case 16, 17, 18:
		return d.ofHealth()
	case 21, 22:
		return d.ofMembers()
	case 19, 20:
		return d.ofWorkloads()
	}
	return Tick{}
}

// ofWorkloads is a set of workloads, or an order or a question about a slot.
func (d *drawn) ofWorkloads() Event {
	switch rapid.IntRange(0, 5).Draw(d.T, "workloads") {
	case 0:
		return Order{Ticket: 1, Node: d.node(), Method: wire.MethodRestart, Params: []byte(`{"service":"a"}`),
			Who: "ann"}
	case 1:
		return Query{Ticket: 1, Node: d.node(), Method: wire.MethodLogs, Params: []byte(`{"service":"a"}`), Who: "ann",
			What: "read"}
	case 2:
		if len(d.queries) == 0 {
			return Tick{}
		}
		node := d.node()
		return d.w.heard(node,
			&wire.Reply{V: wire.Version, Node: node, ID: rapid.SampledFrom(d.queries).Draw(d.T, "query"),
				Result: []byte(`{"cursor":"1"}`)})
	}
	var entries []string
	for _, node := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"n1", "n2", "n3", "n9"}), 0, 4,
		rapid.ID).Draw(d.T, "named") {
		for _, service := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b"}), 1, 2, rapid.ID).Draw(d.T,
			"services") {
			entries = append(entries, fmt.Sprintf("%s@%s:c%d", service, node, d.small("configuration")))
		}
	}
	s := d.w.set("w", entries...)
	s.Sub.DryRun = rapid.IntRange(0, 9).Draw(d.T, "dry") == 0
	s.Sub.Offline = rapid.Bool().Draw(d.T, "offline")
	if rapid.Bool().Draw(d.T, "named version") {
		s.Version = fmt.Sprintf("%d.0.0", d.small("version"))
		s.Sub.Version = s.Version
	}
	return s
}

// work is what a node tells of its slots.
func (d *drawn) work(node string) []byte {
	var slots []string
	for _, service := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "old"}),
		0, 3, rapid.ID).Draw(d.T, "told") {
		slots = append(slots, fmt.Sprintf("%s@%s:c%d:%s:done~%d", service, node, d.small("told of"),
			rapid.SampledFrom([]string{"preparing", "running", "failed"}).Draw(d.T, "slot"), d.small("done")))
	}
	return wire.Encode(work(d.w, slots, false))
}

// ofHealth is an order of an operator about health, an answer to one, or an alert.
func (d *drawn) ofHealth() Event {
	switch rapid.IntRange(0, 6).Draw(d.T, "health") {
	case 0, 1:
		var ev health.Change
		switch rapid.IntRange(0, 3).Draw(d.T, "scope") {
		case 0:
			ev.Scope.All = true
		case 1:
			ev.Scope.Types = []string{rapid.SampledFrom([]string{"mainType", "sideType"}).Draw(d.T, "type")}
		case 2:
			ev.Scope.Nodes = []string{d.node(), "n9"}
		}
		if rapid.IntRange(0, 2).Draw(d.T, "set") > 0 {
			ev.Settings = &wire.HealthSettings{FormatVersion: "1",
				Reset: wire.SpanOf(time.Duration(d.small("reset")) * time.Minute)}
		}
		return Change{Ticket: 1, Source: wire.KindHealth, Data: ev, Who: "ann"}
	case 2:
		return Order{Ticket: 1, Node: d.node(), Method: wire.MethodReboot, Params: []byte(`{"reason":"x"}`), Who: "ann"}
	case 3:
		if len(d.orders) == 0 {
			return Tick{}
		}
		return d.w.heard("n1",
			&wire.Reply{V: wire.Version, Node: "n1", ID: rapid.SampledFrom(d.orders).Draw(d.T, "order")})
	case 4:
		return Maintain{Ticket: 1, For: time.Duration(d.small("for")-1) * time.Hour, Reason: "x", Who: "ann"}
	}
	node := d.node()
	detail := fmt.Sprintf(`{"tag":"t","parameter":"p%d","value":0.5,"state":%q,"since":"2026-01-01T00:00:00+01:00"}`,
		d.small("parameter"),
		rapid.SampledFrom([]string{"raise", "continue", "fall", "odd"}).Draw(d.T, "phase"))
	return d.w.heard(node, &wire.Event{V: wire.Version, Node: node, Boot: d.boot(),
		Seq: rapid.Uint64Range(1, 12).Draw(d.T, "seq"), At: d.now, Type: "alert", Detail: []byte(detail)})
}

func (d *drawn) boot() string { return rapid.SampledFrom([]string{"b1", "b1", "b2"}).Draw(d.T, "boot") }

// TestProperties: whatever comes, replay equals live, equal input gives equal output, what was
// issued to a node never goes back, and nothing is published that the journal does not know.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		w.t = fatal{t, rt}
		twin := New(w.opt)
		d := &drawn{T: rt, w: w, now: origin.In(time.FixedZone("here", 3600))}
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
					case wire.MethodReboot, wire.MethodRestart:
						if n := len(w.journal); w.journal[n-1].Type != record.Request {
							rt.Fatalf("asked to %s before it was in the journal", e.Method)
						}
						d.orders = append(d.orders, e.ID+e.Nodes[0])
					}
				case RaiseEpoch:
					w.opt.Epoch = max(w.opt.Epoch, e.Above) + 1
					feed(EpochRaised{Epoch: w.opt.Epoch})
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
