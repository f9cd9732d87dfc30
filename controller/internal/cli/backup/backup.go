// Package backup owns the commands about backups of the whole unit. What works on the file of a backup is in the
// controller's program.
package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/passphrase"
)

// Commands are the commands of this package that stand at the top.
func Commands(a *command.App) []*cobra.Command {
	return []*cobra.Command{command.Group("backup", "Back up everything that the unit is brought back from",
		"  tandem backup create line4.age --to age1…", create(a), moved("verify"), moved("restore"))}
}

// moved answers the verbs that work on the file of a backup.
func moved(verb string) *cobra.Command {
	return &cobra.Command{
		Use: verb, Short: "With: tandem-controller backup " + verb + " FILE", Hidden: true,
		Example: "  tandem-controller backup " + verb + " FILE", Args: cobra.ArbitraryArgs,
		FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
		RunE: func(*cobra.Command, []string) error {
			return command.Usage("tandem asks a running controller; on the file of a backup use: tandem-controller "+
				"backup %s FILE", verb)
		},
	}
}

// wanted says what create is to do.
type wanted struct {
	in         op.BackupIn
	pass       command.Password
	passphrase bool
	replace    bool
	dir        string
	keep       int
	free       func(dir string) (int64, error) // bytes that its file system has left
}

func create(a *command.App) *cobra.Command {
	w := wanted{free: free, pass: command.Password{Of: "backup", Word: "passphrase"}}
	cmd := &cobra.Command{
		Use: "create [FILE]", Short: "Write an encrypted backup, also while the controller runs",
		Long: `Write an encrypted backup of the unit: journal, keys, CAs, tokens, revocations, settings with
passwords, and artefacts. It is encrypted with age by the controller, for the public keys
that are named, or those of its setting backup-to; or for a passphrase, which stays here.
Keep the secret key or the passphrase away from the gateway: who has it and a backup is
the unit. Whom a backup is for is said on the controller's machine only, by root or the
controller's user.

With --dir the file gets a name with its time, backup-20261127T103000Z.age; --keep then
removes the oldest such files there, once the new one is on the disk; if there is no room for
it, before, and never the newest one. What a run that was killed has left is removed.

Verify and restore it with tandem-controller backup verify and restore. To move the unit to
another machine, stop the controller: tandem-controller backup create --final.`,
		Example: "  tandem backup create line4.age --to age1…\n  tandem backup create line4.age --passphrase\n" +
			"  tandem backup create --dir /var/lib/tandem/backup --keep 7",
		Args: func(cmd *cobra.Command, args []string) error {
			if w.dir != "" {
				return command.Args()(cmd, args)
			}
			return command.Args("FILE")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			path := ""
			if len(args) > 0 {
				path = args[0]
			}
			return w.create(cmd.Context(), a, path)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&w.in.To, "to", nil, "public `key` of who is to read it, age1…; once for each")
	flags.BoolVar(&w.passphrase, "passphrase", false, "encrypt it for a passphrase, which is asked for")
	w.pass.Flag(cmd)
	flags.BoolVar(&w.in.WithoutArtefacts, "without-artefacts", false,
		"leave the artefacts out: nodes that need one wait until the same file is added again")
	flags.BoolVar(&w.replace, "replace", false, "replace FILE if it exists")
	flags.StringVar(&w.dir, "dir", "", "write it into this `directory`, under a name with the time")
	flags.IntVar(&w.keep, "keep", 0, "with --dir: keep the newest `n` backups there; 0: all")
	return cmd
}

func (w *wanted) create(ctx context.Context, a *command.App, path string) error {
	secret := w.passphrase || w.pass.FromFile()
	switch {
	case secret && len(w.in.To) > 0:
		return command.Usage("--to and a passphrase exclude each other")
	case w.keep < 0 || w.keep > 0 && w.dir == "":
		return command.Usage("--keep: 0 or more, with --dir")
	case w.replace && w.dir != "":
		return command.Usage("--replace: it is for a FILE, and not for --dir")
	}
	if w.dir != "" {
		path = filepath.Join(w.dir, a.Now().UTC().Format(nameLayout))
	}
	if err := command.Vacant(path, w.replace); err != nil { // before somebody is asked for a passphrase
		return command.Replaceable(err)
	}
	if w.dir != "" {
		if err := w.makeRoom(a.Now()); err != nil {
			return err
		}
	}
	text := ""
	if secret {
		var err error
		if text, err = w.pass.Get(a, true); err != nil {
			return err
		}
	}
	err := a.Save(path, w.replace, func(out io.Writer) error {
		return a.Connect(func(c *client.Client) error {
			if secret {
				return sealed(ctx, c, w.in, text, out)
			}
			return client.Download(ctx, c, op.BackupUnit, w.in, out)
		})
	})
	if err != nil || w.keep == 0 {
		return err
	}
	return prune(w.dir, filepath.Base(path), w.keep)
}

// sealed has a backup made for a key that is used once, and encrypts it for a passphrase instead: neither that nor
// anything in clear leaves this program.
func sealed(ctx context.Context, c *client.Client, in op.BackupIn, text string, out io.Writer) error {
	once, err := age.GenerateX25519Identity()
	if err != nil {
		return err
	}
	to, err := passphrase.Recipient(text)
	if err != nil {
		return err
	}
	in.To = []string{once.Recipient().String()}
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := client.Download(ctx, c, op.BackupUnit, in, w)
		done <- err
		_ = w.CloseWithError(err) // nil is the end; it never fails
	}()
	err = func() error {
		plain, err := age.Decrypt(r, once)
		if err != nil {
			return err
		}
		all, err := age.Encrypt(out, to)
		if err != nil {
			return err
		}
		if _, err := io.Copy(all, plain); err != nil {
			return err
		}
		return all.Close()
	}()
	_ = r.CloseWithError(err) // the download ends, if it has not; it never fails
	if asked := <-done; asked != nil {
		return asked
	}
	return err
}

// The names of files with --dir.
const nameLayout = "backup-20060102T150405Z.age"

var named = regexp.MustCompile(`^backup-\d{8}T\d{6}Z\.age$`)

// prune removes the oldest backups of a directory until there are as many as are kept. The one that was just made, the
// newest, stays, whatever the clock says.
func prune(dir, newest string, keep int) error {
	old, err := matching(dir, named)
	if err != nil {
		return err
	}
	old = slices.DeleteFunc(old, func(name string) bool { return name == newest })
	for _, name := range old[:max(0, len(old)+1-keep)] {
		if rerr := os.Remove(filepath.Join(dir, name)); rerr != nil {
			err = errors.Join(err, fmt.Errorf("the backup is there, but an old one cannot be removed: %w", rerr))
		}
	}
	return err
}
