package constraint

import (
	"reflect"
	"strings"
	"testing"
)

// node has a property of each type; its names say which.
func node() Properties {
	return Properties{
		"text":   must(NewText(TypeString, "amd64")),
		"two":    must(NewText(Untyped, "2")),
		"space":  must(NewText(Untyped, "big box")),
		"yes":    must(NewText(Untyped, "true")),
		"build":  must(NewText(Untyped, "1.5.0")),
		"strict": must(NewText(TypeString, "1.5.0")),
		"commas": must(NewText(Untyped, "cat,dog")),
		"whole":  must(NewText(TypeString, "cat,dog")),
		"int":    must(NewNumber(TypeInt, "5")),
		"num":    must(NewNumber(Untyped, "5")),
		"big":    must(NewNumber(Untyped, "9007199254740993")),
		"float":  must(NewNumber(TypeFloat, "0.1")),
		"minus":  must(NewNumber(Untyped, "-2.5")),
		"zero":   must(NewNumber(Untyped, "-0.0")),
		"bool":   must(NewBoolean(TypeBoolean, true)),
		"off":    must(NewBoolean(Untyped, false)),
		"v":      must(NewText(TypeVersion, "1.10.0")),
		"rc":     must(NewText(TypeVersion, "2.0.0-rc.1")),
		"one":    must(NewText(TypeVersion, "1")),
		"list":   must(NewText(TypeList, "cat, dog")),
		"array":  must(NewList(Untyped, []string{"cat", "dog"})),
		"none":   must(NewList(TypeList, nil)),
	}
}

func TestVerdicts(t *testing.T) {
	p := node()
	for _, c := range []struct {
		in   string
		want bool
	}{
		// an absent property makes each comparison false
		{"absent == x", false}, {"absent != x", false}, {"absent < 5", false}, {"absent in x", false},
		{"absent == x || absent != x", false},
		// texts; case matters
		{"text == amd64", true}, {`text == "amd64"`, true}, {"text = amd64", true}, {"text == AMD64", false},
		{"text != amd64", false}, {"text != arm64", true}, {"text in amd64", true}, {`text in "arm64, amd64"`, true},
		{`text in "arm64,arm"`, false}, {"text < 5", false}, {"text >= 5", false}, {"text in [1.0.0,2.0.0)", false},
		{`space == "big box"`, true}, {`space in "big box,small box"`, true}, {"Text == amd64", false},
		{"two == 2", true}, {"two == 2.0", false}, {`two == "2"`, true}, {"two < 3", false}, {"two > 1", false},
		{"yes == true", true}, {"yes == True", false},
		// numbers are exact
		{"int == 5", true}, {"int == 5.", true}, {"int == +5", true}, {"int == 05", true}, {"int == 5.0", true},
		{"int == 50e-1", true}, {"int != 5", false}, {"int != 6", true}, {`int == "5"`, false}, {`int != "5"`, false},
		{"int == five", false}, {"int != five", false}, {"int < 5", false}, {"int <= 5", true}, {"int > 4.9", true},
		{"int >= 5.1", false}, {"int < 1.2.0", false}, {"int in 5", false}, {`int in "4,5"`, false}, {"num == 5", true},
		{"int in [1.0.0,9.0.0]", false}, {"int == 5.0.0", false}, {"int != 5.0.0", false},
		{"big == 9007199254740993", true}, {"big == 9007199254740992", false}, {"big > 9007199254740992", true},
		{"big != 9007199254740992", true}, {"float == 0.1", true}, {"float == .1", true},
		{"float == 0.10000000000000001", false},
		{"float < 0.2", true}, {"float > 0.01", true}, {"float >= 1e-1", true}, {"minus < -2", true},
		{"minus > -3", true},
		{"minus < 0", true}, {"zero == 0", true}, {"zero >= 0", true}, {"zero < 0", false}, {"minus == -25e-1", true},
		// booleans
		{"bool == true", true}, {"bool == True", true}, {"bool == 1", true}, {"bool == false", false},
		{"bool != false", true}, {`bool == "true"`, false}, {`bool != "true"`, false}, {"bool == yes", false},
		{"bool in true", false}, {"off == false", true}, {"off != true", true}, {"bool < 5", false},
		// versions
		{"v >= 1.9.0", true}, {"v > 1.9.0", true}, {"v < 1.9.0", false}, {"v <= 1.10.0", true}, {"v < 2", true},
		{"v == 1.10.0", true}, {"v == 1.10", true}, {"v == 1.1", false}, {"v != 1.9.0", true}, {`v == "1.10.0"`, true},
		{"v == 1.10.0+b", true}, {"v == x", false}, {"v != x", false}, {"v in 1.9.0", true}, {"v in 1.11.0", false},
		{"v in x", false}, {"v in [1.0.0,1.10.0)", false}, {"v in [1.0.0,1.10.0]", true},
		{"v in (1.10.0,2.0.0)", false},
		{"v in [1.10.0,INFINITY)", true}, {`v in "1.9.0,1.10.0"`, true}, {`v in "1.9.0,1.9.1"`, false},
		{"rc < 2.0.0", true},
		{"rc in [1.0.0,2.0.0)", true}, {"rc > 2.0.0-rc", true}, {"one == 1.0.0", true}, {"v < 5", true},
		{"build in [1.0.0,2.0.0)", true}, {"build in (1.5.0,2.0.0)", false}, {"build in 1.2.0", false},
		{"build in 1.5.0", true}, {"build >= 1.2.0", false}, {"strict in [1.0.0,2.0.0)", false},
		// lists
		{"list == cat", true}, {"list == dog", true}, {"list == cow", false}, {"list != cat", false},
		{"list != cow", true}, {`list in "cow,dog"`, true}, {`list in "cow,hen"`, false}, {"list in cat", true},
		{"list < 5", false}, {"list in [1.0.0,2.0.0)", false}, {"array == cat", true}, {"array != cat", false},
		{"commas == cat", true}, {"commas != cat", false}, {"commas != cow", true}, {"whole == cat", false},
		{"whole != cat", true}, {"none == cat", false}, {"none != cat", true}, {`none in "cat,dog"`, false},
		// AND binds tighter than OR
		{"text == amd64 OR int == 1 AND int == 2", true}, {"(text == amd64 OR int == 1) AND int == 2", false},
		{"int == 1 && int == 2 || text == amd64", true}, {"int == 1 && (int == 2 || text == amd64)", false},
		{"  text == amd64", true}, {"int == 5 && text == amd64 && bool == true", true},
	} {
		e, err := Parse(c.in)
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
		} else if got := e.Holds(p); got != c.want {
			t.Errorf("%s is %v, want %v: %+v", c.in, got, c.want, e.Explain(p))
		}
	}
}

