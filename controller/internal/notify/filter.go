package notify

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"tandem.internal/controller/internal/filter"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/controller/internal/words"
	"tandem.internal/shared/event"
	"tandem.internal/shared/near"
	"tandem.internal/shared/wire"
)

// Filter says which entries a receiver wants: those of a level or a higher one, of any of the types, about any of the
// nodes, about nodes that are as Where says, caused by any of the names. What is empty picks everything.
type Filter view.NoticeFilter

// maxPatterns bounds each list of a Filter, maxPattern the bytes of one of them.
const (
	maxPatterns = 32
	maxPattern  = 256
)

// Completed is the filter with its level: that of warnings unless types are named.
func (f Filter) Completed() Filter {
	switch {
	case f.Level != "":
	case len(f.Types) == 0:
		f.Level = string(Warning)
	default:
		f.Level = string(Info)
	}
	return f
}

// Check judges it.
func (f *Filter) Check() *wire.Error {
	if f.Level != "" && rank(Level(f.Level)) < 0 {
		return wire.New(wire.CodeBadValue, "/level", fmt.Sprintf("%.40q is no level: info, warning or error", f.Level))
	}
	for i, t := range f.Types {
		if _, ok := record.ParseType(t); !ok && !slices.Contains(event.Types(), t) {
			return wire.New(wire.CodeBadValue, fmt.Sprintf("/types/%d", i),
				fmt.Sprintf("%.64q is a type of neither records nor nodes' events%s", t, near.Hint(t, typeNames())))
		}
	}
	if _, err := filter.Parse(f.Where); err != nil {
		err.Path = "/where"
		return err
	}
	for _, l := range []struct {
		name string
		all  []string
	}{{"types", f.Types}, {"nodes", f.Nodes}, {"who", f.Who}} {
		if len(l.all) > maxPatterns {
			return wire.New(wire.CodeTooLarge, "/"+l.name, fmt.Sprintf("at most %d", maxPatterns))
		}
		for i, p := range l.all {
			if p == "" || len(p) > maxPattern || !utf8.ValidString(p) || strings.ContainsFunc(p, wire.Misleads) {
				return wire.New(wire.CodeBadValue, fmt.Sprintf("/%s/%d", l.name, i),
					fmt.Sprintf("1 to %d bytes are expected, in which * stands for anything", maxPattern))
			}
		}
	}
	return nil
}

func typeNames() (all []string) {
	for _, t := range record.Types() {
		all = append(all, t.String())
	}
	return append(all, event.Types()...)
}

// Match reports whether an entry of a level is wanted. With Where an entry about no node is not.
func (f *Filter) Match(e *Entry, level Level) bool {
	switch {
	case rank(level) < rank(Level(f.Level)),
		f.Where != "" && !e.Selected,
		e.Type == record.Report.String() && !f.reports():
		return false
	}
	ofType := func(t string) bool { return t == e.Type || e.Type == record.Event.String() && t == e.Kind }
	return (len(f.Types) == 0 || slices.ContainsFunc(f.Types, ofType)) &&
		anyOf(f.Nodes, e.Node) && anyOf(f.Who, e.Who)
}

// reports reports whether what nodes report is wanted: of those who name no types only by who wants everything.
func (f *Filter) reports() bool {
	return len(f.Types) > 0 || rank(Level(f.Level)) <= rank(Info)
}

// Reads lists the types of records that have to be read for it, besides those that every receiver needs.
func (f *Filter) Reads() []record.Type {
	var all []record.Type
	if len(f.Types) == 0 {
		for _, t := range record.Types() {
			if rank(words.Highest(t)) >= rank(Level(f.Level)) && (t != record.Report || f.reports()) {
				all = append(all, t)
			}
		}
	}
	for _, name := range f.Types {
		t, ok := record.ParseType(name)
		if !ok {
			t = record.Event
		}
		all = append(all, t)
	}
	all = append(all, record.Maintenance)
	slices.Sort(all)
	return slices.Compact(all)
}

// anyOf reports whether a name has the form of any of the patterns. Without patterns each name has.
func anyOf(patterns []string, name string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
}

// matches reports whether a pattern is the form of a name: * stands for any characters, also for none.
func matches(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	first, last := parts[0], parts[len(parts)-1]
	if len(parts) == 1 {
		return name == pattern
	}
	rest, ok := strings.CutPrefix(name, first)
	if rest, ok2 := strings.CutSuffix(rest, last); ok && ok2 {
		for _, p := range parts[1 : len(parts)-1] {
			at := strings.Index(rest, p)
			if at < 0 {
				return false
			}
			rest = rest[at+len(p):]
		}
		return true
	}
	return false
}
