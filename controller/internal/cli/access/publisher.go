package access

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"aead.dev/minisign"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

// publishers are the commands of whoever signs programs. They ask no controller: the key has to stay away from it.
func publishers(a *command.App) *cobra.Command {
	return command.Group("publisher",
		"Sign what nodes run, with a key that the unit does not have",
		"  tandem publisher create publisher.key\n"+
			"  tandem publisher sign set.json --key publisher.key --file http://gateway/hello=hello --out new.json\n"+
			"  tandem publisher sign-file tandem-node --key publisher.key --version 1.4.0",
		createPublisher(a), signSet(a), signFile(a))
}

// passwords says where the password of a key comes from.
type passwords struct{ file string }

func (p *passwords) flag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.file, "password-file", "",
		"`file` whose first line is the key's password, - for standard input (default: ask at the terminal)")
}

// get reads a password. At a terminal it is asked for, as often as twice says.
func (p *passwords) get(a *command.App, twice bool) (string, error) {
	if p.file != "" {
		from, err := a.Read(p.file)
		if err != nil {
			return "", err
		}
		line, _, _ := strings.Cut(string(from.Text), "\n")
		if line = strings.TrimSuffix(line, "\r"); line == "" {
			return "", command.Usage("--password-file: its first line is empty")
		}
		return line, nil
	}
	in, ok := a.In.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return "", command.Usage("the key's password is needed: --password-file FILE, or - for standard input")
	}
	ask := func(what string) (string, error) {
		if _, err := fmt.Fprint(a.Err, what+": "); err != nil {
			return "", err
		}
		line, err := term.ReadPassword(int(in.Fd()))
		_, _ = fmt.Fprintln(a.Err) // it only moves the cursor
		return string(line), err
	}
	first, err := ask("Password of the publisher's key")
	if err != nil || !twice {
		return first, err
	}
	second, err := ask("Once more")
	switch {
	case err != nil:
		return "", err
	case first != second:
		return "", command.Usage("the two passwords differ")
	case first == "":
		return "", command.Usage("an empty password protects nothing; a key without one is made by --no-password")
	}
	return first, nil
}

// publisherJSON is what create prints with --json.
type publisherJSON struct {
	ID     string `json:"id"`
	Key    string `json:"key"` // public
	Secret string `json:"secretFile"`
	Public string `json:"publicFile"`
}

func createPublisher(a *command.App) *cobra.Command {
	var from passwords
	var open bool
	cmd := &cobra.Command{
		Use: "create FILE", Short: "Make a publisher's key: FILE, and FILE.pub for the nodes",
		Long: `Make a publisher's key, as minisign -G does: FILE holds the secret half, under a
password, and FILE.pub the public one, for --publisher-key on the nodes. Keep FILE away
from the unit: whoever has it and its password decides what nodes may run.`,
		Example: "  tandem publisher create publisher.key", Args: command.Args("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			file := args[0]
			for _, path := range []string{file, file + ".pub"} {
				if err := command.Vacant(path, false); err != nil {
					return err
				}
			}
			pub, key, err := minisign.GenerateKey(nil)
			if err != nil {
				return err
			}
			secret, err := key.MarshalText()
			if !open && err == nil {
				var password string
				if password, err = from.get(a, true); err == nil {
					secret, err = minisign.EncryptKey(password, key)
				}
			}
			if err != nil {
				return err
			}
			text, err := pub.MarshalText()
			if err != nil {
				return err
			}
			for _, f := range []struct {
				path string
				data []byte
				mode os.FileMode
			}{{file, secret, 0o600}, {file + ".pub", text, 0o644}} { // the public half is for the agents' users
				data := append(bytes.TrimSpace(f.data), '\n')
				if err := durable.WriteFile(f.path, data, f.mode, nil); err != nil {
					return command.Unreadable(f.path, err)
				}
			}
			return printPublisher(a, pub, file, open)
		},
	}
	from.flag(cmd)
	cmd.Flags().BoolVar(&open, "no-password", false, "whoever can read FILE may sign: no password protects it")
	return cmd
}

func printPublisher(a *command.App, pub minisign.PublicKey, file string, open bool) error {
	id := fmt.Sprintf("%016X", pub.ID())
	if a.JSON {
		return a.PrintJSON(publisherJSON{id, pub.String(), file, file + ".pub"})
	}
	a.Print("publisher's key %s is in %s; on each node: --publisher-key %s\n", id, file, pub)
	if open {
		a.Print("No password protects %s: whoever can read it decides what nodes may run.\n", file)
	}
	return nil
}

// publisherKey reads the secret half of a publisher's key.
func publisherKey(a *command.App, file string, from *passwords) (key minisign.PrivateKey, err error) {
	text, err := command.ReadFile(file)
	if err != nil {
		return key, command.Unreadable(file, err)
	}
	refuse := func(why error) error {
		f := command.Refuse(command.ExitUsage, wire.CodeBadValue, "it cannot be used as a publisher's key: %s",
			strings.TrimPrefix(why.Error(), "minisign: "))
		f.From.File = file
		return f
	}
	text = append(bytes.TrimSpace(text), '\n')
	if err = key.UnmarshalText(text); err == nil {
		return key, nil
	}
	if !strings.Contains(err.Error(), "is encrypted") {
		return key, refuse(err)
	}
	password, err := from.get(a, false)
	if err != nil {
		return key, err
	}
	if key, err = minisign.DecryptKey(password, text); err != nil {
		return key, refuse(errors.New("the password is wrong, or the file is damaged"))
	}
	return key, nil
}
