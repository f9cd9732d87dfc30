package document

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/cli/node"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// workloadExtra is what workloads have besides, and their words.
func workloadExtra() extra {
	return extra{
		word: "workload", short: "Say what runs on which node, and see whether it does",
		example: "  tandem workload apply topology.json fillers.json --wait\n  tandem workload list\n" +
			"  tandem workload logs web@node-1 -f",
		texts:   workloadTexts,
		many:    true,
		waits:   "every online node has it and its slots run or have completed",
		version: "the set of this `version`",
		offline: "read and fill only, without a controller",

		applyFlags: func(f *pflag.FlagSet, o *options) {
			f.BoolVar(&o.dryRun, "dry-run", false, "judge only, as check does")
		},
		showFlags: showFilled,
		read:      readSet,
		readHere:  setReadHere,
		status:    node.PrintWorkloadStatus,
		others:    workloadCommands,
	}
}

var workloadTexts = verbTexts{
	"check": {
		short: "Say whether a set of workloads would be accepted, by the nodes too; change nothing",
		example: "  tandem workload check topology.json fillers.json\n" +
			"  tandem workload check --offline topology.json fillers.json",
	},
	"apply": {
		short: "Make what is in some files all that the unit runs",
		long: `Submit the unit's whole set of workloads: topologies, fillers, instances and jobs.
What runs now and is not in the files is stopped and taken off its node; [] stops everything.

The version is the next one unless --version gives a higher one.`,
		example: "  tandem workload apply topology.json fillers.json --wait\n" +
			"  tandem workload apply all.json --version 2.0.0",
	},
	"show": {
		short: "Print the unit's set of workloads as it was submitted, or what it comes to",
		example: "  tandem workload show\n  tandem workload show --filled\n" +
			"  tandem workload show --version 1.0.3",
	},
	"status": {
		short:   "Show the set of workloads and how far nodes and slots have come with it",
		example: "  tandem workload status",
	},
	"diff": {
		short:   "Show what changes in the slots from A to B, each a version or a file",
		example: "  tandem workload diff 1.0.2 1.0.3\n  tandem workload diff 1.0.3 ./all.json",
	},
	"rollback": {
		short:   "Submit an earlier version of the set again, under a higher one",
		example: "  tandem workload rollback 1.0.2 --as 1.0.4 --wait",
	},
	"wait": {
		short:   "Wait until every online node has the newest set and its slots run or have completed",
		example: "  tandem workload wait --within 2m",
	},
}

// showFilled adds --filled to show: what the set comes to.
func showFilled(a *command.App, cmd *cobra.Command, g *group) func(context.Context, string) (bool, error) {
	var filled bool
	cmd.Flags().BoolVar(&filled, "filled", false, "the instances and jobs that it comes to")
	return func(ctx context.Context, version string) (bool, error) {
		if !filled {
			return false, nil
		}
		return true, a.Connect(func(c *client.Client) error {
			doc, err := client.Call(ctx, c, op.FillWorkloads, op.FilledIn{VersionIn: op.VersionIn{Version: version}})
			switch {
			case err != nil:
				return g.nearVersion(version)(ctx, c, err)
			case a.JSON:
				a.PrintDocument(doc)
				return nil
			}
			return a.PrintIndented(doc)
		})
	}
}

