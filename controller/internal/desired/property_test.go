package desired_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"tandem.internal/controller/internal/desired"
	"tandem.internal/shared/items"
)

// The same content gives the same bytes, in whatever order it comes; the input is not written to.
func TestOrderDoesNotCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawn{t}.moved()
		in.Preempt = rapid.Bool().Draw(t, "preempt")
		before := bytesOf(in)
		want := bytesOf(decide(t, in))
		if bytesOf(in) != before {
			t.Fatal("the input was written to")
		}
		seed := rapid.Uint64().Draw(t, "seed")
		if got := bytesOf(decide(t, shuffled(in, seed))); got != want {
			t.Fatalf("in another order\n%s\nwas\n%s", got, want)
		}
	})
}

// What is suppressed in vain is told in one order, whatever that of the metadata is.
func TestReasonsHaveAnOrder(t *testing.T) {
	const unit = "node a\nitem service a 1.0.0 prio=2\nitem service b 1.0.0 prio=2\n" +
		"subject S items=service:a|service:b|service:c\nitem service c 1.0.0 not="
	ab := bytesOf(decide(t, parseInput(t, unit+"service:a|service:b")))
	if ba := bytesOf(decide(t, parseInput(t, unit+"service:b|service:a"))); ab != ba {
		t.Errorf("%s\n%s", ab, ba)
	}
}

// An item that is suppressed changes nothing, whatever it suppresses, needs and wants for itself.
func TestSuppressedItemChangesNothing(t *testing.T) {
	added := 0
	rapid.Check(t, func(t *rapid.T) {
		d := drawn{t}
		in := d.running(true)
		const name = "zzz"
		ref := items.Ref{Type: items.Service, Codename: name}
		live := desired.LiveOf(decide(t, in))
		if len(live) == 0 {
			return
		}
		by := rapid.SampledFrom(live).Draw(t, "by").Item.Meta
		for i := range in.Items { // nothing has the item yet
			if m := &in.Items[i].Meta; m.Ref() == by.Ref() && m.Version == by.Version {
				m.SuppressItems = append(slices.Clone(m.SuppressItems), ref)
			}
		}
		before := decide(t, in)
		if !slices.ContainsFunc(desired.LiveOf(before), func(l desired.Live) bool {
			return l.Item.Meta.Ref() == by.Ref() && l.Item.Meta.Version == by.Version
		}) {
			return
		}
		x := d.item(ref, "1.0.0", false)
		x.State, x.Meta.Priority, x.Meta.SuppressItems = items.Ready, 0, refs[:6]
		x.Meta.Hostname = "h"
		in.Items = append(in.Items, x)
		in.Subjects = append(in.Subjects, items.Subject{Codename: "Z", Type: items.Group,
			Items: []items.Attachment{{Type: items.Service, Codename: name, Instances: 3}}})
		after := decide(t, in)
		after.Reasons = slices.DeleteFunc(after.Reasons, func(r desired.Reason) bool {
			if r.Codename == name && r.Reason == desired.Suppressed {
				added++
			}
			return r.Codename == name
		})
		if a, b := bytesOf(before), bytesOf(after); a != b {
			t.Fatalf("without\n%s\nwith\n%s", a, b)
		}
	})
	if added == 0 {
		t.Error("nothing was ever suppressed")
	}
}

// What was planned and carried out is planned again: nothing moves by itself.
func TestPlanIsStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawn{t}.unit(false)
		in.Preempt = rapid.Bool().Draw(t, "preempt")
		for i := range in.Nodes { // later they are offline, which changes nothing
			in.Nodes[i].Info.OfflineFor = 0
		}
		in.EvictAfter = 0
		p := decide(t, in)
		in.Current = currentOf(p)
		for i := range in.Nodes {
			if rapid.Bool().Draw(t, "off") {
				in.Nodes[i].Info.OfflineFor = 1
			}
		}
		again := decide(t, in)
		if c := again.Changes; c != (desired.Counts{Keep: p.Changes.Keep + p.Changes.Start + p.Changes.Update +
			p.Changes.Move}) {
			t.Fatalf("%+v after %+v", c, p.Changes)
		}
	})
}

// When a node goes away, only what was there moves. (Items that are deprecated, and subjects that the node reports, go
// with it; there are none.)
func TestOneNodeAway(t *testing.T) {
	moved := 0
	rapid.Check(t, func(t *rapid.T) {
		in := drawn{t}.settled() // there are twins to move to
		p := decide(t, in)
		for _, n := range slices.Clone(in.Nodes) {
			moved += oneNodeAway(t, *in, p, n.Info.Node)
		}
	})
	if moved == 0 {
		t.Error("nothing ever moved")
	}
}

// oneNodeAway counts what moves when a node goes away.
func oneNodeAway(t *rapid.T, in desired.Input, p *desired.Plan, away string) int {
	in.Nodes = slices.DeleteFunc(slices.Clone(in.Nodes), func(n desired.Node) bool { return n.Info.Node == away })
	after := decide(t, &in)
	was := map[items.Instance]bool{}
	for _, i := range currentOf(p).Instances {
		was[i] = true
	}
	for _, i := range currentOf(after).Instances {
		delete(was, i)
	}
	for i := range was { // what is not where it was
		if i.Node != away {
			t.Fatalf("%s went away, and %+v moved", away, i)
		}
	}
	if c := after.Changes; c.Start+c.Update+c.Stop > 0 {
		t.Fatalf("%+v", c)
	}
	return after.Changes.Move
}

// Every instance that is placed passes every filter, as a checker says that shares nothing with the filters; and what
// is not placed has no place.
func TestPlacesPassEveryFilter(t *testing.T) {
	placed, unplaced := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		in := drawn{t}.moved()
		in.Preempt = rapid.Bool().Draw(t, "preempt")
		p := decide(t, in)
		o := newOracle(in, p)
		for _, wrong := range o.places() {
			t.Error(wrong)
		}
		for _, r := range p.Reasons {
			if r.Reason == desired.Unplaced && r.Type == items.Service {
				unplaced++
				for _, where := range o.placesFor(r) {
					t.Errorf("%+v has a place: %s", r, where)
				}
			}
		}
		placed += len(currentOf(p).Instances)
	})
	if placed == 0 || unplaced == 0 {
		t.Errorf("%d placed, %d not", placed, unplaced)
	}
}

// The layers that are chosen are all that is needed and no more, and what is refused for a need lacks it.
func TestLayersAreCompleteAndMinimal(t *testing.T) {
	chosen, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		in := drawn{t}.running(true)
		p := decide(t, in)
		o := newOracle(in, p)
		for _, wrong := range o.layers() {
			t.Error(wrong)
		}
		for _, r := range p.Reasons {
			needs := r.Reason == desired.Unmet || r.Reason == desired.Conflict && r.Rule == desired.Versions
			if r.Version != "" && needs {
				refused++
				if !o.lacks(r) {
					t.Errorf("%+v lacks nothing", r)
				}
			}
		}
		for _, l := range desired.LiveOf(p) {
			chosen += len(l.Layers)
		}
	})
	if chosen == 0 || refused == 0 {
		t.Errorf("%d layers chosen, %d refused", chosen, refused)
	}
}
