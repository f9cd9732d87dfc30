package wire

import (
	"fmt"
	"strconv"
	"time"
)

// Indicator is what a node's link light shows (seed 002, "ledBlinker config"): how far the node has
// come on its way to the controller, or what is wrong. The list only grows.
type Indicator int

// The indicators. From 10 up they are errors.
const (
	IndicatorNoAddress Indicator = 1 // no network address
	IndicatorNoBroker  Indicator = 2 // an address, but no session with the broker
	IndicatorNoContact Indicator = 3 // the broker, but no word from the controller that is signed and fresh
	IndicatorContact   Indicator = 4 // in contact

	IndicatorRefused     Indicator = 10 // the broker refuses this node
	IndicatorCertificate Indicator = 11 // this node's certificate, or the broker's, does not hold
	IndicatorKey         Indicator = 12 // the controller signs with a key that this node does not trust
	IndicatorClock       Indicator = 13 // this node's clock is too far off to check certificates
	IndicatorStorage     Indicator = 14 // the node's state cannot be saved
	IndicatorCheck       Indicator = 15 // a functional check fails
	IndicatorNoSlot      Indicator = 16 // there is no verified slot to restart into
)

// IndicatorTexts has a few words for each indicator.
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

// Health is the detail of a reported/health envelope: what the seed calls the NodeAgent status.
type Health struct {
	Indicator  Indicator         `json:"indicator"`            // what the node's link light shows
	Text       string            `json:"text"`                 // Indicator, in a few words
	Contact    HealthContact     `json:"contact"`              // with the controller
	Slots      []HealthSlot      `json:"slots,omitempty"`      // A/B slots of the agent
	Current    string            `json:"current,omitempty"`    // the slot that runs, by ID
	Components []HealthComponent `json:"components,omitempty"` // other parts of the node that are updated on trial
	Trial      *HealthTrial      `json:"trial,omitempty"`      // of the agent or a component
	Restart    *HealthRestart    `json:"restart,omitempty"`    // wanted and not done yet
	Boot       HealthBoot        `json:"boot"`                 // why and when the node started
	Checks     []HealthCheck     `json:"checks,omitempty"`     // functional checks
	// by the node's clock: until then its clocks stand still
	Maintenance time.Time      `json:"maintenance,omitzero"`
	Settings    HealthSettings `json:"settings"` // in effect, complete
}

// ContactResult is how an attempt to hear from the controller ended.
type ContactResult string

// Only success refreshes contact; a temporary failure shows that the road is there.
const (
	ContactSuccess   ContactResult = "success"   // a fresh signed message, or an accepted document
	ContactTemporary ContactResult = "temporary" // the controller's side answered, but could not serve
	ContactFailure   ContactResult = "failure"   // it could not be reached, or says that it is down
	ContactSaved     ContactResult = "saved"     // the node works from what it had saved
)

func (r ContactResult) known() bool {
	return r == ContactSuccess || r == ContactTemporary || r == ContactFailure || r == ContactSaved
}

// HealthContact is the node's contact with the controller. Times are the node's clock.
type HealthContact struct {
	In       bool          `json:"in"`                // there is contact
	Since    time.Time     `json:"since,omitzero"`    // of In, as it is
	Result   ContactResult `json:"result,omitempty"`  // the newest
	Last     time.Time     `json:"last,omitzero"`     // the newest success in this boot
	Document time.Time     `json:"document,omitzero"` // when the last good document came
}

// SlotState is what a slot holds (seed 002, "zboot status").
type SlotState string

// Active: good and booted by default. Updating: written, not tried yet. Inprogress: booted on
// trial. Unused: neither.
const (
	SlotActive     SlotState = "active"
	SlotUpdating   SlotState = "updating"
	SlotInProgress SlotState = "inprogress"
	SlotUnused     SlotState = "unused"
)

func (s SlotState) known() bool {
	return s == SlotActive || s == SlotUpdating || s == SlotInProgress || s == SlotUnused
}

// HealthSlot is one of the node's slots.
type HealthSlot struct {
	ID       string    `json:"id"`                // of the slot
	State    SlotState `json:"state"`             // of the slot
	Version  string    `json:"version,omitempty"` // that it holds
	Verified bool      `json:"verified,omitzero"` // what it holds has the hash that it should have
}

// HealthComponent is a part of the node other than the agent, which a program of its own updates.
type HealthComponent struct {
	Name string `json:"name"` // of the component
	// of Next, if there is one; else active, or unused: no version is known
	State   SlotState `json:"state"`
	Version string    `json:"version,omitempty"` // in force
	Next    string    `json:"next,omitempty"`    // being installed, installed, on trial, or given up and not left yet
	Running string    `json:"running,omitempty"` // as the program says
	Text    string    `json:"text,omitempty"`    // what it is at, or how the newest update failed
}

