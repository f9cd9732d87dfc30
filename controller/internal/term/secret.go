package term

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// IsTerminal reports whether a secret can be asked for on a file; nil is none.
func IsTerminal(in *os.File) bool { return in != nil && term.IsTerminal(int(in.Fd())) }

// AskSecret asks on a terminal, and reads a line that is not shown.
func AskSecret(in *os.File, out io.Writer, what string) (string, error) {
	if _, err := fmt.Fprint(out, what+": "); err != nil {
		return "", err
	}
	line, err := term.ReadPassword(int(in.Fd()))
	_, _ = fmt.Fprintln(out) // it only moves the cursor
	return string(line), err
}
