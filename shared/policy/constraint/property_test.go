package constraint

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// few are few names and values, so that comparisons meet properties and come out either way.
var (
	fewNames = []string{"t", "n", "i", "b", "v", "l"}
	fewTexts = []string{"a", "c", "1", "true"}
	fewNums  = []string{"1", "2.5", "-1", "1.0", "3e0"}
	fewVers  = []string{"1.0.0", "1.0.0-rc.1", "2", "1.5"}
)

func anyOf[T any](t *rapid.T, of []T, label string) T { return rapid.SampledFrom(of).Draw(t, label) }

func drawComparison(t *rapid.T) string {
	name := anyOf(t, fewNames, "name")
	switch op := anyOf(t, []Op{Equal, NotEqual, Less, Greater, LessEqual, GreaterEqual, In}, "operator"); op {
	case Equal, NotEqual:
		value := anyOf(t, [][]string{fewTexts, fewNums, fewVers}, "values")
		text := anyOf(t, value, "value")
		if rapid.Bool().Draw(t, "quoted") {
			text = `"` + text + `"`
		}
		return name + " " + string(op) + " " + text
	case In:
		switch rapid.IntRange(0, 2).Draw(t, "form") {
		case 0:
			return name + " in " + anyOf(t, fewTexts, "value")
		case 1:
			return name + ` in "` + strings.Join(rapid.SliceOfN(rapid.SampledFrom(append(fewTexts, fewVers...)), 1, 3).
				Draw(t, "elements"), ",") + `"`
		}
		return name + " in " + anyOf(t, []string{"[1.0.0,2.0.0)", "(1.0.0,2.0.0]", "[1.0.0-a,INFINITY)"}, "range")
	default:
		return name + " " + string(op) + " " + anyOf(t, append(fewNums, fewVers...), "value")
	}
}

// drawExpr draws the text of an expression, at most so deep.
func drawExpr(t *rapid.T, depth int) string {
	form := 0
	if depth > 0 {
		form = rapid.IntRange(0, 3).Draw(t, "form of expression")
	}
	switch form {
	case 1:
		return "(" + drawExpr(t, depth-1) + ")"
	case 2, 3:
		sign := anyOf(t, [][]string{2: {" && ", " AND "}, 3: {" || ", " OR "}}[form], "sign")
		return drawExpr(t, depth-1) + sign + drawExpr(t, depth-1)
	}
	return drawComparison(t)
}

func drawProperties(t *rapid.T) Properties {
	p := Properties{}
	for _, name := range fewNames {
		if v, there := drawValue(t, name, rapid.Bool().Draw(t, "typed")); there {
			p[name] = v
		}
	}
	return p
}

// typeOf are the types of those properties that are typed.
var typeOf = map[string]Type{"t": TypeString, "n": TypeFloat, "i": TypeInt, "b": TypeBoolean, "v": TypeVersion,
	"l": TypeList}

// drawValue draws a value of the property's type, or anything or none.
func drawValue(t *rapid.T, name string, typed bool) (v Value, there bool) {
	typ := anyOf(t, []Type{Untyped, TypeString, TypeFloat, TypeInt, TypeBoolean, TypeVersion, TypeList}, "type")
	if typed {
		typ = typeOf[name]
	}
	switch typ {
	case TypeString:
		return must(NewText(TypeString, anyOf(t, append(fewTexts, "z", "1.5.0", ""), "text"))), true
	case TypeFloat:
		return must(NewNumber(TypeFloat, anyOf(t, append(fewNums, "0", "1.5", "-7", "9"), "number"))), true
	case TypeInt:
		return must(NewNumber(TypeInt, fmt.Sprint(rapid.IntRange(-2, 5).Draw(t, "int")))), true
	case TypeBoolean:
		return must(NewBoolean(TypeBoolean, rapid.Bool().Draw(t, "bool"))), true
	case TypeVersion:
		return must(NewText(TypeVersion, anyOf(t, append(fewVers, "0.9.9", "1.2.0", "3.0.0"), "version"))), true
	case TypeList:
		list := rapid.SliceOfN(rapid.SampledFrom(append(fewTexts, "z")), 0, 3).Draw(t, "list")
		return must(NewList(TypeList, list)), true
	}
	if rapid.Bool().Draw(t, "there") {
		return must(NewText(Untyped, anyOf(t, []string{"a", "1.5.0", "a,c", "1"}, "untyped"))), true
	}
	return Value{}, false
}

