package constraint

import (
	"reflect"
	"strings"
	"testing"
)

// What is accepted, and how it is printed; "" means as it stands.
func TestExpressionsAccepted(t *testing.T) {
	for _, c := range []struct{ in, out string }{
		// operators
		{"a == b", ""},
		{"a = b", "a == b"},
		{"a != b", ""},
		{"a < 5", ""},
		{"a > 5", ""},
		{"a <= 5", ""},
		{"a >= 5", ""},
		{"a in b", ""},
		// without white space, the longest operator first
		{"a==b", "a == b"},
		{"a=b", "a == b"},
		{"a!=b", "a != b"},
		{"a<=5", "a <= 5"},
		{"a>=5", "a >= 5"},
		{"a<5&&b>6||c==d", "a < 5 && b > 6 || c == d"},
		{"a!b==c", "a!b == c"},
		{"a<-5", "a < -5"},
		{`a in"x,y"`, `a in "x,y"`},
		{"a in[1.0.0,2.0.0)", "a in [1.0.0,2.0.0)"},
		// white space
		{"  a == b  ", "a == b"},
		{"\ta\r\n==\nb", "a == b"},
		// connectives
		{"a == b AND c == d", "a == b && c == d"},
		{"a == b OR c == d", "a == b || c == d"},
		{"a == b AND(c == d)", "a == b && c == d"},
		{"(a == b)AND c == d", "a == b && c == d"},
		{"(a == b)OR(c == d)", "a == b || c == d"},
		{"a in [1.0.0,2.0.0)AND b == c", "a in [1.0.0,2.0.0) && b == c"},
		{"a == b && c == d && e == f", ""},
		{"a == b || c == d && e == f", ""},
		{"a == b && c == d || e == f", ""},
		{"(a == b || c == d) && e == f", ""},
		{"a == b && (c == d || e == f)", ""},
		{"a == b && (c == d && e == f)", ""},
		{"(a == b || c == d) || e == f", ""},
		{"(a == b && c == d) || e == f", "a == b && c == d || e == f"},
		{"((a == b))", "a == b"},
		{"aANDb == xORy", ""},
		{"and == or", ""},
		{"a == Android", ""},
		{"a == ORacle && ANDy == b", ""},
		// names
		{"openhorizon.cpu == 1", ""},
		{"_a-b/c!d?e+f~g'h.i9 == 1", ""},
		{"-a == 1", ""},
		{"in == in", ""},
		{"in in in", ""},
		{"true == false", ""},
		// values
		{"a == true", ""},
		{"a == 5.", ""},
		{"a == +5", ""},
		{"a == 05", ""},
		{"a == -.5e-3", ""},
		{"a == 9007199254740993", ""},
		{"a == 10.0.0.1", ""},
		{"a == it's", ""},
		{"a == org/pattern", ""},
		{`a == "b c"`, ""},
		{`a == "AND"`, ""},
		{`a == "a:b@c"`, ""},
		{`a == "Привет"`, ""},
		{`a == "a\b"`, ""},
		{`a == "!x!"`, ""},
		{`a == " b"`, ""},
		{`a in "b"`, ""},
		{`a in "b,c"`, ""},
		{`a in " b , c d "`, `a in "b,c d"`},
		{"a in 1.2.0", ""},
		{"a in [1.0.0,2.0.0]", ""},
		{"a in (1.0.0,INFINITY)", ""},
		{"a in [ 1.0.0 , 2.0.0 )", "a in [1.0.0,2.0.0)"},
		{"a in [1.0.0,1.0.0]", ""},
		{"a in [1,2.5)", ""},
		{"a in [1.0.0-rc.1,1.0.0)", ""},
		{"a >= 1.2.0", ""},
		{"a < 2.0.0-rc.1+b7", ""},
		{"a < 1e3", ""},
		{strings.Repeat("(", MaxDepth) + "a == b" + strings.Repeat(")", MaxDepth), "a == b"},
	} {
		e, err := Parse(c.in)
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		want := c.out
		if want == "" {
			want = c.in
		}
		if got := e.String(); got != want {
			t.Errorf("%s: printed as %s, want %s", c.in, got, want)
		}
		if again, err := Parse(e.String()); err != nil || !reflect.DeepEqual(again, e) {
			t.Errorf("%s: read again as %v, %v", e, again, err)
		}
	}
}

