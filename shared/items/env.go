package items

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// Env is an environment: texts by the names of variables.
type Env map[string]string

// With is an environment in which what is of over comes before what is of e.
func (e Env) With(over Env) Env {
	if len(over) == 0 {
		return e
	}
	all := make(Env, len(e)+len(over))
	maps.Copy(all, e)
	maps.Copy(all, over)
	return all
}

// Digest is that of NAME=text and a zero byte for each variable, by name; "": there is none. No name has =, and no text
// a zero byte.
func (e Env) Digest() string {
	if len(e) == 0 {
		return ""
	}
	var all []byte
	for _, name := range slices.Sorted(maps.Keys(e)) {
		all = fmt.Appendf(all, "%s=%s\x00", name, e[name])
	}
	return wire.Hash(all)
}

// variable is what the name of a variable looks like (POSIX.1-2024, XBD 8.1, and small letters).
var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ownVariables are set by the node, and so are all that begin with ownPrefix.
var ownVariables = []string{"HOME", "PATH", "TMPDIR"}

const ownPrefix = "TANDEM_"

// env reads an environment.
func (r reader) env(a at) Env {
	var all Env
	size := 0
	unprintable := func(c rune) bool { return !unicode.IsPrint(c) && c != '\n' && c != '\t' }
	r.Members(a, MaxEnv, func(name string, e at) {
		switch {
		case len(name) > MaxText || !variable.MatchString(name):
			r.Bad(e, strictjson.Show(name)+fmt.Sprintf(" is no name of a variable: letters, digits and '_' only, no "+
				"digit first, 1 to %d characters", MaxText))
		case strings.HasPrefix(name, ownPrefix) || slices.Contains(ownVariables, name):
			r.Bad(e, name+" is set by the node")
		}
		text, ok := r.Str(e)
		if ok && strings.ContainsFunc(text, unprintable) {
			r.Bad(e, "the text has a character that cannot be printed")
		}
		if all == nil {
			all = Env{}
		}
		all[name] = text
		size += len(name) + len(text)
	})
	if size > MaxEnvSize {
		r.Add(a, wire.CodeTooLarge, fmt.Sprintf("an environment has at most %d bytes of names and texts, not %d",
			MaxEnvSize, size))
	}
	return all
}
