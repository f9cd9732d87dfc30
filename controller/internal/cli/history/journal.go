package history

import (
	"io"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/shared/wire"
)

func journalCommands(a *command.App) *cobra.Command {
	var file string
	group := command.Group("journal", "Verify, export and back up the journal", "  tandem journal verify",
		verify(a, &file), trim(a), export(a, &file), backup(a, &file), compact(&file))
	flags := group.PersistentFlags()
	flags.StringVar(&file, "file", "", "moved to tandem-controller journal")
	if err := flags.MarkHidden("file"); err != nil {
		panic(err) // it has just been made
	}
	return group
}

// moved answers the verbs that work on a journal's file: they belong to the controller's program.
func moved(verb, file string) error {
	if file == "" {
		file = "FILE"
	}
	if verb == "backup" {
		file += " COPY"
	}
	return command.Usage("tandem asks a running controller; "+
		"on the file of a journal use: tandem-controller journal %s %s", verb, file)
}

func verify(a *command.App, file *string) *cobra.Command {
	return &cobra.Command{
		Use: "verify", Short: "Check that the journal is what was written",
		Example: "  tandem journal verify",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return moved("verify", args[0])
			}
			return command.Args()(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if *file != "" {
				return moved("verify", *file)
			}
			var v op.Verification
			err := a.Connect(func(c *client.Client) (err error) {
				v, err = client.Call(cmd.Context(), c, op.VerifyJournal, op.None{})
				return err
			})
			if err != nil {
				return err
			}
			if a.JSON {
				if err := a.PrintJSON(v); err != nil {
					return err
				}
			} else {
				a.Print("%s\n", term.CleanLines(v.Report))
			}
			if !v.OK {
				return command.Refuse(command.ExitRefused, wire.CodeStorage, "the journal is damaged; restore a backup")
			}
			return nil
		},
	}
}

func export(a *command.App, file *string) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "export", Short: "Write the whole journal as JSON lines",
		Example: "  tandem journal export > journal.jsonl", Args: command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if *file != "" {
				return moved("export", *file)
			}
			write := func(w io.Writer) error {
				return a.Connect(func(c *client.Client) error {
					return client.Download(cmd.Context(), c, op.ExportJournal, op.None{}, w)
				})
			}
			if output == "" {
				return write(a.Out)
			}
			return a.Save(output, false, write)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to this `file`, which must not exist yet")
	return cmd
}

func backup(a *command.App, file *string) *cobra.Command {
	var replace bool
	cmd := &cobra.Command{
		Use: "backup FILE", Short: "Write a consistent copy of the journal, also while the controller runs",
		Example: "  tandem journal backup /backup/journal.db", Args: command.Args("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if *file != "" {
				return moved("backup", *file)
			}
			return command.Replaceable(a.Save(args[0], replace, func(w io.Writer) error {
				return a.Connect(func(c *client.Client) error {
					return client.Download(cmd.Context(), c, op.BackupJournal, op.None{}, w)
				})
			}))
		},
	}
	cmd.Flags().BoolVar(&replace, "replace", false, "replace FILE if it exists")
	return cmd
}

func compact(file *string) *cobra.Command {
	return &cobra.Command{
		Use: "compact", Short: "Moved to: tandem-controller journal compact FILE", Hidden: true,
		Example: "  tandem journal compact FILE",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				*file = args[0]
			}
			return moved("compact", *file)
		},
	}
}
