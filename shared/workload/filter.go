package workload

import (
	"fmt"
	"strings"

	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// Filter is a condition on an entry (seed 004, filter). Its grammar:
//
//	filter = "instance" "[" or "]"
//	or     = and { "or" and }
//	and    = not { "and" not }
//	not    = "not" not | "(" or ")" | test
//	test   = path [ ( "=" | "==" | "!=" ) text ]
//	path   = "slot" [ "/service" | "/node" ] | "@class" | "configurationId" | [ "properties/" ] name
//	name   = a word, or a text
//	text   = a word, or '…' or "…" with \ before a quote or a \
//
// A word is one or more of the characters that are not white space, quotes or any of []()=!\. A path alone asks
// whether the value is there; = and != compare, and a value that is not there equals nothing. A
// name without properties/ is a property.
type Filter struct {
	root node
	ops  int // tests in it
}

// size is how many tests it takes at most; 0 for nil.
func (f *Filter) size() int {
	if f == nil {
		return 0
	}
	return f.ops
}

// node is one step of a condition.
type node struct {
	op   string // and, or, not, has, =, !=
	kids []node
	path string
	text string
}

// ParseFilter reads a filter; the error's message names the column.
func ParseFilter(s string) (*Filter, *wire.Error) {
	p := &filterParser{in: s}
	if len(s) > MaxText {
		return nil, wire.New(wire.CodeTooLarge, "", fmt.Sprintf("a filter has at most %d bytes", MaxText))
	}
	p.next()
	p.expect("instance", true)
	p.expect("[", false)
	root := p.or(0)
	p.expect("]", false)
	if p.err == nil && p.tok.text != "" {
		p.fail("nothing may follow the closing ]")
	}
	if p.err != nil {
		return nil, p.err
	}
	return &Filter{root, p.ops}, nil
}

type token struct {
	text   string // "" at the end
	word   bool   // a word or a text, not a mark
	quoted bool   // a text in quotes
	off    int
}

type filterParser struct {
	ops int
	in  string
	at  int
	tok token
	err *wire.Error
}

func (p *filterParser) fail(format string, a ...any) {
	if p.err == nil {
		p.err = wire.New(wire.CodeBadValue, "", fmt.Sprintf("the filter, column %d: ", len([]rune(p.in[:p.tok.off]))+1)+
			fmt.Sprintf(format, a...))
	}
}

const marks = "[]()=!"

// next moves to the next token.
func (p *filterParser) next() {
	for p.at < len(p.in) && strings.IndexByte(" \t\r\n", p.in[p.at]) >= 0 {
		p.at++
	}
	p.tok = token{off: p.at}
	if p.at == len(p.in) {
		return
	}
	switch c := p.in[p.at]; {
	case c == '"' || c == '\'':
		p.quoted(c)
	case strings.IndexByte(marks, c) >= 0:
		p.at++
		if (c == '=' || c == '!') && p.at < len(p.in) && p.in[p.at] == '=' {
			p.at++
		}
		p.tok.text = p.in[p.tok.off:p.at]
	default:
		for p.at < len(p.in) && strings.IndexByte(" \t\r\n\"'\\"+marks, p.in[p.at]) < 0 {
			p.at++
		}
		if p.at == p.tok.off {
			p.fail("a \\ has a meaning in quotes only")
			p.at = len(p.in)
			return
		}
		p.tok.text, p.tok.word = p.in[p.tok.off:p.at], true
	}
}

func (p *filterParser) quoted(q byte) {
	var b strings.Builder
	for i := p.at + 1; i < len(p.in); i++ {
		switch c := p.in[i]; {
		case c == q:
			p.at = i + 1
			p.tok.text, p.tok.word, p.tok.quoted = b.String(), true, true
			return
		case c == '\\' && i+1 < len(p.in) && (p.in[i+1] == '\\' || p.in[i+1] == q):
			i++
			b.WriteByte(p.in[i])
		default:
			b.WriteByte(c)
		}
	}
	p.fail("the text that begins here never ends")
	p.at = len(p.in)
}

// is reports whether the next token is this mark, or this word without quotes.
func (p *filterParser) is(text string) bool {
	return p.err == nil && p.tok.text == text && !p.tok.quoted && p.tok.text != ""
}

func (p *filterParser) expect(text string, begin bool) {
	switch {
	case p.is(text):
		p.next()
	case begin:
		p.fail("a filter is instance[condition]")
	default:
		p.fail("%s is expected%s", text, p.found())
	}
}

func (p *filterParser) found() string {
	if p.tok.text == "" && !p.tok.quoted {
		return ", and the filter ends"
	}
	return ", not " + strictjson.Show(p.tok.text)
}

func (p *filterParser) or(depth int) node {
	kids := []node{p.and(depth)}
	for p.is("or") {
		p.next()
		kids = append(kids, p.and(depth))
	}
	return joined("or", kids)
}

func (p *filterParser) and(depth int) node {
	kids := []node{p.not(depth)}
	for p.is("and") {
		p.next()
		kids = append(kids, p.not(depth))
	}
	return joined("and", kids)
}

func joined(op string, kids []node) node {
	if len(kids) == 1 {
		return kids[0]
	}
	return node{op: op, kids: kids}
}

func (p *filterParser) not(depth int) node {
	if depth == maxFilterDepth {
		p.fail("more than %d conditions stand in one another", maxFilterDepth)
	}
	switch {
	case p.err != nil:
		return node{}
	case p.is("not"):
		p.next()
		return node{op: "not", kids: []node{p.not(depth + 1)}}
	case p.is("("):
		p.next()
		n := p.or(depth + 1)
		p.expect(")", false)
		return n
	}
	return p.test()
}

func (p *filterParser) test() node {
	if !p.tok.word || p.is("and") || p.is("or") {
		p.fail("a path is expected, such as properties/name%s", p.found())
		return node{}
	}
	p.ops++
	path := p.path()
	for _, op := range []string{"=", "==", "!="} {
		if !p.is(op) {
			continue
		}
		p.next()
		if !p.tok.word {
			p.fail("a text is expected after %s%s", op, p.found())
			return node{}
		}
		n := node{op: strings.Replace(op, "==", "=", 1), path: path, text: p.tok.text}
		p.next()
		return n
	}
	return node{op: "has", path: path}
}

// path reads a path, whose last part may be in quotes: properties/"with space".
func (p *filterParser) path() string {
	t := p.tok
	p.next()
	if t.quoted {
		return propertyPath + t.text
	}
	if t.text == propertyPath && p.tok.quoted {
		name := p.tok.text
		p.next()
		return propertyPath + name
	}
	path, why := knownPath(t.text)
	if why != "" {
		p.tok.off = t.off
		p.fail("%s", why)
	}
	return path
}

// propertyPath begins the path of a property.
const propertyPath = "properties/"

var paths = []string{"slot", "slot/service", "slot/node", "@class", "configurationId"}

// knownPath completes a path; why says what is wrong with it, or "".
func knownPath(s string) (path, why string) {
	for _, known := range paths {
		if s == known {
			return s, ""
		}
	}
	if name, ok := strings.CutPrefix(s, propertyPath); ok {
		if name == "" {
			return "", "properties/ must be followed by a property's name"
		}
		return s, ""
	}
	if strings.HasPrefix(s, "slot/") {
		return "", fmt.Sprintf("a slot has no %s; it has slot/service and slot/node",
			strictjson.Show(strings.TrimPrefix(s, "slot/")))
	}
	return propertyPath + s, ""
}

// entry is what a filter or a template looks at: a topology, or a configuration that is there already.
type entry struct {
	class      Class
	id         string
	slot       Slot
	properties map[string]string
}

// at returns the value at a path.
func (e *entry) at(path string) (string, bool) {
	switch path {
	case "slot":
		return e.slot.String(), true
	case "slot/service":
		return e.slot.Service, true
	case "slot/node":
		return e.slot.Node, true
	case "@class":
		return e.class.Short(), true
	case "configurationId":
		return e.id, e.id != ""
	}
	v, ok := e.properties[strings.TrimPrefix(path, propertyPath)]
	return v, ok
}

// holds reports whether the condition is true of e. A nil filter is true of everything.
func (f *Filter) holds(e *entry) bool { return f == nil || f.root.holds(e) }

func (n *node) holds(e *entry) bool {
	switch n.op {
	case "and":
		for i := range n.kids {
			if !n.kids[i].holds(e) {
				return false
			}
		}
		return true
	case "or":
		for i := range n.kids {
			if n.kids[i].holds(e) {
				return true
			}
		}
		return false
	case "not":
		return !n.kids[0].holds(e)
	}
	v, ok := e.at(n.path)
	want := n.text
	if n.path == "@class" {
		want = strings.TrimPrefix(want, classPrefix)
	}
	switch n.op {
	case "has":
		return ok
	case "=":
		return ok && v == want
	case "!=":
		return !ok || v != want
	}
	panic("workload: a condition of kind " + n.op)
}
