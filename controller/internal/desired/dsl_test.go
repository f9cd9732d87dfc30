package desired_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/desired"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/items"
	"tandem.internal/shared/unitconfig"
)

// parseInput reads a unit from lines such as
//
//	node a cpu=1000 ram=1000 prio=5 labels=x,y res=cam:1 arch=amd64 off=PT10S type=t ratio=50 disk=storage+state:9
//	item service s 1.0.0 cpu=400 stores=5 keeps=5 prio=5 needs=layer:l:>=1.0.0 not=service:d ports=80 state=ready
//	subject S1 prio=2 nodes=a items=service:s:=1.0.0 env=A:1,B:2
//	runs service s 1.0.0 S1/0 a env=A:1
//	move s S1/0 a b
//
// Several needs or items have | between them. Of each node and item what is not said is as in the fixture: 1000 DMIPS
// and bytes, one runtime crun for amd64, priority 0.
func parseInput(t testing.TB, text string) *desired.Input {
	in := &desired.Input{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		var plain []string
		set := map[string]string{}
		for _, word := range f[1:] {
			if name, value, ok := strings.Cut(word, "="); ok && name != "" && !strings.ContainsAny(name, "<>:") {
				set[name] = value
			} else {
				plain = append(plain, word)
			}
		}
		l := dslLine{t, line, set}
		switch f[0] {
		case "node":
			in.Nodes = append(in.Nodes, l.node(plain[0]))
		case "item":
			in.Items = append(in.Items, l.item(plain))
		case "subject":
			in.Subjects = append(in.Subjects, l.subject(plain[0]))
		case "runs":
			subject, index, _ := strings.Cut(plain[3], "/")
			in.Current.Instances = append(in.Current.Instances, items.Instance{Type: items.Type(plain[0]),
				Codename: plain[1], Version: plain[2], Subject: subject, Index: l.number(index), Node: plain[4],
				Runtime: "crun", EnvDigest: l.env().Digest()})
		case "has":
			in.Current.Layers = append(in.Current.Layers, items.InstalledLayer{Node: plain[0], Codename: plain[1],
				Version: plain[2]})
		case "move":
			subject, index, _ := strings.Cut(plain[1], "/")
			in.Moves = append(in.Moves, desired.ReliefMove{Codename: plain[0], Subject: subject, Index: l.number(index),
				From: plain[2], To: plain[3]})
		case "evict":
			d, err := time.ParseDuration(plain[0])
			l.check(err)
			in.EvictAfter = d
		case "preempt":
			in.Preempt = true
		default:
			t.Fatalf("no such line: %s", line)
		}
	}
	return in
}

type dslLine struct {
	t    testing.TB
	line string
	set  map[string]string
}

func (l dslLine) check(err error) {
	if err != nil {
		l.t.Fatalf("%s: %v", l.line, err)
	}
}

func (l dslLine) number(s string) int {
	if s == "" {
		return 0
	}
	n, err := strconv.Atoi(s)
	l.check(err)
	return n
}

func (l dslLine) or(name, otherwise string) string {
	if v, ok := l.set[name]; ok {
		return v
	}
	return otherwise
}

func (l dslLine) list(name, sep string) []string {
	if l.set[name] == "" {
		return nil
	}
	return strings.Split(l.set[name], sep)
}

func (l dslLine) env() (all items.Env) {
	for _, spec := range l.list("env", ",") {
		name, text, _ := strings.Cut(spec, ":")
		all = all.With(items.Env{name: text})
	}
	return all
}

func (l dslLine) versions(s string) items.Range {
	if s == "" {
		return items.Range{}
	}
	r, err := items.ParseRange(s)
	l.check(err)
	return r
}

