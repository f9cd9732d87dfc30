package unitconfig

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// version is a semantic version (semver.org, 2.0.0) but for its build metadata, which has no precedence.
type version struct {
	core [3]uint64
	pre  []string // the identifiers of the pre-release
}

const (
	maxVersion = 256 // bytes
	digits     = "0123456789"
	letters    = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-"
)

// parseVersion reads a semantic version strictly: three numbers, no leading "v" or zeros. Numbers
// above 64 bits are refused, in a pre-release too.
func parseVersion(s string) (version, error) {
	v, why, ok := splitVersion(s)
	if !ok {
		return version{}, errors.New(strictjson.Show(s) + " is not a semantic version such as 2.0.0 or 2.1.0-rc.1" + why)
	}
	for _, id := range v.pre {
		if _, err := strconv.ParseUint(id, 10, 64); err != nil && only(id, digits) {
			return version{}, errors.New(strictjson.Show(s) + " is not a usable version: a number in its pre-release is too large")
		}
	}
	return v, nil
}

// splitVersion takes a version apart. If it cannot, why says what is wrong with one that looks like a version.
func splitVersion(s string) (v version, why string, ok bool) {
	rest, build, built := strings.Cut(s, "+")
	rest, pre, before := strings.Cut(rest, "-")
	core := strings.Split(rest, ".")
	switch {
	case s == "":
		return v, ": version string empty", false
	case len(s) > maxVersion:
		return v, fmt.Sprintf(": version string is too long (max %d bytes)", maxVersion), false
	case len(core) != len(v.core):
		return v, "", false
	case built && !identifiers(build):
		return v, ": invalid metadata string", false
	case before && !identifiers(pre):
		return v, ": invalid prerelease string", false
	}
	if before {
		v.pre = strings.Split(pre, ".")
	}
	for _, n := range slices.Concat(core, v.pre) {
		if only(n, digits) && len(n) > 1 && n[0] == '0' {
			return v, ": version segment starts with 0", false
		}
	}
	for i, n := range core {
		if !only(n, digits) {
			return v, ": invalid characters in version", false
		}
		var err error
		if v.core[i], err = strconv.ParseUint(n, 10, 64); err != nil {
			return v, ": a number is too large", false
		}
	}
	return v, "", true
}

func identifiers(s string) bool {
	for id := range strings.SplitSeq(s, ".") {
		if !only(id, digits+letters) {
			return false
		}
	}
	return true
}

// only says whether s has some of these characters, and no other.
func only(s, characters string) bool { return s != "" && strings.Trim(s, characters) == "" }

// compare follows semver.org, item 11.
func (v version) compare(o version) int {
	if c := slices.Compare(v.core[:], o.core[:]); c != 0 {
		return c
	}
	if len(v.pre) == 0 || len(o.pre) == 0 {
		return cmp.Compare(len(o.pre), len(v.pre)) // a release comes after what was before it
	}
	for i := range min(len(v.pre), len(o.pre)) {
		a, b := v.pre[i], o.pre[i]
		x, aWord := strconv.ParseUint(a, 10, 64)
		y, bWord := strconv.ParseUint(b, 10, 64)
		c := strings.Compare(a, b)
		switch {
		case aWord == nil && bWord == nil:
			c = cmp.Compare(x, y)
		case aWord == nil:
			c = -1
		case bWord == nil:
			c = 1
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(len(v.pre), len(o.pre))
}

// Compare returns -1, 0 or 1 as version a comes before, together with or after b by semantic
// versioning's precedence: a pre-release comes before its release, build metadata does not count
// (seed 000, Version Management). An unreadable version is a *wire.Error, invalid-argument.
func Compare(a, b string) (int, error) {
	va, err := parseVersion(a)
	if err != nil {
		return 0, wire.New(wire.CodeInvalidArgument, "", err.Error())
	}
	vb, err := parseVersion(b)
	if err != nil {
		return 0, wire.New(wire.CodeInvalidArgument, "", err.Error())
	}
	return va.compare(vb), nil
}

// CheckVersion decides whether next may follow the installed current: nil if it is higher,
// already-exists if it is equal in precedence, wrong-state if it is lower, invalid-argument if
// either cannot be read (seed 000, Version Management). Without an installed configuration there
// is nothing to compare with, and the caller does not call it.
func CheckVersion(current, next string) *wire.Error {
	c, err := Compare(next, current)
	switch {
	case err != nil:
		return wire.New(wire.CodeInvalidArgument, "/version", err.(*wire.Error).Message)
	case c > 0:
		return nil
	case c < 0:
		return wire.New(wire.CodeWrongState, "/version",
			fmt.Sprintf("version %s is lower than the installed %s", next, current))
	case next == current:
		return wire.New(wire.CodeAlreadyExists, "/version", fmt.Sprintf("version %s is already installed", next))
	default:
		return wire.New(wire.CodeAlreadyExists, "/version",
			fmt.Sprintf("version %s differs from the installed %s only in build metadata, which has no precedence", next, current))
	}
}

// WithVersion returns the same content under another version, to reissue an old configuration above
// a newer one. It shares everything but the version with uc. The error is a *wire.Error,
// invalid-argument. Whether the version is high enough is CheckVersion's matter.
func WithVersion(uc *UnitConfig, version string) (*UnitConfig, error) {
	if _, err := parseVersion(version); err != nil {
		return nil, wire.New(wire.CodeInvalidArgument, "/version", err.Error())
	}
	again := *uc
	again.Version = version
	return &again, nil
}
