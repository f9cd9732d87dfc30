package items

import (
	"fmt"
	"slices"

	"tandem.internal/shared/strictjson"
)

// ParseSubject reads a subject strictly.
func ParseSubject(data []byte) (*Subject, Problems) { return read(data, MaxDocument, reader.subject) }

// ParseNode reads what a node tells of itself.
func ParseNode(data []byte) (*Node, Problems) { return read(data, MaxDocument, reader.node) }

// ParseCurrent reads what runs now.
func ParseCurrent(data []byte) (*Current, Problems) { return read(data, MaxCurrent, reader.current) }

func (r reader) subject(a at, s *Subject) {
	nodesAt := a
	r.Object(a,
		must("codename", &s.Codename, r.name),
		must("type", &s.Type, among(r, Group, User, NodeType)),
		may("priority", &s.Priority, r.priority),
		may("reported", &s.Reported, r.flag),
		may("nodes", &s.Nodes, func(a at) []string {
			nodesAt = a
			all := r.names(MaxAttached, "node")(a)
			if len(all) == 0 && !r.Over() {
				r.Bad(a, "a subject is attached to some node; leave nodes out for the unit")
			}
			return all
		}),
		may("items", &s.Items, list(r, MaxAttached, "item", r.attachment,
			func(t Attachment) string { return r.key(t.Ref()) })),
	)
	if s.Type == NodeType && len(s.Nodes) > 0 {
		r.Bad(nodesAt, "the subject of a node type has the nodes of that type")
	}
}

func (r reader) attachment(a at) (t Attachment) {
	rangeAt, countAt, envAt, hasEnv := a, a, a, false
	ok := r.Object(a,
		must("type", &t.Type, among(r, Component, Service)),
		must("codename", &t.Codename, r.name),
		may("versions", &t.Versions, func(a at) Range { rangeAt = a; return r.versions(a) }),
		may("includePreRelease", &t.IncludePreRelease, r.flag),
		may("instances", &t.Instances, func(a at) int {
			countAt = a
			return whole[int](r, "a number of instances", 1, MaxInstances)(a)
		}),
		may("labels", &t.Labels, r.texts("label")),
		may("env", &t.Env, func(a at) Env { envAt, hasEnv = a, true; return r.env(a) }),
	)
	if ok {
		r.reachable(rangeAt, &t.Versions, t.IncludePreRelease)
		if t.Type == Component && t.Instances > 0 {
			r.Bad(countAt, "a component is once per node, and has no number of instances")
		}
		if t.Type == Component && hasEnv {
			r.Bad(envAt, "env is of a service; this is a component")
		}
	}
	if t.Type == Service && t.Instances == 0 {
		t.Instances = 1
	}
	return t
}

func (r reader) node(a at, n *Node) {
	r.Object(a,
		must("node", &n.Node, r.name),
		may("type", &n.Type, r.text),
		may("state", &n.State, among(r, Provisioned, Unprovisioned, Paused, Failed)),
		may("offlineFor", &n.OfflineFor, r.span),
		must("cpu", &n.CPU, r.cpu),
		must("ram", &n.RAM, r.bytes),
		may("used", &n.Used, r.amounts),
		may("partitions", &n.Partitions, r.partitions()),
		may("runtimes", &n.Runtimes, list(r, MaxList, "runtime", r.runtime, func(t Runtime) string { return t.ID })),
		may("resources", &n.Resources, r.shared("resource")),
		may("devices", &n.Devices, r.shared("device")),
		may("subjects", &n.Subjects, r.names(MaxAttached, "subject")),
	)
	if n.State == "" {
		n.State = Provisioned
	}
}

