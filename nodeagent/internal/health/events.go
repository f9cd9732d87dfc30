package health

import (
	"time"

	"tandem.internal/shared/event"
	"tandem.internal/shared/wire"
)

// Event is something that happened to the node. Together these types, and the channel of the one
// goroutine that owns the State, are the bus over which the agent's modules talk.
type Event interface{ event() }

// Started is the first event of every run.
type Started struct {
	Settings wire.HealthSettings // from Resolve
	Boot     wire.HealthBoot     // the reason as its first writer wrote it; empty or unknown if nobody did
	Rebooted bool                // the machine has started anew, or may have: false only if it is known that it has not
	Checks   []string            // the functional checks that this version will be told of
	Await    time.Duration       // for how long the first word of each may take; 0: a minute
}

// Settings replaces the settings, also in the middle of a trial.
type Settings struct{ Settings wire.HealthSettings } // from Resolve

// Link says how far the connection has come (seed 002, "ledBlinker config").
type Link struct {
	Address bool           // the node has a network address
	Broker  bool           // a session is up
	Error   wire.Indicator // 0, or why there is no contact: IndicatorRefused, Certificate, Key or Clock
	Text    string         // about Error, for people
}

// Contact says that the controller was heard, or was not (seed 002, "zedagent status"). What counts as a success is
// made now and signed by the controller: a beacon that is fresh, a request, a document as it is accepted.
type Contact struct {
	Result   wire.ContactResult // empty: it says nothing about now
	Document bool               // a document was accepted, and not rejected
}

// Maintenance says what a sound beacon announces: for how long, from now, the controller or the
// road to it may be away. Not above zero: nothing is announced.
type Maintenance struct{ Left time.Duration }

// Slots is the state of the slots, as it is read back after each change (seed 002, "zboot status").
type Slots struct {
	Used    bool // false: nothing but the running version is there, and a restart starts it
	List    []wire.HealthSlot
	Current string      // the slot that runs, by ID
	Good    string      // the slot that a restart starts if there is no trial, or the trial is over
	Updates Updates     // of the agent and of the node's other parts
	Err     *wire.Error // the state cannot be read: nothing is decided about slots until it can
}

// Updates are the updates of the agent and of the node's other parts. At most one of them is on trial.
type Updates struct {
	List  []wire.HealthComponent // the other parts
	Busy  string                 // not empty: one is about to be on trial, or to be left; the baseline stays as it is
	Trial Tried                  // the zero one: there is none
	Over  []Over                 // how the newest trials ended

	Quarantine []wire.HealthFailed // as it is reported
}

// Tried is a version that runs on trial.
type Tried struct {
	ID        string // of the trial: no other one has it
	Slot      string // the agent's; empty: it is another part
	Component string // the other part
	Version   string
	Checks    []string // that will be told of in the trial
	NoWayBack string   // why it cannot be rolled back; empty: it can
}

// Over is how a trial has ended.
type Over struct {
	Trial  string
	Kept   bool
	Reason wire.BootReason // why it is not kept
	Detail string
}

// Check is the heartbeat and verdict of one functional check: a module of the agent, the watchdog,
// the network.
type Check struct {
	Name    string
	OK      bool
	Message string
	TTL     time.Duration // how long it counts; 0: a minute
}

// Sample is a measured value that is judged by the settings' limits. Name is one of SampleCPU and
// its like.
type Sample struct {
	Name  string
	Value float64       // what is no finite number is unknown
	TTL   time.Duration // how long it counts; 0: a minute
}

// The names of samples, and of the watchdog's check.
const (
	SampleCPU     = "cpu"
	SampleRAM     = "ram"
	SampleDisk    = "disk" // the fullest partition
	SampleNetwork = "network"
	CheckWatchdog = "watchdog"
)

// Gone says that a check will not be told of any more, and that this is as it should be.
type Gone struct{ Name string }

// What an Order asks for.
type What string

// The orders.
const (
	OrderReboot   What = "reboot"
	OrderRestart  What = "restart"
	OrderApprove  What = "approve"
	OrderRollBack What = "rollback"
)

// Order is what the controller or someone at the node asks for. It is answered with an Answer.
type Order struct {
	ID      string // the request's
	What    What
	By      string          // who
	ByHand  bool            // at the node, not through the controller
	Detail  string          // reboot, restart, rollback: why
	Reason  wire.BootReason // reboot, restart: what the next start is because of; empty: BootReboot
	Version string          // approve: what must be on trial
}

