package health

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/shared/clock"
	"tandem.internal/shared/scripttest"
	"tandem.internal/shared/wire"
)

// script plays one file of testdata: lines "TIME EVENT" go in, what comes out stands below them,
// indented. Time passes from line to line, with a Tick at every deadline and with the words that
// "every" has set up; what that brings has its time before it. "TIME run" goes on to that instant. A line may end in
// "unsaved": the save fails. Lines that begin with # are prose.
type script struct {
	t        *testing.T
	state    State
	saved    []byte // Durable
	base     time.Duration
	skew     time.Duration
	settings wire.HealthSettings
	slots    Slots
	every    []beat
	running  bool
	told     string // the newest report
	wants    string
	out      *strings.Builder
}

// beat is an event that comes again and again while time passes.
type beat struct {
	name string
	ev   Event
	pace time.Duration
	next time.Duration
}

var epoch = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// stories are the scripts that there must be: what the seed says, each weakness of the real system,
// and what else could go wrong.
var stories = []string{
	"reset", "fallback", "commit", "link", "samples", "unregistered", "approval", "orders", "orders-lost",
	"never-met", "controller-down", "temporary", "dead-publisher", "two-writes", "two-writes-not", "slots-missing",
	"storm", "maintenance",
	"flapping", "clock", "week", "offline", "offline-hand", "offline-sick", "offline-met", "sick", "no-slot",
	"no-reboot", "settings", "ties", "crash", "disk", "disk-tie",
	"component", "component-lost", "component-orders",
	"hard-deadline", "hard-offline", "hard-component", "temporary-trial", "commit-hangs", "unknown",
}

func TestScripts(t *testing.T) {
	scripttest.Play(t, func(t *testing.T, out *strings.Builder) func(string) {
		s := &script{t: t, out: out, saved: []byte("{}"),
			settings: wire.HealthSettings{FormatVersion: wire.HealthFormat}}
		return s.line
	}, stories...)
}

func (s *script) duration(text string) time.Duration {
	days := time.Duration(0)
	if d, rest, ok := strings.Cut(text, "d"); ok {
		n, err := strconv.Atoi(d)
		if err != nil {
			s.t.Fatalf("%q: %v", text, err)
		}
		days, text = time.Duration(n)*24*time.Hour, rest+"0s"
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatalf("%q: %v", text, err)
	}
	return days + d
}

func (s *script) now(at time.Duration) clock.Now {
	return clock.Now{Mono: at - s.base, Wall: epoch.Add(at + s.skew)}
}

func (s *script) line(line string) {
	words := strings.Fields(line)
	at := s.duration(words[0])
	words = words[1:]
	unsaved := words[len(words)-1] == "unsaved"
	if unsaved {
		words = words[:len(words)-1]
	}
	args := words[1:]
	if words[0] == "run" {
		s.run(at, unsaved)
		s.deadline()
		return
	}
	s.run(at-1, false)
	switch words[0] {
	case "clock":
		s.skew += s.duration(strings.TrimPrefix(args[0], "+"))
		return
	case "every": // every 1m contact; every 30s check disk ok; every never contact
		name := strings.Join(args[1:min(len(args), 3)], " ")
		s.every = slices.DeleteFunc(s.every, func(b beat) bool { return b.name == name })
		if args[0] != "never" {
			pace := s.duration(args[0])
			s.every = append(s.every, beat{name, s.event(args[1], args[2:]), pace, at + pace})
		}
		return
	case "start":
		var d Durable
		if err := json.Unmarshal(s.saved, &d); err != nil {
			s.t.Fatal(err)
		}
		s.state, s.base = New(d), at
	}
	ev := s.event(words[0], args)
	if _, before := ev.(Settings); before && !s.state.started {
		return // settings that the next start has
	}
	s.step(at, ev, unsaved)
	s.deadline()
}

// value finds "name value" among words.
func value(words []string, name string) string {
	if i := slices.Index(words, name); i >= 0 && i+1 < len(words) {
		return words[i+1]
	}
	return ""
}