// partitions returns what reads the partitions of a node.
func (r reader) partitions() func(at) []Partition {
	has := map[string]string{}
	one := func(a at) (p Partition) {
		r.Object(a,
			must("name", &p.Name, r.text),
			must("types", &p.Types, r.texts("type")),
			must("totalSize", &p.TotalSize, r.bytes),
		)
		for _, t := range []string{ForStorage, ForState} {
			if other, twice := has[t]; twice && slices.Contains(p.Types, t) {
				r.Bad(a, fmt.Sprintf("%s is for %s already, and a node has one partition for it",
					strictjson.Show(other), t))
			} else if slices.Contains(p.Types, t) {
				has[t] = p.Name
			}
		}
		return p
	}
	return list(r, MaxList, "partition", one, func(p Partition) string { return p.Name })
}

func (r reader) runtime(a at) (t Runtime) {
	r.Object(a,
		must("id", &t.ID, r.text),
		must("type", &t.Type, r.text),
		must("architecture", &t.Architecture, r.text),
		may("variant", &t.Variant, r.text),
		may("os", &t.OS, r.text),
		may("osFeatures", &t.OSFeatures, r.texts("feature")),
		may("cpu", &t.CPU, func(a at) *int64 { v := r.cpu(a); return &v }),
		may("ram", &t.RAM, func(a at) *int64 { v := r.bytes(a); return &v }),
		may("maxInstances", &t.MaxInstances, whole[int](r, "a number of instances", 0, 1_000_000)),
	)
	return t
}

// shared returns what reads the resources or devices of a node.
func (r reader) shared(what string) func(at) []Resource {
	one := func(a at) (v Resource) {
		r.Object(a,
			must("name", &v.Name, r.text),
			may("shared", &v.Shared, whole[int](r, "a number of instances", 0, 1_000_000)),
		)
		return v
	}
	return list(r, 4*MaxList, what, one, func(v Resource) string { return v.Name })
}

func (r reader) current(a at, c *Current) {
	const most = 1_000_000 // the size of the file ends sooner
	r.Object(a,
		may("instances", &c.Instances, list(r, most, "instance", r.instance, Instance.key)),
		may("layers", &c.Layers, list(r, most, "layer", r.installed, InstalledLayer.key)),
	)
}

func (r reader) instance(a at) (i Instance) {
	indexAt, envAt := a, a
	ok := r.Object(a,
		must("type", &i.Type, among(r, Component, Service)),
		must("codename", &i.Codename, r.name),
		must("version", &i.Version, r.version),
		must("subject", &i.Subject, r.name),
		may("index", &i.Index, func(a at) int {
			indexAt = a
			return whole[int](r, "an index", 0, MaxInstances-1)(a)
		}),
		must("node", &i.Node, r.name),
		must("runtime", &i.Runtime, r.text),
		may("envDigest", &i.EnvDigest, func(a at) string { envAt = a; return r.digest(a) }),
	)
	if ok && i.Type == Component && i.Index > 0 {
		r.Bad(indexAt, "a component is once per node, and has index 0")
	}
	if ok && i.Type == Component && i.EnvDigest != "" {
		r.Bad(envAt, "a component has no environment of its own")
	}
	return i
}

// key tells what runs apart: at one place a service by subject and index, a component by itself. A service may run at
// several places, as when a node comes back whose instances were moved.
func (i Instance) key() string {
	switch {
	case i.Codename == "" || i.Node == "":
		return ""
	case i.Type == Component:
		return i.Ref().String() + " on " + i.Node + "/" + i.Runtime
	}
	return fmt.Sprintf("%s of %s, index %d, on %s/%s", i.Ref(), i.Subject, i.Index, i.Node, i.Runtime)
}

func (r reader) installed(a at) (l InstalledLayer) {
	r.Object(a,
		must("node", &l.Node, r.name),
		must("codename", &l.Codename, r.name),
		must("version", &l.Version, r.version),
	)
	return l
}

func (l InstalledLayer) key() string {
	if l.Codename == "" || l.Node == "" {
		return ""
	}
	return l.Codename + " " + l.Version + " on " + l.Node
}
