package supervise

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"tandem.internal/shared/clock"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// The times that nobody decides.
const (
	retryDisk  = 10 * time.Second // before a directory is made or removed again
	hookMax    = 10 * time.Minute // a hook beside the process that has no limit of its own
	stopMax    = time.Minute      // iss_hook_stop and iss_hook_status likewise
	leastPause = 50 * time.Millisecond
	never      = math.MaxInt64
	mostPause  = 10 * 365 * 24 * time.Hour // so that no sum of times overflows
	uninstalls = 5                         // attempts at an uninstall hook
	// times in a row that nobody saw a new process end, after which it did not stay up
	mostLost     = 3
	badStatus    = 3           // failures of the status hook in a row that are one too many
	firstStatus  = time.Second // after the start, the first run of the status hook
	statusFaster = 5           // how much more often it is run until the window has passed
)

// step is one Step on its way.
type step struct {
	State
	effects []Effect
	inPlace bool // the process is started in the place of one that has run until now: whatever it needs
}

// Step takes s over one event. It panics if Started is not the first, or comes again.
func (s State) Step(now clock.Now, ev Event) (State, []Effect) {
	t := &step{State: s}
	t.Durable, t.issued = s.Durable.clone(), slices.Clone(s.issued)
	now.Mono = max(now.Mono, s.now.Mono)
	t.now = now
	_, first := ev.(Started)
	if first == t.started {
		panic(fmt.Sprintf("supervise: %T, started: %v", ev, t.started))
	}
	switch ev := ev.(type) {
	case Started:
		t.started = true
		if p := t.Main; p != nil && p.Run == "" && p.Exit != nil {
			t.wait(p)
		}
	case Want:
		t.Wanted = ev.Config
		t.halt(ev.Stopped)
		if r := t.Refused; r != nil && (ev.Config == nil || key(*ev.Config) != r.Key) {
			t.Refused = nil
		}
	case Fetched:
		if p := t.Next; p != nil && p.Dir == ev.Dir && p.Phase == Fetch {
			p.Phase, p.Error = Link, nil
		}
	case Linked:
		t.linked(ev)
	case Running:
		if p := t.Main; p != nil && p.Run == ev.Run && t.watched == ev.Run && t.up != ev.Run {
			t.up, t.passed = ev.Run, t.now.Mono+max(0, t.rules.Window-ev.Up)
		}
	case Ended:
		t.ended(ev)
	case Removed:
		t.removed(ev)
	case Restart:
		t.again()
	case Met:
		t.met, t.able = ev.Needs, ev.Able
	case Tick:
	}
	for n := 0; t.plan() || t.turnGone() || t.turnNext() || t.turnMain(); n++ {
		if n > 1000 {
			panic(fmt.Sprintf("supervise: slot %s does not come to rest: %+v", t.Slot, t.Durable))
		}
	}
	if state := t.state(); state != t.Durable.State || state == wire.WorkloadRunning && t.Main.Run != s.running() {
		t.Durable.State, t.Since = state, t.now.Wall.UTC().Truncate(time.Second)
	}
	if !s.Durable.equal(t.Durable) {
		t.effects = append([]Effect{Save{}}, t.effects...)
	}
	if first || !reflect.DeepEqual(s.Report(), t.Report()) {
		t.do(Report{})
	}
	return t.State, t.effects
}

func (t *step) do(e Effect) { t.effects = append(t.effects, e) }

// once asks for an effect that was not asked for since its last event.
func (t *step) once(name string, e Effect) {
	if !slices.Contains(t.issued, name) {
		t.issued = append(t.issued, name)
		t.do(e)
	}
}

func (t *step) over(names ...string) {
	t.issued = slices.DeleteFunc(t.issued, func(n string) bool { return slices.Contains(names, n) })
}

func (t *step) emit(kind string, p *Place, err *wire.Error, text string) {
	d := Detail{Slot: t.Slot.String(), ID: p.Config.ConfigurationID, Text: text}
	if p == t.Main && p.Run == "" {
		d.Exit = p.Exit
	}
	t.do(Emit{Type: kind, Err: err, Detail: d})
}

// plan sees to it that what is wanted is in force, or on its way.
func (t *step) plan() bool {
	if t.Wanted == nil {
		switch {
		case t.Next != nil:
			t.drop()
		case t.Main != nil && t.Main.Stopping != Remove:
			t.Main.Stopping = Remove
		default:
			return false
		}
		return true
	}
	if t.Main != nil && t.Main.Stopping == Remove {
		t.Main.Stopping = Anew
		return true
	}
	if t.Next != nil {
		switch compare(t.Next.Config, *t.Wanted) {
		case same:
			return false
		case quiet:
			t.Next.Config = *t.Wanted
		default:
			t.drop()
		}
		return true
	}
	change := other
	if t.Main != nil {
		change = compare(t.Main.Config, *t.Wanted)
		if t.Main.Loose {
			change = max(change, dynamic)
		}
	}
	switch {
	case change == same, t.Refused != nil:
		return false
	case change == quiet:
		t.Main.Config = *t.Wanted
	case change == other && t.Before != nil && compare(t.Before.Config, *t.Wanted) != other:
		if t.Main.Stopping == Back {
			return false
		}
		t.Main.Stopping = Back // what is wanted is still there
	case change == dynamic && t.Main.Stopping != Back:
		if slices.Contains(t.issued, "link "+t.Main.Dir) {
			return false // what its links are is known when that is over
		}
		t.Next = &Place{Config: *t.Wanted, Dir: t.Main.Dir, Phase: Fetch}
	default:
		t.Dirs++
		t.Next = &Place{Config: *t.Wanted, Dir: fmt.Sprintf("c%d", t.Dirs), Phase: Fetch}
	}
	return true
}

