package access

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"aead.dev/minisign"
	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/rootlist"
	"tandem.internal/shared/wire"
)

// roots are the commands of whoever has a root key. They ask no controller: the key has to stay away from it.
func roots(a *command.App) *cobra.Command {
	return command.Group("root", "Sign lists of the unit's CAs, with a key that the unit does not have",
		"  tandem root create root.key\n  tandem root sign cas.json --key root.key",
		createRoot(a), signList(a))
}

func createRoot(a *command.App) *cobra.Command {
	from := command.KeyPassword()
	var open bool
	cmd := &cobra.Command{
		Use: "create FILE", Short: "Make a root key: FILE, and FILE.pub for tandem ca export",
		Long: `Make a root key, as minisign -G does: FILE holds the secret half, under a password, and
FILE.pub the public one. Keep FILE away from the unit and its backups: whoever has it and
its password decides which CAs the nodes believe.`,
		Example: "  tandem root create root.key", Args: command.Args("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			pub, err := createKey(a, args[0], &from, open)
			if err != nil || a.JSON {
				return err
			}
			a.Print("root key %016X is in %s\nOn the gateway: tandem ca export cas.json --root %s\n"+
				"A node learns it there; or tell it: --root-key %s\n", pub.ID(), args[0], pub, pub)
			if open {
				a.Print("No password protects %s: whoever can read it decides which CAs the nodes believe.\n", args[0])
			}
			return nil
		},
	}
	from.Flag(cmd)
	cmd.Flags().BoolVar(&open, "no-password", false, "whoever can read FILE may sign: no password protects it")
	return cmd
}

func signList(a *command.App) *cobra.Command {
	from := command.KeyPassword()
	var key string
	var replace bool
	cmd := &cobra.Command{
		Use: "sign LIST", Short: "Sign a list of CAs that tandem ca export has written: LIST.minisig",
		Long: `Sign a list of CAs and signing keys that tandem ca export has written. It is shown first:
compare it with what tandem ca show and tandem key show say on the gateway. Whoever has
taken the gateway may have written it. Keep every list and its signature.`,
		Example: "  tandem root sign cas.json --key root.key", Args: command.Args("LIST"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if key == "" {
				return command.Lacks(cmd, "--key FILE")
			}
			out := args[0] + ".minisig"
			if err := command.Vacant(out, replace); err != nil {
				return err
			}
			text, l, err := readList(args[0], a.Now())
			if err != nil {
				return err
			}
			if !a.JSON {
				printList(a, l)
			}
			secret, err := secretKey(a, key, &from)
			if err != nil {
				return err
			}
			hashed := minisign.NewReader(bytes.NewReader(text))
			if _, err := io.Copy(io.Discard, hashed); err != nil {
				return err
			}
			signature := hashed.SignWithComments(secret, l.Comment(), "signature of a list of CAs")
			chain := []rootlist.Signed{{List: text, Signature: string(signature)}}
			_, _, err = rootlist.Known{Roots: l.Roots}.Follow(l.Unit, chain)
			if errors.Is(err, publisher.ErrUnknown) {
				f := command.Refuse(command.ExitUsage, wire.CodeBadValue, "it is not for this key to sign: it names "+
					"the root keys %s; name this one when you export it", rootIDs(l))
				f.From.File = args[0]
				return f
			}
			if err != nil {
				return err
			}
			write := func(w io.Writer) error { _, err := w.Write(signature); return err }
			if err := a.Save(out, replace, write); err != nil {
				return err
			}
			return a.Saved(out)
		},
	}
	from.Flag(cmd)
	cmd.Flags().StringVar(&key, "key", "", "`file` with the root key (required)")
	cmd.Flags().BoolVar(&replace, "replace", false, "replace a signature that is there")
	return cmd
}

// readList reads a list that is to be signed. Numbers only rise, so one from a time to come is refused.
func readList(file string, now time.Time) (text []byte, l *rootlist.List, err error) {
	if text, err = command.ReadFile(file); err != nil {
		return nil, nil, command.Unreadable(file, err)
	}
	if l, err = rootlist.Parse(text); err == nil && l.Time().After(now.Add(24*time.Hour)) {
		err = fmt.Errorf("it is from a time to come, %s: the gateway's clock was wrong, or this machine's is",
			l.Time().Format(time.RFC3339))
	}
	if err == nil {
		for _, der := range l.CAs {
			if _, perr := x509.ParseCertificate(der); perr != nil {
				err = errors.New("a CA in it is no certificate")
			}
		}
	}
	if err != nil {
		f := command.Refuse(command.ExitUsage, wire.CodeBadValue, "%v", err)
		f.From.File = file
		return nil, nil, f
	}
	return text, l, nil
}