func (s *script) event(name string, args []string) Event {
	arg := func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}
	trouble := wire.New(wire.CodeStorage, "", "no space left")
	switch name {
	case "start":
		ev := Started{Settings: s.settings.Complete(), Rebooted: slices.Contains(args, "rebooted"),
			Boot: wire.HealthBoot{Reason: wire.BootReason(value(args, "boot")), Restarts: 1}}
		if c := value(args, "checks"); c != "" {
			ev.Checks = strings.Split(c, ",")
		}
		return ev
	case "set": // set fallback=PT5M approval=true
		for _, a := range args {
			k, v, _ := strings.Cut(a, "=")
			if v != "true" && v != "false" && v[0] != '{' {
				v = strconv.Quote(v)
			}
			if err := json.Unmarshal([]byte(`{"`+k+`":`+v+`}`), &s.settings); err != nil {
				s.t.Fatal(err)
			}
		}
		if err := s.settings.Check(); err != nil {
			s.t.Fatal(err)
		}
		return Settings{s.settings}
	case "link":
		ev := Link{Address: arg(0) != "none", Broker: arg(0) == "broker"}
		if n, err := strconv.Atoi(arg(1)); err == nil {
			ev.Error = wire.Indicator(n)
		}
		return ev
	case "contact":
		return Contact{Result: wire.ContactSuccess, Document: arg(0) == "document"}
	case "temporary", "failure", "saved":
		return Contact{Result: wire.ContactResult(name)}
	case "announce":
		if arg(0) == "none" {
			return Maintenance{}
		}
		return Maintenance{Left: s.duration(arg(0))}
	case "slots": // slots a:1:active b:2:updating:unverified current a good a trial t1
		s.slots = Slots{Used: arg(0) != "none", Current: value(args, "current"), Good: value(args, "good")}
		u := &s.slots.Updates
		if v := value(args, "busy"); v != "" {
			u.Busy = "component os is " + v
		}
		if v := value(args, "part"); v != "" { // slots … part os:2 on os#1
			name, version, _ := strings.Cut(v, ":")
			u.Trial = Tried{ID: value(args, "on"), Component: name, Version: version,
				Checks: []string{"component:" + name}}
		}
		if v := value(args, "next"); v != "" { // slots … next os:2: staged
			name, version, _ := strings.Cut(v, ":")
			u.List = append(u.List, wire.HealthComponent{Name: name, State: wire.SlotUpdating, Next: version,
				Text: "staged"})
		}
		if v := value(args, "kept"); v != "" {
			u.Over = []Over{{Trial: v, Kept: true}}
		}
		if v := value(args, "given-up"); v != "" {
			u.Over = []Over{{Trial: v, Reason: wire.BootFallback, Detail: value(args, "why")}}
		}
		if arg(0) == "unread" {
			return Slots{Err: trouble}
		}
		for _, a := range args {
			if p := strings.Split(a, ":"); len(p) >= 3 {
				s.slots.List = append(s.slots.List,
					wire.HealthSlot{ID: p[0], Version: p[1], State: wire.SlotState(p[2]), Verified: len(p) == 3})
			}
		}
		if v := value(args, "trial"); v != "" { // the agent's own
			u.Trial = Tried{ID: v, Slot: s.slots.Current, Version: slotOf(s.slots.List, s.slots.Current).Version}
			if !slotOf(s.slots.List, s.slots.Good).Verified {
				u.Trial.NoWayBack = "there is no verified slot to go back to"
			}
		}
		return s.slots
	case "check":
		ev := Check{Name: arg(0), OK: arg(1) == "ok", TTL: time.Minute}
		if !ev.OK {
			ev.Message = arg(1)
		}
		return ev
	case "sample":
		v, err := strconv.ParseFloat(arg(1), 64)
		if err != nil {
			s.t.Fatal(err)
		}
		return Sample{Name: arg(0), Value: v, TTL: time.Minute}
	case "gone":
		return Gone{arg(0)}
	case "order": // order approve hand version 2
		return Order{ID: "q1", What: What(arg(0)), By: "anna", ByHand: slices.Contains(args, "hand"),
			Version: value(args, "version"), Detail: value(args, "why"),
			Reason: wire.BootReason(value(args, "reason"))}
	case "committed":
		ev := Committed{Trial: s.slots.Updates.Trial.ID}
		if arg(0) == "badly" {
			ev.Err = trouble
		}
		return ev
	case "restarting":
		if arg(0) == "badly" {
			return Restarting{Err: wire.New(wire.CodeApplyFailed, "", "exit status 1")}
		}
		return Restarting{}
	case "tick":
		return Tick{}
	case "stop":
		return Stopping{}
	}
	s.t.Fatalf("no such event: %s", name)
	return nil
}

