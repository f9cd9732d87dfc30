package distribute

import (
	"context"
	"slices"

	"tandem.internal/controller/internal/retain"
	"tandem.internal/controller/internal/view"
)

// TrimPlan says what a trim would remove now. It changes nothing.
func (c *Core) TrimPlan(ctx context.Context) (view.TrimPlan, error) {
	j, err := c.reader(ctx)
	if err != nil {
		return view.TrimPlan{}, err
	}
	st, err := j.Stats()
	if err != nil {
		return view.TrimPlan{}, err
	}
	l, err := c.leaving(ctx, j, st.Last, st.Last) // a trim begins with a checkpoint
	if err != nil {
		return view.TrimPlan{}, err
	}
	p := view.TrimPlan{UpTo: st.Last, KeepRecords: c.cfg.KeepRecords, At: l.time, Dir: c.cfg.KeepExport}
	kinds := map[retain.Kind]*view.TrimKind{}
	all := slices.Concat(retain.Kinds, []retain.Kind{retain.Always})
	for _, kind := range all {
		kinds[kind] = &view.TrimKind{Kind: string(kind), Rule: l.plan.Rule(kind).String(),
			There: view.TrimAmount(l.there[kind]), Why: map[string]int{}}
	}
	err = l.each(ctx, func(h retain.Header, o outdated) error {
		k := kinds[retain.Of(h.Type, h.Kind)]
		k.Goes.Records, k.Goes.Bytes = k.Goes.Records+1, k.Goes.Bytes+int64(h.Size)
		k.Why[string(o.why)]++
		p.Records, p.Bytes, p.Documents = p.Records+1, p.Bytes+int64(h.Size), p.Documents+o.document
		if (p.Records-1)%c.cfg.TrimRecords == 0 {
			p.Files = append(p.Files, view.TrimFile{First: h.Seq})
		}
		f := &p.Files[len(p.Files)-1]
		f.Last, f.Records, f.Bytes, f.Documents = h.Seq, f.Records+1, f.Bytes+int64(h.Size), f.Documents+o.document
		f.Name = exportName(j, f.First, f.Last)
		return nil
	})
	for _, kind := range all {
		p.Kinds = append(p.Kinds, *kinds[kind])
	}
	return p, err
}
