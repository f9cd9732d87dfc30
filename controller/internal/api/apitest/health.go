package apitest

import (
	"context"
	"fmt"
	"time"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Healthy gives the nodes of a Sample their health: node-1 tries a version and has raised an alert,
// node-2 has a check that fails, node-3 is well, node-4 was when it went away.
func Healthy(s *State) {
	for i, h := range []view.Health{
		{State: view.HealthTrial, Text: "trial 1.5.0 4m left", Alerts: 1},
		{State: view.HealthCheck, Text: "check disk"},
		{State: view.HealthOK, Text: "ok"}, {State: view.HealthOK, Text: "ok"},
	} {
		h.ReportedAt = s.Now.Add(-30 * time.Second)
		s.Nodes[i].Health = &h
	}
}

// Components are those of node-1.
var Components = []wire.HealthComponent{
	{Name: "app", State: wire.SlotActive, Version: "3.1", Running: "3.1", Text: "given up: version 3.2: no contact"},
	{Name: "os", State: wire.SlotUpdating, Version: "6", Next: "7", Running: "6", Text: "staged"},
}

// Report is what node-1 has told.
func Report(now time.Time) *wire.Health {
	return &wire.Health{
		Indicator: wire.IndicatorContact, Text: wire.IndicatorTexts[wire.IndicatorContact],
		Contact: wire.HealthContact{In: true, Since: now.Add(-6 * time.Minute), Result: wire.ContactSuccess,
			Last: now.Add(-time.Minute), Document: now.Add(-2 * time.Minute)},
		Slots: []wire.HealthSlot{{ID: "a", State: wire.SlotActive, Version: "1.4.0", Verified: true},
			{ID: "b", State: wire.SlotInProgress, Version: "1.5.0", Verified: true}},
		Current: "b", Components: Components,
		Trial: &wire.HealthTrial{Slot: "b", Version: "1.5.0", Since: now.Add(-6 * time.Minute),
			Remaining: wire.SpanOf(4 * time.Minute), Deadline: wire.SpanOf(24 * time.Minute),
			Approval: wire.ApprovalNeeded,
			WaitsFor: []wire.HealthWait{{Code: wire.WaitApproval, Text: "somebody says that it may be kept"},
				{Code: wire.WaitTestTime, Text: "PT4M in good health"}}},
		// which waits for the trial
		Restart: &wire.HealthRestart{Reason: wire.BootReboot, Detail: "by the controller: new kernel",
			At: now.Add(-30 * time.Second)},
		Boot: wire.HealthBoot{Reason: wire.BootUpdate, Detail: "version 1.5.0", Restarts: 12,
			At: now.Add(-6 * time.Minute)},
		Checks: []wire.HealthCheck{{Name: "cpu", OK: true, Since: now.Add(-6 * time.Minute)},
			{Name: "disk", Message: "0.99, limit 0.98", Since: now.Add(-time.Minute)}},
		Settings: wire.HealthSettings{}.Complete(),
	}
}

// NodeHealth returns what a node has told; only node-1 has told all.
func (u *Unit) NodeHealth(ctx context.Context, in op.NodeIn) (view.NodeHealth, error) {
	s, leave, err := u.enter(ctx, "NodeHealth")
	if err != nil {
		return view.NodeHealth{}, err
	}
	defer leave()
	for _, n := range s.Nodes {
		if n.Node != in.Node {
			continue
		}
		v := view.NodeHealth{Node: in.Node, Online: n.Online, Since: n.Since,
			Health: view.Health{State: view.HealthUnknown, Text: "not reported"}}
		if n.Health != nil {
			v.Health = *n.Health
		}
		if in.Node == "node-1" && n.Health != nil {
			v.Report = Report(s.Now)
			v.Raised = []view.Alert{{Tag: "systemQuotaAlert", Parameter: "cpu", Value: 0.97, Min: 0.5, Max: 0.9,
				Since: s.Now.Add(-3 * time.Minute), At: s.Now.Add(-time.Minute)}}
		}
		return v, nil
	}
	return view.NodeHealth{}, wire.New(wire.CodeNotFound, "", "node "+in.Node+" has never been heard of")
}

// SetHealth keeps what was set.
func (u *Unit) SetHealth(ctx context.Context, in op.SetHealth) (view.SettingsChange, error) {
	return u.changeHealth(ctx, in.Scope, in.Settings)
}

// UnsetHealth takes it back.
func (u *Unit) UnsetHealth(ctx context.Context, scope view.Scope) (view.SettingsChange, error) {
	return u.changeHealth(ctx, scope, nil)
}

func (u *Unit) changeHealth(
	ctx context.Context, scope view.Scope, settings *wire.HealthSettings,
) (view.SettingsChange, error) {
	who := caller.From(ctx).Who()
	s, leave, err := u.enter(ctx, "SetHealth")
	if err != nil {
		return view.SettingsChange{}, err
	}
	defer leave()
	s.Who = who
	v := view.SettingsChange{Rev: s.Settings.Rev + 21, Issued: len(s.Nodes)}
	var e *view.HealthSetting
	if settings != nil {
		e = &view.HealthSetting{Settings: *settings, Rev: v.Rev, At: s.Now, Who: who}
	}
	s.Settings.Rev = v.Rev
	if scope.All {
		if e == nil && s.Settings.All == nil {
			return v, wire.New(wire.CodeNotFound, "", "nothing is set there")
		}
		s.Settings.All = e
	}
	put := func(m map[string]view.HealthSetting, names []string) map[string]view.HealthSetting {
		for _, name := range names {
			if m == nil {
				m = map[string]view.HealthSetting{}
			}
			delete(m, name)
			if e != nil {
				m[name] = *e
			}
		}
		return m
	}
	s.Settings.Types, s.Settings.Nodes = put(s.Settings.Types, scope.Types), put(s.Settings.Nodes, scope.Nodes)
	for _, name := range scope.Nodes {
		if !s.knows(name) {
			v.Unknown = append(v.Unknown, name)
		}
	}
	if len(scope.Nodes) > 0 {
		v.Issued = len(scope.Nodes) - len(v.Unknown)
	}
	return v, nil
}

func (s *State) knows(node string) bool {
	for _, n := range s.Nodes {
		if n.Node == node {
			return true
		}
	}
	return false
}

// HealthSettings returns State.Settings.
func (u *Unit) HealthSettings(ctx context.Context) (view.HealthSettings, error) {
	s, leave, err := u.enter(ctx, "HealthSettings")
	if err != nil {
		return view.HealthSettings{}, err
	}
	defer leave()
	return s.Settings, nil
}

// NodeSettings resolves State.Settings.
func (u *Unit) NodeSettings(ctx context.Context, in op.OfNode) (view.NodeSettings, error) {
	s, leave, err := u.enter(ctx, "NodeSettings")
	if err != nil {
		return view.NodeSettings{}, err
	}
	defer leave()
	v := view.NodeSettings{Node: in.Node}
	for _, n := range s.Nodes {
		if n.Node == in.Node {
			v.Type = n.Type
			if n.Health != nil {
				v.InEffect = &Report(s.Now).Settings
			}
		}
	}
	if e, ok := s.Settings.Nodes[in.Node]; ok {
		v.Rule, v.Set = view.ByNode, &e
	} else if e, ok := s.Settings.Types[v.Type]; ok {
		v.Rule, v.Set = view.ByType, &e
	} else if s.Settings.All != nil {
		v.Rule, v.Set = view.ByDefault, s.Settings.All
	}
	return v, nil
}

// Reboot agrees, for nodes that are online.
func (u *Unit) Reboot(ctx context.Context, in op.RebootIn) (view.Ordered, error) {
	return u.ordered(ctx, in.Node, wire.MethodReboot, in.Reason, "/reason")
}

// Try agrees if 1.5.0 is asked for, or anything, and of components os.
func (u *Unit) Try(ctx context.Context, in op.TryIn) (view.Ordered, error) {
	if in.Component != "" && in.Component != "os" {
		return view.Ordered{}, &wire.Error{Code: wire.CodeNotFound, Path: "/component",
			Message: "the settings of this node's agent name no component " + in.Component + ": --component",
			Node:    in.Node}
	}
	if in.Version != "" && in.Version != "1.5.0" {
		return view.Ordered{},
			&wire.Error{Code: wire.CodeWrongState, Message: "version 1.5.0 is staged, not " + in.Version, Node: in.Node}
	}
	return u.ordered(ctx, in.Node, wire.MethodTry, "-", "")
}

// Approve agrees.
func (u *Unit) Approve(ctx context.Context, in op.ApproveIn) (view.Ordered, error) {
	return u.ordered(ctx, in.Node, wire.MethodApprove, in.Version, "/version")
}

func (u *Unit) ordered(ctx context.Context, node string, m wire.Method, needed, path string) (view.Ordered, error) {
	s, leave, err := u.enter(ctx, "Order")
	if err != nil {
		return view.Ordered{}, err
	}
	defer leave()
	s.Who = caller.From(ctx).Who()
	if needed == "" {
		return view.Ordered{}, wire.New(wire.CodeMissing, path, "required")
	}
	for _, n := range s.Nodes {
		if n.Node == node && !n.Online {
			return view.Ordered{},
				wire.New(wire.CodeWrongState, "",
					fmt.Sprintf("node %s is offline; nothing was sent, and nothing waits for it", node))
		}
	}
	if !s.knows(node) {
		return view.Ordered{}, wire.New(wire.CodeNotFound, "", "node "+node+" has never been heard of")
	}
	return view.Ordered{Node: node, Method: m, ID: string(m) + "-1-" + node, Rev: 23}, nil
}

// Maintain keeps it in State.Status.
func (u *Unit) Maintain(ctx context.Context, in op.Maintain) (op.Announced, error) {
	m, err := u.setMaintenance(ctx, in.Within(), in.Reason)
	return op.Announced{Maintenance: m}, err
}

// EndMaintenance ends it.
func (u *Unit) EndMaintenance(ctx context.Context) (op.Announced, error) {
	m, err := u.setMaintenance(ctx, 0, "")
	return op.Announced{Maintenance: m}, err
}

func (u *Unit) setMaintenance(ctx context.Context, within time.Duration, reason string) (*view.Maintenance, error) {
	who := caller.From(ctx).Who()
	s, leave, err := u.enter(ctx, "SetMaintenance")
	if err != nil {
		return nil, err
	}
	defer leave()
	s.Who = who
	switch {
	case within == 0 && s.Status.Maintenance == nil:
		return nil, wire.New(wire.CodeWrongState, "", "no maintenance is announced")
	case within == 0:
		s.Status.Maintenance = nil
	case within > wire.MaxMaintenance:
		return nil, wire.New(wire.CodeBadValue, "/for", "a maintenance lasts from a second to 24h")
	case reason == "":
		return nil, wire.New(wire.CodeMissing, "/reason", "say why, for the journal")
	default:
		s.Status.Maintenance = &view.Maintenance{Since: s.Now, Until: s.Now.Add(within), Who: who, Reason: reason}
	}
	return s.Status.Maintenance, nil
}
