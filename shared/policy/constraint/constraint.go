// Package constraint is the language in which management policies and nodes choose each other (seed 003, constraints):
// expressions over typed properties. Its grammar is in policies.md. It reads expressions, prints them so that they are
// read as the same, evaluates them and says why they are true or false.
// It is pure.
//
//tandem:pure
package constraint

import (
	"fmt"
	"strings"
)

// The limits of an expression.
const (
	MaxExpression = 4096 // bytes
	MaxDepth      = 32   // parentheses in one another
)

// Op is an operator.
type Op string

// The operators. Expressions may have = for ==, AND for && and OR for ||.
const (
	And          Op = "&&"
	Or           Op = "||"
	Equal        Op = "=="
	NotEqual     Op = "!="
	Less         Op = "<"
	Greater      Op = ">"
	LessEqual    Op = "<="
	GreaterEqual Op = ">="
	In           Op = "in"
)

// Expr is an expression's syntax tree.
type Expr struct {
	Op    Op
	Args  []Expr  // of And and Or: two or more
	Name  string  // of comparisons: the property's
	Value Literal // of comparisons
}

// Form is how a value is written.
type Form int

// The forms of values.
const (
	Word    Form = iota // without quotes: a text, number, version, true or false
	Quoted              // a text in quotes
	Several             // a list: texts in one pair of quotes, with commas between them
	Range               // a range of versions
)

// Literal is the value in a comparison.
type Literal struct {
	Form     Form
	Text     string   // as written, without quotes; of lists and ranges without spaces around their parts
	Elements []string // of a list

	number   *decimal  // of a word that is a number
	version  *Version  // of a word or text that is a version
	versions []Version // those of a list's elements that are versions
	span     *span     // of a range
}

// List is what a policy or node has as its constraints: expressions that all have to be true. An empty list is true.
type List []*Expr

// Error is a mistake in an expression.
type Error struct {
	Index    int    // which expression of the list, counted from 1; 0: it was not in a list
	Column   int    // where in it, in characters, counted from 1
	Offset   int    // the same in bytes, counted from 0
	Expected string // what may stand there; "": see Message
	Message  string // for people
}

// Error returns place and message.
func (e *Error) Error() string {
	if e.Index > 0 {
		return fmt.Sprintf("expression %d, column %d: %s", e.Index, e.Column, e.Message)
	}
	return fmt.Sprintf("column %d: %s", e.Column, e.Message)
}

// ParseList reads the expressions of a list. The error is that of the first one with a mistake.
func ParseList(texts []string) (List, *Error) {
	var list List
	for i, text := range texts {
		e, err := Parse(text)
		if err != nil {
			err.Index = i + 1
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// String returns an expression that Parse reads as the same tree.
func (e *Expr) String() string {
	var b strings.Builder
	e.print(&b)
	return b.String()
}

func (e *Expr) print(b *strings.Builder) {
	if e.Op != And && e.Op != Or {
		b.WriteString(e.Name + " " + string(e.Op) + " " + e.Value.String())
		return
	}
	for i := range e.Args {
		if i > 0 {
			b.WriteString(" " + string(e.Op) + " ")
		}
		arg := &e.Args[i]
		inside := arg.Op == Or || arg.Op == And && e.Op == And
		if inside {
			b.WriteByte('(')
		}
		arg.print(b)
		if inside {
			b.WriteByte(')')
		}
	}
}

// String returns the value as it stands in an expression.
func (l *Literal) String() string {
	if l.Form == Quoted || l.Form == Several {
		return `"` + l.Text + `"`
	}
	return l.Text
}
