package unitconfig

import (
	"fmt"

	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// Parse reads a unit configuration strictly (seed 000, Configuration Format). If there are problems, the configuration
// is nil, and the problems are all that one pass finds, up to MaxProblems. Two problems are returned alone, because
// others have no meaning beside them: a formatVersion other than "7" (wrong-version), and a document that is too large
// or nested too deep.
func Parse(data []byte) (*UnitConfig, Problems) {
	uc := &UnitConfig{}
	ps := strictjson.Read(data, limits, func(r *strictjson.Reader) { unitOf(r, uc) })
	if ps != nil {
		return nil, onlyVersion(ps)
	}
	return uc, nil
}

// ParseNode reads what EncodeNode returns, by the same strict rules. Ratios that a resourceRatios object does not have
// are 50; an absent priority is 0. It does not check for which node the configuration is: the envelope of the document
// has that.
func ParseNode(data []byte) (*NodeConfig, Problems) {
	c := &NodeConfig{}
	ps := strictjson.Read(data, limits, func(r *strictjson.Reader) {
		body := &entryFields{alertRules: &c.AlertRules, labels: &c.Labels, priority: &c.Priority}
		fields := append([]strictjson.Field{
			strictjson.Required("formatVersion", func(a strictjson.At) { c.FormatVersion = formatOf(r, a) }),
			strictjson.Required("version", func(a strictjson.At) { c.Version = versionOf(r, a) }),
			strictjson.Optional("node", func(a strictjson.At) {
				c.Node = new(Identity)
				identityOf(r, a, c.Node, nodeName)
			}),
			strictjson.Optional("nodeGroupSubject", func(a strictjson.At) {
				c.NodeGroupSubject = new(Identity)
				identityOf(r, a, c.NodeGroupSubject, shortText)
			}),
		}, body.fields(r)...)
		r.Object(r.Here(), fields...)
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

// onlyVersion returns only the problem of an unknown format version, if it is among the problems.
func onlyVersion(ps Problems) Problems {
	for _, p := range ps {
		if p.Code == wire.CodeWrongVersion {
			return Problems{p}
		}
	}
	return ps
}

// unitOf reads a unit configuration.
func unitOf(r *strictjson.Reader, uc *UnitConfig) {
	nodes, types := make(map[string]int), make(map[string]int) // index of the entry, by codename
	r.Object(r.Here(),
		strictjson.Required("formatVersion", func(a strictjson.At) { uc.FormatVersion = formatOf(r, a) }),
		strictjson.Required("version", func(a strictjson.At) { uc.Version = versionOf(r, a) }),
		strictjson.Required("nodes", func(a strictjson.At) {
			r.Array(a, MaxDocument, func(i int, e strictjson.At) {
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
					r.Add(ident.at, wire.CodeDuplicate, fmt.Sprintf("%s%s already has an entry, /nodes/%d", what,
						strictjson.Show(ident.name), first))
					return
				}
				claimed[ident.name] = i
			})
		}),
	)
}

// identAt is the codename that identifies an entry, and its place; "" if the entry has no valid one.
type identAt struct {
	name string
	at   strictjson.At
}

// entryOf reads an entry and returns the codename that identifies it.
func entryOf(r *strictjson.Reader, a strictjson.At, n *NodeEntry) identAt {
	var node, group identAt
	body := &entryFields{alertRules: &n.AlertRules, labels: &n.Labels, priority: &n.Priority}
	fields := append([]strictjson.Field{
		strictjson.Optional("version", func(a strictjson.At) { n.Version = versionOf(r, a) }),
		strictjson.Optional("node", func(a strictjson.At) {
			n.Node = new(Identity)
			node = identityOf(r, a, n.Node, nodeName)
		}),
		strictjson.Required("nodeGroupSubject",
			func(a strictjson.At) { group = identityOf(r, a, &n.NodeGroupSubject, shortText) }),
	}, body.fields(r)...)
	r.Object(a, fields...)
	n.ResourceRatios = body.ratios
	if n.Node != nil {
		return node
	}
	return group
}

// entryFields are the fields that both an entry and a node's configuration have.
type entryFields struct {
	alertRules *AlertRules
	ratios     *EntryRatios
	labels     *[]string
	priority   *uint32
}

// fields returns descriptions of the fields for a reader.
func (f *entryFields) fields(r *strictjson.Reader) []strictjson.Field {
	return []strictjson.Field{
		strictjson.Optional("alertRules", func(a strictjson.At) { rulesOf(r, a, f.alertRules) }),
		strictjson.Optional("resourceRatios", func(a strictjson.At) { f.ratios = ratiosOf(r, a) }),
		strictjson.Optional("labels", func(a strictjson.At) { *f.labels = labelsOf(r, a) }),
		strictjson.Optional("priority", func(a strictjson.At) {
			n, _ := r.Whole(a, 0, 1<<32-1, "a priority is a whole number from 0 to 4294967295")
			*f.priority = uint32(n)
		}),
	}
}

// formatOf reads formatVersion.
func formatOf(r *strictjson.Reader, a strictjson.At) string {
	if r.Peek() == '0' {
		r.Bad(a, `formatVersion must be the string "7", not a number`)
		r.Skip()
		return ""
	}
	s, ok := r.Str(a)
	if ok && s != FormatVersion {
		r.Add(a, wire.CodeWrongVersion, fmt.Sprintf(`formatVersion is %s; this program reads "7" only`,
			strictjson.Show(s)))
	}
	return s
}

// versionOf reads a semantic version.
func versionOf(r *strictjson.Reader, a strictjson.At) string {
	s, ok := r.Str(a)
	if !ok {
		return ""
	}
	if _, err := ParseVersion(s); err != nil {
		r.Add(a, wire.CodeInvalidArgument, err.Error())
	}
	return s
}

// identityOf reads an identity. codename returns what is wrong with a codename; "": nothing.
func identityOf(r *strictjson.Reader, a strictjson.At, id *Identity, codename func(string) string) identAt {
	var named identAt
	optional := func(dst *string, most int) func(strictjson.At) {
		return func(a strictjson.At) {
			if s, ok := r.Str(a); ok {
				*dst = s
				if why := text(s, most); s != "" && why != "" {
					r.Bad(a, why)
				}
			}
		}
	}
	r.Object(a,
		strictjson.Optional("id", optional(&id.ID, MaxName)),
		strictjson.Required("codename", func(a strictjson.At) {
			s, ok := r.Str(a)
			if !ok {
				return
			}
			id.Codename = s
			if why := codename(s); why != "" {
				r.Bad(a, why)
				return
			}
			named = identAt{s, a}
		}),
		strictjson.Optional("type", optional(&id.Type, MaxName)),
		strictjson.Optional("title", optional(&id.Title, MaxTitle)),
	)
	return named
}

// nodeName returns why s cannot be a node ID; "": it can.
func nodeName(s string) string {
	if topic.ValidName(s) {
		return ""
	}
	return fmt.Sprintf("no node can have the ID %s: letters, digits, '.', '_' and '-' only, a letter or digit first, "+
		"1 to %d characters", strictjson.Show(s), topic.MaxName)
}

// labelsOf reads the labels of an entry, each of which may occur only once.
func labelsOf(r *strictjson.Reader, a strictjson.At) []string {
	var labels []string
	first := make(map[string]int)
	r.Array(a, MaxLabels, func(i int, e strictjson.At) {
		s, ok := r.Str(e)
		if !ok {
			return
		}
		labels = append(labels, s)
		if why := shortText(s); why != "" {
			r.Bad(e, why)
		} else if j, dup := first[s]; dup {
			r.Add(e, wire.CodeDuplicate, fmt.Sprintf("the label %s is already there, "+
				"at index %d", strictjson.Show(s), j))
		} else {
			first[s] = i
		}
	})
	return labels
}

// ratiosOf reads resource ratios (seed 000, Resource Ratios).
func ratiosOf(r *strictjson.Reader, a strictjson.At) *EntryRatios {
	ratios := new(EntryRatios)
	percent := func(dst **int) func(strictjson.At) {
		return func(a strictjson.At) {
			if n, ok := r.Whole(a, 0, 100, "a ratio is a whole number of percent from 0 to 100"); ok {
				v := int(n)
				*dst = &v
			}
		}
	}
	r.Object(a,
		strictjson.Optional("cpu", percent(&ratios.CPU)),
		strictjson.Optional("ram", percent(&ratios.RAM)),
		strictjson.Optional("storage", percent(&ratios.Storage)),
		strictjson.Optional("state", percent(&ratios.State)),
	)
	return ratios
}
