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
// A word is one or more characters other than white space, quotes and any of []()=!\. A path alone is true if the
// entry has a value there; = and != compare. An absent value equals no text. A name without properties/ is that of a
// property.
type Filter struct {
	root  node
	tests int // number of tests in it
}

// cost is the number of tests that holds makes at most; 0 for nil.
func (f *Filter) cost() int {
	if f == nil {
		return 0
	}
	return f.tests
}

// node is a node of a condition's syntax tree.
type node struct {
	op       string // and, or, not, has, =, !=
	operands []node // of and, or, not
	path     string // of has, =, !=
	text     string // of =, !=
}

// ParseFilter reads a filter. The error has code bad-value or too-large; its message names the column, counted in
// characters from 1.
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
	return &Filter{root, p.tests}, nil
}

// token is a word, a text in quotes, or a mark such as [ or !=.
type token struct {
	text   string // "" at the end of the filter
	isText bool   // a word or a text in quotes
	quoted bool   // a text in quotes
	offset int    // of its first byte
}

// filterParser is a recursive-descent parser: each method reads one rule of the grammar.
type filterParser struct {
	tests int    // tests read so far
	in    string // the filter
	pos   int    // offset of the byte after tok
	tok   token  // the next token, not consumed yet
	err   *wire.Error
}

// fail notes an error at the current token, unless there is one already.
func (p *filterParser) fail(format string, a ...any) {
	if p.err == nil {
		column := len([]rune(p.in[:p.tok.offset])) + 1
		p.err = wire.New(wire.CodeBadValue, "",
			fmt.Sprintf("the filter, column %d: ", column)+fmt.Sprintf(format, a...))
	}
}

// marks are the characters of the tokens that are neither words nor texts.
const marks = "[]()=!"

// next reads the next token into p.tok.
func (p *filterParser) next() {
	for p.pos < len(p.in) && strings.IndexByte(" \t\r\n", p.in[p.pos]) >= 0 {
		p.pos++
	}
	p.tok = token{offset: p.pos}
	if p.pos == len(p.in) {
		return
	}
	switch c := p.in[p.pos]; {
	case c == '"' || c == '\'':
		p.quoted(c)
	case strings.IndexByte(marks, c) >= 0:
		p.pos++
		if (c == '=' || c == '!') && p.pos < len(p.in) && p.in[p.pos] == '=' {
			p.pos++
		}
		p.tok.text = p.in[p.tok.offset:p.pos]
	default:
		for p.pos < len(p.in) && strings.IndexByte(" \t\r\n\"'\\"+marks, p.in[p.pos]) < 0 {
			p.pos++
		}
		if p.pos == p.tok.offset {
			p.fail("a \\ has a meaning in quotes only")
			p.pos = len(p.in)
			return
		}
		p.tok.text, p.tok.isText = p.in[p.tok.offset:p.pos], true
	}
}

// quoted reads a text that begins with the quote q.
func (p *filterParser) quoted(q byte) {
	var b strings.Builder
	for i := p.pos + 1; i < len(p.in); i++ {
		switch c := p.in[i]; {
		case c == q:
			p.pos = i + 1
			p.tok.text, p.tok.isText, p.tok.quoted = b.String(), true, true
			return
		case c == '\\' && i+1 < len(p.in) && (p.in[i+1] == '\\' || p.in[i+1] == q):
			i++
			b.WriteByte(p.in[i])
		default:
			b.WriteByte(c)
		}
	}
	p.fail("the text that begins here never ends")
	p.pos = len(p.in)
}

// nextIs reports whether the next token is this mark, or this word without quotes.
func (p *filterParser) nextIs(text string) bool {
	return p.err == nil && p.tok.text == text && !p.tok.quoted && p.tok.text != ""
}

// expect consumes the token text. If another token comes, it is an error; first means that text begins a filter.
func (p *filterParser) expect(text string, first bool) {
	switch {
	case p.nextIs(text):
		p.next()
	case first:
		p.fail("a filter is instance[condition]")
	default:
		p.fail("%s is expected%s", text, p.found())
	}
}

// found returns, as the end of a message, which token came instead of the expected one.
func (p *filterParser) found() string {
	if p.tok.text == "" && !p.tok.quoted {
		return ", and the filter ends"
	}
	return ", not " + strictjson.Show(p.tok.text)
}

func (p *filterParser) or(depth int) node {
	operands := []node{p.and(depth)}
	for p.nextIs("or") {
		p.next()
		operands = append(operands, p.and(depth))
	}
	return joined("or", operands)
}

func (p *filterParser) and(depth int) node {
	operands := []node{p.not(depth)}
	for p.nextIs("and") {
		p.next()
		operands = append(operands, p.not(depth))
	}
	return joined("and", operands)
}

// joined returns a node with operands, or the only operand.
func joined(op string, operands []node) node {
	if len(operands) == 1 {
		return operands[0]
	}
	return node{op: op, operands: operands}
}

func (p *filterParser) not(depth int) node {
	if depth == maxFilterDepth {
		p.fail("more than %d conditions stand in one another", maxFilterDepth)
	}
	switch {
	case p.err != nil:
		return node{}
	case p.nextIs("not"):
		p.next()
		return node{op: "not", operands: []node{p.not(depth + 1)}}
	case p.nextIs("("):
		p.next()
		n := p.or(depth + 1)
		p.expect(")", false)
		return n
	}
	return p.test()
}

func (p *filterParser) test() node {
	if !p.tok.isText || p.nextIs("and") || p.nextIs("or") {
		p.fail("a path is expected, such as properties/name%s", p.found())
		return node{}
	}
	p.tests++
	path := p.path()
	for _, op := range []string{"=", "==", "!="} {
		if !p.nextIs(op) {
			continue
		}
		p.next()
		if !p.tok.isText {
			p.fail("a text is expected after %s%s", op, p.found())
			return node{}
		}
		n := node{op: strings.Replace(op, "==", "=", 1), path: path, text: p.tok.text}
		p.next()
		return n
	}
	return node{op: "has", path: path}
}

// path reads a path. The name of a property may be in quotes: properties/"with space".
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
		p.tok.offset = t.offset
		p.fail("%s", why)
	}
	return path
}

// propertyPath begins the path of a property.
const propertyPath = "properties/"

var paths = []string{"slot", "slot/service", "slot/node", "@class", "configurationId"}

// knownPath returns a path in full, with properties/ if it names a property. why is the mistake in it; "": none.
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

// entry is a topology or an applicable configuration, as filters and templates see it.
type entry struct {
	class      Class
	id         string
	slot       Slot
	properties map[string]string
	needs      []Need
}

// value returns the value at a full path, and whether there is one.
func (e *entry) value(path string) (string, bool) {
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

// holds reports whether the condition is true of e.
func (n *node) holds(e *entry) bool {
	switch n.op {
	case "and":
		for i := range n.operands {
			if !n.operands[i].holds(e) {
				return false
			}
		}
		return true
	case "or":
		for i := range n.operands {
			if n.operands[i].holds(e) {
				return true
			}
		}
		return false
	case "not":
		return !n.operands[0].holds(e)
	}
	v, ok := e.value(n.path)
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
