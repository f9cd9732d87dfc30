package fleet

import (
	"errors"
	"fmt"
	"time"

	"tandem.internal/controller/internal/enrol"
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
	data, err := decode(r)
	if d, ok := data.(record.IssuedData); ok && d.Whole && d.Mode == wire.ModeTry && r.Kind == string(wire.KindConfig) && f.config.Trial == nil {
		err = errors.New("documents to be tried by the whole unit, which tries nothing")
	}
	if err != nil {
		return fmt.Errorf("journal record %d (%s): %w", r.Seq, r.Type, err)
	}
	if err := targets(r, data); err != nil {
		return fmt.Errorf("journal record %d (%s): %w", r.Seq, r.Type, err)
	}
	f.apply(r, data)
	return nil
}

// targets refuses documents for nodes and of kinds that cannot be.
func targets(r *record.Record, data any) error {
	var nodes []string
	switch d := data.(type) {
	case record.IssuedData:
		for _, doc := range d.Docs {
			nodes = append(nodes, doc.Nodes...)
		}
	case record.WithdrawnData:
		nodes = d.Nodes
	case record.Verdict, record.TrialOver, record.StateChange, *wire.Reported:
	case record.SettingsData:
		if err := checkScope(&d.Scope); err != nil {
			return err
		}
		return nil
	case record.KeysData:
		return d.Keys.Check()
	case record.Enrolment:
		return enrol.Check(d)
	default:
		return nil
	}
	if !Reportable(wire.Kind(r.Kind)) {
		return fmt.Errorf("no document is of kind %.80q", r.Kind)
	}
	for _, name := range nodes {
		if !wire.ValidName(name) {
			return fmt.Errorf("%.80q is no name of a node", name)
		}
	}
	return nil
}

// decode reads what a record changes; nil if it changes nothing.
func decode(r *record.Record) (any, error) {
	switch r.Type {
	case record.Trouble, record.Note:
		return nil, nil
	}
	return record.Decode(r.Type, r.Data)
}

// apply changes the state as a record says. It is the only place that does.
func (f *Fleet) apply(r *record.Record, data any) {
	f.seq = r.Seq
	switch d := data.(type) {
	case record.OpenedData:
		if t := f.config.Trial; t != nil && t.Deadline.Sub(r.At) > t.Within.Std() {
			t.Deadline = r.At.Add(t.Within.Std()) // the clock was set back: no trial lasts longer than it was to
		}
		f.maintenance = f.maintenance.At(r.At)
		for _, n := range f.nodes {
			if n.Up && !d.Online {
				n.Up, n.Since = false, r.At
			}
			n.spoke = n.spoke && d.Online
			f.review(n, r.At)
		}
	case record.KeysData:
		f.keys = d.Keys
	case record.SettingsData:
		f.applySettings(r, &d)
	case record.MaintenanceData:
		f.applyMaintenance(r, &d)
	case record.RequestData:
		f.applyRequest(r, &d)
	case record.ReplyData:
		delete(f.orders, d.ID)
	case record.Enrolment:
		f.enrolled.Apply(r.At, r.Who, d)
	case record.Verdict:
		f.applyVerdict(r, &d)
	case record.IssuedData:
		f.applyIssued(r, &d)
	case record.WithdrawnData:
		for _, name := range d.Nodes {
			if n := f.nodes[name]; n != nil {
				n.kind(wire.Kind(r.Kind)).Desired = nil
				f.review(n, r.At)
			}
		}
	case record.TrialOver:
		f.applyTrialOver(r)
	case record.StateChange:
		f.config.State, f.config.Error, f.config.Since = d.State, d.Error, r.At
	case *wire.Reported:
		f.applyReport(r.At, d)
	case *wire.Live:
		f.applyLive(r.At, d)
	case *wire.Event:
		n := f.node(d.Node, r.At)
		n.EventSeq, n.EventBoot = d.Seq, d.Boot
		n.noteAlert(r.At, d)
	}
}

func (f *Fleet) applyVerdict(r *record.Record, d *record.Verdict) {
	if r.Kind == string(wire.KindWorkloads) {
		f.applyWorkloadsVerdict(r, d)
		return
	}
	if r.Type == record.Refused {
		f.config.Attempted = &view.Attempted{Version: d.Version, At: r.At, Who: r.Who, Error: d.Error}
		return
	}
	c := &f.config
	c.Attempted = nil
	if d.Mode == wire.ModeTry {
		c.Trial = &Trial{Version: d.Version, Hash: d.Hash, Deadline: r.At.Add(d.Within.Std()), Within: d.Within}
		return
	}
	c.State, c.Version, c.Hash, c.Since, c.Error, c.Trial = Installed, d.Version, d.Hash, r.At, nil, nil
}

func (f *Fleet) applyIssued(r *record.Record, d *record.IssuedData) {
	if d.Whole && r.Kind == string(wire.KindConfig) {
		if d.Mode == wire.ModeTry {
			f.config.Trial.Rev = r.Seq
		} else {
			f.config.Rev = r.Seq
		}
	}
	if d.Whole && r.Kind == string(wire.KindWorkloads) {
		f.workloads.Rev = r.Seq
	}
	for _, g := range d.Docs {
		doc := &Doc{
			DocRef: wire.DocRef{Epoch: d.Epoch, Rev: r.Seq, Version: d.Version, Hash: g.Hash},
			Mode:   d.Mode, Within: d.Within, Issued: r.At,
		}
		for _, name := range g.Nodes {
			n := f.node(name, r.At)
			n.kind(wire.Kind(r.Kind)).Desired = doc
			n.retries = 0
			f.review(n, r.At)
		}
	}
}

func (f *Fleet) applyTrialOver(r *record.Record) {
	t := f.config.Trial
	if t == nil {
		return
	}
	f.config.Trial = nil
	if r.Type == record.Confirm {
		c := &f.config
		c.State, c.Version, c.Hash, c.Rev, c.Since, c.Error = Installed, t.Version, t.Hash, t.Rev, r.At, nil
		for _, n := range f.nodes {
			f.review(n, r.At)
		}
	}
}

// node returns a node, known from now on.
func (f *Fleet) node(name string, at time.Time) *Node {
	n := f.nodes[name]
	if n == nil {
		n = &Node{Name: name, FirstSeen: at, Since: at, Kinds: map[wire.Kind]*KindState{}, slot: -1}
		f.nodes[name] = n
	}
	return n
}
