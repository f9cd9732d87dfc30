package inbox

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tandem.internal/shared/clock"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/scripttest"
	"tandem.internal/shared/wire"
)

// script plays one file of testdata: lines "TIME EVENT" go in, what comes out stands below them,
// indented. A line may end in "unsaved": the save fails. Lines that begin with # are prose.
type script struct {
	state State
	saved Durable
	look  time.Duration
	skew  time.Duration
	out   *strings.Builder
}

var epoch = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

func TestScripts(t *testing.T) {
	scripttest.Play(t, func(t *testing.T, out *strings.Builder) func(string) {
		s := &script{out: out, state: New(Durable{}, 0)}
		return func(line string) { s.line(t, line) }
	})
}

func (s *script) line(t *testing.T, line string) {
	words := strings.Fields(line)
	at, err := time.ParseDuration(words[0])
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	unsaved := words[len(words)-1] == "unsaved"
	arg := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	now := clock.Now{Mono: at, Wall: epoch.Add(at + s.skew)}
	flight := s.state.Flight.Doc.Stamp
	switch words[1] {
	case "desired":
		s.step(now, Desired{Doc: docOf(t, words[2:]), At: now.Wall}, unsaved)
	case "checked":
		ev := Checked{Stamp: flight}
		if arg(2) == "bad" {
			ev.Errs = []*wire.Error{wire.New(wire.CodeBadValue, "/priority", "too high"),
				wire.New(wire.CodeBadValue, "/labels", "too many")}
		}
		s.step(now, ev, unsaved)
	case "applied":
		ev := Applied{Stamp: flight, Ran: true}
		switch arg(2) {
		case "badly":
			ev.Err = wire.New(wire.CodeApplyFailed, "", "exit status 1")
		case "disk-full":
			ev.Err, ev.Transient, ev.Ran = wire.New(wire.CodeStorage, "", "no space left"), true, false
		}
		s.step(now, ev, unsaved)
	case "restored":
		ev := Restored{Stamp: flight}
		switch arg(2) {
		case "badly":
			ev.Err = wire.New(wire.CodeStorage, "", "no space left")
		case "with-note":
			ev.Note = "exit status 2"
		}
		s.step(now, ev, unsaved)
	case "verified":
		s.step(now, verified(arg(2)), unsaved)
	case "confirm":
		s.step(now, Confirm{ID: "q1", Stamp: stampOf(t, words[2])}, unsaved)
	case "tick":
		s.step(now, Tick{}, unsaved)
	case "stop":
		s.step(now, Stopping{}, unsaved)
	case "start": // after a crash, or the first one
		s.state = New(s.saved, s.look)
		s.step(now, Started{}, unsaved)
	case "look": // begins with the next start
		s.look = at
	case "clock":
		d, err := time.ParseDuration(words[2])
		if err != nil {
			t.Fatal(err)
		}
		s.skew += d
	default:
		t.Fatalf("no such event: %s", line)
	}
}

// verified reads "ok", "drift", "left" or "stuck".
func verified(word string) Verified {
	if word == "ok" {
		return Verified{}
	}
	ev := Verified{Drifted: true, What: "config.json was altered", Repaired: word == "drift"}
	if word == "stuck" {
		ev.Err = wire.New(wire.CodeStorage, "", "no space left")
	}
	return ev
}

func stampOf(t *testing.T, s string) wire.Stamp {
	var st wire.Stamp
	if _, err := fmt.Sscanf(s, "%d.%d", &st.Epoch, &st.Rev); err != nil {
		t.Fatalf("stamp %q: %v", s, err)
	}
	return st
}

// docOf reads "EPOCH.REV [other] [try DURATION] [ref]".
func docOf(t *testing.T, words []string) Doc {
	d := Doc{Stamp: stampOf(t, words[0]), Version: words[0], Hash: "h" + words[0], Mode: wire.ModeApply,
		Body: []byte(words[0])}
	for i, w := range words {
		switch w {
		case "other":
			d.Hash = "other"
		case "ref":
			d.Body = nil
		case "try":
			d.Mode = wire.ModeTry
			within, err := time.ParseDuration(words[i+1])
			if err != nil {
				t.Fatal(err)
			}
			d.ConfirmWithin = duration.Duration(within)
		}
	}
	return d
}

// step steps as the shell does.
func (s *script) step(now clock.Now, ev Event, unsaved bool) {
	next, effects := s.state.Step(now, 0, ev)
	if len(effects) > 0 {
		if save, ok := effects[0].(Save); ok {
			switch {
			case !unsaved:
				s.saved = next.Durable
			case save.Must:
				s.say("not saved: dropped")
				next, effects = s.state.Failed(now, 0, ev, wire.New(wire.CodeStorage, "", "disk full"))
			default:
				s.say("not saved: goes on")
			}
		}
	}
	s.state = next
	for _, e := range effects {
		switch e := e.(type) {
		case Save:
			if !unsaved {
				s.say("save%s", map[bool]string{true: "!"}[e.Must])
			}
		case Check:
			s.say("check %s", e.Doc.Version)
		case Apply:
			s.say("apply %s over %s", e.Doc.Version, orNone(e.Previous))
		case Restore:
			s.say("restore %s from %s, tell %v", orNone(e.Good), e.From.Version, e.Tell)
		case Verify:
			s.say("verify %s", e.Want.Version)
		case Report:
			s.say("report %s", reportOf(e))
		case Again:
			for _, ev := range e.Events {
				s.say("again %T", ev)
				s.step(now, ev, unsaved)
			}
		case Emit:
			s.say("event %s %s: %v", e.Type, e.Doc.Version, e.Err)
		case Answer:
			s.say("answer %s: %v", e.ID, e.Err)
		}
	}
	if at, ok := s.state.NextDeadline(); ok {
		s.say("wants a tick at %v", at)
	}
}

func (s *script) say(format string, a ...any) { fmt.Fprintf(s.out, "  "+format+"\n", a...) }

func reportOf(r Report) string {
	running, last := r.Running, r.Last
	out := "runs nothing"
	if running != nil {
		out = "runs " + running.Version
	}
	if last != nil {
		out += fmt.Sprintf(", %s %s, attempt %d", last.Version, last.State, last.Attempt)
		if last.Error != nil {
			out += ", " + last.Error.Error()
		}
	}
	return out
}

func orNone(d Doc) string {
	if !d.Exists() {
		return "nothing"
	}
	return d.Version
}