// readSet reads files, joins them and fills what is in them.
func readSet(a *command.App, cmd *cobra.Command, files []string, o *options) (*input, error) {
	if len(files) == 0 {
		return nil, command.Lacks(cmd, "at least one FILE")
	}
	in, set := &input{}, &workload.Set{}
	var entries [][]byte
	sources := map[string]command.Source{}
	for _, f := range files {
		from, err := a.Read(f)
		if err != nil {
			return nil, err
		}
		strict := from.Text
		if o.lenient {
			if strict, err = asMeant(a, from); err != nil {
				return nil, err
			}
		}
		one, problems := workload.Parse(strict)
		if problems != nil {
			return nil, malformed(problems, from)
		}
		set.Add(one, from.File)
		in.Source, sources[from.File] = from, from
		if len(files) > 1 {
			if entries, err = elements(entries, strict); err != nil {
				return nil, fmt.Errorf("joining %s: %w", f, err)
			}
		}
	}
	if len(files) > 1 {
		joined := slices.Concat([]byte("[\n"), bytes.Join(entries, []byte(",\n")), []byte("\n]\n"))
		in.Source = command.Source{Text: joined}
	}
	if len(in.Text) > workload.MaxDocument {
		return nil, command.Refuse(command.ExitUsage, wire.CodeTooLarge,
			"the files have %d bytes together; a set has at most %d", len(in.Text), workload.MaxDocument)
	}
	filled, problems, at := workload.FillFiles(set, o.explain)
	if problems != nil {
		f := &command.Failure{Exit: command.ExitRefused, Err: problems[0], Problems: problems}
		for _, name := range at {
			f.Sources = append(f.Sources, sources[name])
		}
		return nil, f
	}
	in.content = filled
	return in, documents(filled)
}

// documents returns an error if a node could not be given what it is to run.
func documents(filled *workload.Filled) error {
	byNode := filled.ByNode()
	for _, node := range slices.Sorted(maps.Keys(byNode)) {
		if _, err := workload.EncodeDocument(workload.ForNode(byNode[node], node)); err != nil {
			err.Node = node
			return &command.Failure{Exit: command.ExitRefused, Err: err}
		}
	}
	return nil
}

// elements adds the elements of an array that was read already, each as it stands there.
func elements(to [][]byte, data []byte) ([][]byte, error) {
	var all []jsontext.Value
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	for _, e := range all {
		to = append(to, e)
	}
	return to, nil
}

// asMeant returns the strict text of a file. Warnings go to standard error.
func asMeant(a *command.App, from command.Source) ([]byte, error) {
	strict, warnings, problems := workload.Strict(from.Text)
	for _, w := range warnings {
		if err := warn(a, from.File, w); err != nil {
			return nil, err
		}
	}
	if problems != nil {
		return nil, command.Malformed(problems, from)
	}
	return strict, nil
}

// malformed returns the failure of a file, with a hint if it can be read as meant.
func malformed(problems workload.Problems, from command.Source) error {
	f := command.Malformed(problems, from)
	if _, _, problems := workload.Strict(from.Text); problems == nil {
		hint := wire.New(wire.CodeInvalidArgument, "", "with --lenient this file can be read")
		f.Problems = append(slices.Clone(f.Problems), hint)
	}
	return f
}

// warningJSON is what --json prints of something that was read as meant.
type warningJSON struct {
	Warning workload.Warning `json:"warning"`
	File    string           `json:"file"`
}

func warn(a *command.App, file string, w workload.Warning) error {
	line := fmt.Sprintf("tandem: warning: %s (%s:%d:%d)\n", term.Clean(w.Message), term.Clean(file), w.Line, w.Column)
	if a.JSON {
		data, err := json.Marshal(warningJSON{w, file}, json.Deterministic(true))
		if err != nil {
			return fmt.Errorf("writing a warning: %w", err)
		}
		line = string(term.EscapeJSON(data)) + "\n"
	}
	if _, err := io.WriteString(a.Err, line); err != nil {
		return fmt.Errorf("writing a warning: %w", err)
	}
	return nil
}

// setReadHere reports a set that could be filled, in the shape of a controller's verdict.
func setReadHere(a *command.App, in *input) error {
	configs, nodes := in.content.(*workload.Filled).Configs, map[string]bool{}
	for _, c := range configs {
		nodes[c.Slot.Node] = true
	}
	p := view.Placed{Slots: len(configs), Nodes: len(nodes)}
	if a.JSON {
		return a.PrintJSON(view.Result{State: "acceptable", Placed: &p})
	}
	a.Print("well formed and filled: %s on %s; no controller and no node was asked\n",
		term.Plural(p.Slots, "slot"), term.Plural(p.Nodes, "node"))
	return nil
}
