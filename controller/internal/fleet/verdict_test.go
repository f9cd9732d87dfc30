package fleet

import (
	"maps"
	"slices"
	"testing"
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/wire"
)

// A node can veto only by saying no: an answer to a check that is no verdict, in whatever way, is silence.
func TestVerdicts(t *testing.T) {
	refusals := map[wire.Code]bool{
		wire.CodeMalformed: true, wire.CodeUnknownField: true, wire.CodeDuplicate: true, wire.CodeMissing: true,
		wire.CodeBadValue: true, wire.CodeTooLarge: true, wire.CodeWrongVersion: true, wire.CodeInvalidArgument: true,
		wire.CodeAlreadyExists: true, wire.CodeWrongState: true, wire.CodeNotAllowed: true, wire.CodeApplyFailed: true,
	}
	for _, code := range append(slices.Sorted(maps.Keys(wire.Meanings)), "made-up-tomorrow") {
		want := "accepted, silent"
		if refusals[code] {
			want = "refused"
		}
		if got := verdictOn(t, &wire.Reply{Error: wire.New(code, "", "for a reason")}); got != want {
			t.Errorf("error %s: %s, want %s", code, got, want)
		}
	}
	for _, c := range []struct{ result, want string }{
		{`{"ok":true}`, "accepted"},
		{` { "ok" : true } `, "accepted"},
		{`{"ok":true,"errors":[]}`, "accepted"},
		{`{"ok":false}`, "refused"},
		{`{"ok":false,"errors":[{"code":"internal","message":"no"}]}`, "refused"},
		{`{"ok":false,"errors":[{"code":"made-up-tomorrow","message":"no"}]}`, "refused"},
		{`{"what":1}`, "accepted, silent, trouble"},
		{`{"ok":false,"what":1}`, "accepted, silent, trouble"},
		{`{}`, "accepted, silent, trouble"},
		{`{"ok":null}`, "accepted, silent, trouble"},
		{`{"ok":"false"}`, "accepted, silent, trouble"},
		{`{"errors":[{"code":"bad-value","message":"no"}]}`, "accepted, silent, trouble"},
		{`{"ok":false,"errors":[null]}`, "accepted, silent, trouble"},
		{`{"ok":false,"errors":"no"}`, "accepted, silent, trouble"},
		{`{"ok":false,"ok":false}`, "accepted, silent, trouble"},
		{`false`, "accepted, silent, trouble"},
		{`"no"`, "accepted, silent, trouble"},
		{`[]`, "accepted, silent, trouble"},
		{`null`, "accepted, silent, trouble"},
		{``, "accepted, silent, trouble"},
	} {
		if got := verdictOn(t, &wire.Reply{Result: []byte(c.result)}); got != c.want {
			t.Errorf("result %s: %s, want %s", c.result, got, c.want)
		}
	}
}

// verdictOn says what becomes of a submission when the only online node replies so to the check.
func verdictOn(t *testing.T, reply *wire.Reply) string {
	w := newWorld(t)
	w.step(origin, w.heard("n1", &wire.Live{V: wire.Version, Node: "n1", Boot: "b1", Session: 1, Up: true}))
	w.step(origin, w.info("n1", "b1", 1, "mainType"))
	_, effects := w.step(origin, w.submit("s1", "1.0.0"))
	reply.V, reply.Node, reply.ID = wire.Version, "n1", effects[0].(Ask).ID+"n1"
	records, effects := w.step(origin.Add(time.Second), Heard{Node: "n1", Reply: reply})
	for _, e := range effects {
		a, ok := e.(Answer)
		if !ok {
			continue
		}
		text := a.Result.State
		if len(a.Result.Checks.Silent) > 0 {
			text += ", silent"
		}
		if records[0].Type == record.Trouble {
			text += ", trouble"
		}
		return text
	}
	return "no answer"
}
