package steer_test

import (
	"slices"
	"strings"
	"testing"

	"tandem.internal/controller/internal/desired"
	"tandem.internal/controller/internal/steer"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// TestOneItemHoldsUpNoOther: what nodes cannot be given is left out with its reason, and everything else is applied.
func TestOneItemHoldsUpNoOther(t *testing.T) {
	service := func(name string, needs ...items.Dependency) items.Meta {
		return items.Meta{Type: items.Service, Codename: name, Version: "1.0.0", Runtimes: []string{"process"},
			Dependencies: needs}
	}
	part := func(name string, runtimes ...string) items.Meta {
		return items.Meta{Type: items.Component, Codename: name, Version: "1.0.0", Runtimes: runtimes}
	}
	layer := func(name, version string, needs ...items.Dependency) items.Meta {
		return items.Meta{Type: items.Layer, Codename: name, Version: version, Dependencies: needs}
	}
	need := func(typ items.Type, name, versions string, c items.Condition) items.Dependency {
		d := items.Dependency{Type: typ, Codename: name, Condition: c}
		if versions != "" {
			d.Versions = rangeOf(t, versions)
		}
		return d
	}
	one := func(typ items.Type, name string) items.Attachment { return items.Attachment{Type: typ, Codename: name} }
	many := func(n int) items.Attachment {
		return items.Attachment{Type: items.Service, Codename: "good", Instances: n}
	}
	for _, c := range []struct {
		name string
		has  func(u *unit)
		also []items.Attachment
		good int // how many instances of the service that is in order
		want []string
	}{
		{"a runtime that runs no services", func(u *unit) {
			bad := service("bad")
			bad.Runtimes = []string{"os"}
			u.has(bad, items.File)
		}, []items.Attachment{one(items.Service, "bad")}, 1, []string{
			"service bad 1.0.0 of hall, instance 0, has no place: no runtime that is left can run what it consists " +
				"of (refused by runtime 2, content 1); n1/os: the runtime os runs no services: say in its metadata " +
				"which runtimes it needs"}},
		{"another runtime will do", func(u *unit) {
			odd := service("odd")
			odd.Runtimes = []string{"os", "process"}
			u.has(odd, items.File)
		}, []items.Attachment{one(items.Service, "odd")}, 1, nil},
		{"an image in a process", func(u *unit) {
			bad := service("bad")
			bad.Runtimes = []string{"process"}
			u.has(bad, items.Image)
		},
			[]items.Attachment{one(items.Service, "bad")}, 1, []string{
				"n1/process: it is of the form image, which the runtime process does not run"}},
		{"a layer that is an image", func(u *unit) {
			u.has(layer("l", "1.0.0"), items.Image)
			u.has(service("bad", need(items.Layer, "l", "", items.Started)), items.File)
		}, []items.Attachment{one(items.Service, "bad")}, 1, []string{
			"its layer l 1.0.0 is of the form image, and not a tree"}},
		{"a layer that is called like a hook", func(u *unit) {
			u.has(layer("iss_hook_stop", "1.0.0"), items.Tree)
			u.has(service("bad", need(items.Layer, "iss_hook_stop", "", items.Started)), items.File)
		}, []items.Attachment{one(items.Service, "bad")}, 1, []string{
			"it has another file of the name of its layer iss_hook_stop 1.0.0"}},
		{"two versions of a layer", func(u *unit) {
			u.has(layer("l", "1.0.0"), items.Tree)
			u.has(layer("l", "2.0.0"), items.Tree)
			u.has(layer("m", "1.0.0", need(items.Layer, "l", "<2.0.0", items.Started)), items.Tree)
			u.has(service("bad", need(items.Layer, "l", ">=2.0.0", items.Started),
				need(items.Layer, "m", "", items.Started)), items.File)
		}, []items.Attachment{one(items.Service, "bad")}, 1, []string{
			"it has another file of the name of its layer l 2.0.0"}},
		{"waiting for the end of a service", func(u *unit) {
			u.has(service("bad", need(items.Service, "good", "", items.Completed)), items.File)
			u.has(service("worse", need(items.Service, "bad", "", items.Started)), items.File)
		}, []items.Attachment{one(items.Service, "bad"), one(items.Service, "worse")}, 1, []string{
			"service bad 1.0.0 of hall is refused: it waits until service good is completed, and services go on",
			"service worse 1.0.0 of hall is refused: it needs service bad, which is refused itself"}},
		{"waiting for too many", func(u *unit) {
			u.has(service("bad", need(items.Service, "good", "", items.Started)), items.File)
		}, []items.Attachment{one(items.Service, "bad"), many(65)}, 65, []string{
			"service bad 1.0.0 of hall, instance 0, is refused: it waits for 65 instances on n1, and may wait for 64"}},
		{"waiting for as many as it may", func(u *unit) {
			u.has(service("view", need(items.Service, "good", "", items.Started)), items.File)
		}, []items.Attachment{one(items.Service, "view"), many(64)}, 64, nil},
		{"a component that says no runtime", func(u *unit) { u.has(part("bad"), items.File) },
			[]items.Attachment{one(items.Component, "bad")}, 1, []string{"component bad 1.0.0 of hall has no place",
				"its metadata does not say which runtimes it needs"}},
		{"two components in one runtime", func(u *unit) {
			u.has(part("a", "os"), items.File)
			high := part("b", "os")
			high.Priority = 1
			u.has(high, items.File)
		}, []items.Attachment{one(items.Component, "a"), one(items.Component, "b")}, 1, []string{
			"component a 1.0.0 of hall is not on one node: the runtime os is one component, and b 1.0.0 of hall goes " +
				"first: say in their metadata which runtimes they need"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := newUnit(t)
			u.node("n1", "press", "amd64", func(i *wire.NodeInfo) {
				i.Runtimes = append(i.Runtimes, wire.Runtime{ID: "os", Type: "os", Architecture: "amd64"},
					wire.Runtime{ID: "boot", Type: "boot", Architecture: "amd64"})
			})
			u.has(service("good"), items.File)
			c.has(u)
			if !slices.ContainsFunc(c.also, func(a items.Attachment) bool { return a.Codename == "good" }) {
				c.also = append(c.also, many(1))
			}
			u.Subject(items.Subject{Codename: "hall", Type: items.Group, Items: c.also})
			d := u.decide()
			whole := words(d)
			for _, want := range c.want {
				if !strings.Contains(whole, want) {
					t.Errorf("%q does not say %q", whole, want)
				}
			}
			if strings.Count(whole, "\n") >= max(len(c.want), 1) || c.want == nil && whole != "" {
				t.Errorf("not there: %q", whole)
			}
			u.Apply()
			good := 0
			for name := range u.slots("n1") {
				if strings.HasPrefix(name, "good.hall.") {
					good++
				}
			}
			if good != c.good {
				t.Errorf("%d instances run", good)
			}
			if p := u.decide(); p.Changes.Start+p.Changes.Stop+p.Changes.Update > 0 {
				t.Errorf("after it was applied: %+v", p.Changes)
			}
		})
	}
}

// words are the reasons of what is not there.
func words(d *steer.Decision) string {
	var all []string
	for i := range d.Reasons {
		if d.Reasons[i].Reason != desired.Superseded {
			all = append(all, d.Reasons[i].Why)
		}
	}
	return strings.Join(all, "\n")
}

func rangeOf(t *testing.T, text string) items.Range {
	t.Helper()
	r, err := items.ParseRange(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestUnsigned: what nobody has signed goes to the node that demands no signature.
func TestUnsigned(t *testing.T) {
	u := line(t)
	u.Nodes[0].Info.Attributes[wire.AttributePublishers] = "0123456789ABCDEF"
	u.Apply()
	if n := len(u.slots("press-1")); n != 0 {
		t.Errorf("%d on the node that demands a signature", n)
	}
	if n := len(u.slots("press-2")); n != 2 {
		t.Errorf("%d on the other", n)
	}
	u.Nodes[1].Info.Attributes = u.Nodes[0].Info.Attributes
	if got := words(u.decide()); !strings.Contains(got, "it is not signed; this node runs only what") {
		t.Error(got)
	}
}
