package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/artefact"
	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/wire"
)

// snapshot is the whole state as it is kept. Documents that nodes share are written once.
type snapshot struct {
	Seq       uint64                    `json:"seq"`
	Epoch     uint64                    `json:"epoch,omitzero"`
	Sources   map[wire.Kind]*sourceSnap `json:"sources,omitempty"`
	Docs      []*kind.Doc               `json:"docs"`
	Nodes     []*nodeSnap               `json:"nodes"`
	Forgotten map[string]wire.Heard     `json:"gone,omitempty"`
	Enrolled  jsontext.Value            `json:"enrolled,omitzero"` // of package enrol
	Keys      record.SigningKeys        `json:"keys,omitzero"`
	CAs       record.Authorities        `json:"cas,omitzero"`
	Root      *record.RootData          `json:"root,omitempty"`
	BackedUp  time.Time                 `json:"backedUp,omitzero"`
	Backups   time.Time                 `json:"backupsFrom,omitzero"`

	Maintenance Maintenance       `json:"maintenance,omitzero"`
	Orders      map[string]*Asked `json:"orders,omitempty"`
	Artefacts   *artefact.State   `json:"artefacts,omitempty"`

	Rollouts jsontext.Value           `json:"rollouts,omitzero"` // of package rollout
	Rolled   map[string]*kind.Rollout `json:"rolled,omitempty"`

	oldSnapshot // read, never written
}

// sourceSnap is how the unit stands with a source. Saved is a collection's content.
type sourceSnap struct {
	kind.State
	Saved    jsontext.Value `json:"saved,omitzero"`
	Split    bool           `json:"split,omitzero"`
	Versions []kind.Version `json:"versions,omitempty"`
	// of a collection: what nodes have, or are to get, instead, by the names in Versions
	Contents map[string]jsontext.Value `json:"contents,omitempty"`
}

type nodeSnap struct {
	Node
	Kinds   map[wire.Kind]*kindSnap `json:"kinds,omitempty"`
	Desired map[wire.Kind]int       `json:"desired,omitempty"` // index into docs

	oldNodeSnap // read, never written
}

// kindSnap is one kind of documents on a node. The outer Detail hides that of Document.
type kindSnap struct {
	kind.Document
	Detail jsontext.Value `json:"detail,omitzero"`
}

// Checkpoint returns the state as of Seq, so that Replay may begin there.
func (f *Fleet) Checkpoint() []byte {
	snap := snapshot{
		Seq: f.seq, Epoch: f.epoch, Forgotten: f.forgotten, Enrolled: f.enrolled.Checkpoint(), Keys: f.keys, CAs: f.cas,
		BackedUp: f.backedUp, Backups: f.backupsFrom,
		Maintenance: f.maintenance, Orders: f.questions.orders, Artefacts: f.artefacts,
		Sources: map[wire.Kind]*sourceSnap{}, Rolled: f.rolled, Rollouts: f.savedRollouts(),
	}
	for _, src := range f.sources {
		if src.State == (kind.State{State: kind.Absent}) && !src.split {
			continue
		}
		s := &sourceSnap{State: src.State, Split: src.split, Versions: src.versions}
		if src.Fold != nil {
			s.Saved = encoded(src.Fold.Save(src.installed))
			for hash, c := range src.contents {
				if s.Contents == nil {
					s.Contents = map[string]jsontext.Value{}
				}
				s.Contents[hash] = encoded(src.Fold.Save(c))
			}
		}
		snap.Sources[src.Name] = s
	}
	if f.root.Number > 0 {
		snap.Root = &f.root
	}
	index := map[*kind.Doc]int{}
	for _, n := range f.sorted() {
		ns := &nodeSnap{Node: *n, Kinds: make(map[wire.Kind]*kindSnap, len(n.Kinds))}
		for _, name := range slices.Sorted(maps.Keys(n.Kinds)) { // equal states are equal bytes
			k := n.Kinds[name]
			if k.Desired == nil && k.Boot == "" {
				continue // only heard of in a beat, which is not journaled
			}
			c := &kindSnap{Document: k.Document}
			if k.Detail != nil {
				c.Detail = encoded(k.Detail)
			}
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
				ns.Desired[name] = i
				c.Desired = nil
			}
			ns.Kinds[name] = c
		}
		snap.Nodes = append(snap.Nodes, ns)
	}
	return encoded(&snap)
}

func encoded(v any) []byte {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic("fleet: cannot encode a checkpoint: " + err.Error())
	}
	return b
}

