package steer_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/kinds"
	kinditems "tandem.internal/controller/internal/kinds/items"
	"tandem.internal/controller/internal/steer"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// TestNeeds: an instance waits for the instances on its node of the services that it depends on.
func TestNeeds(t *testing.T) {
	u := line(t)
	u.has(items.Meta{Type: items.Service, Codename: "view", Version: "1.0.0", Runtimes: []string{"process"},
		Dependencies: []items.Dependency{{Type: items.Service, Codename: "sensor", Condition: items.Healthy}}},
		items.File)
	u.Subject(items.Subject{Codename: "hall", Type: items.Group, Nodes: []string{"press-2"},
		Items: []items.Attachment{{Type: items.Service, Codename: "view"}}})
	u.Apply()
	c := u.slots("press-2")["view.hall.0"]
	if len(c.Needs) != 1 || c.Needs[0].Slot.Node != "press-2" || c.Needs[0].Condition != workload.Healthy ||
		!strings.HasPrefix(c.Needs[0].Slot.Service, "sensor.line-4.") || len(c.Resources) != 1 {
		t.Errorf("%+v", c)
	}
	if p := u.decide(); p.Changes.Keep != 3 {
		t.Errorf("after it was applied: %+v", p.Changes)
	}
}

// TestShow: what was applied is listed with what the nodes tell of it.
func TestShow(t *testing.T) {
	u := line(t)
	u.Apply()
	var slot string
	for name := range u.slots("press-1") {
		slot = name + "@press-1"
	}
	u.Nodes[0].Detail = &wire.Workloads{Slots: []wire.WorkloadSlot{{Slot: slot, State: wire.WorkloadRunning,
		Wanted: "x", ID: "x"}}}
	all := steer.Show(u, "")
	text, err := json.Marshal(all)
	if err != nil || len(all) != 2 || all[0].Slot != slot || all[0].Codename != "sensor" ||
		all[0].Subject != "line-4" || all[0].State != "running" || all[1].State != "waiting" {
		t.Errorf("%v\n%s", err, text)
	}
	if one := steer.Show(u, "press-2"); len(one) != 1 || one[0].Node != "press-2" {
		t.Errorf("%+v", one)
	}
}

// TestServiceOfADirectory: its hooks are files of its own tree, which the others are beside.
func TestServiceOfADirectory(t *testing.T) {
	u := newUnit(t)
	u.node("n1", "press", "amd64", nil)
	meta := items.Meta{Type: items.Service, Codename: "web", Version: "1.0.0"} // a process, if it does not say
	u.has(meta, items.File)
	blob := items.Blob{Digest: wire.Hash(nil), Size: 5, DiffID: wire.Hash([]byte("tar")), Unpacked: 9}
	next := meta
	next.Version = "1.0.1"
	err := kinds.All().Source(kinditems.KindItems).Fold.Judge(u.Contents[kinditems.KindItems], kinditems.Change{
		Type: items.Service, Codename: "web", Meta: &next, State: items.Ready, Content: &items.Content{Form: items.Tree,
			Builds: []items.Build{{Blobs: []items.Blob{blob}, Hooks: []string{"iss_hook_stop"}}}}})
	if err == nil || !strings.Contains(err.Message, "starts by the file iss_hook_start at its top") {
		t.Errorf("%v", err)
	}
	u.Subject(items.Subject{Codename: "hall", Type: items.Group, Items: []items.Attachment{{Type: items.Service,
		Codename: "web"}}})
	u.hooks = []string{"iss_hook_start", "iss_hook_stop"}
	meta.Version = "1.1.0"
	u.has(meta, items.Tree)
	u.Apply()
	c := u.slots("n1")["web.hall.0"]
	for name, path := range map[string]string{"iss_hook_start": "iss_hook_start", "iss_hook_stop": "iss_hook_stop",
		"files": ""} {
		if r := c.Resources[name]; r.Unpack == nil || r.Unpack.Path != path ||
			r.Unpack.DiffID != wire.Hash([]byte("tar web1.1.0")) {
			t.Errorf("%s: %+v %+v", name, r, r.Unpack)
		}
	}
}

// TestWhatRunsIsNotRemoved: a version that a node is to have stays, whatever it is; one that none has goes.
func TestWhatRunsIsNotRemoved(t *testing.T) {
	u := line(t)
	u.Nodes[0].Info.Runtimes = append(u.Nodes[0].Info.Runtimes,
		wire.Runtime{ID: "os", Type: "os", Architecture: "arm64"})
	u.has(items.Meta{Type: items.Component, Codename: "base", Version: "7.0.0", Runtimes: []string{"os"}}, items.File)
	u.Subject(items.Subject{Codename: "press", Type: items.NodeType,
		Items: []items.Attachment{{Type: items.Component, Codename: "base"}}})
	u.Apply()
	fold := kinds.All().Source(kinditems.KindItems).Fold
	for _, c := range []struct {
		ref     items.Ref
		version string
		node    string
	}{
		{items.Ref{Type: items.Service, Codename: "sensor"}, "1.4.0", "press-1"},
		{items.Ref{Type: items.Layer, Codename: "python"}, "3.12.4", "press-1"},
		{items.Ref{Type: items.Component, Codename: "base"}, "7.0.0", "press-1"},
		{items.Ref{Type: items.Service, Codename: "sensor"}, "1.3.0", ""},
		{items.Ref{Type: items.Service, Codename: "base"}, "7.0.0", ""},
		{items.Ref{Type: items.Layer, Codename: "python"}, "3.12.3", ""},
	} {
		err := fold.Weigh(u, u.Contents[kinditems.KindItems], kinditems.Change{Type: c.ref.Type,
			Codename: c.ref.Codename, Version: c.version, Removed: true})
		if (err != nil) != (c.node != "") || err != nil && !strings.Contains(err.Message, "is to run on "+c.node) {
			t.Errorf("%s %s: %v", c.ref, c.version, err)
		}
	}
}
