package unitconfig

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"

	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// ParseVersion parses a semantic version strictly: three numbers, without a leading "v" or zeros. A number above 64
// bits is an error, also in a pre-release, where the library would compare it as text.
func ParseVersion(s string) (*semver.Version, error) {
	v, err := semver.StrictNewVersion(s)
	if err != nil {
		if errors.Is(err, strconv.ErrRange) {
			err = errors.New("a number is too large")
		}
		why := ": " + lowerFirst(err.Error())
		if errors.Is(err, semver.ErrInvalidSemVer) {
			why = "" // it would only repeat the message
		}
		return nil, fmt.Errorf("%s is not a semantic version such as 2.0.0 or 2.1.0-rc.1%s", strictjson.Show(s), why)
	}
	for part := range strings.SplitSeq(v.Prerelease(), ".") {
		if part != "" && strings.Trim(part, "0123456789") == "" {
			if _, err := strconv.ParseUint(part, 10, 64); err != nil {
				return nil, fmt.Errorf("%s is not a usable version: a number in its pre-release is too large",
					strictjson.Show(s))
			}
		}
	}
	return v, nil
}

// lowerFirst returns an error text of the library as part of a message.
func lowerFirst(s string) string {
	s = strings.TrimPrefix(s, "strconv.ParseUint: ")
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

// Compare returns -1, 0 or 1 if version a is lower than, equal to or higher than b in the precedence of semantic
// versioning: a pre-release is lower than its release, and build metadata does not count (seed 000, Version
// Management). The error is a *wire.Error with code invalid-argument, for a malformed version.
func Compare(a, b string) (int, error) {
	va, err := ParseVersion(a)
	if err != nil {
		return 0, wire.New(wire.CodeInvalidArgument, "", err.Error())
	}
	vb, err := ParseVersion(b)
	if err != nil {
		return 0, wire.New(wire.CodeInvalidArgument, "", err.Error())
	}
	return va.Compare(vb), nil
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
	if _, err := ParseVersion(version); err != nil {
		return nil, wire.New(wire.CodeInvalidArgument, "/version", err.Error())
	}
	again := *uc
	again.Version = version
	return &again, nil
}