func (l dslLine) node(id string) desired.Node {
	info := &items.Node{Node: id, Type: l.or("type", "t"), State: items.NodeState(l.or("state", "provisioned")),
		CPU: int64(l.number(l.or("cpu", "1000"))), RAM: int64(l.number(l.or("ram", "1000"))),
		Subjects: l.list("reports", ","), Used: items.Amounts{CPU: int64(l.number(l.set["used"])),
			State: int64(l.number(l.set["kept"]))}}
	if off := l.set["off"]; off != "" {
		d, err := duration.Parse(off)
		l.check(err)
		info.OfflineFor = duration.Duration(d)
	}
	for _, name := range strings.Split(l.or("rt", "crun"), ",") {
		if name == "" {
			continue
		}
		r := items.Runtime{ID: name, Type: name, Architecture: l.or("arch", "amd64"),
			MaxInstances: l.number(l.set["max"])}
		if c := l.set["rtcpu"]; c != "" {
			n := int64(l.number(c))
			r.CPU = &n
		}
		info.Runtimes = append(info.Runtimes, r)
	}
	for _, spec := range l.list("res", ",") {
		name, n, _ := strings.Cut(spec, ":")
		info.Resources = append(info.Resources, items.Resource{Name: name, Shared: l.number(n)})
	}
	for _, spec := range l.list("dev", ",") {
		name, n, _ := strings.Cut(spec, ":")
		info.Devices = append(info.Devices, items.Resource{Name: name, Shared: l.number(n)})
	}
	for _, spec := range l.list("disk", ",") {
		name, size, _ := strings.Cut(spec, ":")
		info.Partitions = append(info.Partitions, items.Partition{Name: name, TotalSize: int64(l.number(size)),
			Types: strings.Split(name, "+")})
	}
	ratio := l.number(l.or("ratio", "50"))
	return desired.Node{Info: info, Labels: l.list("labels", ","), Priority: l.number(l.set["prio"]),
		Ratios: unitconfig.ResourceRatios{CPU: ratio, RAM: ratio, Storage: ratio, State: ratio}}
}

func (l dslLine) item(f []string) items.Item {
	it := items.Item{State: items.State(l.or("state", "ready")), Meta: items.Meta{Type: items.Type(f[0]),
		Codename: f[1], Version: f[2], Priority: l.number(l.set["prio"]), Runtimes: l.list("rt", ","),
		Resources: l.list("res", ","), Devices: l.list("dev", ","), Hostname: l.set["host"], Env: l.env(),
		BalancingPolicy: items.Balancing(l.set["balancing"]),
		Quotas: items.Amounts{CPU: int64(l.number(l.set["cpu"])), RAM: int64(l.number(l.set["ram"])),
			Storage: int64(l.number(l.set["stores"])), State: int64(l.number(l.set["keeps"]))},
		Requested: items.Amounts{CPU: int64(l.number(l.set["asks"]))}}}
	for _, arch := range l.list("arch", ",") {
		it.Meta.Platforms = append(it.Meta.Platforms, items.Platform{Architecture: arch})
	}
	for _, p := range l.list("ports", ",") {
		it.Meta.Ports = append(it.Meta.Ports, items.Port{Port: l.number(p), Protocol: items.TCP})
	}
	for _, ref := range l.list("not", "|") {
		typ, name, _ := strings.Cut(ref, ":")
		it.Meta.SuppressItems = append(it.Meta.SuppressItems, items.Ref{Type: items.Type(typ), Codename: name})
	}
	for _, spec := range l.list("needs", "|") {
		p := append(strings.Split(spec, ":"), "", "", "")
		d := items.Dependency{Type: items.Type(p[0]), Codename: p[1], Versions: l.versions(p[2]),
			Condition: items.Started, IncludePreRelease: l.set["pre"] != ""}
		if p[3] != "" {
			d.Condition = items.Condition(p[3])
		}
		it.Meta.Dependencies = append(it.Meta.Dependencies, d)
	}
	return it
}

func (l dslLine) subject(name string) items.Subject {
	s := items.Subject{Codename: name, Type: items.SubjectType(l.or("type", "group")),
		Priority: l.number(l.set["prio"]), Nodes: l.list("nodes", ","), Reported: l.set["reported"] != ""}
	for _, spec := range l.list("items", "|") {
		p := append(strings.Split(spec, ":"), "", "", "")
		a := items.Attachment{Type: items.Type(p[0]), Codename: p[1], Versions: l.versions(p[2]),
			Labels: l.list("labels", ","), IncludePreRelease: l.set["pre"] != ""}
		if a.Type == items.Service {
			a.Instances, a.Env = max(1, l.number(p[3])), l.env()
		}
		s.Items = append(s.Items, a)
	}
	return s
}

