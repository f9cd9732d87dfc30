package apitest

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// Workloads is what a unit has of workloads.
type Workloads struct {
	Status   view.SourceStatus
	Document []byte // of Status.Version, as submitted
	Versions []view.Version
	Slots    []view.Slot
	Logs     map[string]string // what each slot has written
	Grows    []string          // what is written before each further look
	Then     func(*State)      // what comes right after a set was accepted
}

func slotOf(service, node string, state wire.WorkloadState) view.Slot {
	s := view.Slot{Slot: service + "@" + node, Node: node, Online: true, Desired: service + "-2", State: string(state),
		At: Now.Add(-time.Minute)}
	s.Report = &wire.WorkloadSlot{Slot: s.Slot, ID: service + "-2", State: state, Since: Now.Add(-10 * time.Minute)}
	return s
}

// Working gives a Sample workloads: slots in every state.
func Working(s *State) {
	running, restarting, switching := slotOf("web", "node-1", wire.WorkloadRunning),
		slotOf("camera", "node-1", wire.WorkloadRestarting), slotOf("map", "node-2", wire.WorkloadRunning)
	completed, failed, gone := slotOf("clean", "node-2", wire.WorkloadCompleted),
		slotOf("radio", "node-2", wire.WorkloadFailed), slotOf("old", "node-2", wire.WorkloadStopped)
	running.Settled, completed.Settled, completed.Job, completed.Report.Job, gone.Settled, gone.Desired = true, true,
		true, true, true, ""
	restarting.Report.Restarts, restarting.Report.Next = 7, Now.Add(8*time.Second)
	restarting.Report.Exit = &wire.WorkloadExit{Code: 3, At: Now.Add(-time.Minute)}
	restarting.Why = "exit status 3"
	switching.Report.ID, switching.Report.Wanted, switching.Report.Doing = "map-1", "map-2", "fetch"
	switching.Report.Resources = []wire.WorkloadResource{{Name: "tiles", State: "fetching", Done: 12 << 20,
		Size: 40 << 20}, {Name: "style", State: "waiting"}}
	switching.Why = "map-2 is to come; fetch 12 of 40 MiB"
	failed.Report.Error = wire.New(wire.CodeNotSupported, "/resources/iss_hook_start/urls/0",
		"this agent was built without BitTorrent")
	failed.Why = "not-supported: this agent was built without BitTorrent"
	gone.Why = "no longer wanted"
	waiting := view.Slot{Slot: "web@node-4", Node: "node-4", Desired: "web-2", State: view.SlotWaiting,
		Why: "the node is offline"}
	unknown := view.Slot{Slot: "web@node-9", Node: "node-9", Desired: "web-2", State: view.SlotWaiting,
		Why: "the node was never heard of"}
	w := &s.Workloads
	w.Slots = []view.Slot{restarting, running, completed, switching, gone, failed, waiting, unknown}
	w.Document = []byte(`[{"@class":"Instance","slot":"web@node-1","resources":{}}]`)
	w.Versions = []view.Version{
		{Seq: 6, At: Now.Add(-20 * time.Hour), Version: "1.0.0", State: "accepted", Who: "uid:1000(alice)", Via: "cli",
			Mode: wire.ModeApply, Hash: wire.Hash(w.Document)},
		{Seq: 8, At: Now.Add(-time.Hour), Version: "1.0.1", State: "refused", Who: "token/ann", Via: "http",
			Mode: wire.ModeApply,
			Error: &wire.Error{Code: wire.CodeNotSupported,
				Message: "the agent there, version 1.0.0, does not run workloads; update it, or take its slots out",
				Node:    "node-3"}},
		{Seq: 10, At: Now.Add(-15 * time.Minute), Version: "1.0.1", State: "accepted", Who: "uid:1000(alice)",
			Via: "cli", Mode: wire.ModeApply, Hash: wire.Hash(w.Document), Lenient: true},
	}
	w.Status = view.SourceStatus{Version: "1.0.1", Rev: 11, Since: Now.Add(-15 * time.Minute), Who: "uid:1000(alice)",
		Unknown:  []string{"node-9"},
		Progress: view.Progress{Nodes: 3, Online: 2, Installed: 2, Missing: []view.Laggard{{Node: "node-4"}}},
		Slots: &view.SlotProgress{Slots: 7, Running: 1, Completed: 1,
			Missing: []view.Slot{restarting, switching, failed, waiting, unknown}, OnlineMissing: 2, Failed: 1}}
	w.Logs = map[string]string{"web@node-1": "started\nlistening on 8080\n"}
}

