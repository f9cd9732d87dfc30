package steer_test

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/kind"
	kinditems "tandem.internal/controller/internal/kinds/items"
	"tandem.internal/controller/internal/steer"
	"tandem.internal/controller/internal/steer/steertest"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

var now = steertest.Now

// unit is a unit in memory, to which items of every form come.
type unit struct {
	*steertest.Unit
	hooks  []string // of the trees of services
	sealed bool     // what is added is encrypted
}

func newUnit(t *testing.T) *unit { return &unit{Unit: steertest.New(t)} }

// has adds a version of an item that is ready; its files are called like the item, the version and the architecture.
func (u *unit) has(meta items.Meta, form items.Form) {
	u.T.Helper()
	c := items.Content{Form: form}
	add := func(p *items.Platform, arch string) {
		name := fmt.Sprint(meta.Codename, meta.Version, arch)
		b := items.Blob{Digest: wire.Hash([]byte(name)), Size: 5}
		if form != items.File {
			b.DiffID, b.Unpacked = wire.Hash([]byte("tar "+name)), 9
		}
		if u.sealed {
			b.Encrypted = &wire.Encrypted{Digest: wire.Hash([]byte(name + ".age")), Size: 5}
		}
		one := items.Build{Platform: p, Blobs: []items.Blob{b}}
		switch {
		case form == items.Image:
			one.Image = &items.Blob{Digest: wire.Hash([]byte("config of " + name)), Size: 5}
		case form == items.Tree && meta.Type == items.Service:
			one.Hooks = u.hooks
		}
		c.Builds = append(c.Builds, one)
	}
	for i := range meta.Platforms {
		add(&meta.Platforms[i], meta.Platforms[i].Architecture)
	}
	if meta.Platforms == nil {
		add(nil, "")
	}
	ref := meta.Ref()
	if kind.As[kinditems.Collection](u.Contents[kinditems.KindItems]).List[kinditems.Key(ref)] == nil {
		u.Change(kinditems.KindItems, kinditems.Change{Type: ref.Type, Codename: ref.Codename, ID: u.NextID()})
	}
	u.Change(kinditems.KindItems, kinditems.Change{Type: ref.Type, Codename: ref.Codename, Meta: &meta, Content: &c,
		State: items.Ready})
}

// node adds a node that is online.
func (u *unit) node(name, nodeType, arch string, more func(*wire.NodeInfo)) {
	info := u.Joins(name, nodeType)
	info.Arch, info.Runtimes[0].Architecture = arch, arch
	if more != nil {
		more(info)
	}
}

// decide decides what there is now.
func (u *unit) decide() *steer.Decision {
	u.T.Helper()
	d, err := steer.Look(u, now).Decide()
	if err != nil {
		u.T.Fatal(err)
	}
	return d
}

// slots are the configurations of a node, by service.
func (u *unit) slots(node string) map[string]workload.Config {
	u.T.Helper()
	all := map[string]workload.Config{}
	for _, c := range u.Slots(node) {
		all[c.Slot.Service] = c
	}
	return all
}

var sensor = items.Meta{Type: items.Service, Codename: "sensor", Version: "1.4.0", Runtimes: []string{"process"},
	Dependencies: []items.Dependency{{Type: items.Layer, Codename: "python", Condition: items.Started}},
	Quotas:       items.Amounts{CPU: 500, RAM: 64 << 20}, Env: items.Env{"LEVEL": "info"}}

// line is a unit with two nodes, of which each has the service.
func line(t *testing.T) *unit {
	u := newUnit(t)
	u.node("press-1", "press", "arm64", func(i *wire.NodeInfo) {
		i.Attributes = map[string]string{wire.AttributeLimits: "v2 cpu.max memory.max"}
	})
	u.node("press-2", "press", "amd64", nil)
	u.has(items.Meta{Type: items.Layer, Codename: "python", Version: "3.12.4",
		Platforms: []items.Platform{{Architecture: "arm64"}, {Architecture: "amd64"}}}, items.Tree)
	u.has(sensor, items.File)
	u.Subject(items.Subject{Codename: "line-4", Type: items.Group,
		Items: []items.Attachment{{Type: items.Service, Codename: "sensor", Instances: 2}}})
	return u
}

