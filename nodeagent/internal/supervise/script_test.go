package supervise

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/shared/clock"
	"tandem.internal/shared/scripttest"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// script plays one file of testdata: lines "TIME EVENT" go in, what comes out stands below them,
// indented. Time passes from line to line, with a Tick at every deadline; what that brings has its time
// before it. "TIME run" goes on to that instant. What stands behind "auto" answers by itself, and a process is up at
// once but with "-up". Lines that
// begin with # are prose. Save and Forget are not shown, but are where they have to be.
type script struct {
	t       *testing.T
	state   State
	saved   []byte // Durable
	base    time.Duration
	auto    []string
	started map[string]bool // runs that the keeper has
	began   map[string]time.Time
	ups     map[string]time.Duration // when a process came up
	runs    []Run                    // that were asked for and have not ended
	links   []string                 // directories
	deletes []string
	todo    []Event
	passing bool
	told    string // the newest report
	wants   string
	out     *strings.Builder
}

var epoch = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

var autos = []string{"fetch", "link", "delete", "end", "install", "validate", "notify", "status", "stop", "reopenlogs",
	"uninstall"}

func TestScripts(t *testing.T) {
	scripttest.Play(t, func(t *testing.T, out *strings.Builder) func(string) {
		saved, err := json.Marshal(&Durable{Slot: workload.Slot{Service: "web", Node: "n1"}, Born: "b"})
		if err != nil {
			t.Fatal(err)
		}
		s := &script{t: t, out: out, saved: saved, started: map[string]bool{}, began: map[string]time.Time{},
			ups: map[string]time.Duration{}}
		return s.line
	})
}

func (s *script) line(line string) {
	words := strings.Fields(line)
	at, err := time.ParseDuration(words[0])
	if err != nil {
		s.t.Fatal(err)
	}
	name, args := words[1], words[2:]
	s.pass(at)
	switch name {
	case "run":
	case "away": // the agent, until it starts again
		s.state.started = false
	case "auto":
		if s.auto = args; slices.Contains(args, "all") {
			s.auto = append(s.auto, autos...)
		}
		for _, a := range args {
			if a, not := strings.CutPrefix(a, "-"); not {
				s.auto = slices.DeleteFunc(s.auto, func(x string) bool { return x == a })
			}
		}
	case "start":
		var d Durable
		if err := json.Unmarshal(s.saved, &d); err != nil {
			s.t.Fatal(err)
		}
		s.state, s.base, s.links, s.deletes, s.told = New(d, rules), at, nil, nil, ""
		s.step(at, Started{})
	default:
		s.step(at, s.event(at, name, args))
	}
	s.deadline()
}

func (s *script) event(at time.Duration, name string, args []string) Event {
	err := (*wire.Error)(nil)
	if slices.Contains(args, "full") {
		err = wire.New(wire.CodeStorage, "", "no space left on device")
	}
	switch name {
	case "want":
		if args[0] == "none" {
			return Want{}
		}
		stopped := args[0] == "stopped"
		if stopped {
			args = args[1:]
		}
		c := configOf(s.t, args)
		return Want{&c, stopped}
	case "fetched":
		return Fetched{s.state.Next.Dir}
	case "linked":
		dir := s.links[0]
		s.links = s.links[1:]
		return Linked{dir, err}
	case "removed":
		dir := s.deletes[0]
		s.deletes = s.deletes[1:]
		return Removed{dir, err}
	case "end": // end start 1
		for i := len(s.runs) - 1; i >= 0; i-- {
			if s.runs[i].Hook == "iss_hook_"+args[0] {
				return s.end(s.runs[i].ID, exitOf(s.t, args[1]))
			}
		}
		s.t.Fatalf("no %s runs", args[0])
	case "up":
		id := s.state.running()
		if _, known := s.ups[id]; !known {
			s.ups[id] = at
		}
		return Running{id, at - s.ups[id]}
	case "again": // the keeper tells the end of a run once more
		return Ended{Run: "web.b." + args[0], Exit: exitOf(s.t, "0")}
	case "restart":
		return Restart{}
	case "met": // met db=started …; nothing else is
		return Met{Needs: needsOf(args)}
	}
	s.t.Fatalf("no such event: %s", name)
	return nil
}

func (s *script) end(id string, exit wire.WorkloadExit) Event {
	s.runs = slices.DeleteFunc(s.runs, func(r Run) bool { return r.ID == id })
	return Ended{Run: id, Exit: exit}
}

