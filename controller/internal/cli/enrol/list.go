package enrol

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
)

// enrolled is what list prints with --json: no token.
type enrolled struct {
	Path       string   `json:"path,omitempty"`    // of the file or directory with the tokens; absent: there are none
	Nodes      []string `json:"nodes"`             // that got a token
	Skipped    []string `json:"skipped,omitempty"` // that the unit knows
	Properties int      `json:"properties"`        // that were set
}

func list(a *command.App) *cobra.Command {
	var dir, out, known string
	cmd := &cobra.Command{
		Use: "list FILE", Short: "Make a token for each node of a list, all of them or none",
		Long: `Make a token for each node of a list, all of them or none, and write them where
nobody else may read them. FILE is CSV, whose first line names its columns, or YAML
(.yaml), a list with the same words as keys; - is standard input.

  node,type,expires,property.line
  press-1,mainType,7d,4

node is needed; type is the only one that the node may have; expires says how long its
token counts (default 24h, at most 30d); property.NAME is set as tandem property set
does. With --dir each node has a file for its boot partition.`,
		Example: "  tandem enrol list nodes.csv --dir tokens\n" +
			"  tandem enrol list nodes.yaml --out tokens.csv --known skip",
		Args: command.Args("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (dir == "") == (out == "") {
				return command.Lacks(cmd, "--dir DIRECTORY or --out FILE, for the tokens")
			}
			if !slices.Contains([]string{"", "skip", "replace"}, known) {
				return command.Usage("%s: --known is skip or replace, not %.80q", cmd.CommandPath(), known)
			}
			src, err := a.Read(args[0])
			if err != nil {
				return err
			}
			nodes, problems := parse(src)
			if len(problems) > 0 {
				return command.Malformed(problems, src)
			}
			return a.Connect(func(c *client.Client) error {
				return makeTokens(cmd.Context(), a, c, nodes, known, dir, out)
			})
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "new `directory` for the tokens, a file for each node")
	cmd.Flags().StringVar(&out, "out", "", "new `file` for all tokens, as CSV")
	cmd.Flags().StringVar(&known, "known", "", "what to do about nodes that the unit knows: `skip` them, or replace "+
		"their token (default: refuse the list)")
	return cmd
}

// makeTokens has the tokens made when it is clear that they can be written, writes them, and sets the properties.
func makeTokens(ctx context.Context, a *command.App, c *client.Client, nodes []listed, known, dir, out string) (
	err error) {
	var to *folder
	if dir != "" {
		if to, err = newFolder(dir); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, to.drop()) }()
	} else if err := command.Vacant(out, false); err != nil {
		return err
	}
	in := op.EnrolList{Known: known}
	for _, n := range nodes {
		in.Nodes = append(in.Nodes, n.ListedNode)
	}
	v, err := client.Call(ctx, c, op.EnrolNodes, in)
	if err != nil {
		return err
	}
	path := dir + out
	switch {
	case len(v.Nodes) == 0: // nothing is written
		path = ""
	case to != nil:
		err = to.keep(v)
	default:
		err = command.WriteNew(out, func(w io.Writer) error { return writeTokens(w, v) })
	}
	if err != nil {
		f := command.AsFailure(err)
		f.Err.Message += "; the tokens were made and are lost: again with --known replace"
		return f
	}
	outcome := enrolled{Path: path, Nodes: []string{}, Skipped: v.Skipped}
	for _, n := range v.Nodes {
		outcome.Nodes = append(outcome.Nodes, n.Node)
	}
	if outcome.Properties, err = setProperties(ctx, c, nodes, v.Skipped); err != nil {
		f := command.AsFailure(err)
		f.Err.Message = fmt.Sprintf("%s; the tokens are in %s, and %d properties were set: set the others with tandem "+
			"property set", f.Err.Message, outcome.Path, outcome.Properties)
		return f
	}
	if a.JSON {
		return a.PrintJSON(outcome)
	}
	if path == "" {
		a.Print("no tokens were made, and nothing was written\n")
	} else {
		a.Print("%s may join, each with its own token, in %s\n", term.Plural(len(outcome.Nodes), "node"), path)
	}
	if len(v.Skipped) > 0 {
		a.Print("the unit knows %s, which got none: %s\n", term.Plural(len(v.Skipped), "node"),
			term.Clean(term.List(v.Skipped)))
	}
	if outcome.Properties > 0 {
		a.Print("properties that were set: %d\n", outcome.Properties)
	}
	return nil
}

// setProperties sets the properties of nodes, but of those that were skipped. It returns how many were set.
func setProperties(ctx context.Context, c *client.Client, nodes []listed, skipped []string) (n int, err error) {
	not := make(map[string]bool, len(skipped))
	for _, name := range skipped {
		not[name] = true
	}
	for _, one := range nodes {
		if not[one.Node] {
			continue
		}
		for _, p := range one.properties {
			in := op.SetPropertyIn{PropertyIn: op.PropertyIn{NodeIn: op.NodeIn{Node: one.Node}, Property: p.Name},
				PropertyValue: op.PropertyValue{Value: p.Value}}
			if _, err := client.Call(ctx, c, op.SetProperty, in); err != nil {
				return n, fmt.Errorf("property %s of %s: %w", p.Name, one.Node, err)
			}
			n++
		}
	}
	return n, nil
}
