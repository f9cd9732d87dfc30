package workload

import (
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"tandem.internal/shared/near"
	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/topic"
)

// ParseSlot reads service@node (seed 004, slot). Both must be names that topic.ValidName accepts.
func ParseSlot(s string) (Slot, error) {
	service, node, ok := strings.Cut(s, "@")
	switch {
	case !ok:
		return Slot{}, fmt.Errorf("a slot is service@node, not %s", strictjson.Show(s))
	case !topic.ValidName(service):
		return Slot{}, fmt.Errorf("%s cannot name a service: letters, digits, '.', '_' and '-' only, a letter or "+
			"digit first, 1 to %d characters", strictjson.Show(service), topic.MaxName)
	case !topic.ValidName(node):
		return Slot{}, fmt.Errorf("no node can have the ID %s: letters, digits, '.', '_' and '-' only, a letter or "+
			"digit first, 1 to %d characters", strictjson.Show(node), topic.MaxName)
	}
	return Slot{service, node}, nil
}

// The algorithms of checksums. Empty means that the content is not checked.
const (
	Empty  = "EMPTY"
	MD5    = "MD5"
	SHA256 = "SHA256"
)

// sumBytes is the length of a checksum in bytes, by algorithm.
var sumBytes = map[string]int{Empty: 0, MD5: 16, SHA256: 32}

// ParseChecksum reads ALGORITHM:hex (seed 004, checksum); SHA256 is an addition to the seed. An empty text means
// EMPTY: and returns no sum.
func ParseChecksum(s string) (algorithm string, sum []byte, err error) {
	if s == "" {
		return Empty, nil, nil
	}
	algorithm, digits, ok := strings.Cut(s, ":")
	n, known := sumBytes[algorithm]
	if !ok || !known {
		return "", nil, fmt.Errorf("a checksum is EMPTY:, MD5: or SHA256: and hex digits, not %s", strictjson.Show(s))
	}
	sum, err = hex.DecodeString(digits)
	if err != nil || len(sum) != n {
		return "", nil, fmt.Errorf("%s: needs %d hex digits after it", algorithm, 2*n)
	}
	return algorithm, sum, nil
}

// canonical returns a well-formed checksum with its digits in small letters: one content has one text.
func canonical(s string) string {
	algorithm, digits, ok := strings.Cut(s, ":")
	if !ok {
		return s
	}
	return algorithm + ":" + strings.ToLower(digits)
}

// ParseCheckPeriod reads a text such as 1d2h30m: whole numbers up to 100000, with all three units in this order
// (seed 004, checkPeriod).
func ParseCheckPeriod(s string) (CheckPeriod, error) {
	bad := fmt.Errorf("a check period is days, hours and minutes like 0d1h0m, not %s", strictjson.Show(s))
	var d time.Duration
	rest := s
	for _, u := range []struct {
		mark string
		unit time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}} {
		digits, after, ok := strings.Cut(rest, u.mark)
		n, err := strconv.ParseUint(digits, 10, 32)
		if !ok || err != nil || n > 100_000 {
			return 0, bad
		}
		d, rest = d+time.Duration(n)*u.unit, after
	}
	if rest != "" {
		return 0, bad
	}
	return CheckPeriod(d), nil
}

func (p CheckPeriod) String() string {
	minutes := int64(time.Duration(p) / time.Minute)
	return fmt.Sprintf("%dd%dh%dm", minutes/(24*60), minutes/60%24, minutes%60)
}

// MarshalText returns a text such as 1d2h30m.
func (p CheckPeriod) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (p *CheckPeriod) UnmarshalText(text []byte) (err error) {
	*p, err = ParseCheckPeriod(string(text))
	return err
}

// The schemes of a resource's addresses.
const (
	SchemeHTTP      = "http"
	SchemeHTTPS     = "https"
	SchemeRBTorrent = "rbtorrent" // BitTorrent, by info hash
	SchemeMagnet    = "magnet"    // BitTorrent
)

// CheckURL returns an error for an address that no agent can fetch, as those of resources (seed 004, urls).
func CheckURL(address string) error { return checkURL(address, false) }

