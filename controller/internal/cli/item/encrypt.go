package item

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// asEncrypted is what the name of an encrypted file ends with.
const asEncrypted = ".age"

func encryptCommand(a *command.App) *cobra.Command {
	var to []string
	cmd := &cobra.Command{
		Use: "encrypt FILE", Short: "Encrypt a file for nodes, to release it so",
		Long: `Write FILE.age: FILE, encrypted with age for those whose public keys are named. The controller, its
backups, and whoever reads its store have that file only. A node opens it with --decrypt-key, in the
full agent. Make a node's key at the node: age-keygen -o decrypt.key prints the public one.

FILE is what is released: of a directory, what tandem item pack writes. It is signed before it is
encrypted (FILE.minisig), and release needs both files. No controller is asked.`,
		Example: "  tandem item pack ./sensor sensor.tar.gz\n" +
			"  tandem item encrypt sensor.tar.gz --to age1…\n" +
			"  tandem item release sensor.json sensor.tar.gz --tree --encrypted",
		Args: command.Args("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(to) == 0 {
				return command.Usage("--to is required: the public key of a node that is to read the file, age1…")
			}
			var all []age.Recipient
			for _, key := range to {
				one, err := age.ParseRecipients(strings.NewReader(key))
				if strings.Contains(strings.ToUpper(key), "AGE-SECRET-KEY-") { // never shown
					return command.Usage("--to: this is a secret key, which stays with its node; give the public " +
						"one, age1…: age-keygen -y FILE prints it")
				}
				if err != nil || len(one) != 1 {
					return command.Usage("--to: %.80q is no public key of age-keygen, age1…", key)
				}
				all = append(all, one...)
			}
			e, err := encrypt(cmd.Context(), args[0], all)
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(e)
			}
			a.Print("%s: %s\n%s\n", args[0]+asEncrypted, command.Size(e.Size), e.Digest)
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&to, "to", nil, "public `key` of who is to read it, age1…; once for each")
	return cmd
}

// encrypt writes FILE.age, whole or not at all.
func encrypt(ctx context.Context, file string, to []age.Recipient) (*wire.Encrypted, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, command.Unreadable(file, err)
	}
	defer in.Close() // it was only read
	if info, err := in.Stat(); err == nil && info.IsDir() {
		return nil, command.Usage("%s is a directory: pack it first (tandem item pack), and encrypt what that writes",
			file)
	}
	path := file + asEncrypted
	if _, err := os.Lstat(path); err == nil {
		return nil, command.Usage("%s is there already: release it, or remove it to encrypt %s again, which makes "+
			"another file", path, file)
	}
	out, err := os.CreateTemp(filepath.Dir(path), ".tandem-item-*"+asEncrypted)
	if err != nil {
		return nil, command.Unreadable(path, err)
	}
	sum := newSum()
	err = func() error {
		w, err := age.Encrypt(io.MultiWriter(out, sum), to...)
		if err != nil {
			return err
		}
		if _, err := io.Copy(w, untilDone{ctx, in}); err != nil {
			return err
		}
		return errors.Join(w.Close(), out.Chmod(0o644), out.Sync())
	}()
	if err = errors.Join(err, out.Close()); err == nil {
		err = durable.Replace(out.Name(), path)
	}
	if err != nil {
		return nil, command.Unreadable(path, errors.Join(err, os.Remove(out.Name())))
	}
	return &wire.Encrypted{Digest: sum.digest(), Size: sum.n}, nil
}

// encrypted finds out what FILE.age is, which tandem item encrypt has written.
func encrypted(ctx context.Context, file string) (*wire.Encrypted, error) {
	path := file + asEncrypted
	in, err := os.Open(path)
	if plain, is := strings.CutSuffix(file, asEncrypted); is && errors.Is(err, fs.ErrNotExist) {
		return nil, command.Usage("with --encrypted say %s, beside which %s is found", plain, file)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, command.Usage("there is no %s: tandem item encrypt %s --to age1… writes it", path, file)
	}
	if err != nil {
		return nil, command.Unreadable(path, err)
	}
	defer in.Close() // it was only read
	begin := make([]byte, len(ageBegins))
	if _, err := io.ReadFull(in, begin); err != nil || string(begin) != ageBegins {
		return nil, command.Usage("%s is not a file that tandem item encrypt has written", path)
	}
	b, _, err := blobOf(ctx, path, false)
	if err != nil {
		return nil, err
	}
	return &wire.Encrypted{Digest: b.Digest, Size: b.Size}, nil
}

// current refuses a FILE that was changed after FILE.age was made of it: no node could use that.
func current(file string) error {
	of, err := os.Stat(file)
	if err != nil {
		return command.Unreadable(file, err)
	}
	sealed, err := os.Stat(file + asEncrypted)
	if err == nil && of.ModTime().After(sealed.ModTime()) {
		return command.Usage("%[1]s is newer than %[2]s, which was made of what it was before: remove %[2]s, and run "+
			"tandem item encrypt %[1]s again", file, file+asEncrypted)
	}
	return nil // encrypted says what is wrong with FILE.age
}

// ageBegins is what every file of age begins with.
const ageBegins = "age-encryption.org/v1\n"

// stored is the path of what goes to the store of a file.
func stored(b *items.Blob, file string) string {
	if b.Encrypted != nil {
		return file + asEncrypted
	}
	return file
}