func parsed(t *rapid.T, text string) *Expr {
	e, err := Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return e
}

// What is printed is read as the same tree.
func TestPrintedIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := parsed(t, drawExpr(t, 4))
		again := parsed(t, e.String())
		if !reflect.DeepEqual(again, e) || again.String() != e.String() {
			t.Fatalf("%s, read again as %s", e, again)
		}
	})
}

// Of two opposite comparisons exactly one is true, unless the property is absent or of another type: then none is. Of
// <, == and > exactly one is true of what has an order.
func TestOpposites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProperties(t)
		name := anyOf(t, fewNames, "name")
		value := anyOf(t, append(append(fewTexts, fewNums...), fewVers...), "value")
		_, there := p[name]
		holds := map[Op]bool{}
		for _, op := range []Op{Equal, NotEqual, Less, Greater, LessEqual, GreaterEqual} {
			if e, err := Parse(name + string(op) + value); err == nil {
				holds[op] = e.Holds(p)
				if j := e.judge(p); j == absent && there || (j == absent || j == incomparable) && holds[op] {
					t.Fatalf("%s: %v", e, j)
				}
			}
		}
		for a, b := range map[Op]Op{Equal: NotEqual, Less: GreaterEqual, Greater: LessEqual} {
			e, err := Parse(name + string(a) + value)
			if err != nil {
				continue
			}
			if j := e.judge(p); (holds[a] != holds[b]) != (j == yes || j == no) {
				t.Fatalf("%s %s: %s %v, %s %v", name, value, a, holds[a], b, holds[b])
			}
			if a == Less && (holds[Less] || holds[Greater]) == holds[Equal] && e.judge(p) != incomparable && there {
				t.Fatalf("%s %s: %v", name, value, holds)
			}
		}
	})
}

// && and || are those of logic; the words mean the same; AND binds tighter; a part in parentheses is the part.
func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProperties(t)
		x, y, z := drawExpr(t, 2), drawExpr(t, 2), drawExpr(t, 2)
		is := func(text string) bool { return parsed(t, text).Holds(p) }
		all := func(texts ...string) string { return "(" + strings.Join(texts, ") && (") + ")" }
		one := func(texts ...string) string { return "(" + strings.Join(texts, ") || (") + ")" }
		vx, vy, vz := is(x), is(y), is(z)
		for _, c := range []struct {
			text string
			want bool
		}{
			{all(x, y), vx && vy}, {one(x, y), vx || vy}, {all(y, x), vx && vy}, {one(y, x), vx || vy},
			{all(x, x), vx}, {one(x, x), vx}, {all(x, one(x, y)), vx}, {one(x, all(x, y)), vx},
			{all(all(x, y), z), vx && vy && vz}, {all(x, all(y, z)), vx && vy && vz},
			{all(x, one(y, z)), vx && vy || vx && vz}, {one(x, all(y, z)), (vx || vy) && (vx || vz)},
			{"(" + x + ") || (" + y + ") && (" + z + ")", vx || vy && vz},
			{"(" + x + ") AND (" + y + ") OR (" + z + ")", vx && vy || vz},
		} {
			if got := is(c.text); got != c.want {
				t.Fatalf("%s is %v, with %v %v %v", c.text, got, vx, vy, vz)
			}
		}
		l, err := ParseList([]string{x, y})
		if err != nil || l.Holds(p) != (vx && vy) {
			t.Fatalf("%v, %v", l, err)
		}
	})
}

// An explanation has the value of the whole and of each part, and a reason for each comparison.
func TestExplanationsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProperties(t)
		e := parsed(t, drawExpr(t, 3))
		var walk func(x Explanation)
		walk = func(x Explanation) {
			if parsed(t, x.Expression).Holds(p) != x.Value || (x.Why == "") != (len(x.Parts) > 0) {
				t.Fatalf("%+v", x)
			}
			for _, part := range x.Parts {
				walk(part)
			}
		}
		if x := e.Explain(p); x.Value != e.Holds(p) {
			t.Fatalf("%s: %+v", e, x)
		} else {
			walk(x)
		}
	})
}
