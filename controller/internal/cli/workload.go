package cli

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/client"
	"tandem.internal/shared/lenientjson"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

func (a *app) workload() *cobra.Command {
	return a.group("workload", "Say what runs on which node, and see whether it does",
		"  tandem workload apply topology.json fillers.json --wait\n  tandem workload list\n  tandem workload logs web@node-1 -f",
		a.fill(), a.checkWorkloads(), a.applyWorkloads(), a.showWorkloads(), a.history("workload", (*client.Client).WorkloadHistory), a.slots(), a.restartSlot(), a.slotLogs())
}

func (a *app) fill() *cobra.Command {
	var lenient, explain bool
	var slot string
	cmd := &cobra.Command{
		Use: "fill FILE…", Short: "Apply the fillers in some files to the topologies in them, and print what would run",
		Long: `Read topologies, fillers, instances and jobs from the files, apply the fillers, and
print the instances and jobs that come out. No controller is asked.

With --json the output is a file that can be applied.`,
		Example: "  tandem workload fill topology.json fillers.json --explain",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, files []string) error {
			in, err := a.readSet(cmd, files, lenient, explain)
			if err != nil {
				return err
			}
			return a.printFilled(in.filled, slot, explain)
		},
	}
	lenientFlag(cmd, &lenient)
	cmd.Flags().BoolVar(&explain, "explain", false, "say which filler gave each value, and why others did not apply")
	cmd.Flags().StringVar(&slot, "slot", "", "print the one `slot` only, service@node")
	return cmd
}

func lenientFlag(cmd *cobra.Command, lenient *bool) {
	cmd.Flags().BoolVar(lenient, "lenient", false, "read files with missing or superfluous commas and brackets, comments, and what else people leave out; each is told")
}

// workloads is what some files say together.
type workloads struct {
	document []byte // as it is submitted: the file as it is, or the entries of all of them
	lenient  bool
	filled   *workload.Filled
}

// readSet reads files, joins them and fills what is in them; explain says whether each slot is explained.
func (a *app) readSet(cmd *cobra.Command, files []string, lenient, explain bool) (*workloads, error) {
	if len(files) == 0 {
		return nil, usage("%s needs at least one FILE; for example:\n%s", cmd.CommandPath(), cmd.Example)
	}
	in, set := &workloads{lenient: lenient}, &workload.Set{}
	var entries [][]byte
	sources := map[string][]byte{}
	for _, f := range files {
		one, data, err := a.readWorkloads(f, lenient)
		if err != nil {
			return nil, err
		}
		set.Add(one, nameOf(f))
		in.document, sources[nameOf(f)] = data, data
		if len(files) > 1 {
			if entries, err = elements(entries, data, lenient); err != nil {
				return nil, fmt.Errorf("joining %s: %w", f, err)
			}
		}
	}
	if len(files) > 1 {
		in.document = slices.Concat([]byte("[\n"), bytes.Join(entries, []byte(",\n")), []byte("\n]\n"))
	}
	if len(in.document) > workload.MaxDocument {
		return nil, &failure{exit: exitUsage, err: wire.New(wire.CodeTooLarge, "", fmt.Sprintf("the files have %d bytes together; a set has at most %d", len(in.document), workload.MaxDocument))}
	}
	var problems workload.Problems
	var at []string
	if in.filled, problems, at = workload.FillFiles(set, explain); problems != nil {
		f := &failure{exit: exitRefused, err: problems[0], problems: problems}
		for _, name := range at {
			f.origins = append(f.origins, origin{name, sources[name]})
		}
		return nil, f
	}
	return in, nil
}

// elements adds the elements of an array that was read already, each as it stands there.
func elements(to [][]byte, data []byte, lenient bool) ([][]byte, error) {
	if lenient {
		data, _ = lenientjson.Mend(data)
	}
	var all []jsontext.Value
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	for _, e := range all {
		to = append(to, e)
	}
	return to, nil
}

// nameOf is what people call a file that is given as an argument.
func nameOf(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}

// readWorkloads reads a file, or standard input for "-". Warnings go to standard error.
func (a *app) readWorkloads(file string, lenient bool) (*workload.Set, []byte, error) {
	name, data, err := nameOf(file), []byte(nil), error(nil)
	if file == "-" {
		data, err = io.ReadAll(io.LimitReader(a.In, workload.MaxDocument+1))
	} else {
		data, err = readFile(file)
	}
	if err != nil {
		return nil, nil, unreadable(name, err)
	}
	if len(data) > workload.MaxDocument {
		return nil, nil, tooLarge(name)
	}
	var set *workload.Set
	var warnings []workload.Warning
	var problems workload.Problems
	if lenient {
		set, warnings, problems = workload.ParseLenient(data)
	} else {
		set, problems = workload.Parse(data)
	}
	for _, w := range warnings {
		if err := a.warn(name, w); err != nil {
			return nil, nil, err
		}
	}
	if problems == nil {
		return set, data, nil
	}
	f := &failure{exit: exitUsage, err: problems[0], problems: problems, file: name, source: data}
	if _, _, mended := workload.ParseLenient(data); !lenient && mended == nil {
		f.problems = append(slices.Clone(f.problems), wire.New(wire.CodeInvalidArgument, "", "with --lenient this file can be read"))
	}
	return nil, nil, f
}

func (a *app) warn(file string, w workload.Warning) error {
	line := fmt.Sprintf("tandem: warning: %s (%s:%d:%d)\n", clean(w.Message), clean(file), w.Line, w.Column)
	if a.json {
		data, err := json.Marshal(struct {
			Warning workload.Warning `json:"warning"`
			File    string           `json:"file"`
		}{w, file}, json.Deterministic(true))
		if err != nil {
			return fmt.Errorf("writing a warning: %w", err)
		}
		line = string(data) + "\n"
	}
	if _, err := io.WriteString(a.Err, line); err != nil {
		return fmt.Errorf("writing a warning: %w", err)
	}
	return nil
}
