// Package document owns the commands about documents: what operators submit as a whole, and nodes get their parts of.
// The verbs (check, apply, show, status, history, diff, rollback, wait) are made from a list of kinds. A kind says how
// its files are read and which operations are its own; the rest is the same for all.
package document

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
)

// kind is what the verbs need to know of one kind of document.
type kind struct {
	word    string // the command: "config"
	short   string // of the command, as the texts of verbs
	example string
	verbs   verbTexts
	file    string // placeholder of the argument of check and apply; "": one file or more
	waits   string // what --wait waits for
	nothing string // the message when none was accepted yet
	version string // help of show's --version
	offline string // help of check's --offline

	// Flags of check and apply that this kind alone has; nil: none.
	checkFlags, applyFlags func(*pflag.FlagSet, *options)
	// Other ways to show it than as it was submitted: adds flags, and returns what shows it if they are given.
	showFlags func(*command.App, *cobra.Command) func(ctx context.Context, version string) (shown bool, err error)

	read     func(a *command.App, cmd *cobra.Command, files []string, o *options) (*input, error)
	parse    func(*input) error               // reads the text of what the controller has
	readHere func(*command.App, *input) error // reports a well-formed document of which no controller was asked
	compare  func(from, to *input) ([]change, error)

	submit   func(context.Context, *client.Client, *input, *options) (view.Result, error)
	fetch    func(ctx context.Context, c *client.Client, version string) ([]byte, error)
	rollback func(ctx context.Context, c *client.Client, version, as string) (view.Result, error)
	history  op.Op[op.None, op.History]
	status   func(context.Context, *command.App) error
	follow   func(*client.Client) follower
}

// verbTexts are the help texts of a kind's verbs.
type verbTexts struct{ check, apply, show, status, history, diff, rollback, wait text }

type text struct{ short, long, example string }

// options are the flags of check and apply.
type options struct {
	dryRun, skipNodes bool
	try               command.Duration // kinds that can be tried
	version           string           // kinds whose version is not in the document
	lenient           bool             // kinds that can be read so
	wait              command.Duration
	explain           bool // of fill: say where each value comes from
}

func (o *options) submitted() op.Submitted {
	return op.Submitted{DryRun: o.dryRun, Offline: o.skipNodes}
}

// input is a document that was read here.
type input struct {
	command.Source
	content any // as the kind reads it
}

// Commands are the commands of this package, which all stand at the top.
func Commands(a *command.App) []*cobra.Command {
	unitConfig, workloads := configKind(), workloadKind()
	return []*cobra.Command{
		unitConfig.commands(a, confirm(a), resolve(a), explain(a), restore(a)),
		workloads.commands(a, workloadCommands(a)...),
	}
}

// commands makes the command of a kind: the verbs, and others that it alone has.
func (k *kind) commands(a *command.App, others ...*cobra.Command) *cobra.Command {
	group := command.Group(k.word, k.short, k.example, k.check(a), k.apply(a), k.show(a), k.showStatus(a),
		k.showHistory(a), k.diff(a), k.rollBack(a), k.wait(a))
	group.AddCommand(others...)
	return group
}

// verb begins a command with its texts.
func verb(use string, t text, args cobra.PositionalArgs) *cobra.Command {
	return &cobra.Command{Use: use, Short: t.short, Long: t.long, Example: t.example, Args: args}
}
