package follow_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tandem.internal/controller/internal/follow"
	kinditems "tandem.internal/controller/internal/kinds/items"
	"tandem.internal/controller/internal/steer"
	"tandem.internal/shared/cloud"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// asked is what a desired status comes to as an input: items, what is attached to subjects, and what cannot be.
func (w *world) asked(d *cloud.DesiredStatus) (u *steer.Unit, text string) {
	w.T.Helper()
	read, err := cloud.ParseDesired(d.Canonical())
	if err != nil {
		w.T.Fatal(err)
	}
	u = steer.Look(w, w.now)
	var all []string
	for _, f := range follow.Input(u, read) {
		line := fmt.Sprintf("! %s %s %s", strings.TrimSpace(f.Ref.String()+f.ID), f.Version, f.Error)
		if f.Subject != "" {
			line += " for " + f.Subject
		}
		all = append(all, line)
	}
	for i := range u.Items {
		all = append(all, fmt.Sprintf("%s %s, priority %d", u.Items[i].Meta.Ref(), u.Items[i].Meta.Version,
			u.Items[i].Meta.Priority))
	}
	for i := range u.Subjects {
		s := &u.Subjects[i]
		for j := range s.Items {
			a := &s.Items[j]
			all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s: %s %s x%d %s", s.Type, s.Codename, a.Ref(),
				a.Versions, a.Instances, strings.Join(a.Labels, " "))))
		}
	}
	slices.Sort(all)
	return u, strings.Join(all, "\n")
}