func exitOf(t *testing.T, word string) wire.WorkloadExit {
	e := wire.WorkloadExit{Code: -1, At: epoch}
	switch {
	case word == "oom":
		e.Signal, e.OOM = "SIGKILL", true
	case word == "late":
		e.Signal, e.Late = "SIGKILL", true
	case word == "lost":
		e.Lost = true
	case word == "unstartable":
		e.Text = "permission denied"
	case strings.HasPrefix(word, "SIG"):
		e.Signal = word
	default:
		var err error
		if e.Code, err = strconv.Atoi(word); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// pass lets time pass.
func (s *script) pass(until time.Duration) {
	if !s.state.started {
		return
	}
	s.passing = true
	defer func() { s.passing = false }()
	for range 10_000 {
		at, ok := s.state.NextDeadline()
		if !ok || s.base+at > until {
			return
		}
		s.step(s.base+at, Tick{})
	}
	s.t.Fatal("time does not pass")
}

// step steps as the shell does, and answers by itself what it was told to.
func (s *script) step(at time.Duration, ev Event) {
	s.todo = append(s.todo, ev)
	for range 1000 {
		if len(s.todo) == 0 {
			return
		}
		ev := s.todo[0]
		s.todo = s.todo[1:]
		s.one(at, ev)
		if p := s.state.Next; p != nil && p.Phase == Fetch && slices.Contains(s.auto, "fetch") {
			s.todo = append(s.todo, Fetched{p.Dir})
		}
	}
	s.t.Fatal("does not come to rest")
}

func (s *script) one(at time.Duration, ev Event) {
	next, effects := s.state.Step(clock.Now{Mono: at - s.base, Wall: epoch.Add(at)}, ev)
	s.state = next
	if ended, ok := ev.(Ended); ok && !slices.Contains(effects, Effect(Forget{ended.Run})) {
		s.t.Errorf("%s is not forgotten", ended.Run)
	}
	s.since(at)
	data, err := json.Marshal(&next.Durable, json.Deterministic(true))
	if err != nil {
		s.t.Fatal(err)
	}
	if save := slices.Index(effects, Effect(Save{})); save > 0 || save < 0 && len(effects) > 0 &&
		string(data) != string(s.saved) {
		s.t.Errorf("%v is done before it is saved", effects)
	}
	for _, e := range effects {
		switch e := e.(type) {
		case Save:
			s.saved = data
		case LinkUp:
			s.say(at, "link %s: %s", e.Dir, e.Config.ConfigurationID)
			if s.links = append(s.links, e.Dir); slices.Contains(s.auto, "link") {
				s.todo = append(s.todo, s.event(at, "linked", nil))
			}
		case Delete:
			s.say(at, "delete %s", e.Dir)
			if s.deletes = append(s.deletes, e.Dir); slices.Contains(s.auto, "delete") {
				s.todo = append(s.todo, s.event(at, "removed", nil))
			}
		case Run:
			s.run(at, e)
		case Stop:
			s.say(at, "STOP %s, %v", short(e.ID), e.Grace)
			if slices.Contains(s.auto, "end") {
				s.todo = append(s.todo, s.end(e.ID, exitOf(s.t, "SIGTERM")))
			}
		case Emit:
			d, err := json.Marshal(e.Detail)
			if err != nil {
				s.t.Fatal(err)
			}
			text := strings.ReplaceAll(string(d), `"slot":"web@n1",`, "")
			if e.Err != nil {
				text += " " + e.Err.Error()
			}
			s.say(at, "event %s %s", e.Type, strings.ReplaceAll(text, `,"at":"2026-11-20T10:00:00Z"`, ""))
		case Report:
			if text := reportOf(s.state); text != s.told {
				s.told = text
				s.say(at, "report %s", text)
			}
		}
	}
}

func (s *script) run(at time.Duration, e Run) {
	if !slices.ContainsFunc(s.runs, func(r Run) bool { return r.ID == e.ID }) {
		s.runs = append(s.runs, e)
	}
	text := "RUN " + short(e.ID)
	if s.started[e.ID] {
		text = "run again " + short(e.ID)
	}
	s.started[e.ID] = true
	text += " in " + e.Dir
	if e.Of != "" {
		text += " for " + short(e.Of)
	}
	if e.Max > 0 {
		text += fmt.Sprintf(", at most %v", e.Max)
	}
	s.say(at, "%s", text)
	if e.Hook == workload.HookStart && !slices.Contains(s.auto, "-up") {
		s.todo = append(s.todo, s.event(at, "up", nil))
	}
	if hook := strings.TrimPrefix(e.Hook, "iss_hook_"); slices.Contains(s.auto, hook) {
		s.todo = append(s.todo, s.end(e.ID, exitOf(s.t, "0")))
	}
}

func short(id string) string { return strings.TrimPrefix(id, "web.b.") }

func (s *script) say(at time.Duration, format string, a ...any) {
	prefix := ""
	if s.passing {
		prefix = at.String() + ": "
	}
	fmt.Fprintf(s.out, "  "+prefix+format+"\n", a...)
}

// deadline says when a tick is wanted, if that is news.
func (s *script) deadline() {
	text := "wants no tick"
	if at, ok := s.state.NextDeadline(); ok {
		text = "wants a tick at " + (s.base + at).String()
	}
	if s.state.started && text != s.wants {
		s.wants = text
		fmt.Fprintf(s.out, "  %s\n", text)
	}
}

func reportOf(s State) string {
	if s.Empty() {
		return "none: nothing is left"
	}
	r := s.Report()
	text := fmt.Sprintf("%s %s", r.State, r.ID)
	add := func(format string, a ...any) { text += fmt.Sprintf(", "+format, a...) }
	if r.Job {
		add("a job")
	}
	if !r.Next.IsZero() {
		add("again at %v", r.Next.Sub(epoch))
	}
	if r.Restarts > 0 {
		add("%d restarts", r.Restarts)
	}
	if r.Exit != nil {
		add("last: %s", r.Exit.Words())
	}
	if r.Wanted != "" {
		add("wanted: %s", r.Wanted)
	}
	if r.Doing != "" {
		add("doing: %s", r.Doing)
	}
	if r.Waits != nil {
		add("waits: %v", r.Waits)
	}
	if r.Error != nil {
		add("error: %v", r.Error)
	}
	return text
}
