package app

import (
	"slices"
	"strings"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/boot"
	"tandem.internal/nodeagent/internal/health"
	"tandem.internal/shared/wire"
)

// bootReason returns why the agent has started, and reports the earlier starts that were not reported yet.
func (a *Agent) bootReason() (boot wire.HealthBoot, rebooted bool) {
	n := &a.node
	boot, rebooted = wire.HealthBoot{Reason: wire.BootUnknown, At: a.deps.Now()}, true
	boots, dropped, err := n.slots.BootReason()
	if err != nil || len(boots) == 0 {
		a.log.Warn("nobody knows why the agent has started", zap.Error(err))
		return boot, rebooted
	}
	now := boots[len(boots)-1]
	for _, b := range boots[:len(boots)-1] {
		detail := health.Detail{Reason: b.Reason, Text: bootText(b), Restarts: b.Number}
		a.saveEvents(a.newEvent(health.EventBoot, nil, detail))
	}
	if dropped > 0 {
		a.log.Warn("earlier starts are not known any more", zap.Uint64("number", dropped))
	}
	rebooted = now.Reboots != n.reboots
	n.reboots, n.unacked = now.Reboots, now.Number
	boot.Reason, boot.Detail, boot.Restarts = now.Reason, bootText(now), now.Number
	return boot, rebooted
}

func bootText(b boot.Start) string {
	texts := slices.Compact([]string{b.Detail, b.Note}) // the same where the launcher has ended a trial
	return strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), "; ")
}

// acknowledge marks the newest start as reported in the history of starts, once its event is on the disk.
func (a *Agent) acknowledge() {
	if a.node.unacked == 0 || a.dirty() {
		return
	}
	if err := a.node.slots.Reported(a.node.unacked); err != nil {
		a.log.Warn("this start will be told of once more", zap.Error(err))
		return
	}
	a.node.unacked = 0
}

// keepFailure keeps the reason of an end that nobody has planned.
func (a *Agent) keepFailure(reason wire.BootReason, detail string) error {
	_, err := a.node.slots.Failing(reason, detail)
	return err
}

// reportSilentTrial reports a trial whose version ended before it could report anything, not even that it was
// tried: the launcher went back to the slot before.
func (a *Agent) reportSilentTrial() {
	st, err := a.node.slots.Status()
	if err != nil {
		return // which is said when health asks for the slots
	}
	now, last := st.Boot, st.Last
	tried := slices.ContainsFunc(st.Unreported, func(b boot.Start) bool {
		return b.Trial && b.Slot == last.Slot && b.Number < now.Number
	})
	if !tried || now.Trial || last.Committed || a.node.health.State.Trial.ID != "" {
		return
	}
	detail := health.Detail{Slot: string(last.Slot), Version: last.Version, Reason: last.Reason, Text: last.Detail}
	a.saveEvents(a.newEvent(health.EventTrialRolledBack, nil, detail))
}