// What is refused, at which column, and why.
func TestExpressionsRefused(t *testing.T) {
	for _, c := range []struct {
		in     string
		column int
		why    string // the message has it
	}{
		{"", 1, "the expression is empty"},
		{"   ", 1, "the expression is empty"},
		{"()", 2, "a name or ( is expected, not )"},
		{"( )", 3, "a name or ( is expected, not )"},
		{"a", 2, "an operator (= == != < > <= >= in) is expected, not the end"},
		{"a b", 3, "an operator (= == != < > <= >= in) is expected, not b"},
		{"a ==", 5, "a value is expected, not the end"},
		{"== b", 1, "a name or ( is expected, not =="},
		// ends that hang
		{"a == x || ", 11, "a name or ( is expected, not the end"},
		{"a == b && ", 11, "a name or ( is expected, not the end"},
		{"a == b AND", 11, "a name or ( is expected, not the end"},
		{"&& a == b", 1, "a name or ( is expected, not &&"},
		{"a == b && && c == d", 11, "a name or ( is expected, not &&"},
		{"a == b AND OR c == d", 12, "a name or ( is expected, not OR"},
		{"a == b && ()", 12, "a name or ( is expected, not )"},
		// parentheses
		{"a == b) && (c == x", 7, "AND, OR or the end is expected, not )"},
		{"(a == b", 8, "AND, OR or ) is expected, not the end"},
		{"(a == b c", 9, "AND, OR or ) is expected, not c"},
		{"((a == b)", 10, "AND, OR or ) is expected, not the end"},
		{")", 1, "a name or ( is expected, not )"},
		{"a == b (c == d)", 8, "AND, OR or the end is expected, not ("},
		{"(a) == b", 3, "an operator"},
		{strings.Repeat("(", MaxDepth+1) + "a == b" + strings.Repeat(")", MaxDepth+1), MaxDepth + 1, "more than 32"},
		// operators
		{"a => 5", 3, "=> is no operator; did you mean >=?"},
		{"a =< 5", 3, "=< is no operator; did you mean <=?"},
		{"a=>5", 2, "did you mean >=?"},
		{"a <> b", 3, "did you mean !=?"},
		{"a =! b", 3, "did you mean !=?"},
		{"a === b", 3, "did you mean ==?"},
		{"a !== b", 3, "did you mean !=?"},
		{"a==!b", 2, "==! is no operator"},
		{"a ==== b", 3, "==== is no operator"},
		{"a == b & c == d", 8, "did you mean &&?"},
		{"a == b | c == d", 8, "did you mean ||?"},
		{"a == b &&& c == d", 8, "&&& is no operator"},
		{"a && b", 3, "an operator"},
		{"a IN b", 3, "it is written in small letters"},
		{"a == b == c", 8, "AND, OR or the end is expected, not =="},
		// names and !
		{"!a == b", 1, "a word does not begin with !"},
		{"! a == b", 1, "a word does not begin with !"},
		{"a! == b", 2, "a word does not end with !"},
		{"a!!=b", 2, "a word does not end with !"},
		{"a == !b", 6, "a word does not begin with !"},
		{"a == b!", 7, "a word does not end with !"},
		{"!(a == b)", 1, "a word does not begin with !"},
		{"1a == b", 1, "a name does not begin with a digit"},
		{`"a" == b`, 1, `a name or ( is expected, not "a"; a name has no quotes`},
		{"имя == b", 1, "'и' stands in quotes only"},
		{"a:b == c", 2, "':' stands in quotes only"},
		{"AND == b", 1, "a name or ( is expected, not AND"},
		// values
		{"a == AND", 6, `as a value it is written "AND"`},
		{"a == OR", 6, `as a value it is written "OR"`},
		{"a == AND && b == c", 6, `as a value it is written "AND"`},
		{"a == b c", 8, "a text with spaces is written in quotes"},
		{"a == b and c == d", 8, "it is written in capitals"},
		{"a == b or c == d", 8, "it is written in capitals"},
		{"a == user@host", 10, "'@' stands in quotes only"},
		{"a == Я", 6, "'Я' stands in quotes only"},
		{"a == x,y", 7, "',' stands in quotes only"},
		{`a == ""`, 6, "the text is empty"},
		{`a == " "`, 6, "the text is empty"},
		{`a == "b`, 6, "never ends"},
		{`я == "b`, 1, "'я' stands in quotes only"},
		{`a == "я" b`, 10, "AND, OR or the end is expected, not b"},
		{"a == \"b\tc\"", 8, "U+0009 cannot be printed"},
		{"a == \"b\xff\"", 8, "not UTF-8"},
		{"a == \xff", 6, "not UTF-8"},
		{`a == "b"AND c == d`, 9, "white space or a parenthesis is expected before AND"},
		{`a == "b,c"`, 6, "a list, which has commas, goes with in only"},
		{`a != "b,c"`, 6, "goes with in only"},
		{`a in "b,,c"`, 9, "an element of the list is empty"},
		{`a in ","`, 7, "an element of the list is empty"},
		{`a in "b, "`, 9, "an element of the list is empty"},
		{`a < b`, 5, "a number or version is expected, not b"},
		{`a < Inf`, 5, "a number or version is expected, not Inf"},
		{`a < true`, 5, "a number or version is expected, not true"},
		{`a >= "5"`, 6, `a number or version is expected, not "5"; it has no quotes`},
		{`a < 1e1000`, 5, "a number or version is expected"},
		{`a < NaN`, 5, "a number or version is expected"},
		{`a < 1_000`, 5, "a number or version is expected"},
		// ranges
		{"a == [1.0.0,2.0.0)", 6, "a range goes with in"},
		{"a < (1.0.0,2.0.0)", 5, "a range goes with in"},
		{"a in [1.0.0,2.0.0", 6, "the range that begins here never ends"},
		{"a in [1.0.0]", 6, "a range is two versions"},
		{"a in [1.0.0,2.0.0,3.0.0]", 6, "a range is two versions"},
		{"a in [x,2.0.0]", 7, `"x" is not a version`},
		{"a in [1.0.0, y]", 14, `"y" is not a version`},
		{"a in [INFINITY,2.0.0]", 7, "is not a version"},
		{"a in [1.0.0,infinity]", 13, "is not a version"},
		{"a in [2.0.0,1.0.0]", 6, "no version is in this range"},
		{"a in (1.0.0,1.0.0]", 6, "no version is in this range"},
		{"a in [1.0.0,1.0.0)", 6, "no version is in this range"},
		{"a in [v1.0.0,2.0.0)", 7, "is not a version"},
		{"a in [1.0.0.0,2.0.0)", 7, "is not a version"},
		{"a in [1.0.0-18446744073709551616,2.0.0)", 7, "is not a version"},
		{`a in "[1.0.0,2.0.0)"`, 6, "a range of versions has no quotes"},
		{"a in (b == c)", 6, "a range is two versions"},
		{"a in [1.0.0,2.0.0) b", 20, "AND, OR or the end is expected, not b"},
		{"a == b ]", 8, "AND, OR or the end is expected, not ]"},
		{strings.Repeat("a", MaxExpression+1), 1, "at most 4096 bytes"},
	} {
		e, err := Parse(c.in)
		if err == nil {
			t.Errorf("%.60s: accepted as %s", c.in, e)
			continue
		}
		if err.Column != c.column || !strings.Contains(err.Message, c.why) {
			t.Errorf("%.60s: column %d, %s; want column %d, %s", c.in, err.Column, err.Message, c.column, c.why)
		}
	}
}

