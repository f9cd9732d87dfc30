package api

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"tandem.internal/shared/topic"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// query reads the parameters of one request and keeps the first mistake.
type query struct {
	values url.Values
	err    *wire.Error
}

// newQuery takes the query apart; a parameter outside allowed is a mistake, and so is a repeated one
// unless its name ends in "*".
func newQuery(r *http.Request, allowed ...string) *query {
	q := &query{}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		q.fail("the query cannot be read; escape it as in RFC 3986")
		return q
	}
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for n := range values {
			if !yield(n) {
				return
			}
		}
	}) {
		switch {
		case slices.Contains(allowed, name+"*"):
		case !slices.Contains(allowed, name):
			list := strings.ReplaceAll(strings.Join(allowed, ", "), "*", "")
			if list == "" {
				list = "none"
			}
			q.fail(fmt.Sprintf("no such parameter: %.64q; known here: %s", name, list))
		case len(values[name]) > 1:
			q.fail(fmt.Sprintf("the parameter %s is given twice", name))
		}
	}
	q.values = values
	return q
}

func (q *query) fail(message string) {
	if q.err == nil {
		q.err = wire.New(wire.CodeInvalidArgument, "", message)
	}
}

// done returns the first mistake as an error.
func (q *query) done() error {
	if q.err != nil {
		return q.err
	}
	return nil
}

// text reads a parameter of at most 256 bytes of UTF-8, "" if it is absent.
func (q *query) text(name string) string {
	s := q.values.Get(name)
	if len(s) > 256 || !utf8.ValidString(s) {
		q.fail("the parameter " + name + " is longer than 256 bytes, or not UTF-8")
		return ""
	}
	return s
}

// pointer reads a JSON pointer (RFC 6901) within the wire's bound.
func (q *query) pointer(name string) string {
	s := q.values.Get(name)
	if s != "" && s[0] != '/' || len(s) > wire.MaxPath || !utf8.ValidString(s) {
		q.fail(fmt.Sprintf("the parameter %s is no JSON pointer such as /alertRules/ram, or longer than %d bytes", name, wire.MaxPath))
		return ""
	}
	return s
}

// node reads a node's name.
func (q *query) node(name string, required bool) string {
	s := q.values.Get(name)
	if s == "" && !required && !q.values.Has(name) {
		return ""
	}
	if err := nodeName(s); err != nil {
		q.fail("the parameter " + name + ": " + err.Message)
	}
	return s
}

func nodeName(s string) *wire.Error {
	switch {
	case s == "":
		return wire.New(wire.CodeInvalidArgument, "", "a node's name is needed")
	case !topic.ValidName(s):
		return wire.New(wire.CodeInvalidArgument, "", fmt.Sprintf("%.80q cannot name a node: letters, digits, dot, underscore and dash, at most %d", s, topic.MaxName))
	}
	return nil
}

func (q *query) flag(name string) bool {
	switch q.values.Get(name) {
	case "1", "true":
		return true
	case "0", "false":
		return false
	case "":
		if !q.values.Has(name) {
			return false
		}
	}
	q.fail("the parameter " + name + " is 1 or 0")
	return false
}

// number reads a whole number from least to most; absent is def.
func (q *query) number(name string, least, most, def uint64) uint64 {
	if !q.values.Has(name) {
		return def
	}
	n, err := strconv.ParseUint(q.values.Get(name), 10, 64)
	if err != nil || n < least || n > most {
		q.fail(fmt.Sprintf("the parameter %s is a whole number from %d to %d", name, least, most))
		return def
	}
	return n
}

// duration reads an ISO 8601 duration above zero; absent is 0.
func (q *query) duration(name string) time.Duration {
	if !q.values.Has(name) {
		return 0
	}
	d, err := unitconfig.ParseDuration(q.values.Get(name))
	if err != nil {
		q.fail("the parameter " + name + ": " + err.Error())
	} else if d <= 0 {
		q.fail("the parameter " + name + " must be above zero")
	}
	return d
}
