package filter

import (
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/roster"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

var now = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// facts are those of an offline press that failed with config 2.0.3.
func facts() *Facts {
	stamp := wire.DocRef{Epoch: 1, Rev: 7, Version: "2.1.0-rc.1"}
	n := &view.Node{
		Node: "press-12", Type: "Press", Since: now.Add(-2 * time.Hour), FirstSeen: now.Add(-9 * time.Hour),
		Info:   &wire.NodeInfo{AgentVersion: "1.4.0", Attributes: map[string]string{"Line": "4, left", "empty": ""}},
		Health: &view.Health{State: view.HealthCheck, Alerts: 1},
		Documents: map[wire.Kind]view.Document{wire.KindConfig: {
			Desired: &view.Desired{DocRef: stamp}, Running: &wire.DocRef{Version: "2.0.3"},
			Last: &wire.Attempt{Epoch: 1, Rev: 7, State: wire.StateRejected},
		}},
	}
	return &Facts{Node: n, Row: roster.Row(n, wire.KindConfig), Alerts: []string{"partition:services"}, Now: now}
}

// TestMatch: what each word says is true or false of a node.
func TestMatch(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "  ": true, "press": true, "PRESS-1": true, "-press": false, "pump": false, "p*-12": true,
		"s-?2":       true,
		"name:press": false, "name:press-*": true, "name:pump-*,press-1?": true, `name:"press-*"`: false,
		`"press-12"`:    true,
		`"press-*"`:     false,
		"state:offline": true, "state:rejected": true, "state:failed": true, "state:behind": true,
		"state:in-step":          false,
		"state:installed,failed": true, "-state:installed,failed": false, "state:inStep,rejected": true,
		"state:unwell": true, "state:revoked": false, "state:on-the-way": false,
		"class:offline": true, "class:failed": false, "class:onTheWay,offline": true,
		"type:press": true, "type:pump": false, `type:"press"`: true, "type:*": true, "-type:*": false,
		"version:2.0.3": true, "version:2.0.*": true, "version:<2.1": true, "version:<2": false,
		"version:>=2.0.3": true,
		"version:>2.0.3":  false, "version:<=2.0": false, "version:=2.0.3": true, "version:=2": false,
		"desired:<2.1": true, "desired:>2.1.0-beta": true, "agent:>1.4": false, "agent:1.4.0": true,
		"online:no": true, "online:yes": false, "online:yes,no": true,
		"offline-for:2h": true, "offline-for:121m": false, "-offline-for:1d": true,
		"health:check": true, "health:ok": false, "health:ok,check": true,
		"alert:partition:*": true, "alert:*": true, "alert:cpu": false, `alert:"partition:services"`: true,
		`label.line:"4, left"`: true, "label.LINE:4*": true, "label.line:4": false, "label.other:*": false,
		`label.empty:""`: true, "label.empty:*": true,
		"press state:offline -label.line:5": true, "press state:offline label.line:5": false,
	} {
		f, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %s", text, err)
			continue
		}
		if f.Match(facts()) != want {
			t.Errorf("%q is %v", text, !want)
		}
		if f.String() != text || f.All() != (strings.TrimSpace(text) == "") {
			t.Errorf("%q is kept as %q, all: %v", text, f.String(), f.All())
		}
	}
	if f, err := Parse(`health:unknown type:"" -type:* -alert:* -label.a:* -agent:*`); err != nil ||
		!f.Match(&Facts{Node: &view.Node{Node: "a"}}) {
		t.Errorf("a node of which nothing is known: %v", err)
	}
}

