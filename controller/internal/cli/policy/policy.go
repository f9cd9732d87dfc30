// Package policy owns the commands about management policies: what constraints come to, whether a policy would hit a
// node, the unit's policies, the properties by which they choose nodes, and the versions of the agent on offer.
package policy

import (
	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/term"
	"tandem.internal/shared/policy"
	"tandem.internal/shared/policy/constraint"
	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// Commands are the commands of this package, which stand below policy.
func Commands(a *command.App) []*cobra.Command {
	return []*cobra.Command{apply(a, true), apply(a, false), list(a), show(a), enable(a), disable(a), remove(a),
		status(a), why(a), history(a), diff(a), rollBack(a), eval(a), match(a)}
}

// evalJSON is what eval prints with --json.
type evalJSON struct {
	Value       bool                     `json:"value"`
	Constraints []constraint.Explanation `json:"constraints,omitempty"` // with --explain
}

func eval(a *command.App) *cobra.Command {
	var texts []string
	var file string
	var explain bool
	cmd := &cobra.Command{
		Use:   "eval --constraint EXPRESSION… --properties FILE",
		Short: "Print whether constraints are true of some properties",
		Long: `Read properties from a file, and print true if all constraints are true of them, else
false. No controller is asked. The file has the properties as a node or policy has
them: {"properties": [{"name": "site", "value": "lab"}, …]}.`,
		Example: "  tandem policy eval --constraint 'site == lab && firmware >= 1.9.0' --properties node.json",
		Args:    command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case len(texts) == 0:
				return command.Lacks(cmd, "--constraint EXPRESSION")
			case file == "":
				return command.Lacks(cmd, "--properties FILE")
			}
			list, err := parseConstraints(texts)
			if err != nil {
				return err
			}
			from, err := a.Read(file)
			if err != nil {
				return err
			}
			properties, problems := policy.ParseProperties(from.Text)
			if problems != nil {
				return command.Malformed(problems, from)
			}
			out := evalJSON{Value: list.Holds(properties)}
			if explain {
				out.Constraints = list.Explain(properties)
			}
			if a.JSON {
				return a.PrintJSON(out)
			}
			a.Print("%v\n", out.Value)
			printExpressions(a, "  ", out.Constraints)
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&texts, "constraint", nil, "an `expression`; of several all have to be true")
	cmd.Flags().StringVar(&file, "properties", "", "`file` with the properties, - for standard input")
	cmd.Flags().BoolVar(&explain, "explain", false, "show what each part comes to, and why")
	return cmd
}

// parseConstraints reads the expressions of the command line; the failure has the mistakes of all.
func parseConstraints(texts []string) (constraint.List, error) {
	var list constraint.List
	var mistakes []*wire.Error
	var sources []command.Source
	for i, text := range texts {
		e, bad := constraint.Parse(text)
		if bad == nil {
			list = append(list, e)
			continue
		}
		bad.Index = i + 1
		problem := wire.New(wire.CodeMalformed, "", bad.Error())
		lines := strictjson.LinesOf([]byte(text))
		problem.Line, problem.Column = lines.Place(strictjson.At{Off: bad.Offset})
		mistakes = append(mistakes, problem)
		sources = append(sources, command.Source{File: "--constraint", Text: []byte(text)})
	}
	if mistakes != nil {
		failure := command.Malformed(mistakes, sources[0])
		failure.Sources = sources
		return nil, failure
	}
	return list, nil
}

// matchJSON is what match prints with --json; with --explain it prints a policy.Explanation.
type matchJSON struct {
	Hits bool      `json:"hits"`
	By   policy.By `json:"by"`
}

func match(a *command.App) *cobra.Command {
	var nodeFile string
	var explain bool
	cmd := &cobra.Command{
		Use:   "match POLICY --node FILE",
		Short: "Print whether a policy would hit a node",
		Long: `Read a policy and a node from files, and print true if the policy hits the node, once it is
enabled, else false. No controller is asked. The node's file is {"org", "properties",
"constraints", "pattern", "management"}, each of which may be left out.`,
		Example: "  tandem policy match policy.json --node node.json --explain",
		Args:    command.Args("POLICY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if nodeFile == "" {
				return command.Lacks(cmd, "--node FILE")
			}
			from, err := a.Read(args[0])
			if err != nil {
				return err
			}
			p, problems := policy.Parse(from.Text, nil)
			if problems != nil {
				return command.Malformed(problems, from)
			}
			if from, err = a.Read(nodeFile); err != nil {
				return err
			}
			n, problems := policy.ParseNode(from.Text)
			if problems != nil {
				return command.Malformed(problems, from)
			}
			return printMatch(a, p, n, explain)
		},
	}
	cmd.Flags().StringVar(&nodeFile, "node", "", "`file` with the node, - for standard input")
	cmd.Flags().BoolVar(&explain, "explain", false, "show which side failed, and where")
	return cmd
}

func printMatch(a *command.App, p *policy.Policy, n *policy.Node, explain bool) error {
	verdict := policy.Match(p, n)
	switch {
	case a.JSON && explain:
		return a.PrintJSON(policy.Explain(p, n))
	case a.JSON:
		return a.PrintJSON(matchJSON(verdict))
	}
	a.Print("%v\n", verdict.Hits)
	if !explain {
		return nil
	}
	x := policy.Explain(p, n)
	a.Print("%s\n", term.Clean(x.Why))
	if !p.Enabled {
		a.Print("the policy is not enabled: it acts on no node\n")
	}
	if len(x.Patterns) > 0 {
		a.Print("patterns of the policy\n")
	}
	for _, pattern := range x.Patterns {
		a.Print("  %-5v  %s\n", pattern.Value, term.Clean(pattern.Pattern))
	}
	if len(x.Policy) > 0 {
		a.Print("constraints of the policy, on the node\n")
	}
	printExpressions(a, "  ", x.Policy)
	if len(x.Node) > 0 {
		a.Print("constraints of the node, on the policy\n")
	}
	printExpressions(a, "  ", x.Node)
	return nil
}

// printExpressions prints what expressions come to, each above its parts.
func printExpressions(a *command.App, indent string, list []constraint.Explanation) {
	for _, x := range list {
		line := x.Expression
		if x.Why != "" {
			line += "  (" + x.Why + ")"
		}
		a.Print("%s%-5v  %s\n", indent, x.Value, term.Clean(line))
		printExpressions(a, indent+"  ", x.Parts)
	}
}
