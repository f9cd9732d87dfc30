package constraint

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Type is the type of a property.
type Type string

// The types. An untyped property has the type of its JSON value, and a text with commas is a list.
const (
	Untyped     Type = ""
	TypeString  Type = "string"
	TypeInt     Type = "int"
	TypeFloat   Type = "float"
	TypeBoolean Type = "boolean"
	TypeVersion Type = "version"
	TypeList    Type = "list of strings"
)

// Types are the names of all types.
var Types = []string{string(TypeString), string(TypeInt), string(TypeFloat), string(TypeBoolean),
	string(TypeVersion), string(TypeList)}

// Value is the value of a property. The zero value is none.
type Value struct {
	typ      Type
	text     string // as it was given; of a list and a version too
	number   decimal
	truth    bool
	version  *Version // also of an untyped text that is one
	elements []string
}

// Properties are the properties that an expression is about, by their names.
type Properties map[string]Value

// NewText returns the value that is a text in JSON. Types other than string, version, list of strings and untyped are
// an error.
func NewText(t Type, text string) (Value, error) {
	v := Value{typ: t, text: text}
	switch t {
	case TypeString:
	case Untyped:
		v.typ = TypeString
		if list, ok := split(text); ok && len(list) > 1 {
			v.typ, v.elements = TypeList, list
		} else if version, err := ParseVersion(text); err == nil {
			v.version = &version
		}
	case TypeVersion:
		version, err := ParseVersion(text)
		if err != nil {
			return Value{}, err
		}
		v.version = &version
	case TypeList:
		list, ok := split(text)
		if !ok {
			return Value{}, errors.New("an element of the list is empty")
		}
		v.elements = list
	default:
		return Value{}, fmt.Errorf("a value of type %s has no quotes", t)
	}
	return v, nil
}

// split returns the elements of a text with commas; false: one of them is empty.
func split(text string) (list []string, ok bool) {
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			return nil, false
		}
		list = append(list, part)
	}
	return list, true
}

// NewNumber returns the value that is a number in JSON, exactly. Types other than int, float and untyped are an error,
// as is a fraction of type int.
func NewNumber(t Type, literal string) (Value, error) {
	n, ok := parseDecimal(literal)
	switch {
	case !ok:
		return Value{}, fmt.Errorf("%.40s is not a number, or its exponent is beyond %d", literal, maxExponent)
	case t == Untyped && n.whole():
		t = TypeInt
	case t == Untyped:
		t = TypeFloat
	case t == TypeInt && !n.whole():
		return Value{}, fmt.Errorf("%.40s is not a whole number", literal)
	case t != TypeInt && t != TypeFloat:
		return Value{}, fmt.Errorf("a value of type %s is not a number", t)
	}
	return Value{typ: t, text: literal, number: n}, nil
}

// NewBoolean returns the value that is true or false in JSON. Types other than boolean and untyped are an error.
func NewBoolean(t Type, b bool) (Value, error) {
	if t != TypeBoolean && t != Untyped {
		return Value{}, fmt.Errorf("a value of type %s is not true or false", t)
	}
	return Value{typ: TypeBoolean, text: fmt.Sprint(b), truth: b}, nil
}

// NewList returns the value that is an array of texts in JSON. Types other than list of strings and untyped are an
// error, as is an empty element.
func NewList(t Type, elements []string) (Value, error) {
	if t != TypeList && t != Untyped {
		return Value{}, fmt.Errorf("a value of type %s is not an array", t)
	}
	if i := slices.Index(elements, ""); i >= 0 {
		return Value{}, errors.New("an element of the list is empty")
	}
	return Value{typ: TypeList, text: strings.Join(elements, ","), elements: elements}, nil
}

// Type returns the type of the value, which is never Untyped.
func (v Value) Type() Type { return v.typ }

// String returns type and value for people.
func (v Value) String() string {
	text := v.text
	if len(text) > 64 {
		text = strings.ToValidUTF8(text[:64], "") + "…"
	}
	if v.typ == TypeString {
		text = `"` + text + `"`
	}
	if v.typ == TypeList {
		return "list [" + text + "]"
	}
	return string(v.typ) + " " + text
}

// CheckName returns what is wrong with the name of a property: expressions could not name it.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("a name is not empty")
	case digit(name[0]):
		return errors.New("a name does not begin with a digit")
	case name[0] == '!' || name[len(name)-1] == '!':
		return fmt.Errorf("%q is no name: it begins or ends with a !, which expressions would not read", name)
	case reserved(name):
		return fmt.Errorf("%s is no name: it connects comparisons", name)
	}
	for i := range len(name) {
		if !inWord(name, i) {
			return fmt.Errorf("%q is no name: those have only letters, digits and _-/!?+.~'", name)
		}
	}
	return nil
}
