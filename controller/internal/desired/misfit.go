package desired

import "tandem.internal/shared/items"

// Misfit is what nodes cannot be given although there is a place for it, as who makes their documents of a plan has
// found: a version of an item for a subject; or one instance of a service; or a component in one runtime.
type Misfit struct {
	Item     items.Ref
	Version  string
	Subject  string // "": every
	Instance bool   // Index counts
	Index    int    // of the instance
	Node     string // of a component in one runtime; "": all
	Runtime  string // its ID
	Why      string // in words, without the name of the item
}

// misfitKey is what a Misfit is about; of all instances the index is -1.
type misfitKey struct {
	ref              items.Ref
	version, subject string
	index            int
	node, runtime    string
}

// addMisfits sorts the misfits by what they are about.
func (w *world) addMisfits() {
	w.misfits = make(map[misfitKey]string, len(w.in.Misfits))
	for i := range w.in.Misfits {
		m := &w.in.Misfits[i]
		k := misfitKey{m.Item, m.Version, m.Subject, m.Index, m.Node, m.Runtime}
		if !m.Instance && m.Node == "" {
			k.index = -1
		}
		if old := w.misfits[k]; old == "" || m.Why < old {
			w.misfits[k] = m.Why
		}
	}
}

// misfit puts out the candidates that are misfits as a whole, before what depends on them is looked at.
func (w *world) misfit() {
	if len(w.misfits) == 0 {
		return
	}
	for _, c := range w.live() {
		k := misfitKey{c.ref(), c.Meta.Version, c.subject.Codename, -1, "", ""}
		why := w.misfits[k]
		if why == "" {
			k.subject = ""
			why = w.misfits[k]
		}
		if why != "" {
			r := c.reason(Refused)
			r.About = why
			w.refuse(c, r)
		}
	}
}

// refusedInstance records that an instance of a service is a misfit, if it is.
func (w *world) refusedInstance(i *instance) bool {
	why := w.misfits[misfitKey{i.ref(), i.Meta.Version, i.subject.Codename, i.index, "", ""}]
	if why == "" {
		return false
	}
	r := i.reason(Refused)
	r.About = why
	w.reasons = append(w.reasons, r)
	return true
}
