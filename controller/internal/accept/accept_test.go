package accept_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tandem.internal/controller/internal/accept"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

func code(err *wire.Error) wire.Code {
	if err == nil {
		return ""
	}
	return err.Code
}

// What could go wrong: an equal version slips in; a lower one is called a duplicate; a unit whose
// state is absent or failed cannot be helped; nonsense is taken as a version because there is
// nothing to compare it with; a trial lets a configuration pass below the one that it tries.
func TestVersion(t *testing.T) {
	installed := accept.Current{Installed: true, Version: "1.2.0"}
	absent := accept.Current{}
	failed := accept.Current{Version: "1.2.0"} // a version is known, but it is not installed
	tried := accept.Current{Installed: true, Version: "1.2.0", Trial: "1.4.0"}
	triedFirst := accept.Current{Trial: "1.4.0"}
	pre := accept.Current{Installed: true, Version: "1.0.0-alpha"}
	for _, c := range []struct {
		name    string
		current accept.Current
		version string
		want    wire.Code
	}{
		{"higher", installed, "1.2.1", ""},
		{"higher by number, not by text", installed, "1.10.0", ""},
		{"same", installed, "1.2.0", wire.CodeAlreadyExists},
		{"same but for build metadata", installed, "1.2.0+7", wire.CodeAlreadyExists},
		{"lower", installed, "1.1.9", wire.CodeWrongState},
		{"pre-release of the installed one", installed, "1.2.0-rc.1", wire.CodeWrongState},
		{"pre-release of the next one", installed, "1.3.0-rc.1", ""},
		{"unreadable", installed, "1.3", wire.CodeInvalidArgument},
		{"pre-release: the release follows", pre, "1.0.0", ""},
		{"pre-release: the next pre-release follows", pre, "1.0.0-alpha.1", ""},
		{"pre-release: the same", pre, "1.0.0-alpha", wire.CodeAlreadyExists},
		{"pre-release: an earlier one", pre, "1.0.0-1", wire.CodeWrongState},
		{"absent: any", absent, "0.0.1", ""},
		{"absent: unreadable", absent, "v1.0.0", wire.CodeInvalidArgument},
		{"absent: empty", absent, "", wire.CodeInvalidArgument},
		{"failed: the same", failed, "1.2.0", ""},
		{"failed: lower", failed, "0.1.0", ""},
		{"failed: unreadable", failed, "new", wire.CodeInvalidArgument},
		{"trial: between installed and tried", tried, "1.3.0", wire.CodeWrongState},
		{"trial: the tried one", tried, "1.4.0", wire.CodeAlreadyExists},
		{"trial: higher", tried, "1.4.1", ""},
		{"trial: unreadable", tried, "x", wire.CodeInvalidArgument},
		{"trial with nothing installed: lower", triedFirst, "1.0.0", wire.CodeWrongState},
		{"trial with nothing installed: higher", triedFirst, "2.0.0", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := accept.Version(c.current, c.version)
			if code(err) != c.want {
				t.Fatalf("%v, want %q", err, c.want)
			}
			if err != nil && err.Path != "/version" {
				t.Errorf("the refusal points at %q", err.Path)
			}
			if onTrial := strings.Contains(fmt.Sprint(err), "on trial"); onTrial != (c.current.Trial != "" &&
				(c.want == wire.CodeAlreadyExists || c.want == wire.CodeWrongState)) {
				t.Errorf("the message is %v", err)
			}
		})
	}
}

var versions = rapid.Custom(func(t *rapid.T) string {
	v := fmt.Sprintf("%d.%d.%d", rapid.IntRange(0, 3).Draw(t, "major"), rapid.IntRange(0, 12).Draw(t, "minor"),
		rapid.IntRange(0, 3).Draw(t, "patch"))
	return v + rapid.SampledFrom([]string{"", "", "-1", "-alpha", "-alpha.1", "-rc.2", "+b", "-rc.2+b"}).Draw(t, "rest")
})

// Whatever is submitted in whatever order, what is in force only ever goes up.
func TestVersionsOnlyGoUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := accept.Current{}
		for range rapid.IntRange(1, 20).Draw(t, "submissions") {
			next := versions.Draw(t, "version")
			err := accept.Version(now, next)
			if !now.Installed {
				if err != nil {
					t.Fatalf("%s refused although nothing is installed: %v", next, err)
				}
			} else if c, cerr := unitconfig.Compare(next, now.Version); cerr != nil || (err == nil) != (c > 0) {
				t.Fatalf("%s after %s: %v", next, now.Version, err)
			}
			if err == nil {
				now = accept.Current{Installed: true, Version: next}
			}
		}
	})
}

func TestTrial(t *testing.T) {
	for _, c := range []struct {
		mode   wire.Mode
		within time.Duration
		want   string // code and path
	}{
		{wire.ModeApply, 0, ""},
		{wire.ModeApply, time.Minute, "invalid-argument /confirmWithin"},
		{wire.ModeApply, -1, "invalid-argument /confirmWithin"},
		{wire.ModeTry, accept.MinTrial, ""},
		{wire.ModeTry, accept.MaxTrial, ""},
		{wire.ModeTry, accept.MinTrial - 1, "invalid-argument /confirmWithin"},
		{wire.ModeTry, accept.MaxTrial + 1, "invalid-argument /confirmWithin"},
		{wire.ModeTry, 0, "invalid-argument /confirmWithin"},
		{"", 0, "invalid-argument /mode"},
		{"later", time.Minute, "invalid-argument /mode"},
	} {
		got := ""
		if err := accept.Trial(c.mode, c.within); err != nil {
			got = string(err.Code) + " " + err.Path
		}
		if got != c.want {
			t.Errorf("%q within %v: %q, want %q", c.mode, c.within, got, c.want)
		}
	}
}

// The version that is derived may always follow the one before, and is the lowest release that may.
func TestNext(t *testing.T) {
	for current, want := range map[string]string{
		"": "1.0.0", "1.0.0": "1.0.1", "2.3.9": "2.3.10", "2.0.0-rc.1": "2.0.0", "1.2.3+build.5": "1.2.4",
		"1.2.3-a-b+c-d":            "1.2.3",
		"1.2.18446744073709551615": "1.3.0", "1.18446744073709551615.18446744073709551615": "2.0.0",
	} {
		if got := accept.Next(current); got != want {
			t.Errorf("after %q comes %q, want %q", current, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		current := fmt.Sprintf("%d.%d.%d%s%s", rapid.Uint64().Draw(t, "major"), rapid.Uint64().Draw(t, "minor"),
			rapid.Uint64().Draw(t, "patch"),
			rapid.SampledFrom([]string{"", "-rc.1", "-0", "-a-b"}).Draw(t, "pre"),
			rapid.SampledFrom([]string{"", "+b", "+a-1.2"}).Draw(t, "build"))
		if strings.HasPrefix(current, "18446744073709551615.18446744073709551615.18446744073709551615") {
			return
		}
		if err := accept.Version(accept.Current{Installed: true, Version: current}, accept.Next(current)); err != nil {
			t.Fatalf("%s after %s: %v", accept.Next(current), current, err)
		}
	})
}
