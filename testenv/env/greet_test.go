package env_test

import (
	"context"
	"testing"
	"time"

	controller "tandem.internal/controller/app"
	"tandem.internal/testenv/env"
)

// An agent that has restarted is in contact soon: it does not wait for the next beacon of the minute,
// which may come as late as the shortest fallback time ends.
func TestContactAfterARestart(t *testing.T) {
	both(t, func(t *testing.T, s env.Setup) {
		env.Run(t, s, func(e *env.Env) {
			n := e.Node("n1")
			contact := func(restarts uint64) func() bool {
				return func() bool {
					h, err := asked(e, func(ctx context.Context, u controller.Unit) (controller.NodeHealth, error) {
						return u.NodeHealth(ctx, controller.NodeIn{Node: n.Name})
					})
					return err == nil && h.Report != nil && h.Report.Boot.Restarts == restarts && h.Report.Contact.In
				}
			}
			e.Until(5*time.Second, "the node is in contact", contact(1))
			for i := range uint64(5) {
				e.Pass(time.Duration(i)*11*time.Second + time.Second)
				n.Restart()
				e.Until(5*time.Second, "it is in contact again", contact(i+2))
			}
		})
	})
}
