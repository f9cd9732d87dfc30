package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/kinds"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/wire"
)

// rig is a Fleet with a clock, and every record that it has made.
type rig struct {
	t    *testing.T
	f    *Fleet
	now  time.Time
	out  Out
	recs []record.Record
}

func newRig(t *testing.T) *rig {
	return &rig{t: t, f: New(Options{Kinds: kinds.All(), Unit: "u1", Epoch: 1000}), now: time.Unix(1_800_000_000, 0)}
}

func (h *rig) step(ev Event) []Effect {
	h.out.Reset()
	h.f.Step(h.now, ev, &h.out)
	for _, r := range h.out.Records {
		r.Data = append([]byte(nil), r.Data...)
		h.recs = append(h.recs, r)
	}
	return append([]Effect(nil), h.out.Effects...)
}

// wait lets time pass and does what is due.
func (h *rig) wait(d time.Duration) []Effect {
	h.now = h.now.Add(d)
	return h.step(Tick{})
}

func doc(version string) []byte {
	return fmt.Appendf(nil,
		`{"formatVersion":"7","version":%q,"nodes":[{"nodeGroupSubject":{"codename":"m"},"priority":2}]}`, version)
}

// submission is a configuration as the shell brings it, parsed.
func (h *rig) submission(version string, sub view.Submission) Submit {
	h.t.Helper()
	sub.Document = doc(version)
	sub.Kind = wire.KindConfig
	return submitted(1, sub)
}

// submit submits without asking the nodes.
func (h *rig) submit(version string, mode wire.Mode, within time.Duration) []Effect {
	h.t.Helper()
	return h.step(h.submission(version, view.Submission{Mode: mode, ConfirmWithin: within, Offline: true}))
}

func (h *rig) live(node, boot string, session uint64, up bool, events uint64, seqs map[wire.Kind]uint64) []Effect {
	l := &wire.Live{V: wire.Version, Node: node, Boot: boot, Session: session, Up: up, Events: events, Seqs: seqs}
	return h.step(Heard{Node: node, Raw: wire.Encode(l), Live: l})
}

func (h *rig) info(node, boot string, seq uint64) []Effect {
	in := &wire.NodeInfo{Type: "m", OS: "linux", Arch: "x", AgentVersion: "1"}
	r := &wire.Reported{V: wire.Version, Node: node, Kind: wire.KindInfo, Boot: boot, Seq: seq, Detail: wire.Encode(in)}
	return h.step(Heard{Node: node, Raw: wire.Encode(r), Reported: r, Detail: in})
}

// join brings a node of the type m up.
func (h *rig) join(node string) {
	h.live(node, "b", 1, true, 0, nil)
	h.info(node, "b", 1)
}

func (h *rig) report(node, boot string, seq uint64, state wire.State, last, running *kind.Doc) []Effect {
	r := &wire.Reported{V: wire.Version, Node: node, Kind: wire.KindConfig, Boot: boot, Seq: seq}
	if last != nil {
		r.Last = &wire.Attempt{Epoch: last.Epoch, Rev: last.Rev, Version: last.Version, Hash: last.Hash, State: state,
			Attempt: 1, At: h.now}
	}
	if running != nil {
		ref := running.DocRef
		r.Running = &ref
	}
	return h.step(Heard{Node: node, Raw: wire.Encode(r), Reported: r})
}

// shows answers what a node is asked about the signature of its newest document.
func (h *rig) shows(node string, d *kind.Doc, effects []Effect) {
	for _, e := range effects {
		a, ok := e.(Ask)
		if !ok || a.Method != wire.MethodShow {
			continue
		}
		shown := &wire.Shown{Epoch: d.Epoch, Rev: d.Rev, Version: d.Version, Hash: d.Hash, Mode: d.Mode}
		shown.Sig = testSigner(1).Sign(seal.DesiredPreimage(shown.Of("u1", node, wire.KindConfig)))
		r := &wire.Reply{V: wire.Version, Node: node, ID: a.ID + node, Result: wire.Encode(shown)}
		h.step(Heard{Node: node, Raw: wire.Encode(r), Reply: r})
	}
}

func (h *rig) event(node string, seqs ...uint64) {
	for _, seq := range seqs {
		e := &wire.Event{V: wire.Version, Node: node, Boot: "b", Seq: seq, At: h.now, Type: "alert"}
		h.step(Heard{Node: node, Raw: wire.Encode(e), Event: e})
	}
}

// events lists the sequence numbers of the events in the journal.
func (h *rig) events() (seqs []uint64) {
	h.t.Helper()
	for _, r := range h.recs {
		if r.Type != record.Event {
			continue
		}
		e, err := wire.Decode[wire.Event](r.Data)
		if err != nil {
			h.t.Fatal(err)
		}
		seqs = append(seqs, e.Seq)
	}
	return seqs
}

// want is the document that a node should have.
func (h *rig) want(node string) *kind.Doc { return h.f.nodes[node].Kinds[wire.KindConfig].Desired }

// replays makes sure that the records lead to the live state.
func (h *rig) replays() {
	h.t.Helper()
	g := New(Options{Kinds: kinds.All(), Unit: "u1", Epoch: 1000})
	for _, r := range h.recs {
		r.At = r.At.UTC() // as it is read back
		if err := g.Replay(&r); err != nil {
			h.t.Fatal(err)
		}
	}
	if got, want := string(g.Checkpoint()), string(h.f.Checkpoint()); got != want {
		h.t.Errorf("replay differs from live\nreplayed %s\nlive     %s", got, want)
	}
}

// show tells effects in a line.
func show(effects []Effect) string {
	var b strings.Builder
	for _, e := range effects {
		switch e := e.(type) {
		case Ask:
			fmt.Fprintf(&b, "Ask(%s) ", e.Method)
		case Publish:
			if e.Doc == nil {
				fmt.Fprint(&b, "Withdraw ")
			} else {
				fmt.Fprintf(&b, "Publish(%v %s) ", e.Doc.Stamp(), e.Doc.Mode)
			}
		case Answer:
			fmt.Fprintf(&b, "Answer(%s %v) ", e.Result.State, e.Err)
		default:
			fmt.Fprintf(&b, "%T ", e)
		}
	}
	return b.String()
}

// upTo lists 1 to n.
func upTo(n uint64) (seqs []uint64) {
	for i := uint64(1); i <= n; i++ {
		seqs = append(seqs, i)
	}
	return seqs
}
