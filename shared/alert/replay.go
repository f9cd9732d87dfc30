package alert

import (
	"errors"
	"io"
	"time"

	"tandem.internal/shared/duration"
)

// Replay is what rules would have done over recorded samples.
type Replay struct {
	Rules  []Outcome `json:"rules"`
	Alerts []Alert   `json:"alerts"`
}

// Outcome is what one rule would have done.
type Outcome struct {
	Rule
	Samples    int               `json:"samples"`    // with a value
	Unknown    int               `json:"unknown"`    // without
	Lowest     float64           `json:"lowest"`     // value; 0 without samples
	Highest    float64           `json:"highest"`    // likewise
	Raises     int               `json:"raises"`     // sent
	Continues  int               `json:"continues"`  // sent
	Falls      int               `json:"falls"`      // sent
	Suppressed int               `json:"suppressed"` // alerts that came and went unsent, see Limits
	Up         bool              `json:"up"`         // raised at the end
	UpFor      duration.Duration `json:"upFor"`      // in all, sent or not
	LongestUp  duration.Duration `json:"longestUp"`  // at once

	lastUp duration.Duration // how long the newest alert has been up
}

// Run replays rules over samples until next returns io.EOF. Any other error of next ends it, and is
// returned.
func Run(node string, rules []Rule, limits Limits, next func() (Sample, error)) (Replay, error) {
	r := Replay{Rules: make([]Outcome, len(rules)), Alerts: []Alert{}}
	follow := make([]struct {
		upAt       time.Duration
		suppressed uint64
	}, len(rules))
	for i, rule := range rules {
		r.Rules[i].Rule = rule
	}
	s, _ := New(node, Durable{}, limits).Step(Configured{Rules: rules})
	for {
		sample, err := next()
		if err != nil && !errors.Is(err, io.EOF) {
			return r, err
		}
		for i := range r.Rules {
			if o := &r.Rules[i]; err != nil && o.Up {
				o.UpFor += o.lastUp
			}
		}
		if err != nil {
			return r, nil
		}
		var effects []Effect
		s, effects = s.Step(sample)
		for _, e := range effects {
			if e, ok := e.(Emit); ok {
				r.Alerts = append(r.Alerts, e.Alert)
			}
		}
		for i, now := range s.Standings() {
			o, f := &r.Rules[i], &follow[i]
			o.look(sample)
			o.count(effects)
			if now.Up && !o.Up {
				f.upAt = sample.Mono
			}
			if now.Up || o.Up {
				o.lastUp = duration.Duration(sample.Mono - f.upAt)
				o.LongestUp = max(o.LongestUp, o.lastUp)
			}
			if o.Up && !now.Up {
				o.UpFor += o.lastUp
			}
			o.Up = now.Up
			if now.Suppressed > f.suppressed {
				o.Suppressed++
			}
			f.suppressed = now.Suppressed
		}
	}
}

// look takes a sample into the rule's figures.
func (o *Outcome) look(s Sample) {
	v, ok, _ := s.known(o.Parameter, 0)
	switch {
	case !ok:
		o.Unknown++
		return
	case o.Samples == 0:
		o.Lowest, o.Highest = v, v
	default:
		o.Lowest, o.Highest = min(o.Lowest, v), max(o.Highest, v)
	}
	o.Samples++
}

func (o *Outcome) count(effects []Effect) {
	for _, e := range effects {
		e, ok := e.(Emit)
		if !ok || e.Alert.Parameter != o.Parameter {
			continue
		}
		switch e.Alert.State {
		case Raise:
			o.Raises++
		case Continue:
			o.Continues++
		case Fall:
			o.Falls++
		}
	}
}
