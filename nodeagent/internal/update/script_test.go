package update

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tandem.internal/shared/scripttest"
	"tandem.internal/shared/wire"
)

// script plays one file of testdata: lines "TIME EVENT" go in, what comes out stands below them,
// indented. A version's content is its own, unless content= says which; of= is that of what has ended. Time passes from
// line to line, with a Tick at every deadline. "no trial: WHY" and "no reboot: WHY" say what is in the way from then
// on, until "free". A line may end in "unsaved".
type script struct {
	t     *testing.T
	state State
	saved []byte
	base  time.Duration
	now   Now
	out   *strings.Builder
	was   string
	held  string
}

// content is the hash of what the scripts call so: by itself, each version has its own.
func content(name string) string {
	if name == "" {
		return ""
	}
	return wire.Hash([]byte(name))
}

var epoch = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// stories are the scripts that there must be.
var stories = []string{"good", "bad", "late-commit", "by-hand", "in-the-way", "reboot", "no-reboot", "later", "killed",
	"crash", "in-force", "lost", "off", "disk",
	"quarantine", "quarantine-agent", "agent", "agent-by-hand", "agent-over", "try-replaced"}

func TestScripts(t *testing.T) {
	scripttest.Play(t, func(t *testing.T, out *strings.Builder) func(string) {
		s := &script{t: t, out: out, saved: Record{}.Encode()}
		return s.line
	}, stories...)
}

func (s *script) line(line string) {
	clock, rest, _ := strings.Cut(line, " ")
	at, err := time.ParseDuration(clock)
	if err != nil {
		s.t.Fatal(err)
	}
	rest, unsaved := strings.CutSuffix(rest, " unsaved")
	for range 1000 { // time passes
		due, ok := s.state.NextDeadline()
		if !ok || due > at-s.base || rest == "start" || strings.HasPrefix(rest, "start ") {
			break
		}
		s.now.Mono = max(due, s.now.Mono)
		if s.state.started {
			s.step(Tick{}, false)
		} else {
			s.step(Started{}, false)
		}
	}
	if due, ok := s.state.NextDeadline(); ok && due <= at-s.base && !strings.HasPrefix(rest, "start") {
		s.t.Fatalf("time does not pass: %s", line)
	}
	s.now.Mono = at - s.base
	words := strings.Fields(rest)
	value := func(name string) string {
		for _, w := range words {
			if v, ok := strings.CutPrefix(w, name+"="); ok {
				return v
			}
		}
		return ""
	}
	_, text, _ := strings.Cut(rest, ": ")
	switch strings.TrimSuffix(words[0], ":") {
	case "start":
		r, err := Decode(s.saved)
		if err != nil {
			s.t.Fatal(err)
		}
		s.state, s.base, s.now.Mono = New(r), at, 0
		s.step(Started{Crashed: slices.Contains(words, "crashed"), Own: slices.Contains(words, "own"),
			Power: slices.Contains(words, "power")}, unsaved)
	case "look":
		s.step(Look{}, unsaved)
	case "off":
		r := s.state.Record
		r.Off = true
		s.state, s.saved = s.state.Load(r), r.Encode()
	case "lost":
		s.saved = Lost(text, epoch).Encode()
	case "run":
	case "free":
		s.now.Obstacle, s.now.NoReboot = "", ""
	case "no":
		if words[1] == "trial:" {
			s.now.Obstacle = text
		} else {
			s.now.NoReboot = text
		}
	case "order":
		s.step(Order{What: What(strings.TrimSuffix(words[1], ":")), By: "anna", Version: value("version"),
			Hash: content(cmp.Or(value("content"), value("version"))), Size: 1, Detail: text,
			Force: slices.Contains(words, "force")}, unsaved)
	case "byhand": // an order that comes by way of the disk
		var now Now
		now.Wall = epoch
		next, effects := New(s.state.Record).Step(now,
			Order{What: What(strings.TrimSuffix(words[1], ":")), By: "bob", Version: value("version"), Detail: text,
				Hash: content(value("version")), Force: slices.Contains(words, "force")})
		for _, e := range effects {
			s.say("%s", s.effect(e))
		}
		s.saved = next.Encode()
		s.state = s.state.Load(next.Record)
		s.shown()
	case "verdict":
		s.step(Verdict{Number: s.state.Number, Commit: words[1] == "commit", Why: Why{wire.BootFallback, text, true}},
			unsaved)
	case "ended":
		ev := Ended{Verb: Verb(words[1])}
		if text != "" {
			ev.Fault, ev.Text = Fault(strings.TrimSuffix(words[2], ":")), text
		} else {
			ev.Status = Status{Active: value("active"), Trying: value("trying"), Staged: value("staged"),
				Running: value("running"), Reboot: slices.Contains(words, "reboot"),
				Restart: Restarts(value("restart")), NoWayBack: value("no-way-back")}
			if why := value("over"); why != "" {
				ev.Status.Ended = Why{wire.BootReason(why), "no sound", slices.Contains(words, "failed")}
			}
			ev.Status.Hash = content(cmp.Or(value("content"), value("trying"), value("staged")))
			ev.Status.EndedHash = content(value("of"))
		}
		s.step(ev, unsaved)
	default:
		s.t.Fatalf("no such event: %s", line)
	}
}

