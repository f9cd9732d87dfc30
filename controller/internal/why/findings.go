package why

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// finding makes a Finding.
func finding(about, state, format string, a ...any) view.Finding {
	return view.Finding{About: about, State: state, Text: fmt.Sprintf(format, a...)}
}

// asked are the findings about what is wanted, and whether its node has it.
func (f *Facts) asked() (all []view.Finding) {
	switch {
	case f.Version == "":
		all = append(all, finding("set", view.FindingNote, "no workloads were ever applied"))
	default:
		set := finding("set", view.FindingGood, "version %s, by %s", f.Version, f.Who)
		if f.Slot.Desired == "" {
			set.State, set.Text = view.FindingBad, set.Text+"; it does not have the slot"
		}
		set.At = f.Since
		all = append(all, set)
	}
	switch {
	case f.Unread != nil:
		all = append(all, finding("configuration", view.FindingNote, "%s; the set cannot be read: %s", f.Slot.Desired,
			wire.AsError(f.Unread).Message))
	case f.Origin != nil:
		all = append(all, f.Origin.findings()...)
	}
	if stop := f.Slot.Stopped; stop != nil {
		by := finding("stopped", view.FindingNote, "by %s; to have it run again: tandem workload start %s", stop.Who,
			f.Slot.Slot)
		by.At = stop.At
		all = append(all, by)
	}
	all = append(all, aboutNode(f.Slot.Node, &f.Node, f.Known))
	if f.Known {
		all = append(all, document(f.Doc))
	}
	return all
}

// findings say what the slot should run, and where that comes from.
func (o *Origin) findings() []view.Finding {
	c := &o.Config
	from := "as written"
	switch {
	case o.Topology && len(o.Fillers) > 0:
		from = "of a topology, filled by " + strings.Join(o.Fillers, ", ")
	case len(o.Fillers) > 0:
		from = "filled by " + strings.Join(o.Fillers, ", ")
	case o.Topology:
		from = "with properties of a topology"
	}
	from = strings.ToLower(c.Class.Short()) + ", " + from
	if c.ConfigurationID != "" { // else the controller makes one for the node
		from = c.ConfigurationID + ", " + from
	}
	all := []view.Finding{finding("configuration", view.FindingGood, "%s", from)}
	var limits []string
	if c.Container != nil {
		for _, name := range slices.Sorted(maps.Keys(c.Container.Constraints)) {
			limits = append(limits, name+" = "+c.Container.Constraints[name])
		}
	}
	for _, hook := range slices.Sorted(maps.Keys(c.TimeLimits)) {
		if most := c.TimeLimits[hook].MaxExecutionTimeMs; most != nil {
			limits = append(limits, fmt.Sprintf("%s at most %d ms", hook, *most))
		}
	}
	if len(limits) > 0 {
		all = append(all, finding("limits", view.FindingNote, "%s", strings.Join(limits, ", ")))
	}
	return all
}

// aboutNode says whether a node is there.
func aboutNode(name string, node *view.Node, known bool) view.Finding {
	id := node.Identity
	switch {
	case id != nil && id.State == "revoked":
		revoked := finding("node", view.FindingBad, "%s is revoked", name)
		revoked.At = id.Revoked
		return revoked
	case !known:
		return finding("node", view.FindingBad, "%s was never heard of", name)
	}
	n := finding("node", view.FindingGood, "%s is online", name)
	if !node.Online {
		n = finding("node", view.FindingBad, "%s is offline", name)
	}
	if i := node.Info; i != nil && i.AgentVersion != "" {
		n.Text += ", its agent is " + i.AgentVersion
	}
	n.At = node.Since
	return n
}

