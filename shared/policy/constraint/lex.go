package constraint

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind is what a token is.
type kind int

const (
	end    kind = iota
	word        // letters, digits and _-/!?+~'.
	quoted      // a text in quotes
	mark        // an operator, parenthesis or bracket
)

type token struct {
	kind   kind
	text   string // without quotes
	offset int    // of its first byte
}

const (
	white   = " \t\r\n"
	opChars = "=!<>&|"
)

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func digit(c byte) bool  { return c >= '0' && c <= '9' }

// inWord reports whether the byte at i belongs to a word. ! does, unless it begins the operator !=.
func inWord(s string, i int) bool {
	c := s[i]
	if c == '!' {
		return i+1 == len(s) || s[i+1] != '='
	}
	return letter(c) || digit(c) || strings.IndexByte("_-/?+~'.", c) >= 0
}

// next reads the next token into p.tok.
func (p *parser) next() {
	for p.pos < len(p.in) && strings.IndexByte(white, p.in[p.pos]) >= 0 {
		p.pos++
	}
	p.tok = token{offset: p.pos}
	if p.pos == len(p.in) || p.err != nil {
		return
	}
	begin := p.pos
	switch c := p.in[p.pos]; {
	case inWord(p.in, p.pos):
		for p.pos < len(p.in) && inWord(p.in, p.pos) {
			p.pos++
		}
		p.tok.kind, p.tok.text = word, p.in[begin:p.pos]
		p.checkWord()
	case c == '"':
		p.quoted()
	case strings.IndexByte("()[]", c) >= 0:
		p.pos++
		p.tok.kind, p.tok.text = mark, p.in[begin:p.pos]
	case strings.IndexByte(opChars, c) >= 0:
		for p.pos < len(p.in) && strings.IndexByte(opChars, p.in[p.pos]) >= 0 {
			p.pos++
		}
		p.tok.kind, p.tok.text = mark, p.in[begin:p.pos]
		p.checkOperator()
	default:
		p.strange(begin)
	}
}

// checkWord refuses a word that begins or ends with !, which reads like an operator.
func (p *parser) checkWord() {
	t := p.tok
	switch {
	case t.text[0] == '!':
		p.fail(t.offset, "", "a word does not begin with !; what is not so is written name != value")
	case t.text[len(t.text)-1] == '!':
		p.fail(t.offset+len(t.text)-1, "", "a word does not end with !; a text with it is written in quotes")
	}
}

// checkOperator refuses a run of marks that is no operator.
func (p *parser) checkOperator() {
	meant := ""
	switch p.tok.text {
	case "=", "==", "!=", "<", ">", "<=", ">=", "&&", "||":
		return
	case "=>":
		meant = ">="
	case "=<":
		meant = "<="
	case "=!", "<>", "!==":
		meant = "!="
	case "===":
		meant = "=="
	case "&":
		meant = "&&"
	case "|":
		meant = "||"
	}
	why := p.tok.text + " is no operator"
	if meant != "" {
		why += "; did you mean " + meant + "?"
	}
	p.fail(p.tok.offset, operators, why)
}

// strange refuses a character that stands nowhere but in quotes.
func (p *parser) strange(at int) {
	r, n := utf8.DecodeRuneInString(p.in[at:])
	if r == utf8.RuneError && n == 1 {
		p.fail(at, "", "this is not UTF-8")
		return
	}
	p.fail(at, "", fmt.Sprintf("%q stands in quotes only", r))
}

// quoted reads a text in quotes. There is no mark that would let a quote stand in it.
func (p *parser) quoted() {
	begin := p.pos + 1
	length := strings.IndexByte(p.in[begin:], '"')
	if length < 0 {
		p.fail(p.pos, `"`, "the text that begins here never ends")
		return
	}
	text := p.in[begin : begin+length]
	for i, r := range text {
		if _, n := utf8.DecodeRuneInString(text[i:]); r == utf8.RuneError && n == 1 {
			p.fail(begin+i, "", "this is not UTF-8")
			return
		}
		if !unicode.IsPrint(r) {
			p.fail(begin+i, "", fmt.Sprintf("the character %U cannot be printed", r))
			return
		}
	}
	if strings.TrimSpace(text) == "" {
		p.fail(p.pos, "", "the text is empty")
		return
	}
	p.tok.kind, p.tok.text = quoted, text
	p.pos = begin + length + 1
}
