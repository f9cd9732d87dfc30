package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/op"
	"tandem.internal/shared/wire"
)

func (a *app) journal() *cobra.Command {
	var file string
	group := a.group("journal", "Verify, export, back up and shrink the journal", "  tandem journal verify\n  tandem journal verify --file /backup/journal.db",
		a.verify(&file), a.export(&file), a.backup(&file), a.compact(&file))
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
	failed := asFailure(err)
	if failed.err.Code == wire.CodeNotFound || failed.err.Code == wire.CodeNotAllowed {
		failed.exit = exitUsage // as with any other file
	}
	return failed
}

func (a *app) verify(file *string) *cobra.Command {
	return &cobra.Command{
		Use: "verify", Short: "Check that the journal is what was written", Example: "  tandem journal verify", Args: want(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := a.verification(cmd.Context(), *file)
			if err != nil {
				return err
			}
			if a.json {
				if err := a.printJSON(v); err != nil {
					return err
				}
			} else {
				a.print("%s\n", multiline(v.Report))
			}
			if !v.OK {
				return &failure{exit: exitRefused, file: *file, err: wire.New(wire.CodeStorage, "", "the journal is damaged; restore a backup")}
			}
			return nil
		},
	}
}

func (a *app) verification(ctx context.Context, file string) (v op.Verification, err error) {
	if file == "" {
		err = a.with(func(c *client.Client) error { v, err = c.Verify(ctx); return err })
		return v, err
	}
	err = offline(file, func(j *journal.Journal) error {
		proof, err := j.Verify(ctx)
		v = op.Verification{OK: proof.OK(), Report: proof.String()}
		return err
	})
	return v, err
}

func (a *app) export(file *string) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "export", Short: "Write the whole journal as JSON lines", Example: "  tandem journal export > journal.jsonl", Args: want(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			write := func(w io.Writer) error {
				if *file != "" {
					return offline(*file, func(j *journal.Journal) error { return j.Export(w, journal.Filter{}) })
				}
				return a.with(func(c *client.Client) error { return c.Export(cmd.Context(), w) })
			}
			if output == "" {
				return write(a.out)
			}
			return a.save(output, false, write)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to this `file`, which must not exist yet")
	return cmd
}

func (a *app) backup(file *string) *cobra.Command {
	var replace bool
	cmd := &cobra.Command{
		Use: "backup FILE", Short: "Write a consistent copy of the journal, also while the controller runs",
		Example: "  tandem journal backup /backup/journal.db", Args: want("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if *file != "" {
				if err := vacant(args[0], replace); err != nil {
					return err
				}
				err := offline(*file, func(j *journal.Journal) error { return j.BackupFile(args[0]) })
				if err != nil {
					return err
				}
				return a.saved(args[0])
			}
			return a.save(args[0], replace, func(w io.Writer) error {
				return a.with(func(c *client.Client) error { return c.Backup(cmd.Context(), w) })
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

func (a *app) compact(file *string) *cobra.Command {
	return &cobra.Command{
		Use: "compact", Short: "Make the file of a stopped controller's journal as small as its contents",
		Example: "  tandem journal compact --file /var/lib/tandem-controller/journal.db", Args: want(),
		RunE: func(*cobra.Command, []string) error {
			if *file == "" {
				return usage("tandem journal compact needs --file FILE and a controller that is stopped; the file of a running one needs no more room than it has had once, and uses it again")
			}
			before, after, err := journal.CompactFile(*file, journal.Options{})
			if err != nil {
				return unopened(err)
			}
			if a.json {
				return a.printJSON(shrunk{before, after})
			}
			a.print("%s: %s, was %s\n", *file, size(uint64(after)), size(uint64(before)))
			return nil
		},
	}
}

// vacant refuses to overwrite a file.
func vacant(path string, replace bool) error {
	if _, err := os.Stat(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) {
		return &failure{exit: exitUsage, file: path, err: wire.New(wire.CodeNotFound, "", "its directory does not exist")}
	}
	_, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && replace:
		return nil
	case err != nil:
		return unreadable(path, err)
	}
	return &failure{exit: exitUsage, file: path, err: wire.New(wire.CodeAlreadyExists, "", "the file exists and was left alone")}
}

// save lets write fill a file (mode 0600) that appears under its name whole and durable, or not at
// all.
func (a *app) save(path string, replace bool, write func(io.Writer) error) (err error) {
	if err := vacant(path, replace); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return unreadable(path, err)
	}
	defer func() {
		if closing := f.Close(); closing != nil && !errors.Is(closing, fs.ErrClosed) {
			err = errors.Join(err, closing)
		}
		if err != nil {
			if rm := os.Remove(f.Name()); !errors.Is(rm, fs.ErrNotExist) {
				err = errors.Join(err, rm)
			}
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return unreadable(path, err)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return unreadable(path, err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fmt.Errorf("making %s durable: %w", path, err)
	}
	return a.saved(path)
}

func (a *app) saved(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return unreadable(path, err)
	}
	if a.json {
		return a.printJSON(struct {
			File  string `json:"file"`
			Bytes int64  `json:"bytes"`
		}{path, info.Size()})
	}
	a.print("wrote %s, %s\n", path, size(uint64(info.Size())))
	return nil
}