// A list is true when all its expressions are, and an empty one is.
func TestLists(t *testing.T) {
	p := node()
	for _, c := range []struct {
		in   []string
		want bool
	}{
		{nil, true},
		{[]string{"int == 5"}, true},
		{[]string{"int == 5", "text == amd64"}, true},
		{[]string{"int == 5", "text == arm64"}, false},
		{[]string{"int == 5 || absent == x", "text != amd64"}, false},
	} {
		l, err := ParseList(c.in)
		if err != nil || l.Holds(p) != c.want {
			t.Errorf("%q: %v, want %v, %v", c.in, l.Holds(p), c.want, err)
		}
	}
}

func TestExpressionExplained(t *testing.T) {
	e, err := Parse("int == 6 OR text == amd64 AND (absent == x || bool > 5)")
	if err != nil {
		t.Fatal(err)
	}
	want := Explanation{"int == 6 || text == amd64 && (absent == x || bool > 5)", false, "", []Explanation{
		{"int == 6", false, "int is the int 5", nil},
		{"text == amd64 && (absent == x || bool > 5)", false, "", []Explanation{
			{"text == amd64", true, `text is the string "amd64"`, nil},
			{"absent == x || bool > 5", false, "", []Explanation{
				{"absent == x", false, "no property absent", nil},
				{"bool > 5", false, "bool is the boolean true, which does not compare so", nil},
			}},
		}},
	}}
	if got := (List{e}).Explain(node()); !reflect.DeepEqual(got, []Explanation{want}) {
		t.Errorf("%+v", got)
	}
}

// What a value may not be.
func TestValues(t *testing.T) {
	text := func(typ Type, s string) error { _, err := NewText(typ, s); return err }
	number := func(typ Type, s string) error { _, err := NewNumber(typ, s); return err }
	boolean := func(typ Type) error { _, err := NewBoolean(typ, true); return err }
	list := func(typ Type, s ...string) error { _, err := NewList(typ, s); return err }
	for _, c := range []struct {
		err  error
		want string // "": none
	}{
		{text(Untyped, ""), ""}, {text(Untyped, "a,,b"), ""}, {text(TypeVersion, "1.2.3-rc.1+b"), ""},
		{text(TypeInt, "5"), "a value of type int has no quotes"},
		{text(TypeBoolean, "true"), "has no quotes"},
		{text(TypeVersion, "v1.0.0"), `"v1.0.0" is not a version`},
		{text(TypeVersion, "1.2.3.4"), "is not a version"},
		{text(TypeVersion, ""), "is not a version"},
		{text(TypeList, "a,,b"), "an element of the list is empty"},
		{text(TypeList, ""), "an element of the list is empty"},
		{number(TypeInt, "5e3"), ""}, {number(TypeInt, "50e-1"), ""}, {number(TypeFloat, "5"), ""},
		{number(TypeInt, "5.5"), "5.5 is not a whole number"},
		{number(TypeString, "5"), "a value of type string is not a number"},
		{number(TypeVersion, "5"), "a value of type version is not a number"},
		{number(Untyped, "1e1000"), "its exponent is beyond 999"},
		{boolean(TypeBoolean), ""},
		{boolean(TypeString), "a value of type string is not true or false"},
		{list(Untyped), ""},
		{list(TypeString, "a"), "a value of type string is not an array"},
		{list(TypeList, "a", ""), "an element of the list is empty"},
	} {
		if c.err == nil && c.want != "" || c.err != nil && (c.want == "" || !strings.Contains(c.err.Error(), c.want)) {
			t.Errorf("%v, want %q", c.err, c.want)
		}
	}
	for name, good := range map[string]bool{"a": true, "openhorizon.cpu": true, "a!b": true, "-a": true, "a b": false,
		"": false, "1a": false, "!a": false, "a!": false, "a=b": false, "AND": false, "OR": false, "имя": false,
		"a!=b": false} {
		if err := CheckName(name); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
	}
}
