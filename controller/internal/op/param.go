package op

import (
	"fmt"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"tandem.internal/shared/duration"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// Input says where the fields of an operation's input come from.
type Input struct {
	Path   []Param
	Query  []Param
	Header []Param
	Body   bool   // there are members of a JSON body
	Text   []int  // index of the field that has the whole body; nil: there is none
	Type   string // content type of the body
}

// Param is a field that comes from the path, the query or a header.
type Param struct {
	Name     string
	Index    []int // of the field, for reflect
	Type     reflect.Type
	Is       string // "", "name", "pointer", "version" or "json"
	Need     bool   // required
	Min, Max uint64 // of a number
	Empty    string // not "": it must not be given without a value; what to do instead
	Field    reflect.StructField
	Of       reflect.Type // the struct that has the field
}

// Input takes the type of an input apart.
func (s Spec) Input() Input {
	var in Input
	in.walk(s.In, nil)
	in.Query = slices.DeleteFunc(in.Query, func(p Param) bool { return slices.Contains(s.Without, p.Name) })
	if in.Body {
		in.Type = "application/json"
	}
	return in
}

func (in *Input) walk(t reflect.Type, at []int) {
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(at[:len(at):len(at)], i)
		path, query, header := f.Tag.Get("path"), f.Tag.Get("query"), f.Tag.Get("header")
		switch {
		case f.Anonymous && f.Tag.Get("json") == "":
			in.walk(f.Type, index)
		case path != "":
			in.Path = append(in.Path, param(path, t, f, index))
		case query != "":
			in.Query = append(in.Query, param(query, t, f, index))
		case header != "":
			in.Header = append(in.Header, param(header, t, f, index))
		case f.Tag.Get("body") != "":
			in.Text, in.Type = index, f.Tag.Get("body")
		case f.Tag.Get("json") != "-":
			in.Body = true
		}
	}
}

func param(name string, of reflect.Type, f reflect.StructField, index []int) Param {
	p := Param{
		Name: name, Index: index, Type: f.Type, Is: f.Tag.Get("is"), Need: f.Tag.Get("need") != "",
		Empty: f.Tag.Get("empty"), Field: f, Of: of,
	}
	p.Min, p.Max = bound(f, "min", 0), bound(f, "max", math.MaxUint64)
	return p
}

// bound reads a tag of a number. A tag that is none is a mistake in the table, which its test finds.
func bound(f reflect.StructField, tag string, otherwise uint64) uint64 {
	n, err := strconv.ParseUint(f.Tag.Get(tag), 10, 64)
	if err != nil {
		return otherwise
	}
	return n
}

func invalid(format string, args ...any) *wire.Error {
	return wire.New(wire.CodeInvalidArgument, "", fmt.Sprintf(format, args...))
}

// Given returns whether the query has p, and for a flag whether it is set.
func (p *Param) Given(q url.Values) (bool, *wire.Error) {
	if p.Type.Kind() == reflect.Bool {
		return p.flag(q)
	}
	return q.Has(p.Name), nil
}

func (p *Param) flag(q url.Values) (bool, *wire.Error) {
	switch q.Get(p.Name) {
	case "1", "true":
		return true, nil
	case "0", "false":
		return false, nil
	case "":
		if !q.Has(p.Name) {
			return false, nil
		}
	}
	return false, invalid("the parameter %s is 1 or 0", p.Name)
}

// Many reports whether p may be given more than once.
func (p *Param) Many() bool { return p.Type.Kind() == reflect.Slice }

// FromQuery sets the field of p in v, a struct, to what the query says.
func (p *Param) FromQuery(v reflect.Value, q url.Values) *wire.Error {
	f := v.FieldByIndex(p.Index)
	if p.Type.Kind() == reflect.Bool {
		on, err := p.flag(q)
		f.SetBool(on)
		return err
	}
	if !q.Has(p.Name) && !p.Need {
		return nil
	}
	text := q.Get(p.Name)
	switch {
	case p.Many():
		for _, one := range q[p.Name] {
			if err := p.text(one); err != nil {
				return err
			}
		}
		f.Set(reflect.ValueOf(q[p.Name]))
		return nil
	case p.Type == reflect.TypeFor[time.Duration]():
		return p.duration(f, text)
	case f.CanUint(), f.CanInt():
		return p.number(f, text)
	}
	if err := p.text(text); err != nil {
		return err
	}
	f.SetString(text)
	return nil
}

