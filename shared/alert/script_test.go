package alert

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"tandem.internal/shared/clock"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/scripttest"
)

var epoch = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// script plays one file of testdata: lines go in, what comes out stands below them, indented.
//
//	TIME rules PARAMETER MINTIMEOUT MIN MAX [; …]   a configuration is applied; "none": without rules
//	TIME PARAMETER=VALUE …                          a sample; ? is unknown
//	TIME every PERIOD until TIME PARAMETER=V/V/…    samples in a row, each value in turn
//	TIME restart                                    from what was saved, on a new monotonic clock
//	TIME clock DURATION                             the wall clock jumps
//
// Lines that begin with # are prose.
type script struct {
	state  State
	limits Limits
	saved  Durable
	skew   time.Duration
	began  time.Duration
	out    *strings.Builder
}

func TestScripts(t *testing.T) {
	scripttest.Play(t, func(t *testing.T, out *strings.Builder) func(string) {
		s := &script{out: out, state: New("ecu-1", Durable{}, Limits{})}
		return func(line string) { s.line(t, line) }
	})
}

func (s *script) now(at time.Duration) clock.Now {
	return clock.Now{Mono: at - s.began, Wall: epoch.Add(at + s.skew)}
}

func (s *script) line(t *testing.T, line string) {
	words := strings.Fields(line)
	at := span(t, words[0])
	switch words[1] {
	case "rules":
		var rules []Rule
		if words[2] != "none" {
			for part := range strings.SplitSeq(strings.Join(words[2:], " "), ";") {
				f := strings.Fields(part)
				rules = append(rules,
					Rule{Parameter(f[0]), duration.Duration(span(t, f[1])), number(t, f[2]), number(t, f[3])})
			}
		}
		s.step(at, Configured{Now: s.now(at), Rules: rules})
	case "restart":
		s.began = at
		s.state = New("ecu-1", s.saved, s.limits)
	case "clock":
		s.skew += span(t, words[2])
	case "every":
		period, until := span(t, words[2]), span(t, words[4])
		for i := 0; at <= until; i++ {
			fields := strings.Fields(strings.Join(words[5:], " "))
			for k, f := range fields {
				name, values, _ := strings.Cut(f, "=")
				turn := strings.Split(values, "/")
				fields[k] = name + "=" + turn[i%len(turn)]
			}
			s.step(at, s.sample(t, at, fields))
			at += period
		}
	default:
		s.step(at, s.sample(t, at, words[1:]))
	}
}

func (s *script) sample(t *testing.T, at time.Duration, fields []string) Sample {
	sample := Sample{Now: s.now(at)}
	for _, f := range fields {
		name, v, _ := strings.Cut(f, "=")
		r := Reading{Parameter: Parameter(name)}
		if v == "?" {
			r.Err = fmt.Errorf("cannot be measured")
		} else {
			r.Value = number(t, v)
		}
		sample.Readings = append(sample.Readings, r)
	}
	return sample
}

func (s *script) step(at time.Duration, ev Event) {
	next, effects := s.state.Step(ev)
	s.state = next
	for _, e := range effects {
		switch e := e.(type) {
		case Save:
			s.saved = e.Durable
			fmt.Fprintf(s.out, "  %v save, %d up\n", at, len(e.Durable.Raised))
		case Emit:
			a := e.Alert
			more := ""
			if a.Reason != "" {
				more += ", " + a.Reason
			}
			if a.Suppressed > 0 {
				more += fmt.Sprintf(", %d came and went unsent", a.Suppressed)
			}
			fmt.Fprintf(s.out, "  %v %s %s at %v, up since %s%s\n", at, a.State, a.Parameter, a.Value,
				a.Since.Format("15:04:05"), more)
		}
	}
}

func span(t *testing.T, text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func number(t *testing.T, text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
