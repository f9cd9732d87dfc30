package duration

import (
	"math"
	"strings"
	"testing"
	"time"

	iso "github.com/sosodev/duration"
	"pgregory.net/rapid"
)

func TestParseDuration(t *testing.T) {
	const day = 24 * time.Hour
	for in, want := range map[string]time.Duration{
		"PT0S":                         0,
		"P0D":                          0,
		"PT1S":                         time.Second,
		"PT0.25S":                      250 * time.Millisecond,
		"PT0,25S":                      250 * time.Millisecond,
		"PT0.000000001S":               1,
		"PT0.0000000005S":              1, // half a nanosecond rounds up
		"PT0.00000000049999999999999S": 0,
		"PT0.30000000000000004S":       300 * time.Millisecond,
		"PT1.5M":                       90 * time.Second,
		"PT0.3333333333333333H":        20 * time.Minute,
		"P0.5D":                        12 * time.Hour,
		"P0.5W":                        84 * time.Hour,
		"P2W":                          14 * day,
		"P1W2DT3H4M5S":                 9*day + 3*time.Hour + 4*time.Minute + 5*time.Second,
		"PT90M":                        90 * time.Minute,
		"PT0090S":                      90 * time.Second,
		"P106751DT23H47M16.854775807S": math.MaxInt64,
		"PT9223372036.854775807S":      math.MaxInt64,
		"PT2562047.0H":                 2562047 * time.Hour,
	} {
		if got, err := Parse(in); err != nil || got != want {
			t.Errorf("%s = %v, %v; want %v", in, got, err, want)
		}
	}
}

func TestParseDurationRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"":                                    "empty",
		"P":                                   "no number",
		"PT":                                  "no number",
		"P1DT":                                "nothing follows the T",
		"T1S":                                 "begins with P",
		"1S":                                  "begins with P",
		"pT1S":                                "begins with P",
		"PT1s":                                "no unit",
		"+PT1S":                               "begins with P",
		"-PT1S":                               "negative",
		"PT-1S":                               "missing",
		"PT1S ":                               "missing",
		" PT1S":                               "begins with P",
		"PT1Sx":                               "missing",
		"PT1S2":                               "no unit",
		"PTS":                                 "missing",
		"PTHMS":                               "missing",
		"PT1":                                 "no unit",
		"P1":                                  "no unit",
		"P1S":                                 "after a T",
		"P1H":                                 "after a T",
		"PT1D":                                "before the T",
		"PT1W":                                "before the T",
		"PT1Y":                                "before the T",
		"PT1S1M":                              "out of order",
		"P1D1W":                               "out of order",
		"PT1H1H":                              "repeated",
		"P1DT1HT1M":                           "the T appears twice",
		"PTT1H":                               "missing",
		"PT1.5H30M":                           "only the last",
		"P1.5DT1H":                            "only the last",
		"PT1.S":                               "both sides",
		"PT.5S":                               "both sides",
		"PT.S":                                "both sides",
		"PT1.2.3S":                            "both sides",
		"PT1e3S":                              "no unit",
		"PT٣S":                                "missing",
		"P1Y":                                 "calendar",
		"P1M":                                 "calendar",
		"P1Y2M3DT1H":                          "calendar",
		"P0Y":                                 "calendar",
		"PP1D":                                "missing",
		"PT9223372036.854775808S":             "292 years",
		"P106751DT23H47M16.854775808S":        "292 years",
		"P15251W":                             "292 years",
		"PT18446744073709551616S":             "292 years",
		"PT18446744074S":                      "292 years",
		"P30500W":                             "292 years",
		"P30500.99999999W":                    "292 years",
		"PT" + strings.Repeat("0", 70) + "1S": "64 characters",
	} {
		if got, err := Parse(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s = %v, %v; want an error with %q", in, got, err, want)
		}
	}
}