// TestMistakes: what is no filter is refused with the place, and with what was meant.
func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"tpye:press": `character 1: there is no "tpye"; did you mean type?`,
		"ü colour:x": `character 3: there is no "colour"; known are name, state, class, type, version, desired, ` +
			`agent, online, offline-for, health, alert, label.NAME; a name with a colon goes in quotes`,
		"a -state:ofline": `character 10: there is no state "ofline"; did you mean offline?`,
		"state:":          `character 7: a value is missing; "" is the empty one`,
		"state:a,":        `character 7: there is no state "a"`,
		"online:maybe":    `character 8: there is no online "maybe"; known are yes, no`,
		"version:<x":      `character 9: "x" is no version such as 2, 2.1 or 2.1.0-rc.1, which < needs`,
		"offline-for:-1h": `character 13: "-1h" is no length of time`,
		`name:"a`:         "character 6: the quote is not closed",
		`a"b"`:            "character 2: a quote within a word; put the whole value in quotes",
		`"a"b`:            "character 4: a space is missing between two words",
		"-":               "character 2: a word is missing",
		":x":              `character 1: there is no ""`,
		"label.:x":        "character 1: the name of the label is missing",
		"a, b":            "",
	} {
		_, err := Parse(text)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %s", text, err)
		case want != "" && (err == nil || !strings.HasPrefix(err.Message, "the filter, "+want)):
			t.Errorf("%s: %v, want %s", text, err, want)
		case err != nil && (err.Code != wire.CodeInvalidArgument || err.Column == 0):
			t.Errorf("%s: %+v", text, err)
		}
	}
	for text, want := range map[string]string{
		strings.Repeat("a", MaxLength+1): "a filter has at most 256 bytes of UTF-8", "\xff": "a filter has at most",
		strings.Repeat("a ", MaxWords+1):                "the filter, character 66: a filter has at most 32 words",
		"name:" + strings.Repeat("a,", MaxValues) + "a": "the filter, character 134: a word has at most 64 values",
	} {
		if _, err := Parse(text); err == nil || !strings.HasPrefix(err.Message, want) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

// FuzzFilter: no text breaks the parser; what it takes can be asked of any node, and what it does not has a place.
func FuzzFilter(f *testing.F) {
	for _, text := range []string{`state:offline -version:<2.1 "a b":c label.x:"\"",y*?`, "name:a*b*c?", `"`,
		"-:", "a,b:c"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Parse(text)
		if err != nil {
			if err.Column < 0 || err.Column > len(text)+1 || err.Message == "" {
				t.Errorf("%q: %+v", text, err)
			}
			return
		}
		got.Match(facts())
		got.Match(&Facts{Node: &view.Node{}})
		if again, err := Parse(got.String()); err != nil || again.Match(facts()) != got.Match(facts()) {
			t.Errorf("%q is not the same when it is read again: %v", text, err)
		}
		if not, err := Parse(`-name:"no such node" ` + text); err == nil && not.Match(facts()) != got.Match(facts()) {
			t.Errorf("%q changes with a word that is true", text)
		}
	})
}

// TestGlobIsBounded: a pattern of many stars does not take long for a long name.
func TestGlobIsBounded(t *testing.T) {
	pattern, text := strings.Repeat("*a", 400)+"b", strings.Repeat("a", 4000)
	began := time.Now()
	if glob(pattern, text) || time.Since(began) > time.Second {
		t.Errorf("%s", time.Since(began))
	}
}

// TestRevokedIsNothingElse: a revoked node is in no other state, and one that never came is not offline for long.
func TestRevokedIsNothingElse(t *testing.T) {
	others, err := Parse("state:offline,in-step,behind,failed,unwell")
	if err != nil {
		t.Fatal(err)
	}
	for _, inSync := range []bool{false, true} {
		x := facts()
		x.Node.InSync, x.Node.Identity = inSync, &view.Identity{State: "revoked"}
		if x.Row = roster.Row(x.Node, wire.KindConfig); others.Match(x) {
			t.Errorf("in sync: %v, a revoked node is in another state, too", inSync)
		}
	}
	long, err := Parse("offline-for:1h")
	if err != nil || long.Match(&Facts{Node: &view.Node{Node: "a"}, Now: now}) {
		t.Errorf("a node that never came is offline for long: %v", err)
	}
}
