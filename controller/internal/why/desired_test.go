package why_test

import (
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/desired"
	"tandem.internal/controller/internal/why"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/items"
)

// Every reason for which an item or instance is not there is one sentence, with the other side where there is one.
func TestDesiredSentences(t *testing.T) {
	third := 3
	by := &desired.Party{Type: items.Service, Codename: "r", Version: "2.0.0", Subject: "T"}
	layer := &desired.Party{Type: items.Layer, Codename: "m", Version: "1.1.0"}
	needs := func(n desired.Need) *desired.Need { n.Type, n.Codename = items.Service, "d"; return &n }
	for _, c := range []struct {
		r    desired.Reason
		want string
	}{
		{desired.Reason{Reason: desired.NotReported}, "service s of S is not desired: no node reports the subject S"},
		{desired.Reason{Reason: desired.NotReady}, "service s of S is not desired: there is no such item"},
		{desired.Reason{Reason: desired.NotReady, Versions: []string{"1.1.0", "1.0.0"}},
			"service s of S is not desired: of its versions none is ready: 1.1.0, 1.0.0"},
		{desired.Reason{Reason: desired.NotReady, Version: "3.0.0", By: by},
			"service s 3.0.0 of S is in preparation; service r 2.0.0 of T is chosen"},
		{desired.Reason{Reason: desired.Deprecated, Versions: []string{"1.0.0"}},
			"service s of S is not desired: its versions are deprecated: 1.0.0"},
		{desired.Reason{Reason: desired.Deprecated, Version: "3.0.0", By: by},
			"service s 3.0.0 of S is deprecated; service r 2.0.0 of T is chosen"},
		{desired.Reason{Reason: desired.Deprecated, Version: "1.0.0", Index: &third},
			"service s 1.0.0 of S, instance 3, is deprecated: it is not placed where it does not run"},
		{desired.Reason{Reason: desired.Superseded, Version: "1.0.0", By: by},
			"service s 1.0.0 of S is not chosen: service r 2.0.0 of T is higher"},
		{desired.Reason{Reason: desired.Outranked, Version: "1.0.0", By: by, Nodes: 1},
			"service s 1.0.0 of S is not on one node: there service r 2.0.0 of T has it, whose subject goes first"},
		{desired.Reason{Reason: desired.Suppressed, Version: "1.0.0", By: by},
			"service s 1.0.0 of S is suppressed by service r 2.0.0 of T"},
		{desired.Reason{Reason: desired.Ineffective, Version: "1.0.0", By: by},
			"service s 1.0.0 of S is there and does not suppress service r 2.0.0 of T, which is of higher rank"},
		{desired.Reason{Reason: desired.Conflict, Version: "1.0.0", By: by, Rule: desired.Hostname, About: "h"},
			"service s 1.0.0 of S is refused: service r 2.0.0 of T has the hostname h and is of higher rank"},
		{desired.Reason{Reason: desired.Conflict, Version: "1.0.0", By: by, Rule: desired.Versions,
			Needs: needs(desired.Need{Range: "<2.0.0"})},
			"service s 1.0.0 of S is refused: it needs service d <2.0.0, and it is there as service r 2.0.0 of T"},
		{desired.Reason{Reason: desired.Unmet, Versions: []string{"1.0.0"},
			Needs: needs(desired.Need{Range: ">=2.0.0"})},
			"service s of S is not desired: no version is in the range >=2.0.0; there are 1.0.0"},
		{desired.Reason{Reason: desired.Unmet, Version: "1.0.0", Needs: &desired.Need{Of: layer, Type: items.Layer,
			Codename: "l", Range: ">=2.0.0"}}, "service s 1.0.0 of S is refused: its layer m 1.1.0 needs layer l " +
			">=2.0.0, of which no version is ready; there is none"},
		{desired.Reason{Reason: desired.Unmet, Version: "1.0.0", Needs: needs(desired.Need{})},
			"service s 1.0.0 of S is refused: it needs service d, which no subject desires"},
		{desired.Reason{Reason: desired.Unmet, Version: "1.0.0", Needs: needs(desired.Need{Reason: desired.Suppressed,
			By: by})},
			"service s 1.0.0 of S is refused: it needs service d, which is suppressed by service r 2.0.0 of T"},
		{desired.Reason{Reason: desired.Unmet, Version: "1.0.0", Needs: needs(desired.Need{Reason: desired.Conflict,
			By: by})},
			"service s 1.0.0 of S is refused: it needs service d, which is kept out by service r 2.0.0 of T"},
		{desired.Reason{Reason: desired.Unmet, Version: "1.0.0", Needs: needs(desired.Need{Reason: desired.Cycle})},
			"service s 1.0.0 of S is refused: it needs service d, which is refused itself"},
		{desired.Reason{Reason: desired.Cycle, Version: "1.0.0", Path: []desired.Party{*layer, *by}},
			"service s 1.0.0 of S is refused: layer m 1.1.0 waits for service r 2.0.0 of T waits for layer m 1.1.0"},
		{desired.Reason{Reason: desired.Unplaced, Version: "1.0.0"},
			"service s 1.0.0 of S has no place: its subject is attached to no node that there is"},
		{desired.Reason{Reason: desired.Unplaced, Version: "1.0.0", Index: &third, By: by, Emptied: desired.OfCPU,
			Counts: []desired.Count{{Filter: desired.OfLabels, Places: 2}, {Filter: desired.OfCPU, Places: 1}},
			Refusals: []desired.Refusal{{Node: "a", Runtime: "crun", Filter: desired.OfCPU, Needed: 600, Available: 400,
				Holders: []desired.Holder{{Codename: "x", Subject: "T", Index: 1}}}}},
			"service s 1.0.0 of S, instance 3, has made room for service r 2.0.0 of T and has no other place: no " +
				"runtime that is left has enough CPU free (refused by labels 2, cpu 1); a/crun: 600 DMIPS are needed " +
				"and 400 free, held by x of T, instance 1"},
	} {
		c.r.Type, c.r.Codename, c.r.Subject = items.Service, "s", "S"
		if got := why.Desired(&c.r); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.r.Reason, got, c.want)
		}
	}
}

