package distribute

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"pgregory.net/rapid"

	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// A submission that cannot be judged is answered under its ID where there is one to be found, and is in
// the journal: once in a while, since garbage must not fill it.
func TestInboxTurnsAway(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		doc := string(faultyDoc("1.0.0"))
		for _, c := range []struct {
			what, in string
			id       string
			code     wire.Code
		}{
			{"config", `garbage`, "unknown", wire.CodeMalformed},
			{"config", ``, "", ""}, // a retained one was taken away
			{"config", `[]`, "unknown", wire.CodeBadValue},
			{"config", `{"v":1,"id":7,"from":"c","document":{}}`, "unknown", wire.CodeBadValue},
			{"config", `{"v":1,"id":"a\u0000b","from":"c","document":{}}`, "unknown", wire.CodeBadValue},
			{"config", `{"v":1,"id":"` + strings.Repeat("x", 257) + `","from":"c","document":{}}`, "unknown",
				wire.CodeTooLarge},
			{"config", `{"v":2,"id":"other","from":"c","document":{}}`, "other", wire.CodeWrongVersion},
			{"config", `{"v":1,"id":"twice","from":"c","document":{"a":1,"a":2}}`, "twice", wire.CodeDuplicate},
			{"config", `{"v":1,"document":{"a":1,"a":2},"id":"after","from":"c"}`, "after", wire.CodeDuplicate},
			{"config", `{"v":1,"id":"deep","from":"c","document":` + strings.Repeat("[", 100_000) + `}`, "deep",
				wire.CodeMalformed},
			{"config", `{"v":1,"id":"cut","from":"c","document":{"formatV`, "cut", wire.CodeMalformed},
			{"config", `{"v":1,"id":"mode","from":"c","mode":"try","document":` + doc + `}`, "mode", wire.CodeBadValue},
			{"config", `{"v":1,"id":"year","from":"c","mode":"try","confirmWithin":"P1Y","document":` + doc + `}`,
				"year", wire.CodeInvalidArgument},
			{"other", `{"v":1,"id":"other","from":"c","document":` + doc + `}`, "other", wire.CodeNotSupported},
		} {
			to := topic.ForOutbox(faultyUnit, c.what)
			before := r.broker.published(to)
			r.deliver(topic.ForInbox(faultyUnit, c.what), []byte(c.in))
			synctest.Wait()
			if c.id == "" {
				if r.broker.published(to) != before {
					t.Errorf("%q was answered", c.in)
				}
				continue
			}
			payload, _ := r.broker.Retained(to)
			a, err := wire.Decode[wire.Answer](payload)
			if err != nil || r.broker.published(to) != before+1 {
				t.Fatalf("%.80q: %s %v", c.in, payload, err)
			}
			if a.ID != c.id || a.State != "refused" || a.Error == nil || a.Error.Code != c.code {
				t.Errorf("%.80q: %s", c.in, payload)
			}
		}
		got := r.records(record.Trouble)
		if len(got) != 1 || !strings.Contains(string(got[0].Data), `"topic":"`+topic.ForInbox(faultyUnit, "config")+
			`"`) || got[0].Node != "" {
			t.Errorf("troubles %+v", got)
		}
		if got := r.records(record.Accepted, record.Refused); len(got) != 0 {
			t.Errorf("verdicts %+v", got)
		}
	})
}

