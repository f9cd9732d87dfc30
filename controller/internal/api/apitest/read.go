package apitest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/kinds"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// SourceStatus returns State.Config, or State.Workloads.Status.
func (u *Unit) SourceStatus(ctx context.Context, source wire.Kind) (view.SourceStatus, error) {
	method := "ConfigStatus"
	if source == wire.KindWorkloads {
		method = "WorkloadStatus"
	}
	s, leave, err := u.enter(ctx, method)
	if err != nil {
		return view.SourceStatus{}, err
	}
	defer leave()
	if source == wire.KindWorkloads {
		v := s.Workloads.Status
		v.State = "absent"
		if v.Version != "" {
			v.State = "installed"
		}
		if v.Slots == nil {
			v.Slots = &view.SlotProgress{}
		}
		return v, nil
	}
	return s.Config, nil
}

// Document returns one of State.Documents, or State.Workloads.Document.
func (u *Unit) Document(ctx context.Context, source wire.Kind, version string) ([]byte, error) {
	if source == wire.KindWorkloads {
		return u.Workloads(ctx, version)
	}
	s, leave, err := u.enter(ctx, "Config")
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.document(version)
}

// Diff compares two versions.
func (u *Unit) Diff(ctx context.Context, source wire.Kind, in op.DiffIn) (view.Diff, error) {
	var sides [2]kind.Reading
	for i, version := range []string{in.From, in.To} {
		doc, err := u.Document(ctx, source, version)
		if err != nil {
			return view.Diff{}, err
		}
		sides[i] = kind.Reading{Document: doc, Version: version, Lenient: source == wire.KindWorkloads}
	}
	changes, err := kinds.All().Source(source).Changes(sides[0], sides[1])
	return view.Diff{From: in.From, To: in.To, Changes: changes}, err
}

func (s *State) document(version string) ([]byte, error) {
	version = cmp.Or(version, s.Config.Version)
	doc, ok := s.Documents[version]
	if !ok && version == "" {
		return nil, wire.New(wire.CodeNotFound, "", "no unit configuration is installed")
	}
	if !ok {
		return nil, wire.New(wire.CodeNotFound, "", "version "+version+" was never accepted here")
	}
	return doc, nil
}

// History returns State.Versions, or State.Workloads.Versions.
func (u *Unit) History(ctx context.Context, source wire.Kind) (op.History, error) {
	method := "History"
	if source == wire.KindWorkloads {
		method = "WorkloadHistory"
	}
	s, leave, err := u.enter(ctx, method)
	if err != nil {
		return op.History{}, err
	}
	defer leave()
	if source == wire.KindWorkloads {
		return op.History{Versions: append([]view.Version{}, s.Workloads.Versions...)}, nil
	}
	return op.History{Versions: slices.Clone(s.Versions)}, nil
}

// parsed returns the installed configuration and what is known of a node.
func (s *State) parsed(node, nodeType string) (*unitconfig.UnitConfig, view.Node, error) {
	doc, err := s.document("")
	if err != nil {
		return nil, view.Node{}, err
	}
	i := slices.IndexFunc(s.Nodes, func(n view.Node) bool { return n.Node == node })
	if i < 0 && nodeType == "" {
		return nil, view.Node{}, wire.New(wire.CodeNotFound, "", "no node "+node+" is known; give its type")
	}
	n := view.Node{Node: node}
	if i >= 0 {
		n = s.Nodes[i]
	}
	n.Type = cmp.Or(nodeType, n.Type)
	uc, problems := unitconfig.Parse(doc)
	return uc, n, problems.Err()
}

// Resolved resolves the installed document.
func (u *Unit) Resolved(ctx context.Context, in op.ResolveIn) (view.Resolved, error) {
	s, leave, err := u.enter(ctx, "Resolved")
	if err != nil {
		return view.Resolved{}, err
	}
	defer leave()
	uc, n, err := s.parsed(in.Node, in.Type)
	if err != nil {
		return view.Resolved{}, err
	}
	c, src := unitconfig.Resolve(uc, in.Node, n.Type)
	body := unitconfig.EncodeNode(c)
	return view.Resolved{Node: in.Node, Type: n.Type, Rule: string(src.Rule), Entry: src.Pointer(),
		Hash: wire.Hash(body), Document: body}, nil
}

