package constraint

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// operators is what an operator of comparisons may be, for messages.
const operators = "an operator (= == != < > <= >= in)"

// Parse reads an expression.
func Parse(text string) (*Expr, *Error) {
	if len(text) > MaxExpression {
		return nil, &Error{Column: 1, Message: fmt.Sprintf("an expression has at most %d bytes", MaxExpression)}
	}
	p := &parser{in: text}
	p.next()
	if p.err == nil && p.tok.kind == end {
		p.fail(0, "a name or (", "the expression is empty")
	}
	e := p.or(0)
	if p.err == nil && p.tok.kind != end {
		p.unexpected("AND, OR or the end", after(p.last, p.tok))
	}
	if p.err != nil {
		return nil, p.err
	}
	return &e, nil
}

// parser is a recursive-descent parser: each method reads one rule of the grammar. After the first error it reads no
// token any more.
type parser struct {
	in   string
	pos  int   // offset of the byte after tok
	tok  token // the next token, not consumed yet
	last token // the token before it
	err  *Error
}

// fail notes an error at an offset, unless there is one already.
func (p *parser) fail(at int, expected, message string) {
	if p.err == nil {
		p.err = &Error{Column: utf8.RuneCountInString(p.in[:at]) + 1, Offset: at, Expected: expected, Message: message}
	}
}

// unexpected notes that the next token is not what may stand there. hint is the end of the message.
func (p *parser) unexpected(expected, hint string) {
	found := "the end"
	if p.tok.kind == quoted {
		found = `"` + p.tok.text + `"`
	} else if p.tok.kind != end {
		found = p.tok.text
	}
	if utf8.RuneCountInString(found) > 40 {
		found = string([]rune(found)[:40]) + "…"
	}
	p.fail(p.tok.offset, expected, expected+" is expected, not "+found+hint)
}

// after returns what may help somebody who has written a token behind a comparison.
func after(last, tok token) string {
	switch {
	case tok.kind != word:
	case strings.EqualFold(tok.text, "and") || strings.EqualFold(tok.text, "or"):
		return "; it is written in capitals"
	case last.kind == word:
		return "; a text with spaces is written in quotes"
	}
	return ""
}

func (p *parser) advance() {
	p.last = p.tok
	p.next()
}

// connects reports whether the next token is a connective, as a mark or a word.
func (p *parser) connects(sign, name string) bool {
	switch {
	case p.err != nil:
	case p.tok.kind == mark:
		return p.tok.text == sign
	case p.tok.kind == word && p.tok.text == name:
		if strings.IndexByte(white+"()", p.in[p.tok.offset-1]) >= 0 {
			return true
		}
		p.fail(p.tok.offset, "white space", "white space or a parenthesis is expected before "+name)
	}
	return false
}

func (p *parser) or(depth int) Expr {
	args := []Expr{p.and(depth)}
	for p.connects("||", "OR") {
		p.advance()
		args = append(args, p.and(depth))
	}
	return joined(Or, args)
}

func (p *parser) and(depth int) Expr {
	args := []Expr{p.term(depth)}
	for p.connects("&&", "AND") {
		p.advance()
		args = append(args, p.term(depth))
	}
	return joined(And, args)
}

func joined(op Op, args []Expr) Expr {
	if len(args) == 1 {
		return args[0]
	}
	return Expr{Op: op, Args: args}
}

func (p *parser) term(depth int) Expr {
	if p.err != nil {
		return Expr{}
	}
	if p.tok.kind == mark && p.tok.text == "(" {
		if depth == MaxDepth {
			p.fail(p.tok.offset, "", fmt.Sprintf("more than %d parentheses stand in one another", MaxDepth))
			return Expr{}
		}
		p.advance()
		e := p.or(depth + 1)
		if p.err == nil && (p.tok.kind != mark || p.tok.text != ")") {
			p.unexpected("AND, OR or )", after(p.last, p.tok))
		}
		p.advance()
		return e
	}
	return p.comparison()
}

// reserved reports whether a word is a connective.
func reserved(s string) bool { return s == "AND" || s == "OR" }

func (p *parser) comparison() Expr {
	switch {
	case p.tok.kind != word || reserved(p.tok.text):
		hint := ""
		if p.tok.kind == quoted {
			hint = "; a name has no quotes"
		}
		p.unexpected("a name or (", hint)
		return Expr{}
	case digit(p.tok.text[0]):
		p.fail(p.tok.offset, "a name or (", "a name does not begin with a digit")
		return Expr{}
	}
	e := Expr{Name: p.tok.text}
	p.advance()
	switch text := p.tok.text; {
	case p.err != nil:
		return Expr{}
	case p.tok.kind == mark && text == "=":
		e.Op = Equal
	case p.tok.kind == mark && strings.IndexByte("=!<>", text[0]) >= 0, p.tok.kind == word && text == "in":
		e.Op = Op(text)
	default:
		hint := ""
		if strings.EqualFold(text, "in") {
			hint = "; it is written in small letters"
		}
		p.unexpected(operators, hint)
		return Expr{}
	}
	p.advance()
	p.value(&e)
	return e
}