// dynamic reports whether Next only changes links of what is in force.
func (s State) dynamic() bool { return s.Main != nil && s.Next != nil && s.Main.Dir == s.Next.Dir }

// drop gives Next up.
func (t *step) drop() {
	if !t.dynamic() {
		t.Gone = append(t.Gone, t.Next)
	}
	t.Next = nil
}

// refuse gives Next up for as long as nobody changes it.
func (t *step) refuse(err *wire.Error) {
	t.Refused = &Refused{Key: key(t.Next.Config), ID: t.Next.Config.ConfigurationID, Error: err}
	t.emit(EventRefused, t.Next, err, "")
	t.drop()
}

// turnNext takes what is prepared one phase further.
func (t *step) turnNext() bool {
	p := t.Next
	if p == nil {
		return false
	}
	switch p.Phase {
	case Link:
		if p.Task == nil || t.now.Mono >= p.Task.at {
			if t.dynamic() {
				t.Main.Loose = true
			}
			t.once("link "+p.Dir, LinkUp{p.Dir, p.Config})
		}
	case Install:
		p.Installed = true
		return t.hook(p, workload.HookInstall, "") && t.phase(p, Validate)
	case Validate:
		return t.hook(p, workload.HookValidate, "") && t.phase(p, Ready)
	case Ready:
		switch {
		case !can(t.able, p): // what runs goes on
		case t.Main == nil:
			t.Main, t.Next, t.at = p, nil, 0
			return true
		case t.Main.Stopping == "":
			t.Main.Stopping = Replace
			return true
		}
	}
	return false
}

func (t *step) phase(p *Place, next Phase) bool {
	p.Phase, p.Task, p.Error = next, nil, nil
	return true
}

func (t *step) linked(ev Linked) {
	if !slices.Contains(t.issued, "link "+ev.Dir) {
		return
	}
	t.over("link " + ev.Dir)
	p := t.Next
	if p == nil || p.Dir != ev.Dir || p.Phase != Link {
		return // given up meanwhile
	}
	switch {
	case ev.Err != nil:
		p.Error, p.Task = ev.Err, &Task{at: t.now.Mono + retryDisk}
	case t.dynamic():
		t.Main.Config, t.Main.Loose, t.Next = p.Config, false, nil
		if t.Main.NotifyAgain != nil {
			t.Main.NotifyAgain, t.Main.Error = nil, nil
		}
		t.Main.Notify = t.Main.Run != "" && has(p.Config, workload.HookNotify)
	default:
		t.phase(p, Install)
	}
}

// hook sees to it that a hook of a place has been run, or reports that there is none.
func (t *step) hook(p *Place, name, of string) (none bool) {
	if !has(p.Config, name) && (p.Task == nil || p.Task.Run == "") {
		return true
	}
	if p.Task == nil {
		p.Task = &Task{Hook: name, Of: of}
	}
	if p.Task.Run == "" && t.now.Mono >= p.Task.at {
		p.Task.Run = t.run(name)
	}
	if id := p.Task.Run; id != "" {
		t.once("run "+id, Run{ID: id, Hook: p.Task.Hook, Dir: p.Dir, Config: p.Config, Max: limit(p, p.Task.Hook),
			Of: p.Task.Of})
	}
	return false
}

func (t *step) run(hook string) string {
	t.Runs++
	return fmt.Sprintf("%s.%s.%s.%d", t.Slot.Service, t.Born, strings.TrimPrefix(hook, "iss_hook_"), t.Runs)
}

// turnGone uninstalls and removes what is given up.
func (t *step) turnGone() bool {
	for _, p := range t.Gone {
		switch {
		case slices.Contains(t.issued, "link "+p.Dir): // until its directory is made
		case p.Run != "":
			t.once("stop "+p.Run, Stop{p.Run, 0})
		case p.Task != nil && p.Task.Run != "" && p.Task.Hook != workload.HookUninstall:
			t.once("stop "+p.Task.Run, Stop{p.Task.Run, t.rules.Grace})
		case p.Installed && !p.Undone:
			if p.Task != nil && p.Task.Hook != workload.HookUninstall {
				p.Task = nil
			}
			if t.hook(p, workload.HookUninstall, "") {
				p.Undone = true
				return true
			}
		case p.Task != nil && t.now.Mono < p.Task.at: // it could not be removed
		default:
			t.once("delete "+p.Dir, Delete{p.Dir})
		}
	}
	return false
}

func (t *step) removed(ev Removed) {
	t.over("delete " + ev.Dir)
	i := slices.IndexFunc(t.Gone, func(p *Place) bool { return p.Dir == ev.Dir })
	if i < 0 {
		return
	}
	if ev.Err != nil {
		t.Gone[i].Error, t.Gone[i].Task = ev.Err, &Task{at: t.now.Mono + retryDisk}
		return
	}
	t.Gone = slices.Delete(t.Gone, i, i+1)
}

// halt takes in whether an operator has stopped the slot. When it is started again, its pauses begin anew.
func (t *step) halt(stopped bool) {
	if p := t.Main; p != nil && t.Stopped && !stopped {
		p.Same, p.Unhealthy, t.at = -1, 0, 0
	}
	t.Stopped = stopped
}

// again obeys the order to restart. What waits to be tried again does not wait.
func (t *step) again() {
	t.Refused = nil
	if n := t.Next; n != nil && n.Task != nil {
		n.Task.at = 0
	}
	p := t.Main
	if p == nil || p.Stopping != "" && p.Stopping != Unhealthy {
		return
	}
	p.Done, p.Same, p.Unhealthy, t.at = false, -1, 0, 0 // the pauses begin anew, whatever the next exit code is
	if p.Run != "" || p.Stopping != "" {
		p.Stopping = Again
	}
}
