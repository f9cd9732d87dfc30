package unitconfig

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"tandem.internal/shared/wire"
)

// The precedence example of semver.org, item 11, and the seed's pre-release.
var ascending = []string{
	"0.9.9", "1.0.0-1", "1.0.0-2", "1.0.0-10", "1.0.0-20261120100000", "1.0.0-alpha", "1.0.0-alpha.1",
	"1.0.0-alpha.beta",
	"1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "1.0.1", "1.2.0", "1.10.0", "2.0.0-0",
	"2.0.0",
}

func TestCompare(t *testing.T) {
	for i, a := range ascending {
		for j, b := range ascending {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got, err := Compare(a, b); err != nil || got != want {
				t.Errorf("Compare(%s, %s) = %d, %v", a, b, got, err)
			}
		}
	}
	if got, err := Compare("1.0.0+a", "1.0.0+b"); got != 0 || err != nil {
		t.Errorf("build metadata counts: %d, %v", got, err)
	}
}

func TestCheckVersion(t *testing.T) {
	for _, tt := range []struct {
		current, next string
		want          wire.Code // "" is fine
	}{
		{"1.0.0", "1.0.1", ""},
		{"1.0.0-alpha", "1.0.0", ""},
		{"1.0.0", "1.0.0", wire.CodeAlreadyExists},
		{"1.0.0+one", "1.0.0+two", wire.CodeAlreadyExists},
		{"1.0.0", "1.0.0+two", wire.CodeAlreadyExists},
		{"1.0.0", "0.9.0", wire.CodeWrongState},
		{"1.0.0", "1.0.0-rc.1", wire.CodeWrongState},
		{"1.10.0", "1.9.0", wire.CodeWrongState},
		{"1.0.0", "v1.0.1", wire.CodeInvalidArgument},
		{"1.0.0", "1..1", wire.CodeInvalidArgument},
		{"1.0.0", "1.1", wire.CodeInvalidArgument},
		{"1.0.0", "", wire.CodeInvalidArgument},
		{"1.0.0", "01.0.0", wire.CodeInvalidArgument},
		{"1.0.0", "1.0.0-", wire.CodeInvalidArgument},
		{"1.0.0", "1.0.0+", wire.CodeInvalidArgument},
		{"1.0.0", "1.0.0-01", wire.CodeInvalidArgument},
		{"1.0.0", " 1.0.1", wire.CodeInvalidArgument},
		{"1.0.0", "1.0.18446744073709551616", wire.CodeInvalidArgument},
		{"1.0.0", "2.0.0-18446744073709551616", wire.CodeInvalidArgument},
		{"x", "1.0.0", wire.CodeInvalidArgument},
	} {
		got := CheckVersion(tt.current, tt.next)
		if tt.want == "" && got != nil || tt.want != "" &&
			(got == nil || got.Code != tt.want || got.Path != "/version") {
			t.Errorf("CheckVersion(%q, %q) = %v, want %q", tt.current, tt.next, got, tt.want)
		}
	}
}

func TestCheckVersionSaysWhy(t *testing.T) {
	for next, want := range map[string]string{
		"1.0.0":   "version 1.0.0 is already installed",
		"1.0.0+x": "only in build metadata",
		"0.1.0":   "lower than the installed 1.0.0",
		"1..0":    `"1..0" is not a semantic version`,
	} {
		if got := CheckVersion("1.0.0", next); !strings.Contains(got.Message, want) {
			t.Errorf("%s: %s", next, got.Message)
		}
	}
}

func TestWithVersion(t *testing.T) {
	old := parsed(t, "seed000.json")
	again, err := WithVersion(old, "2.0.1")
	if err != nil || again.Version != "2.0.1" || old.Version != "2.0.0" {
		t.Fatalf("%+v, %v (old %s)", again, err, old.Version)
	}
	if changes := slices.Collect(Diff(old, again)); len(changes) != 1 || changes[0].Pointer != "/version" {
		t.Errorf("more than the version changed: %+v", changes)
	}
	if _, err := WithVersion(old, "2.1"); !errors.Is(err, &wire.Error{Code: wire.CodeInvalidArgument}) {
		t.Errorf("bad version: %v", err)
	}
}
