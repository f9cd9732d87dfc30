package steer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tandem.internal/controller/internal/desired"
	"tandem.internal/controller/internal/kind"
	kinditems "tandem.internal/controller/internal/kinds/items"
	"tandem.internal/controller/internal/steer"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// image adds a service that is an image of two layers, and so many more.
func (u *unit) image(meta items.Meta, more int) {
	u.T.Helper()
	blob := func(name string) items.Blob {
		return items.Blob{Digest: wire.Hash([]byte(name)), Size: 5, DiffID: wire.Hash([]byte("tar " + name)),
			Unpacked: 9}
	}
	c := items.Content{Form: items.Image, Builds: []items.Build{{Platform: &meta.Platforms[0],
		Blobs: []items.Blob{blob("base"), blob("own")},
		Image: &items.Blob{Digest: wire.Hash([]byte("config")), Size: 5}}}}
	for i := range more {
		c.Builds[0].Blobs = append(c.Builds[0].Blobs, blob(fmt.Sprint(i)))
	}
	u.Change(kinditems.KindItems, kinditems.Change{Type: items.Service, Codename: meta.Codename,
		ID: "00000000-0000-4000-8000-00000000abcd"})
	u.Change(kinditems.KindItems, kinditems.Change{Type: items.Service, Codename: meta.Codename, Meta: &meta,
		Content: &c, State: items.Ready})
	u.Subject(items.Subject{Codename: "line-4", Type: items.Group,
		Items: []items.Attachment{{Type: items.Service, Codename: meta.Codename}}})
}

// TestContainers: a service that is an image goes where a container runtime is, also if its metadata names none; its
// node gets the file of its configuration as the hook that starts it, its layers in their order, and the layer that it
// needs.
func TestContainers(t *testing.T) {
	u := newUnit(t)
	for _, name := range []string{"crun", "runc"} {
		u.node("with-"+name, "press", "amd64", func(i *wire.NodeInfo) {
			i.Runtimes = append(i.Runtimes, wire.Runtime{ID: name, Type: name, Architecture: "amd64", MaxInstances: 1})
			i.Attributes = map[string]string{wire.AttributeLimits: "v2 memory.max"}
		})
	}
	u.node("without", "press", "amd64", nil)
	amd := []items.Platform{{Architecture: "amd64"}}
	u.has(items.Meta{Type: items.Layer, Codename: "python", Version: "3.12.4", Platforms: amd}, items.Tree)
	u.image(items.Meta{Type: items.Service, Codename: "sensor", Version: "1.4.0", Platforms: amd,
		Network: items.NodeNetwork, Quotas: items.Amounts{RAM: 64 << 20},
		Dependencies: []items.Dependency{{Type: items.Layer, Codename: "python", Condition: items.Started}}}, 0)
	u.Subject(items.Subject{Codename: "line-4", Type: items.Group,
		Items: []items.Attachment{{Type: items.Service, Codename: "sensor", Instances: 2}}})
	u.Apply()
	if len(u.slots("without")) > 0 {
		t.Errorf("%+v", u.slots("without"))
	}
	for _, runtime := range []string{"crun", "runc"} {
		all := u.slots("with-" + runtime)
		if len(all) != 1 {
			t.Fatalf("%s: %+v", runtime, all)
		}
		for _, c := range all {
			if !c.Contained() || c.Container.Runtime != runtime || c.Container.Network != workload.NodeNetwork ||
				c.Container.Constraints["memory.max"] != "67108864" {
				t.Errorf("%+v", c.Container)
			}
			names := []string{}
			for name, a := range c.Resources {
				names = append(names, name)
				sum := map[string]string{workload.HookStart: "config", "layer.000": "base", "layer.001": "own",
					"python": "python3.12.4amd64"}[name]
				if want := wire.Hash([]byte(sum)); a.Verification.Checksum != strings.ToUpper(want[:6])+want[6:] ||
					(a.Unpack == nil) != (name == workload.HookStart) ||
					a.Unpack != nil && a.Unpack.DiffID != wire.Hash([]byte("tar "+sum)) {
					t.Errorf("%s: %+v", name, a)
				}
			}
			slices.Sort(names)
			if !slices.Equal(names, []string{workload.HookStart, "layer.000", "layer.001", "python"}) {
				t.Errorf("%q", names)
			}
		}
	}
}

// TestNoContainers: without such a runtime an image is nowhere, with the reason; images and other forms do not run in
// runtimes of the other kind.
func TestNoContainers(t *testing.T) {
	amd := []items.Platform{{Architecture: "amd64"}}
	meta := items.Meta{Type: items.Service, Codename: "sensor", Version: "1.4.0", Platforms: amd}
	u := newUnit(t)
	u.node("press-1", "press", "amd64", nil)
	u.image(meta, 0)
	p := u.decide()
	if len(p.Reasons) != 1 || p.Reasons[0].Emptied != desired.OfRuntime ||
		p.Reasons[0].Refusals[0].About != "process, not crun or runc" {
		t.Errorf("%+v", p.Reasons)
	}
	wrong := func(runtimes []string, file bool, more int, want string) {
		t.Helper()
		u := newUnit(t)
		u.node("press-1", "press", "amd64", func(i *wire.NodeInfo) {
			i.Runtimes = append(i.Runtimes, wire.Runtime{ID: "crun", Type: "crun", Architecture: "amd64"})
		})
		m := meta
		m.Runtimes = runtimes
		if more > 0 {
			u.has(items.Meta{Type: items.Layer, Codename: "python", Version: "3.12.4", Platforms: amd}, items.Tree)
			m.Dependencies = []items.Dependency{{Type: items.Layer, Codename: "python", Condition: items.Started}}
		}
		if file {
			u.has(m, items.File)
			u.Subject(items.Subject{Codename: "line-4", Type: items.Group,
				Items: []items.Attachment{{Type: items.Service, Codename: "sensor"}}})
		} else {
			u.image(m, more)
		}
		if got := words(u.decide()); !strings.Contains(got, want) {
			t.Errorf("%q, want %s", got, want)
		}
	}
	wrong([]string{"process"}, false, 0, "of the form image, which the runtime process does not run")
	wrong([]string{"crun"}, true, 0, "of the form file, and the runtime crun runs images")
	wrong([]string{"crun"}, false, 126, "it has 130 files and layers, and may have 129")
	// What is called like one and is of another type is none.
	u = newUnit(t)
	u.node("press-1", "press", "amd64", func(i *wire.NodeInfo) {
		i.Runtimes = []wire.Runtime{{ID: "crun", Type: "os"}, {ID: "os", Type: "runc"}, {ID: "crun", Type: "runc"},
			{ID: "runc", Type: "runc"}}
	})
	if got := steer.Look(kind.Unit(u), now).Nodes[0].Info.Runtimes; len(got) != 1 || got[0].ID != "runc" {
		t.Errorf("%+v", got)
	}
}
