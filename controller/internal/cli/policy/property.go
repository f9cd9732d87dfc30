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
				if len(v.Properties) == 0 {
					a.Print("%s has no properties: it has described itself by none, and nobody has set any\n",
						term.Clean(v.Node))
				} else {
					a.Table(t)
				}
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
	var many command.Many
	cmd := &cobra.Command{
		Use:   "set (NODE | --where FILTER) NAME VALUE",
		Short: "Set a property of a node, in place of what the node says of it",
		Long: `Set a property of a node. VALUE is JSON: a number, true, false, "a text" or ["several",
"texts"]; what is none of these is a text as it is.`,
		Example: "  tandem property set press-1 line 4\n" +
			"  tandem property set press-1 firmware 1.10.0 --type version\n" +
			"  tandem property set --where 'name:press-4*' line 4 --dry-run",
		Args: many.Args("NAME", "VALUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, text := args[len(args)-2], args[len(args)-1]
			value := op.PropertyValue{Value: jsontext.Value(text), Type: typ}
			isText := typ == "string" || typ == "version"
			if !value.Value.IsValid() || isText && value.Value.Kind() != '"' {
				value.Value = jsontext.Value(strconv.Quote(text))
			}
			if many.Given(cmd) {
				in := op.NodesOrder{Set: &op.NamedValue{NamedProperty: op.NamedProperty{Name: name},
					PropertyValue: value}}
				return many.Order(cmd, a, in, "set "+term.Clean(name))
			}
			in := op.SetPropertyIn{PropertyIn: op.PropertyIn{NodeIn: op.NodeIn{Node: args[0]}, Property: name},
				PropertyValue: value}
			return command.Ask(cmd.Context(), a, op.SetProperty, in, func(a *command.App, v view.PolicyChange) {
				a.Print("%s of %s is set, rev %d: %s\n", name, args[0], v.Rev, changed(v))
			})
		},
	}
	many.Flags(cmd)
	cmd.Flags().StringVar(&typ, "type", "", "`type`: string, int, float, boolean, version or \"list of strings\" "+
		"(default: that of the value)")
	return cmd
}

func unset(a *command.App) *cobra.Command {
	var many command.Many
	cmd := &cobra.Command{
		Use: "unset (NODE | --where FILTER) NAME", Short: "Take back what was set: what the node says counts again",
		Example: "  tandem property unset press-1 line\n  tandem property unset --where type:press line --yes",
		Args:    many.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if name := args[len(args)-1]; many.Given(cmd) {
				in := op.NodesOrder{Unset: &op.NamedProperty{Name: name}}
				return many.Order(cmd, a, in, "unset "+term.Clean(name))
			}
			in := op.PropertyIn{NodeIn: op.NodeIn{Node: args[0]}, Property: args[1]}
			return command.Ask(cmd.Context(), a, op.UnsetProperty, in, func(a *command.App, v view.PolicyChange) {
				a.Print("%s of %s is not set any more: %s\n", args[1], args[0], changed(v))
			})
		},
	}
	many.Flags(cmd)
	return cmd
}
