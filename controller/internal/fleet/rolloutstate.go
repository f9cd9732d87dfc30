package fleet

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/shared/wire"
)

// keptRollouts is how many rollouts are kept that have ended, the newest.
const keptRollouts = 8

// rolled is the data of a Rollout record.
type rolled struct {
	record.RolloutData
	done bool // the rollouts have applied it themselves
}

func ofRecord(r *record.Record, d *record.RolloutData) rollout.Record {
	return rollout.Record{Seq: r.Seq, At: r.At, ID: d.ID, Data: d.Of()}
}

// rollable refuses a record that this program cannot have written.
func (f *Fleet) rollable(r *record.Record, d *record.RolloutData) error {
	if d.Begun != nil {
		src := (*source)(nil)
		if d.Document != nil {
			src = f.source(d.Document.Source)
		}
		switch {
		case !f.rollsOne(src) || f.madeFrom(src)[0].Name != d.Begun.Kind:
			return errors.New("a rollout of a document that is not known here")
		case src.Fold != nil && (src.next == nil || d.Document.Element == ""):
			return errors.New("a rollout of a change that is not known here")
		case src.State.Rollout != nil:
			return fmt.Errorf("a rollout of the %s while another one goes on", src.Title)
		case d.Document.ID != d.ID || d.Document.Hash == "" || d.Document.Hash == src.Hash:
			return errors.New("a rollout of nothing")
		}
	}
	return f.rollouts.Check(ofRecord(r, d))
}

// rollsOne reports whether a source can be rolled out: one kind is made from it.
func (f *Fleet) rollsOne(src *source) bool {
	return src != nil && src.rolls() && len(f.madeFrom(src)) == 1
}

// applyRollout changes the state as a record about a rollout says.
func (f *Fleet) applyRollout(r *record.Record, d *rolled) {
	if !d.done {
		if err := f.rollouts.Replay(ofRecord(r, &d.RolloutData)); err != nil {
			panic("fleet: a rollout's record was not checked: " + err.Error())
		}
	}
	if d.Begun != nil {
		f.rolloutBegun(d.Document)
		return
	}
	doc := f.rolled[d.ID]
	src := f.source(doc.Source)
	if d.Reverting != nil || d.Ended != nil && d.Ended.Phase != rollout.Done {
		f.giveUp(r, src, doc)
	}
	current := src.State.Rollout != nil && src.State.Rollout.ID == d.ID
	switch {
	case d.Ended == nil || !current:
	case d.Ended.Phase == rollout.Done:
		st := kind.State{
			State: kind.Installed, Version: doc.Version.Version, Hash: doc.Hash, Lenient: doc.Lenient, Rev: doc.Rev,
			Since: r.At, Who: doc.Who, GivenUp: src.GivenUp,
		}
		if src.Fold == nil {
			f.install(src, doc, st)
			return
		}
		st.Version, st.Rev = strconv.FormatUint(r.Seq, 10), r.Seq // what else was changed meanwhile is older
		src.installed, src.State = src.contents[doc.Hash], st
		f.unite(src)
	default:
		src.State.Rollout = nil
		f.prune(src)
		if src.split = len(src.versions) > 0; !src.split && src.Fold != nil {
			f.unite(src)
		}
	}
}

// rolloutBegun begins one, and forgets those of long ago.
func (f *Fleet) rolloutBegun(doc *kind.Rollout) {
	f.rolled[doc.ID] = doc
	src := f.source(doc.Source)
	src.keep(doc.Version, src.next)
	src.next = nil
	src.State.Rollout, src.split = doc, true
	var ended []string
	for _, id := range f.rollouts.IDs() {
		if o := f.source(f.rolled[id].Source).State.Rollout; o == nil || o.ID != id {
			ended = append(ended, id)
		}
	}
	for _, id := range ended[:max(0, len(ended)-keptRollouts)] {
		f.rollouts.Forget(id)
		delete(f.rolled, id)
	}
}

// giveUp remembers a document at which nodes have failed, when its rollout is aborted.
func (f *Fleet) giveUp(r *record.Record, src *source, doc *kind.Rollout) {
	if src.Fold != nil {
		return // nodes remember what failed
	}
	for _, o := range f.madeFrom(src) {
		for _, n := range f.sorted() {
			k := n.Kinds[o.Name]
			if k == nil || !k.Broke() || k.Desired.Of != doc.Hash {
				continue
			}
			err := k.Last.Error
			if err == nil {
				err = wire.New(wire.CodeApplyFailed, "", "it gave no reason")
			}
			src.GivenUp = &kind.GivenUp{
				Version: doc.Version.Version, Hash: doc.Hash, Error: ofNode(n.Name, err), Rollout: doc.ID, At: r.At,
			}
			return
		}
	}
}

// savedRollouts is what a checkpoint has of the rollouts; nil: there were none.
func (f *Fleet) savedRollouts() jsontext.Value {
	if len(f.rolled) == 0 {
		return nil
	}
	saved, err := f.rollouts.Checkpoint()
	if err != nil {
		panic("fleet: cannot encode the rollouts: " + err.Error())
	}
	return saved
}

func (f *Fleet) restoreRollouts(snap *snapshot) error {
	if len(snap.Rollouts) > 0 {
		set, err := rollout.Load(f.opt.Zones, snap.Rollouts)
		if err != nil {
			return err
		}
		f.rollouts = set
	}
	maps.Copy(f.rolled, snap.Rolled)
	ids := f.rollouts.IDs()
	slices.Sort(ids)
	if !slices.Equal(ids, slices.Sorted(maps.Keys(f.rolled))) {
		return errors.New("it has other rollouts than documents for them")
	}
	for id, doc := range f.rolled {
		if !f.rollsOne(f.source(doc.Source)) {
			return fmt.Errorf("the rollout %.80q is of a document that is not known here", id)
		}
	}
	for _, src := range f.sources {
		if r := src.State.Rollout; r != nil && f.rolled[r.ID] == nil {
			return fmt.Errorf("the rollout %.80q is not there", r.ID)
		}
	}
	return nil
}