// TestAsked: entries become items and what is attached to subjects, by codename or ID; each that cannot is refused by
// itself, with the reason.
func TestAsked(t *testing.T) {
	w := newWorld(t)
	id := w.NextID()
	w.Has(service("web", "1.0.0"))
	w.Has(service("web", "1.1.0"))
	w.Has(component("base", "7.0.0"))
	w.Has(items.Meta{Type: items.Layer, Codename: "python", Version: "3.12.4"})
	early := service("web", "3.0.0")
	w.Change(kinditems.KindItems, kinditems.Change{Type: items.Service, Codename: "web", Meta: &early,
		State: items.Preparation, Content: &items.Content{Form: items.File, Builds: []items.Build{{Blobs: []items.Blob{
			{Digest: wire.Hash(nil), Size: 5}}}}}})
	three, nine := 3, 9
	item := func(text, digest string) cloud.DesiredItem {
		f := strings.Fields(text)
		return cloud.DesiredItem{Item: cloud.Identity{Type: f[0], Codename: f[1]}, Version: f[2], IndexDigest: digest}
	}
	to := func(text, subject string, n int) cloud.DesiredInstance {
		f := strings.Fields(text)
		in := cloud.DesiredInstance{Item: cloud.Identity{Type: f[0], Codename: f[1]}, NumInstances: n,
			Subject: cloud.Identity{Codename: subject}}
		if len(f) > 2 {
			in.Version = f[2]
		}
		return in
	}
	subjects := []cloud.DesiredSubject{{Identity: cloud.Identity{Codename: "hall"}, Type: items.Group},
		{Identity: cloud.Identity{Codename: "press"}, Type: items.NodeType},
		{Identity: cloud.Identity{Codename: "no name"}, Type: items.User}}
	for name, c := range map[string]struct {
		items     []cloud.DesiredItem
		instances []cloud.DesiredInstance
		want      string
	}{
		"all is well": {[]cloud.DesiredItem{item("service web 1.0.0", ""), item("component base 7.0.0", "")},
			[]cloud.DesiredInstance{to("component base", "press", 0), to("service web", "hall", 2)}, `
component base 7.0.0, priority 0
group hall: service web =1.0.0 x2
nodeType press: component base =7.0.0 x0
service web 1.0.0, priority 0`},
		"by ID, with labels and priorities, of which the highest counts": {
			[]cloud.DesiredItem{{Item: cloud.Identity{Type: "service", ID: id}, Version: "1.1.0"}},
			[]cloud.DesiredInstance{
				{Item: cloud.Identity{ID: id}, Subject: cloud.Identity{Codename: "hall"}, NumInstances: 1,
					Priority: &nine, Labels: []string{"b", "a"}},
				{Item: cloud.Identity{ID: id}, Subject: cloud.Identity{Codename: "press"}, NumInstances: 1,
					Priority: &three}}, `
group hall: service web =1.1.0 x1 a b
nodeType press: service web =1.1.0 x1
service web 1.1.0, priority 9`},
		"of two versions the highest, or the one that is meant": {
			[]cloud.DesiredItem{item("service web 1.0.0", ""), item("service web 1.1.0", "")},
			[]cloud.DesiredInstance{to("service web", "hall", 1), to("service web 1.0.0", "press", 1)}, `
group hall: service web =1.1.0 x1
nodeType press: service web =1.0.0 x1
service web 1.0.0, priority 0
service web 1.1.0, priority 0`},
		"what is not there, or is another": {
			[]cloud.DesiredItem{item("service web 1.2.0", ""), item("component base 7.0.0", wire.Hash(nil)),
				item("layer rust 1.0.0", ""), item("service web 3.0.0", ""),
				{Item: cloud.Identity{Type: "service", ID: "x"}, Version: "1.0.0"}},
			[]cloud.DesiredInstance{to("service web", "hall", 1), to("component base", "press", 0)}, `
! component base 7.0.0 hash-mismatch: the unit has it with the content HAS, and it is to have NIL
! layer rust 1.0.0 not-found: the unit has no such item: release it there
! service web 1.2.0 not-found: the unit does not have this version; did you mean "1.0.0"?: release it there
! service web 3.0.0 wrong-state: it is in preparation in the unit, and not ready to be deployed
! service x 1.0.0 not-found: the unit has no such item: release it there`},
		"entries that say nothing, and the others": {
			[]cloud.DesiredItem{item("service web 1.0.0", ""), item("layer python 3.12.4", "")},
			[]cloud.DesiredInstance{to("service web", "hall", 1), to("service web", "nobody", 1),
				to("layer python", "hall", 0), to("component base", "hall", 0), to("service web", "no name", 1),
				to("service web", "press", 0), to("service web 1.0.0", "hall", 1)}, `
! component base  not-found: it is none of the items of the desired status for hall
! layer python  not-supported: a layer comes with what needs it, and is not run for hall
! service web 1.0.0 duplicate: it is asked for in several versions for one subject for hall
! service web 1.0.0 not-found: the subject no name is none of the desired status for no name
! service web 1.0.0 not-found: the subject nobody is none of the desired status for nobody
group hall: service web =1.0.0 x1
layer python 3.12.4, priority 0
service web 1.0.0, priority 0`},
	} {
		want := strings.NewReplacer("HAS", digest(w, "base", "7.0.0"), "NIL", wire.Hash(nil)).Replace(c.want)
		_, got := w.asked(&cloud.DesiredStatus{Items: c.items, Instances: c.instances, Subjects: subjects})
		if want = strings.TrimSpace(want); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
}

func digest(w *world, name, version string) string {
	for _, it := range kinditems.ItemsOf(w.Contents[kinditems.KindItems]) {
		if it.Meta.Codename == name && it.Meta.Version == version {
			return it.Digest
		}
	}
	return ""
}

// TestPausedNode: a node that is to be paused keeps what it has, and gets nothing new.
func TestPausedNode(t *testing.T) {
	w := newWorld(t)
	w.Has(service("web", "1.0.0"))
	w.Has(service("api", "1.0.0"))
	w.wants(wish("service web 1.0.0"))
	w.settle()
	d := wish("service web 1.0.0", "service api 1.0.0")
	d.Nodes = []cloud.DesiredNode{{Item: cloud.Identity{Codename: "n1"}, State: items.Paused},
		{Item: cloud.Identity{Codename: "gone"}, State: items.Paused}}
	w.wants(d)
	w.settle()
	w.is("n1 is paused", "api 1.0.0 installed, api@n2 active, web 1.0.0 installed, web@n1 active")
}

// TestUnplacedIsTold: an instance without a place is told of with the reason, and is no reason for others.
func TestUnplacedIsTold(t *testing.T) {
	w := newWorld(t)
	w.Has(service("web", "1.0.0"))
	w.Has(service("api", "1.0.0"))
	d := wish("service web 1.0.0", "service api 1.0.0")
	d.Instances[0].Labels = []string{"roof"}
	w.wants(d)
	w.settle()
	w.is("no node has the label", "api 1.0.0 installed, api@n1 active, web 1.0.0 failed, web@- failed")
	if len(w.failures) != 1 || !strings.Contains(w.failures[0].Error.Message, "roof") {
		t.Errorf("%+v", w.failures)
	}
}