// Every filter and choice has words.
func TestFiltersHaveWords(t *testing.T) {
	seen := map[string]desired.Filter{}
	for _, f := range []desired.Filter{desired.OfState, desired.OfOnline, desired.OfNode, desired.OfLabels,
		desired.OfResources, desired.OfDevices, desired.OfPorts, desired.OfLoad, desired.OfRuntime, desired.OfPlatform,
		desired.OfCPU, desired.OfRAM, desired.OfStorage, desired.OfStateStorage, desired.OfInstances} {
		one := why.Refusal(&desired.Refusal{Node: "a", Filter: f, About: "x", Needed: 1})
		r := desired.Reason{Reason: desired.Unplaced, Type: items.Service, Codename: "s", Subject: "S", Emptied: f}
		all := why.Desired(&r)
		for _, text := range []string{one, all} {
			if strings.HasSuffix(text, ": ") || strings.Contains(text, ":  (") {
				t.Errorf("%s: %q", f, text)
			}
		}
		if other, twice := seen[all]; twice {
			t.Errorf("%s and %s: %q", f, other, all)
		}
		seen[all] = f
	}
	for _, c := range []desired.Choice{desired.ByNode, desired.ByStaying, desired.ByBeing, desired.ByPriority,
		desired.ByCPU, desired.ByRAM, desired.ByID, desired.ByRoom, desired.ByRelief} {
		if why.Chosen(c) == "" {
			t.Errorf("%s has no words", c)
		}
	}
}

// What can be done for a node that is overloaded, and why a service stays there, are sentences.
func TestReliefSentences(t *testing.T) {
	o := desired.Overload{Node: "a", Parameter: desired.CPU, Average: 0.9512, Max: 0.9,
		For: duration.Duration(10 * time.Minute)}
	const over = "a is overloaded: 0.951 of its CPU is used on average for 10m, and the maximum is 0.9: "
	for want, r := range map[string]desired.Relief{
		over + "s of S, instance 2, goes to b": {Move: &desired.ReliefMove{Codename: "s", Subject: "S",
			Index: 2, To: "b"}},
		over + "no service runs there":   {},
		over + "no service may leave it": {Stays: []desired.Stay{{}}},
	} {
		r.Overload = o
		if got := why.Relief(&r); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
	load := func(about string) desired.Stay {
		return desired.Stay{Stuck: desired.NoPlace, Emptied: desired.OfLoad, Refusals: []desired.Refusal{{Node: "b",
			Filter: desired.OfLoad, About: about, Needed: 300, Available: 9}}}
	}
	const none = "no node that is left stays below the minimum of its rules; b: "
	for want, s := range map[string]desired.Stay{
		"its metadata says so":                                              {Stuck: desired.NotBalanced},
		"it is deprecated, and not deployed anew":                           {Stuck: desired.NotAnew},
		"its subject is attached to this node only":                         {Stuck: desired.Pinned},
		"it would relieve nothing, as far as is known":                      {Stuck: desired.Idle},
		"it was moved a while ago, and rests":                               {Stuck: desired.Rests},
		none + "what is used of the node is not known":                      load(desired.Unmeasured),
		none + "it uses 300 DMIPS, and 9 are left below the minimum":        load("cpu"),
		none + "it uses 300 bytes of RAM, and 9 are left below the minimum": load("ram"),
		none + "another move has gone to it, or from it, a moment ago":      load(desired.Settling),
	} {
		s.Codename, s.Subject = "s", "S"
		if got := why.Stay(&s); got != "s of S, instance 0, stays: "+want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
}
