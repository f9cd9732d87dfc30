package document

import (
	"bufio"
	"errors"
	"os"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/term"
	"tandem.internal/shared/alert"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// replayed is the JSON of config replay.
type replayed struct {
	Version string     `json:"version"` // of the configuration that has the rules
	Node    string     `json:"node"`
	From    *time.Time `json:"from,omitempty"` // of the first and the last sample
	To      *time.Time `json:"to,omitempty"`
	alert.Replay
}

func replay(a *command.App) *cobra.Command {
	var samples, node, nodeType string
	cmd := &cobra.Command{
		Use: "replay FILE --samples CSV", Short: "Print what a file's alert rules would have done over a recording",
		Long: "Print what alert rules would have done over what a node has measured: which alerts they would have\n" +
			"raised and when those would have ended, and for each rule how often and for how long. FILE is a unit\n" +
			"configuration or a node's config.json. No controller is asked, and nothing is changed.",
		Example: "  tandem-node alerts sample --partition data=/var/lib > day.csv   # on the node\n" +
			"  tandem config replay unit.json --node node-1 --samples day.csv",
		Args: command.Args("FILE (- for standard input)"),
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case samples == "":
				return command.Usage("--samples FILE is needed: what a node has measured, as tandem-node alerts " +
					"sample prints it")
			case samples == "-" && args[0] == "-":
				return command.Usage("the rules and the samples cannot both come by standard input")
			}
			from, err := a.Read(args[0])
			if err != nil {
				return err
			}
			nc, err := nodeRules(from, node, nodeType)
			if err != nil {
				return err
			}
			return replaySamples(a, nc, node, samples)
		},
	}
	cmd.Flags().StringVar(&samples, "samples", "", "the recorded samples, a `file` of CSV; - reads standard input")
	cmd.Flags().StringVar(&node, "node", "", "with a unit configuration: the node's `ID`")
	cmd.Flags().StringVar(&nodeType, "type", "", "with a unit configuration: the node's `type`")
	return cmd
}

// nodeRules reads the file with the rules, whichever of the two it is.
func nodeRules(from command.Source, node, nodeType string) (*unitconfig.NodeConfig, error) {
	var members map[string]jsontext.Value
	err := json.Unmarshal(from.Text, &members)
	if _, ofUnit := members["nodes"]; err == nil && !ofUnit {
		nc, problems := unitconfig.ParseNode(from.Text)
		if len(problems) > 0 {
			return nil, command.Malformed(problems, from)
		}
		return nc, nil
	}
	uc, err := parseConfig(from)
	if err != nil {
		return nil, err
	}
	if node == "" && nodeType == "" {
		return nil, command.Usage("%s is a unit configuration: say whose rules with --node, --type or both", from.File)
	}
	nc, _ := unitconfig.Resolve(uc, node, nodeType)
	return &nc, nil
}

func replaySamples(a *command.App, nc *unitconfig.NodeConfig, node, samples string) (err error) {
	in, name := a.In, command.NameOf(samples)
	if samples != "-" {
		f, err := os.Open(samples)
		if err != nil {
			return command.Unreadable(name, err)
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		in = f
	}
	r, err := alert.NewReader(bufio.NewReader(in))
	if err != nil {
		return badSamples(name, err)
	}
	out := replayed{Version: nc.Version, Node: node}
	if nc.Node != nil {
		out.Node = nc.Node.Codename
	}
	out.Replay, err = alert.Run(out.Node, alert.Rules(nc.AlertRules), alert.Limits{}, func() (alert.Sample, error) {
		s, err := r.Next()
		if err == nil {
			at := s.Wall
			if out.From == nil {
				out.From = &at
			}
			out.To = &at
		}
		return s, err
	})
	switch {
	case err != nil:
		return badSamples(name, err)
	case a.JSON:
		return a.PrintJSON(&out)
	}
	out.print(a, r.Seconds())
	return nil
}

// badSamples reports samples that could not be read.
func badSamples(file string, err error) error {
	var place *alert.CSVError
	if !errors.As(err, &place) {
		return command.Unreadable(file, err)
	}
	f := command.Refuse(command.ExitUsage, wire.CodeBadValue, "%v", err)
	f.From.File = file
	return f
}

// print prints the alerts in their order, and then what each rule did.
func (r *replayed) print(a *command.App, seconds bool) {
	at := func(t time.Time) string {
		if seconds {
			return strconv.FormatFloat(float64(t.UnixMicro())/1e6, 'f', -1, 64)
		}
		return t.UTC().Format(time.RFC3339)
	}
	t := &term.Table{Head: []string{"TIME", "ALERT", "STATE", "VALUE", "UP FOR", ""}}
	for _, x := range r.Alerts {
		note := x.Reason
		if x.Suppressed > 0 {
			note = strconv.FormatUint(x.Suppressed, 10) + " came and went unsent"
		}
		t.Add(at(x.Timestamp), string(x.Parameter), string(x.State), figure(x.Parameter, x.Value),
			x.Timestamp.Sub(x.Since).String(), note)
	}
	a.Table(t)
	if len(r.Rules) == 0 {
		a.Print("version %s of the configuration has no alert rules for this node\n", r.Version)
		return
	}
	a.Print("\n")
	t = &term.Table{Head: []string{"RULE", "MIN", "MAX", "MINTIMEOUT", "SAMPLES", "UNKNOWN", "LOWEST", "HIGHEST",
		"RAISED", "CONTINUED", "FELL", "UNTOLD", "UP", "LONGEST"}}
	for _, o := range r.Rules {
		lowest, highest := "-", "-"
		if o.Samples > 0 {
			lowest, highest = figure(o.Parameter, o.Lowest), figure(o.Parameter, o.Highest)
		}
		up := o.UpFor.Std().String()
		if o.Up {
			up += " (still)"
		}
		t.Add(string(o.Parameter), figure(o.Parameter, o.Min), figure(o.Parameter, o.Max), o.MinTimeout.String(),
			strconv.Itoa(o.Samples), strconv.Itoa(o.Unknown), lowest, highest, strconv.Itoa(o.Raises),
			strconv.Itoa(o.Continues), strconv.Itoa(o.Falls), strconv.Itoa(o.Suppressed), up,
			o.LongestUp.Std().String())
	}
	a.Table(t)
}

// figure shows a value as rules have it.
func figure(p alert.Parameter, v float64) string {
	if p.Fraction() {
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}