// Explain explains from the installed document.
func (u *Unit) Explain(ctx context.Context, in op.ExplainIn) (view.Explanation, error) {
	s, leave, err := u.enter(ctx, "Explain")
	if err != nil {
		return view.Explanation{}, err
	}
	defer leave()
	uc, n, err := s.parsed(in.Node, "")
	if err != nil {
		return view.Explanation{}, err
	}
	x, err := unitconfig.Explain(uc, in.Node, n.Type, in.Pointer)
	if err != nil {
		return view.Explanation{}, err
	}
	out := view.Explanation{Node: in.Node, Pointer: in.Pointer, Value: x.Value, Rule: string(x.Source.Rule),
		Source: x.From, Why: x.Why, Version: uc.Version}
	if d, ok := n.Documents[wire.KindConfig]; ok {
		if out.InForce = d.InSync; d.Running != nil {
			out.Running = d.Running.Version
		}
		if d.Last != nil {
			out.State, out.Error = d.Last.State, d.Last.Error
		}
	}
	return out, nil
}

// Nodes is State.Nodes.
func (u *Unit) Nodes(ctx context.Context) (op.Nodes, error) {
	s, leave, err := u.enter(ctx, "Nodes")
	if err != nil {
		return op.Nodes{}, err
	}
	defer leave()
	return op.Nodes{Nodes: slices.Clone(s.Nodes)}, nil
}

// Node is one of State.Nodes.
func (u *Unit) Node(ctx context.Context, in op.NodeIn) (view.Node, error) {
	s, leave, err := u.enter(ctx, "Node")
	if err != nil {
		return view.Node{}, err
	}
	defer leave()
	for _, n := range s.Nodes {
		if n.Node == in.Node {
			for _, slot := range s.Workloads.Slots {
				if slot.Node == in.Node {
					n.Slots = append(n.Slots, slot)
				}
			}
			return n, nil
		}
	}
	return view.Node{}, wire.New(wire.CodeNotFound, "", "no node "+in.Node+" is known")
}

// Status returns State.Status with State.Config in it.
func (u *Unit) Status(ctx context.Context) (view.UnitStatus, error) {
	s, leave, err := u.enter(ctx, "Status")
	if err != nil {
		return view.UnitStatus{}, err
	}
	defer leave()
	st := s.Status
	st.Config = s.Config
	return st, nil
}

// Entries filters State.Entries.
func (u *Unit) Entries(ctx context.Context, f view.EntryFilter) ([]view.Entry, error) {
	s, leave, err := u.enter(ctx, "Entries")
	if err != nil {
		return nil, err
	}
	defer leave()
	limit := cmp.Or(f.Limit, 1000)
	var out []view.Entry
	for i := range s.Entries {
		e := s.Entries[i]
		if f.Reverse {
			e = s.Entries[len(s.Entries)-1-i]
		}
		if e.Seq >= f.From && (f.Node == "" || f.Node == e.Node) &&
			(len(f.Types) == 0 || slices.Contains(f.Types, e.Type) ||
				e.Type == "event" && slices.Contains(f.Types, e.Kind)) && len(out) < limit {
			out = append(out, e)
		}
	}
	return out, nil
}

// Verify reports State.Damage.
func (u *Unit) Verify(ctx context.Context) (op.Verification, error) {
	s, leave, err := u.enter(ctx, "Verify")
	if err != nil {
		return op.Verification{}, err
	}
	defer leave()
	if s.Damage != "" {
		return op.Verification{Report: s.Damage}, nil
	}
	return op.Verification{OK: true, Report: fmt.Sprintf("%d records, all as they were written", len(s.Entries))}, nil
}

// Remark adds an entry.
func (u *Unit) Remark(ctx context.Context, r view.Remark) error {
	who := caller.From(ctx).Who()
	s, leave, err := u.enter(ctx, "Remark")
	if err != nil {
		return err
	}
	defer leave()
	s.Who = who
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	seq := uint64(1)
	if n := len(s.Entries); n > 0 {
		seq = s.Entries[n-1].Seq + 1
	}
	s.Entries = append(s.Entries, view.Entry{Seq: seq, At: s.Now, Type: "note", Who: who, Data: data})
	return nil
}

// Export writes State.Entries; if told to fail it does so after the first.
func (u *Unit) Export(ctx context.Context, w io.Writer) error {
	u.mu.Lock()
	entries, fail := slices.Clone(u.state.Entries), u.state.Fail["Export"]
	u.mu.Unlock()
	for _, e := range entries {
		line, err := json.Marshal(e, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
		if err != nil {
			return err
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
		if fail != nil {
			return fail
		}
	}
	return fail
}

// Backup writes some bytes; if told to fail it does so after half of them.
func (u *Unit) Backup(ctx context.Context, w io.Writer) error {
	u.mu.Lock()
	fail := u.state.Fail["Backup"]
	u.mu.Unlock()
	for i := range 8 {
		if fail != nil && i == 4 {
			return fail
		}
		if _, err := w.Write(slices.Repeat([]byte{byte(i)}, 4096)); err != nil {
			return err
		}
	}
	return nil
}
