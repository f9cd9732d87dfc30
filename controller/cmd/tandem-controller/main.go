// Command tandem-controller keeps every node of one unit on the configuration it should have.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	_ "time/tzdata" // of rollouts' windows: the machine may have none

	"tandem.internal/controller/app"
	"tandem.internal/shared/settings"
)

func main() { settings.Main(run) }

// run returns the exit status: 0 stopped in order, 1 failed, 2 wrong usage.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "journal" {
		return journalCommand(ctx, args[1:], stdout, stderr)
	}
	if len(args) > 0 && args[0] == "backup" {
		return backupCommand(ctx, args[1:], os.Stdin, stdout, stderr)
	}
	if len(args) > 0 && args[0] == "upgrade" {
		return upgradeCommand(args[1:], stdout, stderr)
	}
	var cfg app.Config
	rest, err := settings.Load("tandem-controller", &cfg, args, os.LookupEnv, stdout)
	if errors.Is(err, settings.ErrPrinted) {
		return 0
	}
	if err == nil {
		err = settings.Unexpected(rest, []string{"journal", "backup", "upgrade"})
	}
	if err != nil {
		fmt.Fprintln(stderr, "tandem-controller:", err)
		return 2
	}
	log, level, err := settings.Logger(cfg.LogLevel, false)
	if err != nil {
		fmt.Fprintln(stderr, "tandem-controller:", err)
		return 2
	}
	defer log.Sync() //nolint:errcheck // standard error cannot always be synced, and nothing is left to say
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(app.GCPercent)
	}
	a, err := app.New(cfg, app.Deps{Log: log, Level: level, Machine: app.ThisMachine()})
	if err == nil {
		err = a.Run(ctx)
	}
	if err != nil {
		fmt.Fprintln(stderr, "tandem-controller:", err)
		if _, usage := errors.AsType[*app.UsageError](err); usage {
			return 2
		}
		return 1
	}
	return 0
}
