package diag

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/term"
)

// hidden stands where a secret was.
const hidden = "***"

// secretWord is the end of a name whose value is secret, such as broker-password or apiKey.
const secretWord = `(?:password|passwd|[-_]pass|pwd|passphrase|secret|token|credential|authorization|cookie|` +
	`api[-_]?key|access[-_]?key|private[-_]?key)s?`

// named is a secret's name in a text, with what stands before the value.
const named = `(?i)(\b[a-z0-9_.-]*` + secretWord + `[\\"']*\s*[:=]\s*)`

// isSecret are the names of members whose values are not shown.
var isSecret = regexp.MustCompile(`(?i)` + secretWord + `$`)

// inLogs are those of a log: details of events are left out there as they are of events.
var inLogs = regexp.MustCompile(`(?i)(?:` + secretWord + `|^detail)$`)

// rule finds one sort of secret in a text.
type rule struct {
	name  string // of what is found, for the manifest
	find  *regexp.Regexp
	shown string // what stands there afterwards
}

// rules are applied in this order.
var rules = []rule{
	{"private key", regexp.MustCompile(
		`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`), hidden},
	{"private key", regexp.MustCompile(`AGE-SECRET-KEY-[A-Z0-9-]+`), hidden},
	{"private key", regexp.MustCompile(`\bRW(?:RTY0Iy|QAAEIy)[A-Za-z0-9+/=]+`), hidden}, // of minisign
	// of one that is not there any more, too
	{ofReceiver, regexp.MustCompile(`(receiver of notices [^:]*: )[a-z]+://[^\s,;"]+`), "${1}" + hidden},
	{"token", regexp.MustCompile(`\btd[a-z]1\.[A-Za-z0-9_-]+`), hidden},
	{"token", regexp.MustCompile(`\bwhsec_[A-Za-z0-9+/=_-]+`), hidden},
	{"token", regexp.MustCompile(`\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)*`), hidden},
	{"token", regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9+/=._~-]{6,}`), "$1 " + hidden},
	{"token", regexp.MustCompile( // of well-known services, by how they begin
		`\b(?:gh[a-z]_|github_pat_|glpat-|xox[a-z]-|AKIA|ASIA)[A-Za-z0-9_-]{12,}`), hidden},
	{"named secret", regexp.MustCompile(
		`(?i)(\b(?:authorization|(?:set-)?cookie)[\\"']*\s*[:=]\s*)([\\"']*)[^\r\n"'\\]+`), "${1}${2}" + hidden},
	{"user in an address", regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^/\s"'<>]*@`), "${1}" + hidden + "@"},
	{"path of an address", regexp.MustCompile(
		`([A-Za-z][A-Za-z0-9+.-]*:\\?/\\?/[^/\s"'<>?#\\]+)\\?[/?#][^\s"'<>]+`), "$1/" + hidden},
	{"named secret", regexp.MustCompile(named + `(?:"(?:\\.|[^"\\])*"|'[^']*')`), "${1}" + hidden},
	{"named secret", regexp.MustCompile(named + `([\\"']*)[^\s"'\\,;&}\])]+`), "${1}${2}" + hidden},
	{"named secret", regexp.MustCompile(`(?i)(--[a-z0-9-]*` + secretWord + `\s+)[^\s-][^\s]*`), "${1}" + hidden},
}

// scrubber takes secrets out of what goes into a bundle, and counts them.
type scrubber struct {
	rules []rule
	found map[string]int // by what it was
}

// ofReceiver is the name of what newScrubber is given.
const ofReceiver = "address of a receiver of notices"

// newScrubber returns one that also takes out these addresses, the longest first.
func newScrubber(addresses []string) *scrubber {
	s := &scrubber{rules: rules, found: map[string]int{}}
	for i := range addresses {
		addresses[i] = regexp.QuoteMeta(addresses[i])
	}
	if len(addresses) > 0 {
		find := regexp.MustCompile(`(?i)\b(?:` + strings.Join(addresses, "|") + `)(?:\b|$)`)
		s.rules = append(slices.Clone(rules), rule{ofReceiver, find, hidden})
	}
	return s
}

// text returns a text without secrets.
func (s *scrubber) text(text string) string {
	for _, r := range s.rules {
		text = r.find.ReplaceAllStringFunc(text, func(found string) string {
			clean := r.find.ReplaceAllString(found, r.shown)
			if clean != found {
				s.found[r.name]++
			}
			return clean
		})
	}
	return text
}

// json returns a JSON text without secrets: strings are searched as they are meant, not as they are written, and so are
// names of members. A member whose name says that it is secret has no value any more.
func (s *scrubber) json(doc []byte) ([]byte, error) { return s.members(doc, isSecret) }

// members is json by other names of secrets.
func (s *scrubber) members(doc []byte, secret *regexp.Regexp) ([]byte, error) {
	var out bytes.Buffer
	in := jsontext.NewDecoder(bytes.NewReader(doc), jsontext.AllowDuplicateNames(true))
	to := jsontext.NewEncoder(&out, jsontext.WithIndent("  "), jsontext.AllowDuplicateNames(true))
	for in.PeekKind() != 0 {
		token, err := in.ReadToken()
		if err != nil {
			return nil, err
		}
		if token.Kind() != '"' {
			if err := to.WriteToken(token); err != nil {
				return nil, err
			}
			continue
		}
		text := token.String()
		if err := to.WriteToken(jsontext.String(s.text(text))); err != nil {
			return nil, err
		}
		container, n := in.StackIndex(in.StackDepth())
		if container != '{' || n%2 == 0 || !secret.MatchString(text) {
			continue
		}
		value, err := in.ReadValue()
		if err != nil {
			return nil, err
		}
		if err := to.WriteValue(s.value(value)); err != nil {
			return nil, err
		}
	}
	if _, err := in.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, err
	}
	return term.EscapeJSON(out.Bytes()), nil
}

// value is what is shown of a secret member: whether there is something.
func (s *scrubber) value(v jsontext.Value) jsontext.Value {
	switch string(v) {
	case `""`, "{}", "[]", "null", "true", "false":
		return v
	}
	s.found["named secret"]++
	return jsontext.Value(`"` + hidden + `"`)
}
