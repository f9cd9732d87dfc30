package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"tandem.internal/shared/event"
	"tandem.internal/shared/settings"
	"tandem.internal/shared/wire"
)

// --node-policy is a file with a JSON object, which the report of the node has; anything else stops the start.
func TestNodePolicy(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ text, want, refused string }{
		{"{\n \"org\": \"a\" }\n", `{"org":"a"}`, ""},
		{`[]`, "", "has no object"},
		{`{"a":`, "", "is no JSON"},
		{`{"a":"` + strings.Repeat("x", maxNodePolicy) + `"}`, "", "bytes"},
	} {
		path := filepath.Join(dir, "node.json")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Config{NodePolicy: path}.nodePolicy()
		e, usage := errors.AsType[*UsageError](err)
		switch {
		case c.refused == "" && (err != nil || string(got) != c.want):
			t.Errorf("%.40s: %s %v", c.text, got, err)
		case c.refused != "" && (!usage || e.Setting != "node-policy" || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%.40s: %v", c.text, err)
		}
	}
	if got, err := (Config{}).nodePolicy(); got != nil || err != nil {
		t.Errorf("%s %v", got, err)
	}
	if _, err := (Config{NodePolicy: filepath.Join(dir, "none")}).nodePolicy(); err == nil {
		t.Error("a file that is not there was taken")
	}
}

// The machine has a name of its own, which is not its machine ID; what is set on the node stays.
func TestMachine(t *testing.T) {
	set := map[string]string{"line": "4"}
	info := wire.NodeInfo{Attributes: set}
	describeMachine(&info)
	if info.Attributes["line"] != "4" || len(set) != 1 {
		t.Errorf("%v, %v", info.Attributes, set)
	}
	id, err := os.ReadFile("/etc/machine-id")
	if name := info.Attributes[wire.AttributeHardware]; err == nil &&
		(len(name) != 32 || strings.Contains(name, strings.TrimSpace(string(id)))) {
		t.Errorf("the machine is %q", name)
	}
}

// TestPolicyEvents: every conflict and every end is told of, however many there are at once, and whatever there was
// before (seed 003, Agent Upgrade Policy). What lies between is told at a rate; what is left out is counted.
func TestPolicyEvents(t *testing.T) {
	was := settings.Version
	t.Cleanup(func() { settings.Version = was })
	settings.Version = "1.0.0"
	bubble(t, func(r *rig) {
		r.start()
		r.beacon(1, r.signer)
		rev := uint64(0)
		policies := func(decider, upgrade string) {
			rev++
			all := fmt.Sprintf(`{"name":%q,"rev":%d,"agentUpgradePolicy":{%s,"start":"1999-11-24T09:00:00Z"}}`,
				decider, rev, upgrade)
			for i := range 12 {
				all += fmt.Sprintf(`,{"name":"loser-%d","rev":1,"decidedBy":%q,"conflict":true}`, i, decider)
			}
			d := with(doc(1, rev), `{"formatVersion":"1","policies":[`+all+`],"agents":[{"version":"9.0.0","hash":`+
				`"sha256:`+strings.Repeat("0a", 32)+`","size":1,"urls":["https://c/a"]}]}`)
			d.Kind = wire.KindPolicies
			r.desire(d)
		}
		seen, left := 0, uint64(0)
		told := func() map[wire.PolicyState][]string {
			names := map[wire.PolicyState][]string{}
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, e := range r.events[seen:] {
				if e.Type != event.Policy {
					continue
				}
				var d event.PolicyDetail
				if err := json.Unmarshal(e.Detail, &d); err != nil {
					t.Fatal(err)
				}
				left += d.Suppressed
				names[d.State] = append(names[d.State], d.Name+" "+d.DecidedBy)
			}
			seen = len(r.events)
			return names
		}
		const refused, there = `"atLeastVersion":"9.0.0"`, `"atLeastVersion":"0.0.1"`
		policies("first", refused)
		if got := told()[wire.PolicyConflict]; len(got) != 12 || got[11] != "loser-11 first" {
			t.Errorf("of 12 conflicts, told: %q", got)
		}
		for range 20 {
			policies("first", refused)
		}
		if got := told()[wire.PolicyPrecheckFailed]; len(got) < 7 || len(got) > 8 {
			t.Errorf("of 20 edits, told: %q", got)
		}
		policies("second", there)
		got := told()
		if all := got[wire.PolicyConflict]; len(all) != 12 || all[0] != "loser-0 second" {
			t.Errorf("of 12 conflicts with another one, told: %q", all)
		}
		if ends := got[wire.PolicyNoAction]; len(ends) != 1 || left != 13 {
			t.Errorf("the end: %q, %d were left out", ends, left)
		}
	})
}
