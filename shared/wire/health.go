package wire

import (
	"fmt"
	"strconv"
	"time"
)

// Indicator is the number for a light on the node (seed 002, "ledBlinker config"): the state of its connection to the
// controller, or what is wrong. The list only grows.
type Indicator int

// The indicators. From 10 up they are errors.
const (
	IndicatorNoAddress Indicator = 1 // no network address
	IndicatorNoBroker  Indicator = 2 // an address, but no session with the broker
	IndicatorNoContact Indicator = 3 // a session, but no fresh, signed message of the controller
	IndicatorContact   Indicator = 4 // in contact

	IndicatorRefused     Indicator = 10 // the broker refuses this node
	IndicatorCertificate Indicator = 11 // this node's certificate, or the broker's, is not valid
	IndicatorKey         Indicator = 12 // the controller signs with a key that this node does not trust
	IndicatorClock       Indicator = 13 // this node's clock is too far off to check certificates
	IndicatorStorage     Indicator = 14 // the node's state cannot be saved
	IndicatorCheck       Indicator = 15 // a functional check fails
	IndicatorNoSlot      Indicator = 16 // there is no verified slot to restart into
)

// IndicatorTexts has a short text for each indicator.
var IndicatorTexts = map[Indicator]string{
	IndicatorNoAddress:   "no network address",
	IndicatorNoBroker:    "no session with the broker",
	IndicatorNoContact:   "the broker is there, the controller is not heard",
	IndicatorContact:     "in contact with the controller",
	IndicatorRefused:     "the broker refuses this node",
	IndicatorCertificate: "a certificate does not hold",
	IndicatorKey:         "the controller's key is not trusted",
	IndicatorClock:       "the clock is too far off",
	IndicatorStorage:     "the node's state cannot be saved",
	IndicatorCheck:       "a functional check fails",
	IndicatorNoSlot:      "no verified slot to restart into",
}

// Health is the detail of a reported/health envelope; the seed calls it the NodeAgent status.
type Health struct {
	Indicator  Indicator         `json:"indicator"`            // number for a light on the node
	Text       string            `json:"text"`                 // Indicator in words
	Contact    HealthContact     `json:"contact"`              // with the controller
	Slots      []HealthSlot      `json:"slots,omitempty"`      // A/B slots of the agent
	Current    string            `json:"current,omitempty"`    // the slot that runs, by ID
	Components []HealthComponent `json:"components,omitempty"` // other parts of the node that are updated on trial
	Quarantine []HealthFailed    `json:"quarantine,omitempty"` // what has failed on trial, the oldest first
	Trial      *HealthTrial      `json:"trial,omitempty"`      // of the agent or a component
	Restart    *HealthRestart    `json:"restart,omitempty"`    // a restart that was decided and has not happened yet
	Boot       HealthBoot        `json:"boot"`                 // why and when the node started
	Checks     []HealthCheck     `json:"checks,omitempty"`     // functional checks
	// end of announced maintenance, by the node's clock; until then time without contact does not count
	Maintenance time.Time      `json:"maintenance,omitzero"`
	Settings    HealthSettings `json:"settings"` // in effect, complete
	// for how long nothing has begun or ended; absent: an older agent, which does not tell
	Quiet *HealthQuiet `json:"quiet,omitzero"`
	// what was used of the node on average when that was told last; absent: an older agent, or nothing was measured yet
	Load *HealthLoad `json:"load,omitzero"`
}

// HealthLoad is what is used of a node on average over the last minute, as shares of all of it, from 0 to 1.
type HealthLoad struct {
	CPU float64 `json:"cpu"` // of all processors
	RAM float64 `json:"ram"` // that no program could get
}

// ContactResult is the result of an attempt to hear from the controller.
type ContactResult string

// Only ContactSuccess renews contact; ContactTemporary shows that the network works.
const (
	ContactSuccess   ContactResult = "success"   // a fresh signed message, or an accepted document
	ContactTemporary ContactResult = "temporary" // the controller's side answered, but could not serve
	ContactFailure   ContactResult = "failure"   // it could not be reached, or has announced that it is down
	ContactSaved     ContactResult = "saved"     // the node works from its saved documents
)

func (r ContactResult) known() bool {
	return r == ContactSuccess || r == ContactTemporary || r == ContactFailure || r == ContactSaved
}

