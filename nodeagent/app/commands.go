package app

import (
	"context"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/health"
	"tandem.internal/shared/wire"
)

// reboot writes the reason down, and runs the command.
func (a *Agent) reboot(ctx context.Context, e health.Reboot) error {
	if _, err := a.node.slots.Planned(e.Reason, e.Detail); err != nil {
		return err
	}
	env := []string{"TANDEM_REASON=" + string(e.Reason), "TANDEM_DETAIL=" + e.Detail}
	if err := a.deps.RunCommand(ctx, env, strings.Fields(a.cfg.RebootCommand)); err != nil {
		return wire.New(wire.CodeApplyFailed, "", "the reboot command failed: "+err.Error())
	}
	return nil
}

// restart ends the agent after f, so that the service manager starts it anew.
func (a *Agent) restart(f func() error) {
	a.runInBackground(func() func() {
		err := f()
		return func() {
			a.node.leaving = err == nil
			a.healthEvent(health.Restarting{Err: failed(err)})
		}
	})
}

// indicate runs the local command that shows the indicator.
func (a *Agent) indicate(e health.Indicate) {
	argv := strings.Fields(a.cfg.OnIndicator)
	if len(argv) == 0 {
		return
	}
	env := []string{"TANDEM_INDICATOR=" + strconv.Itoa(int(e.Indicator)), "TANDEM_INDICATOR_TEXT=" + e.Text}
	a.runInBackground(func() func() {
		a.node.commands.Lock()
		defer a.node.commands.Unlock()
		ctx, cancel := context.WithTimeout(a.work, a.cfg.OnApplyTimeout)
		defer cancel()
		if err := a.deps.RunCommand(ctx, env, argv); err != nil {
			a.log.Warn("the indicator command failed", zap.Error(err))
		}
		return func() {}
	})
}
