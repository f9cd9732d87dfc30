package record

import (
	"fmt"

	"tandem.internal/shared/wire"
)

// reasons are all of them, with whether a run that ended so ended as planned.
var reasons = map[wire.BootReason]bool{
	wire.BootNone: true, wire.BootFirst: true, wire.BootReboot: true, wire.BootStop: true, wire.BootUpdate: true, wire.BootFallback: true, wire.BootDisconnect: true,
	wire.BootFatal: false, wire.BootOOM: false, wire.BootWatchdogHung: false, wire.BootWatchdogPID: false, wire.BootKernel: false, wire.BootPowerFail: false, wire.BootUnknown: false,
}

// Known says whether a reason is one of those that this program writes.
func Known(r wire.BootReason) bool { _, ok := reasons[r]; return ok }

// Evidence is what the machine shows at a start.
type Evidence struct {
	Kernel   string // the kernel's boot ID, a new one with every boot; empty: it cannot be read
	OOMKills uint64 // processes that this kernel has killed for memory
	Panic    string // what kernels have left of their crashes; the same again is no news
}

// why derives why the run before ended: what was written before the end, or else what the machine shows.
func (r Record) why(ev Evidence) (wire.BootReason, string) {
	last := r.Boot
	sameKernel := ev.Kernel != "" && ev.Kernel == last.Kernel
	switch {
	case r.Next != nil:
		return r.Next.Reason, r.Next.Detail
	case last.Number == 0 && r.Why == lost:
		return wire.BootUnknown, lost
	case last.Number == 0:
		return wire.BootFirst, ""
	case ev.Kernel == "" || last.Kernel == "":
		return wire.BootUnknown, "nobody said why, and the kernel's boot ID cannot be read"
	case !sameKernel && ev.Panic != "" && bounded(ev.Panic) != last.Panic:
		return wire.BootKernel, "the kernel has left " + bounded(ev.Panic)
	case !sameKernel:
		return wire.BootPowerFail, "the machine was started again and nobody had said why: power, reset button or hardware watchdog"
	case ev.OOMKills > last.OOMKills:
		return wire.BootOOM, fmt.Sprintf("the agent ended without a word; since its start the kernel has killed %d processes for memory", ev.OOMKills-last.OOMKills)
	}
	return wire.BootFatal, "the agent ended without a word: it crashed or was killed"
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
func (r Record) Unmark(reason wire.BootReason) Record {
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
