package steer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"tandem.internal/controller/internal/desired"
	"tandem.internal/controller/internal/why"
	"tandem.internal/shared/items"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// Decision is what was decided, and what it comes to.
type Decision struct {
	*desired.Plan
	Workloads  []byte // the set of workloads
	Components []byte // the list of components
}

// Decide decides what should run where. What nodes could not be given as it was decided is left out, and has its reason
// in the plan: the rest is not held up by it. Making the documents shows what that is; each round leaves out more, so
// there is a last one.
func (u *Unit) Decide() (*Decision, error) {
	u.Bar, u.Misfits = u.bar, u.never()
	known := map[desired.Misfit]bool{}
	for {
		p, err := why.Decide(&u.Input)
		if err != nil {
			return nil, err
		}
		d := &Decision{Plan: p}
		var services, parts []desired.Misfit
		d.Workloads, services = u.Set(p)
		d.Components, parts = u.Components(p)
		more := append(services, parts...)
		if len(more) == 0 {
			return d, nil
		}
		for _, m := range more {
			if known[m] {
				return nil, wire.New(wire.CodeInternal, "", fmt.Sprintf("%s %s was left out, and is there: %s", m.Item,
					m.Version, m.Why))
			}
			known[m] = true
		}
		u.Misfits = append(u.Misfits, more...)
	}
}

// never are the versions that can run nowhere.
func (u *Unit) never() (all []desired.Misfit) {
	for i := range u.Items {
		m := &u.Items[i].Meta
		if m.Type != items.Service {
			continue
		}
		for _, d := range m.Dependencies {
			if d.Type == items.Service && d.Condition == items.Completed {
				all = append(all, desired.Misfit{Item: m.Ref(), Version: m.Version, Why: fmt.Sprintf("it waits until "+
					"%s is completed, and services go on", d.Ref())})
				break
			}
		}
	}
	return all
}

// barKey is what it depends on whether a version can be in a runtime, beside what the node demands.
type barKey struct {
	item  *items.Item
	class int // of the runtime
}

// barred is why a version cannot be in a runtime, and who has signed its files.
type barred struct {
	why     string
	signers []publisher.ID
}

// bar says why what an item and its layers consist of cannot be in a runtime; "": it can.
func (u *Unit) bar(it *items.Item, layers []*items.Item, n *items.Node, r *items.Runtime) string {
	if u.bars == nil {
		u.bars, u.demands = map[barKey]*barred{}, map[string][]publisher.ID{}
		u.classes, u.classOf = map[*items.Runtime]int{}, map[string]int{}
		for name, info := range u.infos {
			if ids := publisher.ParseIDs(info.Attributes[wire.AttributePublishers]); len(ids) > 0 {
				u.demands[name] = ids
			}
		}
	}
	class, known := u.classes[r]
	if !known {
		text := strings.Join(append([]string{r.ID, r.Type, r.Architecture, r.Variant, r.OS}, r.OSFeatures...), " ")
		if class, known = u.classOf[text]; !known {
			class = len(u.classOf)
			u.classOf[text] = class
		}
		u.classes[r] = class
	}
	k := barKey{it, class}
	b := u.bars[k]
	if b == nil {
		b = u.judge(it, layers, r)
		u.bars[k] = b
	}
	if b.why != "" || len(u.demands) == 0 {
		return b.why
	}
	ids := u.demands[n.Node]
	if len(ids) == 0 {
		return ""
	}
	for _, signer := range b.signers {
		if err := publisher.SignedBy(signer, ids); err != nil {
			return err.Message
		}
	}
	return ""
}

// judge makes what a node would get of a version.
func (u *Unit) judge(it *items.Item, layers []*items.Item, r *items.Runtime) *barred {
	p := &desired.Placed{Type: it.Meta.Type, Codename: it.Meta.Codename, Version: it.Meta.Version, Runtime: r.ID,
		Platform: desired.PlatformOf(it.Meta.Platforms, r)}
	if it.Meta.Type == items.Component {
		e, err := u.component("", p)
		if err != nil {
			return &barred{why: err.Message}
		}
		a := workload.Artifact{Verification: workload.Verification{Minisign: e.Minisign}}
		return &barred{signers: []publisher.ID{a.Signer()}}
	}
	used := make([]use, len(layers))
	for i, l := range layers {
		used[i] = use{l.Meta.Codename, l.Meta.Version}
	}
	t, err := u.template(p, r, used)
	if err != nil {
		return &barred{why: err.Message}
	}
	b := &barred{}
	for _, name := range slices.Sorted(maps.Keys(t.Resources)) {
		b.signers = append(b.signers, t.Resources[name].Signer())
	}
	return b
}
