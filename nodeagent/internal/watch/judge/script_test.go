package judge

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tandem.internal/shared/scripttest"
)

// script plays one file of testdata: lines go in, what comes out stands below them, indented.
//
//	supervisor DURATION            there is one (before anything else)
//	loop NAME PERIOD               a loop registers; it beats before every look
//	stuck NAME | runs NAME         it stops beating, it beats again
//	end NAME                       it ends in good order
//	program NAME [touch] [pid N]   a program appears, with these files; it touches before every look
//	hangs NAME | touches NAME      it stops touching, it touches again
//	process NAME START             the process of that number is another one, or none (0)
//	names NAME N START             its process file is written anew
//	broken NAME [WHAT]             its files cannot be understood, or can again
//	remove NAME                    its files are gone
//	look TIME [every D until TIME]
//
// Lines that begin with # are prose.
type script struct {
	state    State
	loops    []Loop
	stuck    map[string]bool
	programs []Program
	hangs    map[string]bool
	count    int
	pinging  bool
	out      *strings.Builder
}

func TestScripts(t *testing.T) {
	scripttest.Play(t, func(t *testing.T, out *strings.Builder) func(string) {
		s := &script{out: out, state: New(Settings{Tick: DefaultTick, Time: DefaultTime}), stuck: map[string]bool{},
			hangs: map[string]bool{}}
		return func(line string) { s.line(t, line) }
	})
}

func (s *script) line(t *testing.T, line string) {
	w := strings.Fields(line)
	program := func() *Program {
		i := slices.IndexFunc(s.programs, func(p Program) bool { return p.Name == w[1] })
		if i < 0 {
			t.Fatalf("%s: no such program", line)
		}
		return &s.programs[i]
	}
	s.count++
	switch w[0] {
	case "supervisor":
		s.state = New(Settings{Tick: DefaultTick, Time: DefaultTime, Supervisor: duration(t, w[1])})
	case "loop":
		s.loops = append(s.loops, Loop{ID: uint64(s.count), Name: w[1], Period: duration(t, w[2])})
	case "stuck", "runs":
		s.stuck[w[1]] = w[0] == "stuck"
	case "end":
		s.loops = slices.DeleteFunc(s.loops, func(l Loop) bool { return l.Name == w[1] })
	case "program":
		p := Program{Name: w[1]}
		if slices.Contains(w, "touch") {
			p.Touched = "at first"
		}
		if i := slices.Index(w, "pid"); i > 0 {
			p.Process = Process{PID: whole(t, w[i+1]), Named: "at first", Start: 1}
		}
		s.programs = append(s.programs, p)
	case "hangs", "touches":
		s.hangs[w[1]] = w[0] == "hangs"
	case "process":
		program().Process.Start = uint64(whole(t, w[2]))
	case "names":
		program().Process = Process{PID: whole(t, w[2]), Named: fmt.Sprint(s.count), Start: uint64(whole(t, w[3]))}
	case "broken":
		program().Trouble = strings.Join(w[2:], " ")
	case "remove":
		s.programs = slices.DeleteFunc(s.programs, func(p Program) bool { return p.Name == w[1] })
	case "look":
		at, every, until := duration(t, w[1]), time.Second, duration(t, w[1])
		if len(w) > 2 {
			every, until = duration(t, w[3]), duration(t, w[5])
		}
		for ; at <= until; at += every {
			s.look(at)
		}
	default:
		t.Fatalf("no such line: %s", line)
	}
}

func (s *script) look(at time.Duration) {
	s.count++
	for i := range s.loops {
		if l := &s.loops[i]; !s.stuck[l.Name] {
			l.Beats++
		}
	}
	for i := range s.programs {
		if p := &s.programs[i]; p.Touched != "" && !s.hangs[p.Name] {
			p.Touched = fmt.Sprint(s.count)
		}
	}
	next, effects := s.state.Step(at, Seen{Loops: slices.Clone(s.loops), Programs: slices.Clone(s.programs)})
	s.state = next
	pings := false
	say := func(format string, a ...any) { fmt.Fprintf(s.out, "  %v "+format+"\n", append([]any{at}, a...)...) }
	for _, e := range effects {
		switch e := e.(type) {
		case Ping:
			pings = true
		case Fatal:
			say("FATAL: loop %s, %v without a beat", e.Loop, e.For)
		case Tell:
			r := e.Report
			what, more := "loop", ""
			if r.Program {
				what = "program"
			}
			if r.For > 0 {
				more += fmt.Sprintf(" for %v", r.For)
			}
			if r.Trouble != "" {
				more += ": " + r.Trouble
			}
			say("%s %s is %s%s", what, r.Name, r.Verdict, more)
		}
	}
	if pings != s.pinging {
		s.pinging = pings
		say("%s", map[bool]string{true: "pings", false: "pings no more"}[pings])
	}
}

func duration(t *testing.T, text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func whole(t *testing.T, text string) int {
	var n int
	if _, err := fmt.Sscan(text, &n); err != nil {
		t.Fatal(err)
	}
	return n
}
