package workload

import (
	"fmt"

	"tandem.internal/shared/strictjson"
)

// Place is the place where an entry begins: its file, and the line and column there, both counted from 1.
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

// Add adds the entries of o to s. file is the name of the file that o was read from.
func (s *Set) Add(o *Set, file string) {
	s.Configs = append(s.Configs, o.Configs...)
	s.Topologies = append(s.Topologies, o.Topologies...)
	s.Fillers = append(s.Fillers, o.Fillers...)
	for key, places := range o.places {
		for _, p := range places {
			s.addPlace(key, Place{file, p.Line, p.Column})
		}
	}
	s.stored = s.stored || o.stored
}

// slotKey is the key of a slot's entry: a slot may have one of a topology beside one of an instance or job.
func slotKey(s Slot, class Class) string {
	if class == TopologicalInstance {
		return s.String() + " topology"
	}
	return s.String()
}

// addPlace adds the place of an entry. key is the slotKey of a slot, or a space and the name of a filler.
func (s *Set) addPlace(key string, p Place) {
	if s.places == nil {
		s.places = map[string][]Place{}
	}
	s.places[key] = append(s.places[key], p)
}

// newest returns the last of the places; the zero Place if there are none.
func newest(places []Place) Place {
	if len(places) == 0 {
		return Place{}
	}
	return places[len(places)-1]
}

// slot returns the place of a slot's entry: of its instance or job, else of its topology.
func (f *filling) slot(s Slot) Place {
	if places := f.set.places[slotKey(s, Instance)]; len(places) > 0 {
		return newest(places)
	}
	return newest(f.set.places[slotKey(s, TopologicalInstance)])
}

// filler returns the place of a filler.
func (f *filling) filler(name string) Place { return newest(f.set.places[" "+name]) }

// show returns the quoted name of a filler with its place, for messages.
func (f *filling) show(name string) string { return strictjson.Show(name) + inBrackets(f.filler(name)) }

// inBrackets returns a place in brackets, after a space; "" if it is not known.
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
