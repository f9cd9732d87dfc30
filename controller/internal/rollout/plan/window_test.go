package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/rollout/plan"
)

func windows(t *testing.T, cron, zone, duration string) plan.Windows {
	t.Helper()
	p := parse(t, fmt.Sprintf(`{"waves": [{"percent": 100}], "windows": [{"cron": %q, "zone": %q, "duration": %q}]}`,
		cron, zone, duration))
	w, err := p.Open(time.LoadLocation)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// Where clocks leap, a window opens at the leap; where they come twice, the first time only.
func TestWindowsWhereClocksLeap(t *testing.T) {
	for _, c := range []struct{ zone, cron, from, want string }{
		// Berlin: 02:00 to 03:00 on 29 March, 03:00 to 02:00 on 25 October 2026
		{"Europe/Berlin", "30 2 * * *", "2026-03-27T12:00", "03-28 02:30 CET, 03-29 03:00 CEST, 03-30 02:30 CEST"},
		{"Europe/Berlin", "0 2 * * *", "2026-03-28T12:00", "03-29 03:00 CEST, 03-30 02:00 CEST, 03-31 02:00 CEST"},
		{"Europe/Berlin", "*/20 2 * * *", "2026-03-28T12:00", "03-29 03:00 CEST, 03-30 02:00 CEST, 03-30 02:20 CEST"},
		{"Europe/Berlin", "30 2 * * *", "2026-10-24T12:00", "10-25 02:30 CEST, 10-26 02:30 CET, 10-27 02:30 CET"},
		{"Europe/Berlin", "0 3 * * *", "2026-10-24T12:00", "10-25 03:00 CET, 10-26 03:00 CET, 10-27 03:00 CET"},
		{"Europe/Berlin", "30 1,2 25 10 *", "2026-10-24T12:00", "10-25 01:30 CEST, 10-25 02:30 CEST, 10-25 01:30 CEST"},
		// Lord Howe: half an hour; 02:00 to 02:30 on 4 October, 02:00 to 01:30 on 5 April 2026
		{"Australia/Lord_Howe", "15 2 * * *", "2026-10-02T16:00", "10-04 02:30 +11, 10-05 02:15 +11, 10-06 02:15 +11"},
		{
			"Australia/Lord_Howe", "45 1 * * *", "2026-04-03T16:00",
			"04-05 01:45 +11, 04-06 01:45 +1030, 04-07 01:45 +1030",
		},
		// Santiago: midnight; 24:00 to 23:00 on 4 April, 00:00 to 01:00 on 6 September 2026
		{"America/Santiago", "0 0 * * *", "2026-09-05T12:00", "09-06 01:00 -03, 09-07 00:00 -03, 09-08 00:00 -03"},
		{"America/Santiago", "30 23 * * *", "2026-04-04T12:00", "04-04 23:30 -03, 04-05 23:30 -04, 04-06 23:30 -04"},
		// Casablanca: back for Ramadan; 03:00 to 02:00 on 15 February, 02:00 to 03:00 on 22 March 2026
		{"Africa/Casablanca", "30 2 * * *", "2026-02-14T12:00", "02-15 02:30 +01, 02-16 02:30 +00, 02-17 02:30 +00"},
		{"Africa/Casablanca", "30 2 * * *", "2026-03-21T12:00", "03-22 03:00 +01, 03-23 02:30 +01, 03-24 02:30 +01"},
		{"UTC", "0 0 29 2 *", "2026-03-01T00:00", "02-29 00:00 UTC, 02-29 00:00 UTC, 02-29 00:00 UTC"},
	} {
		from, err := time.Parse("2006-01-02T15:04", c.from)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, at := range windows(t, c.cron, c.zone, "PT1H").Next(from, 3) {
			got = append(got, at.Format("01-02 15:04 MST"))
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s, %s: %s, want %s", c.zone, c.cron, text, c.want)
		}
	}
}

// A window is open for elapsed time, and what is said to be certain until a time stays so.
func TestWindowsAreOpenForElapsedTime(t *testing.T) {
	for _, c := range []struct{ zone, cron, duration, opens, shuts string }{
		{"Europe/Berlin", "0 1 29 3 *", "PT2H", "2026-03-29T00:00", "2026-03-29T02:00"},  // 01:00 CET to 04:00 CEST
		{"Europe/Berlin", "0 1 25 10 *", "PT2H", "2026-10-24T23:00", "2026-10-25T01:00"}, // to 02:00 CET
	} {
		w := windows(t, c.cron, c.zone, c.duration)
		at := func(s string) time.Time {
			v, err := time.Parse("2006-01-02T15:04", s)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		opens, shuts := at(c.opens), at(c.shuts)
		for _, x := range []struct {
			now   time.Time
			open  bool
			until time.Time
		}{
			{opens.Add(-time.Second), false, opens}, {opens, true, shuts}, {shuts.Add(-time.Second), true, shuts},
		} {
			if open, until := w.At(x.now); open != x.open || !until.Equal(x.until) {
				t.Errorf("%s at %s: %v until %s", c.cron, x.now, open, until)
			}
		}
		if open, _ := w.At(shuts); open {
			t.Errorf("%s is open at %s", c.cron, shuts)
		}
	}
}

// Without windows nodes may be issued to always; windows that overlap are one.
func TestWindowsTogether(t *testing.T) {
	if open, until := (plan.Windows{}).At(time.Now()); !open || !until.IsZero() {
		t.Errorf("%v %v", open, until)
	}
	p := parse(t, `{"waves": [{"percent": 100}], "windows": [{"cron": "0 2 * * *", "zone": "UTC", "duration": "PT1H"},
		{"cron": "30 2 * * *", "zone": "UTC", "duration": "PT2H"}]}`)
	w, err := p.Open(time.LoadLocation)
	if err != nil {
		t.Fatal(err)
	}
	day := time.Date(2026, 5, 5, 0, 0, 0, 0, time.UTC)
	for hours, want := range map[float64]bool{1.9: false, 2: true, 2.75: true, 3.5: true, 4.49: true, 4.5: false} {
		if open, _ := w.At(day.Add(time.Duration(hours * float64(time.Hour)))); open != want {
			t.Errorf("%v: %v", hours, open)
		}
	}
}
