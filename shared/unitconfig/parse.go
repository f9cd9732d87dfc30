package unitconfig

import (
	"fmt"

	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// Parse reads a unit configuration strictly (seed 000, Configuration Format). If there is any
// problem, the configuration is nil and the problems say everything that one pass can find, up to
// MaxProblems. Two refusals stand alone, because they make the rest meaningless: a formatVersion
// that is another string than "7" (wrong-version), and a document too large or too deep.
func Parse(data []byte) (*UnitConfig, Problems) {
	uc := &UnitConfig{}
	ps := read(data, func(r *reader) { unitOf(r, uc) })
	if ps != nil {
		return nil, onlyVersion(ps)
	}
	return uc, nil
}

// ParseNode reads what EncodeNode writes, by the same strict rules. Absent resource ratios in a
// present object become 50, an absent priority 0. It does not ask for which node the document is:
// its envelope says so.
func ParseNode(data []byte) (*NodeConfig, Problems) {
	c := &NodeConfig{}
	ps := read(data, func(r *reader) {
		body := &entryFields{alertRules: &c.AlertRules, labels: &c.Labels, priority: &c.Priority}
		fields := append([]field{
			{"formatVersion", true, func(a at) { c.FormatVersion = formatOf(r, a) }},
			{"version", true, func(a at) { c.Version = versionOf(r, a) }},
			{"node", false, func(a at) { c.Node = new(Identity); identityOf(r, a, c.Node, nodeName) }},
			{"nodeGroupSubject", false, func(a at) { c.NodeGroupSubject = new(Identity); identityOf(r, a, c.NodeGroupSubject, shortText) }},
		}, body.fields(r)...)
		r.object(at{"", r.next()}, fields...)
		if body.ratios != nil {
			resolved := body.ratios.Resolved()
			c.ResourceRatios = &resolved
		}
	})
	if ps != nil {
		return nil, onlyVersion(ps)
	}
	return c, nil
}

// onlyVersion keeps nothing but a foreign format version, if that is among the problems.
func onlyVersion(ps Problems) Problems {
	for _, p := range ps {
		if p.Code == wire.CodeWrongVersion {
			return Problems{p}
		}
	}
	return ps
}

func unitOf(r *reader, uc *UnitConfig) {
	type owner struct{ entry int }
	nodes, types := make(map[string]owner), make(map[string]owner)
	r.object(at{"", r.next()},
		field{"formatVersion", true, func(a at) { uc.FormatVersion = formatOf(r, a) }},
		field{"version", true, func(a at) { uc.Version = versionOf(r, a) }},
		field{"nodes", true, func(a at) {
			r.array(a, MaxDocument, func(i int, e at) {
				var n NodeEntry
				ident := entryOf(r, e, &n)
				uc.Nodes = append(uc.Nodes, n)
				if ident.name == "" {
					return
				}
				claimed, what := types, "the node type "
				if n.Node != nil {
					claimed, what = nodes, "the node "
				}
				if first, taken := claimed[ident.name]; taken {
					r.add(ident.at, wire.CodeDuplicate, fmt.Sprintf("%s%s already has an entry, /nodes/%d", what, show(ident.name), first.entry))
					return
				}
				claimed[ident.name] = owner{i}
			})
		}},
	)
}

// identAt is the name that an entry goes by, and where it stands; "" if it has none that is valid.
type identAt struct {
	name string
	at   at
}

func entryOf(r *reader, a at, n *NodeEntry) identAt {
	var node, group identAt
	body := &entryFields{alertRules: &n.AlertRules, labels: &n.Labels, priority: &n.Priority}
	fields := append([]field{
		{"version", false, func(a at) { n.Version = versionOf(r, a) }},
		{"node", false, func(a at) { n.Node = new(Identity); node = identityOf(r, a, n.Node, nodeName) }},
		{"nodeGroupSubject", true, func(a at) { group = identityOf(r, a, &n.NodeGroupSubject, shortText) }},
	}, body.fields(r)...)
	r.object(a, fields...)
	n.ResourceRatios = body.ratios
	if n.Node != nil {
		return node
	}
	return group
}

// entryFields are the fields that an entry and a resolved node document have in common.
type entryFields struct {
	alertRules *AlertRules
	ratios     *EntryRatios
	labels     *[]string
	priority   *uint32
}

func (f *entryFields) fields(r *reader) []field {
	return []field{
		{"alertRules", false, func(a at) { rulesOf(r, a, f.alertRules) }},
		{"resourceRatios", false, func(a at) { f.ratios = ratiosOf(r, a) }},
		{"labels", false, func(a at) { *f.labels = labelsOf(r, a) }},
		{"priority", false, func(a at) {
			n, _ := wholeOf(r, a, 0, 1<<32-1, "a priority is a whole number from 0 to 4294967295")
			*f.priority = uint32(n)
		}},
	}
}

func formatOf(r *reader, a at) string {
	if !r.over && r.dec.PeekKind() == '0' {
		r.bad(a, `formatVersion must be the string "7", not a number`)
		r.skip()
		return ""
	}
	s, ok := r.str(a)
	if ok && s != FormatVersion {
		r.add(a, wire.CodeWrongVersion, fmt.Sprintf(`formatVersion is %s; this program reads "7" only`, show(s)))
	}
	return s
}

func versionOf(r *reader, a at) string {
	s, ok := r.str(a)
	if !ok {
		return ""
	}
	if _, err := parseVersion(s); err != nil {
		r.add(a, wire.CodeInvalidArgument, err.Error())
	}
	return s
}

func identityOf(r *reader, a at, id *Identity, codename func(string) string) identAt {
	var named identAt
	optional := func(dst *string, most int) func(at) {
		return func(a at) {
			if s, ok := r.str(a); ok {
				*dst = s
				if why := text(s, most); s != "" && why != "" {
					r.bad(a, why)
				}
			}
		}
	}
	r.object(a,
		field{"id", false, optional(&id.ID, MaxName)},
		field{"codename", true, func(a at) {
			s, ok := r.str(a)
			if !ok {
				return
			}
			id.Codename = s
			if why := codename(s); why != "" {
				r.bad(a, why)
				return
			}
			named = identAt{s, a}
		}},
		field{"type", false, optional(&id.Type, MaxName)},
		field{"title", false, optional(&id.Title, MaxTitle)},
	)
	return named
}

// nodeName says why s can never be the ID of a node, or "".
func nodeName(s string) string {
	if topic.ValidName(s) {
		return ""
	}
	return fmt.Sprintf("no node can have the ID %s: letters, digits, '.', '_' and '-' only, a letter or digit first, 1 to %d characters", show(s), topic.MaxName)
}

func labelsOf(r *reader, a at) []string {
	var labels []string
	first := make(map[string]int)
	r.array(a, MaxLabels, func(i int, e at) {
		s, ok := r.str(e)
		if !ok {
			return
		}
		labels = append(labels, s)
		if why := shortText(s); why != "" {
			r.bad(e, why)
		} else if j, dup := first[s]; dup {
			r.add(e, wire.CodeDuplicate, fmt.Sprintf("the label %s is already there, at index %d", show(s), j))
		} else {
			first[s] = i
		}
	})
	return labels
}

func ratiosOf(r *reader, a at) *EntryRatios {
	ratios := new(EntryRatios)
	percent := func(dst **int) func(at) {
		return func(a at) {
			if n, ok := wholeOf(r, a, 0, 100, "a ratio is a whole number of percent from 0 to 100"); ok {
				v := int(n)
				*dst = &v
			}
		}
	}
	r.object(a,
		field{"cpu", false, percent(&ratios.CPU)},
		field{"ram", false, percent(&ratios.RAM)},
		field{"storage", false, percent(&ratios.Storage)},
		field{"state", false, percent(&ratios.State)},
	)
	return ratios
}
