package fleet

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// What the records of this package carry as data. Report, Live and Event carry the node's message
// as it came.

type openedData struct {
	Version string `json:"version,omitempty"` // of the controller's program
	Epoch   uint64 `json:"epoch"`
	Reason  string `json:"reason,omitempty"`
	Online  bool   `json:"online,omitempty"` // who was online still is
}

// Verdict is the data of Accepted and Refused records.
type Verdict struct {
	ID       string              `json:"id"`
	Via      string              `json:"via,omitempty"`
	Version  string              `json:"version,omitempty"`
	Hash     string              `json:"hash,omitempty"`   // of the submitted document
	Lenient  bool                `json:"lenient,omitzero"` // workloads: it was read so
	Mode     wire.Mode           `json:"mode,omitempty"`
	Within   unitconfig.Duration `json:"within,omitzero"` // with wire.ModeTry
	Error    *wire.Error         `json:"error,omitempty"`
	Problems []*wire.Error       `json:"problems,omitempty"`
	Checks   view.Checks         `json:"checks"`
}

type issuedData struct {
	Epoch   uint64              `json:"epoch"`
	Version string              `json:"version"`
	Mode    wire.Mode           `json:"mode"`
	Within  unitconfig.Duration `json:"within,omitzero"`
	Whole   bool                `json:"whole,omitempty"` // to every node, because of an accepted configuration
	Reason  string              `json:"reason"`
	Docs    []issuedDoc         `json:"docs"`
}

type issuedDoc struct {
	Hash  string   `json:"hash"`
	Nodes []string `json:"nodes"`
}

type withdrawnData struct {
	Nodes []string `json:"nodes"`
}

// TrialOver is the data of Confirm and RolledBack records.
type TrialOver struct {
	Version string `json:"version"`
	Rev     uint64 `json:"rev"`
}

// ConfigChange is the data of State records: the unit configuration's state changed without a
// submission.
type ConfigChange struct {
	State  string      `json:"state"`
	Error  *wire.Error `json:"error,omitempty"`
	Reason string      `json:"reason,omitempty"`
}

// emit makes a record, applies it and hands it out.
func (s *step) emit(r record.Record, data any) *record.Record {
	r.At = s.now.UTC() // as it is read back
	r.Seq = s.seq + 1
	if r.Data == nil {
		b, err := json.Marshal(data, json.Deterministic(true))
		if err != nil {
			panic("fleet: cannot encode a record: " + err.Error())
		}
		r.Data = b
	}
	s.apply(&r, data)
	s.out.Records = append(s.out.Records, r)
	return &s.out.Records[len(s.out.Records)-1]
}

// Replay applies a record that was read back. An error means that the journal holds something
// that this program cannot have written.
func (f *Fleet) Replay(r *record.Record) error {
	data, err := decode(r)
	if d, ok := data.(issuedData); ok && d.Whole && d.Mode == wire.ModeTry && r.Kind == string(wire.KindConfig) && f.config.Trial == nil {
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
	case issuedData:
		for _, doc := range d.Docs {
			nodes = append(nodes, doc.Nodes...)
		}
	case withdrawnData:
		nodes = d.Nodes
	case settingsData:
		if err := checkScope(&d.Scope); err != nil {
			return err
		}
		return nil
	case keysData:
		return d.Keys.check()
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

func decode(r *record.Record) (any, error) {
	switch r.Type {
	case record.Opened:
		return parse[openedData](r.Data)
	case record.Accepted, record.Refused:
		return parse[Verdict](r.Data)
	case record.Issued:
		return parse[issuedData](r.Data)
	case record.Withdrawn:
		return parse[withdrawnData](r.Data)
	case record.Confirm, record.RolledBack:
		return parse[TrialOver](r.Data)
	case record.State:
		return parse[ConfigChange](r.Data)
	case record.Report:
		return wire.Decode[wire.Reported](r.Data)
	case record.Live:
		return wire.Decode[wire.Live](r.Data)
	case record.Event:
		return wire.Decode[wire.Event](r.Data)
	case record.Enrol, record.Joined, record.Renewed, record.Revoked, record.JoinRefused:
		d, _, err := enrol.Parse(r.Type.String(), r.Data)
		return d, err
	case record.Keys:
		return parse[keysData](r.Data)
	case record.Settings:
		return parse[settingsData](r.Data)
	case record.Maintenance:
		return parse[maintenanceData](r.Data)
	case record.Request:
		return parse[requestData](r.Data)
	case record.Reply:
		return parse[replyData](r.Data)
	}
	return nil, nil
}

func parse[T any](data []byte) (any, error) {
	var t T
	if err := json.Unmarshal(data, &t); err != nil {
		return nil, err
	}
	return t, nil
}

// apply changes the state as a record says. It is the only place that does.
func (f *Fleet) apply(r *record.Record, data any) {
	f.seq = r.Seq
	switch d := data.(type) {
	case openedData:
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
	case keysData:
		f.keys = d.Keys
	case settingsData:
		f.applySettings(r, &d)
	case maintenanceData:
		f.applyMaintenance(r, &d)
	case requestData:
		f.applyRequest(r, &d)
	case replyData:
		delete(f.orders, d.ID)
	case enrol.Data:
		f.enrolled.Apply(r.At, r.Who, d)
	case Verdict:
		f.applyVerdict(r, &d)
	case issuedData:
		f.applyIssued(r, &d)
	case withdrawnData:
		for _, name := range d.Nodes {
			if n := f.nodes[name]; n != nil {
				n.kind(wire.Kind(r.Kind)).Desired = nil
				f.review(n, r.At)
			}
		}
	case TrialOver:
		f.applyTrialOver(r)
	case ConfigChange:
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

func (f *Fleet) applyVerdict(r *record.Record, d *Verdict) {
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

func (f *Fleet) applyIssued(r *record.Record, d *issuedData) {
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
