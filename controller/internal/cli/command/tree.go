package command

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tandem.internal/shared/near"
)

// Group is a command that only has commands.
func Group(use, short, example string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Example: example, Args: cobra.ArbitraryArgs, RunE: needsCommand}
	c.AddCommand(commands...)
	return c
}

// Root is the program itself: a Group whose errors and help are in the program's own words.
func Root(a *App, use, short, example string, commands ...*cobra.Command) *cobra.Command {
	root := Group(use, short, example, commands...)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(helpCommand())
	root.SetHelpFunc(help)
	root.SetUsageFunc(usage)
	addCompletion(root)
	a.Flags(root.PersistentFlags())
	a.complete(root)
	if err := root.RegisterFlagCompletionFunc("context", func(c *cobra.Command, _ []string, prefix string) ([]string,
		cobra.ShellCompDirective) {
		return a.CompleteContexts(c, nil, prefix)
	}); err != nil {
		panic(err) // there is no such flag
	}
	return root
}

// needsCommand is the error for a command that got none of its commands.
func needsCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		all := strings.Join(Names(c), ", ")
		return Usage("%s needs a command: %s; %s --help explains them", c.CommandPath(), all, c.CommandPath())
	}
	return noCommand(c, args[0])
}

// Names lists a command's commands.
func Names(c *cobra.Command) []string {
	var list []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			list = append(list, sub.Name())
		}
	}
	return list
}

// noCommand is the error for a word that stands where a command does and is none. Where a subject such as a node may
// stand, too, it is nil unless the word is near to a command.
func noCommand(c *cobra.Command, word string) error {
	all := "it has " + strings.Join(Names(c), ", ")
	if _, subject, _ := strings.Cut(c.Use, " "); subject != "" {
		if len(near.All(word, Names(c))) == 0 {
			return nil
		}
		all = c.CommandPath() + " --help lists them"
	}
	return Usage("%.200q is no command of %s%s", word, c.CommandPath(), Suggest(word, Names(c), all))
}

// helpCommand is cobra's help, but a command that does not exist is an error.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]…", Short: "Explain a command, as --help does", Example: "  tandem help config apply",
		RunE: func(c *cobra.Command, args []string) error {
			found := c.Root()
			for _, word := range args {
				at := slices.IndexFunc(found.Commands(), func(sub *cobra.Command) bool { return sub.Name() == word })
				if at < 0 {
					meant := Suggest(word, Names(found), found.CommandPath()+" --help lists them")
					return Usage("%.200q is no command of %s%s", word, found.CommandPath(), meant)
				}
				found = found.Commands()[at]
			}
			return found.Help()
		},
	}
}

// addCompletion adds cobra's command for completion scripts, with the program's own errors and examples.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	at := slices.IndexFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == "completion" })
	c := root.Commands()[at]
	c.Example = "  source <(tandem completion bash)"
	c.Args, c.RunE = cobra.ArbitraryArgs, needsCommand
	for _, shell := range c.Commands() {
		shell.Example = "  tandem completion " + shell.Name()
		shell.Args = Args()
	}
}
