package unitstatus_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/steer/steertest"
	"tandem.internal/controller/internal/unitstatus"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/cloud"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// told is a status in a line for each element of its lists.
func told(s *cloud.UnitStatus) string {
	var all []string
	say := func(info *cloud.ErrorInfo, format string, args ...any) {
		line := fmt.Sprintf(format, args...)
		if info != nil {
			line += fmt.Sprintf(" (%d: %s)", info.AosCode, info.Message)
		}
		all = append(all, line)
	}
	for _, n := range s.Nodes {
		say(n.ErrorInfo, "node %s %s %v", n.Identity.Codename, n.State, n.IsConnected)
	}
	for _, i := range s.Items {
		say(i.ErrorInfo, "item %s %s %s %s", i.Item.Type, i.Item.Codename, i.Version, i.State)
	}
	for _, g := range s.Instances {
		for _, i := range g.Instances {
			at := "nowhere"
			if i.Node != nil {
				at = i.Node.Codename + "/" + i.Runtime.Codename
			}
			say(i.ErrorInfo, "%s %s %s of %s/%d on %s %s", g.Item.Type, g.Item.Codename, g.Version, g.Subject.Codename,
				i.Instance, at, i.State)
		}
	}
	for _, i := range s.Subjects {
		say(nil, "subject %s", i.Codename)
	}
	for _, c := range s.UnitConfig {
		say(c.ErrorInfo, "config %s %s", c.Version, c.State)
	}
	return strings.Join(all, "\n")
}

func is(t *testing.T, s *cloud.UnitStatus, want string) {
	t.Helper()
	if got := told(s); got != strings.TrimSpace(want) {
		t.Errorf("\n%s\nwant\n%s", got, strings.TrimSpace(want))
	}
}

// line is a unit with two nodes of one type, a component, two services and a layer, for a group and for the node type.
func line(t *testing.T) *steertest.Unit {
	u := steertest.New(t)
	u.Joins("press-2", "press", "os")
	u.Joins("press-1", "press", "os").Subjects = []string{"driver-7"}
	process := []string{"process"}
	needs := []items.Dependency{{Type: items.Layer, Codename: "python", Condition: items.Started}}
	u.Has(items.Meta{Type: items.Layer, Codename: "python", Version: "3.12.4"})
	u.Has(items.Meta{Type: items.Service, Codename: "agent", Version: "1.0.0", Runtimes: process})
	u.Has(items.Meta{Type: items.Service, Codename: "web", Version: "2.0.0", Runtimes: process, Dependencies: needs})
	u.Has(items.Meta{Type: items.Component, Codename: "base", Version: "7.0.0", Runtimes: []string{"os"}})
	u.Subject(items.Subject{Codename: "press", Type: items.NodeType, Items: []items.Attachment{
		{Type: items.Component, Codename: "base"}, {Type: items.Service, Codename: "agent"}}})
	u.Subject(items.Subject{Codename: "hall", Type: items.Group, Nodes: []string{"press-1"}, Priority: 1,
		Items: []items.Attachment{{Type: items.Service, Codename: "web"}}})
	return u
}

