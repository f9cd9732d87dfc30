package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"tandem.internal/controller/internal/artefact"
	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// emit makes a record, applies it and hands it out.
func (s *step) emit(r record.Record, data any) *record.Record {
	r.At = s.now.UTC() // as it is read back
	r.Seq = s.seq + 1
	if r.Data == nil {
		r.Data = record.Encode(data)
	}
	s.apply(&r, data)
	s.out.Records = append(s.out.Records, r)
	return &s.out.Records[len(s.out.Records)-1]
}

// Replay applies a record that was read back. An error means that the journal holds something
// that this program cannot have written.
func (f *Fleet) Replay(r *record.Record) error {
	data, err := f.decode(r)
	if err != nil {
		return fmt.Errorf("journal record %d (%s): %w", r.Seq, r.Type, err)
	}
	if err := f.targets(r, data); err != nil {
		return fmt.Errorf("journal record %d (%s): %w", r.Seq, r.Type, err)
	}
	f.apply(r, data)
	return nil
}

// targets refuses documents for nodes and of kinds that cannot be, and sources that are not known.
func (f *Fleet) targets(r *record.Record, data any) error {
	var nodes []string
	switch d := data.(type) {
	case record.IssuedData:
		for _, doc := range d.Docs {
			nodes = append(nodes, doc.Nodes...)
		}
	case record.WithdrawnData:
		nodes = d.Nodes
	case rolled:
		return f.rollable(r, &d.RolloutData)
	case record.Verdict, record.TrialOver, record.StateChange:
		src := f.source(wire.Kind(r.Kind))
		_, verdict := data.(record.Verdict)
		if src == nil || src.Parse == nil && !(verdict && src.Fold.Submit != nil) {
			return fmt.Errorf("no document of kind %.80q is known here", r.Kind)
		}
		return nil
	case record.KeysData:
		return d.Keys.Check()
	case record.Artefact:
		return artefact.Check(d)
	case record.CAData:
		return d.CAs.Check()
	case record.RootData:
		return d.Check()
	case record.Enrolment:
		return enrol.Check(d)
	case record.ForgottenData:
		if !wire.ValidName(r.Node) {
			return fmt.Errorf("%.80q is no name of a node", r.Node)
		}
		return nil
	default:
		return nil
	}
	o := f.output(wire.Kind(r.Kind))
	if o == nil || len(o.from) == 0 {
		return fmt.Errorf("no document of kind %.80q is known here", r.Kind)
	}
	if d, ok := data.(record.IssuedData); ok && d.Whole && d.Mode == wire.ModeTry && !o.onTrial() {
		return errors.New("documents to be tried by the whole unit, which tries nothing")
	}
	for _, name := range nodes {
		if !wire.ValidName(name) {
			return fmt.Errorf("%.80q is no name of a node", name)
		}
	}
	return nil
}

// decode reads what a record changes; nil if it changes nothing.
func (f *Fleet) decode(r *record.Record) (any, error) {
	switch r.Type {
	case record.Trouble, record.Note, record.Trimmed:
		return nil, nil
	case record.Settings:
		src := f.source(wire.Kind(r.Kind))
		if src == nil || src.Fold == nil {
			return nil, fmt.Errorf("no settings of kind %.80q are known here", r.Kind)
		}
		data, err := src.Fold.Decode(r.Data)
		return change{data}, err
	case record.Report:
		rep, err := wire.Decode[wire.Reported](r.Data)
		if err != nil {
			return nil, err
		}
		if !f.opt.Kinds.Reportable(rep.Kind) {
			return nil, fmt.Errorf("no report of kind %.80q is known here", rep.Kind)
		}
		return reported{rep, f.detail(rep)}, nil
	case record.Rollout:
		data, err := record.Decode(r.Type, r.Data)
		if err != nil {
			return nil, err
		}
		return rolled{RolloutData: data.(record.RolloutData)}, nil
	case record.Live:
		message, proof := wire.SplitProof(r.Data)
		l, err := wire.Decode[wire.Live](message)
		return presence{l, proof.Since()}, err
	}
	return record.Decode(r.Type, r.Data)
}

// detail reads the detail of a report that was taken; nil where it has none, or one that is not taken any more.
func (f *Fleet) detail(r *wire.Reported) any {
	o := f.output(r.Kind)
	if o == nil || o.Detail == nil {
		return nil
	}
	detail, err := o.Detail(r.Node, r.Detail)
	if err != nil {
		return nil
	}
	return detail
}

