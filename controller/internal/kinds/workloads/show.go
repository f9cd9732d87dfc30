package workloads

import (
	"fmt"
	"slices"
	"strings"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/view"
	"tandem.internal/controller/internal/why"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// Slots lists the slots of one node, or of the unit if node is "": what should run, what each node
// told of it, and what is no longer wanted and not gone yet. In the order of nodes and services.
func Slots(u kind.Unit, node string) []view.Slot {
	all := []view.Slot{}
	p := installed(u)
	if node != "" {
		n := seen(u, node)
		return slotsOf(all, p, stopped(u), &n)
	}
	names := slices.Clone(p.names())
	u.Each(wire.KindWorkloads, func(n kind.Node) {
		if p.of(n.Name) == nil {
			names = append(names, n.Name)
		}
	})
	slices.Sort(names)
	for _, name := range names {
		n := seen(u, name)
		all = slotsOf(all, p, stopped(u), &n)
	}
	return all
}

// Slot returns one slot as Slots does; false: nobody wants it, and its node has not told of it.
func Slot(u kind.Unit, slot workload.Slot) (view.Slot, bool) {
	all := Slots(u, slot.Node)
	i := slices.IndexFunc(all, func(s view.Slot) bool { return s.Slot == slot.String() })
	if i < 0 {
		return view.Slot{}, false
	}
	return all[i], true
}

// installed returns the unit's set, nil if there is none.
func installed(u kind.Unit) *Placement {
	p, _ := u.Content(wire.KindWorkloads).(*Placement)
	return p
}

// stopped returns what operators have stopped.
func stopped(u kind.Unit) *Stops { return stopsOf(u.Content(KindStops)) }

// sight is a node, known or not.
type sight struct {
	kind.Node
	known bool
}

func seen(u kind.Unit, name string) sight {
	n, known := u.Node(wire.KindWorkloads, name)
	n.Name = name
	return sight{n, known}
}

// failed reports whether the node did not take its newest document of workloads: its slots are not
// waited for.
func (n *sight) failed() bool { return n.Document != nil && n.Document.Failed() }

func slotsOf(all []view.Slot, p *Placement, stops *Stops, n *sight) []view.Slot {
	var want []wanted
	if mine := p.of(n.Name); mine != nil {
		want = mine.slots
	}
	var reported []wire.WorkloadSlot
	base := view.Slot{Node: n.Name, Online: n.Up, At: n.At}
	more := false
	if w, ok := n.Detail.(*wire.Workloads); ok {
		byName := func(a, b wire.WorkloadSlot) int { return strings.Compare(a.Slot, b.Slot) }
		if reported, more = w.Slots, w.More > 0; !slices.IsSortedFunc(reported, byName) {
			reported = slices.Clone(reported)
			slices.SortFunc(reported, byName)
		}
	}
	for i, j := 0, 0; i < len(want) || j < len(reported); {
		s := base
		order := 0
		switch {
		case i == len(want):
			order = 1
		case j == len(reported):
			order = -1
		default:
			order = strings.Compare(want[i].slot, reported[j].Slot)
		}
		if order <= 0 {
			s.Slot, s.Desired, s.Job = want[i].slot, want[i].id, want[i].job
			i++
		}
		if order >= 0 {
			s.Slot, s.Report, s.State = reported[j].Slot, &reported[j], string(reported[j].State)
			s.Job = s.Job || order > 0 && reported[j].Job
			j++
		} else if s.State, s.At = view.SlotWaiting, base.At; more {
			s.State = view.SlotUntold
		}
		if away(n, &s) {
			s.State, s.Since = view.SlotAway, n.Since
		}
		if stop, ok := stops.stop(s.Slot); ok && s.Desired != "" {
			s.Stopped = &stop
		}
		s.Settled = settled(&s)
		s.Why = inWords(n, &s)
		all = append(all, s)
	}
	return all
}

// away reports whether nobody knows how a slot is: its node is offline, and what it reported was to go on.
func away(n *sight, s *view.Slot) bool {
	if n.Up || s.Report == nil {
		return false
	}
	switch s.Report.State {
	case wire.WorkloadCompleted, wire.WorkloadFailed, wire.WorkloadStopped:
		return false
	}
	return true
}

// settled reports whether a slot is as it should be.
func settled(s *view.Slot) bool {
	r := s.Report
	if s.State == view.SlotAway {
		return false
	}
	if s.Desired == "" || r == nil {
		return s.Desired == "" && (r == nil || r.State == wire.WorkloadStopped)
	}
	if s.Stopped != nil {
		return r.State != wire.WorkloadRunning && r.State != wire.WorkloadRestarting
	}
	return r.ID == s.Desired && (r.Wanted == "" || r.Wanted == s.Desired) && r.Error == nil &&
		(r.State == wire.WorkloadRunning || r.State == wire.WorkloadCompleted)
}

// failedForGood reports whether a slot is not as it should be, and its node has done with trying.
func failedForGood(s *view.Slot) bool {
	r := s.Report
	return s.Desired != "" && r != nil && r.Error != nil && r.Doing == "" &&
		(r.Wanted == s.Desired || r.ID == s.Desired && r.State == wire.WorkloadFailed)
}

// unfetched reports whether the newest attempt to fetch something that a slot needs has failed.
func unfetched(r *wire.WorkloadSlot) bool {
	return r != nil && slices.ContainsFunc(r.Resources, func(res wire.WorkloadResource) bool {
		return (res.Error != nil || res.State == "failed") && !expired(res.Error)
	})
}

// expired says whether a publisher's signature has an end that is over.
func expired(err *wire.Error) bool { return err != nil && err.Code == wire.CodeExpired }

// inWords says in a few words what a slot waits for, or what is wrong.
func inWords(n *sight, s *view.Slot) string {
	var parts []string
	say := func(format string, a ...any) { parts = append(parts, fmt.Sprintf(format, a...)) }
	switch {
	case !n.known:
		return "the node was never heard of"
	case s.State == view.SlotAway:
		say("the node is offline; %s when it was last heard", s.Report.State)
	case !n.Up:
		say("the node is offline")
	}
	if s.Desired != "" && n.failed() {
		last := n.Document.Last
		say("the node did not take the document: %s", inBrief(last.Error, string(last.State)))
	}
	if s.Stopped != nil {
		say("stopped by %s", s.Stopped.Who)
	}
	r := s.Report
	if r == nil {
		return strings.Join(parts, "; ")
	}
	switch {
	case s.Desired == "":
		say("no longer wanted")
	case r.ID != s.Desired && r.Wanted != s.Desired:
		say("the node has not told of %s yet", s.Desired)
	case r.Wanted != "" && r.Wanted != r.ID && r.Doing == "":
		say("%s runs in the place of %s", r.ID, r.Wanted)
	case r.Wanted != "" && r.Wanted != r.ID:
		say("%s is to come", r.Wanted)
	}
	if len(r.Waits) > 0 {
		say("waits for %s", why.Waits(r.Waits))
	}
	if r.Doing != "" && r.Doing != "needs" {
		say("%s", r.Doing+why.Progress(r.Resources))
	}
	if r.Error != nil {
		say("%s", inBrief(r.Error, ""))
	}
	if e := r.Exit; e != nil && (r.State == wire.WorkloadRestarting || r.State == wire.WorkloadFailed) {
		say("%s", e.Words())
	}
	return strings.Join(parts, "; ")
}

// inBrief is an error without its place; instead if there is none.
func inBrief(err *wire.Error, instead string) string {
	if err == nil {
		return instead
	}
	return why.Brief(err)
}

// showStatus adds how far the slots have come, and the nodes that are not known.
func showStatus(u kind.Unit, s *view.SourceStatus) {
	set, p := installed(u), &view.SlotProgress{}
	s.Slots = p
	var slots []view.Slot
	for _, node := range set.names() {
		n := seen(u, node)
		if !n.known && len(s.Unknown) < kind.MaxNamed {
			s.Unknown = append(s.Unknown, node)
		}
		slots = slotsOf(slots[:0], set, stopped(u), &n)
		for i := range slots {
			if slots[i].Desired != "" {
				count(p, &slots[i], &n)
			}
		}
	}
	kind.ClipMissing(p)
}

// count adds a slot of the set to what is counted of them.
func count(p *view.SlotProgress, s *view.Slot, n *sight) {
	p.Slots++
	switch {
	case s.Settled && s.State == string(wire.WorkloadCompleted):
		p.Completed++
		return
	case s.Settled && s.Stopped != nil:
		p.Stopped++
		return
	case s.Settled:
		p.Running++
		return
	case s.State == view.SlotAway:
		p.Away++
	case failedForGood(s):
		p.Failed++
	case s.Online && s.State != view.SlotUntold && !n.failed():
		p.OnlineMissing++
		if unfetched(s.Report) {
			p.Unfetched++
		}
	}
	p.Missing = append(p.Missing, *s)
}

// trouble says in words what operators should look at.
func trouble(u kind.Unit) []string {
	if err := u.Damage(wire.KindWorkloads); err != nil {
		return []string{"the set of workloads cannot be read: " + err.Error()}
	}
	if installed(u) == nil {
		return nil
	}
	var all []string
	var s view.SourceStatus
	showStatus(u, &s)
	if n := u.Progress(wire.KindWorkloads).Failed; n > 0 {
		all = append(all, kind.Many(n, "node")+" did not take the newest workloads")
	}
	failed, restarting, overdue, unknown := s.Slots.Failed, 0, 0, 0
	for _, slot := range s.Slots.Missing {
		if slot.Report != nil && expired(slot.Report.Error) {
			overdue++
		}
		if slot.State == string(wire.WorkloadRunning) && slot.Report != nil && slot.Report.Error != nil &&
			slot.Report.Error.Code == wire.CodeUnavailable && !unfetched(slot.Report) { // its keeper is away
			unknown++
		}
		if slot.State == string(wire.WorkloadRestarting) { // on an online node
			restarting++
		}
	}
	if failed > 0 {
		all = append(all, kind.Many(failed, "slot")+" failed, see: tandem workload list")
	}
	if n := s.Slots.Unfetched; n > 0 {
		all = append(all,
			kind.Many(n, "slot")+" with a resource that was not fetched or is refused, see: tandem workload list")
	}
	if unknown > 0 {
		all = append(all, "of "+kind.Many(unknown, "slot")+
			" its node does not know whether it runs, see: tandem workload list")
	}
	if overdue > 0 {
		all = append(all, "nobody has renewed publishers' signatures in "+kind.Many(overdue, "slot")+
			", see: tandem workload list")
	}
	if restarting > 0 {
		all = append(all, kind.Many(restarting, "slot")+" ended and will be started again")
	}
	if n := len(s.Unknown); n > 0 {
		all = append(all, "workloads are meant for "+kind.Many(n, "node")+" that was never heard of: "+
			strings.Join(s.Unknown[:min(n, 5)], ", "))
	}
	return all
}

// compare says what a set comes to in this unit, beside the one before.
func compare(u kind.Unit, next kind.Content) *view.Placed {
	p, before := next.(*Placement), installed(u)
	v := &view.Placed{Slots: p.slots, Nodes: len(p.nodes)}
	for _, node := range before.names() {
		kept := map[string]bool{}
		if n := p.of(node); n != nil {
			for _, w := range n.slots {
				kept[w.slot] = true
			}
		}
		for _, w := range before.nodes[node].slots {
			if !kept[w.slot] {
				v.Stops = append(v.Stops, w.slot)
			}
		}
	}
	v.Unknown = unknown(u, p)
	v.Omitted = kind.Clip(&v.Stops, kind.MaxNamed) + kind.Clip(&v.Unknown, kind.MaxNamed)
	return v
}

// unknown names the nodes of a set that were never heard of.
func unknown(u kind.Unit, p *Placement) (all []string) {
	for _, node := range p.names() {
		if _, known := u.Node(wire.KindWorkloads, node); !known {
			all = append(all, node)
		}
	}
	return all
}