// TestUnitStatusOrder: nodes, then components and services of subjects that are no node types, then those of node
// types, then layers and the rest; each with what its node has told of it.
func TestUnitStatusOrder(t *testing.T) {
	u := line(t)
	is(t, unitstatus.Look(u).Assemble(&unitstatus.Wanted{}), `
node press-1 provisioned true
node press-2 provisioned true
subject driver-7
config  absent`)
	u.Apply()
	u.States[wire.KindConfig] = kind.State{State: kind.Installed, Version: "1.0.0", Attempted: &view.Attempted{
		Version: "2.0.0", Error: wire.New(wire.CodeBadValue, "/nodes", "no")}}
	u.Nodes[1].Info.Partitions = []wire.Partition{{Name: "data", Path: "/data", Size: 1 << 30,
		Types: []string{"state"}}}
	u.Nodes[0].Up, u.Nodes[0].Info.Error = false, wire.New(wire.CodeStorage, "", "the disk is full")
	u.Tells("press-2", wire.KindComponents, &wire.ComponentsReport{Components: []wire.ComponentStatus{
		{Name: "os", Item: "base", Version: "7.0.0", State: wire.ComponentFailed,
			Error: wire.New(wire.CodeHashMismatch, "", "damaged")}}})
	u.Tells("press-1", wire.KindComponents, &wire.ComponentsReport{Components: []wire.ComponentStatus{
		{Name: "os", Item: "base", Version: "7.0.0", State: wire.ComponentInstalled}}})
	s := unitstatus.Look(u).Assemble(&unitstatus.Wanted{States: map[string]items.NodeState{"press-1": items.Paused,
		"press-9": items.Paused, "press-8": items.Provisioned},
		Failures: []unitstatus.Failure{
			{Ref: items.Ref{Type: items.Service}, ID: "x", Version: "1.0.0",
				Error: wire.New(wire.CodeNotFound, "", "gone")},
			{Ref: items.Ref{Type: items.Service, Codename: "web"}, Version: "2.0.0", Subject: "hall", Index: 1,
				Error: wire.New(wire.CodeUnavailable, "", "no place")}}})
	is(t, s, `
node press-1 paused true
node press-2 error false (1: storage: the disk is full)
node press-8 error false (5: not-found: the unit has no such node)
node press-9 error false (5: not-found: the unit has no such node)
item service web 2.0.0 pending
item component base 7.0.0 failed (10: hash-mismatch: damaged)
item service agent 1.0.0 pending
item layer python 3.12.4 pending
item service  1.0.0 failed (5: not-found: gone)
service web 2.0.0 of hall/0 on press-1/process activating
service web 2.0.0 of hall/1 on nowhere failed (1: unavailable: no place)
component base 7.0.0 of press/0 on press-1/os active
component base 7.0.0 of press/0 on press-2/os failed (10: hash-mismatch: damaged)
service agent 1.0.0 of press/0 on press-1/process activating
subject driver-7
config 1.0.0 installed
config 2.0.0 failed (6: bad-value: no (at /nodes))`)
	if web := s.Items[0].Item; web.ID == "" || web.URN != "urn:uuid:"+web.ID || s.Items[4].Item.ID != "x" {
		t.Errorf("%+v %+v", web, s.Items[4].Item)
	}
	n := s.Nodes[0]
	if n.NodeGroupSubject.Codename != "press" || n.MaxDmips != 1000 || n.TotalRAM != 1<<30 || len(n.Runtimes) != 2 ||
		n.CPUs[0].TotalNumCores != 4 || n.OSInfo.OS != "linux" || len(n.Partitions) != 1 ||
		fmt.Sprint(n.Partitions[0]) != "{data /data [state] 1073741824}" {
		t.Errorf("%+v", n)
	}
	u.Nodes[1].Revoked = true
	if s := unitstatus.Look(u).Assemble(&unitstatus.Wanted{}); len(s.Nodes) != 1 || len(s.Subjects) != 0 {
		t.Errorf("with a node that was revoked: %s", told(s))
	}
}