// Committed says that a Commit did not work. Without an error it says nothing.
type Committed struct {
	Trial string
	Err   *wire.Error // it could not be written, or something else is on trial
}

// Restarting answers Reboot, RestartAgent and RollBack. Without an error the process is about to end, or the trial is.
type Restarting struct{ Err *wire.Error }

// Tick says that time has passed. All that time decides is decided in a Tick.
type Tick struct{}

// Stopping says that the agent is about to stop in good order.
type Stopping struct{}

func (Started) event()     {}
func (Settings) event()    {}
func (Link) event()        {}
func (Contact) event()     {}
func (Maintenance) event() {}
func (Slots) event()       {}
func (Check) event()       {}
func (Sample) event()      {}
func (Gone) event()        {}
func (Order) event()       {}
func (Committed) event()   {}
func (Restarting) event()  {}
func (Tick) event()        {}
func (Stopping) event()    {}

// Effect is something that the shell must do, in the order given.
type Effect interface{ effect() }

// Save is always first: the State's Durable part must be saved before the other effects run. If
// it cannot be saved and Must is set, the shell drops the new State and the effects and calls
// Failed on the old one. Without Must the shell goes on, and saves as soon as it can. Whether a
// failed save reached the disk does not matter in either case.
type Save struct{ Must bool }

// Report asks to publish what State.Health says at that moment as reported/health.
type Report struct{ Health wire.Health }

// Indicate asks to show the link indicator: to run the local command that drives a light.
type Indicate struct {
	Indicator wire.Indicator
	Text      string
}

// Commit asks to keep the version on trial, if it is still this trial ("zboot config": test complete). Slots tells when
// it is kept, Committed that it cannot be.
type Commit struct{ Trial string }

// RollBack asks to give the version on trial up. Slots tells when that is done, Restarting that it cannot be. If it
// takes a restart, OrderRestart or OrderReboot follows.
type RollBack struct {
	Trial  string
	Reason wire.BootReason
	Detail string
}

// RestartAgent asks to write the boot reason, end the agent, and for Restarting.
type RestartAgent struct {
	Reason wire.BootReason
	Detail string
}

// Reboot asks to write the boot reason, run the reboot command, and for Restarting.
type Reboot struct {
	Reason wire.BootReason
	Detail string
}

// Stay says that a reboot which was asked for has not happened and counts as failed: the boot reason that
// was written for it must explain no later end.
type Stay struct{ Reason wire.BootReason }

// Emit asks for an event to be kept and sent to the controller.
type Emit struct {
	Type   string
	Err    *wire.Error
	Detail Detail
}

// Answer asks for the reply to the order ID: done, or accepted, if Err is nil.
type Answer struct {
	ID  string
	Err *wire.Error
}

func (Save) effect()         {}
func (Report) effect()       {}
func (Indicate) effect()     {}
func (Commit) effect()       {}
func (RollBack) effect()     {}
func (RestartAgent) effect() {}
func (Reboot) effect()       {}
func (Stay) effect()         {}
func (Emit) effect()         {}
func (Answer) effect()       {}

// Detail is what an event about health tells.
type Detail = event.HealthDetail

// The types of the events about health.
const (
	EventBoot            = event.Boot            // the agent has started, and why
	EventContactLost     = event.ContactLost     // the newest word from the controller is too old
	EventContactBack     = event.ContactBack     // the controller is heard again
	EventCheckFailed     = event.CheckFailed     // a functional check fails, or is silent
	EventCheckRecovered  = event.CheckRecovered  // it is good again
	EventMaintenance     = event.Maintenance     // the clocks stand still, or run again
	EventTrialStarted    = event.TrialStarted    // a slot runs on trial
	EventTrialCommitted  = event.TrialCommitted  // it is the good one now
	EventTrialRolledBack = event.TrialRolledBack // the slot from before runs again
	EventCommitFailed    = event.CommitFailed    // the commit could not be written; it is tried again
	EventRestartPlanned  = event.RestartPlanned  // a restart was decided, and why
	EventRestartRefused  = event.RestartRefused  // one is due, and is not made, and why
	EventRestartFailed   = event.RestartFailed   // one was asked for and did not happen
)