// submitWorkloads judges by the format, the version and Refuse.
func (s *State) submitWorkloads(sub view.Submission) view.Result {
	w := &s.Workloads
	res := view.Result{ID: cmp.Or(sub.ID, "w"+strconv.Itoa(len(s.Submissions))), State: "refused", Mode: sub.Mode}
	var set *workload.Set
	var problems workload.Problems
	if sub.Lenient {
		set, res.Warnings, problems = workload.ParseLenient(sub.Document)
	} else {
		set, problems = workload.Parse(sub.Document)
	}
	var filled *workload.Filled
	if problems == nil {
		filled, problems = workload.Fill(set)
	}
	if problems != nil {
		res.Problems, res.Error = problems, problems[0]
		return res
	}
	if res.Version = sub.Version; res.Version == "" {
		res.Version = "1.0.2"
	}
	if w.Status.Version != "" {
		if res.Error = unitconfig.CheckVersion(w.Status.Version, res.Version); res.Error != nil {
			return res
		}
	}
	res.Placed = &view.Placed{Slots: len(filled.Configs)}
	nodes := map[string]bool{}
	for _, c := range filled.Configs {
		if nodes[c.Slot.Node] {
			continue
		}
		nodes[c.Slot.Node] = true
		res.Placed.Nodes++
		i := slices.IndexFunc(s.Nodes, func(n view.Node) bool { return n.Node == c.Slot.Node })
		switch {
		case i < 0:
			res.Placed.Unknown = append(res.Placed.Unknown, c.Slot.Node)
		case !s.Nodes[i].Online:
			res.Checks.Unchecked = append(res.Checks.Unchecked, c.Slot.Node)
		case sub.Offline:
		case s.Refuse[c.Slot.Node] != nil:
			res.Checks.Asked++
			e := *s.Refuse[c.Slot.Node]
			e.Node = c.Slot.Node
			res.Error = &e
			res.Checks.Refused = append(res.Checks.Refused,
				view.NodeError{Node: c.Slot.Node, Errors: []*wire.Error{&e}})
		default:
			res.Checks.Asked++
			res.Checks.Agreed++
		}
	}
	for _, slot := range w.Slots {
		if slot.Desired != "" &&
			!slices.ContainsFunc(filled.Configs, func(c workload.Config) bool { return c.Slot.String() == slot.Slot }) {
			res.Placed.Stops = append(res.Placed.Stops, slot.Slot)
		}
	}
	if res.Error != nil {
		return res
	}
	if res.State = "acceptable"; sub.DryRun {
		return res
	}
	res.State, res.Epoch, res.Rev, res.Issued = "accepted", max(1, s.Status.Epoch), w.Status.Rev+1,
		len(nodes)-len(res.Placed.Unknown)
	w.Document = sub.Document
	w.Status = view.SourceStatus{Version: res.Version, Rev: res.Rev, Since: s.Now, Who: sub.Who,
		Unknown:  res.Placed.Unknown,
		Progress: view.Progress{Nodes: res.Issued, Online: res.Checks.Asked, OnlineMissing: res.Checks.Asked},
		Slots:    &view.SlotProgress{Slots: res.Placed.Slots, OnlineMissing: res.Checks.Asked}}
	if w.Then != nil {
		w.Then(s)
	}
	return res
}