func TestFormat(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                                "PT0S",
		1:                                "PT0.000000001S",
		250 * time.Millisecond:           "PT0.25S",
		time.Second:                      "PT1S",
		90 * time.Second:                 "PT1M30S",
		time.Hour:                        "PT1H",
		time.Hour + 10*time.Millisecond:  "PT1H0.01S",
		24 * time.Hour:                   "P1D",
		14*24*time.Hour + 30*time.Minute: "P14DT30M",
		math.MaxInt64:                    "P106751DT23H47M16.854775807S",
		-time.Second:                     "-PT1S",
		math.MinInt64:                    "-P106751DT23H47M16.854775808S",
	} {
		if got := Format(d); got != want {
			t.Errorf("%d = %s, want %s", d, got, want)
		}
	}
}

func durations() *rapid.Generator[time.Duration] {
	return rapid.OneOf(
		rapid.Map(rapid.Int64Range(0, math.MaxInt64), func(n int64) time.Duration { return time.Duration(n) }),
		rapid.Map(rapid.Int64Range(0, 1e12), func(n int64) time.Duration { return time.Duration(n) }),
		rapid.Map(rapid.Int64Range(0, 1e6), func(n int64) time.Duration { return time.Duration(n) * time.Second }),
	)
}

func TestDurationRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := durations().Draw(t, "d")
		text := Format(d)
		if again, err := Parse(text); err != nil || again != d {
			t.Fatalf("%d → %s → %d, %v", d, text, again, err)
		}
		var v Duration
		if err := v.UnmarshalText([]byte(text)); err != nil || v.Std() != d {
			t.Fatalf("as text: %d, %v", v, err)
		}
	})
}

// An independent, if approximate, reader agrees on whole seconds.
func TestDurationAgainstLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "seconds")) * time.Second
		theirs, err := iso.Parse(Format(d))
		if err != nil || theirs.ToTimeDuration() != d {
			t.Fatalf("%s is read elsewhere as %v, %v", Format(d), theirs, err)
		}
	})
}

func FuzzDuration(f *testing.F) {
	for _, s := range []string{"PT1S", "P1W2DT3H4M5.6S", "PT0,25S", "P", "PT", "P1Y", "-PT1S",
		"PT9223372036.854775807S",
		"PT1H1H", "P0.0000000000000000000000000001W"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := Parse(s)
		if err != nil {
			return
		}
		if d < 0 {
			t.Fatalf("%q is negative: %d", s, d)
		}
		if again, err := Parse(Format(d)); err != nil || again != d {
			t.Fatalf("%q → %d → %s → %d, %v", s, d, Format(d), again, err)
		}
		if theirs, err := iso.Parse(strings.ReplaceAll(s, ",", ".")); err != nil {
			t.Fatalf("%q: accepted here, refused elsewhere: %v", s, err)
		} else if diff := math.Abs(float64(theirs.ToTimeDuration() - d)); diff > 1e3+math.Abs(float64(d))*1e-9 {
			t.Fatalf("%q: %d here, %d elsewhere", s, d, theirs.ToTimeDuration())
		}
	})
}

func TestValid(t *testing.T) {
	for _, s := range []string{"P1D", "PT0.5S", "PT1M30S", "P1M", "P2W", "P0D", "P1Y2M3W4DT5H6M7S",
		"PT1.5H3S", "PT" + strings.Repeat("1", 61) + "S"} {
		if !Valid(s) {
			t.Errorf("%q is not valid", s)
		}
	}
	for _, s := range []string{"", "P", "PT", "1D", "P1", "PD", "P1S", "PT1D", "P1DT", "PT1S1M", "P1D1D",
		"P.5D", "P5.D",
		"P1.2.3D", "P1,2.3D", "PT1H\n", "-PT1S", "P-1D", "PTT1S", "PT" + strings.Repeat("1", 62) + "S"} {
		if Valid(s) {
			t.Errorf("%q is valid", s)
		}
	}
}
