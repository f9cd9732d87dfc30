package plan

import (
	"fmt"
	"slices"
	"time"

	"tandem.internal/shared/duration"
	"tandem.internal/shared/near"
	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// Bounds of a plan.
const (
	maxSize   = 64 << 10
	maxDepth  = 8
	MaxWaves  = 32
	MaxGroups = 15
	maxText   = 128 // characters of a name, label or type
	maxWait   = 366 * 24 * time.Hour
	maxWindow = 7 * 24 * time.Hour
)

const maxWindows, maxCount = 16, 1_000_000

// Zones finds a time zone by its name, as time.LoadLocation does.
type Zones func(name string) (*time.Location, error)

// Parse reads a plan strictly, and sets what it leaves out. If there are problems, the plan is nil.
func Parse(data []byte, zones Zones) (*Plan, strictjson.Problems) {
	p := &Plan{}
	ps := strictjson.Read(data, strictjson.Limits{Size: maxSize, Depth: maxDepth}, func(r *strictjson.Reader) {
		(&reader{r, zones}).plan(r.Here(), p)
	})
	if ps != nil {
		return nil, ps
	}
	return p, nil
}

// Read reads a plan that is a part of another document, as Parse does.
func Read(r *strictjson.Reader, at strictjson.At, zones Zones) *Plan {
	p := &Plan{}
	(&reader{r, zones}).plan(at, p)
	return p
}

// reader reads the parts of a plan.
type reader struct {
	*strictjson.Reader
	zones Zones
}

func number(n int) *int { return &n }

func (r *reader) plan(root strictjson.At, p *Plan) {
	soak, deadline := root, root // their places
	ok := r.Object(root,
		strictjson.Required("waves", func(a strictjson.At) { r.waves(a, p) }),
		strictjson.Optional("gate", func(a strictjson.At) { soak = r.gate(a, &p.Gate) }),
		strictjson.Optional("failureBudget", func(a strictjson.At) { p.FailureBudget = r.amount(a, 0) }),
		strictjson.Optional("maxUnavailable", func(a strictjson.At) { p.MaxUnavailable = r.amount(a, 1) }),
		strictjson.Optional("groups", func(a strictjson.At) {
			r.Array(a, MaxGroups, func(_ int, e strictjson.At) { p.Groups = append(p.Groups, r.group(e)) })
		}),
		strictjson.Optional("deadline", func(a strictjson.At) { deadline, p.Deadline = a, r.span(a, maxWait) }),
		strictjson.Optional("absentAfter", func(a strictjson.At) { p.AbsentAfter = r.span(a, maxWait) }),
		strictjson.Optional("windows", func(a strictjson.At) {
			r.Array(a, maxWindows, func(_ int, e strictjson.At) { p.Windows = append(p.Windows, r.window(e)) })
		}),
		strictjson.Optional("onAbort", func(a strictjson.At) {
			p.OnAbort = OnAbort(r.among(a, []string{string(Leave), string(TakeBack)}))
		}),
	)
	if !ok {
		return
	}
	p.complete()
	if p.Gate.Soak >= p.Deadline {
		where := soak
		if deadline != root {
			where = deadline
		} else if soak == root {
			where = root
		}
		r.Bad(where, fmt.Sprintf("the soak time %s is not shorter than the deadline %s: no node could pass",
			p.Gate.Soak, p.Deadline))
	}
}

// complete sets what a plan leaves out.
func (p *Plan) complete() {
	or := func(d *duration.Duration, v time.Duration) {
		if *d == 0 {
			*d = duration.Duration(v)
		}
	}
	or(&p.Gate.Soak, 10*time.Minute)
	or(&p.Deadline, 30*time.Minute)
	or(&p.AbsentAfter, 24*time.Hour)
	if len(p.Gate.Healthy) == 0 {
		p.Gate.Healthy = Aspects()
	}
	if p.FailureBudget == (Amount{}) {
		p.FailureBudget.Count = number(0)
	}
	if p.MaxUnavailable == (Amount{}) {
		p.MaxUnavailable.Percent = number(10)
	}
	if p.OnAbort == "" {
		p.OnAbort = Leave
	}
}

// waves reads the waves, and checks what holds between them.
func (r *reader) waves(a strictjson.At, p *Plan) {
	var last strictjson.At
	percents := map[[2]string]int{} // the highest, by selector
	n := 0
	r.Array(a, MaxWaves, func(i int, e strictjson.At) {
		w := r.wave(i, e)
		key := [2]string{w.Label, w.Type}
		if w.Percent > 0 && w.Percent <= percents[key] {
			r.Bad(strictjson.At{Ptr: e.Ptr + "/percent", Off: e.Off}, fmt.Sprintf(
				"percentages count the waves before, so they rise: %d does not rise above %d", w.Percent,
				percents[key]))
		}
		percents[key] = max(percents[key], w.Percent)
		p.Waves, last, n = append(p.Waves, w), e, i+1
	})
	if r.Over() {
		return
	}
	if n == 0 {
		r.Bad(a, `there must be a wave; all nodes at once are [{"percent": 100}]`)
		return
	}
	w := p.Waves[n-1]
	if w.Percent != 100 || w.Label != "" || w.Type != "" {
		r.Bad(last, `the last wave must take every node that is left: {"percent": 100}, without label and type`)
	}
}

func (r *reader) wave(i int, e strictjson.At) (w Wave) {
	canary, perType := e, e
	some := false // it says which nodes, right or wrong
	r.Object(e,
		strictjson.Optional("name", func(a strictjson.At) { w.Name = r.text(a) }),
		strictjson.Optional("count", func(a strictjson.At) {
			some = true
			w.Count = r.whole(a, 1, maxCount, "a wave's count is a whole number from 1 to 1000000")
		}),
		strictjson.Optional("percent", func(a strictjson.At) {
			some = true
			w.Percent = r.whole(a, 1, 100, "a wave's percentage is a whole number from 1 to 100")
		}),
		strictjson.Optional("label", func(a strictjson.At) { some, w.Label = true, r.text(a) }),
		strictjson.Optional("type", func(a strictjson.At) { some, w.Type = true, r.text(a) }),
		strictjson.Optional("perType", func(a strictjson.At) { perType = a; w.PerType, _ = r.Bool(a) }),
		strictjson.Optional("canary", func(a strictjson.At) { canary = a; w.Canary, _ = r.Bool(a) }),
	)
	switch {
	case w.Count > 0 && w.Percent > 0:
		r.Bad(e, "a wave has count or percent, not both")
	case !some && !r.Over():
		r.Bad(e, "a wave needs count, percent, label or type")
	case w.PerType && w.Count == 0:
		r.Bad(perType, "perType needs a count")
	case w.Canary && i > 0:
		r.Bad(canary, "only the first wave can be the canary")
	}
	return w
}

// gate reads the gate and returns the place of the soak time.
func (r *reader) gate(a strictjson.At, g *Gate) (soak strictjson.At) {
	soak = a
	r.Object(a,
		strictjson.Optional("soak", func(a strictjson.At) { soak, g.Soak = a, r.span(a, maxWait) }),
		strictjson.Optional("healthy", func(a strictjson.At) {
			var known []string
			for _, aspect := range Aspects() {
				known = append(known, string(aspect))
			}
			n := 0
			r.Array(a, len(known)+1, func(_ int, e strictjson.At) {
				n++
				aspect := Aspect(r.among(e, known))
				if slices.Contains(g.Healthy, aspect) {
					r.Add(e, wire.CodeDuplicate, strictjson.Show(string(aspect))+" appears twice")
				}
				g.Healthy = append(g.Healthy, aspect)
			})
			if n == 0 && !r.Over() {
				r.Bad(a, "a gate needs something that health is; leave healthy out for all of it")
			}
		}),
	)
	return soak
}

func (r *reader) group(e strictjson.At) (g Group) {
	r.Object(e,
		strictjson.Optional("label", func(a strictjson.At) { g.Label = r.text(a) }),
		strictjson.Optional("type", func(a strictjson.At) { g.Type = r.text(a) }),
		strictjson.Required("maxUnavailable", func(a strictjson.At) { g.MaxUnavailable = r.amount(a, 1) }),
	)
	if g.Label == "" && g.Type == "" && !r.Over() {
		r.Bad(e, "a group needs label or type; the limit of the whole unit stands beside groups")
	}
	return g
}

// amount reads a number of nodes of at least least.
func (r *reader) amount(a strictjson.At, least uint64) (v Amount) {
	rule := ""
	if least > 0 {
		rule = "; with 0 nothing could ever be issued"
	}
	given := 0
	r.Object(a,
		strictjson.Optional("count", func(a strictjson.At) {
			given++
			v.Count = number(r.whole(a, least, maxCount,
				fmt.Sprintf("a count is a whole number from %d to %d%s", least, maxCount, rule)))
		}),
		strictjson.Optional("percent", func(a strictjson.At) {
			given++
			v.Percent = number(r.whole(a, least, 100,
				fmt.Sprintf("a percentage is a whole number from %d to 100%s", least, rule)))
		}),
	)
	if given != 1 && !r.Over() {
		r.Bad(a, `an amount has exactly one of count and percent: {"count": 1} or {"percent": 10}`)
	}
	return v
}

func (r *reader) window(e strictjson.At) (w Window) {
	cron, bad := e, false
	var zone *time.Location
	r.Object(e,
		strictjson.Required("cron", func(a strictjson.At) {
			cron = a
			w.Cron, _ = r.Str(a)
			if err := checkCron(w.Cron); err != nil {
				bad = true
				r.Bad(a, err.Error())
			}
		}),
		strictjson.Required("zone", func(a strictjson.At) {
			w.Zone, _ = r.Str(a)
			var err error
			if zone, err = findZone(w.Zone, r.zones); err != nil {
				r.Bad(a, err.Error())
			}
		}),
		strictjson.Required("duration", func(a strictjson.At) { w.Duration = r.span(a, maxWindow) }),
	)
	if !bad && zone != nil && w.Cron != "" && !mustSchedule(w.Cron).everOpens() {
		r.Bad(cron, "no date fits: the window would never open")
	}
	return w
}

// span reads a duration above zero.
func (r *reader) span(a strictjson.At, most time.Duration) duration.Duration {
	s, ok := r.Str(a)
	if !ok {
		return 0
	}
	d, err := duration.Parse(s)
	switch {
	case err != nil:
		r.Bad(a, err.Error())
	case d < time.Second:
		r.Bad(a, "the duration must be at least one second")
	case d > most:
		r.Bad(a, "the duration must be at most "+duration.Format(most))
	}
	return duration.Duration(d)
}

func (r *reader) whole(a strictjson.At, low, high uint64, rule string) int {
	n, _ := r.Whole(a, low, high, rule)
	return int(n)
}

// text reads a name, label or type.
func (r *reader) text(a strictjson.At) string {
	s, ok := r.Str(a)
	if ok && (s == "" || len([]rune(s)) > maxText) {
		r.Bad(a, fmt.Sprintf("the text must have 1 to %d characters", maxText))
	}
	return s
}

// among reads one of these texts.
func (r *reader) among(a strictjson.At, known []string) string {
	s, ok := r.Str(a)
	if ok && !slices.Contains(known, s) {
		r.Bad(a, "must be "+strictjson.Among(known)+", not "+strictjson.Show(s)+near.Hint(s, known))
	}
	return s
}
