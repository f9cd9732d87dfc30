// Package term owns how the operator's program looks: text that is harmless on a terminal, tables, colours, times for
// people, and the line of progress. What goes to standard output is buffered until Flush.
//
// It guarantees that nothing from a table or from Clean moves a cursor or changes a colour. It knows neither commands
// nor the controller.
package term

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// Screen is what the program writes to.
type Screen struct {
	Out         *bufio.Writer
	Err         io.Writer
	Now         func() time.Time
	Zone        *time.Location // of the times shown
	OutTerminal bool           // Out is a terminal
	ErrTerminal bool           // Err is a terminal
	Colours     bool           // Out takes colours
	Width       int            // columns of the terminal; 0: unknown
}

// Terminal reports whether f is a terminal that takes control sequences, and how many columns it has; 0: unknown.
func Terminal(f *os.File) (yes bool, columns int) {
	fd := int(f.Fd())
	if !term.IsTerminal(fd) || !sequences(f) {
		return false, 0
	}
	columns, _, err := term.GetSize(fd)
	if err != nil {
		return true, 0
	}
	return true, columns
}

// Print writes to standard output. The buffer keeps an error, and Flush returns it.
func (s *Screen) Print(format string, args ...any) {
	fmt.Fprintf(s.Out, format, args...)
}

// Paragraph prints text behind a lead of so many columns. On a terminal it goes on below itself at the edge.
func (s *Screen) Paragraph(lead string, columns int, text string) {
	lines := []string{Clean(text)}
	if s.OutTerminal && s.Width > 0 {
		lines = Wrap(lines[0], max(s.Width-columns, leastWidth))
	}
	for _, line := range lines {
		s.Print("%s%s\n", lead, line)
		lead = strings.Repeat(" ", columns)
	}
}

// Flush writes what was printed.
func (s *Screen) Flush() error {
	if err := s.Out.Flush(); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}

// Clear empties a terminal and begins at its upper left corner.
func (s *Screen) Clear() { s.Print("\x1b[H\x1b[2J") }
