// Package workloads is the unit's set of workloads (seed 004): a node gets what it is to run. What happens to
// a slot is the node's; there is no trial of the whole unit.
//
//tandem:pure
package workloads

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/accept"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/view"
	"tandem.internal/controller/internal/why"
	"tandem.internal/shared/limits"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// Set returns the source and the kind.
func Set() kind.Set {
	return kind.Set{
		Sources: []*kind.Source{{
			Name: wire.KindWorkloads, Title: "set of workloads", Noun: "workload",
			Parse: parse, NoTrial: errNoTrial, Next: accept.Next, Compare: compare, Diff: diff, Show: showStatus,
			Hide: workload.Hide, Secret: workload.IsSecret, Bodies: bodies,
			Lenience: true, Heavy: true,
			None: "no workloads were ever applied", Nothing: "[] stops everything",
		}, {
			Name: KindStops, Title: "list of stopped slots", Noun: "list of stopped slots", Fold: stopFold(),
		}},
		Kinds: []*kind.Kind{{
			Name: wire.KindWorkloads, From: []wire.Kind{wire.KindWorkloads, KindStops}, Build: build,
			Empty: none, TooOld: "does not run workloads; update it, or take its slots out", Known: known,
			Artefacts: artefacts, Detail: detail,
			Blank: func() any { return &wire.Workloads{} },
			Same:  same, Troubles: troubles,
			Words:   words,
			Show:    func(u kind.Unit, n kind.Node, v *view.Node) { v.Slots = Slots(u, n.Name) },
			Trouble: trouble,
			Tally:   tally,
		}},
	}
}

var errNoTrial = wire.New(wire.CodeNotSupported, "/mode",
	"workloads are not tried unit-wide: each node goes back to what ran before if the new does not stay up")

// known says what of a node's slots it cannot run, by what it reported last.
func known(c kind.Content, f kind.Facts) (errs []*wire.Error) {
	p, _ := c.(*Placement)
	n := p.of(f.Node)
	if n == nil || f.Info == nil {
		return nil
	}
	lacks := func(name string) bool { return f.Info.Attributes[name] == wire.AttributeNone }
	if lacks(wire.AttributeWorkloads) {
		errs = []*wire.Error{workload.NoWorkloads()}
	} else {
		if lacks(wire.AttributeBitTorrent) {
			errs = append(errs, n.torrents...)
		}
		if lacks(wire.AttributeUnproved) {
			errs = append(errs, n.unproved...)
		}
		errs = append(errs, n.unsigned(f.Info.Attributes[wire.AttributePublishers])...)
		errs = append(errs, n.unlimited(f.Info.Attributes[wire.AttributeLimits])...)
	}
	return offline(errs[:min(len(errs), maxErrors)])
}

// unlimited says which constraints a node cannot enforce that has told of its control groups what text says. What
// cannot be read, because a newer agent wrote it, says nothing.
func (n *placed) unlimited(text string) (errs []*wire.Error) {
	can, err := limits.ParseCapabilities(text)
	if err != nil {
		return nil
	}
	for _, l := range n.limited {
		for _, e := range limits.Check(l.constraints, can, "/container/constraints") {
			errs = append(errs, wire.New(e.Code, e.Path, workload.About(l.slot, e.Message)))
		}
	}
	return errs
}

// offline returns errors with what to do if the node is not any more as it was.
func offline(errs []*wire.Error) (all []*wire.Error) {
	for _, e := range errs {
		all = append(all, wire.New(e.Code, e.Path, e.Message+" (as the node, which is offline, reported last; "+
			"--skip-nodes submits the set all the same)"))
	}
	return all
}

// maxWarnings bounds what an answer tells of a lenient reading.
const maxWarnings = 100

// parse reads a set of workloads and works out what each node gets.
func parse(r kind.Reading) kind.Parsed {
	p := kind.Parsed{Version: r.Version}
	if r.Lenient && !r.Stored {
		p.Strict, p.Warnings, p.Problems = workload.Strict(r.Document)
		p.Warnings = p.Warnings[:min(len(p.Warnings), maxWarnings)]
		if len(p.Problems) > 0 {
			return p
		}
		r.Document, r.Lenient = p.Strict, false
	}
	set, problems := read(r)
	if len(problems) > 0 {
		p.Problems = problems
		return p
	}
	placed, problems := place(set, r.Stop)
	if len(problems) > 0 {
		p.Problems = problems
		return p
	}
	p.Content = placed
	return p
}

// read reads a set that is strict, or that was accepted before.
func read(r kind.Reading) (*workload.Set, workload.Problems) {
	switch {
	case !r.Stored:
		return workload.Parse(r.Document)
	case r.Lenient:
		return workload.ParseStoredLenient(r.Document)
	}
	return workload.ParseStored(r.Document)
}

