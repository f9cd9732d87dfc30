// Package boot knows why the agent was started, and of which starts the controller has not been told. Its History is a
// part of the launcher's record (package slot/record), whose format the launchers of all releases share.
//
// It guarantees that a reason that was written before an end is not overwritten, and that a start stays in the history
// until somebody says that it was reported. It does not decide what is started. It is pure: no disk, clock or process.
//
//tandem:pure
package boot

import (
	"fmt"

	"tandem.internal/shared/wire"
)

// Slot names what was started; package slot/record says which slots there are.
type Slot string

// Mark says why the agent is about to end. It is written before the end.
type Mark struct {
	Reason wire.BootReason `json:"reason"`
	Detail string          `json:"detail,omitzero"`
	// Planned: the agent is whole and ends on purpose. No try is consumed.
	Planned bool `json:"planned,omitzero"`
}

// Start is one start of the agent.
type Start struct {
	Number  uint64          `json:"number,omitzero"`  // of all starts ever: the restart counter, from 1
	Reboots uint64          `json:"reboots,omitzero"` // starts of the machine that were seen, from 1
	Crashes uint64          `json:"crashes,omitzero"` // starts in a row after an end that nobody had planned
	Reason  wire.BootReason `json:"reason,omitzero"`  // why the run before ended
	Detail  string          `json:"detail,omitzero"`
	Slot    Slot            `json:"slot,omitzero"` // that was started
	Trial   bool            `json:"trial,omitzero"`
	Note    string          `json:"note,omitzero"` // why that slot, if it is not the one that was to be expected

	Kernel   string `json:"kernel,omitzero"`   // the kernel's boot ID; empty: unknown
	OOMKills uint64 `json:"oomKills,omitzero"` // by the kernel until this start
	Panic    string `json:"panic,omitzero"`    // Evidence.Panic at this start
}

// History is why the agent was started and is about to end. Its members are members of the launcher's record: they are
// never renamed, and keep their meaning.
type History struct {
	Next *Mark `json:"next,omitzero"` // nil: nobody has said why the agent is about to end
	Boot Start `json:"boot,omitzero"` // the newest start

	Unreported []Start `json:"unreported,omitzero"` // starts that the controller has not been told of, oldest first
	Dropped    uint64  `json:"dropped,omitzero"`    // starts that were left out because there were too many
}

// Limits.
const (
	MaxUnreported = 16
	maxText       = 500 // bytes of a detail
)

// Lost is the detail of a first start that is the first only because the record was lost.
const Lost = "the record was lost and has been rebuilt from what the slots hold"

// planned says of each reason whether a run that ended so ended as planned.
var planned = map[wire.BootReason]bool{
	wire.BootNone: true, wire.BootFirst: true, wire.BootReboot: true, wire.BootStop: true, wire.BootUpdate: true,
	wire.BootFallback: true, wire.BootDisconnect: true,
	wire.BootFatal: false, wire.BootOOM: false, wire.BootWatchdogHung: false, wire.BootWatchdogPID: false,
	wire.BootKernel: false, wire.BootPowerFail: false, wire.BootUnknown: false,
}

// Known says whether a reason is one of those that this program writes.
func Known(r wire.BootReason) bool { _, ok := planned[r]; return ok }

// Crash says whether a run that ended so may itself be to blame. Lost power is nobody's fault.
func Crash(r wire.BootReason) bool {
	return Known(r) && !planned[r] && r != wire.BootPowerFail && r != wire.BootUnknown
}

// Evidence is what the machine shows at a start.
type Evidence struct {
	Kernel   string // the kernel's boot ID, a new one with every boot; empty: it cannot be read
	OOMKills uint64 // processes that this kernel has killed for memory
	Panic    string // what kernels have left of their crashes; the same again is no news
}

// why derives why the run before ended: what was written before the end, or else what the machine shows. lost says that
// the history was lost with the record.
func (h History) why(ev Evidence, lost bool) (wire.BootReason, string) {
	last := h.Boot
	sameKernel := ev.Kernel != "" && ev.Kernel == last.Kernel
	switch {
	case h.Next != nil:
		return h.Next.Reason, h.Next.Detail
	case last.Number == 0 && lost:
		return wire.BootUnknown, Lost
	case last.Number == 0:
		return wire.BootFirst, ""
	case ev.Kernel == "" || last.Kernel == "":
		return wire.BootUnknown, "nobody said why, and the kernel's boot ID cannot be read"
	case !sameKernel && ev.Panic != "" && Bounded(ev.Panic) != last.Panic:
		return wire.BootKernel, "the kernel has left " + Bounded(ev.Panic)
	case !sameKernel:
		return wire.BootPowerFail,
			"the machine was started again and nobody had said why: power, reset button or hardware watchdog"
	case ev.OOMKills > last.OOMKills:
		return wire.BootOOM, fmt.Sprintf("the agent ended without a word; "+
			"since its start the kernel has killed %d processes for memory", ev.OOMKills-last.OOMKills)
	}
	return wire.BootFatal, "the agent ended without a word: it crashed or was killed"
}

// Mark writes why the agent is about to end, unless somebody has written that before. It returns what stands.
func (h *History) Mark(m Mark) Mark {
	if h.Next == nil {
		m.Detail = Bounded(m.Detail)
		h.Next = &m
	}
	return *h.Next
}

// Unmark takes back why the agent was about to end, if this was the reason.
func (h *History) Unmark(reason wire.BootReason) {
	if h.Next != nil && h.Next.Reason == reason {
		h.Next = nil
	}
}

// Reported takes the starts up to number off the list of those to be reported.
func (h *History) Reported(number uint64) {
	var left []Start
	for _, b := range h.Unreported {
		if b.Number > number {
			left = append(left, b)
		}
	}
	h.Unreported = left
	if len(left) == 0 {
		h.Dropped = 0
	}
}

// Begin makes a new start the newest one, without a slot yet. lost says that the history was lost with the record.
func (h *History) Begin(ev Evidence, lost bool) {
	reason, detail := h.why(ev, lost)
	asPlanned := planned[reason]
	if h.Next != nil {
		asPlanned = h.Next.Planned
	}
	b := Start{Number: h.Boot.Number + 1, Reboots: h.Boot.Reboots, Reason: reason, Detail: detail,
		Kernel: ev.Kernel, OOMKills: ev.OOMKills, Panic: Bounded(ev.Panic)}
	if ev.Kernel == "" || ev.Kernel != h.Boot.Kernel {
		b.Reboots++
	}
	if ev.Kernel == "" && h.Boot.Number > 0 {
		b.Reboots = h.Boot.Reboots
	}
	if !asPlanned {
		b.Crashes = h.Boot.Crashes + 1
	}
	h.Boot, h.Next = b, nil
}

// Settle says which slot the newest start is of. The list of starts to be reported ends with it.
func (h *History) Settle(slot Slot, trial bool) {
	h.Boot.Slot, h.Boot.Trial, h.Boot.Note = slot, trial, Bounded(h.Boot.Note)
	list := make([]Start, 0, len(h.Unreported)+1)
	for _, b := range h.Unreported {
		if b.Number != h.Boot.Number {
			list = append(list, b)
		}
	}
	list = append(list, h.Boot)
	if over := len(list) - MaxUnreported; over > 0 {
		h.Dropped += uint64(over)
		list = list[over:]
	}
	h.Unreported = list
}

// Bounded makes a text one line of limited length, as the record keeps it.
func Bounded(s string) string { return wire.Plain(s, maxText) }
