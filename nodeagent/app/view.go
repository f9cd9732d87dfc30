package app

import (
	"time"

	"tandem.internal/shared/event"
	"tandem.internal/shared/wire"
)

// takeNewest takes the controller's word on which documents this node should have.
func (a *Agent) takeNewest(r *wire.Request) *wire.Error {
	p, err := wire.Decode[wire.NewestParams](r.Params)
	if err != nil {
		return within("/params", err)
	}
	a.view.Tell(p.Mark, p.Stamps)
	a.lookAtView()
	return nil
}

// lookAtView asks the controller what this node should have, where that is due, and tells when something is withheld.
func (a *Agent) lookAtView() {
	l := a.view.Look(time.Since(a.began), func(name wire.Kind) (wire.Stamp, bool) {
		if d := a.kind(name); d != nil {
			return d.inbox.State.High, true
		}
		return wire.Stamp{}, false
	})
	if l.Ask != "" && a.session != 0 {
		a.asks = l.Ask
		a.publishLive()
	}
	switch {
	case l.Changed && l.Stale:
		text := "the controller's word on which documents are the newest does not arrive; the broker may withhold it"
		if len(l.Missing) > 0 {
			text = "the newest documents do not arrive; the broker may withhold them"
		}
		if a.renewer != nil {
			a.renewer.AskCAs() // it may be a broker that does not count any more
		}
		a.emit(event.ViewStale, wire.New(wire.CodeNoAnswer, "", text), event.ViewDetail{Missing: l.Missing})
	case l.Changed:
		a.emit(event.ViewCurrent, nil, nil)
	}
}
