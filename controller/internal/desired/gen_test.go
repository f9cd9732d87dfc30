package desired_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"tandem.internal/controller/internal/desired"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/items"
	"tandem.internal/shared/unitconfig"
)

// drawn draws units that are small and have much to quarrel about.
type drawn struct{ *rapid.T }

func (t drawn) upTo(most int, name string) int       { return rapid.IntRange(0, most).Draw(t.T, name) }
func (t drawn) one(name string, of ...string) string { return rapid.SampledFrom(of).Draw(t.T, name) }
func (t drawn) rarely(name string) bool              { return rapid.IntRange(0, 4).Draw(t.T, name) == 4 }

func (t drawn) some(name string, of ...string) []string {
	return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 0, len(of), rapid.ID[string]).Draw(t.T, name)
}

// versionsOf are those that items may have.
var versionsOf = []string{"1.0.0", "1.5.0", "2.0.0-rc.1", "2.0.0"}

func (t drawn) versions(name string) items.Range {
	text := t.one(name, "", "", ">=1.0.0", "<2.0.0", "=1.5.0", "^1.0.0", ">=1.5.0,<=2.0.0", ">=2.0.0", ">1.0.0-0")
	if text == "" {
		return items.Range{}
	}
	r, err := items.ParseRange(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var refs = []items.Ref{{Type: items.Component, Codename: "k0"}, {Type: items.Component, Codename: "k1"},
	{Type: items.Service, Codename: "s0"}, {Type: items.Service, Codename: "s1"}, {Type: items.Service, Codename: "s2"},
	{Type: items.Service, Codename: "s3"}, {Type: items.Layer, Codename: "l0"}, {Type: items.Layer, Codename: "l1"},
	{Type: items.Layer, Codename: "l2"}, {Type: items.Layer, Codename: "l3"}}

func (t drawn) item(ref items.Ref, version string, deprecated bool) items.Item {
	states := []string{"ready", "ready", "ready", "preparation"}
	if deprecated {
		states = append(states, "deprecated")
	}
	it := items.Item{State: items.State(t.one("state", states...)), Meta: items.Meta{Codename: ref.Codename,
		Type: ref.Type, Version: version, Priority: t.upTo(3, "priority")}}
	m := &it.Meta
	for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, len(refs)-1), 0, 2, rapid.ID[int]).Draw(t.T, "needs") {
		d := items.Dependency{Type: refs[i].Type, Codename: refs[i].Codename, Versions: t.versions("range"),
			IncludePreRelease: t.rarely("pre"), Condition: items.Condition(t.one("condition", "started", "started",
				"healthy", "completed", "before", "after"))}
		// layers need layers further on, but for a rare cycle; so that much can be there
		further := refs[i].Type == items.Layer && refs[i].Codename > ref.Codename
		if refs[i] != ref && (ref.Type != items.Layer || further || t.rarely("loop")) {
			m.Dependencies = append(m.Dependencies, d)
		}
	}
	if t.rarely("platforms") {
		for _, arch := range t.some("architectures", "amd64", "arm64") {
			m.Platforms = append(m.Platforms, items.Platform{Architecture: arch})
		}
	}
	if ref.Type == items.Layer {
		return it
	}
	m.Runtimes = t.some("runtimes", "crun", "boot")
	if t.rarely("suppresses") {
		for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, 5), 0, 2, rapid.ID[int]).Draw(t.T, "suppress") {
			if refs[i] != ref {
				m.SuppressItems = append(m.SuppressItems, refs[i])
			}
		}
	}
	if ref.Type == items.Service {
		m.Quotas = items.Amounts{CPU: int64(t.upTo(9, "cpu")) * 111, RAM: int64(t.upTo(9, "ram")) * 222}
		if rapid.Bool().Draw(t.T, "stores") {
			m.Quotas.Storage, m.Quotas.State = int64(t.upTo(9, "storage"))*100, int64(t.upTo(9, "state"))*100
			if m.Quotas.State > 0 && t.rarely("asks for state") {
				m.Requested.State = int64(t.upTo(900, "asks"))
			}
		}
		if m.Quotas.CPU > 0 && t.rarely("requests") {
			m.Requested.CPU = int64(t.upTo(900, "requested"))
		}
		m.Resources, m.Devices = t.some("resources", "cam", "i2c"), t.some("devices", "can0")
		m.Env = t.env()
		if t.rarely("stays") {
			m.BalancingPolicy = items.Unbalanced
		}
		if t.rarely("ports") {
			m.Ports = []items.Port{{Port: 80, Protocol: items.TCP}, {Port: 81, Protocol: items.UDP}}
		}
		if t.rarely("host") {
			m.Hostname = t.one("hostname", "h", "g")
		}
	}
	return it
}

