package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

func wantCode(t *testing.T, what string, a Answer, code wire.Code) {
	t.Helper()
	if a.Err == nil && code == "" || a.Err != nil && wire.AsError(a.Err).Code == code {
		return
	}
	t.Errorf("%s: %v, want code %q", what, a.Err, code)
}

// A checkpoint from before there were settings, maintenance, orders and alerts.
func TestOldCheckpoint(t *testing.T) {
	const old = `{"seq":3,"config":{"state":"absent"},"docs":[],"nodes":[{"name":"n1",` +
		`"firstSeen":"2026-01-01T00:00:00Z","up":true,"since":"2026-01-01T00:00:00Z","boot":"b","session":1,` +
		`"info":{"type":"mainType","os":"linux","arch":"arm64","cpus":2,"ram":1073741824,"agentVersion":"1.0.0"},` +
		`"kinds":{"info":{"boot":"b","seq":1,"at":"2026-01-01T00:00:00Z"}}}]}`
	w := newWorld(t)
	f, err := Restored(w.opt, []byte(old))
	if err != nil {
		t.Fatal(err)
	}
	var out Out
	for _, ev := range []Event{
		setHealth(view.Scope{Types: []string{"mainType"}}, &wire.HealthSettings{FormatVersion: "1"}),
		setHealth(view.Scope{Nodes: []string{"n1"}},
			&wire.HealthSettings{FormatVersion: "1", Reset: wire.SpanOf(time.Hour)}),
		Order{Node: "n1", Method: wire.MethodReboot, Params: []byte(`{"reason":"x"}`)},
		Maintain{For: time.Hour, Reason: "x"},
	} {
		out.Reset()
		f.Step(origin, ev, &out)
		wantCode(t, fmt.Sprintf("%T", ev), answerOrNone(out.Effects), "")
	}
	if k := f.Lookup("n1").Kinds[wire.KindHealth]; k == nil || k.Desired == nil || len(f.questions.orders) != 1 ||
		f.MaintenanceView() == nil {
		t.Errorf("%+v", k)
	}
}

// answerOrNone is for orders, which are answered later.
func answerOrNone(effects []Effect) (a Answer) {
	for _, e := range effects {
		if x, ok := e.(Answer); ok {
			a = x
		}
	}
	return a
}

// A change that the journal would not take is refused alone, and is no record; that it was refused is one.
func TestChangeTooLarge(t *testing.T) {
	w := newWorld(t)
	of := func(size int) Event {
		return Change{Ticket: 1, Source: record.KindWanted, Submitted: &record.Verdict{ID: "a"},
			Data: record.WantedData{Document: []byte(`"` + strings.Repeat("x", size) + `"`)}}
	}
	records, effects := w.step(origin, of(record.MaxData))
	wantCode(t, "too large", answerOrNone(effects), wire.CodeTooLarge)
	if len(records) != 1 || records[0].Type != record.Refused || len(records[0].Data) > 1<<10 ||
		w.live.Content(record.KindWanted) != nil {
		t.Errorf("%d records", len(records))
	}
	records, effects = w.step(origin, of(record.MaxData-100))
	wantCode(t, "just fits", answerOrNone(effects), "")
	if len(records) != 1 || records[0].Type != record.Settings {
		t.Errorf("%d records", len(records))
	}
}

// What operators and nodes can make the state grow by is bounded.
func TestHealthIsBounded(t *testing.T) {
	w := newWorld(t)
	now := origin
	do := func(ev Event) Answer {
		_, effects := w.step(now, ev)
		return answerOrNone(effects)
	}
	names := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("x%d", i))
		}
		return all
	}
	settings := &wire.HealthSettings{FormatVersion: "1"}
	wantCode(t, "too many at once", do(setHealth(view.Scope{Nodes: names(view.MaxScope + 1)}, settings)),
		wire.CodeTooLarge)
	for i := range 20_000 / view.MaxScope {
		all := names(view.MaxScope)
		for k := range all {
			all[k] = fmt.Sprintf("%s-%d", all[k], i)
		}
		wantCode(t, "many", do(setHealth(view.Scope{Nodes: all}, settings)), "")
	}
	wantCode(t, "one more", do(setHealth(view.Scope{Nodes: []string{"y"}}, settings)), wire.CodeTooLarge)
	wantCode(t, "nobody", do(setHealth(view.Scope{}, settings)), wire.CodeMissing)
	wantCode(t, "everybody twice", do(setHealth(view.Scope{All: true, Types: []string{"t"}}, settings)),
		wire.CodeInvalidArgument)

	do(w.heard("n1", &wire.Live{V: wire.Version, Node: "n1", Boot: "b", Session: 1, Up: true}))
	order := Order{Node: "n1", Method: wire.MethodReboot, Params: []byte(`{"reason":"x"}`)}
	for range maxOrders {
		wantCode(t, "an order", do(order), "")
	}
	wantCode(t, "one order more", do(order), wire.CodeUnavailable)
	now = now.Add(time.Minute)
	do(Tick{})
	wantCode(t, "when the others were given up", do(order), "")
	if len(w.live.questions.tickets) != 1 {
		t.Errorf("%d tickets are kept", len(w.live.questions.tickets))
	}

	for i := range uint64(maxAlerts + 10) {
		now = now.Add(2 * time.Second)
		detail := fmt.Sprintf(`{"tag":"t","parameter":"p%d","value":1,"state":"raise","since":"2026-01-01T00:00:00Z"}`,
			i)
		do(w.heard("n1", &wire.Event{V: wire.Version, Node: "n1", Boot: "b", Seq: i + 1, At: origin, Type: "alert",
			Detail: []byte(detail)}))
	}
	if raised := w.live.Lookup("n1").Alerts; len(raised) != maxAlerts || raised[0].Parameter != "p10" {
		t.Errorf("%d alerts are kept, the oldest is %s", len(raised), raised[0].Parameter)
	}
	w.check()
}
