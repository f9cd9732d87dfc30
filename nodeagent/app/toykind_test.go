package app

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/nodeagent/internal/kind"
	"tandem.internal/shared/wire"
)

// A toy kind: what a new kind needs on the node, in files of its own. Its documents are lists of words, which the node
// says; this node says no word of more than limit letters. It takes the name of a kind that the agent does not know.
const (
	toyName  = wire.Kind("toy")
	toySay   = wire.Method("toy-say")   // says one word more
	toyCount = wire.Method("toy-count") // how many words are said
)

// toy is a node's toy. It outlives agents, as a disk would, but for what one run of an agent makes.
type toy struct {
	limit  int    // of the letters of a word
	format string // that the agent reads: how the body calls the words

	mu     sync.Mutex
	puts   []string // the documents that the agent has put, since did was called
	forces []string // those that it said to be in force, likewise
	refuse string   // a word that cannot be said
	runs   int      // of Run, that have not ended
}

func newToy() *toy { return &toy{limit: 5, format: "words"} }

// note writes down a document.
func (y *toy) note(list *[]string, words []string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	*list = append(*list, strings.Join(words, "+"))
}

// did returns what the agent has done since the last call.
func (y *toy) did() string {
	y.mu.Lock()
	defer y.mu.Unlock()
	s := fmt.Sprintf("put %v, in force %v", y.puts, y.forces)
	y.puts, y.forces = nil, nil
	return s
}

// kind makes the toy's kind for one agent.
func (y *toy) kind(host kind.Host) kind.Kind {
	words := []string{} // in force; the owner's
	type document = kind.Document[[]string]
	return kind.New(kind.Spec[[]string]{
		Name: toyName,
		Parse: func(doc inbox.Doc) ([]string, []*wire.Error) {
			var body map[string][]string
			if err := json.Unmarshal(doc.Body, &body); err != nil || body[y.format] == nil {
				return nil, []*wire.Error{wire.New(wire.CodeMissing, "/"+y.format, "no words")}
			}
			return body[y.format], nil
		},
		Check: func(doc document) (errs []*wire.Error) {
			for i, w := range doc.Content {
				if len(w) > y.limit {
					at := fmt.Sprintf("/words/%d", i)
					errs = append(errs, wire.New(wire.CodeTooLarge, at, "too long for this node"))
				}
			}
			return errs
		},
		Put: func(_ context.Context, doc document) *wire.Error {
			y.note(&y.puts, doc.Content)
			y.mu.Lock()
			defer y.mu.Unlock()
			if y.refuse != "" && slices.Contains(doc.Content, y.refuse) {
				return wire.New(wire.CodeApplyFailed, "", "it cannot be said")
			}
			return nil
		},
		InForce: func(doc document) {
			y.note(&y.forces, doc.Content)
			words = slices.Clone(doc.Content)
			host.Report(toyName)
		},
		Detail: func() []byte { return fmt.Appendf(nil, `{"said":%q}`, strings.Join(words, " ")) },
		Methods: map[wire.Method]kind.Method{
			toySay: {Order: true, Read: func(params jsontext.Value) (func(string, kind.Answer), *wire.Error) {
				if !bytes.HasPrefix(params, []byte(`{"word":`)) {
					return nil, wire.New(wire.CodeMissing, "/word", "no word")
				}
				return func(_ string, answer kind.Answer) {
					host.Later(func(context.Context) func() {
						return func() {
							words = append(words, string(params[9:len(params)-2]))
							host.Report(toyName)
							host.Emit("toy-said", nil, map[string]int{"words": len(words)})
							answer([]byte("null"), nil)
						}
					})
				}, nil
			}},
			toyCount: {Read: func(jsontext.Value) (func(string, kind.Answer), *wire.Error) {
				return func(_ string, answer kind.Answer) { answer(fmt.Appendf(nil, "%d", len(words)), nil) }, nil
			}},
		},
		Run: func(ctx context.Context) {
			y.count(1)
			<-ctx.Done()
			y.count(-1)
		},
	})
}

func (y *toy) count(by int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.runs += by
}