func (t drawn) env() items.Env {
	if !t.rarely("env") {
		return nil
	}
	all := items.Env{}
	for _, name := range t.some("variables", "A", "B", "C") {
		all[name] = t.one("text", "", "1", "2")
	}
	return all
}

func (t drawn) node(i int) desired.Node {
	n := &items.Node{Node: fmt.Sprintf("n%d", i), Type: t.one("type", "S1", "y"), CPU: 1000, RAM: 1000,
		State: items.NodeState(t.one("nodestate", "provisioned", "provisioned", "provisioned", "paused",
			"unprovisioned")),
		Used: items.Amounts{CPU: int64(t.upTo(500, "used"))}}
	if t.rarely("offline") {
		n.OfflineFor = duration.Duration(time.Duration(1+t.upTo(1, "for")) * time.Minute)
	}
	for _, id := range t.some("has", "crun", "boot", "crun2") {
		r := items.Runtime{ID: id, Type: id[:4], Architecture: t.one("arch", "amd64", "arm64"),
			MaxInstances: t.upTo(3, "max")}
		if t.rarely("allowance") {
			cpu := int64(t.upTo(600, "allowed"))
			r.CPU = &cpu
		}
		n.Runtimes = append(n.Runtimes, r)
	}
	for _, name := range t.some("shares", "cam", "i2c") {
		n.Resources = append(n.Resources, items.Resource{Name: name, Shared: t.upTo(2, "shared")})
	}
	switch t.upTo(3, "partitions") {
	case 0:
		n.Partitions = []items.Partition{{Name: "all", Types: []string{"log", items.ForState, items.ForStorage},
			TotalSize: 1000 - int64(t.upTo(900, "taken"))}}
		n.Used.Storage, n.Used.State = int64(t.upTo(100, "stored")), int64(t.upTo(100, "kept"))
	case 1:
		n.Partitions = []items.Partition{{Name: "s", Types: []string{items.ForStorage},
			TotalSize: 1000 - int64(t.upTo(900, "taken"))}, {Name: "k", Types: []string{items.ForState},
			TotalSize: 1000 - int64(t.upTo(900, "taken"))}}
	}
	n.Devices = []items.Resource{{Name: "can0", Shared: t.upTo(2, "device")}}
	n.Subjects = t.some("reports", "S0", "S1", "S2")
	return desired.Node{Info: n, Labels: t.some("labels", "x", "y"), Priority: t.upTo(2, "nodeprio"),
		Ratios: unitconfig.ResourceRatios{CPU: t.upTo(100, "cpuratio"), RAM: 50, Storage: t.upTo(100, "storageratio"),
			State: 50}}
}

func (t drawn) subject(i int) items.Subject {
	s := items.Subject{Codename: fmt.Sprintf("S%d", i), Type: items.Group, Priority: t.upTo(2, "subjectprio"),
		Reported: t.rarely("reported")}
	switch t.upTo(3, "kind") {
	case 0:
		s.Type = items.NodeType
	case 1:
		s.Nodes = t.some("nodes", "n0", "n1", "n2", "n9")
	}
	for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, 5), 1, 5, rapid.ID[int]).Draw(t.T, "items") {
		a := items.Attachment{Type: refs[i].Type, Codename: refs[i].Codename, Versions: t.versions("attached"),
			IncludePreRelease: t.rarely("attachedpre")}
		if t.rarely("labelled") {
			a.Labels = t.some("needlabels", "x", "y")
		}
		if a.Type == items.Service {
			a.Instances, a.Env = 1+t.upTo(2, "instances"), t.env()
		}
		s.Items = append(s.Items, a)
	}
	return s
}

// unit draws a unit. deprecated: items may be.
func (t drawn) unit(deprecated bool) *desired.Input {
	in := &desired.Input{}
	for _, ref := range refs {
		for _, v := range versionsOf {
			if rapid.IntRange(0, 2).Draw(t.T, "there") > 0 {
				in.Items = append(in.Items, t.item(ref, v, deprecated))
			}
		}
	}
	for i := range 1 + t.upTo(4, "nodes") {
		in.Nodes = append(in.Nodes, t.node(i))
	}
	for i := range 1 + t.upTo(2, "subjects") {
		in.Subjects = append(in.Subjects, t.subject(i))
	}
	if t.rarely("evict") {
		in.EvictAfter = 90 * time.Second
	}
	return in
}

