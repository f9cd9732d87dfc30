package fleet

import (
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

// documentsDamaged makes the unit configuration's state failed if its document, or that on trial, cannot be read. What
// nodes run stays: nothing can be made of a document that is not known.
func (s *step) documentsDamaged(ev Damaged) {
	for hash, err := range ev.Documents {
		if err == nil {
			delete(s.damaged, hash)
		} else {
			s.damaged[hash] = err
		}
	}
	if err := s.ConfigDamage(); err != nil && (s.config.State != Failed || *s.config.Error != *err) {
		s.change(Failed, err, "journal")
	}
}

// ConfigDamage returns why the unit configuration in force, or on trial, cannot be read; nil: it can.
func (f *Fleet) ConfigDamage() *wire.Error {
	if err := f.trialDamage(); err != nil {
		return err
	}
	return f.damaged[f.config.Hash]
}

// Damage returns why the submitted document of this hash cannot be read from the journal; nil: it can.
func (f *Fleet) Damage(hash string) *wire.Error { return f.damaged[hash] }

func (f *Fleet) trialDamage() *wire.Error {
	if f.config.Trial == nil {
		return nil
	}
	return f.damaged[f.config.Trial.Hash]
}

func (f *Fleet) workloadsDamage() *wire.Error { return f.damaged[f.workloads.Hash] }

// lost resolves the document of those nodes anew whose issued one cannot be read. Where nothing is distributed, as
// while the state is failed, they keep what they have.
func (s *step) lost(ev Lost) {
	o, ok := s.offered(ev.Kind)
	if !ok {
		return
	}
	var nodes []*Node
	for _, n := range s.sorted() {
		k := n.Kinds[ev.Kind]
		if k == nil || k.Desired == nil || k.Desired.DocRef != ev.Doc || n.Info == nil {
			continue
		}
		if body, _ := o.body(n); body != nil {
			nodes = append(nodes, n)
		}
	}
	if len(nodes) > 0 {
		s.issue(ev.Kind, nodes, false, "the document that was issued is damaged in the journal")
	}
}

// trialDamageOver ends the failed state that the damage of a trial's document has caused, once that trial is over.
func (s *step) trialDamageOver(err *wire.Error) {
	c := &s.config
	if err == nil || c.State != Failed || *c.Error != *err || s.damaged[c.Hash] != nil {
		return
	}
	state := Installed
	if c.Version == "" {
		state = Absent
	}
	s.change(state, nil, "the trial whose document is damaged is over")
}
