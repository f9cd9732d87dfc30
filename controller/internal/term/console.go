package term

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/term"
)

// Console is the terminal of a program that draws its whole screen and reads single keys. Whoever opens one closes it,
// also in a panic: until then the terminal is of no use to a shell.
type Console struct {
	in, out *os.File
	was     *term.State
}

// What a console begins and ends with: another screen, without a cursor and without lines that go on in the next.
const (
	begin = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
	end   = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
)

// OpenConsole begins one on two files that are the terminal.
func OpenConsole(in, out *os.File) (*Console, error) {
	was, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, err
	}
	c := &Console{in, out, was}
	if _, err := out.WriteString(begin); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close makes the terminal what it was.
func (c *Console) Close() error {
	_, err := c.out.WriteString(end)
	return errors.Join(err, term.Restore(int(c.in.Fd()), c.was))
}

// Size is that of the screen.
func (c *Console) Size() (columns, lines int, err error) { return term.GetSize(int(c.out.Fd())) }

// Write writes to the terminal.
func (c *Console) Write(text []byte) (int, error) { return c.out.Write(text) }

// look is how long Keys waits for a key before it looks whether its context has ended.
const look = 100 * time.Millisecond

// Keys returns what was typed. It waits for something, or for the end of ctx, of which it returns the error soon.
func (c *Console) Keys(ctx context.Context) ([]byte, error) {
	for ctx.Err() == nil {
		typed, err := waitFor(c.in, look)
		if err != nil {
			return nil, err
		}
		if !typed {
			continue
		}
		text := make([]byte, 256)
		n, err := c.in.Read(text)
		return text[:n], err
	}
	return nil, ctx.Err()
}
