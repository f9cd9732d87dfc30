package env

import (
	"context"
	"time"

	controller "tandem.internal/controller/app"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// SetHealth sets what is wanted of the health of these nodes, or of all.
func (e *Env) SetHealth(s wire.HealthSettings, nodes ...string) error {
	scope := controller.Scope{All: len(nodes) == 0, Nodes: nodes}
	return order(e, "settings of health", func(ctx context.Context, u controller.Unit) error {
		_, err := u.SetHealth(controller.As(ctx, "ann"), controller.SetHealth{Scope: scope, Settings: &s})
		return err
	})
}

// Reboot orders a node to reboot. An error may mean that only the answer was lost; so for all orders.
func (e *Env) Reboot(node string) error {
	return order(e, "reboot "+node, func(ctx context.Context, u controller.Unit) error {
		_, err := u.Reboot(controller.As(ctx, "ann"), controller.RebootIn{
			NodeIn: controller.NodeIn{Node: node}, Reboot: controller.Reboot{Reason: "because"},
		})
		return err
	})
}

// OrderNodes gives an order to many nodes.
func (e *Env) OrderNodes(in controller.NodesOrder) (controller.NodesOrdered, error) {
	v, err := ask(e, func(ctx context.Context, u controller.Unit) (controller.NodesOrdered, error) {
		return u.OrderNodes(controller.As(ctx, "ann"), in)
	})
	e.Note("order to %q: %d of %d taken, %v", in.Where, v.Done, v.Selected, err)
	return v, err
}

// Maintain announces maintenance for so long; 0 ends it.
func (e *Env) Maintain(d time.Duration) error {
	return order(e, "maintenance "+d.String(), func(ctx context.Context, u controller.Unit) error {
		_, err := u.Maintain(controller.As(ctx, "ann"), controller.Maintain{For: duration.Format(d), Reason: "because"})
		return err
	})
}

// Health is a node's health as the controller sees it.
func (e *Env) Health(node string) (controller.NodeHealth, bool) {
	h, err := ask(e, func(ctx context.Context, u controller.Unit) (controller.NodeHealth, error) {
		return u.NodeHealth(ctx, controller.NodeIn{Node: node})
	})
	return h, err == nil
}

// TrySlot orders a node to try what is staged.
func (e *Env) TrySlot(node, version string) error {
	return order(e, "try "+node+" "+version, func(ctx context.Context, u controller.Unit) error {
		_, err := u.Try(controller.As(ctx, "ann"), controller.TryIn{
			NodeIn: controller.NodeIn{Node: node}, Try: controller.Try{Version: version},
		})
		return err
	})
}

// Approve allows a node to keep what it tries.
func (e *Env) Approve(node, version string) error {
	return order(e, "approve "+node+" "+version, func(ctx context.Context, u controller.Unit) error {
		_, err := u.Approve(controller.As(ctx, "ann"), controller.ApproveIn{
			NodeIn: controller.NodeIn{Node: node}, Approve: controller.Approve{Version: version},
		})
		return err
	})
}

func order(e *Env, what string, f func(context.Context, controller.Unit) error) error {
	_, err := ask(e, func(ctx context.Context, u controller.Unit) (struct{}, error) { return struct{}{}, f(ctx, u) })
	e.Note("%s: %v", what, err)
	return err
}

// OwnWord is what a node has told of its health, as the broker retains it; nil if nothing.
func (e *Env) OwnWord(node string) *wire.Health {
	payload, ok := e.Broker.Retained(topic.ForNode(Unit, node).Reported(wire.KindHealth))
	if !ok {
		return nil
	}
	r, err := wire.Decode[wire.Reported](payload)
	if err != nil {
		e.Wrong("%s has told of its health: %v", node, err)
		return nil
	}
	h, err := wire.Decode[wire.Health](r.Detail)
	if err != nil {
		e.Wrong("%s has told of its health: %v", node, err)
		return nil
	}
	return h
}
