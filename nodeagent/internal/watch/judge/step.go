package judge

import (
	"slices"
	"time"
)

// step is one Step on its way.
type step struct {
	State
	effects []Effect
}

// Step takes s over one look. now is the shell's monotonic clock.
func (s State) Step(now time.Duration, seen Seen) (State, []Effect) {
	t := &step{State: s}
	if t.begun {
		// More than two ticks between two looks: the machine slept or we got no processor, and so,
		// perhaps, did everybody else.
		t.clock += min(max(0, now-t.last), 2*t.set.Tick)
	}
	t.begun, t.last = true, now
	t.watchLoops(seen.Loops)
	if !seen.Blind {
		t.watchPrograms(seen.Programs)
	}
	if !t.fatal && !slices.ContainsFunc(t.loops, func(l loop) bool { return l.verdict != "" }) {
		t.effects = append(t.effects, Ping{})
	}
	for _, l := range t.loops {
		if l.verdict == Hung && !t.fatal {
			t.fatal = true
			t.effects = append(t.effects, Fatal{Loop: l.Name, For: t.clock - l.since})
		}
	}
	return t.State, t.effects
}

func (t *step) tell(r Report) { t.effects = append(t.effects, Tell{r}) }

func (t *step) watchLoops(seen []Loop) {
	old := t.loops
	t.loops = make([]loop, 0, len(seen))
	for _, l := range seen {
		next := loop{Loop: l, since: t.clock}
		if i := slices.IndexFunc(old, func(o loop) bool { return o.ID == l.ID }); i >= 0 && old[i].Beats == l.Beats {
			next.since, next.verdict = old[i].since, old[i].verdict
		} else if i >= 0 && old[i].verdict != "" {
			t.tell(Report{Name: l.Name, Verdict: Back})
		}
		without := t.clock - next.since
		switch {
		case next.verdict != Hung && without >= t.set.HungAfter(l.Period):
			next.verdict = Hung
			t.tell(Report{Name: l.Name, Verdict: Hung, For: without})
		case next.verdict == "" && without >= t.set.LateAfter(l.Period):
			next.verdict = Late
			t.tell(Report{Name: l.Name, Verdict: Late, For: without})
		}
		t.loops = append(t.loops, next)
	}
	for _, o := range old {
		if o.verdict != "" && !slices.ContainsFunc(seen, func(l Loop) bool { return l.ID == o.ID }) {
			t.tell(Report{Name: o.Name, Verdict: Gone})
		}
	}
}

func (t *step) watchPrograms(seen []Program) {
	old := t.programs
	t.programs = make([]program, 0, len(seen))
	for _, p := range seen {
		next := program{Program: p, since: t.clock, start: p.Process.Start}
		if i := slices.IndexFunc(old, func(o program) bool { return o.Name == p.Name }); i >= 0 {
			was := old[i]
			next.verdict, next.dead, next.trouble = was.verdict, was.dead, was.trouble
			if p.Touched == was.Touched {
				next.since = was.since
			}
			if p.Process.PID == was.Process.PID && p.Process.Named == was.Process.Named {
				next.start = was.start // whoever has that number now
			}
		}
		t.judge(&next)
		t.programs = append(t.programs, next)
	}
	for _, o := range old {
		if o.verdict != "" && !slices.ContainsFunc(seen, func(p Program) bool { return p.Name == o.Name }) {
			t.tell(Report{Program: true, Name: o.Name, Verdict: Gone})
		}
	}
}

// twice is how many looks in a row must find a program dead, or its files in disorder: one look may fall
// between its end and its next start, or between two halves of a write.
const twice = 2

// judge says how a program is, after one look.
func (t *step) judge(p *program) {
	count := func(n *int, bad bool) {
		if *n++; !bad {
			*n = 0
		}
	}
	count(&p.dead, p.Process.PID != 0 && (p.Process.Start == 0 || p.Process.Start != p.start))
	count(&p.trouble, p.Trouble != "")
	verdict := Verdict("")
	without := t.clock - p.since
	switch {
	case p.dead >= twice:
		verdict = Died
	case p.Touched != "" && without >= t.set.Time:
		verdict = Hung
	case p.trouble >= twice:
		verdict = Unreadable
	case p.dead > 0 || p.trouble > 0:
		verdict = p.verdict // not sure yet
	}
	if verdict == p.verdict {
		return
	}
	r := Report{Program: true, Name: p.Name, Verdict: verdict}
	switch verdict {
	case "":
		r.Verdict = Back
	case Hung:
		r.For = without
	case Unreadable:
		r.Trouble = p.Trouble
	}
	p.verdict = verdict
	t.tell(r)
}
