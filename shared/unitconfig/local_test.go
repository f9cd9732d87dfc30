package unitconfig

import (
	"strings"
	"testing"

	"tandem.internal/shared/wire"
)

func TestLocalRules(t *testing.T) {
	c, _ := Resolve(parsed(t, "seed000.json"), "node-1", "mainType")
	for _, tt := range []struct {
		name  string
		rules LocalRules
		want  string // code pointer, joined
		text  string
	}{
		{"none", LocalRules{}, "", ""},
		{"met", LocalRules{ptr[uint32](1), []string{"mainNode"}, []string{"services", "state"}}, "", ""},
		{"priority", LocalRules{MaxPriority: ptr[uint32](0)}, "not-allowed /priority", "priority 1 is above this " +
			"node's highest, 0"},
		{"label", LocalRules{AllowedLabels: []string{"mainnode"}}, "not-allowed /labels/0",
			`allows mainnode; did you mean "mainnode"?`},
		{"no labels", LocalRules{AllowedLabels: []string{}}, "not-allowed /labels/0", "allows none"},
		{"partition", LocalRules{Partitions: []string{"service", "state"}}, "not-found /alertRules/partitions/0/name",
			`has service, state; did you mean "service"?`},
		{"no partitions", LocalRules{Partitions: []string{}}, "not-found /alertRules/partitions/0/name", "has none"},
		{"all", LocalRules{ptr[uint32](0), []string{}, []string{}}, "not-found /alertRules/partitions/0/name, " +
			"not-allowed /labels/0, not-allowed /priority", ""},
	} {
		ps := tt.rules.Check(&c)
		var got []string
		for _, p := range ps {
			got = append(got, string(p.Code)+" "+p.Path)
		}
		if g := strings.Join(got, ", "); g != tt.want || !strings.Contains(ps.Error(), tt.text) {
			t.Errorf("%s: %s (%s)", tt.name, g, ps.Error())
		}
		if tt.want == "" && ps != nil {
			t.Errorf("%s: not nil", tt.name)
		}
	}
	if (LocalRules{MaxPriority: ptr[uint32](0)}).Check(&c).First().Code != wire.CodeNotAllowed {
		t.Error("code")
	}
}
