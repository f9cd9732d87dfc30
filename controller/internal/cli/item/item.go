// Package item owns the commands about update items and what should run where, as far as they need no controller.
package item

import (
	"slices"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/term"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// Items is the group of commands about update items.
func Items(a *command.App) *cobra.Command {
	return command.Group("item", "Say whether the metadata of update items is valid",
		"  tandem item verify sensor.json", verify(a))
}

// verifiedJSON is what verify prints with --json.
type verifiedJSON struct {
	Type     items.Type `json:"type"`
	Codename string     `json:"codename"`
	Version  string     `json:"version,omitempty"`
	Free     *bool      `json:"free,omitempty"` // with --offline: no item of the unit has the codename
}

func verify(a *command.App) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "verify META", Short: "Say whether the metadata of an update item is valid",
		Long: `Read the metadata of an update item, and say what is wrong with it. No controller is
asked. With --offline DIR also: whether the codename is free among the items of the unit
in DIR, of the same type.`,
		Example: "  tandem item verify sensor.json\n  tandem item verify sensor.json --offline unit",
		Args:    command.Args("META"),
	}
	cmd.Flags().StringVar(&dir, "offline", "", "`directory` with the unit")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		from, err := a.Read(args[0])
		if err != nil {
			return err
		}
		m, problems := items.Parse(from.Text)
		if problems != nil {
			return command.Malformed(problems, from)
		}
		out := verifiedJSON{Type: m.Type, Codename: m.Codename, Version: m.Version}
		if cmd.Flags().Changed("offline") {
			if out.Free, err = free(a, dir, m.Ref()); err != nil {
				return err
			}
		}
		if a.JSON {
			return a.PrintJSON(out)
		}
		a.Print("the metadata of %s is valid\n", m.Ref())
		if out.Free != nil {
			a.Print("the codename is free\n")
		}
		return nil
	}
	return cmd
}

// free is true if no item of a unit has this codename, else a failure that names the file of the one that has.
func free(a *command.App, dir string, ref items.Ref) (*bool, error) {
	u, err := readUnit(a, dir)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(u.Items, func(i items.Item) bool { return i.Meta.Ref() == ref })
	if at >= 0 {
		f := command.Refuse(command.ExitRefused, wire.CodeAlreadyExists, "the codename of the %s is used: %s has it",
			ref, term.Clean(u.files["items"][at]))
		f.Err.Path = "/codename"
		return nil, f
	}
	yes := true
	return &yes, nil
}
