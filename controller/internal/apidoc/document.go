// Package apidoc makes the document of the HTTP API, OpenAPI 3.1, of the table of operations and of the
// comments in the source. It runs in a test, which compares; the product embeds what it made. What it
// guarantees: every operation, parameter, type and member of the document has a description, or there is
// none.
package apidoc

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/op"
)

// Make returns the document. Root is the directory of the workspace. The error names everything that lacks a
// comment.
func Make(root string, ops []op.Spec) ([]byte, error) {
	d := &document{schemas{
		src: source{root: root, packages: map[string]*comments{}}, names: map[reflect.Type]string{},
	}}
	d.problem() // has a name from the beginning
	d.paths(ops)
	components := d.components() // now every type has its final name
	doc, err := json.Marshal(object{
		{"openapi", "3.1.0"},
		{"info", object{
			{"title", "Tandem controller"},
			{"version", "1"},
			{"description", about},
		}},
		{"servers", []object{{{"url", "/"}}}},
		{"security", []object{{{"token", []string{}}}}},
		{"paths", d.paths(ops)},
		{"components", object{
			{"securitySchemes", object{{"token", object{{"type", "http"}, {"scheme", "bearer"}}}}},
			{"responses", object{{"Problem", d.problem()}}},
			{"schemas", components},
		}},
	}, jsontext.WithIndent(" "), jsontext.EscapeForHTML(false))
	if err != nil {
		return nil, err
	}
	return append(doc, '\n'), d.err()
}

// about is what a reader of the document has to know besides.
const about = "What the operator's CLI uses and programs may. Fields are only ever added: ignore those that you do " +
	"not know. A request must not have members or parameters that are not listed here. On the controller's unix " +
	"socket no token is needed. x-role is the least role that a token needs. x-line is the shape of each line of a " +
	"stream or an export. x-extensible-enum lists the values that are known today."

type document struct{ schemas }

// problem is every answer that is not a 2xx.
func (d *document) problem() object {
	schema := d.of(reflect.TypeFor[op.Problem]())
	return object{
		{"description", "What is wrong, with a code."},
		{"content", object{{"application/json", object{{"schema", schema}}}}},
	}
}

// paths describes every route. Operations that share one are one operation to OpenAPI.
func (d *document) paths(ops []op.Spec) object {
	var all object
	for i, s := range ops {
		if slices.ContainsFunc(ops[:i], func(o op.Spec) bool { return o.Route == s.Route }) {
			continue
		}
		var same []op.Spec
		for _, o := range ops {
			if o.Route == s.Route {
				same = append(same, o)
			}
		}
		one := member{strings.ToLower(s.Method()), d.operation(same)}
		at := slices.IndexFunc(all, func(m member) bool { return m.name == s.Path() })
		if at < 0 {
			all = append(all, member{s.Path(), object{one}})
		} else {
			all[at].value = append(all[at].value.(object), one)
		}
	}
	slices.SortFunc(all, func(a, b member) int { return cmp.Compare(a.name, b.name) })
	for _, path := range all {
		slices.SortFunc(path.value.(object), func(a, b member) int { return cmp.Compare(a.name, b.name) })
	}
	return all
}

// Table returns the operations as a table in Markdown, by route.
func Table(ops []op.Spec) string {
	var rows []string
	for _, s := range ops {
		route, role := s.Route, string(cmp.Or(s.Role, "anybody"))
		if s.When != "" {
			route += "?" + s.When
		}
		summary, _, _ := strings.Cut(s.About, ". ")
		method, path, _ := strings.Cut(route, " ")
		summary = strings.TrimSuffix(summary, ".")
		rows = append(rows, fmt.Sprintf("| `%s` | `%s` | %s | %s |\n", path, method, role, summary))
	}
	slices.Sort(rows)
	return "| path | method | role | what it does |\n|---|---|---|---|\n" + strings.Join(rows, "")
}

// operation describes operations of one route. The first is the one without a parameter that chooses it.
func (d *document) operation(same []op.Spec) object {
	slices.SortStableFunc(same, func(a, b op.Spec) int { return strings.Compare(a.When, b.When) })
	first := same[0]
	summary, _, _ := strings.Cut(first.About, ". ")
	var about []string
	for _, s := range same {
		text := s.About
		if s.When != "" {
			text = "With " + s.When + ", " + s.Name + ": " + text
		}
		about = append(about, text)
	}
	o := object{
		{"operationId", first.Name}, {"summary", strings.TrimSuffix(summary, ".")},
		{"description", strings.Join(about, " ")},
	}
	if first.Role == op.Anybody {
		o = o.with("security", []object{})
	} else {
		o = o.with("x-role", string(first.Role))
	}
	if params := d.parameters(same); len(params) > 0 {
		o = o.with("parameters", params)
	}
	if in := first.Input(); in.Type != "" {
		o = o.with("requestBody", d.body(first, in))
	}
	return o.with("responses", d.responses(same))
}

