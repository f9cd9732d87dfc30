package workload

import (
	"fmt"

	"tandem.internal/shared/strictjson"
)

// Place is where an entry begins: its file, and line and column in it, both from 1.
type Place struct {
	File         string // "" where there is only one
	Line, Column int    // 0: not known
}

func (p Place) String() string {
	switch {
	case p.Line == 0:
		return ""
	case p.File == "":
		return fmt.Sprintf("line %d", p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Add adds the entries of o, which a file of this name holds, to s.
func (s *Set) Add(o *Set, file string) {
	s.Configs = append(s.Configs, o.Configs...)
	s.Topologies = append(s.Topologies, o.Topologies...)
	s.Fillers = append(s.Fillers, o.Fillers...)
	for what, places := range o.places {
		for _, p := range places {
			s.addPlace(what, Place{file, p.Line, p.Column})
		}
	}
}

// addPlace adds the place of an entry. what is the slot, service@node, or a space and the name of a filler.
func (s *Set) addPlace(what string, p Place) {
	if s.places == nil {
		s.places = map[string][]Place{}
	}
	s.places[what] = append(s.places[what], p)
}

// newest is the last of some places.
func newest(places []Place) Place {
	if len(places) == 0 {
		return Place{}
	}
	return places[len(places)-1]
}

// slot returns the place of a slot's entry, filler that of a filler.
func (f *filling) slot(s Slot) Place        { return newest(f.set.places[s.String()]) }
func (f *filling) filler(name string) Place { return newest(f.set.places[" "+name]) }

// show returns the name of a filler and its place, since a set may have several files.
func (f *filling) show(name string) string { return strictjson.Show(name) + inBrackets(f.filler(name)) }

// inBrackets returns a place in brackets, "" if it is not known.
func inBrackets(p Place) string {
	if p.Line == 0 {
		return ""
	}
	return " (" + p.String() + ")"
}

// first returns, as the end of a message, the place of the first of two entries with one name.
func first(places []Place) string {
	if len(places) < 2 {
		return ""
	}
	return ", the first one at " + places[0].String()
}
