package why

import (
	"fmt"
	"strconv"
	"strings"

	"tandem.internal/controller/internal/desired"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// Decide decides what should run where, with its reasons in words.
func Decide(in *desired.Input) (*desired.Plan, error) {
	p, err := desired.Make(in)
	if err != nil {
		return nil, err
	}
	for i := range p.Reasons {
		p.Reasons[i].Why = Desired(&p.Reasons[i])
	}
	return p, nil
}

// Named is an item as people named it, maybe by its codename alone.
func Named(r items.Ref) string {
	name := wire.Plain(r.Codename, 80)
	if r.Type != "" {
		name = string(r.Type) + "/" + name
	}
	return strconv.Quote(name)
}

// Items explains the items of a codename on a node, of a type; "": of any.
func Items(p *desired.Plan, node, codename string, t items.Type) (all []desired.Explanation) {
	for _, known := range []items.Type{items.Component, items.Service, items.Layer} {
		if t != "" && t != known {
			continue
		}
		if e, there := p.Why(node, items.Ref{Type: known, Codename: codename}); there {
			e.Why = Item(&e)
			all = append(all, e)
		}
	}
	return all
}

// Desired says in one sentence why an item or instance is not there. Its reasons for programs are those of
// desired.Reason.
func Desired(r *desired.Reason) string {
	name := subjectOf(r)
	switch r.Reason {
	case desired.NotReported:
		return name + " is not desired: no node reports the subject " + r.Subject
	case desired.NotReady:
		return name + notReady(r)
	case desired.Deprecated:
		return name + deprecated(r)
	case desired.Superseded:
		return name + " is not chosen: " + party(r.By) + " is higher"
	case desired.Outranked:
		return fmt.Sprintf("%s is not on %s: there %s has it, whose subject goes first", name, nodesOf(r.Nodes),
			party(r.By))
	case desired.Suppressed:
		return name + " is suppressed by " + party(r.By)
	case desired.Ineffective:
		return name + " is there and does not suppress " + party(r.By) + ", which is of higher rank"
	case desired.Conflict:
		return name + conflict(r)
	case desired.Unmet:
		return name + unmet(r)
	case desired.Cycle:
		return name + " is refused: " + cycle(r.Path)
	case desired.Refused:
		if r.Nodes > 0 {
			return fmt.Sprintf("%s is not on %s: %s", name, nodesOf(r.Nodes), r.About)
		}
		return name + " is refused: " + r.About
	case desired.Unplaced:
		return name + unplaced(r)
	}
	return name + ": " + string(r.Reason)
}

// subjectOf names what a reason is about.
func subjectOf(r *desired.Reason) string {
	name := string(r.Type) + " " + r.Codename
	if r.Version != "" {
		name += " " + r.Version
	}
	if r.Index != nil {
		return fmt.Sprintf("%s of %s, instance %d,", name, r.Subject, *r.Index)
	}
	return name + " of " + r.Subject
}

func party(p *desired.Party) string {
	name := string(p.Type) + " " + p.Codename
	if p.Version != "" {
		name += " " + p.Version
	}
	if p.Subject != "" {
		name += " of " + p.Subject
	}
	return name
}

func nodesOf(n int) string {
	if n == 1 {
		return "one node"
	}
	return fmt.Sprintf("%d nodes", n)
}

func notReady(r *desired.Reason) string {
	switch {
	case r.By != nil:
		return " is in preparation; " + party(r.By) + " is chosen"
	case len(r.Versions) == 0:
		return " is not desired: there is no such item"
	}
	return " is not desired: of its versions none is ready: " + strings.Join(r.Versions, ", ")
}

func deprecated(r *desired.Reason) string {
	switch {
	case r.By != nil:
		return " is deprecated; " + party(r.By) + " is chosen"
	case r.Version != "":
		return " is deprecated: it is not placed where it does not run"
	}
	return " is not desired: its versions are deprecated: " + strings.Join(r.Versions, ", ")
}

func conflict(r *desired.Reason) string {
	if r.Rule == desired.Hostname {
		return fmt.Sprintf(" is refused: %s has the hostname %s and is of higher rank", party(r.By), r.About)
	}
	return fmt.Sprintf(" is refused: %s needs %s, and it is there as %s", of(r.Needs), need(r.Needs), party(r.By))
}

// of names who needs something.
func of(n *desired.Need) string {
	if n.Of != nil {
		return "its " + party(n.Of)
	}
	return "it"
}

func need(n *desired.Need) string {
	name := string(n.Type) + " " + n.Codename
	if n.Range != "" {
		name += " " + n.Range
	}
	return name
}

func unmet(r *desired.Reason) string {
	n := r.Needs
	there := "; there is none"
	if len(r.Versions) > 0 {
		there = "; there are " + strings.Join(r.Versions, ", ")
	}
	switch {
	case r.Version == "":
		return fmt.Sprintf(" is not desired: no version is in the range %s%s", n.Range, there)
	case n.Type == items.Layer:
		return fmt.Sprintf(" is refused: %s needs %s, of which no version is ready%s", of(n), need(n), there)
	case n.Reason == "":
		return fmt.Sprintf(" is refused: %s needs %s, which no subject desires", of(n), need(n))
	case n.By != nil:
		return fmt.Sprintf(" is refused: %s needs %s, which is %s by %s", of(n), need(n), passive(n.Reason),
			party(n.By))
	}
	return fmt.Sprintf(" is refused: %s needs %s, which is %s itself", of(n), need(n), passive(n.Reason))
}

// passive is what has become of something for a reason.
func passive(c desired.Code) string {
	switch c {
	case desired.Suppressed:
		return "suppressed"
	case desired.Conflict:
		return "kept out"
	}
	return "refused"
}

func cycle(path []desired.Party) string {
	var names []string
	for i := range path {
		names = append(names, party(&path[i]))
	}
	if len(names) == 0 {
		return "it waits for itself"
	}
	return strings.Join(names, " waits for ") + " waits for " + names[0]
}

func unplaced(r *desired.Reason) string {
	text := " has no place"
	if r.By != nil {
		text = " has made room for " + party(r.By) + " and has no other place"
	}
	if r.Emptied == "" {
		return text + ": its subject is attached to no node that there is"
	}
	var counts []string
	for _, c := range r.Counts {
		counts = append(counts, fmt.Sprintf("%s %d", c.Filter, c.Places))
	}
	text += ": " + filtered(r.Emptied) + " (refused by " + strings.Join(counts, ", ") + ")"
	if len(r.Refusals) > 0 {
		text += "; " + Refusal(&r.Refusals[0])
	}
	return text
}

// filtered says what a filter that left nothing means.
func filtered(f desired.Filter) string {
	return map[desired.Filter]string{
		desired.OfState:        "no node takes part",
		desired.OfOnline:       "no node that takes part is online",
		desired.OfNode:         "its subject is attached to none of the nodes that are online",
		desired.OfLabels:       "no node that is left has its labels",
		desired.OfResources:    "no node that is left has a share of its resources",
		desired.OfDevices:      "no node that is left has a share of its devices",
		desired.OfPorts:        "on each node that is left somebody listens on its ports",
		desired.OfLoad:         "no node that is left stays below the minimum of its rules",
		desired.OfRuntime:      "no node that is left has a runtime for it",
		desired.OfPlatform:     "no runtime that is left runs what it is built for",
		desired.OfContent:      "no runtime that is left can run what it consists of",
		desired.OfCPU:          "no runtime that is left has enough CPU free",
		desired.OfRAM:          "no runtime that is left has enough RAM free",
		desired.OfStorage:      "no node that is left has enough storage free",
		desired.OfStateStorage: "no node that is left has enough room for its state",
		desired.OfInstances:    "no runtime that is left may have one more instance",
	}[f]
}

// Refusal says why an instance may not be at a place.
func Refusal(f *desired.Refusal) string {
	place := f.Node
	if f.Runtime != "" {
		place += "/" + f.Runtime
	}
	text := place + ": "
	switch f.Filter {
	case desired.OfState:
		text += "the node is " + f.About
	case desired.OfOnline:
		text += "the node is offline"
	case desired.OfNode:
		text += "the subject is not attached to it"
	case desired.OfLabels:
		text += "the label " + f.About + " is missing"
	case desired.OfResources, desired.OfDevices:
		text += fmt.Sprintf("of %s %d is needed and %d left", f.About, f.Needed, f.Available)
	case desired.OfPorts:
		text += "the port " + f.About + " is taken"
	case desired.OfLoad:
		text += underLoad(f)
	case desired.OfRuntime:
		if f.About == "" {
			return text + "there is no runtime"
		}
		text += "the runtime is of type " + f.About
	case desired.OfPlatform:
		text += "it runs " + f.About
	case desired.OfContent:
		text += f.About
	case desired.OfCPU:
		text += fmt.Sprintf("%d DMIPS are needed and %d free", f.Needed, f.Available)
	case desired.OfRAM:
		text += fmt.Sprintf("%d bytes of RAM are needed and %d free", f.Needed, f.Available)
	case desired.OfStorage:
		text += fmt.Sprintf("%d bytes of storage are needed and %d free", f.Needed, f.Available)
	case desired.OfStateStorage:
		text += fmt.Sprintf("%d bytes for state are needed and %d free", f.Needed, f.Available)
	case desired.OfInstances:
		text += "it has as many instances as it may"
	}
	var holders []string
	for _, h := range f.Holders {
		holders = append(holders, fmt.Sprintf("%s of %s, instance %d", h.Codename, h.Subject, h.Index))
	}
	if len(holders) > 0 {
		text += ", held by " + strings.Join(holders, "; ")
	}
	return text
}

// Chosen says why an instance is where it is.
func Chosen(c desired.Choice) string {
	return map[desired.Choice]string{
		desired.ByNode:     "a component is on each node of its subject",
		desired.ByStaying:  "its place was there and is kept",
		desired.ByBeing:    "nowhere else may it run",
		desired.ByPriority: "the node has the highest priority",
		desired.ByCPU:      "the most CPU was free there",
		desired.ByRAM:      "the most RAM was free there, with as much CPU",
		desired.ByID:       "of equal nodes it is the first",
		desired.ByRoom:     "others of lower priority made room",
		desired.ByRelief:   "it leaves a node that is overloaded",
	}[c]
}

// Item says in one sentence what decided about an item on a node.
func Item(e *desired.Explanation) string {
	name := string(e.Type) + " " + e.Codename
	switch {
	case len(e.Here) > 0:
		i := e.Here[0]
		text := fmt.Sprintf("%s %s of %s is on %s: %s", name, i.Version, i.Subject, e.Node, Chosen(i.Chosen))
		if more := len(e.Here) - 1; more > 0 {
			text += fmt.Sprintf("; and %d more", more)
		}
		return text
	case len(e.Layers) > 0:
		return fmt.Sprintf("%s %s is on %s for %s", name, e.Layers[0].Version, e.Node,
			strings.Join(e.Layers[0].For, ", "))
	case len(e.Elsewhere) > 0 && len(e.Refusals) > 0:
		return fmt.Sprintf("%s is on %s, not on %s", name, e.Elsewhere[0].Node, Refusal(&e.Refusals[0]))
	case len(e.Elsewhere) > 0:
		i := e.Elsewhere[0]
		return fmt.Sprintf("%s could be on %s, and is on %s: %s", name, e.Node, i.Node, Chosen(i.Chosen))
	}
	for i := range e.Reasons {
		if r := &e.Reasons[i]; r.Reason != desired.Superseded && r.Reason != desired.Ineffective {
			return Desired(r)
		}
	}
	if e.Type == items.Layer {
		return name + " is not on " + e.Node + ": nothing there needs it"
	}
	return name + " is not on " + e.Node + ": no subject desires it"
}
