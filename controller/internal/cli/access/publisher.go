package access

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"aead.dev/minisign"
	"github.com/spf13/cobra"

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

// keyJSON is what create prints with --json.
type keyJSON struct {
	ID     string `json:"id"`
	Key    string `json:"key"` // public
	Secret string `json:"secretFile"`
	Public string `json:"publicFile"`
}

func createPublisher(a *command.App) *cobra.Command {
	from := command.KeyPassword()
	var open bool
	cmd := &cobra.Command{
		Use: "create FILE", Short: "Make a publisher's key: FILE, and FILE.pub for the nodes",
		Long: `Make a publisher's key, as minisign -G does: FILE holds the secret half, under a
password, and FILE.pub the public one, for --publisher-key on the nodes. Keep FILE away
from the unit: whoever has it and its password decides what nodes may run.`,
		Example: "  tandem publisher create publisher.key", Args: command.Args("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			pub, err := createKey(a, args[0], &from, open)
			if err != nil || a.JSON {
				return err
			}
			a.Print("publisher's key %016X is in %s; on each node: --publisher-key %s\n", pub.ID(), args[0], pub)
			if open {
				a.Print("No password protects %s: whoever can read it decides what nodes may run.\n", args[0])
			}
			return nil
		},
	}
	from.Flag(cmd)
	cmd.Flags().BoolVar(&open, "no-password", false, "whoever can read FILE may sign: no password protects it")
	return cmd
}

// createKey makes a pair of keys, the secret half in a file and the public one in another beside it. With --json it
// prints them.
func createKey(a *command.App, file string, from *command.Password, open bool) (pub minisign.PublicKey, err error) {
	for _, path := range []string{file, file + ".pub"} {
		if err := command.Vacant(path, false); err != nil {
			return pub, err
		}
	}
	pub, key, err := minisign.GenerateKey(nil)
	if err != nil {
		return pub, err
	}
	secret, err := key.MarshalText()
	if !open && err == nil {
		var password string
		if password, err = from.Get(a, true); err == nil {
			secret, err = minisign.EncryptKey(password, key)
		}
	}
	if err != nil {
		return pub, err
	}
	text, err := pub.MarshalText()
	if err != nil {
		return pub, err
	}
	for _, f := range []struct {
		path string
		data []byte
		mode os.FileMode
	}{{file, secret, 0o600}, {file + ".pub", text, 0o644}} { // the public half is for the agents' users
		data := append(bytes.TrimSpace(f.data), '\n')
		if err := durable.WriteFile(f.path, data, f.mode, nil); err != nil {
			return pub, command.Unreadable(f.path, err)
		}
	}
	if a.JSON {
		err = a.PrintJSON(keyJSON{fmt.Sprintf("%016X", pub.ID()), pub.String(), file, file + ".pub"})
	}
	return pub, err
}

// secretKey reads the secret half of a key.
func secretKey(a *command.App, file string, from *command.Password) (key minisign.PrivateKey, err error) {
	text, err := command.ReadFile(file)
	if err != nil {
		return key, command.Unreadable(file, err)
	}
	refuse := func(why error) error {
		f := command.Refuse(command.ExitUsage, wire.CodeBadValue, "it cannot be used as a key to sign with: %s",
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
	password, err := from.Get(a, false)
	if err != nil {
		return key, err
	}
	if key, err = minisign.DecryptKey(password, text); err != nil {
		return key, refuse(errors.New("the password is wrong, or the file is damaged"))
	}
	return key, nil
}
