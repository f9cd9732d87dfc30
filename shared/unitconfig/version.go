package unitconfig

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/semver"

	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// maxVersion bounds a version, in bytes.
const maxVersion = 256

// parseVersion reads a semantic version strictly: three numbers, no leading "v" or zeros. Numbers above 64 bits are
// refused, in a pre-release too. What it returns is for the library, which wants the "v".
func parseVersion(s string) (string, error) {
	v, why := "v"+s, ""
	switch {
	case len(s) > maxVersion:
		why = fmt.Sprintf(": it has %d bytes; at most %d are allowed", len(s), maxVersion)
	case !semver.IsValid(v), semver.Canonical(v)+semver.Build(v) != v: // v1 and v1.2 are valid for the library
		if slices.ContainsFunc(strings.FieldsFunc(s, isPunct), startsWithZero) {
			why = ": a number starts with 0"
		}
	case !fits(v):
		why = ": a number is too large"
	default:
		return v, nil
	}
	return "", fmt.Errorf("%s is not a semantic version such as 2.0.0 or 2.1.0-rc.1%s", strictjson.Show(s), why)
}

func isPunct(r rune) bool { return r == '.' || r == '-' || r == '+' }

func startsWithZero(part string) bool {
	return len(part) > 1 && part[0] == '0' && strings.Trim(part, "0123456789") == ""
}

// fits reports whether all numbers of a valid version have at most 64 bits.
func fits(v string) bool {
	pre := semver.Prerelease(v)
	core := strings.TrimSuffix(semver.Canonical(v), pre)[1:]
	for _, part := range strings.Split(core+"."+strings.TrimPrefix(pre, "-"), ".") {
		if part == "" || strings.Trim(part, "0123456789") != "" {
			continue // of a pre-release, and no number
		}
		if _, err := strconv.ParseUint(part, 10, 64); err != nil {
			return false
		}
	}
	return true
}

// Compare returns -1, 0 or 1 if version a is lower than, equal to or higher than b in the precedence of semantic
// versioning: a pre-release is lower than its release, and build metadata does not count (seed 000, Version
// Management). The error is a *wire.Error with code invalid-argument, for a malformed version.
func Compare(a, b string) (int, error) {
	va, err := parseVersion(a)
	if err != nil {
		return 0, wire.New(wire.CodeInvalidArgument, "", err.Error())
	}
	vb, err := parseVersion(b)
	if err != nil {
		return 0, wire.New(wire.CodeInvalidArgument, "", err.Error())
	}
	return semver.Compare(va, vb), nil
}

// CheckVersion returns nil if version next may follow the installed version current, because it is higher. Otherwise
// the code of the error is already-exists if it is equal in precedence, wrong-state if it is lower, invalid-argument if
// either is malformed (seed 000, Version Management). It is not called without an installed configuration.
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
			fmt.Sprintf("version %s differs from the installed %s only in build metadata, which has no precedence",
				next, current))
	}
}

// WithVersion returns uc with another version, to issue an old configuration again. It shares memory with uc. It does
// not check that the version is high enough; CheckVersion does. The error is a *wire.Error with code invalid-argument.
func WithVersion(uc *UnitConfig, version string) (*UnitConfig, error) {
	if _, err := parseVersion(version); err != nil {
		return nil, wire.New(wire.CodeInvalidArgument, "/version", err.Error())
	}
	again := *uc
	again.Version = version
	return &again, nil
}
