package follow_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/desired"
	"tandem.internal/controller/internal/follow"
	"tandem.internal/controller/internal/steer"
	"tandem.internal/shared/cloud"
	"tandem.internal/shared/items"
)

// TestEachGoesOnInItsOwn: while a version is not there, what runs for a subject goes on in the version that it has
// there; where none runs none is started.
func TestEachGoesOnInItsOwn(t *testing.T) {
	for _, order := range [][]string{{"a 1.3.0", "b 1.2.0"}, {"a 1.2.0", "b 1.3.0"}} {
		w := newWorld(t)
		w.Has(service("web", "1.2.0"))
		w.Has(service("web", "1.3.0"))
		d, next := &cloud.DesiredStatus{}, wish("service web 1.4.0")
		next.Subjects, next.Instances = nil, nil
		web := next.Items[0].Item
		for _, s := range append(order, "c") {
			f := strings.Fields(s)
			subject := cloud.DesiredSubject{Identity: cloud.Identity{Codename: f[0]}, Type: items.Group}
			in := cloud.DesiredInstance{Item: web, Subject: subject.Identity, NumInstances: 1}
			next.Subjects, next.Instances = append(next.Subjects, subject), append(next.Instances, in)
			if len(f) == 2 {
				in.Version = f[1]
				d.Items = append(d.Items, cloud.DesiredItem{Item: web, Version: f[1]})
				d.Subjects, d.Instances = append(d.Subjects, subject), append(d.Instances, in)
			}
		}
		w.wants(d)
		w.settle()
		_, got := w.asked(next)
		for _, s := range order {
			f := strings.Fields(s)
			if line := "group " + f[0] + ": service web =" + f[1] + " x1"; !strings.Contains(got, line) {
				t.Errorf("%v: no %q in\n%s", order, line, got)
			}
		}
		if strings.Contains(got, "group c") {
			t.Errorf("%v: c runs none, and gets one:\n%s", order, got)
		}
	}
}

// TestSubjectsAreMeant: entries name a subject by its ID, or its codename, or both, as they name items; one with
// another ID is another. What runs for one that is meant by its ID goes on while its new version is not there.
func TestSubjectsAreMeant(t *testing.T) {
	w := newWorld(t)
	w.Has(service("web", "1.0.0"))
	line := cloud.Identity{ID: "abc", Codename: "line-4"}
	for _, c := range []struct {
		of, in cloud.Identity
		is     bool
	}{
		{line, cloud.Identity{ID: "abc"}, true}, {line, cloud.Identity{Codename: "line-4"}, true},
		{line, line, true},
		{line, cloud.Identity{ID: "abd", Codename: "line-4"}, false}, {line, cloud.Identity{ID: "line-4"}, false},
		{cloud.Identity{Codename: "line-4"}, line, true},
		{cloud.Identity{ID: "line-4"}, cloud.Identity{ID: "line-4"}, true},
	} {
		d := wish("service web 1.0.0")
		d.Subjects[0].Identity, d.Instances[0].Subject = c.of, c.in
		_, got := w.asked(d)
		if is := strings.Contains(got, "group line-4: service web =1.0.0 x1"); is != c.is ||
			!is && !strings.Contains(got, "is none of the desired status") {
			t.Errorf("%+v for %+v: %s", c.in, c.of, got)
		}
	}
	d := wish("service web 1.0.0")
	d.Subjects[0].Identity, d.Instances[0].Subject = line, cloud.Identity{ID: "abc"}
	w.wants(d)
	w.settle()
	w.is("by ID", "web 1.0.0 installed, web@n1 active")
	d.Items[0].Version = "1.1.0"
	if _, got := w.asked(d); !strings.Contains(got, "group line-4: service web =1.0.0 x1") {
		t.Error(got)
	}
}

// TestAnIDIsTheItem: an entry with an ID that the unit does not have is about no other item of the same codename.
func TestAnIDIsTheItem(t *testing.T) {
	w := newWorld(t)
	w.Has(service("web", "1.0.0"))
	d := wish("service web 1.0.0")
	d.Items[0].Item.ID, d.Instances[0].Item.ID = "another", "another"
	const want = "! service webanother 1.0.0 not-found: the unit has no such item: release it there"
	if _, got := w.asked(d); got != want {
		t.Error(got)
	}
}

