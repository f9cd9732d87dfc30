package fleet

import (
	"bytes"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/kinds"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/scripttest"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// origin is the time 0s of every script and property.
var origin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// TestScripts plays testdata/*.txt. A line that is neither indented nor a comment is an event: how
// long after the beginning, what, and its arguments; see (*script).event. The indented lines below
// it are what follows: records, then effects. After each event the records are replayed.
func TestScripts(t *testing.T) {
	scripttest.Play(t, func(t *testing.T, out *strings.Builder) func(string) {
		s := &script{world: newWorld(t), text: out}
		return s.line
	})
}

// world is a Fleet and the journal that it writes; also for the properties.
type world struct {
	t       testing.TB
	opt     Options
	live    *Fleet
	journal []record.Record
	bodies  map[string][]byte
	tickets uint64
	out     Out
}

func newWorld(t testing.TB) *world {
	opt := Options{Kinds: kinds.All(), Unit: "u1", Epoch: 5, Keys: []wire.Key{testKey(1)}, Zones: time.LoadLocation}
	return &world{t: t, opt: opt, live: New(opt), bodies: map[string][]byte{}}
}

// step takes the Fleet over one event and keeps what it writes.
func (w *world) step(now time.Time, ev Event) ([]record.Record, []Effect) {
	w.out.Reset()
	w.live.Step(now, ev, &w.out)
	for _, b := range w.out.Bodies {
		w.bodies[wire.Hash(b)] = b
	}
	first := len(w.journal)
	for _, r := range w.out.Records {
		if want := uint64(len(w.journal) + 1); r.Seq != want {
			w.t.Fatalf("record %d comes after %d", r.Seq, want-1)
		}
		w.journal = append(w.journal, r)
	}
	return w.journal[first:], append([]Effect(nil), w.out.Effects...)
}

// replayed is the state that the journal leads to.
func (w *world) replayed(from int, f *Fleet) *Fleet {
	for i := range w.journal[from:] {
		r := w.journal[from+i]
		r.At = r.At.UTC().Round(0) // as it is read back
		if err := f.Replay(&r); err != nil {
			w.t.Fatal(err)
		}
	}
	return f
}

// check makes sure that replay equals live, from the beginning and from a checkpoint.
func (w *world) check() {
	want := w.live.Checkpoint()
	if got := w.replayed(0, New(w.opt)).Checkpoint(); !bytes.Equal(got, want) {
		w.t.Fatalf("replay leads elsewhere:\nreplayed %s\nlive     %s", got, want)
	}
	restored, err := Restored(w.opt, want)
	if err != nil {
		w.t.Fatal(err)
	}
	if got := restored.Checkpoint(); !bytes.Equal(got, want) {
		w.t.Fatalf("a restored checkpoint is another:\nrestored %s\nlive     %s", got, want)
	}
	for _, src := range w.live.sources {
		if src.Parse == nil {
			continue
		}
		if !reflect.DeepEqual(w.content(src.Name, src.Hash, src.Lenient), src.installed) {
			w.t.Fatalf("the document that the journal has, %+v, comes to something else than the live one", src.State)
		}
		for _, v := range src.versions {
			if !reflect.DeepEqual(w.content(src.Name, v.Hash, v.Lenient), src.contents[v.Hash]) {
				w.t.Fatalf("the document %+v, which nodes have, comes to something else than the live one", v)
			}
		}
		if len(src.contents) != len(src.versions) {
			w.t.Fatalf("there are %d contents of %d documents", len(src.contents), len(src.versions))
		}
	}
	for hash := range w.live.BodyInUse() {
		if _, ok := w.bodies[hash]; !ok && hash != "" {
			w.t.Fatalf("the body %s is in use and was never stored", hash)
		}
	}
	w.glances()
}

// glances makes sure that nothing of another node shows where memory of a glance is used again.
func (w *world) glances() {
	var again view.Node
	names := append(w.live.Names(origin), "nobody")
	for _, name := range append(names, names...) {
		want, _, known := w.live.Glance(name, origin)
		is := w.live.GlanceInto(&again, name, origin)
		if len(again.Documents) == 0 {
			again.Documents = want.Documents // an empty map, or none: they are the same to whoever reads
		}
		if is != known || !reflect.DeepEqual(again, want) {
			w.t.Fatalf("%s is\n%+v, and behind another\n%+v", name, want, again)
		}
	}
}

// submit makes a submission of a configuration for mainType and sideType.
func (w *world) submit(id, version string, labels ...string) Submit {
	w.tickets++
	if len(labels) == 0 {
		labels = []string{"x"}
	}
	uc := &unitconfig.UnitConfig{FormatVersion: unitconfig.FormatVersion, Version: version}
	for _, t := range []string{"mainType", "sideType"} {
		uc.Nodes = append(uc.Nodes,
			unitconfig.NodeEntry{NodeGroupSubject: unitconfig.Identity{Codename: t},
				Labels: append([]string{t}, labels...)})
	}
	doc := unitconfig.Encode(uc)
	return submitted(w.tickets, view.Submission{Kind: wire.KindConfig, Document: doc, Who: "ann", Via: "http", ID: id})
}

// ref is a document that a node names: as it was issued to it, or as it stands there.
func (w *world) ref(node string, kind wire.Kind, stamp, version string) *wire.DocRef {
	var e, r uint64
	if _, err := fmt.Sscanf(stamp, "%d.%d", &e, &r); err != nil {
		w.t.Fatalf("stamp %q: %v", stamp, err)
	}
	d := &wire.DocRef{Epoch: e, Rev: r, Version: version, Hash: wire.Hash([]byte(version))}
	if n := w.live.Lookup(node); n != nil && n.Kinds[kind] != nil {
		if k := n.Kinds[kind].Desired; k != nil && k.Stamp() == d.Stamp() {
			d.Hash = k.Hash
		}
	}
	return d
}

func (w *world) heard(node string, m any) Heard {
	h := Heard{Node: node}
	switch m := m.(type) {
	case *wire.Live:
		h.Raw, h.Live = wire.Encode(m), m
	case *wire.Reported:
		h.Raw, h.Reported = wire.Encode(m), m
		h.Detail = detailOf(w.t, m)
	case *wire.Event:
		h.Raw, h.Event = wire.Encode(m), m
	case *wire.Reply:
		h.Raw, h.Reply = wire.Encode(m), m
	}
	return h
}

func (w *world) info(node, boot string, seq uint64, kind string) Heard {
	return w.infoWith(node, boot, seq, kind, "")
}

// infoWith is info of a node that is in error, unless the code is "".
func (w *world) infoWith(node, boot string, seq uint64, kind string, code wire.Code) Heard {
	info := wire.NodeInfo{Type: kind, OS: "linux", Arch: "arm64", CPUs: 2, RAM: 1 << 30, AgentVersion: "1.0.0"}
	if code != "" {
		info.Error = wire.New(code, "", "for a reason")
	}
	return w.heard(node, &wire.Reported{V: wire.Version, Node: node, Kind: wire.KindInfo, Boot: boot, Seq: seq,
		Detail: wire.Encode(&info)})
}

func number(t testing.TB, s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