// step steps as the shell does.
func (s *script) step(ev Event, unsaved bool) {
	now := s.now
	now.Wall = epoch.Add(s.base + now.Mono)
	_, now.Alone = ev.(Order)
	next, effects := s.state.Step(now, ev)
	if unsaved {
		_, ended := ev.(Ended)
		s.state, _ = s.state.Step(now, Dropped{Ended: ended})
		s.say("not saved: dropped")
		return
	}
	s.state, s.saved = next, next.Encode()
	if r, err := Decode(s.saved); err != nil || string(r.Encode()) != string(s.saved) {
		s.t.Errorf("a record that is not read as it was written: %v\n%s", err, s.saved)
	}
	s.shown()
	for _, e := range effects {
		s.say("%s", s.effect(e))
		if e, ok := e.(Emit); ok && e.Number != 0 {
			s.step(Reported{e.Number}, false)
		}
	}
	if at, ok := s.state.NextDeadline(); ok && s.state.Waits() && at <= now.Mono && !now.Alone {
		now.Alone = true
		s.state, effects = s.state.Step(now, Tick{})
		s.saved = s.state.Encode()
		s.shown()
		for _, e := range effects {
			s.say("%s", s.effect(e))
		}
	}
}

func (s *script) say(format string, a ...any) {
	fmt.Fprintf(s.out, "  %v: "+format+"\n", append([]any{s.base + s.now.Mono}, a...)...)
}

// shown says what the record and the report have, if that is news.
func (s *script) shown() {
	r := s.state.Record
	c := r.Component("os")
	now := fmt.Sprintf("%s %d, %s %q next %q: %s", cmp.Or(string(r.Phase), "idle"), r.Number, c.State, c.Version,
		c.Next, c.Text)
	if r.Try != "" {
		now += ", to be tried for " + r.Try
	}
	if now != s.was {
		s.was = now
		s.say("%s", now)
	}
	held := ""
	for _, q := range r.Quarantine {
		held += fmt.Sprintf("; %s %s (%s)", q.Version, q.Hash[7:11], q.Text)
	}
	if held != s.held {
		s.held = held
		s.say("quarantine: %s", strings.TrimPrefix(held, "; "))
	}
}

func (s *script) effect(e Effect) string {
	switch e := e.(type) {
	case Run:
		return "RUN " + string(e.Verb)
	case Cancel:
		return "CANCEL"
	case Check:
		switch {
		case e.Gone:
			return "check gone"
		case e.OK:
			return "check ok"
		}
		return "check bad: " + e.Message
	case Restart:
		what := "REBOOT"
		if e.Of == Agent {
			what = "RESTART the agent"
		}
		return fmt.Sprintf("%s: %s, %s", what, e.Why.Reason, e.Why.Detail)
	case Emit:
		return fmt.Sprintf("event %s %s: %s", e.Type, e.Version, e.Text)
	case Answer:
		if e.Err != nil {
			return "answer: " + e.Err.Error()
		}
		return "answer: yes"
	}
	s.t.Fatalf("no such effect: %T", e)
	return ""
}
