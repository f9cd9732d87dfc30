package supervise

import (
	"fmt"
	"time"

	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// turnMain takes care of the process of what is in force.
func (t *step) turnMain() bool {
	p := t.Main
	switch {
	case p == nil:
		return false
	case p.Stopping != "":
		return t.turnStop(p)
	case p.Done:
		return false
	case p.Run == "":
		if p.Task != nil && p.Task.Run != "" { // about the process that has ended
			t.once("stop "+p.Task.Run, Stop{p.Task.Run, 0})
		}
		if t.Stopped || t.now.Mono < t.at || !can(t.able, p) || !t.inPlace && len(t.unmet(p)) > 0 {
			return false
		}
		if p.Exit != nil {
			p.Restarts++
		}
		if p.Task != nil && p.Task.Run == "" {
			p.Task = nil // about the process before
		}
		p.Run, p.Notify, p.NotifyAgain, p.Error = t.run(workload.HookStart), false, nil, nil
		return true
	case t.Stopped:
		p.Stopping = Halt
		return true
	}
	t.once("run "+p.Run, Run{ID: p.Run, Hook: workload.HookStart, Dir: p.Dir, Config: p.Config,
		Max: limit(p, workload.HookStart)})
	if t.watched != p.Run {
		t.watched, t.bad = p.Run, 0
		t.passed, t.statusAt, t.reopenAt = never, t.now.Mono+firstStatus, t.now.Mono+t.rules.Reopen
	}
	if t.Before != nil && t.now.Mono >= t.passed && t.stays() {
		t.Gone, t.Before = append(t.Gone, t.Before), nil
		t.emit(EventStayed, p, nil, "")
		return true
	}
	t.beside(p)
	return false
}

// stays says at the end of the window whether the new process is well.
func (t *step) stays() bool {
	return !has(t.Main.Config, workload.HookStatus) || t.bad < 0
}

// beside runs the hooks beside a process that runs.
func (t *step) beside(p *Place) {
	name := ""
	switch {
	case p.Task != nil:
		name = p.Task.Hook
	case p.Notify:
		name, p.Notify, p.NotifyAgain = workload.HookNotify, false, nil
	case p.NotifyAgain != nil && t.now.Mono >= p.NotifyAgain.at:
		name, p.Task, p.NotifyAgain = workload.HookNotify, p.NotifyAgain, nil
	case has(p.Config, workload.HookStatus) && t.now.Mono >= t.statusAt:
		name = workload.HookStatus
	case has(p.Config, workload.HookReopenLogs) && t.now.Mono >= t.reopenAt:
		name = workload.HookReopenLogs
	default:
		return
	}
	if t.hook(p, name, p.Run) {
		p.Task = nil // the configuration has it no more
	}
}

// turnStop ends the process of what is in force, by its stop hook first.
func (t *step) turnStop(p *Place) bool {
	task := p.Task
	switch {
	case task != nil && task.Run != "" && task.Hook != workload.HookStop:
		t.once("stop "+task.Run, Stop{task.Run, 0})
	case p.Run == "" && (task == nil || task.Run == ""):
		p.Task, p.NotifyAgain = nil, nil
		t.stopped(p)
		return true
	case p.Signalled:
		t.once("stop "+p.Run, Stop{p.Run, t.rules.Grace})
	default:
		if task != nil && task.Hook != workload.HookStop {
			p.Task = nil
		}
		if t.hook(p, workload.HookStop, p.Run) {
			p.Signalled = true
			return true
		}
	}
	return false
}

// stopped goes on where there is no process any more.
func (t *step) stopped(p *Place) {
	why, up := p.Stopping, p.Signalled
	p.Stopping, p.Signalled, t.at = "", false, t.now.Mono
	t.inPlace = up && (why == Replace || why == Again) || why == Back
	switch {
	case why == Remove:
		if t.Before != nil {
			t.Gone = append(t.Gone, t.Before)
		}
		t.Gone = append(t.Gone, p)
		t.Main, t.Before = nil, nil
	case why == Back && t.Before != nil:
		t.Gone = append(t.Gone, p)
		t.Main, t.Before = t.Before, nil
	case t.Next != nil && t.Next.Phase == Ready:
		t.Main, t.Next = t.Next, nil
		if up && t.Before == nil && p.Config.Class == workload.Instance && t.Main.Config.Class == workload.Instance {
			t.Before = p
			return
		}
		t.Gone = append(t.Gone, p)
		if t.Main.Config.Class != workload.Instance && t.Before != nil {
			t.Gone, t.Before = append(t.Gone, t.Before), nil
		}
	case why == Unhealthy:
		t.wait(p)
	}
}

// ended takes in the end of a run.
func (t *step) ended(ev Ended) {
	for _, p := range t.Places() {
		switch {
		case p.Run == ev.Run:
			t.settle(ev.Run)
			t.exited(p, ev.Exit)
			return
		case p.Task != nil && p.Task.Run == ev.Run:
			t.settle(ev.Run)
			t.hooked(p, ev.Exit)
			return
		}
	}
	t.do(Forget{ev.Run}) // told twice
}

func (t *step) settle(run string) {
	t.over("run "+run, "stop "+run)
	t.do(Forget{run})
}

// exited takes in the end of a process.
func (t *step) exited(p *Place, exit wire.WorkloadExit) {
	if exit.At.IsZero() {
		exit.At = t.now.Wall.UTC()
	}
	before := p.Exit
	p.Run, p.Exit = "", &exit
	if p != t.Main || p.Stopping != "" && p.Stopping != Unhealthy {
		return
	}
	if p.Stopping == "" && p.Config.Class == workload.Job && good(exit) {
		p.Done, p.Same = true, 0
		t.emit(EventCompleted, p, nil, "")
		return
	}
	if before != nil && before.Code == exit.Code {
		p.Same++
	} else {
		p.Same = 0
	}
	if p.Stopping == Unhealthy {
		return // it waits when the hooks have ended, too
	}
	p.Unhealthy = 0
	if n := p.Same + 1; announced(n) {
		t.emit(EventExit, p, nil, exit.Words()+times(n))
	}
	if t.Before != nil && (!exit.Lost || p.Same+1 >= mostLost) {
		t.back("it did not stay up: " + exit.Words())
		return
	}
	t.wait(p)
}

// wait puts the next start off by its pause.
func (t *step) wait(p *Place) {
	pause := t.pause(p, workload.HookStart, p.Same)
	t.at, t.next = t.now.Mono+pause, t.now.Wall.Add(pause).UTC().Truncate(time.Second)
}

// back gives up what is in force for what was there before.
func (t *step) back(why string) {
	p := t.Main
	err := wire.New(wire.CodeApplyFailed, "", why)
	if t.dynamic() {
		t.drop()
	}
	if t.Wanted != nil && key(*t.Wanted) == key(p.Config) {
		t.Refused = &Refused{Key: key(p.Config), ID: p.Config.ConfigurationID, Error: err}
	}
	p.Stopping = Back
	t.emit(EventBack, p, err, "")
}

// hooked takes in the end of a hook beside the process.
func (t *step) hooked(p *Place, exit wire.WorkloadExit) {
	task := p.Task
	task.Run = ""
	task.Ends++
	failed := wire.New(wire.CodeApplyFailed, "/resources/"+task.Hook, task.Hook+": "+exit.Words())
	if good(exit) {
		failed = nil
	}
	switch {
	case p == t.Next && task.Hook == workload.HookInstall && failed == nil:
		t.phase(p, Validate)
	case p == t.Next && task.Hook == workload.HookValidate && failed == nil:
		t.phase(p, Ready)
	case p == t.Next && task.Hook == workload.HookValidate && !exit.Lost && exit.Text == "":
		p.Task = nil
		t.refuse(failed)
	case p == t.Next:
		p.Error = failed
		t.later(p, exit)
	case task.Hook == workload.HookUninstall:
		if failed != nil && task.Ends < uninstalls {
			p.Error = failed
			t.later(p, exit)
			return
		}
		if p.Undone, p.Task = true, nil; failed != nil {
			t.emit(EventUndone, p, failed, "")
		}
	case p != t.Main:
		p.Task = nil
	case task.Hook == workload.HookStop:
		p.Task, p.Signalled = nil, true
	case p.Stopping != "":
		p.Task = nil
	case task.Hook == workload.HookNotify:
		if p.Task = nil; task.Of != p.Run || !has(p.Config, workload.HookNotify) {
			return
		}
		if p.Error = failed; failed != nil {
			p.NotifyAgain = task
			t.putOff(p, task, exit)
		}
	case task.Hook == workload.HookStatus:
		p.Task = nil
		if task.Of == p.Run && exit.Lost {
			t.statusAt = t.now.Mono + t.rules.Status
		} else if task.Of == p.Run {
			t.status(p, failed, exit)
		}
	default:
		p.Task, t.reopenAt = nil, t.now.Mono+t.rules.Reopen
	}
}

// status takes in what the status hook says of the process that runs.
func (t *step) status(p *Place, failed *wire.Error, exit wire.WorkloadExit) {
	every := t.rules.Status
	if t.now.Mono < t.passed {
		every = min(every, max(t.rules.Window/statusFaster, firstStatus))
	}
	t.statusAt = t.now.Mono + every
	if failed == nil {
		if t.bad = -1; p.NotifyAgain == nil {
			p.Error = nil
		}
		return
	}
	p.Error = failed
	t.bad = max(t.bad, 0) + 1
	switch {
	case t.now.Mono < t.passed:
		t.bad = 1 // it may still be starting
	case t.Before != nil:
		t.back(failed.Message)
	case t.bad >= badStatus:
		p.Stopping = Unhealthy
		if p.Unhealthy++; announced(p.Unhealthy) {
			t.do(Emit{Type: EventUnhealthy, Err: failed, Detail: Detail{Slot: t.Slot.String(),
				ID: p.Config.ConfigurationID, Exit: &exit, Text: "it is started anew" + times(p.Unhealthy)}})
		}
	}
}

// later has a hook run again after its pause.
func (t *step) later(p *Place, exit wire.WorkloadExit) { t.putOff(p, p.Task, exit) }

func (t *step) putOff(p *Place, task *Task, exit wire.WorkloadExit) {
	if task.Ends > 1 && task.Code == exit.Code {
		task.Same++
	} else {
		task.Same = 0
	}
	task.Code = exit.Code
	task.at = t.now.Mono + t.pause(p, task.Hook, task.Same)
}

// pause is how long a hook waits before it is run again.
func (t *step) pause(p *Place, hook string, same int) time.Duration {
	l := p.Config.TimeLimits[hook]
	if l.MinRestartPeriodMs == nil && l.MaxRestartPeriodMs == nil && l.RestartPeriodScaleMs == nil &&
		l.RestartPeriodBackoff == nil {
		l = DefaultLimit
	}
	return min(max(l.RestartPause(same), leastPause), mostPause)
}

// DefaultLimit holds for a hook whose time limits say nothing of pauses: 2 s, 3 s, 5 s, 9 s, … and then a minute.
var DefaultLimit = workload.Limit{MinRestartPeriodMs: new(int64(1000)), MaxRestartPeriodMs: new(int64(60_000)),
	RestartPeriodScaleMs: new(int64(1000)), RestartPeriodBackoff: new(2.0)}

// limit is for how long a hook may run; 0: for ever.
func limit(p *Place, hook string) time.Duration {
	if d, ok := p.Config.TimeLimits[hook].MaxExecution(); ok {
		return max(d, time.Millisecond)
	}
	switch hook {
	case workload.HookStart:
		return 0
	case workload.HookStop, workload.HookStatus:
		return stopMax
	}
	return hookMax
}

func has(c workload.Config, hook string) bool {
	_, ok := c.Resources[hook]
	return ok
}

func good(e wire.WorkloadExit) bool {
	return e.Code == 0 && e.Signal == "" && e.Text == "" && !e.Late && !e.Lost
}

// announced says whether there is an event for the n-th time in a row: the 1st, 2nd, 4th, 8th …; nobody reads more.
func announced(n int) bool { return n&(n-1) == 0 }

// times says how often in a row.
func times(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(", %d times in a row", n)
}
