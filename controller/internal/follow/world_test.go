package follow_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/follow"
	"tandem.internal/controller/internal/kind"
	kinditems "tandem.internal/controller/internal/kinds/items"
	"tandem.internal/controller/internal/kinds/wanted"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/steer"
	"tandem.internal/controller/internal/steer/steertest"
	"tandem.internal/controller/internal/unitstatus"
	"tandem.internal/shared/cloud"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// world is a controller that follows a desired status, in memory: what the unit has outlives a kill, what the
// controller remembers does not. Its nodes run at once what they get, unless they cannot.
type world struct {
	*steertest.Unit
	now      time.Time
	machine  follow.Machine
	failures []unitstatus.Failure
	log      []string        // what was done
	refuses  map[string]bool // sources whose documents are refused now
	broken   map[string]bool // "codename version" of services that do not run
	fetched  map[string]int  // how often a node has begun to fetch the file of a service
	kill     int             // the controller is killed at so many steps from now; 0: it is not
	kills    int
}

func newWorld(t *testing.T) *world {
	w := &world{Unit: steertest.New(t), now: steertest.Now, refuses: map[string]bool{}, broken: map[string]bool{},
		fetched: map[string]int{}}
	w.Joins("n1", "press", "os")
	w.Joins("n2", "press", "os")
	return w
}

// service is the metadata of a service.
func service(name, version string) items.Meta {
	return items.Meta{Type: items.Service, Codename: name, Version: version, Runtimes: []string{"process"}}
}

func component(name, version string) items.Meta {
	return items.Meta{Type: items.Component, Codename: name, Version: version, Runtimes: []string{"os"}}
}

// wish is a desired status of items "service web 1.0.0", each once for the subject hall.
func wish(all ...string) *cloud.DesiredStatus {
	d := &cloud.DesiredStatus{Subjects: []cloud.DesiredSubject{{Identity: cloud.Identity{Codename: "hall"},
		Type: items.Group}}}
	for _, text := range all {
		f := strings.Fields(text)
		id := cloud.Identity{Type: f[0], Codename: f[1]}
		d.Items = append(d.Items, cloud.DesiredItem{Item: id, Version: f[2]})
		if f[0] == "layer" {
			continue
		}
		d.Instances = append(d.Instances, cloud.DesiredInstance{Item: id, NumInstances: 1,
			Subject: cloud.Identity{Codename: "hall"}})
	}
	return d
}

// wants has the cloud side send a desired status; false: it is the same as before, and nothing is journaled.
func (w *world) wants(d *cloud.DesiredStatus) bool {
	w.T.Helper()
	read, err := cloud.ParseDesired(d.Canonical())
	if err != nil {
		w.T.Fatal(err)
	}
	fold := wanted.Set().Sources[0].Fold
	change := wanted.Change{Document: read.Canonical()}
	if fold.Same(w.Contents[record.KindWanted], change) {
		return false
	}
	w.Change(record.KindWanted, change)
	return true
}

// step is where the controller may be killed: it begins anew, with what the unit has.
func (w *world) step() (killed bool) {
	if w.kill == 0 {
		return false
	}
	if w.kill--; w.kill > 0 {
		return false
	}
	w.kills++
	w.machine, w.failures = follow.Machine{}, nil
	return true
}

// settle has the controller do all that is due now, and returns when something is due again.
func (w *world) settle() (wake time.Time) {
	w.T.Helper()
	for range 100 {
		s, d := wanted.Of(w.Contents[record.KindWanted])
		u := steer.Look(w, w.now)
		failures := follow.Input(u, d)
		p, err := u.Decide()
		if err != nil {
			w.T.Fatal(err)
		}
		w.failures = append(failures, follow.Failures(p.Plan, failures)...)
		documents := map[wire.Kind][]byte{wire.KindComponents: p.Components, wire.KindWorkloads: p.Workloads}
		var parts []follow.Part
		for _, k := range []wire.Kind{wire.KindComponents, wire.KindWorkloads} {
			parts = append(parts, follow.Part{Source: k, Of: s.Rev, Want: wire.Hash(documents[k]),
				Have: w.States[k].Hash})
		}
		if w.step() {
			continue
		}
		act, part, wake := w.machine.Next(w.now, parts)
		switch {
		case act == follow.Wait:
			return wake
		case w.refuses[string(part.Source)]:
			w.log = append(w.log, "refused "+string(part.Source))
			if !w.step() {
				w.machine.Tried(w.now, part)
			}
			continue
		}
		w.log = append(w.log, "submit "+string(part.Source))
		w.Accept(part.Source, documents[part.Source]) // in one commit
		w.run()
		if !w.step() {
			w.machine.Tried(w.now, part)
		}
	}
	w.T.Fatal("the controller never comes to an end")
	return time.Time{}
}