// toyBubble runs a test with a node that has a toy.
func toyBubble(t *testing.T, f func(r *rig, y *toy)) {
	t.Helper()
	bubble(t, func(r *rig) {
		y := newToy()
		r.deps.Kinds = []func(kind.Host) kind.Kind{y.kind}
		f(r, y)
		r.stop()
		if y.runs != 0 {
			t.Errorf("%d runs go on after the agent", y.runs)
		}
	})
}

// toyDoc makes a document of the toy: its words are in body.
func toyDoc(rev uint64, body string) *wire.Desired {
	d := with(doc(1, rev), body)
	d.Kind = toyName
	return d
}

// toyReport is the newest report of the toy, in short, with its detail.
func (r *rig) toyReport() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.reports[toyName]
	if len(all) == 0 {
		return "none"
	}
	return short(all[len(all)-1]) + " " + string(all[len(all)-1].Detail)
}

func (r *rig) wantToy(y *toy, report, did string) {
	r.Helper()
	if got := r.toyReport(); got != report {
		r.Errorf("reported %q, want %q", got, report)
	}
	if got := y.did(); got != did {
		r.Errorf("the toy did %q, want %q", got, did)
	}
}

// A kind goes all the way from its own files: from the desired document to the report, a trial that is confirmed and
// one that is not, a document that fails, requests, and a restart.
func TestToyKind(t *testing.T) {
	toyBubble(t, func(r *rig, y *toy) {
		r.start()
		r.wantToy(y, `- {"said":""}`, "put [], in force []")
		r.desire(toyDoc(1, `{"words":["a","b"]}`))
		r.wantToy(y, `1/1 installed {"said":"a b"}`, "put [a+b], in force [a+b]")
		r.desire(toyDoc(2, `{"words":["toolong"]}`))
		r.wantToy(y, `1/2 rejected too-large {"said":"a b"}`, "put [], in force []")
		y.refuse = "no"
		r.desire(toyDoc(3, `{"words":["no"]}`))
		r.wantToy(y, `1/3 failed apply-failed {"said":"a b"}`, "put [no a+b], in force []")
		r.desire(try(toyDoc(4, `{"words":["c"]}`), "PT1M"))
		r.wantToy(y, `1/4 trying {"said":"c"}`, "put [c], in force [c]")
		r.pass(time.Minute)
		r.wantToy(y, `1/4 rolledback unconfirmed {"said":"a b"}`, "put [a+b], in force [a+b]")
		r.desire(try(toyDoc(5, `{"words":["d"]}`), "PT1M"))
		p := wire.ConfirmParams{Kind: toyName, Epoch: 1, Rev: 5}
		if e := r.request(wire.MethodConfirm, wire.Encode(&p)).Error; e != nil {
			t.Error(e)
		}
		r.wantToy(y, `5/5 installed {"said":"d"}`, "put [d], in force [d]")
		r.restart()
		r.wantToy(y, `5/5 installed {"said":"d"}`, "put [d], in force [d]")
		if y.runs != 1 {
			t.Errorf("%d runs", y.runs)
		}
	})
}

// A trial goes on after a restart, and its content with it.
func TestToyKindRestartsOnTrial(t *testing.T) {
	toyBubble(t, func(r *rig, y *toy) {
		r.start()
		r.desire(toyDoc(1, `{"words":["a"]}`))
		r.desire(try(toyDoc(2, `{"words":["b"]}`), "PT1M"))
		y.did()
		r.restart()
		r.wantToy(y, `1/2 trying {"said":"b"}`, "put [b], in force [b]")
		r.pass(time.Minute)
		r.wantToy(y, `1/2 rolledback unconfirmed {"said":"a"}`, "put [a], in force [a]")
	})
}

