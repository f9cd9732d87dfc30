package app

import (
	"context"
	"errors"

	"tandem.internal/nodeagent/internal/component"
	"tandem.internal/nodeagent/internal/kinds/components"
	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/nodeagent/internal/update"
	"tandem.internal/shared/wire"
)

func (a *Agent) componentsKind(dir string) components.Config {
	return components.Config{
		Dir: dir, Now: a.now, Log: a.kindLog(wire.KindComponents),
		Open: func(dir string) (components.Store, error) {
			return a.openFiles(wire.KindComponents, dir, "component-files", nil)
		},
		Stage: a.stageComponent,
		Try: func(c wire.NodeComponent) *wire.Error {
			return a.tryPart(&wire.TryParams{Component: c.Name, Version: c.Version}, byDocument)
		},
	}
}

// byDocument has a component tried because the unit's items say so.
const byDocument = "the controller's items"

// updateComponents says to the kind how the components stand.
func (a *Agent) updateComponents() {
	all := map[string]component.Part{}
	for _, p := range a.node.parts {
		if !p.own {
			all[p.name] = component.Part{Answered: p.state.Answered(), Record: p.state.Record}
		}
	}
	a.components.Parts(all)
}

// stageComponent stages a file for a component. It is called in the background.
func (a *Agent) stageComponent(ctx context.Context, c wire.NodeComponent, path string) (
	number uint64, err *wire.Error) {
	p := a.component(c.Name)
	if p == nil {
		return 0, wire.New(wire.CodeNotFound, "", "the settings of this node's agent do not name it any more")
	}
	from, ferr := slot.OpenSource(path)
	if ferr != nil {
		return 0, failed(ferr)
	}
	src := slot.Source{Version: c.Version, Hash: c.Hash, Signature: c.Minisign}
	_, serr := p.store.StageFrom(ctx, from, src, a.deps.Now(),
		func(r update.Record, o update.Order) (update.Record, error) {
			next, effects := update.New(r).Step(update.Now{Now: a.now()}, o)
			for _, e := range effects {
				if ans, ok := e.(update.Answer); ok && ans.Err != nil {
					return r, ans.Err
				}
			}
			number = next.Number
			return next.Record, nil
		})
	if err := errors.Join(serr, from.Close()); err != nil {
		return 0, failed(err)
	}
	host{a}.Do(func() { a.logged(p, a.stepPart(p, update.Tick{})) }) // it is taken up now, not at the next look
	return number, nil
}

// component is a component that the settings name; nil: they do not.
func (a *Agent) component(name string) *part {
	for _, p := range a.node.parts {
		if p.name == name && !p.own {
			return p
		}
	}
	return nil
}
