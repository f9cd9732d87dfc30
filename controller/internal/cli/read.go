package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

func (a *app) show() *cobra.Command {
	var node, version string
	cmd := &cobra.Command{
		Use: "show", Short: "Print the installed unit configuration, another version, or what one node gets",
		Example: "  tandem config show > unit.json\n  tandem config show --version 1.9.0\n  tandem config show --node node-1", Args: want(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if node != "" && version != "" {
				return usage("--node shows what is installed; it does not go with --version")
			}
			if cmd.Flags().Changed("node") {
				if err := checkNode(cmd, node); err != nil {
					return err
				}
			}
			return a.with(func(c *client.Client) error {
				if node != "" {
					res, err := c.Resolved(cmd.Context(), node, "")
					if err != nil {
						return a.unknownNode(cmd.Context(), c, node, err)
					}
					if res.Rule == string(view.ByDefault) && !a.json {
						if err := a.heardOf(cmd.Context(), c, node); err != nil {
							fmt.Fprintf(a.Err, "tandem: %s\n", multiline(asFailure(err).Error()))
						}
					}
					return a.printResolved(res)
				}
				doc, err := c.Config(cmd.Context(), version)
				if err != nil {
					return a.unknownVersion(cmd.Context(), c, "config", version, err)
				}
				a.print("%s", doc)
				if n := len(doc); n > 0 && doc[n-1] != '\n' {
					a.print("\n")
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&node, "node", "", "what this node gets, resolved; a node's `ID`")
	cmd.Flags().StringVar(&version, "version", "", "the document of this `version`")
	return cmd
}

// checkNode refuses what cannot be a node's ID.
func checkNode(cmd *cobra.Command, node string) error {
	if node == "" {
		return usage("%s needs --node ID; for example:\n%s", cmd.CommandPath(), cmd.Example)
	}
	if !topic.ValidName(node) {
		return usage("%.80q cannot be a node's ID: letters, digits, dot, underscore and dash, at most %d", node, topic.MaxName)
	}
	return nil
}

// printResolved prints what a node gets; which entry gave it goes beside it.
func (a *app) printResolved(res view.Resolved) error {
	if a.json {
		return a.printJSON(res)
	}
	why := fmt.Sprintf("%s gets %s", res.Node, source(res.Rule, res.Node, res.Type))
	if res.Entry != "" {
		why += ", " + res.Entry
	}
	if _, err := fmt.Fprintln(a.Err, clean(why)); err != nil {
		return err
	}
	return a.printDocument(res.Document)
}

// source describes a step of the resolution.
func source(rule, node, nodeType string) string {
	switch rule {
	case string(unitconfig.ByNode):
		return "the entry for node " + node
	case string(unitconfig.ByType):
		if nodeType == "" {
			return "the entry for its node type"
		}
		return "the entry for node type " + nodeType
	}
	return "the default: no entry names it or its type"
}

func (a *app) resolve() *cobra.Command {
	var node, nodeType string
	cmd := &cobra.Command{
		Use: "resolve FILE --node ID", Short: "Print what a node would get from a file, without a controller",
		Example: "  tandem config resolve unit.json --node node-1 --type mainType", Args: want("FILE (- for standard input)"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkNode(cmd, node); err != nil {
				return err
			}
			in, err := a.read(args[0])
			if err != nil {
				return err
			}
			c, src := unitconfig.Resolve(in.config, node, nodeType)
			body := unitconfig.EncodeNode(c)
			return a.printResolved(view.Resolved{Node: node, Type: nodeType, Rule: string(src.Rule),
				Entry: src.Pointer(), Hash: wire.Hash(body), Document: body})
		},
	}
	cmd.Flags().StringVar(&node, "node", "", "the node's `ID`")
	cmd.Flags().StringVar(&nodeType, "type", "", "the node's `type`")
	return cmd
}

func (a *app) explain() *cobra.Command {
	var node string
	cmd := &cobra.Command{
		Use: "explain --node ID POINTER", Short: "Say which entry set a value of a node, and whether the node has it",
		Example: "  tandem config explain --node node-1 /alertRules/ram/maxThreshold", Args: want("POINTER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkNode(cmd, node); err != nil {
				return err
			}
			pointer := args[0]
			if pointer == "/" {
				pointer = ""
			}
			if !jsontext.Pointer(pointer).IsValid() {
				return usage("%.80q is not a JSON pointer; it begins with a slash, as /alertRules/ram/maxThreshold", pointer)
			}
			return a.with(func(c *client.Client) error {
				x, err := c.Explain(cmd.Context(), node, pointer)
				if err != nil {
					return a.unknownNode(cmd.Context(), c, node, err)
				}
				if a.json {
					return a.printJSON(x)
				}
				a.print("%s\n", multiline(explained(x)))
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&node, "node", "", "the node's `ID`")
	return cmd
}

// explained says it in two sentences.
func explained(x view.Explanation) string {
	what := x.Pointer + " of " + x.Node
	if x.Pointer == "" {
		what = "the configuration of " + x.Node
	}
	s := fmt.Sprintf("%s is %s", what, shorten(string(x.Value), 300))
	if x.Source != "" {
		s += fmt.Sprintf(", set by %s of unit configuration %s", x.Source, x.Version)
	} else {
		s += ", under unit configuration " + x.Version
	}
	if x.Why != "" {
		s += ": " + x.Why
	}
	s += "."
	if x.InForce {
		return s + fmt.Sprintf("\n%s has it: it runs %s.", x.Node, x.Running)
	}
	s += "\n" + x.Node + " does not have it: "
	if x.Running == "" {
		s += "it has not reported to run any configuration"
	} else {
		s += "it runs " + x.Running
	}
	if x.State != "" {
		s += ", and the newest document there is " + string(x.State)
	}
	if x.Error != nil {
		s += ": " + brief(x.Error)
	}
	return s + "."
}

func (a *app) diff() *cobra.Command {
	return &cobra.Command{
		Use: "diff A B", Short: "Show what changes from A to B, each a version or a file",
		Example: "  tandem config diff 1.9.0 2.0.0\n  tandem config diff 2.0.0 ./next.json", Args: want("A", "B"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "-" && args[1] == "-" {
				return usage("only one of A and B can be standard input")
			}
			var sides [2]*input
			for i, arg := range args {
				var err error
				if isFile(arg) {
					sides[i], err = a.read(arg)
				} else {
					sides[i], err = a.installed(cmd.Context(), arg)
				}
				if err != nil {
					return neither(arg, err)
				}
			}
			return a.printDiff(sides[0], sides[1])
		},
	}
}

// neither says more about an argument that is no version and no file that exists.
func neither(arg string, err error) error {
	if f, ok := errors.AsType[*failure](err); ok && f.err.Code == wire.CodeNotFound && f.file == arg && isFile(arg) {
		return usage("%.200q is neither a version such as 2.0.0 nor a file", arg)
	}
	return err
}

// installed fetches a version's document.
func (a *app) installed(ctx context.Context, version string) (in *input, err error) {
	err = a.with(func(c *client.Client) error {
		doc, err := c.Config(ctx, version)
		if err != nil {
			return a.unknownVersion(ctx, c, "config", version, err)
		}
		uc, problems := unitconfig.Parse(doc)
		if len(problems) > 0 {
			return documentProblems(problems, &input{name: "version " + version, document: doc})
		}
		in = &input{name: version, document: doc, config: uc}
		return nil
	})
	return in, err
}

func (a *app) printDiff(from, to *input) error {
	changes := unitconfig.Diff(from.config, to.config)
	if a.json {
		return a.printJSON(struct {
			From    string              `json:"from"`
			To      string              `json:"to"`
			Changes []unitconfig.Change `json:"changes"`
		}{from.name, to.name, changes})
	}
	if len(changes) == 0 {
		a.print("no difference between %s and %s\n", clean(from.name), clean(to.name))
		return nil
	}
	entry := ""
	for _, c := range changes {
		if c.Entry != entry {
			entry = c.Entry
			a.print("%s\n", clean(entry))
		}
		sign, paint, what := "~", yellow, string(c.Before)+" -> "+string(c.After)
		switch {
		case c.Before == nil:
			sign, paint, what = "+", green, string(c.After)
		case c.After == nil:
			sign, paint, what = "-", red, string(c.Before)
		}
		line := fmt.Sprintf("%s %s: %s", sign, clean(c.Pointer), clean(what))
		if a.colours {
			line = paint + line + plain
		}
		if entry != "" {
			line = "  " + line
		}
		a.print("%s\n", line)
	}
	return nil
}