// value reads the value of a comparison.
func (p *parser) value(e *Expr) {
	expected := "a value"
	switch e.Op {
	case Less, Greater, LessEqual, GreaterEqual:
		expected = "a number or version"
	case In:
		expected = "a value, list or range"
	}
	t := p.tok
	switch {
	case p.err != nil:
		return
	case t.kind == mark && (t.text == "[" || t.text == "("):
		if e.Op != In {
			p.unexpected(expected, "; a range goes with in")
			return
		}
		p.readRange(&e.Value)
		return
	case t.kind == word && reserved(t.text):
		p.unexpected(expected, `; as a value it is written "`+t.text+`"`)
		return
	case t.kind == word:
		e.Value = wordLiteral(t.text)
	case t.kind == quoted:
		e.Value = p.text(e.Op)
	default:
		p.unexpected(expected, "")
		return
	}
	if expected == "a number or version" && (t.kind == quoted || e.Value.number == nil && e.Value.version == nil) {
		hint := ""
		if t.kind == quoted {
			hint = "; it has no quotes"
		}
		p.unexpected(expected, hint)
		return
	}
	p.advance()
}

func wordLiteral(text string) Literal {
	l := Literal{Form: Word, Text: text}
	if n, ok := parseDecimal(text); ok {
		l.number = &n
	}
	if v, err := ParseVersion(text); err == nil {
		l.version = &v
	}
	return l
}

// text reads the next token, a text in quotes. With commas it is a list.
func (p *parser) text(op Op) Literal {
	t := p.tok
	if !strings.Contains(t.text, ",") {
		l := Literal{Form: Quoted, Text: t.text}
		if v, err := ParseVersion(t.text); err == nil {
			l.version = &v
		}
		return l
	}
	if op != In {
		p.fail(t.offset, "a value", "a list, which has commas, goes with in only")
		return Literal{}
	}
	l := Literal{Form: Several}
	at := t.offset + 1
	for part := range strings.SplitSeq(t.text, ",") {
		element := strings.TrimSpace(part)
		if element == "" {
			p.fail(at, "", "an element of the list is empty")
			return Literal{}
		}
		at += len(part) + 1
		l.Elements = append(l.Elements, element)
		if v, err := ParseVersion(element); err == nil {
			l.versions = append(l.versions, v)
		}
	}
	l.Text = strings.Join(l.Elements, ",")
	if strings.IndexByte("[(", l.Text[0]) >= 0 && strings.IndexByte(")]", l.Text[len(l.Text)-1]) >= 0 {
		p.fail(t.offset, "", "a range of versions has no quotes; a list does not begin and end with brackets")
	}
	return l
}

// readRange reads a range of versions, which begins with the next token.
func (p *parser) readRange(l *Literal) {
	begin := p.tok.offset
	length := strings.IndexAny(p.in[begin+1:], ")]")
	if length < 0 {
		p.fail(begin, "", "the range that begins here never ends")
		return
	}
	inside, last := p.in[begin+1:begin+1+length], begin+1+length
	low, high, ok := strings.Cut(inside, ",")
	if !ok || strings.Contains(high, ",") {
		p.fail(begin, "", "a range is two versions with a comma between them, such as [1.0.0,2.0.0)")
		return
	}
	s := &span{openLow: p.in[begin] == '(', openHigh: p.in[last] == ')'}
	lowText, highText := strings.Trim(low, white), strings.Trim(high, white)
	var err error
	if s.low, err = ParseVersion(lowText); err != nil {
		p.fail(begin+1+leading(low), "a version", err.Error())
		return
	}
	if s.infinite = highText == infinity; !s.infinite {
		if s.high, err = ParseVersion(highText); err != nil {
			p.fail(begin+1+len(low)+1+leading(high), "a version or INFINITY", err.Error())
			return
		}
		if c := s.low.Compare(s.high); c > 0 || c == 0 && (s.openLow || s.openHigh) {
			p.fail(begin, "", "no version is in this range")
			return
		}
	}
	*l = Literal{Form: Range, span: s,
		Text: p.in[begin:begin+1] + lowText + "," + highText + p.in[last:last+1]}
	p.last = token{kind: mark, text: l.Text, offset: begin}
	p.pos = last + 1
	p.next()
}

// leading returns how many bytes of white space s begins with.
func leading(s string) int { return len(s) - len(strings.TrimLeft(s, white)) }