// HealthContact is the node's contact with the controller. Times are by the node's clock.
type HealthContact struct {
	In       bool          `json:"in"`                // there is contact
	Since    time.Time     `json:"since,omitzero"`    // when In last changed
	Result   ContactResult `json:"result,omitempty"`  // result of the newest attempt
	Last     time.Time     `json:"last,omitzero"`     // the newest success in this boot
	Document time.Time     `json:"document,omitzero"` // when a document was last accepted, and not rejected
}

// SlotState is the state of an agent slot, or of a component (seed 002, "zboot status").
type SlotState string

// Active: good, and started by default. Updating: written, and not tried yet. In progress: on trial. Unused: none of
// these.
const (
	SlotActive     SlotState = "active"
	SlotUpdating   SlotState = "updating"
	SlotInProgress SlotState = "inprogress"
	SlotUnused     SlotState = "unused"
)

func (s SlotState) known() bool {
	return s == SlotActive || s == SlotUpdating || s == SlotInProgress || s == SlotUnused
}

// HealthSlot is one agent slot of the node.
type HealthSlot struct {
	ID       string    `json:"id"`                // of the slot
	State    SlotState `json:"state"`             // of the slot
	Version  string    `json:"version,omitempty"` // that it holds
	Verified bool      `json:"verified,omitzero"` // its content has the expected hash
	Hash     string    `json:"hash,omitempty"`    // of its content, while that waits for a trial
}

// HealthComponent is a part of the node, other than the agent, that a program updates on trial.
type HealthComponent struct {
	Name string `json:"name"` // of the component
	// state of Next, if there is one; else active, or unused if no version is known
	State   SlotState `json:"state"`
	Version string    `json:"version,omitempty"` // in force
	Next    string    `json:"next,omitempty"`    // being installed, installed, on trial, or to be removed
	Hash    string    `json:"hash,omitempty"`    // of the content of Next, while that waits for a trial
	Running string    `json:"running,omitempty"` // version that runs, as reported by the program
	Text    string    `json:"text,omitempty"`    // what the update does now, or why the newest one failed
}

// HealthFailed is content that has failed on trial: it is refused unless somebody insists.
type HealthFailed struct {
	Component string    `json:"component,omitempty"` // empty: the agent
	Version   string    `json:"version"`             // that failed
	Hash      string    `json:"hash"`                // of its content
	Text      string    `json:"text,omitempty"`      // why
	At        time.Time `json:"at"`                  // when, by the node's clock
}

// MaxQuarantine is the most contents that a report has in Quarantine.
const MaxQuarantine = 16

// HealthTrial is a trial of a slot, or of a component, that is under way.
type HealthTrial struct {
	Slot      string    `json:"slot"`                // slot; for a component, its name
	Component string    `json:"component,omitempty"` // on trial; empty: the agent
	Version   string    `json:"version"`             // on trial
	Since     time.Time `json:"since"`               // when it first started
	Remaining Span      `json:"remaining,omitzero"`  // rest of the test time, which passes only in good health
	// running time until it is rolled back; absent: it has passed, see WaitsFor
	Deadline Span `json:"deadline,omitzero"`
	// the node had no contact before the trial, so contact is not required in time
	Offline  bool         `json:"offline,omitzero"`
	Approval string       `json:"approval,omitempty"` // needed, or who has approved
	WaitsFor []HealthWait `json:"waitsFor,omitempty"` // conditions of a commit that do not hold yet
}

// ApprovalNeeded is the value of HealthTrial.Approval while nobody has approved.
const ApprovalNeeded = "needed"

// WaitCode is a condition that a trial waits for. The list only grows.
type WaitCode string

// The conditions that a trial may wait for.
const (
	WaitSlots       WaitCode = "slots"       // the state of the slots is known
	WaitMaintenance WaitCode = "maintenance" // announced maintenance has ended
	// a check that was good before the trial, or is new, is good
	WaitCheck    WaitCode = "check"
	WaitContact  WaitCode = "contact"   // there is contact, and there was a fresh message since the trial began
	WaitApproval WaitCode = "approval"  // somebody has approved
	WaitTestTime WaitCode = "test-time" // the test time has passed in good health
	WaitCommit   WaitCode = "commit"    // the commit is written
	WaitRestart  WaitCode = "restart"   // a restart that was decided has happened
	WaitWayBack  WaitCode = "way-back"  // there is a verified slot to roll back to
)

