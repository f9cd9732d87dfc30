package policy

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/shared/near"
	"tandem.internal/shared/policy/constraint"
	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// The limits of a document.
const (
	MaxDocument    = 64 << 10 // bytes
	MaxElements    = 256      // of each list
	MaxText        = 4096     // bytes of owner, label, description, a property's text
	MaxDuration    = 366 * 24 * 60 * 60
	maxDepth       = 16
	maxNameOfField = 256 // bytes of a property's or a pattern's name
)

// Problems are the reasons why a document is refused, each with JSON pointer, line and column.
type Problems = strictjson.Problems

// Parse reads a policy. rollout reads the value of the field of that name, which is an object; nil passes over it.
func Parse(data []byte, rollout func(*strictjson.Reader, strictjson.At)) (*Policy, Problems) {
	p := &Policy{}
	problems := read(data, func(r *reader) {
		timing := &timing{}
		upgrade := false
		r.Object(r.Here(),
			strictjson.Optional("owner", r.text(&p.Owner)),
			strictjson.Optional("label", r.text(&p.Label)),
			strictjson.Optional("description", r.text(&p.Description)),
			strictjson.Optional("constraints", r.constraints(&p.Constraints, &p.constraints)),
			strictjson.Optional("properties", r.properties(&p.Properties)),
			strictjson.Optional("patterns", r.patterns(&p.Patterns)),
			strictjson.Optional("enabled", r.flag(&p.Enabled)),
			strictjson.Optional("agentUpgradePolicy", func(a strictjson.At) {
				p.Upgrade = r.upgrade(a, timing)
				upgrade = true
			}),
			strictjson.Optional("start", func(a strictjson.At) { r.start(a, timing) }),
			strictjson.Optional("startWindow", func(a strictjson.At) { r.duration(a, timing) }),
			strictjson.Optional("rollout", func(a strictjson.At) {
				if p.Rollout = r.raw(a); rollout != nil {
					rollout(r.Reader, a)
				} else if r.Is(a, '{') {
					r.Skip()
				}
			}),
			strictjson.Optional("lastUpdated", r.lastUpdated(&p.LastUpdated)),
		)
		switch {
		case !upgrade && timing.given():
			r.Bad(timing.at, "this is about agentUpgradePolicy, which is missing")
		case p.Upgrade != nil:
			p.Upgrade.Start, p.Upgrade.Duration = timing.start, timing.duration
		}
	})
	if problems != nil {
		return nil, problems
	}
	p.Org, p.properties = orgOf(p.Owner), values(p.Properties)
	return p, nil
}

// ParseNode reads a node.
func ParseNode(data []byte) (*Node, Problems) {
	n := &Node{}
	problems := read(data, func(r *reader) {
		var managed constraint.List
		r.Object(r.Here(),
			strictjson.Optional("org", r.org(&n.Org)),
			strictjson.Optional("properties", r.properties(&n.Properties)),
			strictjson.Optional("constraints", r.constraints(&n.Constraints, &n.constraints)),
			strictjson.Optional("pattern", r.pattern(&n.Pattern)),
			strictjson.Optional("management", func(a strictjson.At) {
				n.Management = &Management{}
				r.Object(a, strictjson.Optional("properties", r.properties(&n.Management.Properties)),
					strictjson.Optional("constraints", r.constraints(&n.Management.Constraints, &managed)))
			}))
		if managed != nil {
			n.constraints = managed
		}
	})
	if problems != nil {
		return nil, problems
	}
	all := n.Properties
	if n.Management != nil {
		all = slices.Concat(all, n.Management.Properties)
	}
	n.properties = values(all)
	n.own = len(n.constraints) > 0 ||
		slices.ContainsFunc(all, func(p Property) bool { return !strings.HasPrefix(p.Name, builtIn) })
	return n, nil
}

// ParseProperties reads an object with a list of properties, as tandem policy eval has them in a file.
func ParseProperties(data []byte) (constraint.Properties, Problems) {
	var list []Property
	problems := read(data, func(r *reader) {
		r.Object(r.Here(), strictjson.Required("properties", r.properties(&list)))
	})
	return values(list), problems
}

