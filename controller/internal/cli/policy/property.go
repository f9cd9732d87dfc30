package policy

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	reasons "tandem.internal/controller/internal/why"
)

// Property is the group of commands about the properties by which policies choose nodes.
func Property(a *command.App) *cobra.Command {
	return command.Group("property", "Show and set the properties by which policies choose nodes",
		"  tandem property list press-1\n  tandem property set press-1 line 4", properties(a), set(a), unset(a))
}

func properties(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "list NODE", Short: "List a node's properties, and where each is from",
		Example: "  tandem property list press-1", Args: command.NodeArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			in := op.NodeIn{Node: args[0]}
			return command.Ask(cmd.Context(), a, op.ShowProperties, in, func(a *command.App, v view.NodeProperties) {
				t := &term.Table{Head: []string{"PROPERTY", "VALUE", "TYPE", "FROM", "BY"}}
				for _, p := range v.Properties {
					t.Add(p.Name, string(p.Value), p.Type, p.From, p.Who)
				}
				a.Table(t)
				if v.Pattern != "" {
					a.Print("\nIt uses the pattern %s.\n", term.Clean(v.Pattern))
				}
				for i, c := range v.Constraints {
					if i == 0 {
						a.Print("\nIt takes policies of which this is true:\n")
					}
					a.Print("  %s\n", term.Clean(c))
				}
				if v.Error != nil {
					a.Print("\n%s\n", term.Clean(reasons.NotCounted(command.Brief(v.Error))))
				}
			}, command.NearNode(args[0]))
		},
	}
}

func set(a *command.App) *cobra.Command {
	var typ string
	cmd := &cobra.Command{
		Use: "set NODE NAME VALUE", Short: "Set a property of a node, in place of what the node says of it",
		Long: `Set a property of a node. VALUE is JSON: a number, true, false, "a text" or ["several",
"texts"]; what is none of these is a text as it is.`,
		Example: "  tandem property set press-1 line 4\n  tandem property set press-1 firmware 1.10.0 --type version",
		Args:    command.Args("NODE", "NAME", "VALUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckNode(cmd, args[0]); err != nil {
				return err
			}
			in := op.SetPropertyIn{PropertyIn: op.PropertyIn{NodeIn: op.NodeIn{Node: args[0]}, Property: args[1]},
				PropertyValue: op.PropertyValue{Value: jsontext.Value(args[2]), Type: typ}}
			text := typ == "string" || typ == "version"
			if !in.Value.IsValid() || text && in.Value.Kind() != '"' {
				in.Value = jsontext.Value(strconv.Quote(args[2]))
			}
			return command.Ask(cmd.Context(), a, op.SetProperty, in, func(a *command.App, v view.PolicyChange) {
				a.Print("%s of %s is set, rev %d: %s\n", args[1], args[0], v.Rev, changed(v))
			})
		},
	}
	cmd.Flags().StringVar(&typ, "type", "", "`type`: string, int, float, boolean, version or \"list of strings\" "+
		"(default: that of the value)")
	return cmd
}

func unset(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "unset NODE NAME", Short: "Take back what was set: what the node says counts again",
		Example: "  tandem property unset press-1 line", Args: command.Args("NODE", "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckNode(cmd, args[0]); err != nil {
				return err
			}
			in := op.PropertyIn{NodeIn: op.NodeIn{Node: args[0]}, Property: args[1]}
			return command.Ask(cmd.Context(), a, op.UnsetProperty, in, func(a *command.App, v view.PolicyChange) {
				a.Print("%s of %s is not set any more: %s\n", args[1], args[0], changed(v))
			})
		},
	}
}
