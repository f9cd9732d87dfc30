package fleet

import (
	"fmt"
	"testing"
	"time"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// A checkpoint from before there were workloads.
func TestOldCheckpointTakesWorkloads(t *testing.T) {
	const old = `{"seq":3,"config":{"state":"absent"},"docs":[],` +
		`"nodes":[{"name":"n1","firstSeen":"2026-01-01T00:00:00Z","up":true,"since":"2026-01-01T00:00:00Z",` +
		`"boot":"b","session":1,"info":{"type":"mainType","os":"linux","arch":"arm64","cpus":2,` +
		`"ram":1073741824,"agentVersion":"1.0.0"},"kinds":{"info":{"boot":"b","seq":1,"at":"2026-01-01T00:00:00Z"}}}]}`
	w := newWorld(t)
	f, err := Restored(w.opt, []byte(old))
	if err != nil {
		t.Fatal(err)
	}
	s := w.set("w1", "web@n1:a")
	s.Sub.Offline = true
	var out Out
	f.Step(origin, s, &out)
	a := answerOrNone(out.Effects)
	wantCode(t, "a set", a, "")
	if a.Result.Version != "1.0.0" || a.Result.Issued != 1 || f.Lookup("n1").Kinds[wire.KindWorkloads].Desired == nil {
		t.Errorf("%+v", a.Result)
	}
}

// Many slots and many unknown nodes do not make a verdict grow without bound, nor the list of what is
// missing.
func TestWorkloadsAreBounded(t *testing.T) {
	w := newWorld(t)
	var entries []string
	for i := range 500 {
		entries = append(entries, fmt.Sprintf("web@x%03d:a", i))
	}
	do := func(s Submit) view.Result {
		s.Sub.Offline = true
		_, effects := w.step(origin, s)
		return answerOrNone(effects).Result
	}
	if r := do(w.set("w1", entries...)); len(r.Placed.Unknown) != kind.MaxNamed || r.Placed.Omitted != 300 {
		t.Errorf("%d unknown, %d omitted", len(r.Placed.Unknown), r.Placed.Omitted)
	}
	s := w.live.Status(wire.KindWorkloads)
	if len(s.Slots.Missing) != 100 || s.Slots.Omitted != 400 || len(s.Unknown) != kind.MaxNamed {
		t.Errorf("%d missing, %d omitted, %d unknown", len(s.Slots.Missing), s.Slots.Omitted, len(s.Unknown))
	}
	if r := do(w.set("w2")); len(r.Placed.Stops) != kind.MaxNamed || r.Placed.Omitted != 300 || r.Version != "1.0.1" {
		t.Errorf("%d stop, %d omitted", len(r.Placed.Stops), r.Placed.Omitted)
	}
	w.step(origin, w.heard("n1", &wire.Live{V: wire.Version, Node: "n1", Boot: "b", Session: 1, Up: true}))
	query := func(who string) error {
		_, effects := w.step(origin, Query{Ticket: 9, Node: "n1", Method: wire.MethodLogs, Who: who, What: "read"})
		return answerOrNone(effects).Err
	}
	for i := range maxQueries {
		if err := query(fmt.Sprint("who", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := query("one more"); wire.AsError(err).Code != wire.CodeUnavailable {
		t.Errorf("%v", err)
	}
	w.step(origin.Add(queryLife), Tick{})
	if len(w.live.questions.queries) != 0 {
		t.Errorf("%d questions are kept", len(w.live.questions.queries))
	}
	for i := range maxNoted + 10 {
		ask := Query{Node: "n1", Method: wire.MethodLogs, Who: fmt.Sprint("who", i), What: "read"}
		w.step(origin.Add(time.Duration(i)*queryLife), ask)
		w.step(origin.Add(time.Duration(i+1)*queryLife), Tick{})
	}
	if len(w.live.questions.noted) > maxNoted {
		t.Errorf("%d people are remembered", len(w.live.questions.noted))
	}
	w.check()
}