// parameters describes what comes in the path, the query and headers.
func (d *document) parameters(same []op.Spec) []object {
	var all []object
	var seen []string
	for _, s := range same {
		in := s.Input()
		for i, p := range slices.Concat(in.Path, in.Query, in.Header) {
			where := "path"
			switch {
			case i >= len(in.Path)+len(in.Query):
				where = "header"
			case i >= len(in.Path):
				where = "query"
			}
			if slices.Contains(seen, p.Name) {
				continue
			}
			seen = append(seen, p.Name)
			o := object{{"name", p.Name}, {"in", where}}
			if where == "path" || p.Need && s.When == "" {
				o = o.with("required", true)
			}
			all = append(all, o.with("description", d.comment(p.Of, p.Field.Name)).with("schema", d.parameter(p)))
		}
	}
	return all
}

func (d *document) parameter(p op.Param) object {
	switch p.Type.Kind() {
	case reflect.Bool:
		return object{{"type", "string"}, {"enum", []string{"1", "0", "true", "false"}}}
	case reflect.Int, reflect.Uint64:
		o := object{{"type", "integer"}, {"minimum", p.Min}}
		if _, ok := p.Field.Tag.Lookup("max"); ok {
			o = o.with("maximum", p.Max)
		}
		return o
	}
	o := d.of(p.Type)
	if p.Is == "pointer" {
		o = o.with("format", "json-pointer")
	}
	return o
}

// body describes what a request brings.
func (d *document) body(s op.Spec, in op.Input) object {
	var schema object
	description, demanded := "", !s.Optional
	if in.Text != nil {
		f := s.In.FieldByIndex(in.Text)
		description = d.comment(s.In, f.Name)
	} else {
		t := bodyType(s.In)
		schema, demanded = d.of(t), demanded || d.demands(t)
	}
	o := object{}.with("description", description)
	if demanded {
		o = o.with("required", true)
	}
	return o.with("content", object{{in.Type, object{{"schema", schema}}}})
}

// demands reports whether a struct has members that are required.
func (d *document) demands(t reflect.Type) bool {
	var required []string
	d.members(t, new(object), &required)
	return len(required) > 0
}

// bodyType is the part of an input that is the body: a struct that is embedded beside the parameters, or
// the input itself.
func bodyType(t reflect.Type) reflect.Type {
	var parts []reflect.Type
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.Anonymous {
			return t
		}
		if (op.Spec{In: f.Type}).Input().Body {
			parts = append(parts, f.Type)
		}
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return t
}

// responses describes the answers.
func (d *document) responses(same []op.Spec) object {
	var content object
	for _, s := range same {
		kind, media := "application/json", object{}
		switch s.Form {
		case op.Raw:
			media = object{{"schema", object{}}}
		case op.File:
			kind = s.Type
			if s.Out != reflect.TypeFor[op.None]() {
				media = object{{"x-line", d.of(s.Out)}}
			}
		case op.Stream:
			kind, media = "application/x-ndjson", object{{"x-line", d.of(s.Out)}}
		default:
			media = object{{"schema", d.of(s.Out)}}
		}
		at := slices.IndexFunc(content, func(m member) bool { return m.name == kind })
		if at < 0 {
			content = append(content, member{kind, media})
			continue
		}
		if s.Form == op.Raw && same[0].Form == op.Raw {
			continue // both may be any JSON
		}
		before := content[at].value.(object)
		content[at].value = object{{"schema", object{{"anyOf", []any{before[0].value, media[0].value}}}}}
	}
	ok := object{{"description", "Done."}, {"content", content}}
	all := object{{"200", ok}}
	if same[0].Form == op.Verdict {
		refused := object{{"application/json", object{{"schema", object{{"anyOf", []object{
			d.of(same[0].Out), d.of(reflect.TypeFor[op.Problem]()),
		}}}}}}}
		all = append(all,
			member{"400", object{{"description", "The document or the request is wrong."}, {"content", refused}}},
			member{"409", object{{"description", "A rule or a node said no."}, {"content", refused}}})
	}
	return all.with("default", object{{"$ref", "#/components/responses/Problem"}})
}
