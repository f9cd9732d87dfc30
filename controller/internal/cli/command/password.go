package command

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/term"
)

// Password says where a password or a passphrase comes from. Zero but for the words is the terminal.
type Password struct {
	Of   string // what it opens: key
	Word string // password, or passphrase
	None string // how to do without one, after a semicolon; "": there is no way

	file string
}

// KeyPassword is the password of a secret key.
func KeyPassword() Password {
	return Password{Of: "key", Word: "password", None: "; a key without one is made by --no-password"}
}

// Flag adds the flag for a file that has it: --password-file.
func (p *Password) Flag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.file, p.flag(), "", fmt.Sprintf(
		"`file` whose first line is the %s's %s, - for standard input (default: ask at the terminal)", p.Of, p.Word))
}

func (p *Password) flag() string { return p.Word + "-file" }

// FromFile reports whether a file was named.
func (p *Password) FromFile() bool { return p.file != "" }

// Get reads it. At a terminal it is asked for, as often as twice says.
func (p *Password) Get(a *App, twice bool) (string, error) {
	if p.file != "" {
		line, err := term.SecretLine(p.file, a.In)
		if errors.Is(err, term.ErrEmpty) {
			return "", Usage("--%s: %v", p.flag(), err)
		} else if err != nil {
			return "", Unreadable(NameOf(p.file), err)
		}
		return line, nil
	}
	in, _ := a.In.(*os.File)
	if !term.IsTerminal(in) {
		return "", Usage("the %s's %s is needed: --%s FILE, or - for standard input", p.Of, p.Word, p.flag())
	}
	first, err := term.AskSecret(in, a.Err, strings.ToUpper(p.Word[:1])+p.Word[1:]+" of the "+p.Of)
	if err != nil || !twice {
		return first, err
	}
	second, err := term.AskSecret(in, a.Err, "Once more")
	switch {
	case err != nil:
		return "", err
	case first != second:
		return "", Usage("the two %ss differ", p.Word)
	case first == "":
		return "", Usage("an empty %s protects nothing%s", p.Word, p.None)
	}
	return first, nil
}
