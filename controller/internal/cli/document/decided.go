package document

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/cli/rollout"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
)

// Decided is a command that has the controller make documents, and submit them.
type Decided struct{ options options }

// NewDecided adds to a command the flags of one that submits: --dry-run, --skip-nodes, --force, --rollout and --wait.
func NewDecided(cmd *cobra.Command) *Decided {
	d := &Decided{}
	cmd.Flags().BoolVar(&d.options.dryRun, "dry-run", false, "say what would become of it, and change nothing")
	g := &group{extra: extra{waits: "every online node has it, its components are installed and its services run"}}
	g.sendFlags(cmd, &d.options)
	wait := cmd.Flags().Lookup("wait")
	wait.Usage = strings.Replace(wait.Usage, "the default is 30s", "the default is 20m for components, 30s more for "+
		"services", 1)
	return d
}

// Waits reports whether it is asked for to wait.
func (d *Decided) Waits() bool { return d.options.wait > 0 && !d.options.dryRun }

// Sent is a document that was submitted.
type Sent struct {
	of  *Decided
	g   *group
	res view.Result
}

// Send has call ask the controller for a document of a source, and shows what became of it after its name. What is
// submitted is as the flags say, without the document.
func (d *Decided) Send(a *command.App, src *kind.Source,
	call func(*client.Client, op.Submit) (view.Result, error)) (*Sent, error) {
	g := newGroup(src)
	s := g.submission(nil, &d.options)
	if d.options.rollout != "" {
		var err error
		if _, s.Rollout, err = rollout.ReadPlan(a, d.options.rollout); err != nil {
			return nil, err
		}
	}
	sent := &Sent{of: d, g: g}
	err := a.Connect(func(c *client.Client) (err error) {
		sent.res, err = call(c, s)
		return err
	})
	if err != nil {
		return nil, err
	}
	if !a.JSON {
		a.Print("%s: ", src.Name)
		g.printResult(a, sent.res)
	}
	return sent, nil
}

// Wait waits for the nodes where that is asked for, and returns why not all is well.
func (s *Sent) Wait(ctx context.Context, a *command.App) error {
	o := s.of.options
	if o.toTheEnd && s.g.patience > 0 {
		o.wait = command.Duration(s.g.patience)
	}
	return a.Connect(func(c *client.Client) error { return s.g.await(ctx, a, c, s.res, nil, &o) })
}
