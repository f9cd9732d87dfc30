package fleet

import (
	"maps"
	"slices"

	"tandem.internal/controller/internal/artefact"
	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/wire"
)

// Artefact is a wish about the store of artefacts; answered under Ticket.
type Artefact struct {
	Ticket uint64
	Event  artefact.Event
	Who    string // the operator; "" when the controller itself asks
}

func (Artefact) event() {}

// artefact has package artefact decide, and makes the decision a record.
func (s *step) artefact(ev Artefact) {
	if remove, ok := ev.Event.(artefact.Remove); ok {
		used := slices.Clone(remove.Used) // whoever asked before this step may not know of the newest
		s.Keeps(func(digest, by string) {
			if digest == remove.Digest {
				used = append(used, by)
			}
		})
		slices.Sort(used)
		remove.Used = slices.Compact(used)
		ev.Event = remove
	}
	d := s.artefacts.Decide(s.now, ev.Event)
	if d.Record != nil {
		s.emit(record.Record{Type: d.Record.Type(), Who: ev.Who}, d.Record)
	}
	a := Answer{Ticket: ev.Ticket}
	if d.Err != nil {
		a.Err = d.Err
	}
	s.effect(a)
}

// Keeps calls each for every artefact that the sources keep in use, with what for, in words.
func (f *Fleet) Keeps(each func(digest, by string)) {
	for _, src := range f.sources {
		if src.Artefacts != nil {
			src.Artefacts(src.installed, each)
		}
	}
}

// Artefacts returns what is in the store of artefacts. It is not to be changed.
func (f *Fleet) Artefacts() *artefact.State { return f.artefacts }

// Artefact implements kind.Unit.
func (f *Fleet) Artefact(digest string) (size int64, there bool) {
	a, there := f.artefacts.Artefacts[digest]
	return a.Size, there
}

// Bodies lists the hashes of the documents that a node should have, or runs, by their kinds.
func (n *Node) Bodies() map[wire.Kind][]string {
	all := map[wire.Kind][]string{}
	for name, k := range n.Kinds {
		if k.Desired != nil {
			all[name] = append(all[name], k.Desired.Hash)
		}
		if k.Running != nil && !slices.Contains(all[name], k.Running.Hash) {
			all[name] = append(all[name], k.Running.Hash)
		}
	}
	return all
}

// restoreArtefacts takes over what a checkpoint has.
func (f *Fleet) restoreArtefacts(saved *artefact.State) {
	if saved != nil {
		maps.Copy(f.artefacts.Leases, saved.Leases)
		maps.Copy(f.artefacts.Artefacts, saved.Artefacts)
	}
}
