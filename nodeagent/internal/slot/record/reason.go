package record

import "fmt"

// Reason says why the agent, or the machine, was started again (seed 002, NodeAgent status).
type Reason string

// The reasons.
const (
	ReasonNone         Reason = "none"           // there is no earlier run
	ReasonFirst        Reason = "first"          // the first start on this node
	ReasonReboot       Reason = "reboot-command" // the controller or an operator ordered it
	ReasonStop         Reason = "stop"           // stopped in order: by the service manager or a person
	ReasonUpdate       Reason = "update"         // to start a slot on trial
	ReasonFallback     Reason = "fallback"       // a trial failed
	ReasonDisconnect   Reason = "disconnect"     // no contact with the controller for the reset time
	ReasonFatal        Reason = "fatal"          // the agent crashed or was killed
	ReasonOOM          Reason = "oom"            // the kernel ran out of memory and killed it
	ReasonWatchdogHung Reason = "watchdog-hung"  // a loop of the agent made no progress
	ReasonWatchdogPID  Reason = "watchdog-pid"   // a program that the agent watches made no progress
	ReasonKernel       Reason = "kernel"         // the kernel crashed
	ReasonPowerFail    Reason = "power-fail"     // the machine went down without a word
	ReasonUnknown      Reason = "unknown"
)

// reasons are all of them, with whether a run that ended so ended as planned.
var reasons = map[Reason]bool{
	ReasonNone: true, ReasonFirst: true, ReasonReboot: true, ReasonStop: true, ReasonUpdate: true, ReasonFallback: true, ReasonDisconnect: true,
	ReasonFatal: false, ReasonOOM: false, ReasonWatchdogHung: false, ReasonWatchdogPID: false, ReasonKernel: false, ReasonPowerFail: false, ReasonUnknown: false,
}

// Known says whether r is one of the reasons.
func (r Reason) Known() bool { _, ok := reasons[r]; return ok }

// Evidence is what the machine shows at a start.
type Evidence struct {
	Kernel   string // the kernel's boot ID, a new one with every boot; empty: it cannot be read
	OOMKills uint64 // processes that this kernel has killed for memory
	Panic    string // what kernels have left of their crashes; the same again is no news
}

// why derives why the run before ended: what was written before the end, or else what the machine shows.
func (r Record) why(ev Evidence) (Reason, string) {
	last := r.Boot
	sameKernel := ev.Kernel != "" && ev.Kernel == last.Kernel
	switch {
	case r.Next != nil:
		return r.Next.Reason, r.Next.Detail
	case last.Number == 0 && r.Why == lost:
		return ReasonUnknown, lost
	case last.Number == 0:
		return ReasonFirst, ""
	case ev.Kernel == "" || last.Kernel == "":
		return ReasonUnknown, "nobody said why, and the kernel's boot ID cannot be read"
	case !sameKernel && ev.Panic != "" && bounded(ev.Panic) != last.Panic:
		return ReasonKernel, "the kernel has left " + bounded(ev.Panic)
	case !sameKernel:
		return ReasonPowerFail, "the machine was started again and nobody had said why: power, reset button or hardware watchdog"
	case ev.OOMKills > last.OOMKills:
		return ReasonOOM, fmt.Sprintf("the agent ended without a word; since its start the kernel has killed %d processes for memory", ev.OOMKills-last.OOMKills)
	}
	return ReasonFatal, "the agent ended without a word: it crashed or was killed"
}

// Mark writes why the agent is about to end, unless somebody has written that before. It returns what
// stands.
func (r Record) Mark(m Mark) (Record, Mark) {
	if r.Next != nil {
		return r, *r.Next
	}
	m.Detail = bounded(m.Detail)
	r.Next = &m
	return r, m
}

// Unmark takes back why the agent was about to end, if this was the reason.
func (r Record) Unmark(reason Reason) Record {
	if r.Next != nil && r.Next.Reason == reason {
		r.Next = nil
	}
	return r
}

// Reported takes the starts up to number off the list of those to be reported.
func (r Record) Reported(number uint64) Record {
	var left []Boot
	for _, b := range r.Unreported {
		if b.Number > number {
			left = append(left, b)
		}
	}
	r.Unreported = left
	if len(left) == 0 {
		r.Dropped = 0
	}
	return r
}

// began makes a new start the current one, without a slot yet.
func (r Record) began(ev Evidence) Record {
	reason, detail := r.why(ev)
	planned := reasons[reason]
	if r.Next != nil {
		planned = r.Next.Planned
	}
	b := Boot{Number: r.Boot.Number + 1, Reboots: r.Boot.Reboots, Reason: reason, Detail: detail, Kernel: ev.Kernel, OOMKills: ev.OOMKills, Panic: bounded(ev.Panic)}
	if ev.Kernel == "" || ev.Kernel != r.Boot.Kernel {
		b.Reboots++
	}
	if ev.Kernel == "" && r.Boot.Number > 0 {
		b.Reboots = r.Boot.Reboots
	}
	if !planned {
		b.Crashes = r.Boot.Crashes + 1
	}
	r.Boot, r.Next = b, nil
	return r
}

// booted settles the current start: which slot it is. The list of starts to be reported ends with it.
func (r Record) booted(id ID, trial bool) Record {
	r.Boot.Slot, r.Boot.Trial, r.Boot.Note = id, trial, bounded(r.Boot.Note)
	list := make([]Boot, 0, len(r.Unreported)+1)
	for _, b := range r.Unreported {
		if b.Number != r.Boot.Number {
			list = append(list, b)
		}
	}
	list = append(list, r.Boot)
	if over := len(list) - maxUnreported; over > 0 {
		r.Dropped += uint64(over)
		list = list[over:]
	}
	r.Unreported = list
	return r
}
