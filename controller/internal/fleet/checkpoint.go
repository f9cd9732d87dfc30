package fleet

import (
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/wire"
)

// snapshot is the whole state as it is kept. Documents that nodes share are written once.
type snapshot struct {
	Seq      uint64             `json:"seq"`
	Config   Config             `json:"config"`
	Docs     []*Doc             `json:"docs"`
	Nodes    []*nodeSnap        `json:"nodes"`
	Enrolled jsontext.Value     `json:"enrolled,omitzero"` // of package enrol
	Keys     record.SigningKeys `json:"keys,omitzero"`

	Settings    Settings          `json:"settings,omitzero"`
	Maintenance Maintenance       `json:"maintenance,omitzero"`
	Orders      map[string]*Asked `json:"orders,omitempty"`
	Workloads   Workloads         `json:"workloads,omitzero"`
}

type nodeSnap struct {
	Node
	Desired map[wire.Kind]int `json:"desired,omitempty"` // index into docs
}

// Checkpoint returns the state as of Seq, so that Replay may begin there.
func (f *Fleet) Checkpoint() []byte {
	snap := snapshot{Seq: f.seq, Config: f.config, Enrolled: f.enrolled.Checkpoint(), Keys: f.keys,
		Settings: f.settings, Maintenance: f.maintenance, Orders: f.orders, Workloads: f.workloads}
	index := map[*Doc]int{}
	for _, n := range f.sorted() {
		ns := &nodeSnap{Node: *n}
		ns.Kinds = make(map[wire.Kind]*KindState, len(n.Kinds))
		for _, kind := range slices.Sorted(maps.Keys(n.Kinds)) { // equal states are equal bytes
			k := n.Kinds[kind]
			if k.Desired == nil && k.Boot == "" {
				continue // only heard of in a beat, which is not journaled
			}
			c := *k
			if d := k.Desired; d != nil {
				i, ok := index[d]
				if !ok {
					i = len(snap.Docs)
					index[d] = i
					snap.Docs = append(snap.Docs, d)
				}
				if ns.Desired == nil {
					ns.Desired = map[wire.Kind]int{}
				}
				ns.Desired[kind] = i
				c.Desired = nil
			}
			ns.Kinds[kind] = &c
		}
		snap.Nodes = append(snap.Nodes, ns)
	}
	b, err := json.Marshal(&snap, json.Deterministic(true))
	if err != nil {
		panic("fleet: cannot encode a checkpoint: " + err.Error())
	}
	return b
}

// Restored returns the state that Checkpoint wrote.
func Restored(opt Options, data []byte) (*Fleet, error) {
	f := New(opt)
	var snap snapshot
	if err := json.Unmarshal(data, &snap); err != nil {
		return nil, fmt.Errorf("fleet checkpoint: %w", err)
	}
	f.seq, f.config, f.keys = snap.Seq, snap.Config, snap.Keys
	if len(f.keys.List) > 0 {
		if err := f.keys.Check(); err != nil {
			return nil, fmt.Errorf("fleet checkpoint: %w", err)
		}
	}
	f.settings, f.maintenance, f.workloads = snap.Settings, snap.Maintenance, snap.Workloads
	f.settings.each(func(t *Setting) { t.seal() })
	maps.Copy(f.orders, snap.Orders)
	if len(snap.Enrolled) > 0 {
		enrolled, err := enrol.Restored(snap.Enrolled)
		if err != nil {
			return nil, err
		}
		f.enrolled = enrolled
	}
	for _, ns := range snap.Nodes {
		n := &ns.Node
		n.slot = -1
		if n.Kinds == nil {
			n.Kinds = map[wire.Kind]*KindState{}
		}
		for kind := range n.Kinds {
			if !Reportable(kind) {
				return nil, fmt.Errorf("fleet checkpoint: node %s: no document is of kind %.80q", n.Name, kind)
			}
		}
		for kind, i := range ns.Desired {
			if i < 0 || i >= len(snap.Docs) {
				return nil, fmt.Errorf("fleet checkpoint: node %s names document %d of %d", n.Name, i, len(snap.Docs))
			}
			n.kind(kind).Desired = snap.Docs[i]
		}
		f.nodes[n.Name] = n
	}
	return f, nil
}

// BodyInUse tells which bodies the state still names: compaction keeps them.
func (f *Fleet) BodyInUse() map[string]bool {
	used := map[string]bool{f.config.Hash: true, f.workloads.Hash: true}
	if f.config.Trial != nil {
		used[f.config.Trial.Hash] = true
	}
	for _, n := range f.nodes {
		for _, k := range n.Kinds {
			if k.Desired != nil {
				used[k.Desired.Hash] = true
			}
		}
	}
	return used
}