// MaxPlan is how many bytes a parameter that is JSON has at most: what it becomes in a query fits into a header.
const MaxPlan = 4096

// text judges the value of a string.
func (p *Param) text(s string) *wire.Error {
	switch {
	case p.Is == "json":
		if len(s) > MaxPlan || !utf8.ValidString(s) {
			return invalid("the parameter %s is longer than %d bytes, or not UTF-8; leave out the white space", p.Name,
				MaxPlan)
		}
	case strings.ContainsFunc(s, wire.Misleads):
		return invalid("the parameter %s has a control character, or one that turns the direction of text", p.Name)
	case p.Is == "name":
		if err := nodeName(s); err != nil {
			return invalid("the parameter %s: %s", p.Name, err.Message)
		}
	case p.Is == "pointer":
		if s != "" && s[0] != '/' || len(s) > wire.MaxPath || !utf8.ValidString(s) {
			return invalid("the parameter %s is no JSON pointer such as /alertRules/ram, or longer than %d bytes",
				p.Name, wire.MaxPath)
		}
	case len(s) > 256 || !utf8.ValidString(s):
		return invalid("the parameter %s is longer than 256 bytes, or not UTF-8", p.Name)
	case s == "" && p.Empty != "":
		return invalid("the parameter %s is empty; %s", p.Name, p.Empty)
	case p.Is == "version":
		if _, err := unitconfig.Compare(s, s); err != nil {
			return invalid("the parameter %s: %s", p.Name, wire.AsError(err).Message)
		}
	}
	return nil
}

func nodeName(s string) *wire.Error {
	switch {
	case s == "":
		return invalid("a node's name is needed")
	case !topic.ValidName(s):
		return invalid("%.80q cannot name a node: letters, digits, dot, underscore and dash, at most %d",
			s, topic.MaxName)
	}
	return nil
}

func (p *Param) number(f reflect.Value, text string) *wire.Error {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n < p.Min || n > p.Max {
		return invalid("the parameter %s is a whole number from %d to %d", p.Name, p.Min, p.Max)
	}
	if f.CanInt() {
		f.SetInt(int64(n))
	} else {
		f.SetUint(n)
	}
	return nil
}

func (p *Param) duration(f reflect.Value, text string) *wire.Error {
	d, err := duration.Parse(text)
	if err != nil {
		return invalid("the parameter %s: %s", p.Name, err)
	}
	if d <= 0 {
		return invalid("the parameter %s must be above zero", p.Name)
	}
	f.SetInt(int64(d))
	return nil
}

// FromPath sets the field of p in v, a struct.
func (p *Param) FromPath(v reflect.Value, text string) *wire.Error {
	judge := p.text
	if p.Is == "name" {
		judge = nodeName
	}
	if err := judge(text); err != nil {
		return err
	}
	v.FieldByIndex(p.Index).SetString(text)
	return nil
}

// Request returns what an input becomes: a path, and a query without the parameters that are zero.
func (s Spec) Request(in any) (path string, query url.Values) {
	v, shape := reflect.Indirect(reflect.ValueOf(in)), s.Input()
	path, query = s.Path(), url.Values{}
	for _, p := range shape.Path {
		path = strings.Replace(path, "{"+p.Name+"}", url.PathEscape(v.FieldByIndex(p.Index).String()), 1)
	}
	for _, p := range shape.Query {
		if f := v.FieldByIndex(p.Index); !f.IsZero() {
			query[p.Name] = p.format(f)
		}
	}
	if s.When != "" && len(query[s.When]) == 0 {
		query.Set(s.When, "1")
	}
	return path, query
}

// Headers returns the headers that an input becomes.
func (s Spec) Headers(in any) map[string]string {
	v, all := reflect.Indirect(reflect.ValueOf(in)), map[string]string{}
	for _, p := range s.Input().Header {
		all[p.Name] = p.format(v.FieldByIndex(p.Index))[0]
	}
	return all
}

func (p *Param) format(f reflect.Value) []string {
	switch {
	case p.Many():
		return f.Interface().([]string)
	case p.Type == reflect.TypeFor[time.Duration]():
		return []string{duration.Format(time.Duration(f.Int()))}
	case f.CanUint():
		return []string{strconv.FormatUint(f.Uint(), 10)}
	case f.CanInt():
		return []string{strconv.FormatInt(f.Int(), 10)}
	case p.Type.Kind() == reflect.Bool:
		return []string{"1"}
	}
	return []string{f.String()}
}