// checkURL returns an error for a URL that no agent can fetch. One that was accepted before may name a torrent that
// does not exist.
func checkURL(s string, stored bool) error {
	u, err := url.Parse(s)
	if err != nil {
		inner := err
		if e, ok := errors.AsType[*url.Error](err); ok {
			inner = e.Err
		}
		return fmt.Errorf("%s is no URL: %w", strictjson.Show(s), inner)
	}
	switch u.Scheme {
	case SchemeHTTP, SchemeHTTPS:
		if u.Host == "" {
			return fmt.Errorf("%s names no host", strictjson.Show(s))
		}
		if u.User != nil {
			return errors.New("a URL must not carry a user name or password: everybody who sees the configuration " +
				"sees them")
		}
	case SchemeRBTorrent:
		if u.Opaque == "" {
			return fmt.Errorf("%s has no info hash", strictjson.Show(s))
		}
		if _, hash, _ := strings.Cut(s, ":"); !stored && !isHex(hash, infoHash) {
			return fmt.Errorf("%s: rbtorrent: needs an info hash, which is %d hex digits", strictjson.Show(s),
				2*infoHash)
		}
	case SchemeMagnet:
		if !strings.Contains(u.RawQuery, "xt=urn:btih:") && !strings.Contains(u.RawQuery, "xt=urn:btmh:") {
			return fmt.Errorf("%s names no torrent (xt=urn:btih:…)", strictjson.Show(s))
		}
		if !stored && !hasInfoHash(u.Query()["xt"]) {
			return fmt.Errorf("%s: a magnet link needs xt=urn:btih: and an info hash of BitTorrent v1, which is %d "+
				"hex digits or %d of base32", strictjson.Show(s), 2*infoHash, base32.StdEncoding.EncodedLen(infoHash))
		}
	default:
		return fmt.Errorf("%s: http, https, rbtorrent and magnet are the schemes that can be fetched",
			strictjson.Show(s))
	}
	return nil
}

// infoHash is the length of an info hash of BitTorrent v1 in bytes.
const infoHash = 20

// isHex reports whether s is n bytes in hex digits.
func isHex(s string, n int) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == n
}

// hasInfoHash reports whether topics of a magnet link name a torrent of v1, and none names one that cannot be.
func hasInfoHash(topics []string) (found bool) {
	for _, xt := range topics {
		hash, v1 := strings.CutPrefix(xt, "urn:btih:")
		if !v1 {
			continue
		}
		b, err := base32.StdEncoding.DecodeString(hash)
		if !isHex(hash, infoHash) && (err != nil || len(b) != infoHash) {
			return false
		}
		found = true
	}
	return found
}

// fileName returns why s cannot be the name of a resource, which becomes that of a symbolic link; "": it can.
func fileName(s string) string {
	switch {
	case s == "", s == ".", s == "..":
		return strictjson.Show(s) + " cannot be a file's name"
	case len(s) > MaxName:
		return fmt.Sprintf("%s has %d bytes; a file's name has at most %d", strictjson.Show(s), len(s), MaxName)
	case strings.ContainsAny(s, "/\\\x00"):
		return strictjson.Show(s) + " cannot be a file's name: it has a slash, a backslash or a NUL in it"
	case strings.HasPrefix(s, hookPrefix) && !slices.Contains(Hooks, s):
		return "there is no hook " + strictjson.Show(s) + near.Hint(s, Hooks)
	}
	return text(s, MaxName)
}

// name returns why s cannot be the name of a property, constraint or filler; "": it can.
func name(s string) string {
	if s == "" {
		return "a name must not be empty"
	}
	return text(s, MaxName)
}

// text returns why s is not printable text of at most most bytes; "": it is.
func text(s string, most int) string {
	if len(s) > most {
		return fmt.Sprintf("%s has %d bytes; at most %d are allowed", strictjson.Show(s), len(s), most)
	}
	for _, c := range s {
		if !unicode.IsPrint(c) && c != '\t' {
			return strictjson.Show(s) + " has a character that cannot be printed"
		}
	}
	return ""
}

// lines is text of any number of lines.
func lines(s string, most int) string { return text(strings.ReplaceAll(s, "\n", "\t"), most) }
