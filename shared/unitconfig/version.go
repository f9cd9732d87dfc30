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

// parseVersion reads a semantic version strictly: three numbers, no leading "v" or zeros. Numbers
// above 64 bits are refused, in a pre-release too, where the library would order them as text.
func parseVersion(s string) (*semver.Version, error) {
	v, err := semver.StrictNewVersion(s)
	if err != nil {
		if errors.Is(err, strconv.ErrRange) {
			err = errors.New("a number is too large")
		}
		why := ": " + lowerFirst(err.Error())
		if errors.Is(err, semver.ErrInvalidSemVer) {
			why = "" // it says the same again
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

func lowerFirst(s string) string {
	s = strings.TrimPrefix(s, "strconv.ParseUint: ")
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
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
	return va.Compare(vb), nil
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
			fmt.Sprintf("version %s differs from the installed %s only in build metadata, which has no precedence",
				next, current))
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
