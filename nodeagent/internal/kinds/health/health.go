// Package health is the kind health: documents of this kind are the controller's settings of the node's health, its
// report is how the node is, and its requests are orders to the node. What decides about the node's health is the
// pure package of the same name, which the agent runs.
package health

import (
	core "tandem.internal/nodeagent/internal/health"
	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/nodeagent/internal/kind"
	"tandem.internal/shared/wire"
)

// Config is what the kind goes by. Its functions are called on the owner's goroutine.
type Config struct {
	Local wire.HealthSettings // the node's own
	// Settings is told which settings are in force: the node's and the controller's together. The error says what
	// is wrong with them together: the stricter ones are in force then.
	Settings func(set wire.HealthSettings, err *wire.Error)
	// Report is how the node is; nil: that is not known yet.
	Report func() *wire.Health
	// Order has an order obeyed, and answers it. component is whose trial it is about; empty: the agent's own slot's.
	Order func(o core.Order, component string, answer kind.Answer)
}

// New makes the kind.
func New(cfg Config) kind.Kind {
	return kind.New(kind.Spec[*wire.HealthSettings]{
		Name: wire.KindHealth,
		Parse: func(doc inbox.Doc) (*wire.HealthSettings, []*wire.Error) {
			set, err := wire.Decode[wire.HealthSettings](doc.Body)
			if err != nil {
				return nil, []*wire.Error{wire.AsError(err)}
			}
			return set, nil
		},
		Check: func(doc kind.Document[*wire.HealthSettings]) []*wire.Error {
			if _, err := core.Resolve(cfg.Local, doc.Content); err != nil {
				return []*wire.Error{err}
			}
			return nil
		},
		InForce: func(doc kind.Document[*wire.HealthSettings]) { cfg.Settings(core.Resolve(cfg.Local, doc.Content)) },
		Detail: func() []byte {
			if h := cfg.Report(); h != nil {
				return wire.Encode(h)
			}
			return nil
		},
		Methods: map[wire.Method]kind.Method{
			wire.MethodReboot:  {Order: true, Read: kind.Params(cfg.reboot)},
			wire.MethodTry:     {Order: true, Read: kind.Params(cfg.try)},
			wire.MethodApprove: {Order: true, Read: kind.Params(cfg.approve)},
		},
	})
}

func (c Config) reboot(p *wire.RebootParams, id string, answer kind.Answer) {
	c.Order(order(id, core.OrderReboot, "", p.Reason), "", answer)
}

func (c Config) try(p *wire.TryParams, id string, answer kind.Answer) {
	c.Order(order(id, core.OrderTry, p.Version, ""), p.Component, answer)
}

func (c Config) approve(p *wire.ApproveParams, id string, answer kind.Answer) {
	c.Order(order(id, core.OrderApprove, p.Version, ""), "", answer)
}

// order is an order of the controller.
func order(id string, what core.What, version, detail string) core.Order {
	return core.Order{ID: id, What: what, By: "the controller", Version: version, Detail: detail}
}