// Restored returns the state that Checkpoint wrote, or one of a program before there were sources.
func Restored(opt Options, data []byte) (*Fleet, error) {
	f := New(opt)
	var snap snapshot
	snap.Sources = map[wire.Kind]*sourceSnap{}
	if err := json.Unmarshal(data, &snap); err != nil {
		return nil, fmt.Errorf("fleet checkpoint: %w", err)
	}
	f.seq, f.keys, f.cas, f.maintenance = snap.Seq, snap.Keys, snap.CAs, snap.Maintenance
	if len(f.keys.List) > 0 {
		if err := f.keys.Check(); err != nil {
			return nil, fmt.Errorf("fleet checkpoint: %w", err)
		}
	}
	if len(f.cas.List) > 0 {
		if err := f.cas.Check(); err != nil {
			return nil, fmt.Errorf("fleet checkpoint: %w", err)
		}
	}
	f.backedUp, f.backupsFrom = snap.BackedUp, snap.Backups
	if snap.Root != nil {
		if err := snap.Root.Check(); err != nil {
			return nil, fmt.Errorf("fleet checkpoint: %w", err)
		}
		f.root = *snap.Root
	}
	if err := snap.oldSnapshot.into(&snap); err != nil {
		return nil, fmt.Errorf("fleet checkpoint: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(snap.Sources)) {
		if err := f.restoreSource(name, snap.Sources[name]); err != nil {
			return nil, fmt.Errorf("fleet checkpoint: %s: %w", name, err)
		}
	}
	maps.Copy(f.questions.orders, snap.Orders)
	f.epoch = cmp.Or(snap.Epoch, f.epoch)
	maps.Copy(f.forgotten, snap.Forgotten)
	f.restoreArtefacts(snap.Artefacts)
	for name, at := range snap.oldSnapshot.Forgotten {
		f.forgotten[name] = f.present(at)
	}
	if len(snap.Enrolled) > 0 {
		enrolled, err := enrol.Restored(snap.Enrolled)
		if err != nil {
			return nil, err
		}
		f.enrolled = enrolled
	}
	if err := f.restoreRollouts(&snap); err != nil {
		return nil, fmt.Errorf("fleet checkpoint: %w", err)
	}
	for _, ns := range snap.Nodes {
		if err := f.restoreNode(ns, snap.Docs); err != nil {
			return nil, fmt.Errorf("fleet checkpoint: node %s: %w", ns.Name, err)
		}
	}
	return f, nil
}

func (f *Fleet) restoreSource(name wire.Kind, s *sourceSnap) error {
	src := f.source(name)
	if src == nil {
		return fmt.Errorf("no documents of kind %.80q are known here", name)
	}
	src.State, src.split, src.versions = s.State, s.Split, s.Versions
	var err error
	if src.Fold == nil {
		return nil
	}
	if src.installed, err = src.Fold.Load(s.Saved); err != nil {
		return err
	}
	for _, v := range s.Versions {
		c, err := src.Fold.Load(s.Contents[v.Hash])
		if err != nil {
			return err
		}
		src.keep(v, c)
	}
	return nil
}

func (f *Fleet) restoreNode(ns *nodeSnap, docs []*kind.Doc) error {
	n := &ns.Node
	n.index, n.Kinds = -1, make(map[wire.Kind]*KindState, len(ns.Kinds))
	ns.oldNodeSnap.into(ns)
	for name, c := range ns.Kinds {
		if !f.opt.Kinds.Reportable(name) {
			return fmt.Errorf("no document of kind %.80q is known here", name)
		}
		k := &KindState{Document: c.Document}
		n.Kinds[name] = k
		if c.Detail == nil {
			continue
		}
		o := f.output(name)
		if o == nil || o.Blank == nil {
			return fmt.Errorf("no details of kind %.80q are known here", name)
		}
		detail := o.Blank()
		if err := json.Unmarshal(c.Detail, detail); err != nil {
			return err
		}
		n.setDetail(k, detail)
	}
	for name, i := range ns.Desired {
		if i < 0 || i >= len(docs) {
			return fmt.Errorf("names document %d of %d", i, len(docs))
		}
		n.kind(name).Desired = docs[i]
		if stamp := docs[i].Stamp(); stamp.Compare(f.newest) > 0 {
			f.newest = stamp
		}
	}
	f.nodes[n.Name] = n
	return nil
}

// BodyInUse tells which bodies the state still names: compaction keeps them.
func (f *Fleet) BodyInUse() map[string]bool {
	used := map[string]bool{}
	for _, src := range f.sources {
		if src.Fold != nil {
			continue // checkpoints have it
		}
		used[src.Hash] = true
		if src.Trial != nil {
			used[src.Trial.Hash] = true
		}
		for _, v := range src.versions {
			used[v.Hash] = true
		}
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
