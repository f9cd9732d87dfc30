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
	// Order has an order obeyed, which answers the request of its ID.
	Order func(o core.Order)
	// Try has what is staged tried.
	Try func(what *wire.TryParams, by string) *wire.Error
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

func (c Config) reboot(p *wire.RebootParams, id string, _ kind.Answer) {
	c.Order(order(id, core.OrderReboot, "", p.Reason))
}

func (c Config) try(p *wire.TryParams, _ string, answer kind.Answer) {
	answer([]byte("null"), c.Try(p, byController))
}

func (c Config) approve(p *wire.ApproveParams, id string, _ kind.Answer) {
	c.Order(order(id, core.OrderApprove, p.Version, ""))
}

// byController is who gives the orders that come as requests.
const byController = "the controller"

// order is an order of the controller.
func order(id string, what core.What, version, detail string) core.Order {
	return core.Order{ID: id, What: what, By: byController, Version: version, Detail: detail}
}
