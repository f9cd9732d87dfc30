package constraint

import (
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// maxWork bounds the comparisons that AlwaysTrue evaluates for a list: about a tenth of a second.
const maxWork = 1 << 19

// AlwaysTrue reports whether a list of expressions is true of every set of properties that has at least those in
// always, each with a value of its type. It never says so of a list that some such set makes false.
//
// It decides by cases: what an expression can tell apart. A property that is not in always, or is there as Untyped, may
// be absent or of another type, which makes its comparisons false; there is no negation that would make this true. So
// without always, the empty list alone is always true: a == x || a != x is not. With a string in always it tries each
// text that the expression has and one other; with a boolean both values; with a number or version each that the
// expression has, and what lies between, below and above them; with a list each set of the texts.
//
// It says false, though the list is always true, where that depends on there being no version between two, and when
// there are too many cases.
func AlwaysTrue(l List, always map[string]Type) bool {
	work := maxWork
	return !slices.ContainsFunc(l, func(e *Expr) bool { return !alwaysTrue(e, always, &work) })
}

func alwaysTrue(e *Expr, always map[string]Type, work *int) bool {
	if e.Op == And { // each part by itself has fewer cases
		for i := range e.Args {
			if !alwaysTrue(&e.Args[i], always, work) {
				return false
			}
		}
		return true
	}
	s := search{cases: map[string]*cases{}, work: work}
	s.collect(e, always)
	return s.always(e, 0)
}

// cases are what an expression can tell apart in one property: how many there are, and which one is tried.
type cases struct {
	typ      Type
	texts    []string  // of strings and lists: those of the expression
	numbers  []decimal // of numbers, rising
	versions []Version // of versions, rising
	possible []int     // the cases that there are
	tried    int       // the current one; -1: not chosen
}

// Of a string, case i is texts[i] and the last one is another text. Of a list, bit i of a case says whether it has
// texts[i]. Of numbers and versions, case 2i+1 is the i-th one, 2i is what lies before it. Of a boolean, 1 is true.

// search tries all cases of the properties.
type search struct {
	cases map[string]*cases
	order []*cases
	work  *int // comparisons left
}

// maxTexts bounds the texts of one list: there is a case for each set of them.
const maxTexts = 16

// collect finds the properties that an expression tells cases of.
func (s *search) collect(e *Expr, always map[string]Type) {
	s.gather(e, always)
	for _, c := range s.order {
		n := 0
		switch c.typ {
		case TypeString:
			n = len(c.texts) + 1
		case TypeBoolean:
			n = 2
		case TypeList:
			n = 1 << min(len(c.texts), maxTexts)
		case TypeVersion:
			slices.SortFunc(c.versions, func(a, b Version) int { return a.Compare(b) })
			c.versions = slices.CompactFunc(c.versions, func(a, b Version) bool { return a.Compare(b) == 0 })
			n = 2*len(c.versions) + 1
		default:
			slices.SortFunc(c.numbers, func(a, b decimal) int { return a.compare(&b) })
			c.numbers = slices.CompactFunc(c.numbers, func(a, b decimal) bool { return a.compare(&b) == 0 })
			n = 2*len(c.numbers) + 1
		}
		for i := range n {
			if c.typ != TypeInt || c.hasInt(i) {
				c.possible = append(c.possible, i)
			}
		}
	}
}

func (s *search) gather(e *Expr, always map[string]Type) {
	for i := range e.Args {
		s.gather(&e.Args[i], always)
	}
	typ := always[e.Name]
	if e.Op == And || e.Op == Or || typ == Untyped {
		return
	}
	c := s.cases[e.Name]
	if c == nil {
		c = &cases{typ: typ, tried: -1}
		s.cases[e.Name], s.order = c, append(s.order, c)
	}
	l := &e.Value
	texts := l.Elements
	if l.Form == Word || l.Form == Quoted {
		texts = []string{l.Text}
	}
	for _, text := range texts {
		if !slices.Contains(c.texts, text) {
			c.texts = append(c.texts, text)
		}
	}
	if l.number != nil {
		c.numbers = append(c.numbers, *l.number)
	}
	if l.version != nil {
		c.versions = append(c.versions, *l.version)
	}
	c.versions = append(c.versions, l.versions...)
	if l.span != nil {
		c.versions = append(c.versions, l.span.low)
		if !l.span.infinite {
			c.versions = append(c.versions, l.span.high)
		}
	}
}

// hasInt reports whether a case of numbers has a whole one.
func (c *cases) hasInt(i int) bool {
	at := i / 2
	switch {
	case i%2 == 1:
		return c.numbers[at].whole()
	case at == 0 || at == len(c.numbers):
		return true
	}
	next := new(big.Int).Add(c.numbers[at-1].floor(), big.NewInt(1))
	return next.Cmp(c.numbers[at].floor()) < 0 ||
		next.Cmp(c.numbers[at].floor()) == 0 && !c.numbers[at].whole()
}

// floor returns the highest whole number that is not above d.
func (d *decimal) floor() *big.Int {
	text := "0"
	if d.exp > 0 {
		text = d.digits + strings.Repeat("0", max(0, d.exp-len(d.digits)))
		text = text[:d.exp]
	}
	n, _ := new(big.Int).SetString(text, 10) // digits only
	if d.negative {
		n.Neg(n)
		if !d.whole() {
			n.Sub(n, big.NewInt(1))
		}
	}
	return n
}

// always reports whether e is true in all cases of the properties from order[i] on, those before being chosen.
func (s *search) always(e *Expr, i int) bool {
	switch t := s.value(e); {
	case *s.work < 0:
		return false
	case t != unknown:
		return t == certain
	}
	c := s.order[i] // there is one: with all of them chosen nothing is unknown
	if len(c.texts) > maxTexts && c.typ == TypeList {
		return false
	}
	defer func() { c.tried = -1 }()
	for _, c.tried = range c.possible {
		if !s.always(e, i+1) {
			return false
		}
	}
	return true
}

// truth is a value while some properties are not chosen yet.
type truth int

const (
	never truth = iota
	unknown
	certain
)

// value evaluates an expression in the chosen cases.
func (s *search) value(e *Expr) truth {
	switch e.Op {
	case And:
		all := certain
		for i := range e.Args {
			if all = min(all, s.value(&e.Args[i])); all == never {
				break
			}
		}
		return all
	case Or:
		one := never
		for i := range e.Args {
			if one = max(one, s.value(&e.Args[i])); one == certain {
				break
			}
		}
		return one
	}
	*s.work--
	c := s.cases[e.Name]
	switch {
	case c == nil:
		return never
	case c.tried < 0:
		return unknown
	case c.judge(e) == yes:
		return certain
	}
	return never
}

// judge evaluates a comparison in the chosen case.
func (c *cases) judge(e *Expr) verdict {
	switch l := &e.Value; c.typ {
	case TypeBoolean:
		return e.judgeBoolean(c.tried == 1)
	case TypeString:
		text := otherText
		if c.tried < len(c.texts) {
			text = c.texts[c.tried]
		}
		return e.judgeText(&Value{typ: TypeString, text: text})
	case TypeList:
		var has []string
		for i, text := range c.texts {
			if c.tried>>i&1 == 1 {
				has = append(has, text)
			}
		}
		return e.judgeList(has)
	case TypeVersion:
		return c.judgeVersion(e)
	default:
		if l.number == nil || e.Op == In {
			return incomparable
		}
		at, _ := slices.BinarySearchFunc(c.numbers, l.number, func(a decimal, b *decimal) int { return a.compare(b) })
		return e.Op.ordered(c.tried - (2*at + 1))
	}
}

// otherText is a text that no expression has: it has a quote.
var otherText = strconv.Quote("other")

// position returns where a version lies in the chosen case: below 0, 0 or above 0 against v.
func (c *cases) position(v Version) int {
	at, _ := slices.BinarySearchFunc(c.versions, v, func(a, b Version) int { return a.Compare(b) })
	return c.tried - (2*at + 1)
}

// judgeVersion is as Expr.judgeVersion, of a version between others.
func (c *cases) judgeVersion(e *Expr) verdict {
	l := &e.Value
	switch {
	case e.Op == In && l.Form == Range:
		low := c.position(l.span.low)
		if low < 0 || low == 0 && l.span.openLow {
			return no
		}
		if l.span.infinite {
			return yes
		}
		high := c.position(l.span.high)
		return is(high < 0 || high == 0 && !l.span.openHigh)
	case e.Op == In && l.Form == Several:
		return is(slices.ContainsFunc(l.versions, func(o Version) bool { return c.position(o) == 0 }))
	case l.version == nil:
		return incomparable
	case e.Op == In:
		return is(c.position(*l.version) >= 0)
	}
	return e.Op.ordered(c.position(*l.version))
}
