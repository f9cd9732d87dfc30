package history

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/shared/wire"
)

func journalCommands(a *command.App) *cobra.Command {
	var file string
	group := command.Group("journal", "Verify, export, back up and shrink the journal",
		"  tandem journal verify\n  tandem journal verify --file /backup/journal.db",
		verify(a, &file), export(a, &file), backup(a, &file), compact(a, &file))
	group.PersistentFlags().StringVar(&file, "file", "", "this journal `file`, without a controller")
	return group
}

// offline opens a journal file for f; the controller must not be running on it.
func offline(file string, f func(*journal.Journal) error) (err error) {
	j, err := journal.Open(file, journal.Options{ReadOnly: true})
	if err != nil {
		return unopened(err)
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	return f(j)
}

// unopened is the failure of a journal file that cannot be opened.
func unopened(err error) error {
	failed := command.AsFailure(err)
	if failed.Err.Code == wire.CodeNotFound || failed.Err.Code == wire.CodeNotAllowed {
		failed.Exit = command.ExitUsage // as with any other file
	}
	return failed
}

func verify(a *command.App, file *string) *cobra.Command {
	return &cobra.Command{
		Use: "verify", Short: "Check that the journal is what was written",
		Example: "  tandem journal verify", Args: command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := verification(cmd.Context(), a, *file)
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
				f := command.Refuse(command.ExitRefused, wire.CodeStorage, "the journal is damaged; restore a backup")
				f.From.File = *file
				return f
			}
			return nil
		},
	}
}

func verification(ctx context.Context, a *command.App, file string) (v op.Verification, err error) {
	if file == "" {
		err = a.Connect(func(c *client.Client) error {
			v, err = client.Call(ctx, c, op.VerifyJournal, op.None{})
			return err
		})
		return v, err
	}
	err = offline(file, func(j *journal.Journal) error {
		proof, err := j.Verify(ctx)
		v = op.Verification{OK: proof.OK(), Report: proof.String()}
		return err
	})
	return v, err
}

func export(a *command.App, file *string) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "export", Short: "Write the whole journal as JSON lines",
		Example: "  tandem journal export > journal.jsonl", Args: command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			write := func(w io.Writer) error {
				if *file != "" {
					return offline(*file, func(j *journal.Journal) error { return j.Export(w, journal.Filter{}) })
				}
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
				if err := command.Vacant(args[0], replace); err != nil {
					return err
				}
				err := offline(*file, func(j *journal.Journal) error { return j.BackupFile(args[0]) })
				if err != nil {
					return err
				}
				return a.Saved(args[0])
			}
			return a.Save(args[0], replace, func(w io.Writer) error {
				return a.Connect(func(c *client.Client) error {
					return client.Download(cmd.Context(), c, op.BackupJournal, op.None{}, w)
				})
			})
		},
	}
	cmd.Flags().BoolVar(&replace, "replace", false, "replace FILE if it exists")
	return cmd
}

// shrunk is what a file of a journal was and is.
type shrunk struct {
	Before int64 `json:"before"` // bytes
	After  int64 `json:"after"`
}

func compact(a *command.App, file *string) *cobra.Command {
	return &cobra.Command{
		Use: "compact", Short: "Make the file of a stopped controller's journal as small as its contents",
		Example: "  tandem journal compact --file /var/lib/tandem-controller/journal.db", Args: command.Args(),
		RunE: func(*cobra.Command, []string) error {
			if *file == "" {
				return command.Usage("tandem journal compact needs --file FILE and a controller that is stopped; " +
					"the file of a running one needs no more room than it has had once, and uses it again")
			}
			before, after, err := journal.CompactFile(*file, journal.Options{})
			if err != nil {
				return unopened(err)
			}
			if a.JSON {
				return a.PrintJSON(shrunk{before, after})
			}
			a.Print("%s: %s, was %s\n", *file, term.Size(uint64(after)), term.Size(uint64(before)))
			return nil
		},
	}
}
