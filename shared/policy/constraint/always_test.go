package constraint

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestAlwaysTrue(t *testing.T) {
	many := make([]string, 0, 40)
	for i := range 40 {
		many = append(many, "l != x"+strings.Repeat("x", i))
	}
	for _, c := range []struct {
		in   string // expressions, with ; between them
		want bool   // if every node has the properties of typeOf
	}{
		{"", true},
		{"absent == x || absent != x", false},
		{"t == x || t != x", true},
		{"t == x || t != y", false},
		{"t == x || t == y", false},
		{"t != x && t != y || t in \"x,y\"", true},
		{"t == x || t != x; absent == x", false},
		{"t == x || t != x; b == true || b == false", true},
		{"(t == x || t != x) && (absent == x || b != true || b == 1)", true},
		{"t == x && b == true || t != x || b == false", true},
		{"t == x && b == true || t != x && b == false", false},
		{"b == true || b == false", true},
		{"b == true || b == yes", false},
		{"b == true || b != true", true},
		{"n < 5 || n >= 5", true},
		{"n < 5 || n > 5", false},
		{"n < 5 || n > 4", true},
		{"n <= 4 || n >= 5", false},
		{"i <= 4 || i >= 5", true},
		{"i <= 4 || i > 5", false},
		{"i < 4.5 || i > 4.6", true},
		{"i <= -5 || i >= -4", true},
		{"i < -5 || i >= -4", false},
		{"i != 4.5", true},
		{"n != 4.5", false},
		{"i < 5 || i == 5 || i > 5.5", true},
		{"i <= 9007199254740992 || i >= 9007199254740993", true},
		{"i < 1e400 || i >= 1e400", true},
		{"i <= -0.5 || i >= 0", true},
		{"i < -0.5 || i > 0.5", false},
		{"v < 1.0.0 || v in [1.0.0,INFINITY)", true},
		{"v < 1.0.0 || v in (1.0.0,INFINITY)", false},
		{"v < 1.0.0 || v in 1.0.0", true},
		{"v in [1.0.0,2.0.0) || v < 1 || v >= 2", true},
		{"v in \"1.0.0,2.0.0\" || v < 1.0.0 || v > 2.0.0 || v in (1.0.0,2.0.0)", true},
		{"v >= 0.0.0", false}, // 0.0.0-rc.1 is lower
		{"v == x || v != x", false},
		{"l == x || l != x", true},
		{"l == x || l == y || l != x", true},
		{"l in \"x,y\" || l != x && l != y", true},
		{"l in \"x,y\" || l != x", true},
		{"l in \"x,y\" || l == z", false},
		{"n == 5 || n != 5 || absent == x", true},
		{`n == "5" || n != "5"`, false},
		{"n in 5", false},
		{strings.Join(many, " || "), false}, // beyond what is tried, and so not decided
	} {
		var texts []string
		if c.in != "" {
			texts = strings.Split(c.in, ";")
		}
		l, err := ParseList(texts)
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		if got := AlwaysTrue(l, typeOf); got != c.want {
			t.Errorf("%.100s: %v, want %v", c.in, got, c.want)
		}
		if AlwaysTrue(l, nil) != (c.in == "") {
			t.Errorf("%.100s: not what it is without properties that all have", c.in)
		}
	}
}

// What is always true is true of every set of properties; what is not always true is not, as soon as enough of them
// are tried, where the cases are few.
func TestAlwaysTrueHolds(t *testing.T) {
	alwaysTrue, refuted := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		text := drawExpr(t, 3)
		if rapid.Bool().Draw(t, "either way") { // most expressions drawn are never always true
			name := anyOf(t, []string{"t", "l", "n", "b"}, "of")
			value := map[string]string{"t": "a", "l": "a", "n": "1", "b": "true"}[name]
			text = "(" + text + ") || " + name + " == " + value + " || " + name + " != " + value
		}
		e := parsed(t, text)
		all := AlwaysTrue(List{e}, typeOf)
		for range 60 {
			p := Properties{}
			for _, name := range fewNames {
				p[name], _ = drawValue(t, name, true)
			}
			if !e.Holds(p) {
				if all {
					t.Fatalf("%s is not always true: %v", e, p)
				}
				refuted++
				return
			}
		}
		if all {
			alwaysTrue++
		}
	})
	if alwaysTrue < 10 || refuted < 10 {
		t.Errorf("%d were always true, %d were refuted", alwaysTrue, refuted)
	}
}

// Over strings, booleans, lists and small integers, whose sets of properties can all be tried, the answer is exact.
func TestAlwaysTrueIsExact(t *testing.T) {
	var sets []Properties
	for _, text := range []string{"a", "c", "z"} {
		for _, b := range []bool{false, true} {
			for _, list := range [][]string{nil, {"a"}, {"c"}, {"a", "c"}, {"z"}} {
				for _, n := range []string{"0", "1", "2", "3"} {
					sets = append(sets, Properties{"t": must(NewText(TypeString, text)),
						"b": must(NewBoolean(TypeBoolean, b)), "l": must(NewList(TypeList, list)),
						"i": must(NewNumber(TypeInt, n))})
				}
			}
		}
	}
	comparisons := []string{"t == a", "t != a", "t != c", `t in "a,c"`, "b == true", "b != true", "l == a", "l != a",
		"l != c", `l in "a,c"`, "i < 1", "i >= 1", "i <= 1", "i > 1.5", "i == 1", "i != 2", "o == a", "o != a"}
	both := map[bool]int{}
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
			return strings.Join(rapid.SliceOfN(rapid.SampledFrom(comparisons), 1, 2).Draw(t, "and"), " && ")
		}), 1, 5).Draw(t, "or")
		e := parsed(t, strings.Join(parts, " || "))
		want := true
		for _, p := range sets {
			want = want && e.Holds(p)
		}
		if got := AlwaysTrue(List{e}, typeOf); got != want {
			t.Fatalf("%s: %v, want %v", e, got, want)
		}
		both[want]++
	})
	if both[true] < 5 || both[false] < 5 {
		t.Errorf("always true or not: %v", both)
	}
}

// Whatever an expression is, the answer comes soon; where it takes too many cases it is no.
func TestAlwaysTrueIsBounded(t *testing.T) {
	var parts []string
	always := map[string]Type{}
	for i := range 30 {
		name := "n" + strings.Repeat("x", i)
		always[name] = TypeFloat
		parts = append(parts, "("+name+" < 1 || "+name+" >= 1)")
	}
	each := strings.Join(parts, " && ")
	for text, want := range map[string]bool{each: true, "absent == x || " + each: false} {
		e, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if AlwaysTrue(List{e}, always) != want {
			t.Errorf("%.60s: not %v", text, want)
		}
		work := maxWork
		for range 3 { // one budget serves a whole list
			alwaysTrue(e, always, &work)
		}
		if !want && (work > 0 || work < -8*len(parts)) {
			t.Errorf("%d comparisons left", work)
		}
	}
}
