package plan

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// The library is given local wall time as if it were UTC, where it meets no leap of a clock: by itself it leaves out
// windows in a gap, opens those in a fold twice, and misses midnight in Santiago and the half hour of Lord Howe.

// schedule says at which wall times a window opens.
type schedule struct{ cron cron.Schedule }

var parser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// checkCron says what is wrong with a cron expression.
func checkCron(expression string) error {
	const form = "; want minute, hour, day of month, month and day of week: 30 2 * * sat"
	if strings.ContainsAny(expression, "@=?") || len(strings.Fields(expression)) != 5 || len(expression) > 256 {
		return fmt.Errorf("a cron expression has five plain fields%s", form)
	}
	if _, err := parser.Parse(expression); err != nil {
		return fmt.Errorf("%w%s", err, form)
	}
	return nil
}

// mustSchedule returns the schedule of an expression that checkCron accepts.
func mustSchedule(expression string) schedule {
	s, err := parser.Parse(expression)
	if err != nil {
		panic(fmt.Sprintf("plan: the cron expression %q was not checked: %v", expression, err))
	}
	return schedule{s}
}

// everOpens reports whether there is a date that fits, within five years of a leap year.
func (s schedule) everOpens() bool {
	return !s.cron.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero()
}

// next returns the first opening after t; zero if there is none within five years.
func (s schedule) next(t time.Time, zone *time.Location) time.Time {
	for wall := wallOf(t.In(zone)); ; {
		if wall = s.cron.Next(wall); wall.IsZero() {
			return time.Time{}
		}
		if at := instant(wall, zone); at.After(t) {
			return at
		}
	}
}

// wallOf returns the wall time of t as if it were UTC.
func wallOf(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// instant returns when clocks of a zone show a wall time: where they show it twice, the first time; where they leap
// over it, the leap.
func instant(wall time.Time, zone *time.Location) time.Time {
	at := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), 0, zone)
	start, end := at.ZoneBounds()
	if !wallOf(at).Equal(wall) {
		if !start.IsZero() && !wall.Before(wallOf(start.Add(-1)).Add(1)) && wall.Before(wallOf(start)) {
			return start
		}
		return end
	}
	if !start.IsZero() {
		_, before := start.Add(-1).Zone()
		if first := wall.Add(-time.Duration(before) * time.Second); first.Before(start) {
			return first.In(zone)
		}
	}
	return at
}

// findZone returns a time zone.
func findZone(name string, zones Zones) (*time.Location, error) {
	if name == "" || name == "Local" {
		return nil, errors.New("a window needs the name of a time zone: Europe/Berlin, or UTC")
	}
	zone, err := zones(name)
	if err != nil {
		return nil, fmt.Errorf("there is no time zone %q; names are as Europe/Berlin", name)
	}
	return zone, nil
}

// Windows says when nodes may be issued to.
type Windows struct{ all []window }

type window struct {
	schedule
	zone *time.Location
	open time.Duration
}

// Open returns the windows of a plan that Parse returned. The error names a time zone that is not known any more.
func (p *Plan) Open(zones Zones) (Windows, error) {
	var w Windows
	for _, one := range p.Windows {
		zone, err := findZone(one.Zone, zones)
		if err != nil {
			return Windows{}, err
		}
		w.all = append(w.all, window{mustSchedule(one.Cron), zone, one.Duration.Std()})
	}
	return w, nil
}

// At reports whether a window is open, and until when that is certain to stay so: the caller asks again then. Without
// windows it is always open; a zero time is never.
func (w Windows) At(now time.Time) (open bool, until time.Time) {
	if len(w.all) == 0 {
		return true, time.Time{}
	}
	for _, one := range w.all {
		opening := one.next(now.Add(-one.open), one.zone)
		switch {
		case opening.IsZero():
		case !opening.After(now):
			if closing := opening.Add(one.open); !open || closing.After(until) {
				open, until = true, closing
			}
		case !open && (until.IsZero() || opening.Before(until)):
			until = opening
		}
	}
	return open, until.UTC()
}

// Next returns the next openings after now of all windows, at most n.
func (w Windows) Next(now time.Time, n int) (all []time.Time) {
	for len(all) < n {
		var first time.Time
		for _, one := range w.all {
			if at := one.next(now, one.zone); !at.IsZero() && (first.IsZero() || at.Before(first)) {
				first = at
			}
		}
		if first.IsZero() {
			break
		}
		all, now = append(all, first), first
	}
	return all
}

// Warnings are what an operator should know of a plan that is not wrong.
func (p *Plan) Warnings() (all []string) {
	for i, w := range p.Windows {
		if p.Deadline > w.Duration {
			all = append(all, fmt.Sprintf("/windows/%d is shorter (%s) than a node may take to pass (%s): nodes may "+
				"still be at work when it shuts", i, w.Duration, p.Deadline))
		}
	}
	return all
}
