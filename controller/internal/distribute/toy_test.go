package distribute

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/kinds"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// A kind that no program knows: toys, which a document hands out by name, in the colour that a setting says. It is
// made from two sources, and nothing outside its tests speaks of it: this file, and toy_verbs_test.go.
const (
	toys  wire.Kind = "toys"
	tints wire.Kind = "tints"
)

type toyBox struct {
	Version string            `json:"version"`
	Toys    map[string]string `json:"toys"` // by node

	tint   string // when it is built
	bodies map[string]*kind.Body
}

type tint struct {
	Colour string `json:"colour"`
}

type played struct {
	Hours int `json:"hours"`
}

func (b *toyBox) For(f kind.Facts) *kind.Body { return b.bodies[f.Node] }
func (t *tint) For(kind.Facts) *kind.Body     { return nil }
func parseToys(r kind.Reading) (p kind.Parsed) {
	box := &toyBox{}
	if err := json.Unmarshal(r.Document, box); err != nil {
		return kind.Parsed{Problems: []*wire.Error{wire.New(wire.CodeMalformed, "", err.Error())}}
	}
	return kind.Parsed{Version: box.Version, Content: box.painted("")}
}

func renameToys(doc []byte, as string) ([]byte, error) {
	var box toyBox
	err := json.Unmarshal(doc, &box)
	return toyDoc(as, box.Toys), err
}

// painted is the box with everything in it of one colour.
func (b *toyBox) painted(colour string) *toyBox {
	all := &toyBox{Version: b.Version, Toys: b.Toys, tint: colour, bodies: map[string]*kind.Body{}}
	for node, toy := range b.Toys {
		all.bodies[node] = kind.NewBody(fmt.Appendf(nil, `{"toy":%q}`, strings.TrimSpace(colour+" "+toy)))
	}
	return all
}

// ToySet is the set of the toys.
func ToySet() kind.Set {
	return kind.Set{
		Sources: []*kind.Source{
			{Name: toys, Title: "toy box", Noun: "toy box", Parse: parseToys, Rename: renameToys},
			{Name: tints, Title: "tint", Noun: "tint", Fold: &kind.Fold{
				Reason: "another colour",
				Decode: func(raw jsontext.Value) (any, error) {
					t := &tint{}
					return t, json.Unmarshal(raw, t)
				},
				Judge: func(_ kind.Content, change any) *wire.Error {
					if change.(*tint).Colour == "" {
						return wire.New(wire.CodeMissing, "/colour", "which?")
					}
					return nil
				},
				Apply: func(_ kind.Content, _ kind.Change, data any) kind.Content { return &tint{data.(*tint).Colour} },
				Save:  func(c kind.Content) any { return c },
				Load: func(saved jsontext.Value) (kind.Content, error) {
					t := &tint{}
					return t, json.Unmarshal(saved, t)
				},
			}},
		},
		Kinds: []*kind.Kind{{
			Name: toys, From: []wire.Kind{toys, tints}, Empty: kind.NewBody([]byte(`{}`)),
			Build: func(from map[wire.Kind]kind.Content) kind.Content {
				box, _ := from[toys].(*toyBox)
				if box == nil {
					return from[tints]
				}
				if t, ok := from[tints].(*tint); ok {
					return box.painted(t.Colour)
				}
				return box
			},
			Blank: func() any { return &played{} },
			Detail: func(_ string, raw jsontext.Value) (any, *wire.Error) {
				p := &played{}
				if err := json.Unmarshal(raw, p); err != nil {
					return nil, wire.New(wire.CodeMalformed, "/detail", err.Error())
				}
				return p, nil
			},
			Same: func(a, b any) bool { return a != nil && b != nil },
			Trouble: func(u kind.Unit) []string {
				return []string{fmt.Sprint(u.Progress(toys).Failed, " broken toys")}
			},
		}},
	}
}

func toyDoc(version string, byNode map[string]string) []byte {
	b, err := json.Marshal(&toyBox{Version: version, Toys: byNode}, json.Deterministic(true))
	if err != nil {
		panic(err)
	}
	return b
}

// toyUnit is a unit with toys.
type toyUnit struct{ *faulty }