// HealthTrial is a trial of a slot, or of a component, that is under way.
type HealthTrial struct {
	Slot      string    `json:"slot"`                // of a component: its name
	Component string    `json:"component,omitempty"` // on trial; empty: the agent
	Version   string    `json:"version"`             // on trial
	Since     time.Time `json:"since"`               // when it first started
	Remaining Span      `json:"remaining,omitzero"`  // test time still to pass in good health
	// running time until it is rolled back; absent: passed, see WaitsFor
	Deadline Span `json:"deadline,omitzero"`
	// the site had no contact before the trial, so none is expected in time
	Offline  bool         `json:"offline,omitzero"`
	Approval string       `json:"approval,omitempty"` // needed, or given: by whom
	WaitsFor []HealthWait `json:"waitsFor,omitempty"` // what a commit needs and does not have
}

// ApprovalNeeded is a trial's Approval that has not been given.
const ApprovalNeeded = "needed"

// WaitCode names what a trial waits for. The list only grows.
type WaitCode string

// The things that a trial may wait for.
const (
	WaitSlots       WaitCode = "slots"       // the state of the slots is not known
	WaitMaintenance WaitCode = "maintenance" // the controller's maintenance ends
	// a functional check that was good before the trial, or is new, is not good
	WaitCheck    WaitCode = "check"
	WaitContact  WaitCode = "contact"   // the controller, heard since the trial's start and still
	WaitApproval WaitCode = "approval"  // someone says that it may be kept
	WaitTestTime WaitCode = "test-time" // the test time passes in good health
	WaitCommit   WaitCode = "commit"    // the commit is being written
	WaitRestart  WaitCode = "restart"   // a restart has been decided
	WaitWayBack  WaitCode = "way-back"  // it should be rolled back, but no verified slot is there
)

// HealthWait is one thing that a trial waits for.
type HealthWait struct {
	Code WaitCode `json:"code"`           // what is missing, for programs
	Name string   `json:"name,omitempty"` // of the check
	Text string   `json:"text"`           // what is missing, for people
}

// BootReason is why a node, or its agent, started (seed 002; the first writer wins). The list only
// grows, and one that is not known passes as text.
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
	BootWatchdogHung BootReason = "watchdog-hung"  // a loop of the agent stood still
	BootWatchdogPID  BootReason = "watchdog-pid"   // a program that the agent watches did
	BootKernel       BootReason = "kernel"         // the kernel crashed
	BootPowerFail    BootReason = "power-fail"     // the machine went down without a word
	BootUnknown      BootReason = "unknown"        // nobody has written a reason
)

// HealthRestart is a restart that has been decided: of the machine, or into another slot.
type HealthRestart struct {
	Reason BootReason `json:"reason"`           // why it is to restart
	Detail string     `json:"detail,omitempty"` // in a few words
	At     time.Time  `json:"at"`               // not earlier than this, by the node's clock
}

// HealthBoot tells of the newest start.
type HealthBoot struct {
	Reason   BootReason `json:"reason"`           // why the node started
	Detail   string     `json:"detail,omitempty"` // in a few words
	Restarts uint64     `json:"restarts"`         // how often this node has started
	At       time.Time  `json:"at"`               // by the node's clock
}

// Postponed reports whether the decided restart waits for the end of the trial, so that its time is not
// known. Only a restart that ends the trial does not wait.
func (h *Health) Postponed() bool {
	return h.Restart != nil && h.Trial != nil && h.Restart.Reason != BootFallback
}

// HealthCheck is the newest verdict of one functional check.
type HealthCheck struct {
	Name    string    `json:"name"`              // of the check
	OK      bool      `json:"ok"`                // the check passes
	Message string    `json:"message,omitempty"` // what the check says
	Since   time.Time `json:"since"`             // of OK, as it is, by the node's clock
}

// RebootParams ask the node to reboot the machine. It waits out a trial.
type RebootParams struct {
	Reason string `json:"reason"` // for the journal and the node's boot reason
}

// TryParams ask the node to start its staged slot, or what is staged of a component, on trial.
type TryParams struct {
	Component string `json:"component,omitempty"` // empty: the agent itself
	Version   string `json:"version,omitempty"`   // version that must be staged; empty: any
}

// ApproveParams allow the node to keep the slot that it tries.
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
	}
	if len(h.Components) > maxList {
		return New(CodeTooLarge, "/components", "more than "+strconv.Itoa(maxList))
	}
	for i, c := range h.Components {
		at := "/components/" + strconv.Itoa(i)
		if err := first(name(at+"/name", c.Name), plain(at+"/version", c.Version), plain(at+"/next", c.Next),
			plain(at+"/running", c.Running), plain(at+"/text", c.Text)); err != nil {
			return err
		}
		if !c.State.known() {
			return New(CodeBadValue, at+"/state", "no such state")
		}
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
	return within("/settings", h.Settings.check())
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

// optional is instant for a time that may be absent.
func optional(path string, t time.Time) *Error {
	if t.IsZero() {
		return nil
	}
	return instant(path, t)
}

// within returns the error of a part with the path of the part in front.
func within(path string, err error) error {
	if err == nil {
		return nil
	}
	e := AsError(err)
	return New(e.Code, path+e.Path, e.Message)
}
