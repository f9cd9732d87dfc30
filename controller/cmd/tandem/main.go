// Command tandem is the operator's side of a Tandem controller.
package main

import (
	"context"
	"io"
	"os"
	"time"

	"tandem.internal/controller/internal/cli"
	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/term"
	"tandem.internal/shared/settings"
)

func main() {
	settings.Main(func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
		out, width := term.Terminal(os.Stdout)
		errs, errWidth := term.Terminal(os.Stderr)
		in, _ := term.Terminal(os.Stdin)
		config, err := os.UserConfigDir()
		if err != nil {
			config = "" // so there are no contexts; who asks for one is told
		}
		var console func() (command.Console, error)
		if in && out {
			console = func() (command.Console, error) { return term.OpenConsole(os.Stdin, os.Stdout) }
		}
		return cli.Run(ctx, args, cli.IO{
			In: os.Stdin, Out: stdout, Err: stderr, Env: os.LookupEnv, Now: time.Now, Zone: time.Local,
			User: command.User(os.LookupEnv), OutTerminal: out, ErrTerminal: errs, Width: max(width, errWidth),
			InTerminal: in, Config: config, Console: console,
		})
	})
}