// document says whether the node has its newest document.
func document(d view.Document) (doc view.Finding) {
	switch {
	case d.Desired == nil:
		return finding("document", view.FindingWaits, "none was issued to the node")
	case d.InSync:
		doc = finding("document", view.FindingGood, "%s (rev %d) is in force", d.Desired.Version, d.Desired.Rev)
	case refused(d) != nil:
		doc = finding("document", view.FindingBad, "%s (rev %d) was not taken: %s", d.Desired.Version, d.Desired.Rev,
			refused(d).Error())
	default:
		doc = finding("document", view.FindingWaits, "%s (rev %d) is not in force yet%s", d.Desired.Version,
			d.Desired.Rev, during(d))
	}
	doc.At = d.Desired.Issued
	return doc
}

// done are the findings about what the node has told of the slot.
func (f *Facts) done() (all []view.Finding) {
	r := f.Slot.Report
	if r == nil {
		return nil
	}
	for _, res := range r.Resources {
		one := finding("resource", view.FindingWaits, "%q %s%s", res.Name, res.State,
			Progress([]wire.WorkloadResource{res}))
		if res.Error != nil {
			one.State, one.Text = view.FindingBad, one.Text+": "+res.Error.Error()
		}
		if !res.Next.IsZero() {
			one.Text, one.At = one.Text+"; next try", res.Next
		}
		all = append(all, one)
	}
	if len(r.Waits) > 0 {
		all = append(all, finding("needs", view.FindingWaits, "%s", Waits(r.Waits)))
	}
	switch {
	case strings.HasPrefix(r.Doing, "iss_hook_"):
		all = append(all, finding("hook", view.FindingWaits, "%s of %s", r.Doing, wanted(r)))
	case r.Doing != "" && r.Doing != "needs":
		all = append(all, finding("step", view.FindingWaits, "%s of %s", r.Doing, wanted(r)))
	}
	if r.Error != nil {
		all = append(all, finding("error", view.FindingBad, "%s", r.Error.Error()))
	}
	return append(all, process(r)...)
}

// wanted is the configuration that is being prepared.
func wanted(r *wire.WorkloadSlot) string {
	if r.Wanted != "" {
		return r.Wanted
	}
	return r.ID
}

// process are the findings about the process: what runs, how it ended last, and when it is started again.
func process(r *wire.WorkloadSlot) []view.Finding {
	states := map[wire.WorkloadState]string{
		wire.WorkloadRunning: view.FindingGood, wire.WorkloadCompleted: view.FindingGood,
		wire.WorkloadFailed: view.FindingBad, wire.WorkloadRestarting: view.FindingBad,
	}
	state := states[r.State]
	if state == "" {
		state = view.FindingWaits
	}
	p := finding("process", state, "%s: %s", r.ID, r.State)
	if r.Restarts > 0 {
		p.Text += ", restarted " + kind.Many(int(r.Restarts), "time")
	}
	p.At = r.Since
	all := []view.Finding{p}
	if e := r.Exit; e != nil {
		text := "its end was good"
		if e.Code != 0 || e.Signal != "" || e.Text != "" || e.Lost || e.OOM || e.Late {
			text = e.Words()
		}
		exit := finding("exit", view.FindingNote, "%s", text)
		exit.At = e.At
		all = append(all, exit)
	}
	if !r.Next.IsZero() && r.State == wire.WorkloadRestarting {
		next := finding("next", view.FindingWaits, "it is started again")
		next.At = r.Next
		all = append(all, next)
	}
	return all
}

// HookOf is the hook whose output tells most about a slot: the one that is under way or has failed; "" is the process.
func HookOf(s *view.Slot) string {
	r := s.Report
	if r == nil {
		return ""
	}
	if slices.Contains(workload.Hooks, r.Doing) {
		return r.Doing
	}
	if r.Error != nil {
		if hook, ok := strings.CutPrefix(r.Error.Path, "/resources/"); ok && slices.Contains(workload.Hooks, hook) &&
			hook != workload.HookStart && r.Error.Code == wire.CodeApplyFailed {
			return hook
		}
	}
	return ""
}