// HealthWait is one condition that a trial waits for.
type HealthWait struct {
	Code WaitCode `json:"code"`           // the condition, for programs
	Name string   `json:"name,omitempty"` // of the check
	Text string   `json:"text"`           // the condition, for people
}

// BootReason is why a node, or its agent, has started (seed 002). If there are several reasons, the one that was
// written first counts. The list only grows; receivers take an unknown reason as text.
type BootReason string

// The reasons of a start.
const (
	BootNone         BootReason = "none"           // there is no earlier run
	BootFirst        BootReason = "first"          // the first start on this node
	BootReboot       BootReason = "reboot-command" // ordered by the controller or an operator
	BootStop         BootReason = "stop"           // stopped in good order
	BootUpdate       BootReason = "update"         // to try a slot
	BootFallback     BootReason = "fallback"       // a trial was rolled back; the detail says why
	BootDisconnect   BootReason = "disconnect"     // no contact for the reset time
	BootFatal        BootReason = "fatal"          // the agent crashed or was killed
	BootOOM          BootReason = "oom"            // out of memory
	BootWatchdogHung BootReason = "watchdog-hung"  // a loop of the agent hung
	BootWatchdogPID  BootReason = "watchdog-pid"   // a watched program hung or ended
	BootKernel       BootReason = "kernel"         // the kernel crashed
	BootPowerFail    BootReason = "power-fail"     // the machine went down without a recorded reason
	BootUnknown      BootReason = "unknown"        // no reason was recorded
)

// HealthRestart is a restart that has been decided: of the machine, or into another slot.
type HealthRestart struct {
	Reason BootReason `json:"reason"`           // why it is to restart
	Detail string     `json:"detail,omitempty"` // in words
	At     time.Time  `json:"at"`               // not before this time, by the node's clock
}

// HealthBoot is the newest start of the node.
type HealthBoot struct {
	Reason   BootReason `json:"reason"`           // why the node started
	Detail   string     `json:"detail,omitempty"` // in words
	Restarts uint64     `json:"restarts"`         // how often this node has started
	At       time.Time  `json:"at"`               // by the node's clock
}

// Postponed reports whether the restart that was decided waits for the end of a trial, so that its time is not known.
// A restart that rolls the trial back does not wait.
func (h *Health) Postponed() bool {
	return h.Restart != nil && h.Trial != nil && h.Restart.Reason != BootFallback
}

// HealthCheck is the newest result of one check.
type HealthCheck struct {
	Name    string    `json:"name"`              // of the check
	OK      bool      `json:"ok"`                // the check passes
	Message string    `json:"message,omitempty"` // text of the check
	Since   time.Time `json:"since"`             // when OK last changed, by the node's clock
}

// RebootParams ask the node to reboot the machine, after a trial if there is one.
type RebootParams struct {
	Reason string `json:"reason"` // for the journal and the node's boot reason
}

// TryParams ask the node to start the staged version of the agent, or of a component, on trial.
type TryParams struct {
	Component string `json:"component,omitempty"` // empty: the agent itself
	Version   string `json:"version,omitempty"`   // version that must be staged; empty: any
	Force     bool   `json:"force,omitzero"`      // also if that content has failed before
}

// ApproveParams allow the node to keep the version on trial.
type ApproveParams struct {
	Version string `json:"version"` // version that must be on trial
}

