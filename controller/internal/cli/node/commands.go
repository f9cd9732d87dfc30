// Package node owns the commands about nodes and what runs on them: their list, their health, orders to one node,
// slots of workloads, and the unit at a glance.
package node

import (
	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/access"
	"tandem.internal/controller/internal/cli/command"
)

// Commands are the commands of this package that stand at the top.
func Commands(a *command.App) []*cobra.Command {
	one := show(a)
	one.AddCommand(access.NodeCommands(a)...)
	one.AddCommand(reboot(a), try(a), approve(a), forget(a), diff(a), agentLog(a), agentLogLevel(a), samples(a))
	return []*cobra.Command{list(a), fleet(a), one, health(a), alerts(a), unit(a), clock(a)}
}

// SlotCommands are the commands about slots of workloads.
func SlotCommands(a *command.App) []*cobra.Command {
	return []*cobra.Command{slots(a), whySlot(a), restartSlot(a), stopSlot(a), startSlot(a), slotLogs(a)}
}
