package fleet

import (
	"time"

	"tandem.internal/shared/wire"
)

// Newest is the stamp of the document that was issued last, to whichever node.
func (f *Fleet) Newest() wire.Stamp { return f.newest }

// tellEvery bounds how often one node is told which documents are its newest.
const tellEvery = 5 * time.Second

// tellNewest answers a node that asks, about a beacon with this mark, which documents it should have.
func (s *step) tellNewest(n *Node, mark string) {
	if past := s.now.Sub(n.answered); past >= 0 && past < tellEvery {
		return
	}
	n.answered = s.now
	p := wire.NewestParams{Mark: mark, Stamps: map[wire.Kind]wire.Stamp{}}
	for name, k := range n.Kinds {
		if k.Desired != nil {
			p.Stamps[name] = k.Desired.Stamp()
		}
	}
	params := wire.Encode(&p)
	s.ask(wire.MethodNewest, []string{n.Name}, func(string) []byte { return params })
}
