// Package command owns what the commands of the operator's program share: the run and its surroundings (App), the
// connection to a controller, failures and exit statuses, arguments and flags, corrections of what was mistyped,
// and files.
//
// It guarantees that
//   - standard output has results only; errors and progress go to standard error; with --json both are JSON;
//   - an error of the command line or of a file is reported before a controller is asked;
//   - files are written whole and durable, or not at all.
//
// It has no command of its own. Everything from the surroundings comes in by IO.
package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/term"
	"tandem.internal/shared/wire"
)

// IO is the program's surroundings.
type IO struct {
	In          io.Reader
	Out, Err    io.Writer
	Env         func(string) (string, bool)
	Now         func() time.Time
	Zone        *time.Location // of the times shown
	User        string         // the person's name, for the journal; nobody checks it
	OutTerminal bool           // Out is a terminal
	ErrTerminal bool           // Err is a terminal
	InTerminal  bool           // In is one
	Width       int            // columns of the terminal; 0: unknown
	Kinds       kind.Set       // of documents; zero: those that the controller knows
	Config      string         // directory of what this user has set; "": there is none
	// takes the whole terminal; nil: In or Out is none
	Console func() (Console, error)
}

// Console is a terminal of which the whole screen is drawn.
type Console interface {
	io.Writer
	Size() (columns, lines int, err error)
	Keys(ctx context.Context) ([]byte, error) // what was typed; it waits for something, or for the end of ctx
	Close() error                             // the terminal is as it was before
}

// App is one run of the program.
type App struct {
	*term.Screen
	In     io.Reader
	Env    func(string) (string, bool)
	User   string   // as in IO
	Kinds  kind.Set // as in IO
	Config string   // as in IO
	JSON   bool     // --json

	Console func() (Console, error) // as in IO

	asks      bool // somebody can be asked: In and Err are a terminal
	socket    string
	url       string
	ca        string
	tokenFile string
	context   string
	timeout   Duration
}

// New begins a run.
func New(s IO) *App {
	noColor, _ := s.Env("NO_COLOR")
	kind, _ := s.Env("TERM")
	return &App{
		Screen: &term.Screen{
			Out: bufio.NewWriter(s.Out), Err: s.Err, Now: s.Now, Zone: s.Zone, Width: s.Width,
			OutTerminal: s.OutTerminal, ErrTerminal: s.ErrTerminal,
			Colours: s.OutTerminal && noColor == "" && kind != "dumb",
		},
		asks: s.InTerminal && s.ErrTerminal,
		In:   s.In, Env: s.Env, User: s.User, Kinds: s.Kinds,
		Config: s.Config, Console: s.Console, timeout: Duration(30 * time.Second),
	}
}

// UnitSource names the source of the unit's own document, "" if there is none.
func (a *App) UnitSource() wire.Kind {
	if src := a.Kinds.Copied(); src != nil {
		return src.Name
	}
	return ""
}

// End writes what is left of the output, reports err if there is one, and returns the exit status.
func (a *App) End(err error) int {
	if flushed := a.Flush(); err == nil {
		err = flushed
	}
	if err == nil {
		return ExitOK
	}
	f := AsFailure(err)
	a.report(f)
	return f.Exit
}

// PrintJSON writes v on one line.
func (a *App) PrintJSON(v any) error {
	data, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	a.Print("%s\n", term.EscapeJSON(data))
	return nil
}

// PrintIndented writes JSON for people.
func (a *App) PrintIndented(doc jsontext.Value) error {
	doc = slices.Clone(doc)
	if err := doc.Indent(jsontext.WithIndent("  ")); err != nil {
		return fmt.Errorf("reading the document: %w", err)
	}
	a.Print("%s\n", term.EscapeJSON(doc))
	return nil
}

// PrintDocument writes a document as it is, and ends its last line.
func (a *App) PrintDocument(doc []byte) {
	a.Print("%s", doc)
	if n := len(doc); n > 0 && doc[n-1] != '\n' {
		a.Print("\n")
	}
}

// Warn writes a line for people to standard error. With --json it writes nothing.
func (a *App) Warn(format string, args ...any) {
	if !a.JSON {
		fmt.Fprintf(a.Err, "tandem: %s\n", term.CleanLines(fmt.Sprintf(format, args...)))
	}
}

// Question asks whoever is at the terminal and returns what was typed; false: nobody is there, or with --json.
func (a *App) Question(text string) (answer string, asked bool, err error) {
	if !a.asks || a.JSON {
		return "", false, nil
	}
	if _, err := fmt.Fprint(a.Err, term.CleanLines(text)); err != nil {
		return "", false, err
	}
	line, err := bufio.NewReader(a.In).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", true, err
	}
	return strings.TrimSpace(line), true, nil
}

// User is the name of the person who runs the program: behind sudo, the one who called it.
func User(env func(string) (string, bool)) string {
	if name, ok := env("SUDO_USER"); ok && name != "" {
		return name
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}