// values returns the properties for evaluation. Of two with one name the later one counts.
func values(list []Property) constraint.Properties {
	all := constraint.Properties{}
	for _, p := range list {
		if v, err := value(p.Type, p.Value); err == nil { // an error was a problem of the document
			all[p.Name] = v
		}
	}
	return all
}

// value reads the value of a property.
func value(t constraint.Type, raw jsontext.Value) (constraint.Value, error) {
	switch raw.Kind() {
	case '"':
		text, err := jsontext.AppendUnquote(nil, raw)
		if err != nil {
			return constraint.Value{}, err
		}
		if len(text) > MaxText {
			return constraint.Value{}, fmt.Errorf("a text has at most %d bytes", MaxText)
		}
		return constraint.NewText(t, string(text))
	case '0':
		return constraint.NewNumber(t, string(raw))
	case 't', 'f':
		return constraint.NewBoolean(t, raw.Kind() == 't')
	case '[':
		return list(t, raw)
	}
	return constraint.Value{}, errors.New("a value is a text, a number, true, false or an array of texts")
}

func list(t constraint.Type, raw jsontext.Value) (constraint.Value, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw))
	_, err := dec.ReadToken()
	var elements []string
	for err == nil && dec.PeekKind() != ']' {
		if dec.PeekKind() != '"' {
			return constraint.Value{}, errors.New("an array has texts only")
		}
		var element jsontext.Token
		element, err = dec.ReadToken()
		elements = append(elements, element.String())
	}
	if err != nil {
		return constraint.Value{}, err
	}
	return constraint.NewList(t, elements)
}

// reader reads the parts of documents of this package.
type reader struct {
	*strictjson.Reader
	data []byte
}

func read(data []byte, root func(*reader)) Problems {
	return strictjson.Read(data, strictjson.Limits{Size: MaxDocument, Depth: maxDepth}, func(r *strictjson.Reader) {
		root(&reader{r, data})
	})
}

// raw returns the value at a without reading it; nil if it is not well-formed.
func (r *reader) raw(a strictjson.At) jsontext.Value {
	v, err := jsontext.NewDecoder(bytes.NewBuffer(r.data[a.Off:])).ReadValue()
	if err != nil {
		return nil
	}
	return bytes.Clone(v)
}

// text reads a text that may be empty.
func (r *reader) text(into *string) func(strictjson.At) {
	return func(a strictjson.At) {
		s, ok := r.Str(a)
		if ok && len(s) > MaxText {
			r.Add(a, wire.CodeTooLarge, fmt.Sprintf("a text has at most %d bytes", MaxText))
		}
		*into = s
	}
}

func (r *reader) flag(into *bool) func(strictjson.At) {
	return func(a strictjson.At) { *into, _ = r.Bool(a) }
}

// texts reads an array of texts, none of them empty, and calls each with them.
func (r *reader) texts(a strictjson.At, empty string, each func(i int, e strictjson.At, s string)) {
	r.Array(a, MaxElements, func(i int, e strictjson.At) {
		s, ok := r.Str(e)
		switch {
		case !ok:
		case strings.TrimSpace(s) == "":
			r.Bad(e, empty)
		default:
			each(i, e, s)
		}
	})
}