func rootIDs(l *rootlist.List) string {
	keys, err := rootlist.ParseRoots(l.Roots)
	if err != nil { // Parse has read them
		return ""
	}
	return publisher.JoinIDs(keys.IDs(), ", ")
}

// printList shows what is to be signed.
func printList(a *command.App, l *rootlist.List) {
	a.Print("unit       %s\nexported   %s\n", term.Clean(l.Unit), l.Time().Format(time.RFC3339))
	for _, der := range l.CAs {
		sum := sha256.Sum256(der)
		fp, certifies := wire.HashPrefix+hex.EncodeToString(sum[:]), ""
		if fp == l.Signs {
			certifies = ", certifies"
		}
		a.Print("CA         %s%s\n", fp, certifies)
	}
	for _, k := range l.UnitKeys {
		a.Print("key        %s\n", term.Clean(k.ID))
	}
	a.Print("root keys  %s\n", rootIDs(l))
}

func exportCAs(a *command.App) *cobra.Command {
	var in op.ExportCAs
	var given []string
	var replace bool
	cmd := &cobra.Command{
		Use: "export FILE", Short: "Write the list of CAs and signing keys that a root key is to sign",
		Long: `Write the list of CAs and signing keys that count now, for a root key to sign away from the
unit. Nodes that know the root key follow such a list even if no CA that they believe is left
here. It names the root keys of the list before, or those of --root; to change from one key
to the next, export a list with both that the old one signs, and then one with the new one.`,
		Example: "  tandem ca export cas.json --root root.key.pub\n  tandem root sign cas.json --key root.key\n" +
			"  tandem ca import cas.json",
		Args: command.Args("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.Vacant(args[0], replace); err != nil {
				return err
			}
			for _, text := range given {
				keys, err := publicKeys(text)
				if err != nil {
					return err
				}
				for _, k := range keys {
					in.Roots = append(in.Roots, k.String())
				}
			}
			return a.Connect(func(c *client.Client) error {
				draft, err := client.Call(cmd.Context(), c, op.ExportCA, in)
				if err != nil {
					return err
				}
				write := func(w io.Writer) error { _, err := io.WriteString(w, draft.List); return err }
				if err := a.Save(args[0], replace, write); err != nil {
					return err
				}
				return a.Saved(args[0])
			})
		},
	}
	cmd.Flags().StringArrayVar(&given, "root", nil, "public root key, or a `file` with such keys, that signs it and "+
		"the lists to come; may be given more than once (default: those of the list before)")
	cmd.Flags().BoolVar(&replace, "replace", false, "replace a file that is there")
	return cmd
}

// publicKeys reads a public key, or a file with such keys.
func publicKeys(text string) (publisher.Keys, error) {
	if k, err := publisher.ParseKey(text); err == nil {
		return publisher.Keys{k}, nil
	}
	data, err := command.ReadFile(text)
	if err != nil {
		return nil, command.Usage("--root: neither a public key (56 letters of base64) nor a file: %.80q", text)
	}
	keys, err := publisher.ParseKeys(string(data[:min(len(data), publisher.MaxFile)]))
	if err != nil {
		return nil, command.Usage("--root: file %s: %v", text, err)
	}
	return keys, nil
}

func importCAs(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "import LIST...", Short: "Have nodes learn the list of CAs that a root key has signed",
		Long: `Give the controller a list of CAs with its signature, LIST.minisig. It is kept, and told at
the join door to whoever asks. Lists that lead from one root key to the next, which a restored
journal may have lost, stand before the newest one.`,
		Example: "  tandem ca import cas.json",
		Args:    command.AtLeast("LIST"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var in op.ImportCAs
			for _, file := range args {
				texts := [2]string{}
				for i, path := range []string{file, file + ".minisig"} {
					data, err := command.ReadFile(path)
					if err != nil {
						return command.Unreadable(path, err)
					}
					texts[i] = string(data)
				}
				in.Lists = append(in.Lists, op.SignedList{List: texts[0], Signature: texts[1]})
			}
			return command.Ask(cmd.Context(), a, op.ImportCA, in, printCAs)
		},
	}
}

// printRoot shows what a root key has said.
func printRoot(a *command.App, r *view.Root) {
	if r == nil {
		return
	}
	a.Print("\nRoot key %s has signed a list of %s, which %s took. %s signs the next.\n", term.Clean(r.By),
		r.Time.UTC().Format(time.RFC3339), term.Plural(r.Nodes, "node"), term.Clean(strings.Join(r.Keys, " or ")))
	if r.Behind {
		a.Print("CAs or signing keys have changed since: whoever has to follow it would not get back. " +
			"Sign a new one: tandem ca export FILE\n")
	}
}
