package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
)

func (a *app) key() *cobra.Command {
	return a.group("key", "Show and change the keys that sign what the unit's controller says",
		"  tandem key show\n  tandem key rotate\n  tandem key retire 34750f98bd59fcfc", a.showKeys(), a.rotateKey(), a.retireKey())
}

func (a *app) showKeys() *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "Show the signing keys, and which nodes are not known to believe them", Example: "  tandem key show", Args: want(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(func(c *client.Client) error {
				k, err := c.SigningKeys(cmd.Context())
				if err != nil {
					return err
				}
				return a.printKeys(k)
			})
		},
	}
}

func (a *app) rotateKey() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "rotate", Short: "Do the next step of a rotation: announce a new key, or have the announced one sign",
		Long: `Do the next step of a rotation.

The first time, a new key is made and announced to the nodes under the key that they
believe. The second time, it takes over: it signs everything from then on, and what
nodes should run is sealed anew. That is refused while there are nodes that are not
known to believe it, unless --force says to go on. Then retire the old key.`,
		Example: "  tandem key rotate\n  tandem key rotate --force", Args: want(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(func(c *client.Client) error {
				k, err := c.RotateKey(cmd.Context(), op.RotateKey{Force: force})
				if err != nil {
					return err
				}
				return a.printKeys(k)
			})
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "switch although some nodes are not known to believe the new key")
	return cmd
}

func (a *app) retireKey() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "retire KID", Short: "Take a key off the list: nodes drop it, and its private half is removed",
		Example: "  tandem key retire 34750f98bd59fcfc", Args: want("KID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(func(c *client.Client) error {
				k, err := c.RetireKey(cmd.Context(), op.RetireKey{ID: args[0], Force: force})
				if err != nil {
					return err
				}
				return a.printKeys(k)
			})
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "retire it although some nodes are not known to believe the key that signs")
	return cmd
}

// printKeys shows the keys, and what is to be done next.
func (a *app) printKeys(k view.Keys) error {
	if a.json {
		return a.printJSON(k)
	}
	t := &table{head: []string{"KEY", "STATE", "SINCE", "BY", "BELIEVED BY", "NOT KNOWN OF"}}
	for _, key := range k.Keys {
		since, state := "", cell{text: key.State}
		if !key.Since.IsZero() {
			since = a.ago(key.Since)
		}
		if key.State == "signing" {
			state.colour = green
		}
		missing := cell{text: strings.Join(key.Missing, ", "), colour: yellow}
		if key.Omitted > 0 {
			missing.text += fmt.Sprintf(" and %d more", key.Omitted)
		}
		t.rows = append(t.rows, []cell{{text: key.ID}, state, {text: since}, {text: key.Who}, {text: plural(key.Nodes, "node")}, missing})
	}
	a.printTable(t)
	for _, key := range k.Keys {
		switch {
		case key.State == "announced" && len(key.Missing) == 0:
			a.print("\nEvery node believes %s. To have it sign: tandem key rotate\n", clean(key.ID))
		case key.State == "announced":
			a.print("\n%s is announced. When every node believes it: tandem key rotate\n", clean(key.ID))
		case key.State == "leaving":
			a.print("\n%s signs no more. To have nodes drop it: tandem key retire %s\n", clean(key.ID), clean(key.ID))
		}
	}
	return nil
}
