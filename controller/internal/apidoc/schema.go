package apidoc

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/shared/wire"
)

// object is a JSON object that keeps the order of its members.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSONTo writes the members in their order.
func (o object) MarshalJSONTo(enc *jsontext.Encoder) error {
	if err := enc.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	for _, m := range o {
		if err := enc.WriteToken(jsontext.String(m.name)); err != nil {
			return err
		}
		if err := json.MarshalEncode(enc, m.value); err != nil {
			return err
		}
	}
	return enc.WriteToken(jsontext.EndObject)
}

// with returns o with one more member, unless it is empty text.
func (o object) with(name string, value any) object {
	if value == "" {
		return o
	}
	return append(o, member{name, value})
}

// schemas makes JSON schemas of Go types, as package json writes and reads them. Named types become
// components.
type schemas struct {
	src   source
	names map[reflect.Type]string // of the components
	found []reflect.Type
	errs  []error // what lacks a comment, or cannot be described
	file  bool    // of a file: nothing but this is in it, and bounds are told
}

// texts are the types of the workspace that are text in JSON, and what format that has.
var texts = map[string]string{"Span": "duration", "Duration": "duration"}

var (
	typeTime     = reflect.TypeFor[time.Time]()
	typeDuration = reflect.TypeFor[time.Duration]()
	typeRaw      = reflect.TypeFor[jsontext.Value]()
	typeMeasured = reflect.TypeFor[wire.Measured]() // null if it is not known
	typeText     = reflect.TypeFor[encoding.TextMarshaler]()
)

// of describes a type where it is used.
func (s *schemas) of(t reflect.Type) object {
	switch {
	case t == typeTime:
		return object{{"type", "string"}, {"format", "date-time"}}
	case t == typeDuration:
		return object{{"type", "string"}, {"format", "duration"}}
	case t == typeRaw:
		return object{}
	case t.Kind() == reflect.Pointer:
		return s.of(t.Elem())
	case t.Implements(typeText), t.PkgPath() != "" && t.Kind() == reflect.String, t.Kind() == reflect.Struct:
		return object{{"$ref", s.place() + s.name(t)}}
	}
	return s.plain(t)
}

// plain describes a type that has no name of its own in the document.
func (s *schemas) plain(t reflect.Type) object {
	switch t.Kind() {
	case reflect.Bool:
		return object{{"type", "boolean"}}
	case reflect.String:
		return object{{"type", "string"}}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return object{{"type", "integer"}}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return object{{"type", "integer"}, {"minimum", 0}}
	case reflect.Float32, reflect.Float64:
		number := object{{"type", "number"}}
		if t == typeMeasured {
			return object{{"anyOf", []object{number, {{"type", "null"}}}}}
		}
		return number
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return object{{"type", "string"}, {"contentEncoding", "base64"}}
		}
		return object{{"type", "array"}, {"items", s.of(t.Elem())}}
	case reflect.Map:
		return object{{"type", "object"}, {"additionalProperties", s.of(t.Elem())}}
	}
	s.errs = append(s.errs, fmt.Errorf("%s has no JSON that can be described", t))
	return object{}
}

// place is where components are.
func (s *schemas) place() string {
	if s.file {
		return "#/$defs/"
	}
	return "#/components/schemas/"
}

// bounds adds what a field's tags say of its number.
func (s *schemas) bounds(o object, f reflect.StructField) object {
	for _, b := range []struct{ tag, name string }{{"min", "minimum"}, {"max", "maximum"}} {
		text, ok := f.Tag.Lookup(b.tag)
		if !ok {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			s.errs = append(s.errs, fmt.Errorf("the tag %s of %s: %w", b.tag, f.Name, err))
		}
		o = o.with(b.name, n)
	}
	return o
}

// name returns the name of a type's component, and has it described.
func (s *schemas) name(t reflect.Type) string {
	if name, ok := s.names[t]; ok {
		return name
	}
	s.found = append(s.found, t)
	s.names[t] = t.Name()
	return t.Name()
}

// components describes every named type that was used, by name. Of types with the same name those of
// other packages than op and view have their package's before it.
func (s *schemas) components() object {
	for i := 0; i < len(s.found); i++ { // grows on the way
		s.component(s.found[i])
	}
	taken := map[string]int{}
	for _, t := range s.found {
		taken[t.Name()]++
	}
	for _, t := range s.found {
		pkg := t.PkgPath()[strings.LastIndexByte(t.PkgPath(), '/')+1:]
		if taken[t.Name()] > 1 && pkg != "op" && pkg != "view" {
			s.names[t] = strings.ToUpper(pkg[:1]) + pkg[1:] + t.Name()
		}
	}
	var all object
	for _, t := range s.found {
		all = append(all, member{s.names[t], s.component(t)})
	}
	slices.SortFunc(all, func(a, b member) int { return cmp.Compare(a.name, b.name) })
	for i := 1; i < len(all); i++ {
		if all[i].name == all[i-1].name {
			s.errs = append(s.errs, fmt.Errorf("two types are named %s", all[i].name))
		}
	}
	return all
}

// component describes a named type.
func (s *schemas) component(t reflect.Type) object {
	c, err := s.src.of(t)
	if err != nil {
		s.errs = append(s.errs, err)
		return object{}
	}
	doc := c.types[t.Name()]
	if doc == "" {
		s.errs = append(s.errs, fmt.Errorf("%s has no comment", t))
	}
	switch {
	case t.Implements(typeText):
		return object{{"type", "string"}}.with("format", texts[t.Name()]).with("description", doc)
	case t.Kind() == reflect.String:
		o := object{{"type", "string"}}.with("description", doc)
		if values := c.values[t.Name()]; len(values) > 0 {
			var known []string
			for _, v := range values {
				known = append(known, v.text)
			}
			if s.file {
				return o.with("enum", known)
			}
			o = o.with("x-extensible-enum", known)
		}
		return o
	}
	return s.structure(t, doc)
}

// structure describes the members of a struct.
func (s *schemas) structure(t reflect.Type, doc string) object {
	var props object
	var required []string
	s.members(t, &props, &required)
	o := object{{"type", "object"}}.with("description", doc)
	if len(required) > 0 {
		o = o.with("required", required)
	}
	if len(props) > 0 {
		o = o.with("properties", props)
	}
	if s.file {
		o = o.with("additionalProperties", false)
	}
	return o
}

func (s *schemas) members(t reflect.Type, props *object, required *[]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && f.Tag.Get("json") == "":
			s.members(f.Type, props, required)
			continue
		case name == "-" || !f.IsExported():
			continue
		case options == "embed" || options == "inline" || options == "unknown":
			continue // members that this version does not know
		case name == "":
			name = f.Name
		}
		p := s.of(f.Type)
		if s.file {
			p = s.bounds(p, f)
		}
		*props = append(*props, member{name, p.with("description", s.comment(t, f.Name))})
		if options == "" {
			*required = append(*required, name)
		}
	}
}

// comment is the comment of a field. Every field needs one.
func (s *schemas) comment(t reflect.Type, field string) string {
	c, err := s.src.of(t)
	if err != nil {
		s.errs = append(s.errs, err)
		return ""
	}
	doc := c.fields[t.Name()][field]
	if doc == "" {
		s.errs = append(s.errs, fmt.Errorf("%s.%s has no comment", t, field))
	}
	return doc
}

func (s *schemas) err() error {
	slices.SortFunc(s.errs, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errors.Join(slices.CompactFunc(s.errs, func(a, b error) bool { return a.Error() == b.Error() })...)
}
