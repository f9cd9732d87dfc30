package brokers

import (
	"fmt"

	controller "tandem.internal/controller/app"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// forgotten: a node that is gone is none any more, whatever the broker kept of it; when it is back it is a new one.
func forgotten(r *rig) {
	const name = "late"
	r.stopNode(name)
	r.awaitOnline(name, false)
	if _, err := r.app.Unit().Forget(r.Context(), controller.Forget{Nodes: []string{name}}); err != nil {
		r.Fatal(err)
	}
	unknown := func(when string) {
		r.Helper()
		if all, err := r.app.Unit().Nodes(r.Context()); err != nil || len(all.Nodes) < len(r.first) {
			r.Errorf("%s: %+v, %v", when, all, err)
		}
		if n, err := r.node(name); wire.AsError(err) == nil || wire.AsError(err).Code != wire.CodeNotFound {
			r.Errorf("%s: %+v, %v", when, n, err)
		}
	}
	unknown("forgotten")
	if !r.is.embedded {
		of := topic.ForNode(unit, name)
		topics := []string{of.Live()}
		for _, k := range wire.Kinds() {
			topics = append(topics, of.Desired(k), of.Reported(k))
		}
		r.until("the broker has nothing of it", func() string {
			p := r.newProbe("operator/o1", append(topics, topic.ForController(unit))...)
			r.until("what it retains has come", func() string {
				if len(p.heard(topic.ForController(unit))) == 0 {
					return "not yet"
				}
				return ""
			})
			left := ""
			for _, name := range topics {
				for _, payload := range p.heard(name) {
					left += fmt.Sprintf("%s %s\n", name, payload)
				}
			}
			if err := p.life.stop(); err != nil {
				r.Error(err)
			}
			return left
		})
	}
	r.restartController()
	for _, name := range r.first {
		r.awaitOnline(name, true)
	}
	unknown("after a start")
	r.startNode(name)
	r.awaitOnline(name, true)
	r.awaitVersion(r.apply(), append(r.first[:len(r.first):len(r.first)], name)...)
}