// The controller asks before it submits, and the node answers by its own rules.
func TestToyKindChecksAndAnswers(t *testing.T) {
	toyBubble(t, func(r *rig, y *toy) {
		r.start()
		paths := map[string]string{`{"words":["a"]}`: "", `{"words":["toolong"]}`: "/words/0", `{}`: "/words"}
		for body, want := range paths {
			p := wire.CheckParams{Kind: toyName, Version: "1.0.0", Body: []byte(body)}
			reply := r.request(wire.MethodCheck, wire.Encode(&p))
			result, err := wire.Decode[wire.CheckResult](reply.Result)
			if err != nil || result.OK != (want == "") || want != "" && result.Errors[0].Path != want {
				t.Errorf("%s: %s %v", body, reply.Result, err)
			}
		}
		r.desire(toyDoc(1, `{"words":["a"]}`))
		count := func() string { return string(r.request(toyCount, nil).Result) }
		if n := count(); n != "1" {
			t.Errorf("%s words", n)
		}
		if e := r.request(toySay, []byte(`{}`)).Error; e == nil || e.Path != "/params/word" {
			t.Errorf("no word: %v", e)
		}
		r.asked++
		order := &wire.Request{V: wire.Version, Unit: "u1", Node: "n1", ID: "once", Method: toySay,
			Params: []byte(`{"word":"b"}`), NotAfter: time.Now().Add(time.Minute)}
		if e := r.ask(order).Error; e != nil {
			t.Error(e)
		}
		got, events := r.toyReport(), r.eventTypes()
		if got != `1/1 installed {"said":"a b"}` || count() != "2" || !strings.Contains(events, "toy-said") {
			t.Errorf("%s, %s words, events %s", got, count(), events)
		}
		r.restart() // it does not know what it has answered, but that it has obeyed
		if e := r.ask(order).Error; e == nil || e.Code != wire.CodeStale || count() != "1" {
			t.Errorf("the order again: %v", e)
		}
	})
}

// A saved document that this agent cannot read, because another version has saved it, takes nothing away and is put
// in place by the version that can.
func TestToyKindThatCannotBeRead(t *testing.T) {
	toyBubble(t, func(r *rig, y *toy) {
		r.start()
		r.desire(toyDoc(1, `{"words":["a"]}`))
		y.did()
		y.format = "parole"
		r.restart()
		r.wantToy(y, `1/1 installed {"said":""}`, "put [], in force []")
		r.desire(toyDoc(2, `{"parole":["b"]}`))
		r.wantToy(y, `2/2 installed {"said":"b"}`, "put [b], in force [b]")
		y.format = "words"
		r.restart()
		r.desire(toyDoc(3, `{"words":["c"]}`))
		r.wantToy(y, `3/3 installed {"said":"c"}`, "put [c], in force [c]")
	})
}

// While the node does not know whom to believe, a document of every kind that it knows waits, however many others come.
func TestDocumentsOfAllKindsWaitForTheBeacon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, y := newRig(t), newToy()
		r.listen()
		newWorks(r)
		r.deps.Kinds = []func(kind.Host) kind.Kind{y.kind}
		r.start()
		for i := range 2 * maxHeldUnknown {
			d := doc(1, 1)
			d.Kind = wire.Kind(fmt.Sprint("strange", i))
			r.desire(d)
		}
		for _, d := range []*wire.Desired{doc(1, 1), healthDoc(1, `{"formatVersion":"1"}`), duty(1, "web@n1"),
			toyDoc(1, `{"words":["a"]}`)} {
			r.desire(d)
		}
		r.beacon(1, r.signer)
		for name, want := range map[wire.Kind]wire.State{
			wire.KindConfig: wire.StateInstalled, wire.KindHealth: wire.StateInstalled,
			wire.KindWorkloads: wire.StateInstalled, toyName: wire.StateInstalled, "strange0": wire.StateRejected,
		} {
			r.mu.Lock()
			all := r.reports[name]
			r.mu.Unlock()
			if len(all) == 0 || all[len(all)-1].Last == nil {
				t.Errorf("%s: the reports are %v", name, all)
				continue
			}
			last := all[len(all)-1].Last
			if last.State != want || name == "strange0" && !strings.Contains(last.Error.Message, `kind "strange0"`) {
				t.Errorf("%s: %s, %v", name, last.State, last.Error)
			}
		}
	})
}
