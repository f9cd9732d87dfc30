package app

import (
	"time"

	"tandem.internal/nodeagent/internal/health"
	"tandem.internal/nodeagent/internal/watch/judge"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/event"
)

// takeVerdict takes in what the watchdog says of a loop or a program.
func (a *Agent) takeVerdict(r judge.Report) {
	name := r.Name
	if r.Program {
		name = programCheck + r.Name
	}
	trouble := r.Verdict
	if r.Verdict == judge.Back || r.Verdict == judge.Gone {
		trouble = ""
	}
	a.node.programs[name] = trouble
	a.emit(event.Watchdog, nil, event.WatchdogDetail{Name: r.Name, Program: r.Program, Verdict: string(r.Verdict),
		For: duration.Duration(r.For.Truncate(time.Second)), Text: r.Trouble})
	switch {
	case !r.Program:
		a.checkModules()
	case r.Verdict == judge.Gone:
		delete(a.node.programs, name)
		a.healthEvent(health.Gone{Name: name})
	default:
		a.checkProgram(name)
	}
}

// checkProgram is the check of a watched program. It does not go stale: the watchdog says what changes.
func (a *Agent) checkProgram(name string) {
	verdict := a.node.programs[name]
	a.healthEvent(health.Check{Name: name, OK: verdict == "", Message: string(verdict), TTL: far})
}
