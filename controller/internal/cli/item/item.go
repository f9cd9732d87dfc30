// Package item owns the commands about update items, subjects, and what should run where.
package item

import (
	"context"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// Items is the group of commands about update items.
func Items(a *command.App) *cobra.Command {
	return command.Group("item", "Keep update items: components, services and layers, in versions",
		"  tandem item create sensor.json\n  tandem item release sensor.json ./sensor --ready\n  tandem item list",
		verify(a), create(a), image(a), packCommand(a), encryptCommand(a), release(a), list(a), show(a), ready(a),
		deprecate(a), remove(a),
		history(a))
}

// readMeta reads metadata, or the item's file in the directory of a unit, whose metadata counts.
func readMeta(a *command.App, file string) (*items.Meta, command.Source, error) {
	from, err := a.Read(file)
	if err != nil {
		return nil, from, err
	}
	var members map[string]jsontext.Value
	if json.Unmarshal(from.Text, &members) == nil && members["meta"] != nil {
		it, problems := items.ParseItem(from.Text)
		if problems != nil {
			return nil, from, command.Malformed(problems, from)
		}
		return &it.Meta, from, nil
	}
	m, problems := items.Parse(from.Text)
	if problems != nil {
		return nil, from, command.Malformed(problems, from)
	}
	return m, from, nil
}

// verifiedJSON is what verify prints with --json.
type verifiedJSON struct {
	Type     items.Type `json:"type"`
	Codename string     `json:"codename"`
	Version  string     `json:"version,omitempty"`
	Free     bool       `json:"free"` // no item of the unit has the codename
}

func verify(a *command.App) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "verify META", Short: "Say whether metadata is valid, and its codename free",
		Long: `Read the metadata of an update item, say what is wrong with it, and ask the controller whether
the codename is free among the items of the same type. With --offline DIR no controller is
asked, but the unit in DIR.`,
		Example: "  tandem item verify sensor.json\n  tandem item verify sensor.json --offline unit",
		Args:    command.Args("META"),
	}
	cmd.Flags().StringVar(&dir, "offline", "", "`directory` with the unit")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		m, _, err := readMeta(a, args[0])
		if err != nil {
			return err
		}
		out := verifiedJSON{Type: m.Type, Codename: m.Codename, Version: m.Version, Free: true}
		print := func(a *command.App, _ verifiedJSON) {
			a.Print("the metadata of %s is valid\nthe codename is free\n", m.Ref())
		}
		if !cmd.Flags().Changed("offline") {
			return command.Gather(cmd.Context(), a, func(ctx context.Context, c *client.Client) (verifiedJSON, error) {
				_, err := creating(ctx, c, m, true)
				return out, err
			}, print)
		}
		if err := free(a, dir, m.Ref()); err != nil {
			return err
		}
		if a.JSON {
			return a.PrintJSON(out)
		}
		print(a, out)
		return nil
	}
	return cmd
}

// creating has an item created, or asks whether it would be.
func creating(ctx context.Context, c *client.Client, m *items.Meta, dry bool) (v view.ItemChange, err error) {
	text, err := json.Marshal(m)
	if err != nil {
		return v, err
	}
	return client.Call(ctx, c, op.CreateItem, op.CreateItemIn{DryRun: dry, Document: text})
}

// free is a failure that names the file of the item of a unit which has the codename; nil: none has.
func free(a *command.App, dir string, ref items.Ref) error {
	u, err := readUnit(a, dir)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(u.Items, func(i items.Item) bool { return i.Meta.Ref() == ref })
	if at < 0 {
		return nil
	}
	f := command.Refuse(command.ExitRefused, wire.CodeAlreadyExists, "the codename of the %s is used: %s has it",
		ref, term.Clean(u.files["items"][at]))
	f.Err.Path = "/codename"
	return f
}

func create(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "create META", Short: "Create an update item, which gets an ID and a URN",
		Long: `Create an update item, from its metadata: codename and type, and, where given, description and
owner. It has no version yet: tandem item release.`,
		Example: "  tandem item create sensor.json", Args: command.Args("META"),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, _, err := readMeta(a, args[0])
			if err != nil {
				return err
			}
			call := func(ctx context.Context, c *client.Client) (view.ItemChange, error) {
				return creating(ctx, c, m, false)
			}
			return command.Gather(cmd.Context(), a, call, func(a *command.App, v view.ItemChange) {
				a.Print("%s is created: %s\n", m.Ref(), term.Clean(v.URN))
			})
		},
	}
}