// TestKeptLayers: only what is kept has its layers kept, and what is desired does not take them in place of those that
// are desired, though they are newer.
func TestKeptLayers(t *testing.T) {
	needs := func(m items.Meta, layer string) items.Meta {
		m.Dependencies = []items.Dependency{{Type: items.Layer, Codename: layer, Condition: items.Started}}
		return m
	}
	for web, want := range map[string]string{
		"":       "python 1.0.0 for service camera 1.0.0",
		"base":   "base 2.0.0 for service web 1.0.0; python 1.0.0 for service camera 1.0.0",
		"python": "python 1.0.0 for service camera 1.0.0; python 2.0.0 for service web 1.0.0"} {
		w := newWorld(t)
		for _, l := range []string{"python", "base"} {
			w.Has(items.Meta{Type: items.Layer, Codename: l, Version: "1.0.0"})
			w.Has(items.Meta{Type: items.Layer, Codename: l, Version: "2.0.0"})
		}
		m := service("web", "1.0.0")
		if web != "" {
			m = needs(m, web)
		}
		w.Has(m)
		w.Has(needs(service("camera", "1.0.0"), "python"))
		w.wants(wish("service web 1.0.0", "service camera 1.0.0", "layer python 2.0.0", "layer base 2.0.0"))
		w.settle()
		u, _ := w.asked(wish("service web 1.1.0", "service camera 1.0.0", "layer python 1.0.0"))
		p, err := u.Decide()
		if err != nil {
			t.Fatal(err)
		}
		var has []string
		for _, l := range p.Plan.Nodes[0].Layers {
			has = append(has, l.Codename+" "+l.Version+" for "+strings.Join(l.For, ", "))
		}
		if got := strings.Join(has, "; "); got != want || len(p.Plan.Nodes[0].Instances) != 2 {
			t.Errorf("web needs %q:\n%s\nwant\n%s", web, got, want)
		}
	}
}

// TestManyEntries: what is due is found in a time that grows with entries, and not with these times what runs: ten
// times as many would take a hundred times as long.
func TestManyEntries(t *testing.T) {
	find := func(n int) time.Duration {
		u, d := manyEntries(n)
		start := time.Now()
		if f := follow.Input(u, d); len(f) != 1 || len(u.Subjects[n-1].Items) != 1 {
			t.Errorf("%d failures", len(f))
		}
		return time.Since(start)
	}
	few := max(find(1000), find(1000)) // the machine is busy with other things
	if many := find(10000); many > 40*few {
		t.Errorf("1,000 entries took %v, 10,000 took %v", few, many)
	}
}

// manyEntries returns a unit on which n subjects run a service, and a wish for a version of it that is not there.
func manyEntries(n int) (*steer.Unit, *cloud.DesiredStatus) {
	u := &steer.Unit{Input: desired.Input{}}
	for i := range 100 {
		u.Items = append(u.Items, items.Item{ID: "web", State: items.Ready,
			Meta: service("web", fmt.Sprintf("1.0.%d", i))})
	}
	d := wish("service web 2.0.0")
	d.Subjects, d.Instances = nil, nil
	for i := range n {
		subject := cloud.Identity{Codename: fmt.Sprint("s", i)}
		u.Current.Instances = append(u.Current.Instances, items.Instance{Type: items.Service, Codename: "web",
			Version: "1.0.99", Subject: subject.Codename, Node: "n1", Runtime: "process"})
		d.Subjects = append(d.Subjects, cloud.DesiredSubject{Identity: subject, Type: items.Group})
		d.Instances = append(d.Instances, cloud.DesiredInstance{Item: d.Items[0].Item, Subject: subject,
			NumInstances: 1})
	}
	return u, d
}

// TestNothingIsStartedInTheOldVersion: what is asked for of a version that is not there, beside what runs of the old
// one, is started in none.
func TestNothingIsStartedInTheOldVersion(t *testing.T) {
	w := newWorld(t)
	w.Has(service("web", "1.0.0"))
	w.wants(wish("service web 1.0.0"))
	w.settle()
	next := wish("service web 1.1.0")
	next.Instances[0].NumInstances = 3
	w.wants(next)
	w.settle()
	if n := len(w.Slots("n1")) + len(w.Slots("n2")); n != 1 {
		t.Errorf("%d run", n)
	}
	var got []string
	for _, f := range w.failures {
		got = append(got, fmt.Sprint(f.Ref, " ", f.Version, " ", f.Subject, " ", f.Index, ": ", f.Error.Message[:25]))
	}
	const want = `["service web 1.1.0  0: the unit does not have th" ` +
		`"service web 1.1.0 hall 1: this version is not there" "service web 1.1.0 hall 2: this version is not there"]`
	if text := fmt.Sprintf("%q", got); text != want {
		t.Errorf("%s", text)
	}
	w.Has(service("web", "1.1.0"))
	w.settle()
	if n := len(w.Slots("n1")) + len(w.Slots("n2")); n != 3 {
		t.Errorf("%d run once it is there", n)
	}
}
