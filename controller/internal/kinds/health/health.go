// Package health is what nodes tell of their health, and what operators want of it (seed 002): settings that
// are changed piece by piece, for a node, for its type, or for all.
//
//tandem:pure
package health

import (
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Set returns the source and the kind.
func Set() kind.Set {
	return kind.Set{
		Sources: []*kind.Source{{
			Name: wire.KindHealth, Title: "health settings", Noun: "health settings",
			Fold: &kind.Fold{
				Reason: "settings changed", Decode: decode, Judge: judge, Apply: apply, Load: load,
				Save: func(c kind.Content) any { return c },
			},
		}},
		Kinds: []*kind.Kind{{
			Name: wire.KindHealth, Looks: kind.Looks{Type: true}, Empty: unset.body,
			Detail: kind.Detail[wire.Health],
			Blank:  func() any { return &wire.Health{} },
			Same:   same, Troubles: troubles, Quiet: quiet,
			Against: against,
			Words:   words,
			Brief:   func(n kind.Node, v *view.Node) { v.Health = brief(n) },
			Show:    show,
			Trouble: trouble,
			Tally:   tally,
		}},
	}
}

// same reports whether two details differ only in how long there was no change, and in what is used of the node.
func same(a, b any) bool {
	x, ok := a.(*wire.Health)
	y, also := b.(*wire.Health)
	if !ok || !also || y.Quiet == nil { // who does not tell of it reports what has changed
		return false
	}
	was, is := *x, *y
	was.Quiet, is.Quiet, was.Load, is.Load = nil, nil, nil, nil
	return reflect.DeepEqual(was, is)
}

// troubles are the checks that fail.
func troubles(detail any) (all []rollout.Trouble) {
	if h, ok := detail.(*wire.Health); ok {
		for _, c := range h.Checks {
			if !c.OK {
				all = append(all, rollout.Trouble{Aspect: plan.Checks, Name: c.Name})
			}
		}
	}
	return all
}

func quiet(detail any) *wire.HealthQuiet {
	if h, ok := detail.(*wire.Health); ok {
		return h.Quiet
	}
	return nil
}

// words says how a node is.
func words(raw jsontext.Value) (string, *wire.Error) {
	var h wire.Health
	if json.Unmarshal(raw, &h) != nil {
		return "", nil
	}
	return h.Text, nil
}

func show(_ kind.Unit, n kind.Node, v *view.Node) {
	if h, ok := n.Detail.(*wire.Health); ok {
		v.Components = h.Components
	}
}