// running draws a unit in which something runs: what was planned for another one of the same nodes.
func (t drawn) running(deprecated bool) *desired.Input {
	in, before := t.unit(deprecated), t.unit(false)
	before.Nodes = in.Nodes
	in.Current = currentOf(decide(t, before))
	for _, i := range in.Current.Instances {
		if n := in.Nodes[0].Info; i.Node != n.Node && len(n.Runtimes) > 0 && t.rarely("twice") {
			i.Node, i.Runtime = n.Node, n.Runtimes[0].ID // it runs there, too
			if !slices.ContainsFunc(in.Current.Instances, func(o items.Instance) bool {
				return o.Codename == i.Codename && o.Node == i.Node && o.Runtime == i.Runtime
			}) {
				in.Current.Instances = append(in.Current.Instances, i)
			}
		}
	}
	return in
}

// settled draws a unit in which what is planned runs, on nodes that take part. Each has a twin, named t and a number.
func (t drawn) settled() *desired.Input {
	in := t.unit(false)
	for i := range in.Subjects {
		in.Subjects[i].Reported = false
	}
	for _, n := range slices.Clone(in.Nodes) {
		n.Info.State, n.Info.OfflineFor = items.Provisioned, 0
		twin := *n.Info
		twin.Node, n.Info = "t"+twin.Node[1:], &twin
		in.Nodes = append(in.Nodes, n)
	}
	in.Current = currentOf(decide(t, in))
	return in
}

// moved is a unit that is running, with some moves of what runs and of what does not.
func (t drawn) moved() *desired.Input {
	in := t.running(true)
	if rapid.Bool().Draw(t.T, "settled") {
		in = t.settled()
	}
	for range t.upTo(3, "moves") {
		m := desired.ReliefMove{Codename: "s0", Subject: "S0"}
		if len(in.Current.Instances) > 0 {
			i := rapid.SampledFrom(in.Current.Instances).Draw(t.T, "runs")
			m = desired.ReliefMove{Codename: i.Codename, Subject: i.Subject, Index: i.Index, From: i.Node}
		}
		if t.rarely("from elsewhere") {
			m.From = rapid.SampledFrom(in.Nodes).Draw(t.T, "from").Info.Node
		}
		m.To = "t" + m.From[min(len(m.From), 1):] // its twin
		if t.rarely("to elsewhere") {
			m.To = rapid.SampledFrom(in.Nodes).Draw(t.T, "to").Info.Node
		}
		m.Because = desired.Overload{Node: m.From, Parameter: desired.CPU}
		in.Moves = append(in.Moves, m)
	}
	return in
}

// currentOf is what runs once a plan is carried out.
func currentOf(p *desired.Plan) (c items.Current) {
	for _, n := range p.Nodes {
		for _, i := range n.Instances {
			c.Instances = append(c.Instances, items.Instance{Type: i.Type, Codename: i.Codename, Version: i.Version,
				Subject: i.Subject, Index: i.Index, Node: n.Node, Runtime: i.Runtime, EnvDigest: i.EnvDigest})
		}
		for _, l := range n.Layers {
			c.Layers = append(c.Layers, items.InstalledLayer{Node: n.Node, Codename: l.Codename, Version: l.Version})
		}
	}
	return c
}

// shuffled is an input with every list whose order means nothing in another order.
func shuffled(in *desired.Input, seed uint64) *desired.Input {
	r := rand.New(rand.NewPCG(seed, 1))
	out := *in
	out.Moves = mixed(r, in.Moves)
	out.Items, out.Subjects, out.Nodes = mixed(r, in.Items), mixed(r, in.Subjects), mixed(r, in.Nodes)
	out.Current = items.Current{Instances: mixed(r, in.Current.Instances), Layers: mixed(r, in.Current.Layers)}
	for i := range out.Items {
		m := &out.Items[i].Meta
		m.Dependencies, m.SuppressItems, m.Runtimes = mixed(r, m.Dependencies), mixed(r, m.SuppressItems),
			mixed(r, m.Runtimes)
		m.Resources, m.Devices, m.Ports = mixed(r, m.Resources), mixed(r, m.Devices), mixed(r, m.Ports)
	}
	for i := range out.Subjects {
		s := &out.Subjects[i]
		s.Nodes, s.Items = mixed(r, s.Nodes), mixed(r, s.Items)
		for k := range s.Items {
			s.Items[k].Labels = mixed(r, s.Items[k].Labels)
		}
	}
	for i := range out.Nodes {
		n := *out.Nodes[i].Info
		n.Runtimes, n.Resources, n.Devices = mixed(r, n.Runtimes), mixed(r, n.Resources), mixed(r, n.Devices)
		n.Partitions = mixed(r, n.Partitions)
		n.Subjects = mixed(r, n.Subjects)
		out.Nodes[i].Info, out.Nodes[i].Labels = &n, mixed(r, out.Nodes[i].Labels)
	}
	return &out
}

func mixed[T any](r *rand.Rand, all []T) []T {
	out := append([]T(nil), all...)
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

func bytesOf(v any) string {
	text, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return err.Error()
	}
	return string(text)
}
