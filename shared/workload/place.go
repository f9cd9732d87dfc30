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

// Add joins what a file of this name says to s.
func (s *Set) Add(o *Set, file string) {
	s.Configs = append(s.Configs, o.Configs...)
	s.Topologies = append(s.Topologies, o.Topologies...)
	s.Fillers = append(s.Fillers, o.Fillers...)
	for what, places := range o.places {
		for _, p := range places {
			s.note(what, Place{file, p.Line, p.Column})
		}
	}
}

// note keeps where an entry stands: that of a slot, service@node, or a filler, by its name behind a space.
func (s *Set) note(what string, p Place) {
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

// slot is where a slot's entry stands, and filler where a filler does.
func (f *filling) slot(s Slot) Place        { return newest(f.set.places[s.String()]) }
func (f *filling) filler(name string) Place { return newest(f.set.places[" "+name]) }

// show names a filler, with its place where a name alone may be looked for in several files.
func (f *filling) show(name string) string { return strictjson.Show(name) + behind(f.filler(name)) }

// behind is a place in brackets, if it is known.
func behind(p Place) string {
	if p.Line == 0 {
		return ""
	}
	return " (" + p.String() + ")"
}

// first is where the first of two entries of one name stands.
func first(places []Place) string {
	if len(places) < 2 {
		return ""
	}
	return ", the first one at " + places[0].String()
}
