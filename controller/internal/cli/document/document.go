// Package document owns the commands about documents: what operators submit as a whole, and nodes get their parts of.
// The verbs (check, apply, show, status, history, diff, rollback, retry, wait, and confirm where there are trials) are
// made
// for every source. What one alone has, and what it says in its own words, it adds in extras.
package document

import (
	"context"
	"maps"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// group is the command of one source of documents, with what its verbs need to know.
type group struct {
	src     *kind.Source
	subject op.Subject
	ops     op.Verbs
	extra
}

// extra is what a source has besides, or in its own words. A zero value has the meaning that its comment gives.
type extra struct {
	word    string    // the command; the source's name
	short   string    // of the command, as the texts of verbs
	example string    // of the command
	texts   verbTexts // those of the verbs that are not made of the source's title
	many    bool      // check and apply take several files
	waits   string    // what --wait waits for
	parts   bool      // what runs of it are components, and not slots
	// how long desired apply waits for it; 0: as long as others
	patience time.Duration
	nothing  string // the message when none was accepted yet
	version  string // help of show's --version
	offline  string // help of check's --offline

	applyFlags func(*pflag.FlagSet, *options) // flags of apply that this source alone has; nil: none
	// Other ways to show it than as it was submitted: adds flags, and returns what shows it if they are given.
	showFlags func(*command.App, *cobra.Command, *group) func(ctx context.Context, version string) (bool, error)

	// read reads files; nil: one, which is parsed as the controller does.
	read     func(a *command.App, cmd *cobra.Command, files []string, o *options) (*input, error)
	readHere func(*command.App, *input) error // reports a well-formed document of which no controller was asked
	status   func(*command.App, view.SourceStatus)
	others   func(*command.App) []*cobra.Command // commands that are no verbs
}

// extras are those of each source that has some.
var extras = map[wire.Kind]func() extra{wire.KindConfig: configExtra, wire.KindComponents: componentExtra,
	wire.KindWorkloads: workloadExtra}

// verbTexts are the help texts of the verbs, by their names.
type verbTexts map[string]text

type text struct{ short, long, example string }

// options are the flags of check and apply.
type options struct {
	dryRun, skipNodes, force bool
	try                      command.Duration // sources that can be tried
	version                  string           // sources whose version is not in the document
	lenient                  bool             // sources that can be read so
	rollout                  string           // file of the plan by which nodes get it
	wait                     command.Duration
	toTheEnd                 bool // --wait says no time: of a rollout until its end
	explain                  bool // of fill: say where each value comes from
}

// input is a document that was read here.
type input struct {
	command.Source
	version string // "" where the document has none
	content any    // as the source reads it
}

// Commands are the commands of this package, which all stand at the top: one for each source of documents.
func Commands(a *command.App, sources []*kind.Source) (all []*cobra.Command) {
	for _, src := range sources {
		all = append(all, newGroup(src).commands(a))
	}
	return all
}

func newGroup(src *kind.Source) *group {
	subject := src.Subject()
	g := &group{src: src, subject: subject, ops: op.VerbsOf(subject)}
	if more := extras[src.Name]; more != nil {
		g.extra = more()
	}
	def := func(p *string, text string) {
		if *p == "" {
			*p = text
		}
	}
	title := src.Title
	def(&g.word, subject.Name)
	def(&g.short, "Check, apply and look at the "+title)
	def(&g.example, "  tandem "+g.word+" check FILE\n  tandem "+g.word+" apply FILE --wait")
	def(&g.waits, "every online node has it")
	def(&g.nothing, "no "+title+" was accepted yet")
	def(&g.version, "the document of this `version`")
	def(&g.offline, "check the format only, without a controller")
	texts := defaultTexts(g.word, title)
	maps.Copy(texts, g.texts)
	g.texts = texts
	if g.read == nil {
		g.read = g.readFile
	}
	if g.readHere == nil {
		g.readHere = wellFormed
	}
	if g.status == nil {
		g.status = func(a *command.App, st view.SourceStatus) { printStatus(a, g.word, st) }
	}
	return g
}

// defaultTexts are the help texts of the verbs of a source.
func defaultTexts(word, title string) verbTexts {
	is := "  tandem " + word + " "
	return verbTexts{
		"check": {
			short:   "Say whether a " + title + " would be accepted, by the nodes too; change nothing",
			example: is + "check new.json\n" + is + "check --offline new.json",
		},
		"apply": {
			short:   "Make a " + title + " the one that nodes get their documents of",
			example: is + "apply new.json --wait",
		},
		"show": {
			short:   "Print the installed " + title + ", or another version of it",
			example: is + "show\n" + is + "show --version 1.9.0",
		},
		"status": {
			short: "Show the state of the " + title + " and how far the nodes are", example: is + "status",
		},
		"history": {short: "List what was submitted and what became of it", example: is + "history --limit 5"},
		"diff": {
			short:   "Show what changes from A to B, each a version or a file",
			example: is + "diff 1.9.0 2.0.0\n" + is + "diff 2.0.0 ./next.json",
		},
		"rollback": {
			short:   "Submit the content of an earlier version again, under a higher one",
			example: is + "rollback 1.9.0 --as 2.0.1 --wait",
		},
		"retry": {
			short:   "Send the " + title + " again to the nodes that failed at it or drifted",
			example: is + "retry --wait",
		},
		"wait": {
			short: "Wait until every online node has the newest " + title, example: is + "wait --within 2m",
		},
		"confirm": {short: "Keep the " + title + " that is on trial", example: is + "confirm"},
		"restore": {
			short:   "Write the " + title + "'s file anew from the journal and leave the failed state",
			example: is + "restore",
		},
	}
}

// commands makes the command of a source: the verbs, and others that it alone has.
func (g *group) commands(a *command.App) *cobra.Command {
	cmd := command.Group(g.word, g.short, g.example, g.check(a), g.apply(a), g.show(a), g.showStatus(a),
		g.showHistory(a), g.diff(a), g.rollBack(a), g.retry(a), g.wait(a))
	if g.subject.Trial {
		cmd.AddCommand(g.confirm(a))
	}
	if g.subject.Copied {
		cmd.AddCommand(g.restore(a))
	}
	if g.others != nil {
		cmd.AddCommand(g.others(a)...)
	}
	return cmd
}

// verb begins a command with its texts.
func (g *group) verb(name, takes string, args cobra.PositionalArgs) *cobra.Command {
	t, use := g.texts[name], name
	if takes != "" {
		use += " " + takes
	}
	return &cobra.Command{Use: use, Short: t.short, Long: t.long, Example: t.example, Args: args}
}

// readFile reads a file as the controller will.
func (g *group) readFile(a *command.App, _ *cobra.Command, files []string, o *options) (*input, error) {
	from, err := a.Read(files[0])
	if err != nil {
		return nil, err
	}
	p := g.src.Parse(kind.Reading{Document: from.Text, Version: o.version, Lenient: o.lenient})
	if len(p.Problems) > 0 {
		return nil, command.Malformed(p.Problems, from)
	}
	return &input{Source: from, version: p.Version, content: p.Content}, nil
}

// wellFormed reports a document in the shape of a controller's verdict.
func wellFormed(a *command.App, in *input) error {
	if a.JSON {
		return a.PrintJSON(view.Result{State: "acceptable", Version: in.version})
	}
	a.Print("%s is well formed; no controller and no node was asked\n", in.File)
	return nil
}
