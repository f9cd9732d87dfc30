package policy

import (
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

func TestRank(t *testing.T) {
	to := func(version string) *Policy {
		return policyOf(t, fmt.Sprintf(`"enabled":true,"agentUpgradePolicy":{"atLeastVersion":%q}`, version))
	}
	off, auto := to("1.0.0"), policyOf(t, `"enabled":true,"agentUpgradePolicy":{"autoUpgrade":true,"duration":5}`)
	off.Enabled = false
	auto2 := policyOf(t, `"enabled":true,"agentUpgradePolicy":{"autoUpgrade":true}`)
	none := policyOf(t, `"enabled":true`)
	const intent = IntentAgentUpgrade
	for _, c := range []struct {
		name string
		in   []Candidate
		want []Place
	}{
		{"none", nil, nil},
		{"one", []Candidate{{"a", 5, to("1.0.0")}}, []Place{{"a", intent, "a", false}}},
		{"the one enabled first wins", []Candidate{{"b", 7, to("2.0.0")}, {"a", 9, to("1.0.0")}},
			[]Place{{"b", intent, "b", false}, {"a", intent, "b", true}}},
		{"in any order", []Candidate{{"a", 9, to("1.0.0")}, {"b", 7, to("2.0.0")}},
			[]Place{{"b", intent, "b", false}, {"a", intent, "b", true}}},
		{"the same is no conflict", []Candidate{{"a", 1, to("1.0.0")}, {"b", 2, to("1.0.0")}, {"c", 3, to("1.0.1")}},
			[]Place{{"a", intent, "a", false}, {"b", intent, "a", false}, {"c", intent, "a", true}}},
		{"what is ignored is no conflict", []Candidate{{"a", 1, auto}, {"b", 2, auto2}},
			[]Place{{"a", intent, "a", false}, {"b", intent, "a", false}}},
		{"disabled", []Candidate{{"a", 1, off}, {"b", 2, to("2.0.0")}}, []Place{{"b", intent, "b", false}}},
		{"another intent", []Candidate{{"a", 1, none}, {"b", 2, to("2.0.0")}}, []Place{{"b", intent, "b", false}}},
		{"one rev", []Candidate{{"b", 1, to("1.0.0")}, {"a", 1, to("2.0.0")}},
			[]Place{{"a", intent, "a", false}, {"b", intent, "a", true}}},
	} {
		if got := Rank(c.in); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// Who wins does not depend on the order in which policies are known; it is the lowest rev of those that are enabled,
// and whoever disagrees with it is in conflict.
func TestRankIsTheSameEverywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []Candidate
		for i, rev := range rapid.SliceOfNDistinct(rapid.Uint64Range(1, 20), 1, 6, rapid.ID).Draw(t, "revs") {
			u := &AgentUpgrade{AtLeastVersion: rapid.SampledFrom([]string{"1.0.0", "2.0.0"}).Draw(t, "version")}
			if rapid.IntRange(0, 4).Draw(t, "says nothing") == 0 {
				u = nil
			}
			all = append(all, Candidate{string(rune('a' + i)), rev, &Policy{Enabled: rapid.Bool().Draw(t, "enabled"),
				Upgrade: u}})
		}
		got := Rank(all)
		if other := Rank(rapid.Permutation(all).Draw(t, "order")); !reflect.DeepEqual(got, other) {
			t.Fatalf("%v, %v", got, other)
		}
		byName := map[string]Candidate{}
		var first *Candidate
		count := 0
		for i, c := range all {
			byName[c.Name] = c
			if c.Policy.Enabled && c.Policy.Upgrade != nil {
				count++
				if first == nil || c.Rev < first.Rev {
					first = &all[i]
				}
			}
		}
		if len(got) != count {
			t.Fatalf("%d places of %d", len(got), count)
		}
		for _, place := range got {
			differs := byName[place.Name].Policy.Upgrade.AtLeastVersion != first.Policy.Upgrade.AtLeastVersion
			if place.Winner != first.Name || place.Conflict != differs {
				t.Fatalf("%+v, the first is %s", place, first.Name)
			}
		}
	})
}
