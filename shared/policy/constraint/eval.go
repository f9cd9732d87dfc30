package constraint

import (
	"fmt"
	"slices"
	"strconv"
)

// verdict is what a comparison comes to.
type verdict int

const (
	no           verdict = iota
	yes                  //
	absent               // there is no property of that name
	incomparable         // its type does not go with the operator and the value
)

func is(b bool) verdict {
	if b {
		return yes
	}
	return no
}

// Holds reports whether all expressions of the list are true of the properties.
func (l List) Holds(p Properties) bool {
	for _, e := range l {
		if !e.Holds(p) {
			return false
		}
	}
	return true
}

// Holds reports whether the expression is true of the properties. A comparison with a property that is absent, or
// whose type does not go with the value, is false, also with !=.
func (e *Expr) Holds(p Properties) bool {
	switch e.Op {
	case And:
		for i := range e.Args {
			if !e.Args[i].Holds(p) {
				return false
			}
		}
		return true
	case Or:
		for i := range e.Args {
			if e.Args[i].Holds(p) {
				return true
			}
		}
		return false
	}
	return e.judge(p) == yes
}

// judge evaluates a comparison.
func (e *Expr) judge(p Properties) verdict {
	v, ok := p[e.Name]
	if !ok {
		return absent
	}
	switch v.typ {
	case TypeInt, TypeFloat:
		if e.Value.number == nil || e.Op == In {
			return incomparable
		}
		return e.Op.ordered(v.number.compare(e.Value.number))
	case TypeBoolean:
		return e.judgeBoolean(v.truth)
	case TypeVersion:
		return e.judgeVersion(v.version)
	case TypeList:
		return e.judgeList(v.elements)
	}
	return e.judgeText(&v)
}

// ordered returns whether a comparison with the operator holds, c being -1, 0 or 1.
func (op Op) ordered(c int) verdict {
	switch op {
	case Equal:
		return is(c == 0)
	case NotEqual:
		return is(c != 0)
	case Less:
		return is(c < 0)
	case Greater:
		return is(c > 0)
	case LessEqual:
		return is(c <= 0)
	case GreaterEqual:
		return is(c >= 0)
	}
	return incomparable
}

func (e *Expr) judgeBoolean(b bool) verdict {
	want, err := strconv.ParseBool(e.Value.Text)
	if err != nil || e.Value.Form != Word || e.Op != Equal && e.Op != NotEqual {
		return incomparable
	}
	return is((b == want) == (e.Op == Equal))
}

func (e *Expr) judgeVersion(v *Version) verdict {
	l := &e.Value
	switch {
	case e.Op == In && l.Form == Range:
		return is(l.span.contains(v))
	case e.Op == In && l.Form == Several:
		return is(slices.ContainsFunc(l.versions, func(o Version) bool { return v.Compare(o) == 0 }))
	case l.version == nil:
		return incomparable
	case e.Op == In: // a version alone is the lower end of a range
		return is(v.Compare(*l.version) >= 0)
	}
	return e.Op.ordered(v.Compare(*l.version))
}

func (e *Expr) judgeList(elements []string) verdict {
	l := &e.Value
	switch {
	case e.Op == In && l.Form == Several:
		return is(slices.ContainsFunc(elements, func(s string) bool { return slices.Contains(l.Elements, s) }))
	case l.Form == Range:
		return incomparable
	case e.Op == Equal || e.Op == In:
		return is(slices.Contains(elements, l.Text))
	case e.Op == NotEqual:
		return is(!slices.Contains(elements, l.Text))
	}
	return incomparable
}

func (e *Expr) judgeText(v *Value) verdict {
	l := &e.Value
	switch {
	case l.Form == Range && v.version != nil:
		return is(l.span.contains(v.version))
	case l.Form == Range:
		return incomparable
	case l.Form == Several:
		return is(slices.Contains(l.Elements, v.text))
	case e.Op == Equal || e.Op == In:
		return is(v.text == l.Text)
	case e.Op == NotEqual:
		return is(v.text != l.Text)
	}
	return incomparable
}

// Explanation is what an expression comes to, and why.
type Explanation struct {
	Expression string        `json:"expression"`      // as it is printed
	Value      bool          `json:"value"`           // what it comes to
	Why        string        `json:"why,omitempty"`   // of a comparison: what the property is
	Parts      []Explanation `json:"parts,omitempty"` // what && and || connect; all are evaluated
}

// Explain evaluates every expression of the list and all parts of it.
func (l List) Explain(p Properties) []Explanation {
	list := make([]Explanation, len(l))
	for i, e := range l {
		list[i] = e.Explain(p)
	}
	return list
}

// Explain evaluates the expression and all parts of it.
func (e *Expr) Explain(p Properties) Explanation {
	x := Explanation{Expression: e.String(), Value: e.Holds(p)}
	if e.Op == And || e.Op == Or {
		for i := range e.Args {
			x.Parts = append(x.Parts, e.Args[i].Explain(p))
		}
		return x
	}
	switch e.judge(p) {
	case absent:
		x.Why = "no property " + e.Name
	case incomparable:
		x.Why = fmt.Sprintf("%s is the %s, which does not compare so", e.Name, p[e.Name])
	default:
		x.Why = fmt.Sprintf("%s is the %s", e.Name, p[e.Name])
	}
	return x
}
