package alert

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tandem.internal/shared/clock"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/unitconfig"
)

var parameters = []Parameter{CPU, RAM, Download, Partition("data")}

func drawRules(t *rapid.T) []Rule {
	var rules []Rule
	for _, p := range parameters {
		if rapid.Bool().Draw(t, "has "+string(p)) {
			lo := rapid.IntRange(0, 4).Draw(t, "min")
			hi := rapid.IntRange(lo, 5).Draw(t, "max")
			timeout := rapid.SampledFrom([]time.Duration{0, 10 * time.Second, 25 * time.Second}).Draw(t, "minTimeout")
			rules = append(rules, Rule{p, duration.Duration(timeout), float64(lo), float64(hi)})
		}
	}
	return rules
}

// Whatever comes — samples, gaps, other rules, crashes that lose the last commit — what was sent of
// each parameter is raise, continue…, fall, raise…; and what is saved is what has been raised and not
// fallen.
func TestPairs(t *testing.T) {
	unknown := errors.New("unknown")
	rapid.Check(t, func(t *rapid.T) {
		limits := Limits{}
		if rapid.Bool().Draw(t, "tight limits") {
			limits = Limits{ContinueMin: 20 * time.Second, RuleBurst: 1, RuleEvery: time.Minute, NodeBurst: 2,
				NodeEvery: 30 * time.Second}
		}
		s, saved := New("n", Durable{}, limits), Durable{}
		now := clock.Now{Wall: epoch}
		up := map[Parameter]time.Time{} // what whoever reads the alerts takes to be up
		take := func(next State, effects []Effect) {
			s = next
			for i, e := range effects {
				switch e := e.(type) {
				case Save:
					if i != 0 {
						t.Fatal("Save does not come first")
					}
					saved = e.Durable
				case Emit:
					a := e.Alert
					since, isUp := up[a.Parameter]
					if isUp == (a.State == Raise) {
						t.Fatalf("%s of %s, up: %v", a.State, a.Parameter, isUp)
					}
					if isUp && !since.Equal(a.Since) {
						t.Fatalf("%s of %s is since %v, the raise was since %v", a.State, a.Parameter, a.Since, since)
					}
					switch a.State {
					case Raise:
						up[a.Parameter] = a.Since
					case Fall:
						delete(up, a.Parameter)
					}
					if a.State != Continue {
						if _, ok := effects[0].(Save); !ok {
							t.Fatalf("%s without a save", a.State)
						}
					}
				}
			}
			if !reflect.DeepEqual(saved, s.Durable()) {
				t.Fatalf("saved %+v, have %+v", saved, s.Durable())
			}
			if len(saved.Raised) != len(up) {
				t.Fatalf("saved %+v, up %v", saved, up)
			}
		}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			d := rapid.SampledFrom([]time.Duration{0, 10 * time.Second, 10 * time.Second, time.Minute, time.Hour}).Draw(
				t, "pause")
			now.Mono += d
			now.Wall = now.Wall.Add(d + time.Duration(rapid.SampledFrom([]int{0, 0, 0, -100, 100}).Draw(t,
				"jump"))*time.Second)
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				take(s.Step(Configured{Now: now, Rules: drawRules(t)}))
			case 1:
				// A crash before the commit of a step: nobody has heard of it.
				before := s.Durable()
				lost, _ := s.Step(Sample{Now: now, Readings: []Reading{{CPU, 5, nil}, {RAM, 0, nil}}})
				if !reflect.DeepEqual(before, s.Durable()) {
					t.Fatalf("an older State was written to: %+v", lost)
				}
				s, now.Mono = New("n", saved, limits), 0
			default:
				sample := Sample{Now: now}
				for _, p := range parameters {
					r := Reading{Parameter: p, Value: float64(rapid.IntRange(0, 6).Draw(t, string(p)))}
					if r.Value == 6 {
						r.Err = unknown
					}
					sample.Readings = append(sample.Readings, r)
				}
				take(s.Step(sample))
			}
		}
		// The end of every rule is the end of every alert.
		take(s.Step(Configured{Now: now}))
		if len(up) != 0 || len(saved.Raised) != 0 {
			t.Fatalf("still up: %v, saved %+v", up, saved)
		}
	})
}

