package board

import (
	"cmp"
	"fmt"
	"strings"

	"tandem.internal/controller/internal/phrase"
	"tandem.internal/controller/internal/view"
)

// text is a line of a node's screen.
type text struct {
	text  string
	style Style
}

// showNode writes how a node is, and why, as far down as was scrolled.
func (b *Board) showNode(f *Frame) {
	row, known := b.rows[b.node]
	x := f.put(0, 0, phrase.Shorten(b.node, b.columns), Bold)
	if known {
		state, style := ofClass.text(b, &row)
		x = f.put(x, 0, "  "+state, style)
		f.put(x, 0, " for "+b.age(&row), Plain)
	}
	lines := b.nodeLines(&row, known)
	room := b.lines - 2
	b.scroll = min(b.scroll, max(len(lines)-room, 0))
	for i, l := range lines[b.scroll:min(b.scroll+room, len(lines))] {
		f.put(0, 1+i, l.text, l.style)
	}
}

func (b *Board) nodeLines(row *view.Row, known bool) (lines []text) {
	add := func(indent, content string, style Style) {
		for _, piece := range phrase.Wrap(phrase.Clean(content), max(b.columns-len(indent), 1)) {
			lines = append(lines, text{indent + piece, style})
			indent = strings.Repeat(" ", len(indent))
		}
	}
	switch {
	case !known:
		add("", "it has gone from the unit", Yellow)
	case row.Desired != "" && row.Desired != row.Version:
		add("", fmt.Sprintf("%s, runs %s and should run %s", row.State, cmp.Or(row.Version, "nothing"), row.Desired),
			Plain)
	default:
		add("", fmt.Sprintf("%s, runs %s", row.State, cmp.Or(row.Version, "nothing")), Plain)
	}
	switch {
	case b.facts == nil:
		add("", "asking…", Plain)
		return lines
	case b.facts.Error != "":
		add("", b.facts.Error, Red)
		return lines
	}
	b.aboutNode(&b.facts.Node, add)
	all := b.facts.Why.Sentences
	for i := range all {
		s := &all[i]
		if i == 0 {
			lines = append(lines, text{})
		}
		mark, style := marked(s.Level)
		add(mark+" ", s.Text, style)
		if i+1 == len(all) || s.Source != all[i+1].Source || s.Changes != all[i+1].Changes {
			add("    ", "by "+s.Source+"; until "+s.Changes, Plain)
		}
	}
	return lines
}

// aboutNode adds what a node is.
func (b *Board) aboutNode(n *view.Node, add func(indent, content string, style Style)) {
	what := cmp.Or(n.Type, "type not told")
	if i := n.Info; i != nil {
		what += fmt.Sprintf(", %s on %s, %s, %s RAM, agent %s", i.OS, i.Arch, phrase.Plural(i.CPUs, "CPU"),
			phrase.Size(i.RAM), i.AgentVersion)
	}
	add("", what, Plain)
	switch {
	case n.FirstSeen.IsZero():
		add("", "it has not connected yet", Yellow)
	case n.Online:
		add("", "online for "+phrase.Span(b.Now.Sub(n.Since)), Plain)
	default:
		add("", "offline for "+phrase.Span(b.Now.Sub(n.Since)), Yellow)
	}
	if len(n.Slots) > 0 {
		add("", phrase.Plural(len(n.Slots), "slot")+" of workloads: tandem workload list --node "+n.Node, Plain)
	}
}
