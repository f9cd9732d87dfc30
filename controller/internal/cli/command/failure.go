package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/words"
	"tandem.internal/shared/wire"
)

// The exit statuses.
const (
	ExitOK          = 0
	ExitRefused     = 1 // a rule says no
	ExitUsage       = 2 // the command line or a file is malformed
	ExitUnreachable = 3 // no controller answers, or it cannot write to its disk
	ExitIncomplete  = 4 // accepted, but not every node got there
)

// Failure is why the program does not exit with 0.
type Failure struct {
	Exit     int
	Err      *wire.Error
	Problems []*wire.Error // all of them, Err first; nil: Err alone
	From     Source        // what lines and columns of Err and Problems belong to
	Sources  []Source      // of each of the problems; nil: From is that of all
	Where    string        // socket or address, when the error is about that
}

// Source is a file that was read.
type Source struct {
	File string // name for people; "": none
	Text []byte // content, for excerpts
}

func (f *Failure) source(i int) Source {
	if i < len(f.Sources) {
		return f.Sources[i]
	}
	return f.From
}

// Error is one line.
func (f *Failure) Error() string { return f.Err.Error() }

// Refuse is a failure with this exit status.
func Refuse(exit int, code wire.Code, format string, args ...any) *Failure {
	return &Failure{Exit: exit, Err: wire.New(code, "", fmt.Sprintf(format, args...))}
}

// Usage is a mistake on the command line.
func Usage(format string, args ...any) error {
	return Refuse(ExitUsage, wire.CodeInvalidArgument, format, args...)
}

// Malformed is the failure of a document with problems.
func Malformed(problems []*wire.Error, from Source) *Failure {
	return &Failure{Exit: ExitUsage, Err: problems[0], Problems: problems, From: from}
}

// Unreadable is the failure of a file that cannot be read or written.
func Unreadable(file string, err error) error {
	f := Refuse(ExitUsage, wire.CodeInvalidArgument, "%s", err)
	f.From.File = file
	var p *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.Err = wire.New(wire.CodeNotFound, "", "there is no such file")
	case errors.Is(err, fs.ErrPermission):
		f.Err = wire.New(wire.CodeNotAllowed, "", "you may not read or write this file")
	case full(err):
		f.Err = wire.New(wire.CodeStorage, "", "the disk is full, or the quota of it is used up: free some")
	case errors.Is(err, syscall.EISDIR):
		f.Err.Message = "this is a directory"
	case errors.As(err, &p):
		f.Err.Message = p.Err.Error()
	}
	return f
}

// full reports whether a disk did not take something for want of room.
func full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// Join makes one failure of several: with the status of the first, and all of their problems. nil: there are none.
func Join(all []error) error {
	all = slices.CompactFunc(slices.Clone(all), func(a, b error) bool { return a.Error() == b.Error() })
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	out := &Failure{}
	for i, err := range all {
		f := *AsFailure(err)
		if i == 0 {
			out.Exit, out.Err, out.Where = f.Exit, f.Err, f.Where
		}
		if len(f.Problems) == 0 {
			f.Problems = []*wire.Error{f.Err}
		}
		for k, p := range f.Problems {
			out.Problems, out.Sources = append(out.Problems, p), append(out.Sources, f.source(k))
		}
	}
	return out
}

// exits are the statuses for codes in a controller's answer; for others it is ExitRefused.
var exits = map[wire.Code]int{
	wire.CodeMalformed:       ExitUsage,
	wire.CodeUnknownField:    ExitUsage,
	wire.CodeDuplicate:       ExitUsage,
	wire.CodeMissing:         ExitUsage,
	wire.CodeBadValue:        ExitUsage,
	wire.CodeWrongVersion:    ExitUsage,
	wire.CodeTooLarge:        ExitUsage,
	wire.CodeInvalidArgument: ExitUsage,
	wire.CodeUnavailable:     ExitUnreachable,
	wire.CodeStorage:         ExitUnreachable,
}

// AsFailure makes any error one that can be reported.
func AsFailure(err error) *Failure {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	if u, ok := errors.AsType[*client.Unreachable](err); ok {
		f := Refuse(ExitUnreachable, wire.CodeUnavailable, "no controller answers: %s", u.Hint)
		f.Where = u.Where
		return f
	}
	if e, ok := errors.AsType[*wire.Error](err); ok {
		f := &Failure{Exit: ExitRefused, Err: e}
		if n, ok := exits[e.Code]; ok {
			f.Exit = n
		}
		return f
	}
	if errors.Is(err, context.Canceled) {
		return Refuse(ExitUnreachable, wire.CodeUnavailable, "interrupted before the controller had answered")
	}
	return Refuse(ExitRefused, wire.CodeInternal, "%s", err)
}

// MaxShown is how many of many problems are printed.
const MaxShown = 20

// MaxLogPieces is how many pieces of its log an agent is asked for, unless somebody follows it: it may write faster
// than it is read, or only say so.
const MaxLogPieces = 64

// secrets are tokens and keys, known by how they begin. Who gives one where a name is expected finds it in no error.
var secrets = regexp.MustCompile(`\b(?:td[a-z]1\.|whsec_|AGE-SECRET-KEY-)[A-Za-z0-9+/=_-]{8,}`)

// report writes a failure to standard error.
func (a *App) report(f *Failure) {
	text := f.json
	if !a.JSON {
		text = f.text
	}
	if _, err := a.Err.Write([]byte(secrets.ReplaceAllString(text(), "(a secret, which is not shown)"))); err != nil {
		return // nobody is listening any more
	}
}

func (f *Failure) text() string {
	var b strings.Builder
	all := f.Problems
	if len(all) == 0 {
		all = []*wire.Error{f.Err}
	}
	for i, e := range all {
		if i == MaxShown {
			fmt.Fprintf(&b, "tandem: and %d more\n", len(all)-i)
			break
		}
		from := f.source(i)
		b.WriteString("tandem: " + words.Sentence(e, from.File, f.Where) + "\n")
		b.WriteString(term.Excerpt(from.Text, e.Line, e.Column))
	}
	return b.String()
}

// failureJSON is what --json prints of a failure.
type failureJSON struct {
	Error    *wire.Error   `json:"error"`
	File     string        `json:"file,omitempty"`
	Problems []problemJSON `json:"problems,omitempty"`
}

type problemJSON struct {
	*wire.Error
	File string `json:"file,omitempty"` // if it is not that of all
}

func (f *Failure) json() string {
	out := failureJSON{Error: f.Err, File: f.source(0).File}
	for i, e := range f.Problems {
		p := problemJSON{Error: e}
		if len(f.Sources) > 0 {
			p.File = f.source(i).File
		}
		out.Problems = append(out.Problems, p)
	}
	line, err := json.Marshal(out, json.Deterministic(true))
	if err != nil {
		line = []byte(`{"error":{"code":"internal","message":"the error cannot be written as JSON"}}`)
	}
	return string(term.EscapeJSON(line)) + "\n"
}

// Brief is words.Brief.
func Brief(e *wire.Error) string { return words.Brief(e) }

// Rest waits so long. It returns false if ctx ends before.
func Rest(ctx context.Context, d time.Duration) bool {
	pause := time.NewTimer(d)
	defer pause.Stop()
	select {
	case <-pause.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Interrupted is nil if a command that goes on until it is interrupted has ended for that, else err.
func Interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
