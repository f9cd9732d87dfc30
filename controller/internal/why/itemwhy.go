package why

import (
	"strings"
	"time"

	"tandem.internal/controller/internal/desired"
	"tandem.internal/controller/internal/view"
)

// The states of an item on a node. Those of what is not there are codes of reasons besides, such as "superseded".
// Programs read them: they are only added.
const (
	ItemHere      = "here"      // it is to run there
	ItemElsewhere = "elsewhere" // it is to run on other nodes
	ItemNowhere   = "nowhere"   // nothing wants it there
)

// ItemWhy says what decided about an item on a node, in sentences.
func ItemWhy(e *desired.Explanation) view.Why {
	v := view.Why{About: view.About{Kind: view.AboutItem, Item: string(e.Type) + "/" + e.Codename, Node: e.Node}}
	b := basis{view.LevelWarning, "the decision by items, subjects and nodes: tandem desired plan",
		"an item, a subject or a node changes"}
	switch {
	case len(e.Here) > 0 || len(e.Layers) > 0:
		v.State, b.level = ItemHere, view.LevelInfo
	case len(e.Elsewhere) > 0:
		v.State, b.level = ItemElsewhere, view.LevelInfo
	case len(e.Reasons) > 0:
		v.State = string(e.Reasons[0].Reason)
	default:
		v.State, b.level = ItemNowhere, view.LevelInfo
	}
	v.Sentences = []view.Because{b.because(time.Time{}, "%s", e.Why)}
	say := func(level view.Level, changes, format string, a ...any) {
		b.level, b.changes = level, changes
		v.Sentences = append(v.Sentences, b.because(time.Time{}, format, a...))
	}
	for i := range e.Here {
		if o := e.Here[i].Relieves; o != nil {
			say(view.LevelInfo, "the load changes", "%s", Overload(o))
		}
	}
	for i := range e.Reasons {
		if e.Reasons[i].Why != e.Why {
			say(view.LevelWarning, "an item, a subject or a node changes", "%s", Desired(&e.Reasons[i]))
		}
	}
	for i := range e.Refusals {
		say(view.LevelInfo, "the node changes, or what runs there does", "it may not be at %s", Refusal(&e.Refusals[i]))
	}
	for _, i := range e.Elsewhere {
		say(view.LevelInfo, "another place becomes better, and it may move",
			"version %s of %s, instance %d, is on %s: %s", i.Version, i.Subject, i.Index, i.Node, Chosen(i.Chosen))
	}
	if more := e.Others - len(e.Elsewhere); more > 0 {
		say(view.LevelInfo, "an item, a subject or a node changes", "there are %d more on other nodes", more)
	}
	for _, c := range e.Changes {
		say(view.LevelInfo, "the decision is applied: tandem desired apply", "to be done on %s: %s", e.Node,
			strings.TrimSpace(string(c.Do)+" "+c.Version+" "+Remark(c)))
	}
	return v
}

// Remark says more of something that is to be done: where it comes from, and where it goes.
func Remark(c desired.Change) string {
	var parts []string
	if c.From != "" && c.From != c.Version {
		parts = append(parts, "from "+c.From)
	}
	if c.Env {
		parts = append(parts, "with another environment")
	}
	if c.FromNode != "" {
		parts = append(parts, "from the node "+c.FromNode)
	}
	if c.ToNode != "" {
		parts = append(parts, "goes to "+c.ToNode)
	}
	return strings.Join(parts, ", ")
}