// run has the nodes do what they get.
func (w *world) run() {
	for _, n := range w.Nodes {
		report := &wire.Workloads{}
		if w.Contents[wire.KindWorkloads] != nil {
			for _, c := range w.Slots(n.Name) {
				v := c.Properties["tandem.item"] + " " + c.Properties["tandem.version"]
				s := wire.WorkloadSlot{Slot: c.Slot.String(), ID: c.ConfigurationID, State: wire.WorkloadRunning}
				if w.broken[v] {
					s.State, s.Error = wire.WorkloadFailed, wire.New(wire.CodeApplyFailed, "", "it ends at once")
				}
				if r := c.Resources[workload.HookStart]; w.fetched[v] == 0 && r.Size > 0 {
					w.fetched[v]++
				}
				report.Slots = append(report.Slots, s)
			}
		}
		w.Tells(n.Name, wire.KindWorkloads, report)
		n.Document = &kind.Document{}
	}
	if w.Contents[wire.KindComponents] == nil {
		return
	}
	of := map[string]*wire.ComponentsReport{}
	type lister interface{ Current() []items.Instance }
	for _, i := range w.Contents[wire.KindComponents].(lister).Current() {
		if of[i.Node] == nil {
			of[i.Node] = &wire.ComponentsReport{}
		}
		of[i.Node].Components = append(of[i.Node].Components, wire.ComponentStatus{Name: i.Runtime, Item: i.Codename,
			Version: i.Version, State: wire.ComponentInstalled})
	}
	for node, r := range of {
		w.Tells(node, wire.KindComponents, r)
	}
}

