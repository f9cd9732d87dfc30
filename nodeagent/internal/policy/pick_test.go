package policy

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tandem.internal/shared/wire"
)

// TestPick: which version a policy means.
func TestPick(t *testing.T) {
	for _, c := range []struct {
		running, want, offers string
		auto, down            bool
		target, why           string
	}{
		{running: "1.0.0", want: "current", offers: "0.9.0 1.0.0 1.1.0", target: "1.1.0"},
		{running: "1.1.0", want: "current", offers: "1.0.0 1.1.0"},
		{running: "1.2.0", want: "current", offers: "1.0.0 1.1.0"},
		{running: "1.2.0", want: "current", offers: "1.0.0 1.1.0", down: true, target: "1.1.0"},
		{running: "1.0.0", want: "current", offers: "", why: "no version"},
		{running: "1.0.0", want: "1.1.0", offers: "1.0.0 1.1.0 1.2.0", target: "1.1.0"},
		{running: "1.0.0", want: "1.1.0", offers: "1.0.0 1.1.5 1.2.0", target: "1.1.5"},
		{running: "1.0.0", want: "1.1.0", offers: "1.0.0", why: "from 1.1.0 on"},
		{running: "1.1.0", want: "1.1.0", offers: "1.0.0 1.2.0"},
		{running: "1.5.0", want: "1.1.0", offers: "1.1.0"},
		{running: "1.5.0", want: "1.1.0", offers: "1.0.0 1.1.0", down: true, target: "1.1.0"},
		{running: "1.5.0", want: "1.1.0", offers: "1.0.0 1.2.0", down: true, why: "1.1.0 of the agent is not on offer"},
		{running: "1.0.0-dev.9+a", want: "1.0.0", offers: "1.0.0", target: "1.0.0"},
		{running: "1.0.0-dev.9+a", want: "current", offers: "1.0.0-dev.10+b", target: "1.0.0-dev.10+b"},
		{running: "devel", want: "1.0.0", offers: "1.0.0", target: "1.0.0"},
		{running: "devel", want: "current", offers: "1.0.0", auto: true, target: "1.0.0"},
	} {
		got, why := pick(&wire.AgentUpgrade{Version: c.want, Auto: c.auto, Downgrade: c.down},
			offers(strings.Fields(c.offers)...), c.running)
		version := ""
		if got != nil {
			version = got.Version
		}
		if version != c.target || (why != "") != (c.why != "") || !strings.Contains(why, c.why) {
			t.Errorf("%+v: %q %q", c, version, why)
		}
	}
}

// spread is the chi-square of how evenly times lie in a window, in 20 parts.
func spread(times []time.Time, from time.Time, length time.Duration) float64 {
	var parts [20]float64
	for _, at := range times {
		parts[min(19, max(0, int(20*at.Sub(from)/length)))]++
	}
	chi, want := 0.0, float64(len(times))/20
	for _, n := range parts {
		chi += (n - want) * (n - want) / want
	}
	return chi
}

// TestSpread: 1,000 nodes with a window of an hour begin evenly spread over it. Half of them have no power from before
// it until after it, and come back together: they are spread over an hour from then on. 43.8 is the limit that chance
// exceeds once in a thousand times.
func TestSpread(t *testing.T) {
	const limit = 43.8
	random := rand.New(rand.NewPCG(1, 2))
	var all, cut []time.Time
	for i := range 1000 {
		n := newNode(t, "1.0.0")
		n.chance = random.Float64
		p := upTo("1.1.0")
		p.Agent.Start, p.Agent.Duration = begin.Add(time.Hour), 3600
		n.step(doc(offers("1.1.0"), p))
		if i%2 == 0 {
			n.off(3*time.Hour, Update{Running: "1.0.0", Slots: true})
		}
		n.wait(2 * time.Hour)
		n.is("p download-started 1.1.0")
		if at := n.state.Plan.Began; i%2 == 0 {
			cut = append(cut, at)
		} else {
			all = append(all, at)
		}
	}
	for name, c := range map[string]struct {
		times []time.Time
		from  time.Time
	}{"with power": {all, begin.Add(time.Hour)}, "after a cut": {cut, begin.Add(3 * time.Hour)}} {
		first, last := slices.MinFunc(c.times, time.Time.Compare), slices.MaxFunc(c.times, time.Time.Compare)
		if first.Before(c.from) || last.After(c.from.Add(time.Hour)) {
			t.Errorf("%s: from %v to %v", name, first, last)
		}
		if chi := spread(c.times, c.from, time.Hour); chi > limit {
			t.Errorf("%s: chi-square %.1f", name, chi)
		}
	}
}