// Fill works out the instances and jobs of a set.
func Fill(r kind.Reading) ([]byte, error) {
	configs, err := filled(r)
	if err != nil {
		return nil, err
	}
	return workload.Encode(configs), nil
}

func filled(r kind.Reading) ([]workload.Config, error) {
	set, problems := read(r)
	if len(problems) > 0 {
		return nil, problems[0]
	}
	f, problems := workload.FillUntil(set, r.Stop)
	if len(problems) > 0 {
		return nil, problems[0]
	}
	return f.Configs, nil
}

// Origin says where what a slot should run comes from; nil: the set does not have the slot.
func Origin(r kind.Reading, slot workload.Slot) (*why.Origin, error) {
	set, problems := read(r)
	if len(problems) > 0 {
		return nil, problems[0]
	}
	f, problems := workload.FillUntil(set, r.Stop)
	if len(problems) > 0 {
		return nil, problems[0]
	}
	i := slices.IndexFunc(f.Configs, func(c workload.Config) bool { return c.Slot == slot })
	if i < 0 {
		return nil, nil
	}
	return &why.Origin{
		Config: f.Configs[i], Fillers: f.Slots[slot].Fillers,
		Topology: slices.ContainsFunc(set.Topologies, func(t workload.Topology) bool { return t.Slot == slot }),
	}, nil
}

// diff lists what changes in the slots, by slot and pointer into its configuration.
func diff(from, to kind.Reading) (all kind.Changed, err error) {
	before, err := bySlot(from)
	if err != nil {
		return all, err
	}
	after, err := bySlot(to)
	if err != nil {
		return all, err
	}
	return kind.Changes(before, after, from.Stop)
}

// bySlot returns the configurations of a set that was filled.
func bySlot(r kind.Reading) (map[string]jsontext.Value, error) {
	configs, err := filled(r)
	if err != nil {
		return nil, err
	}
	all := make(map[string]jsontext.Value, len(configs))
	for _, c := range configs {
		list := workload.Encode([]workload.Config{c})
		all[c.Slot.String()] = list[1 : len(list)-1]
	}
	return all, nil
}

// detail reads what a node tells of its slots. An agent that only refuses documents tells nothing.
func detail(node string, raw jsontext.Value) (any, *wire.Error) {
	if len(raw) == 0 {
		return nil, nil
	}
	w, err := wire.Decode[wire.Workloads](raw)
	if err == nil {
		err = foreign(w, node)
	}
	if err != nil {
		return nil, wire.AsError(err)
	}
	return w, nil
}

// foreign says what is wrong with the slots in a node's report: one that is another node's, so that nobody
// is told by this node what runs there, or one twice.
func foreign(w *wire.Workloads, node string) error {
	seen := map[string]bool{}
	for i := range w.Slots {
		at := fmt.Sprintf("/detail/slots/%d/slot", i)
		s, err := workload.ParseSlot(w.Slots[i].Slot)
		switch {
		case err != nil:
			return wire.New(wire.CodeBadValue, at, err.Error())
		case s.Node != node:
			return wire.New(wire.CodeWrongTarget, at, fmt.Sprintf("the slot %s is another node's", s))
		case seen[s.Service]:
			return wire.New(wire.CodeDuplicate, at, fmt.Sprintf("the slot %s is there twice", s))
		}
		seen[s.Service] = true
	}
	return nil
}

// words counts the slots in each state.
func words(raw jsontext.Value) (string, *wire.Error) {
	var w wire.Workloads
	if json.Unmarshal(raw, &w) != nil {
		return "", nil
	}
	var states []wire.WorkloadState
	count := map[wire.WorkloadState]int{}
	for _, s := range w.Slots {
		if count[s.State]++; count[s.State] == 1 {
			states = append(states, s.State)
		}
	}
	var parts []string
	for _, s := range states {
		parts = append(parts, fmt.Sprintf("%d %s", count[s], s))
	}
	if w.More > 0 {
		parts = append(parts, fmt.Sprintf("%d without room in the report", w.More))
	}
	return strings.Join(parts, ", "), nil
}

// same reports whether two reports differ in no more than progress: bytes, counts, times, words.
func same(x, y any) bool {
	a, _ := x.(*wire.Workloads)
	b, _ := y.(*wire.Workloads)
	if a == nil || b == nil {
		return a == b
	}
	return a.More == b.More && slices.EqualFunc(a.Slots, b.Slots, func(x, y wire.WorkloadSlot) bool {
		return x.Slot == y.Slot && x.Job == y.Job && x.ID == y.ID && x.State == y.State && x.Wanted == y.Wanted &&
			x.Confined == y.Confined && (x.Doing == "") == (y.Doing == "") &&
			wire.CodeOf(x.Error) == wire.CodeOf(y.Error)
	})
}
