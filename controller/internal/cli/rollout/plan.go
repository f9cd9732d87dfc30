package rollout

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // of windows: the machine may have none

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/controller/internal/term"
	"tandem.internal/shared/wire"
)

// ReadPlan reads the file of a plan as the controller does, and returns it as requests have it.
func ReadPlan(a *command.App, file string) (p *plan.Plan, request string, err error) {
	from, err := a.Read(file)
	if err != nil {
		return nil, "", err
	}
	p, problems := plan.Parse(from.Text, time.LoadLocation)
	if problems != nil {
		return nil, "", command.Malformed(problems, from)
	}
	text := jsontext.Value(from.Text)
	if err := text.Compact(); err != nil {
		return nil, "", fmt.Errorf("reading %s: %w", from.File, err)
	}
	if len(text) > op.MaxPlan {
		f := command.Refuse(command.ExitUsage, wire.CodeTooLarge,
			"the plan has %d bytes without white space; a request has room for %d", len(text), op.MaxPlan)
		f.From.File = from.File
		return nil, "", f
	}
	return p, string(text), nil
}

// checked is what check prints as JSON.
type checked struct {
	Plan     *plan.Plan  `json:"plan"`               // complete
	Waves    []string    `json:"waves"`              // in words
	Openings []time.Time `json:"openings,omitempty"` // the next of its windows
	Warnings []string    `json:"warnings,omitempty"`
}

func check(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "check PLAN", Short: "Check the file of a plan and say what it means, without a controller",
		Example: "  tandem rollout check plan.json", Args: command.Args("PLAN (- for standard input)"),
		RunE: func(_ *cobra.Command, args []string) error {
			p, _, err := ReadPlan(a, args[0])
			if err != nil {
				return err
			}
			windows, err := p.Open(time.LoadLocation)
			if err != nil {
				return err
			}
			out := checked{Plan: p, Openings: windows.Next(a.Now(), 3), Warnings: p.Warnings()}
			for i := range p.Waves {
				out.Waves = append(out.Waves, waveWords(p, i))
			}
			if a.JSON {
				return a.PrintJSON(out)
			}
			a.Print("%s is well formed; no controller and no node was asked\n\n", command.NameOf(args[0]))
			printPlan(a, &out)
			return nil
		},
	}
}

// printPlan says what a plan means.
func printPlan(a *command.App, c *checked) {
	p, t := c.Plan, &term.Table{}
	for i, w := range c.Waves {
		t.Add(fmt.Sprintf("Wave %d", i+1), w)
	}
	t.Add("Gate", gateWords(p))
	t.Add("Budget", budgetWords(p))
	t.Add("Limit", limitWords(p.MaxUnavailable, "of the unit")+" may be unavailable")
	for _, g := range p.Groups {
		t.Add("", limitWords(g.MaxUnavailable, "of "+selected("those", g.Label, g.Type)))
	}
	t.Add("Offline", "a node that is offline for "+term.Exact(p.AbsentAfter.Std())+" is not waited for")
	for _, w := range p.Windows {
		t.Add("Window", fmt.Sprintf("%s in %s, for %s", w.Cron, w.Zone, term.Exact(w.Duration.Std())))
	}
	if len(p.Windows) == 0 {
		t.Add("Window", "always open")
	} else {
		t.Add("", "next: "+openings(a, c.Openings))
	}
	if p.OnAbort == plan.TakeBack {
		t.Add("Abort", "nodes get their last good documents again")
	} else {
		t.Add("Abort", "nodes stay as they are")
	}
	a.Table(t)
	for _, w := range c.Warnings {
		a.Warn("%s", w)
	}
}

// openings lists when windows open.
func openings(a *command.App, all []time.Time) string {
	var texts []string
	for _, t := range all {
		texts = append(texts, t.In(a.Zone).Format("Mon 2 Jan 15:04 MST"))
	}
	return strings.Join(texts, ", ")
}

// waveWords says which nodes a wave takes.
func waveWords(p *plan.Plan, i int) string {
	w := &p.Waves[i]
	text := ""
	switch {
	case w.Count > 0 && w.PerType:
		text = term.Plural(w.Count, "node") + " of each type"
		text = selected(text, w.Label, w.Type)
	case w.Count > 0:
		text = selected(term.Plural(w.Count, "more node"), w.Label, w.Type)
	case i == len(p.Waves)-1:
		text = "all nodes that are left"
	case w.Percent > 0:
		text = fmt.Sprintf("up to %d %% of ", w.Percent) + selected("the nodes", w.Label, w.Type)
	default:
		text = selected("all nodes", w.Label, w.Type)
	}
	if w.Name != "" {
		text = term.Clean(w.Name) + ": " + text
	}
	if w.Canary {
		text += "; the canary: nothing may fail in it"
	}
	return text
}

// selected adds to nodes which of them are meant.
func selected(nodes, label, nodeType string) string {
	if nodeType != "" {
		nodes += " of type " + term.Clean(nodeType)
	}
	if label != "" {
		nodes += " with the label " + term.Clean(label)
	}
	return nodes
}

func gateWords(p *plan.Plan) string {
	var health []string
	for _, h := range p.Gate.Healthy {
		health = append(health, string(h))
	}
	return fmt.Sprintf("a node passes after %s in good health (%s), within %s of being issued to",
		term.Exact(p.Gate.Soak.Std()), strings.Join(health, ", "), term.Exact(p.Deadline.Std()))
}

func budgetWords(p *plan.Plan) string {
	if n := p.FailureBudget.Count; n != nil && *n == 0 {
		return "it is paused as soon as a node has failed or is silent"
	}
	return "it is paused when more than " + amount(p.FailureBudget) + " of its nodes have failed or are silent"
}

// limitWords says how many nodes may be unavailable: a percentage comes to one at least.
func limitWords(v plan.Amount, of string) string {
	text := "at most " + amount(v) + " " + of
	if v.Percent != nil {
		text += ", but 1 node in any case,"
	}
	return text
}

func amount(v plan.Amount) string {
	if v.Percent != nil {
		return fmt.Sprintf("%d %%", *v.Percent)
	}
	return term.Plural(v.Of(0), "node")
}
