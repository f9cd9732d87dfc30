package policy

import (
	"bytes"
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/shared/bundle"
	"tandem.internal/shared/durable"
)

func bundled(a *command.App) *cobra.Command {
	var version, settings, out string
	cmd := &cobra.Command{
		Use: "bundle FILE", Short: "Make a version of the agent that brings settings",
		Long: `Make a version of the agent that brings settings. They are put at the end of the program's own
file, and so are signed, released, staged, kept and given up with it. On a node they count where
its own settings file, variables and flags say nothing. The file of settings is YAML, as agents
read it; what is about trust, paths, addresses, commands, users or trials is the node owner's alone
and is refused.

The same program with other settings is another version: nodes know it by the one that is given
here. Sign and release the new file, not FILE.`,
		Example: "  tandem agent bundle tandem-node --settings set.yaml --version 1.5.1 --out tandem-node-1.5.1\n" +
			"  tandem agent release tandem-node-1.5.1",
		Args: command.Args("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case settings == "":
				return command.Lacks(cmd, "--settings FILE")
			case version == "":
				return command.Lacks(cmd, "--version VERSION")
			case out == "":
				return command.Lacks(cmd, "--out FILE")
			}
			if err := command.Vacant(out, false); err != nil {
				return err
			}
			tail, err := settingsOf(settings, version)
			if err != nil {
				return err
			}
			if err := join(cmd.Context(), args[0], tail, version, out); err != nil {
				return err
			}
			return a.Saved(out)
		},
	}
	cmd.Flags().StringVar(&settings, "settings", "", "`file` with settings of the agent (required)")
	cmd.Flags().StringVar(&version, "version", "", "`version` of the program with these settings (required)")
	cmd.Flags().StringVar(&out, "out", "", "`file` for both (required)")
	return cmd
}

// settingsOf reads a file of settings, and returns what makes a program bring them.
func settingsOf(file, version string) ([]byte, error) {
	text, err := command.ReadFile(file)
	if err != nil {
		return nil, command.Unreadable(file, err)
	}
	b := bundle.Bundle{Version: version, Settings: text}
	layer := b.Layer()
	layer.Where = file
	switch names, err := layer.Names(); {
	case err != nil:
		return nil, command.Usage("%s", err)
	case len(names) == 0:
		return nil, command.Usage("%s names no setting", file)
	}
	tail, err := b.Tail()
	if err != nil {
		return nil, command.Usage("%s", err)
	}
	return tail, nil
}

// join writes a program and its tail to a new file. If the program runs here, it says what it makes of that; if that is
// not good, there is no new file.
func join(ctx context.Context, file string, tail []byte, version, out string) (err error) {
	p, err := look(file)
	if err != nil {
		return err
	}
	if p.version != "" {
		return command.Usage("%s brings settings already; take the program without any", file)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return command.Unreadable(file, err)
	}
	if !bytes.Contains(data, []byte(bundle.Mark)) {
		return command.Usage("%s is an agent from before versions could bring settings, or none: it would not see them",
			file)
	}
	if err := durable.WriteFile(out, append(data, tail...), 0o755, nil); err != nil {
		return command.Unreadable(out, err)
	}
	if p, err = look(out); err == nil {
		p.name = file
		err = p.is(ctx, version)
	}
	if err != nil {
		return errors.Join(err, os.Remove(out))
	}
	return nil
}