func (h *Health) check() error {
	if h.Indicator <= 0 {
		return New(CodeMissing, "/indicator", "required, from 1")
	}
	if err := first(plain("/text", h.Text), plain("/current", h.Current),
		optional("/contact/since", h.Contact.Since), optional("/contact/last", h.Contact.Last),
		optional("/contact/document", h.Contact.Document), optional("/maintenance", h.Maintenance),
		text("/boot/reason", string(h.Boot.Reason)), plain("/boot/detail", h.Boot.Detail),
		instant("/boot/at", h.Boot.At)); err != nil {
		return err
	}
	if l := h.Load; l != nil && (!(l.CPU >= 0 && l.CPU <= 1) || !(l.RAM >= 0 && l.RAM <= 1)) {
		return New(CodeBadValue, "/load", "shares are from 0 to 1")
	}
	if r := h.Contact.Result; r != "" && !r.known() {
		return New(CodeBadValue, "/contact/result", "no such result")
	}
	if len(h.Slots) > maxList {
		return New(CodeTooLarge, "/slots", "more than "+strconv.Itoa(maxList))
	}
	for i, s := range h.Slots {
		at := "/slots/" + strconv.Itoa(i)
		if err := first(name(at+"/id", s.ID), plain(at+"/version", s.Version)); err != nil {
			return err
		}
		if !s.State.known() {
			return New(CodeBadValue, at+"/state", "no such state")
		}
		if err := first(content(at+"/hash", s.Hash)); err != nil {
			return err
		}
	}
	if len(h.Components) > maxList {
		return New(CodeTooLarge, "/components", "more than "+strconv.Itoa(maxList))
	}
	for i, c := range h.Components {
		at := "/components/" + strconv.Itoa(i)
		if err := first(name(at+"/name", c.Name), plain(at+"/version", c.Version), plain(at+"/next", c.Next),
			content(at+"/hash", c.Hash), plain(at+"/running", c.Running), plain(at+"/text", c.Text)); err != nil {
			return err
		}
		if !c.State.known() {
			return New(CodeBadValue, at+"/state", "no such state")
		}
	}
	if err := h.checkQuarantine(); err != nil {
		return err
	}
	if r := h.Restart; r != nil {
		if err := first(text("/restart/reason", string(r.Reason)), plain("/restart/detail", r.Detail),
			instant("/restart/at", r.At)); err != nil {
			return err
		}
	}
	if len(h.Checks) > maxList {
		return New(CodeTooLarge, "/checks", "more than "+strconv.Itoa(maxList))
	}
	for i, c := range h.Checks {
		at := "/checks/" + strconv.Itoa(i)
		if err := first(text(at+"/name", c.Name), plain(at+"/message", c.Message),
			instant(at+"/since", c.Since)); err != nil {
			return err
		}
	}
	if h.Trial != nil {
		if err := h.Trial.check(); err != nil {
			return err
		}
	}
	if err := h.Quiet.check(); err != nil {
		return err
	}
	return within("/settings", h.Settings.check())
}

func (h *Health) checkQuarantine() error {
	if len(h.Quarantine) > MaxQuarantine {
		return New(CodeTooLarge, "/quarantine", "more than "+strconv.Itoa(MaxQuarantine))
	}
	for i, q := range h.Quarantine {
		at := "/quarantine/" + strconv.Itoa(i)
		if q.Component != "" {
			if err := first(name(at+"/component", q.Component)); err != nil {
				return err
			}
		}
		if err := first(plain(at+"/version", q.Version), hash(at+"/hash", q.Hash), plain(at+"/text", q.Text),
			instant(at+"/at", q.At)); err != nil {
			return err
		}
	}
	return nil
}

// content is as hash, for one that may be absent.
func content(path, h string) *Error {
	if h == "" {
		return nil
	}
	return hash(path, h)
}

func (t *HealthTrial) check() error {
	if t.Component != "" {
		if err := first(name("/trial/component", t.Component)); err != nil {
			return err
		}
	}
	if err := first(name("/trial/slot", t.Slot), plain("/trial/version", t.Version),
		instant("/trial/since", t.Since), plain("/trial/approval", t.Approval)); err != nil {
		return err
	}
	if len(t.WaitsFor) > maxList {
		return New(CodeTooLarge, "/trial/waitsFor", "more than "+strconv.Itoa(maxList))
	}
	for i, w := range t.WaitsFor {
		at := fmt.Sprintf("/trial/waitsFor/%d", i)
		if err := first(text(at+"/code", string(w.Code)), plain(at+"/name", w.Name),
			plain(at+"/text", w.Text)); err != nil {
			return err
		}
	}
	return nil
}

// optional is as instant, for a time that may be absent.
func optional(path string, t time.Time) *Error {
	if t.IsZero() {
		return nil
	}
	return instant(path, t)
}

// within returns err as an *Error with path in front of its own path; nil if err is nil.
func within(path string, err error) error {
	if err == nil {
		return nil
	}
	e := AsError(err)
	return New(e.Code, path+e.Path, e.Message)
}