// Slots filters State.Workloads.Slots.
func (u *Unit) Slots(ctx context.Context, in op.SlotsIn) (op.Slots, error) {
	s, leave, err := u.enter(ctx, "Slots")
	if err != nil {
		return op.Slots{}, err
	}
	defer leave()
	all := []view.Slot{}
	for _, slot := range s.Workloads.Slots {
		if in.Node == "" || slot.Node == in.Node {
			all = append(all, slot)
		}
	}
	if len(all) == 0 && in.Node != "" && !s.knows(in.Node) {
		return op.Slots{}, wire.New(wire.CodeNotFound, "", "node "+in.Node+" has never been heard of")
	}
	return op.Slots{Slots: all}, nil
}

// Workloads returns State.Workloads.Document, whichever of State.Workloads.Versions is asked for.
func (u *Unit) Workloads(ctx context.Context, version string) ([]byte, error) {
	s, leave, err := u.enter(ctx, "Workloads")
	if err != nil {
		return nil, err
	}
	defer leave()
	w := &s.Workloads
	switch {
	case w.Document == nil:
		return nil, wire.New(wire.CodeNotFound, "", "no workloads were ever applied")
	case version != "" && !slices.ContainsFunc(w.Versions, func(v view.Version) bool { return v.Version == version }):
		return nil, wire.New(wire.CodeNotFound, "", "version "+version+" was never accepted here")
	}
	return w.Document, nil
}

// Filled returns an empty set.
func (u *Unit) Filled(ctx context.Context, in op.FilledIn) ([]byte, error) {
	if _, err := u.Workloads(ctx, in.Version); err != nil {
		return nil, err
	}
	return []byte(`[]`), nil
}

func (u *Unit) rollBackSet(ctx context.Context, in op.Rollback) (view.Result, error) {
	doc, err := u.Workloads(ctx, in.Version)
	if err != nil {
		return view.Result{}, err
	}
	_, problems := workload.Parse(doc)
	who := caller.From(ctx)
	return u.Submit(ctx, view.Submission{
		Kind: wire.KindWorkloads, Document: doc, Version: in.As, Lenient: problems != nil, Mode: wire.ModeApply,
		Who: who.Who(), Via: who.Via(),
	})
}

// RestartSlot agrees, for slots that there are.
func (u *Unit) RestartSlot(ctx context.Context, in op.SlotIn) (view.Ordered, error) {
	o, err := u.ordered(ctx, in.Node, wire.MethodRestart, in.Service, "/service")
	if err != nil {
		return o, err
	}
	return o, u.there(in.Node, in.Service)
}

func (u *Unit) there(node, service string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !slices.ContainsFunc(u.state.Workloads.Slots,
		func(s view.Slot) bool { return s.Slot == service+"@"+node && s.Report != nil }) {
		return &wire.Error{Code: wire.CodeNotFound, Message: "there is no slot of the service " + service, Node: node}
	}
	return nil
}

// SlotLogs reads State.Workloads.Logs; a cursor is an offset.
func (u *Unit) SlotLogs(ctx context.Context, in op.LogsIn) (view.Logs, error) {
	s, leave, err := u.enter(ctx, "SlotLogs")
	if err != nil {
		return view.Logs{}, err
	}
	defer leave()
	s.Who = caller.From(ctx).Who()
	slot := in.Service + "@" + in.Node
	text, ok := s.Workloads.Logs[slot]
	if !ok {
		why := "there is no slot of the service " + in.Service
		return view.Logs{}, &wire.Error{Code: wire.CodeNotFound, Message: why, Node: in.Node}
	}
	v := view.Logs{Slot: slot}
	from := 0
	if in.Tail > 0 {
		from = max(0, len(text)-in.Tail)
	}
	if in.Cursor != "" {
		if grows := s.Workloads.Grows; len(grows) > 0 {
			text += grows[0]
			s.Workloads.Logs[slot], s.Workloads.Grows = text, grows[1:]
		}
		if from, err = strconv.Atoi(in.Cursor); err != nil || from > len(text) {
			from, v.Skipped = 0, true
		}
	}
	v.Data, v.Cursor = []byte(text[from:]), strconv.Itoa(len(text))
	return v, nil
}