// What has failed is taken from the cloud side when it insists, in a submission of its own.
func TestInboxForce(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		submit := func(id string, mode wire.Mode, force bool) string {
			s := wire.Submission{V: wire.Version, ID: id, From: "cloud", Mode: mode, Force: force,
				Document: faultyDoc("1.0.0")}
			if mode == wire.ModeTry {
				s.ConfirmWithin = "PT10S"
			}
			r.deliver(topic.ForInbox(faultyUnit, "config"), wire.Encode(&s))
			time.Sleep(time.Minute)
			synctest.Wait()
			payload, _ := r.broker.Retained(topic.ForOutbox(faultyUnit, "config"))
			a, err := wire.Decode[wire.Answer](payload)
			if err != nil || a.ID != id {
				t.Fatalf("%s: %s, %v", id, payload, err)
			}
			if a.Error != nil {
				return string(a.Error.Code)
			}
			return a.State
		}
		for _, c := range []struct {
			id    string
			mode  wire.Mode
			force bool
			want  string
		}{
			{"a", wire.ModeTry, false, "accepted"}, // and nobody confirms
			{"b", wire.ModeApply, false, string(wire.CodeQuarantined)},
			{"b", wire.ModeApply, true, "accepted"},
			{"b", wire.ModeApply, false, string(wire.CodeQuarantined)}, // delivered again: as answered
		} {
			if got := submit(c.id, c.mode, c.force); got != c.want {
				t.Errorf("%+v: %s", c, got)
			}
		}
		for _, verdict := range r.records(record.Accepted, record.Refused) {
			if verdict.Who != "unsigned/cloud" { // a claim is shown as one: no user's name, and no submitter's
				t.Errorf("the journal has %+v", verdict)
			}
		}
	})
}

// While the inbox is off, whatever comes there is neither judged nor journaled nor answered, and the log
// says so once.
func TestInboxIsOff(t *testing.T) {
	lines, log := observer.New(zap.InfoLevel)
	off := func(c *Config) { c.Inbox, c.Log = false, zap.New(lines) }
	withFaults(t, off, func(t *testing.T, r *faulty) {
		before := len(r.records())
		good := wire.Submission{V: wire.Version, ID: "s", From: "cloud", Document: faultyDoc("1.0.0")}
		for _, what := range []string{"config", "workloads", "other"} {
			for _, payload := range [][]byte{wire.Encode(&good), []byte("garbage"), nil} {
				r.deliver(topic.ForInbox(faultyUnit, what), payload)
				synctest.Wait()
			}
			if n := r.broker.published(topic.ForOutbox(faultyUnit, what)); n != 0 {
				t.Errorf("inbox/%s was answered %d times", what, n)
			}
		}
		if all := r.records(); len(all) != before {
			t.Errorf("the journal has %+v", all[before:])
		}
		if n := log.FilterMessageSnippet("--inbox").Len(); n != 1 {
			t.Errorf("the log says so %d times: %+v", n, log.All())
		}
	})
}

// Whatever comes, its ID is one that an answer can carry.
func TestIDOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.OneOf(
			rapid.SliceOf(rapid.Byte()),
			rapid.Map(rapid.SliceOf(rapid.SampledFrom([]string{"{", "}", "[", "]", `"id"`, `"x"`, `"a\u0007"`,
				`"\ud800"`, ":", ",", "1", "null", " ", "\xff"})),
				func(tokens []string) []byte { return []byte(strings.Join(tokens, "")) }),
		).Draw(t, "payload")
		a := wire.Answer{V: wire.Version, ID: idOf(in), State: "refused", Error: wire.New(wire.CodeMalformed, "", "x")}
		if _, err := wire.Decode[wire.Answer](wire.Encode(&a)); err != nil {
			t.Fatalf("%q: ID %q: %v", in, a.ID, err)
		}
	})
}

// A kind that nobody knows, and none at all, is refused by its name: it is never taken for a unit
// configuration.
func TestSubmissionOfAnUnknownKindIsRefusedByName(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		for _, kind := range []wire.Kind{"", "weather", wire.KindInfo, wire.KindPolicies} {
			sub := view.Submission{Kind: kind, Document: faultyDoc("1.0.0"), Offline: true}
			_, err := r.core.Submit(t.Context(), sub)
			w := wire.AsError(err)
			if err == nil || w.Code != wire.CodeNotSupported || !strings.Contains(w.Message, fmt.Sprintf("%q", kind)) {
				t.Errorf("kind %q: %v", kind, err)
			}
		}
		r.whole()
	})
}
