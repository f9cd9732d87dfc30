package workload

import (
	"errors"
	"fmt"
	"strings"

	"tandem.internal/shared/strictjson"
)

// Templates stand in the texts of a filler (seed 004, the worked example):
//
//	text     = { anything | "@{" expr "}" }
//	expr     = "prop" "(" quoted ")" | quoted
//	quoted   = "…", with \ before a quote or a \
//
// prop gives the value at a path of the entry that is filled, as it was before: properties/name, slot, slot/service,
// slot/node, @class or configurationId. A quoted text is itself, so that @{"@{"} writes a plain @{.
const templateOpen = "@{"

// isTemplate reports whether s has an expression in it.
func isTemplate(s string) bool { return strings.Contains(s, templateOpen) }

// checkTemplate refuses a text whose expressions cannot be read.
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

// fill gives s with its expressions replaced by what e has.
func (e *entry) fill(s string) (string, error) {
	return expand(s, func(path string) (string, error) {
		full, _ := knownPath(path)
		v, ok := e.at(full)
		if !ok {
			return "", fmt.Errorf("%s has no %s", e.slot, strictjson.Show(full))
		}
		return v, nil
	})
}

// expand replaces every expression of s by what prop says.
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

// quoted reads a text in double quotes.
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