// told is what the unit status has of items and instances.
func (w *world) told() string {
	s := unitstatus.Look(w).Assemble(&unitstatus.Wanted{Failures: w.failures})
	var all []string
	for _, i := range s.Items {
		all = append(all, fmt.Sprintf("%s %s %s", i.Item.Codename, i.Version, i.State))
	}
	for _, g := range s.Instances {
		for _, i := range g.Instances {
			at := "-"
			if i.Node != nil {
				at = i.Node.Codename
			}
			all = append(all, fmt.Sprintf("%s@%s %s", g.Item.Codename, at, i.State))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func (w *world) is(when, want string) {
	w.T.Helper()
	if got := w.told(); got != want {
		w.T.Errorf("%s (killed %d times):\n%s\nwant\n%s", when, w.kills, got, want)
	}
}

// killed plays a story once without a kill, and then once for each step at which the controller can be killed.
func killed(t *testing.T, story func(w *world)) {
	t.Helper()
	for at := 0; ; at++ {
		w := newWorld(t)
		w.kill = at
		story(w)
		if t.Failed() || at > 0 && w.kills == 0 {
			if at < 4 {
				t.Errorf("it was killed at %d steps only", at)
			}
			return
		}
	}
}

// TestFollowed: a component and a service are submitted, run, and are told of; the same again does nothing.
func TestFollowed(t *testing.T) {
	killed(t, func(w *world) {
		w.Has(component("base", "7.0.0"))
		w.Has(service("web", "1.0.0"))
		w.wants(wish("component base 7.0.0", "service web 1.0.0"))
		w.settle()
		const want = "base 7.0.0 installed, base@n1 active, base@n2 active, web 1.0.0 installed, web@n1 active"
		w.is("at first", want)
		if done := strings.Join(w.log, ", "); done != "submit components, submit workloads" {
			t.Errorf("%s", done)
		}
		w.log = nil
		again := wish("service web 1.0.0", "component base 7.0.0")
		if w.wants(again) || w.settle() != (time.Time{}) || w.log != nil {
			t.Errorf("the same again does %v", w.log)
		}
		w.is("again", want)
	})
}

// TestSuperseded: (scenario 28) a newer desired status, while the one before is being installed, takes its place,
// however far that had come; what was fetched for both is not fetched again.
func TestSuperseded(t *testing.T) {
	killed(t, func(w *world) {
		for _, v := range []string{"1.0.0", "2.0.0"} {
			w.Has(service("web", v))
			w.Has(service("api", v))
		}
		w.wants(wish("service web 1.0.0", "service api 1.0.0"))
		w.refuses["workloads"] = true // it stands still there
		w.settle()
		w.refuses = map[string]bool{}
		w.wants(wish("service web 1.0.0", "service api 2.0.0"))
		w.settle()
		w.is("then", "api 2.0.0 installed, api@n1 active, web 1.0.0 installed, web@n1 active")
		w.wants(wish("service web 2.0.0", "service api 2.0.0"))
		w.settle()
		w.is("at last", "api 2.0.0 installed, api@n1 active, web 2.0.0 installed, web@n1 active")
		if w.fetched["api 2.0.0"] != 1 || w.fetched["api 1.0.0"] != 0 {
			t.Errorf("fetched %v", w.fetched)
		}
	})
}

// TestOneOfThree: (scenario 29) one of three is not in the unit: two are active, and the third is told of as failed;
// once it is released it comes, without another message. What fails on its node stops no other either.
func TestOneOfThree(t *testing.T) {
	killed(t, func(w *world) {
		w.Has(service("web", "1.0.0"))
		w.Has(service("api", "1.0.0"))
		w.wants(wish("service web 1.0.0", "service log 1.0.0", "service api 1.0.0"))
		w.settle()
		w.is("without it", "api 1.0.0 installed, api@n1 active, log 1.0.0 failed, web 1.0.0 installed, web@n1 active")
		w.broken["log 1.0.0"] = true
		w.Has(service("log", "1.0.0"))
		w.now = w.now.Add(follow.First)
		w.settle()
		w.is("failed on its node", "api 1.0.0 installed, api@n1 active, log 1.0.0 failed, log@n1 failed, "+
			"web 1.0.0 installed, web@n1 active")
		w.broken = map[string]bool{}
		w.run() // the node tries again
		w.is("with it", "api 1.0.0 installed, api@n1 active, log 1.0.0 installed, log@n1 active, "+
			"web 1.0.0 installed, web@n1 active")
	})
}

// TestRefusedIsTriedAgain: a document that was refused is tried again after a while, and then after twice as long, also
// if the controller is killed in between; components that are refused do not hold up services.
func TestRefusedIsTriedAgain(t *testing.T) {
	killed(t, func(w *world) {
		w.Has(component("base", "7.0.0"))
		w.Has(service("web", "1.0.0"))
		w.refuses["components"] = true
		w.wants(wish("component base 7.0.0", "service web 1.0.0"))
		var pauses []time.Duration
		for range 12 {
			wake := w.settle()
			if wake.IsZero() {
				t.Fatal("it is given up")
			}
			pauses = append(pauses, wake.Sub(w.now))
			w.now = wake
		}
		if w.kills == 0 && (pauses[0] != follow.First || pauses[1] != 2*follow.First || pauses[11] != follow.Most) {
			t.Errorf("pauses %v", pauses)
		}
		w.is("in the meantime", "web 1.0.0 installed, web@n1 active")
		w.refuses = map[string]bool{}
		w.settle()
		w.is("at last", "base 7.0.0 installed, base@n1 active, base@n2 active, web 1.0.0 installed, web@n1 active")
	})
}

// TestRunsOnUntilTheNextIsThere: an item whose new version the unit does not have, or has with another content, goes on
// running in the old one, with the layer that it needs.
func TestRunsOnUntilTheNextIsThere(t *testing.T) {
	w := newWorld(t)
	w.Has(items.Meta{Type: items.Layer, Codename: "python", Version: "3.12.4"})
	web := service("web", "1.0.0")
	web.Dependencies = []items.Dependency{{Type: items.Layer, Codename: "python", Condition: items.Started}}
	w.Has(web)
	w.wants(wish("service web 1.0.0", "layer python 3.12.4"))
	w.settle()
	w.wants(wish("service web 2.0.0"))
	w.settle()
	const want = "python 3.12.4 installed, web 1.0.0 installed, web 2.0.0 failed, web@n1 active"
	w.is("it is not there", want)
	w.Has(service("web", "2.0.0"))
	d := wish("service web 2.0.0")
	d.Items[0].IndexDigest = wire.Hash([]byte("another"))
	w.wants(d)
	w.settle()
	w.is("it has another content", want)
	d.Items[0].IndexDigest = kinditems.Find(w.Contents[kinditems.KindItems],
		items.Ref{Type: items.Service, Codename: "web"}, "2.0.0").Digest
	w.wants(d)
	w.settle()
	w.is("it is there", "web 2.0.0 installed, web@n1 active")
	w.wants(wish())
	w.settle()
	w.is("nothing is desired", "")
}
