package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/op"
	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// route is what is answered under one method and path: one operation, or several that a parameter
// chooses from.
type route struct {
	pattern string // as http.ServeMux has it
	role    op.Role
	ops     []Operation // those that a parameter chooses come first
	allowed []string    // parameters, in the order in which they are listed to people
	many    []string    // of them, those that may be given more than once
}

// routes groups operations by their routes, in the order in which these are named first.
func routes(all []Operation) []*route {
	var list []*route
	for _, b := range all {
		i := slices.IndexFunc(list, func(rt *route) bool { return rt.pattern == b.spec.Route })
		if i < 0 {
			i, list = len(list), append(list, &route{pattern: b.spec.Route, role: b.spec.Role})
		}
		rt := list[i]
		if b.spec.When != "" {
			rt.ops = slices.Insert(rt.ops, 0, b)
		} else {
			rt.ops = append(rt.ops, b)
		}
		for _, p := range b.input.Query {
			if !slices.Contains(rt.allowed, p.Name) {
				rt.allowed = append(rt.allowed, p.Name)
			}
			if p.Many() {
				rt.many = append(rt.many, p.Name)
			}
		}
	}
	return list
}

// handle answers a request with the operation that it asks for.
func (rt *route) handle(a *API, w http.ResponseWriter, r *http.Request) error {
	var q url.Values
	if rt.ops[0].spec.Form != op.Probe {
		var err error
		if q, err = rt.query(r); err != nil {
			return err
		}
	}
	b, err := rt.choose(q)
	if err != nil {
		return err
	}
	if err := rt.goesWith(b, q); err != nil {
		return err
	}
	in := reflect.New(b.spec.In)
	if err := b.read(a, w, r, q, in); err != nil {
		return err
	}
	return b.do(a, w, r, in.Interface())
}

// query takes the query apart; an unknown parameter is a mistake, and so is a repeated one unless it is a
// list.
func (rt *route) query(r *http.Request) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, wire.New(wire.CodeInvalidArgument, "", "the query cannot be read; escape it as in RFC 3986")
	}
	for _, name := range slices.Sorted(maps.Keys(q)) {
		switch {
		case slices.Contains(rt.many, name):
		case !slices.Contains(rt.allowed, name):
			list := strings.Join(rt.allowed, ", ")
			if list == "" {
				list = "none"
			}
			why := fmt.Sprintf("no such parameter: %.64q; known here: %s", name, list)
			return nil, wire.New(wire.CodeInvalidArgument, "", why)
		case len(q[name]) > 1:
			return nil, wire.New(wire.CodeInvalidArgument, "", fmt.Sprintf("the parameter %s is given twice", name))
		}
	}
	return q, nil
}

// choose returns the operation that the query asks for.
func (rt *route) choose(q url.Values) (*Operation, error) {
	for i := range rt.ops {
		b := &rt.ops[i]
		if b.spec.When == "" {
			return b, nil
		}
		for _, p := range b.input.Query {
			if p.Name != b.spec.When {
				continue
			}
			if given, err := p.Given(q); err != nil {
				return nil, err
			} else if given {
				return b, nil
			}
		}
	}
	return nil, wire.New(wire.CodeInvalidArgument, "", "a parameter is missing: "+rt.ops[0].spec.When)
}

// goesWith refuses parameters that b does not have, which another operation of the route has. A flag that is not set
// may stand beside any.
func (rt *route) goesWith(b *Operation, q url.Values) error {
	for _, name := range slices.Sorted(maps.Keys(q)) {
		named := func(p op.Param) bool { return p.Name == name }
		if slices.ContainsFunc(b.input.Query, named) || b.spec.Form == op.Probe {
			continue
		}
		for i := range rt.ops {
			at := slices.IndexFunc(rt.ops[i].input.Query, named)
			if at < 0 {
				continue
			}
			if given, err := rt.ops[i].input.Query[at].Given(q); err != nil {
				return err
			} else if !given {
				continue
			}
			why := fmt.Sprintf("the parameter %s does not go with %s", name, b.spec.When)
			if b.spec.When == "" {
				why = fmt.Sprintf("the parameter %s needs %s", name, rt.ops[i].spec.When)
			}
			return wire.New(wire.CodeInvalidArgument, "", why)
		}
	}
	return nil
}

// read fills in, a pointer to an input, from a request: query, path, headers, body, and the rules between fields.
func (b *Operation) read(a *API, w http.ResponseWriter, r *http.Request, q url.Values, in reflect.Value) error {
	for _, p := range b.input.Query {
		if err := p.FromQuery(in.Elem(), q); err != nil {
			return err
		}
	}
	for _, p := range b.input.Path {
		if err := p.FromPath(in.Elem(), r.PathValue(p.Name)); err != nil {
			return err
		}
	}
	for _, p := range b.input.Header {
		if err := p.FromQuery(in.Elem(), url.Values(r.Header)); err != nil {
			return err
		}
	}
	if b.spec.Method() == http.MethodPost {
		if err := b.body(a, w, r, in); err != nil {
			return err
		}
	}
	if c, ok := in.Interface().(op.Checker); ok {
		if err := c.Check(); err != nil {
			return err
		}
	}
	return nil
}

// body reads the body of a request, or refuses it where it would be ignored.
func (b *Operation) body(a *API, w http.ResponseWriter, r *http.Request, in reflect.Value) error {
	body, err := a.body(w, r)
	if err != nil {
		return err
	}
	blank := len(bytes.TrimSpace(body)) == 0
	switch {
	case b.input.Text != nil:
		in.Elem().FieldByIndex(b.input.Text).SetBytes(body)
	case !b.input.Body:
		if !blank && string(bytes.TrimSpace(body)) != "{}" {
			return wire.New(wire.CodeInvalidArgument, "", "this request takes no body")
		}
	case blank && b.spec.Optional:
	case string(bytes.TrimSpace(body)) == "null": // it would empty what the path has said
		return wire.New(wire.CodeInvalidArgument, "", "the body is null; a JSON object is needed")
	default:
		if err := json.Unmarshal(body, in.Interface(), json.RejectUnknownMembers(true)); err != nil {
			return bodyError(body, err)
		}
	}
	return nil
}

// bodyError says what is wrong with a body; of one that is no JSON with line and column.
func bodyError(body []byte, err error) *wire.Error {
	e := wire.AsError(err)
	s, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case len(bytes.TrimSpace(body)) == 0:
		e.Message = "the body is empty; a JSON object is needed"
	case ok && e.Code == wire.CodeMalformed:
		e.Message = "the body is not JSON: " + e.Message
		if errors.Is(err, io.ErrUnexpectedEOF) {
			e.Message = "the body is not JSON: it ends too early"
		}
		lines := strictjson.LinesOf(body)
		e.Line, e.Column = lines.Place(strictjson.At{Off: min(int(s.ByteOffset), len(body))})
	}
	return e
}