// TestSet: a node gets its instances as slots: the file of the service as the hook that starts it, layers for its own
// processor, quotas as limits where it can enforce them, and the environment.
func TestSet(t *testing.T) {
	u := line(t)
	u.Apply()
	var got []string
	for _, node := range []string{"press-1", "press-2"} {
		for name, c := range u.slots(node) {
			start, layer := c.Resources[workload.HookStart], c.Resources["python"]
			got = append(got, fmt.Sprintf("%s@%s: %s %s, %s %v, %v", name, node, start.Verification.Checksum[:10],
				start.URLs[0][len(start.URLs[0])-4:], layer.UUID, layer.Cached, c.Container))
			want := "SHA256:" + wire.Hash([]byte("sensor1.4.0"))[7:]
			if start.Verification.Checksum != want || start.Size != 5 {
				t.Errorf("%s starts %+v", name, start)
			}
			arch := map[string]string{"press-1": "arm64", "press-2": "amd64"}[node]
			if want := "SHA256:" + wire.Hash([]byte("python3.12.4" + arch))[7:]; layer.Verification.Checksum != want {
				t.Errorf("%s on %s has the layer %+v", name, arch, layer)
			}
			if c.Properties["env.LEVEL"] != "info" || c.Properties["tandem.version"] != "1.4.0" {
				t.Errorf("%s has the properties %v", name, c.Properties)
			}
			if layer.Unpack == nil || layer.Unpack.DiffID != wire.Hash([]byte("tar python3.12.4"+arch)) ||
				layer.Unpack.Size != 9 || start.Unpack != nil {
				t.Errorf("%s has the layer %+v", name, layer.Unpack)
			}
			limits := "map[cpu.max:200000 100000 memory.max:67108864]"
			switch {
			case node == "press-1" && (c.Container == nil || fmt.Sprint(c.Container.Constraints) != limits):
				t.Errorf("%s is limited to %+v", name, c.Container)
			case node == "press-2" && c.Container != nil:
				t.Errorf("%s is limited where nothing can be enforced: %+v", name, c.Container)
			}
		}
	}
	if len(got) != 2 {
		t.Errorf("slots %q", got)
	}
}

// TestAppliedIsDone: after a plan was applied, nothing is to be done, whatever runs; so what is decided next is the
// same to the byte.
func TestAppliedIsDone(t *testing.T) {
	u := line(t)
	u.node("gateway", "gateway", "amd64", func(i *wire.NodeInfo) {
		i.Runtimes = append(i.Runtimes, wire.Runtime{ID: "os", Type: "os", Architecture: "amd64"})
	})
	u.has(items.Meta{Type: items.Component, Codename: "base", Version: "7.0.0", Runtimes: []string{"os"}}, items.File)
	u.Subject(items.Subject{Codename: "gateway", Type: items.NodeType,
		Items: []items.Attachment{{Type: items.Component, Codename: "base"}}})
	u.Apply()
	p := u.decide()
	for _, n := range p.Nodes {
		if len(n.Changes) > 0 {
			t.Errorf("%s: %+v", n.Node, n.Changes)
		}
	}
	if p.Changes.Keep != 3 {
		t.Errorf("%+v", p.Changes)
	}
	u.Apply()
	if again := u.decide(); !bytes.Equal(p.Workloads, again.Workloads) || !bytes.Equal(p.Components, again.Components) {
		t.Errorf("%s\n%s\n%s\n%s", p.Workloads, again.Workloads, p.Components, again.Components)
	}
}

// TestEnvironmentIsAnUpdate: another environment is told as a change, and reaches the slot.
func TestEnvironmentIsAnUpdate(t *testing.T) {
	u := line(t)
	u.Apply()
	u.Subject(items.Subject{Codename: "line-4", Type: items.Group, Items: []items.Attachment{{Type: items.Service,
		Codename: "sensor", Instances: 2, Env: items.Env{"LEVEL": "debug"}}}})
	if p := u.decide(); p.Changes.Update != 2 {
		t.Errorf("%+v", p.Changes)
	}
	u.Apply()
	for name, c := range u.slots("press-1") {
		if c.Properties["env.LEVEL"] != "debug" {
			t.Errorf("%s: %v", name, c.Properties)
		}
	}
	if p := u.decide(); p.Changes.Update != 0 {
		t.Errorf("after it was applied: %+v", p.Changes)
	}
}