// StartToys runs a core that knows the toys, without any node, until the test ends.
func StartToys(t *testing.T) *Core {
	dir := t.TempDir()
	core, err := New(Config{
		Unit: faultyUnit, Version: "1", Kinds: kind.Join(kinds.All(), ToySet()),
		Signer: seal.NewSigner(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))),
		Open: func() (*journal.Journal, error) {
			return journal.Open(filepath.Join(dir, "journal.db"), journal.Options{MapSize: 1 << 24})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	core.Attach(&memory{retained: map[string][]byte{}, sent: map[string]int{}, newest: map[string][]byte{},
		refuse: map[string]int{}})
	core.Handler().Up(1)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- core.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return core
}

func withToys(t *testing.T, f func(u toyUnit)) {
	tune := func(c *Config) { c.Kinds = kind.Join(kinds.All(), ToySet()) }
	withFaults(t, tune, func(_ *testing.T, r *faulty) { f(toyUnit{r}) })
}

// box submits a document; more changes the submission.
func (u toyUnit) box(version string, byNode map[string]string, more func(*view.Submission)) view.Result {
	u.Helper()
	s := view.Submission{Kind: toys, Document: toyDoc(version, byNode), Who: "ann", Via: "http", Offline: true}
	if more != nil {
		more(&s)
	}
	r, err := u.core.Submit(u.Context(), s)
	if err != nil {
		u.Fatal(err)
	}
	return r
}

// paint changes the colour.
func (u toyUnit) paint(colour string) error {
	_, err := u.core.order(u.Context(), func(t uint64) fleet.Event {
		return fleet.Change{Ticket: t, Source: tints, Data: &tint{colour}, Who: "ann"}
	})
	return err
}

// has checks what a node is to have: its version, mode and document, "" for nothing.
func (u toyUnit) has(node, want string) *wire.Desired {
	u.Helper()
	synctest.Wait()
	payload, ok := u.broker.Retained(topic.ForNode(faultyUnit, node).Desired(toys))
	if !ok || len(payload) == 0 {
		if want != "" {
			u.Errorf("%s has nothing, want %s", node, want)
		}
		return nil
	}
	d, err := wire.Decode[wire.Desired](payload)
	if err != nil {
		u.Fatal(err)
	}
	if got := fmt.Sprintf("%s %s %s", d.Version, d.Mode, d.Body); got != want {
		u.Errorf("%s has %s, want %s", node, got, want)
	}
	return d
}

// says reports that a node runs a document, and how long it was played with.
func (u toyUnit) says(d *wire.Desired, seq uint64, state wire.State, hours int) error {
	r := &wire.Reported{V: wire.Version, Node: d.Node, Kind: toys, Boot: "b", Seq: seq}
	r.Detail = fmt.Appendf(nil, `{"hours":%d}`, hours)
	r.Last = &wire.Attempt{
		Epoch: d.Epoch, Rev: d.Rev, Version: d.Version, Hash: d.Hash, State: state, Attempt: 1, At: d.Issued,
	}
	if state == wire.StateInstalled {
		r.Running = &wire.DocRef{Epoch: d.Epoch, Rev: d.Rev, Version: d.Version, Hash: d.Hash}
	}
	return u.hear(topic.ForNode(faultyUnit, d.Node).Reported(toys), wire.Encode(r))
}

func (u toyUnit) told(node string) (hours int) {
	u.look(func(f *fleet.Fleet) {
		n, _ := f.Node(toys, node)
		if p, ok := n.Detail.(*played); ok {
			hours = p.Hours
		}
	})
	return hours
}

// TestToyKind: a kind that is added from one file is judged, issued, reported, tried, rolled back, kept in the journal
// and refused by name like every other.
func TestToyKind(t *testing.T) {
	withToys(t, func(u toyUnit) {
		u.join("n1")
		u.join("n2")
		car := map[string]string{"n1": "car"}
		r := u.box("1.0.0", car, func(s *view.Submission) { s.DryRun, s.Offline = true, false })
		if r.State != "acceptable" || r.Checks.Asked != 1 || fmt.Sprint(r.Checks.Silent) != "[n1]" {
			u.Errorf("only n1 is to be asked: %+v", r)
		}
		if r := u.box("1.0.0", car, nil); r.State != "accepted" || r.Issued != 1 {
			u.Errorf("%+v", r)
		}
		if r := u.box("0.9.0", car, nil); r.State != "refused" || r.Error.Code != wire.CodeWrongState {
			u.Errorf("a lower version: %+v", r)
		}
		d := u.has("n1", `1.0.0 apply {"toy":"car"}`)
		u.has("n2", "")
		u.mustBe("a report", u.says(d, 1, wire.StateInstalled, 3), "")
		n := len(u.records())
		if u.says(d, 2, wire.StateInstalled, 4) != nil || len(u.records()) != n || u.told("n1") != 4 {
			u.Errorf("progress is journaled, or not shown: %d hours", u.told("n1"))
		}

		u.mustBe("no colour", u.paint(""), wire.CodeMissing)
		u.mustBe("red", u.paint("red"), "")
		var colour kind.State
		u.look(func(f *fleet.Fleet) { colour = f.State(tints) })
		red := func(version, mode, toy string) string {
			return fmt.Sprintf(`%s+%s %s {"toy":"red %s"}`, version, colour.Version, mode, toy)
		}
		u.has("n1", red("1.0.0", "apply", "car"))

		try := func(s *view.Submission) { s.Mode, s.ConfirmWithin = wire.ModeTry, time.Minute }
		both := map[string]string{"n1": "bus", "n2": "ball"}
		u.box("2.0.0", both, try)
		u.has("n1", red("2.0.0", "try", "bus"))
		u.has("n2", red("2.0.0", "try", "ball"))
		time.Sleep(2 * time.Minute)
		u.has("n1", red("1.0.0", "apply", "car"))
		u.has("n2", `1.0.0+`+colour.Version+` apply {}`)
		u.box("3.0.0", both, try)
		_, err := u.core.Confirm(as(u.Context(), "ann"), tints)
		u.mustBe("a trial that is not", err, wire.CodeNotFound)
		_, err = u.core.Confirm(as(u.Context(), "ann"), toys)
		u.mustBe("confirming", err, "")
		_, err = u.core.Rollback(as(u.Context(), "ann"), toys, op.Rollback{Version: "1.0.0", As: "4.0.0"})
		u.mustBe("rolling back", err, "")
		last := u.has("n1", red("4.0.0", "apply", "car"))
		u.has("n2", `4.0.0+`+colour.Version+` apply {}`)
		u.mustBe("a report", u.says(last, 3, wire.StateRejected, 5), "")

		before := u.box("4.0.0", car, nil).Error // refused: there is one
		u.restart()
		u.has("n1", red("4.0.0", "apply", "car"))
		if again := u.box("4.0.0", car, nil).Error; fmt.Sprint(again) != fmt.Sprint(before) || u.told("n1") != 5 {
			u.Errorf("after a restart %v, not %v; %d hours", again, before, u.told("n1"))
		}
		u.mustBe("blue", u.paint("blue"), "")
		u.look(func(f *fleet.Fleet) { colour = f.State(tints) })
		u.has("n1", `4.0.0+`+colour.Version+` apply {"toy":"blue car"}`)
		u.history()
		u.whole()
	})
}

func (u toyUnit) restart() {
	u.Helper()
	if err := u.stop(); err != nil {
		u.Fatal(err)
	}
	u.start()
}

// history checks what is told of the source, and what operators see of it.
func (u toyUnit) history() {
	u.Helper()
	all, err := u.core.History(u.Context(), toys)
	u.mustBe("history", err, "")
	var got []string
	for _, v := range all.Versions {
		got = append(got, v.Version+" "+v.State)
	}
	want := "[1.0.0 accepted 0.9.0 refused 2.0.0 accepted 2.0.0 expired 3.0.0 accepted 3.0.0 confirmed " +
		"4.0.0 accepted 4.0.0 refused 4.0.0 refused]"
	if fmt.Sprint(got) != want {
		u.Errorf("history %v, want %s", got, want)
	}
	s, err := u.core.Status(u.Context())
	u.mustBe("status", err, "")
	if !strings.Contains(fmt.Sprint(s.Trouble), "0 broken toys") {
		u.Errorf("trouble %v", s.Trouble)
	}
}
