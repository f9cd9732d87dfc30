package deliver

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"tandem.internal/controller/internal/notify"
)

// shortestSecret is how many bytes a part of an address has at least that is not shown: shorter ones are no secrets,
// and occur in words.
const shortestSecret = 4

// secretParts finds the parts of a receiver's path and query in what it answers, which repeats them in many a 404. nil:
// there are none.
func secretParts(to *notify.Receiver) *regexp.Regexp {
	u, err := url.Parse(to.URL)
	if err != nil {
		return nil // nor is it ever sent to
	}
	var parts []string
	between := func(r rune) bool { return strings.ContainsRune("/?&=", r) }
	for _, part := range strings.FieldsFunc(u.RequestURI(), between) {
		parts = append(parts, part)
		for _, decode := range []func(string) (string, error){url.PathUnescape, url.QueryUnescape} {
			if plain, err := decode(part); err == nil && utf8.ValidString(plain) {
				parts = append(parts, plain)
			}
		}
	}
	parts = slices.DeleteFunc(parts, func(s string) bool { return len(s) < shortestSecret })
	if len(parts) == 0 {
		return nil
	}
	slices.SortFunc(parts, func(x, y string) int { return cmp.Compare(len(y), len(x)) })
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("(?i)" + strings.Join(parts, "|"))
}

// clean is clean without the parts of the address that may be secret.
func (s *sender) clean(text string) string {
	if s.secret != nil {
		text = s.secret.ReplaceAllLiteralString(text, "***")
	}
	return clean(text)
}