// constraints reads a list of expressions. The place of a mistake is that in the expression, where the text of the
// document has it just so.
func (r *reader) constraints(into *[]string, parsed *constraint.List) func(strictjson.At) {
	return func(a strictjson.At) {
		r.texts(a, "an expression is not empty: leave it out", func(i int, e strictjson.At, s string) {
			expr, err := constraint.Parse(s)
			if err != nil {
				err.Index = i + 1
				at := e
				if !bytes.Contains(r.raw(e), []byte(`\`)) {
					at.Off += 1 + err.Offset
				}
				r.Bad(at, err.Error())
				return
			}
			*into, *parsed = append(*into, s), append(*parsed, expr)
		})
	}
}

// properties reads a list of properties.
func (r *reader) properties(into *[]Property) func(strictjson.At) {
	return func(a strictjson.At) {
		first := map[string]int{}
		r.Array(a, MaxElements, func(i int, e strictjson.At) {
			p, at, ok := r.property(e)
			if !ok {
				return
			}
			if before, twice := first[p.Name]; twice {
				r.Add(at, wire.CodeDuplicate, fmt.Sprintf("%s is property %d already; which of the two counts would "+
					"depend on their order", p.Name, before+1))
				return
			}
			first[p.Name] = i
			*into = append(*into, p)
		})
	}
}

// property reads one property; at is the place of its name.
func (r *reader) property(e strictjson.At) (p Property, at strictjson.At, ok bool) {
	var typeAt, valueAt strictjson.At
	named := false
	if !r.Object(e,
		strictjson.Required("name", func(a strictjson.At) {
			at = a
			if p.Name, named = r.Str(a); !named {
				return
			}
			if err := constraint.CheckName(p.Name); err != nil {
				named = false
				r.Bad(a, err.Error())
			} else if len(p.Name) > maxNameOfField {
				named = false
				r.Add(a, wire.CodeTooLarge, fmt.Sprintf("a name has at most %d bytes", maxNameOfField))
			}
		}),
		strictjson.Required("value", func(a strictjson.At) {
			valueAt = a
			p.Value = r.raw(a)
			r.Skip()
		}),
		strictjson.Optional("type", func(a strictjson.At) {
			typeAt = a
			s, _ := r.Str(a)
			p.Type = constraint.Type(s)
		})) || p.Value == nil {
		return p, at, false
	}
	if typeAt.Ptr != "" && !slices.Contains(constraint.Types, string(p.Type)) {
		hint := near.Hint(string(p.Type), constraint.Types)
		r.Bad(typeAt, fmt.Sprintf("there is no type %s; there are %s%s", strictjson.Show(string(p.Type)),
			strings.Join(constraint.Types, ", "), hint))
		return p, at, false
	}
	if _, err := value(p.Type, p.Value); err != nil {
		r.Bad(valueAt, err.Error())
		return p, at, false
	}
	return p, at, named
}

// patterns reads the patterns of a policy.
func (r *reader) patterns(into *[]string) func(strictjson.At) {
	return func(a strictjson.At) {
		r.texts(a, "a pattern is not empty: leave it out", func(_ int, e strictjson.At, s string) {
			if s != "*" && !r.checkPattern(e, s) {
				return
			}
			*into = append(*into, s)
		})
	}
}

// pattern reads the pattern of a node.
func (r *reader) pattern(into *string) func(strictjson.At) {
	return func(a strictjson.At) {
		s, ok := r.Str(a)
		if ok && r.checkPattern(a, s) {
			*into = s
		}
	}
}

func (r *reader) checkPattern(a strictjson.At, s string) bool {
	org, name, both := strings.Cut(s, "/")
	if org == "" || both && name == "" || strings.Contains(name, "/") || strings.ContainsAny(s, "* \t\r\n") ||
		len(s) > maxNameOfField {
		r.Bad(a, "a pattern is org/name or name, without white space or *, not "+strictjson.Show(s))
		return false
	}
	return true
}

func (r *reader) org(into *string) func(strictjson.At) {
	return func(a strictjson.At) {
		s, ok := r.Str(a)
		if ok && (s == "" || strings.ContainsAny(s, "/* \t\r\n") || len(s) > maxNameOfField) {
			r.Bad(a, "an organisation has a name without white space, / and *, not "+strictjson.Show(s))
		}
		*into = s
	}
}

// parseTime reads RFC 3339.
func parseTime(s string) (time.Time, error) {
	// time.Parse allows a comma, hours of one digit, and offsets of more than a day
	form := `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`
	if !regexp.MustCompile(form).MatchString(s) {
		return time.Time{}, errors.New("this is not RFC 3339")
	}
	return time.Parse(time.RFC3339, s)
}

// lastUpdated reads when a policy was changed. Open Horizon writes a zone behind it.
func (r *reader) lastUpdated(into *string) func(strictjson.At) {
	return func(a strictjson.At) {
		s, ok := r.Str(a)
		if !ok {
			return
		}
		if _, err := parseTime(strings.TrimSuffix(s, "[UTC]")); err != nil {
			r.Bad(a, "must be a time of RFC 3339, such as 2027-01-31T22:00:00Z, not "+strictjson.Show(s))
		}
		*into = s
	}
}