// TestComponents: a node gets the component of its runtime, after those that it needs and before those that it comes
// before.
func TestComponents(t *testing.T) {
	u := newUnit(t)
	for _, name := range []string{"n1", "n2"} {
		u.node(name, "press", "arm64", func(i *wire.NodeInfo) {
			i.Runtimes = []wire.Runtime{{ID: "app", Type: "app", Architecture: "arm64"},
				{ID: "boot", Type: "boot", Architecture: "arm64"}, {ID: "os", Type: "os", Architecture: "arm64"}}
		})
	}
	need := func(name string, c items.Condition) []items.Dependency {
		return []items.Dependency{{Type: items.Component, Codename: name, Condition: c}}
	}
	u.has(items.Meta{Type: items.Component, Codename: "app-x", Version: "1.0.0", Runtimes: []string{"app"},
		Dependencies: need("os-x", items.Healthy)}, items.File)
	u.has(items.Meta{Type: items.Component, Codename: "os-x", Version: "7.0.0", Runtimes: []string{"os"},
		Platforms: []items.Platform{{Architecture: "arm64"}}}, items.File)
	u.has(items.Meta{Type: items.Component, Codename: "boot-x", Version: "2.0.0", Runtimes: []string{"boot"},
		Dependencies: need("os-x", items.Before)}, items.File)
	u.Subject(items.Subject{Codename: "press", Type: items.NodeType, Items: []items.Attachment{
		{Type: items.Component, Codename: "app-x"}, {Type: items.Component, Codename: "os-x"},
		{Type: items.Component, Codename: "boot-x"}}})
	u.Apply()
	body := u.Contents[wire.KindComponents].For(kind.Facts{Node: "n2"})
	c, err := wire.Decode[wire.Components](body.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range c.Components {
		got = append(got, fmt.Sprintf("%s=%s %s after %v", e.Name, e.Item, e.Version, e.After))
	}
	want := "app=app-x 1.0.0 after [os]; boot=boot-x 2.0.0 after []; os=os-x 7.0.0 after [boot]"
	if strings.Join(got, "; ") != want {
		t.Errorf("%q", got)
	}
	if c.Components[2].Hash != wire.Hash([]byte("os-x7.0.0arm64")) ||
		!strings.HasSuffix(c.Components[2].URLs[0], c.Components[2].Hash) {
		t.Errorf("%+v", c.Components[2])
	}
	if p := u.decide(); p.Changes.Keep != 6 || p.Changes.Start != 0 {
		t.Errorf("after it was applied: %+v", p.Changes)
	}
}

// TestWhoTakesPart: revoked nodes and those that have told nothing do not; one that is offline keeps what it has.
func TestWhoTakesPart(t *testing.T) {
	u := line(t)
	u.Apply()
	before := len(u.slots("press-1")) + len(u.slots("press-2"))
	u.Nodes[0].Up, u.Nodes[0].Since = false, now.Add(-time.Hour)
	u.Nodes = append(u.Nodes, &kind.Node{Name: "new", Up: true})
	if p := u.decide(); len(p.Nodes) != 2 || p.Changes.Keep != 2 || before != 2 {
		t.Errorf("%d: %+v", len(p.Nodes), p.Changes)
	}
	u.Nodes[0].Revoked = true
	if p := u.decide(); len(p.Nodes) != 1 || p.Nodes[0].Node != "press-2" || len(p.Nodes[0].Instances) != 2 {
		t.Errorf("%+v", p.Nodes)
	}
}

// TestSlotNames: no two instances have one name, whatever is in theirs, and none is too long.
func TestSlotNames(t *testing.T) {
	long := strings.Repeat("a", 63)
	seen := map[string]string{}
	for _, codename := range []string{"a", "a.b", "b", "a.b.0", long, long[:60] + "b"} {
		for _, subject := range []string{"a", "b.0", "b", "0", long, "0.0"} {
			for _, index := range []int{0, 1, 999} {
				name, who := steer.Service(codename, subject, index), fmt.Sprintf("%s %s %d", codename, subject, index)
				if seen[name] != "" || !wire.ValidName(name) {
					t.Errorf("%s: %s, as %s", who, name, seen[name])
				}
				seen[name] = who
			}
		}
	}
	if name := steer.Service("sensor", "line-4", 1); name != "sensor.line-4.1" {
		t.Error(name)
	}
}

// TestPartitions: storage and state are reserved of the partitions that nodes tell for them.
func TestPartitions(t *testing.T) {
	u := newUnit(t)
	part := func(name string, size uint64, types ...string) wire.Partition {
		return wire.Partition{Name: name, Path: "/" + name, Size: size, Types: types}
	}
	u.node("n1", "t", "amd64", func(i *wire.NodeInfo) {
		i.Partitions = []wire.Partition{part("data", 5000, "storage"), part("var", 900, "state"), part("tmp", 1<<40)}
	})
	u.node("n2", "t", "amd64", func(i *wire.NodeInfo) {
		i.Partitions = []wire.Partition{part("all", math.MaxUint64, "storage", "state")}
	})
	for _, c := range []struct {
		name           string
		storage, state int64
	}{{"small", 4000, 800}, {"stores", 5001, 0}, {"keeps", 0, 901}} {
		amounts := items.Amounts{Storage: c.storage, State: c.state}
		u.has(items.Meta{Type: items.Service, Codename: c.name, Version: "1.0.0", Quotas: amounts,
			Requested: amounts}, items.File)
		u.Subject(items.Subject{Codename: c.name, Type: items.Group,
			Items: []items.Attachment{{Type: items.Service, Codename: c.name}}})
	}
	p := u.decide()
	if n1, n2 := p.Nodes[0].Instances, p.Nodes[1].Instances; len(n1) != 1 || n1[0].Codename != "small" ||
		len(n2) != 2 || n1[0].Storage != 4000 || n1[0].State != 800 {
		t.Errorf("%+v\n%+v", n1, n2)
	}
	u.Nodes = u.Nodes[:1]
	const want = "n1/process: 5001 bytes of storage are needed and 1000 free, held by small of small, instance 0"
	if got := words(u.decide()); !strings.Contains(got, want) {
		t.Errorf("%s", got)
	}
}