// render writes a plan in lines: each node with what it has and what is to be done, then the reasons.
func render(p *desired.Plan) string {
	var b strings.Builder
	for _, n := range p.Nodes {
		if len(n.Instances)+len(n.Layers) == 0 {
			continue
		}
		b.WriteString(n.Node + ":")
		for _, i := range n.Instances {
			fmt.Fprintf(&b, " %s@%s/%s/%d", i.Codename, i.Version, i.Subject, i.Index)
			if i.CPU > 0 {
				fmt.Fprintf(&b, "=%d", i.CPU)
			}
			if i.Storage+i.State > 0 {
				fmt.Fprintf(&b, ",disk=%d+%d", i.Storage, i.State)
			}
			for _, v := range i.Env {
				fmt.Fprintf(&b, ",%s=%s(%.1s)", v.Name, v.Text, v.From)
			}
			if i.Platform != nil {
				b.WriteString("," + i.Platform.Architecture)
			}
		}
		for _, l := range n.Layers {
			fmt.Fprintf(&b, " layer %s@%s", l.Codename, l.Version)
		}
		b.WriteString("\n")
	}
	chosen := map[string]desired.Choice{}
	for _, n := range p.Nodes {
		for _, i := range n.Instances {
			chosen[n.Node+i.Codename+i.Subject] = i.Chosen
		}
		for _, c := range n.Changes {
			fmt.Fprintf(&b, "%s %s %s@%s", c.Do, n.Node, c.Codename, c.Version)
			if c.From != "" {
				b.WriteString(" from " + c.From)
			}
			if c.FromNode+c.ToNode != "" {
				b.WriteString(" " + c.FromNode + ">" + c.ToNode)
			}
			if c.Do == desired.Move && chosen[n.Node+c.Codename+c.Subject] == desired.ByRelief {
				b.WriteString(" relief")
			}
			if c.Env {
				b.WriteString(" env")
			}
			b.WriteString("\n")
		}
	}
	for _, r := range p.Reasons {
		b.WriteString(renderReason(r) + "\n")
	}
	return b.String()
}

func renderReason(r desired.Reason) string {
	s := string(r.Reason) + " " + r.Codename + "@" + r.Version + "/" + r.Subject
	if r.Index != nil {
		s += "/" + strconv.Itoa(*r.Index)
	}
	if r.By != nil {
		s += " by " + r.By.Codename + "@" + r.By.Version + "/" + r.By.Subject
	}
	if r.Rule != "" {
		s += " rule " + string(r.Rule) + " " + r.About
	}
	if r.Needs != nil {
		s += " needs " + r.Needs.Codename + " " + r.Needs.Range
		if r.Needs.Reason != "" {
			s += " (" + string(r.Needs.Reason) + ")"
		}
		if r.Needs.Of != nil {
			s += " of " + r.Needs.Of.Codename + "@" + r.Needs.Of.Version
		}
	}
	for _, p := range r.Path {
		s += " -> " + p.Codename
	}
	if r.Emptied != "" {
		s += " emptied by " + string(r.Emptied)
	}
	for _, f := range r.Refusals {
		s += fmt.Sprintf("; %s %s", f.Node, f.Filter)
		if f.About != "" {
			s += " " + f.About
		}
		if f.Needed > 0 {
			s += fmt.Sprintf(" %d/%d", f.Needed, f.Available)
		}
		for _, h := range f.Holders {
			s += fmt.Sprintf(" [%s/%s/%d]", h.Codename, h.Subject, h.Index)
		}
	}
	return s
}

func decide(t interface {
	Helper()
	Fatal(...any)
}, in *desired.Input) *desired.Plan {
	t.Helper()
	p, err := desired.Make(in)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
