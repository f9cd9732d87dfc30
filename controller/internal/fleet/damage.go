package fleet

import (
	"tandem.internal/controller/internal/kind"
	"tandem.internal/shared/wire"
)

// Damaged lists submitted documents whose bytes the journal no longer has, by hash, each with the reason; nil: it has
// them again. The shell says so after it has loaded the journal.
type Damaged struct{ Documents map[string]*wire.Error }

// Lost says that the journal no longer has the bytes of a document that was issued to nodes.
type Lost struct {
	Kind wire.Kind
	Doc  wire.DocRef
}

func (Damaged) event() {}
func (Lost) event()    {}

// documentsDamaged makes the state of a source with a readable copy failed if its document, or that on trial, cannot
// be read. What nodes run stays: nothing can be made of a document that is not known.
func (s *step) documentsDamaged(ev Damaged) {
	for hash, err := range ev.Documents {
		if err == nil {
			delete(s.damaged, hash)
		} else {
			s.damaged[hash] = err
		}
	}
	for _, src := range s.sources {
		err := s.damage(src)
		if src.Copied && err != nil && (src.State.State != kind.Failed || *src.Error != *err) {
			s.change(src, kind.Failed, err, "journal")
		}
	}
}

// damage returns why the document of a source that is in force, or on trial, cannot be read; nil: it can.
func (f *Fleet) damage(src *source) *wire.Error {
	if err := f.trialDamage(src); err != nil {
		return err
	}
	return f.damaged[src.Hash]
}

func (f *Fleet) trialDamage(src *source) *wire.Error {
	if src.Trial == nil {
		return nil
	}
	return f.damaged[src.Trial.Hash]
}

// Damage returns why the document of a source that is in force, or on trial, cannot be read; nil: it can.
func (f *Fleet) Damage(name wire.Kind) *wire.Error {
	if src := f.source(name); src != nil {
		return f.damage(src)
	}
	return nil
}

// Damaged returns why the submitted document of this hash cannot be read from the journal; nil: it can.
func (f *Fleet) Damaged(hash string) *wire.Error { return f.damaged[hash] }

// lost resolves the document of those nodes anew whose issued one cannot be read. Where nothing is distributed, as
// while the state is failed, they keep what they have.
func (s *step) lost(ev Lost) {
	o := s.output(ev.Kind)
	of, ok := s.offered(o)
	if !ok {
		return
	}
	var nodes []*Node
	for _, n := range s.sorted() {
		k := n.Kinds[ev.Kind]
		if k == nil || k.Desired == nil || k.Desired.DocRef != ev.Doc || !s.takesDocuments(n) {
			continue
		}
		if of.body(n) != nil {
			nodes = append(nodes, n)
		}
	}
	if len(nodes) > 0 {
		s.issue(of, nodes, false, "the document that was issued is damaged in the journal")
	}
}

// trialDamageOver ends the failed state that the damage of a trial's document has caused, once that trial is over.
func (s *step) trialDamageOver(src *source, err *wire.Error) {
	if err == nil || src.State.State != kind.Failed || *src.Error != *err || s.damaged[src.Hash] != nil {
		return
	}
	state := kind.Installed
	if src.Version == "" {
		state = kind.Absent
	}
	s.change(src, state, nil, "the trial whose document is damaged is over")
}
