// Package filter owns the language in which nodes are selected, the same for lists, bulk orders, notices and the search
// of the page:
//
//	state:offline type:press version:<2.1 name:press-* label.line:4 -health:ok
//
// Words stand side by side and all have to be true of a node. A word is a key, a colon and a value; a,b is any of
// several values, and a minus before the word says that it must not be true. In values * is any characters and ? is
// one; "…" has spaces, commas and wildcards for what they are. A word without a colon is a part of the node's name.
// Case does not count. The empty text selects every node.
//
//tandem:pure
package filter

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"tandem.internal/shared/near"
	"tandem.internal/shared/wire"
)

// Bounds of a filter.
const (
	MaxLength = 256 // bytes of a text
	MaxWords  = 32
	MaxValues = 64 // of one word
)

// Filter selects nodes. The zero value selects every node.
type Filter struct {
	text  string
	words []word
}

// word is one condition.
type word struct {
	not    bool
	key    *key
	label  string // of the key label, in lower case
	values []value
}

// String is the text that was parsed.
func (f Filter) String() string { return f.text }

// All reports whether every node is selected.
func (f Filter) All() bool { return len(f.words) == 0 }

// Match reports whether a node is selected.
func (f Filter) Match(x *Facts) bool {
	for i := range f.words {
		w := &f.words[i]
		if w.holds(x) == w.not {
			return false
		}
	}
	return true
}

func (w *word) holds(x *Facts) bool {
	for i := range w.values {
		if w.key.holds(x, w, &w.values[i]) {
			return true
		}
	}
	return false
}

// Parse reads a filter. The error has the code invalid-argument; its Column is the character at which the mistake is,
// and its message names that and what is possible.
func Parse(text string) (Filter, *wire.Error) {
	if len(text) > MaxLength || !utf8.ValidString(text) {
		return Filter{}, wire.New(wire.CodeInvalidArgument, "",
			fmt.Sprintf("a filter has at most %d bytes of UTF-8", MaxLength))
	}
	f, p := Filter{text: text}, parser{text: text}
	for p.space(); p.at < len(text); p.space() {
		w, err := p.word()
		if err == nil && len(f.words) == MaxWords {
			err = p.wrong(p.at, "a filter has at most %d words", MaxWords)
		}
		if err != nil {
			return Filter{}, err
		}
		f.words = append(f.words, w)
	}
	return f, nil
}

// parser reads a text; at is the next byte.
type parser struct {
	text string
	at   int
}

func (p *parser) wrong(at int, format string, args ...any) *wire.Error {
	column := utf8.RuneCountInString(p.text[:at]) + 1
	e := wire.New(wire.CodeInvalidArgument, "", fmt.Sprintf("the filter, character %d: ", column)+
		fmt.Sprintf(format, args...))
	e.Line, e.Column = 1, column
	return e
}

func (p *parser) space() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

func (p *parser) word() (w word, err *wire.Error) {
	if p.text[p.at] == '-' {
		p.at++
		w.not = true
	}
	begin := p.at
	name, quoted, err := p.piece(":")
	if err != nil {
		return w, err
	}
	if quoted || p.at == len(p.text) || p.text[p.at] != ':' {
		if name == "" {
			return w, p.wrong(begin, "a word is missing")
		}
		w.key, w.values = &keys[0], []value{{text: strings.ToLower(name), part: true, exact: quoted}}
		return w, p.ended()
	}
	p.at++
	if w.key, w.label, err = p.keyOf(begin, name); err != nil {
		return w, err
	}
	for {
		from := p.at
		text, quoted, err := p.piece(",")
		if err != nil {
			return w, err
		}
		v := value{text: strings.ToLower(text), exact: quoted}
		if text == "" && !quoted {
			return w, p.wrong(from, `a value is missing; "" is the empty one`)
		}
		if len(w.values) == MaxValues {
			return w, p.wrong(from, "a word has at most %d values", MaxValues)
		}
		if why := w.key.check(&v); why != "" {
			return w, p.wrong(from, "%s", why)
		}
		w.values = append(w.values, v)
		if p.at == len(p.text) || p.text[p.at] != ',' {
			return w, p.ended()
		}
		p.at++
	}
}

// ended makes sure that a word ends where the next one may begin.
func (p *parser) ended() *wire.Error {
	if p.at == len(p.text) || strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		return nil
	}
	return p.wrong(p.at, "a space is missing between two words")
}

// piece reads up to a space or one of the bytes of stop; or a text in quotes, in which \ stands before " and \.
func (p *parser) piece(stop string) (text string, quoted bool, err *wire.Error) {
	begin := p.at
	if p.at == len(p.text) || p.text[p.at] != '"' {
		for p.at < len(p.text) && strings.IndexByte(" \t\r\n\""+stop, p.text[p.at]) < 0 {
			p.at++
		}
		if p.at < len(p.text) && p.text[p.at] == '"' {
			return "", false, p.wrong(p.at, "a quote within a word; put the whole value in quotes")
		}
		return p.text[begin:p.at], false, nil
	}
	var b strings.Builder
	for p.at++; p.at < len(p.text); p.at++ {
		switch c := p.text[p.at]; {
		case c == '"':
			p.at++
			return b.String(), true, nil
		case c == '\\' && p.at+1 < len(p.text):
			p.at++
			b.WriteByte(p.text[p.at])
		default:
			b.WriteByte(c)
		}
	}
	return "", true, p.wrong(begin, "the quote is not closed")
}

// keyOf finds a key by its name.
func (p *parser) keyOf(at int, name string) (*key, string, *wire.Error) {
	lower := strings.ToLower(name)
	if label, is := strings.CutPrefix(lower, labelPrefix); is {
		if label == "" {
			return nil, "", p.wrong(at, "the name of the label is missing; label.line:4, for example")
		}
		return &labelKey, label, nil
	}
	names := make([]string, 0, len(keys)+1)
	for i := range keys {
		if keys[i].name == lower {
			return &keys[i], "", nil
		}
		names = append(names, keys[i].name)
	}
	names = append(names, labelPrefix+"NAME")
	return nil, "", p.wrong(at, "there is no %.40q%s", name,
		near.Suggest(near.All(lower, names), "known are "+strings.Join(names, ", ")+
			`; a name with a colon goes in quotes`))
}