// The mistake of a list says which expression has it, and what may stand there.
func TestListErrors(t *testing.T) {
	_, err := ParseList([]string{"a == b", "ä == ", "c =="})
	if err == nil || err.Error() != `expression 2, column 1: 'ä' stands in quotes only` {
		t.Error(err)
	}
	_, err = ParseList([]string{`a == "ä" && b`})
	if want := (&Error{1, 14, 14, operators, operators + " is expected, not the end"}); !reflect.DeepEqual(err, want) {
		t.Errorf("%+v", err)
	}
	if _, err := Parse("a"); err == nil || !strings.HasPrefix(err.Error(), "column 2: ") {
		t.Error(err)
	}
	if l, err := ParseList(nil); l != nil || err != nil {
		t.Error(l, err)
	}
}

// FuzzParse: nothing panics, mistakes are placed in the text, and what is accepted is printed so that it is read as
// the same and evaluates the same.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"a == b", `a in "b, c" && (d < 5 || e != f)`, "a in (1.0.0,INFINITY)", "a => 5",
		"!a == b", "a == b) && (c == x", `a == "`, "((((", "a in [", "a!b!=c", "я"} {
		f.Add(s)
	}
	p := Properties{"a": must(NewText(Untyped, "1.2.3")), "b": must(NewNumber(Untyped, "5")),
		"c": must(NewBoolean(Untyped, true)), "d": must(NewText(Untyped, "b,c")), "e": must(NewText(TypeVersion, "2"))}
	f.Fuzz(func(t *testing.T, in string) {
		e, err := Parse(in)
		if err != nil {
			if err.Offset < 0 || err.Offset > len(in) || err.Column < 1 || err.Column > len(in)+1 ||
				err.Message == "" {
				t.Fatalf("%q: %+v", in, err)
			}
			return
		}
		again, err := Parse(e.String())
		if err != nil || !reflect.DeepEqual(again, e) {
			t.Fatalf("%q: printed as %q, read again as %v, %v", in, e, again, err)
		}
		if x := e.Explain(p); x.Value != e.Holds(p) || x.Value != again.Holds(p) {
			t.Fatalf("%q: %+v", in, x)
		}
		if AlwaysTrue(List{e}, nil) {
			t.Fatalf("%q is always true", in)
		}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