// TestUnitStatusStates: what a slot tells, as the state of its item and of the instance.
func TestUnitStatusStates(t *testing.T) {
	u := line(t)
	u.Apply()
	var slot, id string
	configs := u.Slots("press-1")
	for _, c := range configs {
		if strings.HasPrefix(c.Slot.Service, "web") {
			slot, id = c.Slot.String(), c.ConfigurationID
		}
	}
	bad := wire.New(wire.CodeUnavailable, "", "404")
	resource := func(name, state string) []wire.WorkloadResource {
		r := wire.WorkloadResource{Name: name, State: state}
		if state == "failed" {
			r.Error = bad
		}
		return []wire.WorkloadResource{r}
	}
	for name, c := range map[string]struct {
		s     wire.WorkloadSlot
		want  string
		layer string
	}{
		"fetches": {wire.WorkloadSlot{ID: id, State: wire.WorkloadPreparing, Doing: "fetch",
			Resources: resource("python", "fetching")}, "downloading activating", "downloading"},
		"unpacks": {wire.WorkloadSlot{ID: id, State: wire.WorkloadPreparing, Doing: "fetch",
			Resources: resource("python", "unpacking")}, "downloading activating", "installing"},
		"cannot fetch": {wire.WorkloadSlot{ID: id, State: wire.WorkloadPreparing, Doing: "fetch",
			Resources: resource("python", "failed")}, "failed activating (1)", "failed (1)"},
		"installs": {wire.WorkloadSlot{ID: id, State: wire.WorkloadPreparing, Doing: "iss_hook_install"},
			"installing activating", "installed"},
		"runs": {wire.WorkloadSlot{ID: id, State: wire.WorkloadRunning}, "installed active", "installed"},
		"ended, and starts again": {wire.WorkloadSlot{ID: id, State: wire.WorkloadRestarting},
			"installed activating", "installed"},
		"has done":   {wire.WorkloadSlot{ID: id, State: wire.WorkloadCompleted}, "installed inactive", "installed"},
		"is stopped": {wire.WorkloadSlot{ID: id, State: wire.WorkloadStopped}, "installed inactive", "installed"},
		"failed": {wire.WorkloadSlot{ID: id, State: wire.WorkloadFailed, Error: bad,
			Exit: &wire.WorkloadExit{Code: 3}}, "failed failed (1, exit 3)", "installed"},
		"runs another, and fetches": {wire.WorkloadSlot{ID: "x", State: wire.WorkloadRunning, Wanted: id,
			Doing: "fetch"}, "downloading activating", "installed"},
		"runs another, and it failed": {wire.WorkloadSlot{ID: "x", State: wire.WorkloadRunning, Wanted: id, Error: bad},
			"failed failed (1)", "installed"},
		"runs another": {wire.WorkloadSlot{ID: "x", State: wire.WorkloadRunning}, "pending activating", "installed"},
	} {
		c.s.Slot = slot
		u.Tells("press-1", wire.KindWorkloads, &wire.Workloads{Slots: []wire.WorkloadSlot{c.s}})
		u.Nodes[1].Document = &kind.Document{}
		s := unitstatus.Look(u).Assemble(&unitstatus.Wanted{})
		info := func(e *cloud.ErrorInfo) string {
			switch {
			case e == nil:
				return ""
			case e.ExitCode != 0:
				return fmt.Sprintf(" (%d, exit %d)", e.AosCode, e.ExitCode)
			}
			return fmt.Sprintf(" (%d)", e.AosCode)
		}
		in := s.Instances[0].Instances[0]
		got := string(s.Items[0].State) + " " + string(in.State) + info(in.ErrorInfo)
		layer := s.Items[len(s.Items)-1]
		if l := string(layer.State) + info(layer.ErrorInfo); got != c.want || l != c.layer {
			t.Errorf("%s: %s, layer %s; want %s, %s", name, got, l, c.want, c.layer)
		}
	}
	d := &kind.Document{Desired: &kind.Doc{DocRef: wire.DocRef{Epoch: 1, Rev: 2}}, Last: &wire.Attempt{Epoch: 1, Rev: 2,
		State: wire.StateRejected}}
	u.Nodes[1].Document = d
	if s := unitstatus.Look(u).Assemble(&unitstatus.Wanted{}); s.Items[0].State != cloud.ItemFailed {
		t.Errorf("what its node did not take: %s", told(s))
	}
}

// TestBatch: what changes within the wait is said together, and nothing waits for longer, however much more changes.
func TestBatch(t *testing.T) {
	b, at := unitstatus.Batch{Wait: time.Second}, steertest.Now
	if _, ok := b.Due(); ok {
		t.Error("due, and nothing has changed")
	}
	for i := range 5 {
		b.Changed(at.Add(time.Duration(i) * 300 * time.Millisecond))
	}
	if due, ok := b.Due(); !ok || !due.Equal(at.Add(time.Second)) {
		t.Errorf("due %v", due)
	}
	if b.Take() {
		t.Error("whole")
	}
	if _, ok := b.Due(); ok {
		t.Error("due again")
	}
	b.Whole(at)
	b.Changed(at.Add(time.Second))
	if !b.Take() || b.Take() {
		t.Error("not whole once")
	}
}
