package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

// report is the outcome of a run, and its JSON.
type report struct {
	Started time.Time `json:"started"`
	Go      string    `json:"go"`
	Arch    string    `json:"arch"`
	CPUs    int       `json:"cpus"`
	Figures []figure  `json:"figures"`
}

// figure is one measured value, with what it should be if something is asked of it.
type figure struct {
	Section string    `json:"section"`
	Name    string    `json:"name"`
	Value   float64   `json:"value"` // the median of Samples, if there are any
	Unit    string    `json:"unit"`
	Target  string    `json:"target,omitempty"`
	Met     *bool     `json:"met,omitempty"`
	Samples []float64 `json:"samples,omitempty"`
	Note    string    `json:"note,omitempty"`
}

func (b *session) add(f figure) {
	if len(f.Samples) > 0 {
		f.Value = median(f.Samples)
	}
	b.report.Figures = append(b.report.Figures, f)
	fmt.Printf("  %-58s %s\n", f.Name, f.line())
}

func (f *figure) line() string {
	s := fmt.Sprintf("%9s %-10s", number(f.Value), f.Unit)
	if len(f.Samples) > 1 {
		low, high, sure := interval(f.Samples)
		s += fmt.Sprintf(" (%s … %s", number(low), number(high))
		if sure {
			s += ", 95 %"
		}
		s += ")"
	}
	if f.Met != nil {
		verdict := "MISSED"
		if *f.Met {
			verdict = "met"
		}
		s += fmt.Sprintf("  target %s: %s", f.Target, verdict)
	}
	if f.Note != "" {
		s += "  [" + f.Note + "]"
	}
	return s
}

func number(v float64) string {
	switch {
	case v == math.Trunc(v) || math.Abs(v) >= 1000:
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

// most and least are targets.
func (f figure) most(limit float64) figure {
	met := f.median() <= limit
	f.Target, f.Met = fmt.Sprintf("≤ %s", number(limit)), &met
	return f
}

func (f figure) least(limit float64) figure {
	met := f.median() >= limit
	f.Target, f.Met = fmt.Sprintf("≥ %s", number(limit)), &met
	return f
}

func (f figure) median() float64 {
	if len(f.Samples) > 0 {
		return median(f.Samples)
	}
	return f.Value
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	n := len(s)
	if n == 0 {
		return 0
	}
	return (s[(n-1)/2] + s[n/2]) / 2
}

// interval is where the median of what the samples are drawn from lies with a confidence of at least 95 %, whatever
// its distribution (order statistics: the binomial distribution with p = 1/2). With fewer than six samples there is
// none: then it is from the least to the greatest, and sure is false.
func interval(v []float64) (low, high float64, sure bool) {
	s := slices.Sorted(slices.Values(v))
	n := len(s)
	below := math.Pow(0.5, float64(n)) // the chance that at most k of n lie below the median; here k = 0
	if below > 0.025 {
		return s[0], s[n-1], false
	}
	k, term := 0, below
	for {
		term *= float64(n-k) / float64(k+1)
		if below+term > 0.025 {
			return s[k], s[n-1-k], true
		}
		below += term
		k++
	}
}

func percentile(v []float64, p float64) float64 {
	s := slices.Sorted(slices.Values(v))
	if len(s) == 0 {
		return 0
	}
	return s[min(len(s)-1, int(math.Ceil(p*float64(len(s))))-1)]
}

// ratios divides pair by pair: what disturbs the machine disturbs both of a pair.
func ratios(over, under []float64) []float64 {
	r := make([]float64, len(over))
	for i := range over {
		r[i] = over[i] / under[i]
	}
	return r
}

func (r *report) summary(w io.Writer) {
	fmt.Fprintf(w, "\n%-8s  %-58s %s\n", "section", "what is asked for", "outcome")
	for i := range r.Figures {
		if f := &r.Figures[i]; f.Met != nil {
			fmt.Fprintf(w, "%-8s  %-58s %s\n", f.Section, f.Name, f.line())
		}
	}
}
