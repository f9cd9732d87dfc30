package workload

import (
	"errors"
	"fmt"
	"strings"

	"tandem.internal/shared/strictjson"
)

// The texts of a filler may contain templates (seed 004, the worked example). The grammar of such a text:
//
//	text     = { anything | "@{" expr "}" }
//	expr     = "prop" "(" quoted ")" | quoted
//	quoted   = "…", with \ before a quote or a \
//
// prop is the value at a path of the entry to which the filler applies, before any filler was applied. The paths are
// properties/name, slot, slot/service, slot/node, @class and configurationId. The value of a quoted text is the text,
// so @{"@{"} gives @{.
const templateOpen = "@{"

// isTemplate reports whether s contains an expression.
func isTemplate(s string) bool { return strings.Contains(s, templateOpen) }

// checkTemplate returns an error if an expression in s is malformed or names no known path.
func checkTemplate(s string) error {
	_, err := expand(s, func(path string) (string, error) {
		_, why := knownPath(path)
		if why != "" {
			return "", errors.New(why)
		}
		return "", nil
	})
	return err
}

// fill replaces the expressions in s by values of e. A value that e does not have is an error.
func (e *entry) fill(s string) (string, error) {
	return expand(s, func(path string) (string, error) {
		full, _ := knownPath(path)
		v, ok := e.value(full)
		if !ok {
			return "", fmt.Errorf("%s has no %s", e.slot, strictjson.Show(full))
		}
		return v, nil
	})
}

// expand replaces each expression in s by its value. prop returns the value at a path. A result of more than MaxText
// bytes is an error.
func expand(s string, prop func(path string) (string, error)) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, templateOpen)
		b.WriteString(before)
		if b.Len() > MaxText {
			return "", fmt.Errorf("what comes out is longer than %d bytes", MaxText)
		}
		if !found {
			return b.String(), nil
		}
		value, after, err := expression(rest, prop)
		if err != nil {
			return "", fmt.Errorf("the template %s: %w", strictjson.Show(templateOpen+rest), err)
		}
		b.WriteString(value)
		s = after
	}
}

var errExpression = errors.New(`an expression is @{prop("path")} or @{"text"}`)

// expression reads the rest of an expression after @{. It returns its value and the text after it.
func expression(s string, prop func(string) (string, error)) (value, rest string, err error) {
	s = strings.TrimLeft(s, " ")
	call, isProp := strings.CutPrefix(s, "prop")
	if isProp {
		if s, isProp = strings.CutPrefix(strings.TrimLeft(call, " "), "("); !isProp {
			return "", "", errExpression
		}
		s = strings.TrimLeft(s, " ")
	}
	if value, rest, err = quoted(s); err != nil {
		return "", "", err
	}
	rest = strings.TrimLeft(rest, " ")
	if isProp {
		var closed bool
		if rest, closed = strings.CutPrefix(rest, ")"); !closed {
			return "", "", errExpression
		}
		if value, err = prop(value); err != nil {
			return "", "", err
		}
	}
	rest, closed := strings.CutPrefix(strings.TrimLeft(rest, " "), "}")
	if !closed {
		return "", "", errExpression
	}
	return value, rest, nil
}

// quoted reads a text in double quotes. It returns the text and what follows it.
func quoted(s string) (value, rest string, err error) {
	if !strings.HasPrefix(s, `"`) {
		return "", "", errExpression
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), s[i+1:], nil
		case s[i] == '\\' && i+1 < len(s) && (s[i+1] == '"' || s[i+1] == '\\'):
			i++
		}
		b.WriteByte(s[i])
	}
	return "", "", errors.New("the text in quotes never ends")
}
