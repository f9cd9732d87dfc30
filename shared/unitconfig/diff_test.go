package unitconfig

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestDiff(t *testing.T) {
	edit := func(change func(uc *UnitConfig)) *UnitConfig {
		uc := parsed(t, "fleet.json")
		change(uc)
		return uc
	}
	for _, tt := range []struct {
		name   string
		change func(uc *UnitConfig)
		want   string // entry|pointer|before|after, a line each
	}{
		{"nothing", func(*UnitConfig) {}, ""},
		{"version", func(uc *UnitConfig) { uc.Version = "4.0.0" }, `|/version|"3.1.0-rc.1"|"4.0.0"`},
		{"threshold", func(uc *UnitConfig) { uc.Nodes[1].AlertRules.RAM.MaxThreshold = 0.8 },
			`type camera|/nodes/1/alertRules/ram/maxThreshold|0.75|0.8`},
		{"order of entries", func(uc *UnitConfig) { uc.Nodes[0], uc.Nodes[1] = uc.Nodes[1], uc.Nodes[0] }, ""},
		{"order of partitions", func(uc *UnitConfig) {
			p := uc.Nodes[1].AlertRules.Partitions
			p[0], p[1] = p[1], p[0]
			p[0].MaxThreshold = 0.7
		}, `type camera|/nodes/1/alertRules/partitions/0/maxThreshold|0.5|0.7`},
		{"labels", func(uc *UnitConfig) { uc.Nodes[0].Labels = []string{"new", "rear"} },
			`node cam-7|/nodes/0/labels/0||"new"`},
		{"label removed", func(uc *UnitConfig) { uc.Nodes[0].Labels = nil }, `node cam-7|/nodes/0/labels/0|"rear"|`},
		{"entry removed, others move", func(uc *UnitConfig) { uc.Nodes = uc.Nodes[1:]; uc.Nodes[2].Priority = 5 },
			"node gw|/nodes/2/priority||5\n" +
				"node cam-7|/nodes/0/labels/0|\"rear\"|\n" +
				"node cam-7|/nodes/0/node/codename|\"cam-7\"|\n" +
				"node cam-7|/nodes/0/node/title|\"Kamera hinten – links\"|\n" +
				"node cam-7|/nodes/0/nodeGroupSubject/codename|\"camera\"|\n" +
				"node cam-7|/nodes/0/priority|9|"},
		{"entry added", func(uc *UnitConfig) {
			uc.Nodes = append(uc.Nodes, NodeEntry{NodeGroupSubject: Identity{Codename: "gateway"}, Priority: 2})
		}, "type gateway|/nodes/4/nodeGroupSubject/codename||\"gateway\"\ntype gateway|/nodes/4/priority||2"},
		{"rule removed", func(uc *UnitConfig) { uc.Nodes[1].AlertRules.RAM = nil },
			"type camera|/nodes/1/alertRules/ram/maxThreshold|0.75|\n" +
				"type camera|/nodes/1/alertRules/ram/minThreshold|0.5|\n" +
				"type camera|/nodes/1/alertRules/ram/minTimeout|\"PT0S\"|"},
		{"ratios appear", func(uc *UnitConfig) { uc.Nodes[3].ResourceRatios = &EntryRatios{} },
			"node gw|/nodes/3/resourceRatios||{}"},
	} {
		var got []string
		for c := range Diff(parsed(t, "fleet.json"), edit(tt.change)) {
			got = append(got, fmt.Sprintf("%s|%s|%s|%s", c.Entry, c.Pointer, string(c.Before), string(c.After)))
		}
		if g := strings.Join(got, "\n"); g != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, g, tt.want)
		}
	}
}

// A difference is empty exactly if every node gets the same content; turned round it has the same
// leaves with before and after exchanged.
func TestDiffProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := configs().Draw(t, "a"), configs().Draw(t, "b")
		if d := slices.Collect(Diff(a, a)); len(d) != 0 {
			t.Fatalf("differs from itself: %+v", d)
		}
		count := func(cs []Change) map[string]int {
			m := make(map[string]int)
			for _, c := range cs {
				m[fmt.Sprintf("%s|%s|%s", c.Entry, string(c.Before), string(c.After))]++
			}
			return m
		}
		forth, back := slices.Collect(Diff(a, b)), slices.Collect(Diff(b, a))
		for i := range back {
			back[i].Before, back[i].After = back[i].After, back[i].Before
		}
		if f, k := fmt.Sprint(count(forth)), fmt.Sprint(count(back)); f != k {
			t.Fatalf("forth %s\nback %s", f, k)
		}
	})
}
