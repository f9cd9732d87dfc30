package op

import (
	"slices"
	"strings"

	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// What the controller is.
var (
	Health = define(Op[None, Alive]{
		Name: "health", Route: "GET /healthz", Form: Probe,
		About: "Says that the process answers.",
	})
	Ready = define(Op[None, Alive]{
		Name: "ready", Route: "GET /readyz", Form: Probe,
		About: "Says that submissions are taken, the broker is reached, and the clock has not jumped. Otherwise the " +
			"status is 503.",
	})
	ShowAPI = define(Op[None, []byte]{
		Name: "api", Route: "GET /v1/openapi.json", Role: View, Form: Raw,
		About: "Shows this document.",
	})
)

// What the unit is, and does.
var (
	UnitStatus = define(Op[UnitStatusIn, view.UnitStatus]{
		Name: "unit.status", Route: "GET /v1/unit/status", Role: View,
		About: "Shows the unit at a glance, and, with report, all nodes, items and instances, as the cloud side " +
			"hears of them.",
	})
	UnitSettings = define(Op[None, Settings]{
		Name: "unit.settings", Route: "GET /v1/unit/settings", Role: Operate,
		About: "Shows the controller's settings that are in effect, without those that are secret.",
	})
	ShowNode = define(Op[NodeIn, view.Node]{
		Name: "node.show", Route: "GET /v1/nodes/{node}", Role: View,
		About: "Shows one node, with its alerts, slots and components.",
	})
	NodeHealth = define(Op[NodeIn, view.NodeHealth]{
		Name: "node.health", Route: "GET /v1/nodes/{node}/health", Role: View,
		About: "Shows what a node has told of its health.",
	})
	HealthSettings = define(Op[None, view.HealthSettings]{
		Name: "health.settings", Route: "GET /v1/health/settings", Role: View,
		About: "Shows every setting of health that operators have made.",
	})
	NodeSettings = define(Op[OfNode, view.NodeSettings]{
		Name: "health.settings.node", Route: "GET /v1/health/settings", Role: View, When: "node",
		About: "Shows the settings of health of one node, and which of them are in effect there.",
	})
)

// What the unit configuration has besides the verbs.
var (
	ResolveConfig = define(Op[ResolveIn, view.Resolved]{
		Name: "config.resolved", Route: "GET /v1/config/resolved", Role: View,
		About: "Shows what a node gets from the installed unit configuration, or from another version of it.",
	})
	ExplainConfig = define(Op[ExplainIn, view.Explanation]{
		Name: "config.explain", Route: "GET /v1/config/explain", Role: View,
		About: "Says where a value of a node's configuration comes from.",
	})
)

// What workloads have besides the verbs.
var (
	FillWorkloads = define(Op[FilledIn, []byte]{
		Name: "workloads.filled", Route: "GET /v1/workloads", Role: View, When: "filled", Form: Raw,
		About: "Shows the instances and jobs that a set of workloads comes to.",
	})
	ListSlots = define(Op[SlotsIn, Slots]{
		Name: "workloads.slots", Route: "GET /v1/workloads/slots", Role: View,
		About: "Lists the slots of the unit, or of one node.",
	})
	WhySlot = define(Op[SlotIn, view.SlotWhy]{
		Name: "slot.why", Route: "GET /v1/nodes/{node}/slots/{service}/why", Role: View,
		About: "Says why a slot does not run what it should, or how it runs.",
	})
	SlotLogs = define(Op[LogsIn, view.Logs]{
		Name: "slot.logs", Route: "GET /v1/nodes/{node}/slots/{service}/logs", Role: Operate,
		About: "Asks a node for a piece of what a slot's process, or another hook, has written. To follow it, ask " +
			"again with the cursor. Whoever reads logs is noted in the journal, once an hour for each slot.",
	})
)

// The journal.
var (
	Events = define(Op[EventsIn, view.Entry]{
		Name: "events", Route: "GET /v1/events", Role: View, Form: Stream,
		About: "Sends entries of the journal, and with follow those to come.",
	})
	VerifyJournal = define(Op[None, Verification]{
		Name: "journal.verify", Route: "GET /v1/journal/verify", Role: View, Long: true,
		About: "Checks that every record of the journal is as it was written.",
	})
	TrimPlan = define(Op[None, view.TrimPlan]{
		Name: "journal.trim-plan", Route: "GET /v1/journal/trim", Role: View, Long: true,
		About: "Says what the next trim of the journal would remove if it came now, by which rule. Nothing changes.",
	})
	ExportJournal = define(Op[None, Exported]{
		Name: "journal.export", Route: "GET /v1/journal/export", Role: Admin, Form: File, Type: "application/x-ndjson",
		About: "Sends the journal as JSON lines.",
	})
	BackupJournal = define(Op[None, None]{
		Name: "journal.backup", Route: "GET /v1/journal/backup", Role: Admin,
		Form: File, Type: "application/octet-stream",
		About: "Sends a consistent copy of the journal's file.",
	})
	BackupUnit = define(Op[BackupIn, None]{
		Name: "backup.create", Route: "GET /v1/backup", Role: Admin, Form: File, Type: "application/age-encrypted",
		About: "Sends a backup of the unit, encrypted: journal, keys, CAs, tokens, settings, artefacts. The journal " +
			"names who asked for it, and for whom it is.",
	})
)

// BackupIn says for whom a backup is encrypted, and what is left out.
type BackupIn struct {
	// public keys of age, age1…, by the unix socket only; those of the setting backup-to if they are left out
	To []string `query:"to" json:"-"`

	WithoutArtefacts bool `query:"withoutArtefacts" json:"-"` // leave the artefacts out
}

// UnitStatusIn says how much is shown.
type UnitStatusIn struct {
	Report bool `query:"report" json:"-"` // all nodes, items and instances, too
}

// Watched is the input of what is followed.
type Watched struct {
	Watch bool `query:"watch" json:"-"` // go on with what changes
}

// NodeIn names a node.
type NodeIn struct {
	Node string `path:"node" is:"name" json:"-"` // name of the node
}

// OfNode is for one node.
type OfNode struct {
	Node string `query:"node" is:"name" need:"yes" json:"-"` // name of the node
}

// FilledIn names a version of the set of workloads.
type FilledIn struct {
	VersionIn
	Filled bool `query:"filled" json:"-"` // show the instances and jobs that it comes to
}

// SlotsIn says whose slots are listed.
type SlotsIn struct {
	Node string `query:"node" is:"name" json:"-"` // of this one; of the unit if it is left out
}

// ResolveIn names a node.
type ResolveIn struct {
	Node string `query:"node" is:"name" need:"yes" json:"-"` // name of the node
	Type string `query:"type" json:"-"`                      // node type; what the node reported if it is left out
	// of the unit configuration; the one that counts for the node if it is left out
	Version string `query:"version" json:"-"`
}

// ExplainIn names a value of a node's configuration.
type ExplainIn struct {
	Node    string `query:"node" is:"name" need:"yes" json:"-"` // name of the node
	Pointer string `query:"pointer" is:"pointer" json:"-"`      // RFC 6901, into the resolved document
}

// SlotIn names a slot of workloads.
type SlotIn struct {
	Node    string `path:"node" json:"-"`    // name of the node
	Service string `path:"service" json:"-"` // name of the service
}

// Check judges both parts of the slot's name.
func (in *SlotIn) Check() *wire.Error {
	if _, err := workload.ParseSlot(in.Service + "@" + in.Node); err != nil {
		return invalid("%s", err)
	}
	return nil
}

// LogsIn names a slot, and which piece of what it has written. Without cursor and tail it is the beginning
// of what there is.
type LogsIn struct {
	SlotIn
	Cursor string `query:"cursor" json:"-"`                   // of the answer before
	Tail   int    `query:"tail" min:"1" max:"32768" json:"-"` // begin so many bytes before the end
	Hook   string `query:"hook" json:"-"`                     // whose output, such as iss_hook_install; iss_hook_start
}

// Check judges the names of slot and hook, and that the piece is named in one way.
func (in *LogsIn) Check() *wire.Error {
	if in.Cursor != "" && in.Tail > 0 {
		return invalid("cursor and tail exclude each other")
	}
	if in.Hook != "" && !slices.Contains(workload.Hooks, in.Hook) {
		return invalid("hook is one of %s", strings.Join(workload.Hooks, ", "))
	}
	return in.SlotIn.Check()
}

// EventsIn selects entries of the journal.
type EventsIn struct {
	Node   string   `query:"node" is:"name" json:"-"`                   // of this one
	Slot   string   `query:"slot" json:"-"`                             // events about this slot, and orders to it
	Types  []string `query:"type" json:"-"`                             // of records, and of nodes' events
	After  uint64   `query:"after" max:"18446744073709551614" json:"-"` // only those with a higher sequence number
	Limit  int      `query:"limit" min:"1" max:"100000" json:"-"`       // at most so many; 1,000, with follow no limit
	Newest bool     `query:"newest" json:"-"`                           // newest first; not with follow
	Follow bool     `query:"follow" json:"-"`                           // go on with what comes
}

// maxTypes is how many types one request may name.
const maxTypes = 32

// Check judges the types, and the order.
func (in *EventsIn) Check() *wire.Error {
	switch {
	case in.Follow && in.Newest:
		return invalid("newest and follow exclude each other")
	case len(in.Types) > maxTypes:
		return invalid("at most %d types", maxTypes)
	}
	for _, t := range in.Types {
		if t == "" || len(t) > 64 {
			return invalid("a type has 1 to 64 characters")
		}
	}
	if in.Slot == "" {
		return nil
	}
	switch s, err := workload.ParseSlot(in.Slot); {
	case err != nil:
		return invalid("the parameter slot: %s", err)
	case in.Node != "" && in.Node != s.Node:
		return invalid("the slot %s is not on node %.80q; leave node out", s, in.Node)
	}
	return nil
}