// apply changes the state as a record says. It is the only place that does.
func (f *Fleet) apply(r *record.Record, data any) {
	f.seq = r.Seq
	f.changes.record(r.Type)
	switch d := data.(type) {
	case record.OpenedData:
		f.epoch = cmp.Or(d.Epoch, f.epoch)
		for _, src := range f.sources {
			if t := src.Trial; t != nil && t.Deadline.Sub(r.At) > t.Within.Std() {
				t.Deadline = r.At.Add(t.Within.Std()) // the clock was set back: no trial lasts longer than it was to
			}
		}
		f.maintenance = f.maintenance.At(r.At)
		f.artefacts.Opened(r.At)
		f.wantBackups(d.Backups, r.At)
		for _, n := range f.nodes {
			if n.Up && !d.Online {
				n.Up, n.Since = false, r.At
			}
			n.heardOffline = n.heardOffline && d.Online
			f.review(n, r.At)
		}
	case record.KeysData:
		f.keys = d.Keys
	case record.CAData:
		f.cas = d.CAs
	case record.RootData:
		f.root = d
	case record.BackupData:
		f.backedUp = r.At
	case change:
		f.applyChange(r, d)
	case record.MaintenanceData:
		f.maintenance.changed(r, &d)
	case record.RequestData:
		f.questions.requested(r.Node, &d)
	case record.ReplyData:
		f.questions.replied(&d)
	case record.Artefact:
		f.artefacts.Apply(r.At, r.Who, d)
	case record.Enrolment:
		f.enrolled.Apply(r.Seq, r.At, r.Who, d)
		f.strangers.forget()
		f.awaits(d)
		f.touch(r.Node)
	case record.ForgottenData:
		f.applyForgotten(r.Node, r.At)
		f.touch(r.Node)
	case record.Verdict:
		f.applyVerdict(r, &d)
	case record.IssuedData:
		f.applyIssued(r, &d)
	case record.WithdrawnData:
		for _, name := range d.Nodes {
			if n := f.nodes[name]; n != nil {
				k := n.kind(wire.Kind(r.Kind))
				k.Desired, k.IssuedBoot, k.Before = nil, "", ""
				f.touch(name)
				f.review(n, r.At)
			}
		}
	case record.TrialOver:
		f.applyTrialOver(r, &d)
	case record.StateChange:
		st := &f.source(wire.Kind(r.Kind)).State
		st.State, st.Error, st.Since = d.State, d.Error, r.At
	case reported:
		f.applyReport(r.At, d)
	case presence:
		f.applyLive(r.At, d)
	case *wire.Event:
		n := f.node(d.Node, r.At)
		n.EventSeq, n.EventBoot = d.Seq, d.Boot
		n.noteAlert(r.At, d)
		f.touch(d.Node)
	case rolled:
		f.applyRollout(r, &d)
	}
}

func (f *Fleet) applyVerdict(r *record.Record, d *record.Verdict) {
	src := f.source(wire.Kind(r.Kind))
	st := &src.State
	switch {
	case src.Fold != nil: // what changed a collection is a Settings record
	case r.Type == record.Accepted && d.Rollout != "":
		st.Attempted, st.GivenUp = nil, stillGivenUp(st.GivenUp, d) // what follows from it is the rollout's
	case r.Type == record.Refused:
		st.Attempted = &view.Attempted{Version: d.Version, At: r.At, Who: r.Who, Error: d.Error}
	case d.Mode == wire.ModeTry:
		st.Attempted, st.GivenUp = nil, stillGivenUp(st.GivenUp, d)
		st.Trial = &kind.Trial{
			Version: d.Version, Hash: d.Hash, Lenient: d.Lenient, Who: r.Who,
			Deadline: r.At.Add(d.Within.Std()), Within: d.Within,
		}
	default:
		*st = kind.State{
			State: kind.Installed, Version: d.Version, Hash: d.Hash, Lenient: d.Lenient,
			Rev: r.Seq, Since: r.At, Who: r.Who, GivenUp: stillGivenUp(st.GivenUp, d),
		}
		src.split = false
		f.prune(src)
	}
}

// moved sets the rev of a source whose documents were issued to the whole unit.
func (src *source) moved(rev uint64, mode wire.Mode) {
	switch {
	case src.Fold != nil: // its rev is that of its newest change
	case mode != wire.ModeTry:
		src.Rev = rev
	case src.Trial != nil:
		src.Trial.Rev = rev
	}
}

func (f *Fleet) applyIssued(r *record.Record, d *record.IssuedData) {
	if d.Whole {
		for _, src := range f.output(wire.Kind(r.Kind)).from {
			src.moved(r.Seq, d.Mode)
		}
	}
	f.newest = wire.Stamp{Epoch: d.Epoch, Rev: r.Seq}
	of := d.Of
	if o := f.output(wire.Kind(r.Kind)); of == "" && o.main != nil {
		of = o.main.inForce(d.Mode)
	}
	for _, g := range d.Docs {
		doc := &kind.Doc{
			DocRef: wire.DocRef{Epoch: d.Epoch, Rev: r.Seq, Version: d.Version, Hash: g.Hash},
			Mode:   d.Mode, Within: d.Within, Issued: r.At, Of: of,
		}
		for _, name := range g.Nodes {
			n := f.node(name, r.At)
			k := n.kind(wire.Kind(r.Kind))
			k.next(doc)
			k.IssuedBoot, n.retries = n.Boot, 0
			f.touch(name)
			f.review(n, r.At)
		}
	}
}

// node returns a node, known from now on.
func (f *Fleet) node(name string, at time.Time) *Node {
	n := f.nodes[name]
	if n == nil {
		n = &Node{Name: name, FirstSeen: at, Since: at, Kinds: map[wire.Kind]*KindState{}, index: -1}
		f.nodes[name] = n
		delete(f.forgotten, name)
		f.strangers.add(f.hasJoined(name))
	}
	return n
}
