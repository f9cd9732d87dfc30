package op

import (
	"time"

	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/wire"
)

// Health.
var (
	SetHealthSettings = define(Op[SetHealth, view.SettingsChange]{
		Name: "health.set", Route: "POST /v1/health/settings", Role: Operate,
		About: "Sets what is wanted of the health of some nodes, in place of what was set for them. " +
			"What a setting leaves out is the node's own or the default.",
	})
	UnsetHealthSettings = define(Op[view.Scope, view.SettingsChange]{
		Name: "health.unset", Route: "POST /v1/health/settings/unset", Role: Operate,
		About: "Takes back what was set for the health of some nodes.",
	})
	AnnounceMaintenance = define(Op[Maintain, Announced]{
		Name: "maintenance.announce", Route: "POST /v1/unit/maintenance", Role: Operate,
		About: "Announces a maintenance to every node, in place of the one before. It ends by itself.",
	})
	EndMaintenance = define(Op[None, Announced]{
		Name: "maintenance.end", Route: "POST /v1/unit/maintenance/end", Role: Operate,
		About: "Ends the maintenance that is announced.",
	})
)

// The controller's clock.
var ConfirmClock = define(Op[None, view.ClockJump]{
	Name: "clock.confirm", Route: "POST /v1/clock/confirm", Role: Operate,
	About: "Takes what the machine's clock shows for the time, although it has jumped by more than a day, and speaks " +
		"to the nodes again. A wrong-state if it has not. The answer is the jump.",
})

// Orders to one node. They are in the journal before they are sent, and nothing waits for a node that is
// offline.
var (
	RebootNode = define(Op[RebootIn, view.Ordered]{
		Name: "node.reboot", Route: "POST /v1/nodes/{node}/reboot", Role: Operate, Optional: true,
		About: "Has a node restart its machine. A node that is offline is a wrong-state.",
	})
	TryNode = define(Op[TryIn, view.Ordered]{
		Name: "node.try", Route: "POST /v1/nodes/{node}/try", Role: Operate, Optional: true,
		About: "Has a node try the version of its agent, or of a component, that is staged. Content that has failed " +
			"on trial on a node of the unit is a quarantined, unless force is set.",
	})
	ApproveNode = define(Op[ApproveIn, view.Ordered]{
		Name: "node.approve", Route: "POST /v1/nodes/{node}/approve", Role: Operate, Optional: true,
		About: "Has a node keep the version that is on trial.",
	})
	RestartSlot = define(Op[SlotIn, view.Ordered]{
		Name: "slot.restart", Route: "POST /v1/nodes/{node}/slots/{service}/restart", Role: Operate,
		About: "Has a node start a slot's process anew.",
	})
	StopSlot = define(Op[SlotIn, view.SlotStop]{
		Name: "slot.stop", Route: "POST /v1/nodes/{node}/slots/{service}/stop", Role: Operate,
		About: "Stops a slot until it is started, whatever set is applied. A node that is offline obeys when it is " +
			"back.",
	})
	StartSlot = define(Op[SlotIn, view.SlotStop]{
		Name: "slot.start", Route: "POST /v1/nodes/{node}/slots/{service}/start", Role: Operate,
		About: "Lets a slot that was stopped run again.",
	})
)

// SetHealth says for whom settings are, and what they are. What is not named is the node's own setting, or
// the default.
type SetHealth struct {
	view.Scope
	Settings *wire.HealthSettings `json:"settings"` // they replace all that was set for these
}

// Check judges the settings.
func (in *SetHealth) Check() *wire.Error {
	if in.Settings == nil {
		return wire.New(wire.CodeMissing, "/settings", "required; to unset, POST /v1/health/settings/unset")
	}
	if err := in.Settings.Check(); err != nil {
		return wire.New(err.Code, "/settings"+err.Path, err.Message)
	}
	return nil
}

// RebootIn names a node, and says why.
type RebootIn struct {
	NodeIn
	Reboot
}

// Reboot says why a machine restarts.
type Reboot struct {
	Reason string `json:"reason"` // for the journal and the node's boot reason
}

// Check judges that there is a reason.
func (in *Reboot) Check() *wire.Error {
	if in.Reason == "" {
		return wire.New(wire.CodeMissing, "/reason", "required")
	}
	return nil
}

// TryIn names a node, and what it tries.
type TryIn struct {
	NodeIn
	Try
}

// Try says what is tried.
type Try struct {
	Component string `json:"component,omitempty"` // name of the component; "": the agent itself
	Version   string `json:"version,omitempty"`   // what must be staged; "": whatever is
	Force     bool   `json:"force,omitzero"`      // also if the same content has failed on a node of the unit before
}

// ApproveIn names a node, and what it keeps.
type ApproveIn struct {
	NodeIn
	Approve
}

// Approve says what is kept.
type Approve struct {
	Version string `json:"version"` // what must be on trial
}

// Check judges that there is a version.
func (in *Approve) Check() *wire.Error {
	if in.Version == "" {
		return wire.New(wire.CodeMissing, "/version", "required")
	}
	return nil
}

// Maintain announces a maintenance.
type Maintain struct {
	For    string `json:"for"`             // how long from now, ISO 8601; at most a day
	Reason string `json:"reason,omitzero"` // for the nodes and the journal, at most 256 bytes
}

// Within is For; 0: it is none.
func (in *Maintain) Within() time.Duration { return positive(in.For) }

// Check judges the duration, and the reason's length.
func (in *Maintain) Check() *wire.Error {
	if in.Within() == 0 {
		return wire.New(wire.CodeInvalidArgument, "/for", "an ISO 8601 duration above zero is expected, like PT2H")
	}
	if len(in.Reason) > 256 {
		return wire.New(wire.CodeTooLarge, "/reason", "longer than 256 bytes")
	}
	return nil
}

// positive reads an ISO 8601 duration above zero; 0: it is none.
func positive(text string) time.Duration {
	d, err := duration.Parse(text)
	if err != nil {
		return 0
	}
	return max(d, 0)
}