// One rule without limits against the notes' own words: look back over the samples.
func TestAgainstHistory(t *testing.T) {
	none := Limits{ContinueMin: time.Nanosecond, ContinueMax: time.Nanosecond, RuleBurst: 1 << 30, NodeBurst: 1 << 30}
	rapid.Check(t, func(t *rapid.T) {
		timeout := rapid.SampledFrom([]time.Duration{0, time.Second, 25 * time.Second, time.Minute}).Draw(t,
			"minTimeout")
		lo := float64(rapid.IntRange(0, 4).Draw(t, "min"))
		hi := float64(rapid.IntRange(int(lo), 5).Draw(t, "max"))
		s, _ := New("n", Durable{}, none).Step(Configured{Rules: []Rule{{CPU, duration.Duration(timeout), lo, hi}}})
		type point struct {
			at time.Duration
			v  float64
		}
		var history []point
		at, up := time.Duration(0), false
		var emitted time.Duration
		// span is how long the newest samples, back to the one after start, are all beyond; -1: not even the newest.
		span := func(start int, beyond func(float64) bool) (time.Duration, int) {
			i := len(history)
			for i > start && beyond(history[i-1].v) {
				i--
			}
			if i == len(history) {
				return -1, 0
			}
			return at - history[i].at, len(history) - i
		}
		start := 0 // the first sample that counts towards the next change
		for range rapid.IntRange(1, 60).Draw(t, "samples") {
			at += time.Duration(rapid.IntRange(1, 20).Draw(t, "pause")) * time.Second
			v := float64(rapid.IntRange(0, 5).Draw(t, "value"))
			history = append(history, point{at, v})
			var want []Phase
			switch {
			case !up:
				if d, _ := span(start, func(v float64) bool { return v >= hi }); d >= timeout {
					want, up, emitted, start = []Phase{Raise}, true, at, len(history)
				}
			case v >= lo:
				if at-emitted >= timeout {
					want, emitted = []Phase{Continue}, at
				}
			default:
				if d, n := span(start, func(v float64) bool { return v < lo }); n > 1 && d >= timeout {
					want, up, start = []Phase{Fall}, false, len(history)
				}
			}
			var effects []Effect
			s, effects = s.Step(Sample{Now: clock.Now{Mono: at, Wall: epoch.Add(at)},
				Readings: []Reading{{CPU, v, nil}}})
			var got []Phase
			for _, e := range effects {
				if e, ok := e.(Emit); ok {
					got = append(got, e.Alert.State)
				}
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("at %v, min %v max %v minTimeout %v, %v: got %v, want %v", at, lo, hi, timeout, history, got,
					want)
			}
		}
	})
}

// The worst storm of the largest configuration sends no more in a day than fits a queue of 1,000 events.
func TestStormIsBounded(t *testing.T) {
	rules := []Rule{{CPU, 0, 0.5, 0.5}}
	for i := range unitconfig.MaxPartitions {
		rules = append(rules, Rule{Partition(string(rune('A' + i))), 0, 0.5, 0.5})
	}
	s, _ := New("n", Durable{}, Limits{}).Step(Configured{Rules: rules})
	reported, parameters := 0, map[Parameter]bool{}
	sample := Sample{Readings: make([]Reading, len(rules))}
	for i := range 24 * 120 {
		for k, r := range rules {
			sample.Readings[k] = Reading{Parameter: r.Parameter, Value: []float64{1, 1, 0, 0}[(i+k)%4]}
		}
		sample.Mono = time.Duration(i) * 30 * time.Second
		var effects []Effect
		s, effects = s.Step(sample)
		for _, e := range effects {
			if e, ok := e.(Emit); ok {
				reported++
				parameters[e.Alert.Parameter] = true
			}
		}
	}
	if reported > 1000 || reported < 500 {
		t.Errorf("%d alerts sent in a day", reported)
	}
	if len(parameters) < 100 {
		t.Errorf("%d of %d parameters were heard of", len(parameters), len(rules))
	}
	t.Logf("%d alerts of %d parameters", reported, len(parameters))
}

// A rule that flaps does not keep another rule's alert from being sent at once.
func TestFlappingLeavesRoom(t *testing.T) {
	rules := []Rule{{CPU, 0, 0.5, 0.5}, {RAM, 0, 0.5, 0.5}}
	s, _ := New("n", Durable{}, Limits{}).Step(Configured{Rules: rules})
	for i := range 24 * 360 {
		now := clock.Now{Mono: time.Duration(i) * 10 * time.Second}
		s, _ = s.Step(Sample{Now: now, Readings: []Reading{{CPU, []float64{1, 1, 0, 0}[i%4], nil}, {RAM, 0, nil}}})
	}
	_, effects := s.Step(Sample{Now: clock.Now{Mono: 25 * time.Hour}, Readings: []Reading{{RAM, 1, nil}}})
	if len(effects) != 2 {
		t.Errorf("%+v", effects)
	}
}

// TestContinuesShareTheNodesRoom: many alerts that last send no more continues than the node may, and leave half of
// its room to what is new.
func TestContinuesShareTheNodesRoom(t *testing.T) {
	limits := Limits{ContinueMin: time.Second, ContinueMax: time.Second, RuleBurst: 1 << 20, NodeBurst: 40,
		NodeEvery: time.Hour}
	var rules []Rule
	readings := make([]Reading, 30)
	for i := range readings {
		readings[i] = Reading{Parameter: Partition(fmt.Sprint(i)), Value: 0.9}
		rules = append(rules, Rule{readings[i].Parameter, 0, 0.3, 0.8})
	}
	count := map[Phase]int{}
	s, now := New("n", Durable{}, limits), clock.Now{Wall: epoch}
	take := func(next State, effects []Effect) {
		s = next
		for _, e := range effects {
			if e, ok := e.(Emit); ok {
				count[e.Alert.State]++
			}
		}
	}
	take(s.Step(Configured{Now: now, Rules: rules[:5]}))
	for range 100 {
		now.Mono, now.Wall = now.Mono+2*time.Second, now.Wall.Add(2*time.Second)
		take(s.Step(Sample{Now: now, Readings: readings[:5]}))
	}
	if count[Raise] != 5 || count[Continue] != 15 { // 40, less 5, less the half that is kept
		t.Errorf("five that last: %v", count)
	}
	take(s.Step(Configured{Now: now, Rules: rules}))
	now.Mono, now.Wall = now.Mono+2*time.Second, now.Wall.Add(2*time.Second)
	take(s.Step(Sample{Now: now, Readings: readings}))
	if count[Raise] != 5+20 {
		t.Errorf("25 more, with 20 left: %v", count)
	}
}
