package items

import (
	"regexp"
	"strconv"

	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// Parse reads the metadata of an item strictly. What it leaves out is set, except for the version.
func Parse(data []byte) (*Meta, Problems) { return read(data, MaxDocument, reader.meta) }

// ParseItem reads a version of an item strictly.
func ParseItem(data []byte) (*Item, Problems) { return read(data, MaxDocument, reader.item) }

// uuid is what an ID looks like (RFC 9562); urn what a URN does (RFC 8141).
var uuid, urn = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`),
	regexp.MustCompile(`^urn:[A-Za-z0-9][A-Za-z0-9-]{0,30}[A-Za-z0-9]:[!-~]+$`)

// ValidID reports whether an item may have an ID.
func ValidID(id string) bool { return uuid.MatchString(id) }

func (r reader) item(a at, it *Item) {
	metaAt := a
	r.Object(a,
		may("id", &it.ID, func(a at) string { return r.shaped(a, uuid, "a UUID in lower case (RFC 9562)") }),
		may("urn", &it.URN, func(a at) string { return r.shaped(a, urn, "a URN (RFC 8141)") }),
		must("state", &it.State, among(r, Preparation, Ready, Deprecated)),
		may("digest", &it.Digest, r.digest),
		strictjson.Required("meta", func(a at) { metaAt = a; r.meta(a, &it.Meta) }),
	)
	if it.Meta.Version == "" && it.Meta.Codename != "" && !r.Over() {
		r.Add(at{Ptr: strictjson.Member(metaAt.Ptr, "version"), Off: metaAt.Off}, wire.CodeMissing,
			"the metadata of a version has to have the version")
	}
}

func (r reader) digest(a at) string {
	s, ok := r.Str(a)
	if ok && !wire.ValidHash(s) {
		r.Bad(a, strictjson.Show(s)+" is no digest: sha256: and 64 hexadecimal digits")
	}
	return s
}

// shaped reads a text of at most MaxText bytes that has a shape.
func (r reader) shaped(a at, shape *regexp.Regexp, name string) string {
	s, ok := r.Str(a)
	if ok && (len(s) > MaxText || !shape.MatchString(s)) {
		r.Bad(a, strictjson.Show(s)+" is not "+name)
	}
	return s
}

// only is a field that only one type of item has.
type only struct {
	name string
	at   at
	of   Type
}

func (r reader) meta(a at, m *Meta) {
	needsAt, suppressAt, requestedAt := a, a, a
	var given []only
	of := func(t Type, f strictjson.Field) strictjson.Field {
		read := f.Read
		f.Read = func(a at) {
			given = append(given, only{f.Name, a, t})
			read(a)
		}
		return f
	}
	ok := r.Object(a,
		must("codename", &m.Codename, r.name),
		must("type", &m.Type, among(r, Component, Layer, Service)),
		may("version", &m.Version, r.version),
		may("description", &m.Description, r.long),
		may("owner", &m.Owner, r.text),
		may("priority", &m.Priority, r.priority),
		may("platforms", &m.Platforms, list(r, MaxList, "platform", r.platform, Platform.key)),
		may("runtimes", &m.Runtimes, r.texts("runtime")),
		strictjson.Optional("dependencies", func(a at) {
			needsAt = a
			m.Dependencies = list(r, MaxList, "dependency on", r.dependency,
				func(d Dependency) string { return r.key(d.Ref()) })(a)
		}),
		strictjson.Optional("suppressItems", func(a at) {
			suppressAt = a
			m.SuppressItems = list(r, MaxList, "item", r.ref, r.key)(a)
		}),
		of(Service, may("quotas", &m.Quotas, r.amounts)),
		of(Service, may("requested", &m.Requested, func(a at) Amounts { requestedAt = a; return r.amounts(a) })),
		of(Service, may("resources", &m.Resources, r.texts("resource"))),
		of(Service, may("devices", &m.Devices, r.texts("device"))),
		of(Service, may("ports", &m.Ports, list(r, MaxList, "port", r.port, Port.String))),
		of(Service, may("hostname", &m.Hostname, r.name)),
		of(Service, may("env", &m.Env, r.env)),
		of(Service, may("network", &m.Network, among(r, NoNetwork, NodeNetwork))),
		of(Service, may("balancingPolicy", &m.BalancingPolicy, among(r, Balanced, Unbalanced))),
	)
	if !ok || m.Codename == "" {
		return
	}
	for _, g := range given {
		if m.Type != g.of && (m.Type == Layer || m.Type == Component) {
			r.Bad(g.at, g.name+" is of a "+string(g.of)+"; this is a "+string(m.Type))
		}
	}
	r.between(m, needsAt, suppressAt, requestedAt)
}

// between checks what holds between fields.
func (r reader) between(m *Meta, needsAt, suppressAt, requestedAt at) {
	if m.Type == Layer && len(m.SuppressItems) > 0 {
		r.Bad(suppressAt, "a layer is there for what needs it, and suppresses nothing")
	}
	for i, s := range m.SuppressItems {
		here := at{Ptr: suppressAt.Ptr + "/" + strconv.Itoa(i), Off: suppressAt.Off}
		switch {
		case s == m.Ref():
			r.Bad(here, "the item suppresses itself")
		case s.Type == Layer:
			r.Bad(here, "a layer is there for what needs it, and is not suppressed")
		}
	}
	for i := range m.Dependencies {
		if d := &m.Dependencies[i]; d.Ref() == m.Ref() {
			r.Bad(at{Ptr: needsAt.Ptr + "/" + strconv.Itoa(i), Off: needsAt.Off}, "the item depends on itself")
		}
	}
	for _, q := range []struct {
		name             string
		requested, quota int64
	}{{"cpu", m.Requested.CPU, m.Quotas.CPU}, {"ram", m.Requested.RAM, m.Quotas.RAM},
		{"storage", m.Requested.Storage, m.Quotas.Storage}, {"state", m.Requested.State, m.Quotas.State}} {
		if q.requested > 0 && q.quota == 0 {
			r.Bad(at{Ptr: strictjson.Member(requestedAt.Ptr, q.name), Off: requestedAt.Off},
				"what is requested needs a quota of "+q.name)
		}
	}
}

func (r reader) key(f Ref) string {
	if f.Codename == "" || f.Type == "" {
		return ""
	}
	return f.String()
}

func (r reader) ref(a at) (f Ref) {
	r.Object(a,
		must("type", &f.Type, among(r, Component, Layer, Service)),
		must("codename", &f.Codename, r.name),
	)
	return f
}

func (r reader) platform(a at) (p Platform) {
	r.Object(a,
		must("architecture", &p.Architecture, r.text),
		may("variant", &p.Variant, r.text),
		may("os", &p.OS, r.text),
		may("osFeatures", &p.OSFeatures, r.texts("feature")),
	)
	return p
}

// key tells platforms apart.
func (p Platform) key() string {
	if p.Architecture == "" {
		return ""
	}
	s := p.Architecture
	for _, part := range append([]string{p.Variant, p.OS}, p.OSFeatures...) {
		s += "/" + part
	}
	return s
}

func (r reader) dependency(a at) (d Dependency) {
	rangeAt := a
	ok := r.Object(a,
		must("type", &d.Type, among(r, Component, Layer, Service)),
		must("codename", &d.Codename, r.name),
		may("versions", &d.Versions, func(a at) Range { rangeAt = a; return r.versions(a) }),
		may("includePreRelease", &d.IncludePreRelease, r.flag),
		may("condition", &d.Condition, among(r, Started, Healthy, Completed, Before, After)),
	)
	if ok {
		r.reachable(rangeAt, &d.Versions, d.IncludePreRelease)
	}
	if d.Condition == "" {
		d.Condition = Started
	}
	return d
}

func (r reader) amounts(a at) (q Amounts) {
	r.Object(a, may("cpu", &q.CPU, r.cpu), may("ram", &q.RAM, r.bytes), may("storage", &q.Storage, r.bytes),
		may("state", &q.State, r.bytes))
	return q
}

func (r reader) port(a at) (p Port) {
	r.Object(a,
		must("port", &p.Port, whole[int](r, "a port", 1, 65535)),
		may("protocol", &p.Protocol, among(r, TCP, UDP)),
	)
	if p.Protocol == "" {
		p.Protocol = TCP
	}
	return p
}

// String is the port as people write it: 80/tcp.
func (p Port) String() string {
	if p.Port == 0 {
		return ""
	}
	return strconv.Itoa(p.Port) + "/" + string(p.Protocol)
}
