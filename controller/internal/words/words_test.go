package words

import (
	"slices"
	"strings"
	"testing"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/event"
)

// told is an entry of a type with its text and level.
func told(t string, data []byte) view.Entry { return toldKind(t, "", data) }

func toldKind(t, of string, data []byte) view.Entry {
	e := view.Entry{Type: t, Kind: of, Data: data}
	Tell(&e, kind.Set{})
	return e
}

// TestLevels: what went as it should is for information, what failed is an error.
func TestLevels(t *testing.T) {
	report := `{"v":1,"node":"n1","boot":"b","kind":"config","seq":1,"last":{"epoch":1,"rev":1,"version":"1.0.0",` +
		`"state":`
	event := func(more string) string { return `{"v":1,"node":"n1","boot":"b","seq":1` + more + `}` }
	for _, c := range []struct {
		typ, kind, data string
		want            view.Level
	}{
		{"accepted", "config", `{"version":"1.0.0"}`, view.LevelInfo},
		{"refused", "config", `{"version":"1.0.0","error":{"code":"stale-version","message":"m"}}`, view.LevelError},
		{"live", "", `{"v":1,"node":"n1","boot":"b","session":1,"up":true}`, view.LevelInfo},
		{"live", "", `{"v":1,"node":"n1","boot":"b","session":1,"up":false}`, view.LevelWarning},
		{"report", "", report + `"installed"}}`, view.LevelInfo},
		{"report", "", report + `"rolledback"}}`, view.LevelError},
		{"report", "", report + `"failed","error":{"code":"apply-failed","message":"m"}}}`, view.LevelError},
		{"reply", "", `{"id":"1","method":"reboot"}`, view.LevelInfo},
		{"reply", "", `{"id":"1","method":"reboot","error":{"code":"no-answer","message":"m"}}`, view.LevelError},
		{"opened", "", `{"version":"1","epoch":1}`, view.LevelInfo},
		{"opened", "", `{"version":"1","epoch":2,"reason":"r"}`, view.LevelWarning},
		{"opened", "", `{"version":"1","epoch":2,"lost":"EOF"}`, view.LevelWarning},
		{"opened", "", `{"version":"1","epoch":2,"lost":"the controller stops"}`, view.LevelInfo},
		{"keys", "", `{"did":"retired","key":"k","forced":true}`, view.LevelWarning},
		{"event", "boot", event(`,"detail":{"reason":"power"}`), view.LevelInfo},
		{"event", "alert", event(`,"detail":{"state":"raise","parameter":"cpu"}`), view.LevelWarning},
		{"event", "alert", event(`,"detail":{"state":"fall","parameter":"cpu"}`), view.LevelInfo},
		{"event", "watchdog", event(`,"detail":{"name":"x","verdict":"hung"}`), view.LevelError},
		{"event", "watchdog", event(`,"detail":{"name":"x","verdict":"back"}`), view.LevelInfo},
		{"event", "check-failed", event(`,"detail":{"check":"disk"}`), view.LevelWarning},
		{"event", "of-tomorrow", event(``), view.LevelInfo},
		{"event", "of-tomorrow", event(`,"error":{"code":"c","message":"m"}`), view.LevelWarning},
		{"rollout", "", `{"id":"r1","settled":{"nodes":[{"node":"n1","status":"failed"}]}}`, view.LevelError},
		{"rollout", "", `{"id":"r1","settled":{"nodes":[{"node":"n1","status":"passed"}]}}`, view.LevelInfo},
		{"note", "", `{"text":"t"}`, view.LevelInfo},
		{"live", "", `what is no JSON`, view.LevelWarning},
	} {
		if got := toldKind(c.typ, c.kind, []byte(c.data)).Level; got != c.want {
			t.Errorf("%s %s %s is %s, want %s", c.typ, c.kind, c.data, got, c.want)
		}
	}
}

// TestHighestLevels: no entry of a type has more than its highest level, whatever its data are.
func TestHighestLevels(t *testing.T) {
	order := []view.Level{view.LevelInfo, view.LevelWarning, view.LevelError}
	for _, typ := range record.Types() {
		for _, data := range []string{``, `7`, `{}`, `{"error":{"code":"x","message":"m"},"forced":true}`,
			`{"reason":"r"}`, `{"last":{"state":"failed"}}`, `{"id":"r","paused":{"cause":"failed"}}`} {
			e := view.Entry{Type: typ.String(), Kind: event.TrialRolledBack, Data: []byte(data)}
			if got := Level(&e); slices.Index(order, got) > slices.Index(order, Highest(typ)) {
				t.Errorf("%s %s is %s, and %s at most", typ, data, got, Highest(typ))
			}
		}
	}
}

// TestEventLevelsAreOfEvents: the list of levels names events that there are.
func TestEventLevelsAreOfEvents(t *testing.T) {
	known := strings.Join(event.Types(), " ")
	for name := range eventLevels {
		if !strings.Contains(known, name) {
			t.Errorf("there is no event %s", name)
		}
	}
}

// TestInstantsAreUTC: what a text says of times does not depend on where it is read.
func TestInstantsAreUTC(t *testing.T) {
	e := told("unit-maintenance", []byte(`{"until":"2026-03-04T05:06:07.8+02:00","reason":"new router"}`))
	if e.Text != "until 2026-03-04T03:06:07Z (new router)" {
		t.Error(e.Text)
	}
}

// TestTextIsOneLine: what nodes send is shown as harmless text, and not longer than Most.
func TestTextIsOneLine(t *testing.T) {
	e := told("note", []byte(`{"text":"a\nb\u001b[31m`+strings.Repeat("c", 1000)+`"}`))
	if want := "a b\ufffd[31m"; !strings.HasPrefix(e.Text, want) || len([]rune(e.Text)) != Most {
		t.Errorf("%d characters: %.40q", len([]rune(e.Text)), e.Text)
	}
	if e := told("of-tomorrow", []byte("{\"a\":\n1}")); e.Text != `{"a": 1}` {
		t.Error(e.Text)
	}
}
