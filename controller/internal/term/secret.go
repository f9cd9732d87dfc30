package term

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// maxSecret is the size of the largest file of a secret, in bytes.
const maxSecret = 1 << 20

// ErrEmpty says that a file should have a secret in its first line, and does not.
var ErrEmpty = errors.New("its first line is empty")

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

// SecretLine returns the first line of a file, which may be a pipe; - is stdin. What follows the line is not waited
// for. The error may be ErrEmpty.
func SecretLine(file string, stdin io.Reader) (line string, err error) {
	err = readSecret(file, stdin, func(r io.Reader) (err error) {
		line, err = bufio.NewReader(r).ReadString('\n')
		if errors.Is(err, io.EOF) { // the line has no end
			err = nil
		}
		return err
	})
	line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
	if err == nil && line == "" {
		err = ErrEmpty
	}
	return line, err
}

// SecretFile returns the content of a file, which may be a pipe; - is stdin.
func SecretFile(file string, stdin io.Reader) (text []byte, err error) {
	err = readSecret(file, stdin, func(r io.Reader) (err error) {
		text, err = io.ReadAll(r)
		return err
	})
	return text, err
}

// readSecret has take read at most maxSecret bytes of a file; more are an error.
func readSecret(file string, stdin io.Reader, take func(io.Reader) error) (err error) {
	in := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close() // it was only read
		in = f
	}
	bound := &io.LimitedReader{R: in, N: maxSecret + 1}
	if err := take(bound); err != nil {
		return err
	}
	if bound.N == 0 {
		return fmt.Errorf("%s: it is larger than %d bytes", file, maxSecret)
	}
	return nil
}