// run lets time pass.
func (s *script) run(until time.Duration, unsaved bool) {
	if !s.state.started {
		return
	}
	s.running = true
	defer func() { s.running = false }()
	for range 100_000 {
		next, ev := until, Event(nil)
		if at, ok := s.state.NextDeadline(); ok && s.base+at <= next {
			next, ev = s.base+at, Tick{}
		}
		which := -1
		for i, b := range s.every {
			if b.next <= next && (b.next < next || ev == nil) {
				next, ev, which = b.next, b.ev, i
			}
		}
		if ev == nil {
			return
		}
		if which >= 0 {
			s.every[which].next += s.every[which].pace
		}
		s.step(next, ev, unsaved)
	}
	s.t.Fatal("time does not pass")
}

// step steps as the shell does.
func (s *script) step(at time.Duration, ev Event, unsaved bool) {
	now := s.now(at)
	next, effects := s.state.Step(now, ev)
	if len(effects) > 0 {
		if save, ok := effects[0].(Save); ok {
			switch {
			case !unsaved:
				data, err := json.Marshal(next.Durable)
				if err != nil {
					s.t.Fatal(err)
				}
				s.saved = data
			case save.Must:
				s.say(at, "not saved: dropped")
				next, effects = s.state.Failed(now, ev, wire.New(wire.CodeStorage, "", "disk full"))
			}
		}
	}
	s.state = next
	for _, e := range effects {
		switch e := e.(type) {
		case Save:
			if e.Must || !s.running {
				s.say(at, "save%s", map[bool]string{true: "!"}[e.Must])
			}
		case Report:
			if text := reportOf(e.Health); text != s.told {
				s.told = text
				s.say(at, "report %s", text)
			}
		case Indicate:
			s.say(at, "indicator %d: %s", e.Indicator, e.Text)
		case Commit:
			s.say(at, "COMMIT trial %s", e.Trial)
		case RollBack:
			s.say(at, "ROLL BACK trial %s: %s, %s", e.Trial, e.Reason, e.Detail)
		case RestartAgent:
			s.say(at, "RESTART the agent: %s, %s", e.Reason, e.Detail)
		case Reboot:
			s.say(at, "REBOOT: %s, %s", e.Reason, e.Detail)
		case Stay:
			s.say(at, "the reason %s explains no later end", e.Reason)
		case Emit:
			d, err := json.Marshal(e.Detail)
			if err != nil {
				s.t.Fatal(err)
			}
			text := string(d)
			if e.Err != nil {
				text += " " + e.Err.Error()
			}
			s.say(at, "event %s %s", e.Type, text)
		case Answer:
			if e.Err != nil {
				s.say(at, "answer %s: %v", e.ID, e.Err)
			} else {
				s.say(at, "answer %s: yes", e.ID)
			}
		}
		if r, ok := e.(Report); ok {
			h := r.Health
			if _, err := wire.Decode[wire.Health](wire.Encode(&h)); err != nil {
				s.t.Errorf("a report that the wire refuses: %v", err)
			}
		}
	}
}
