package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/client"
	"tandem.internal/shared/wire"
)

// failure is why the program does not exit with 0.
type failure struct {
	exit     int
	err      *wire.Error
	problems []*wire.Error // all of them, err first; nil: err alone
	file     string        // what the lines and columns of err and problems belong to
	where    string        // socket or address, when the error is about that
	source   []byte        // of file, for excerpts
	origins  []origin      // of each of the problems, where they are of several files; nil: all are of file
}

// origin is a file, and what is in it.
type origin struct {
	file   string
	source []byte
}

// of is the file of one of the problems.
func (f *failure) of(i int) origin {
	if i < len(f.origins) {
		return f.origins[i]
	}
	return origin{f.file, f.source}
}

// Error is one line.
func (f *failure) Error() string { return f.err.Error() }

// usage is a mistake on the command line.
func usage(format string, args ...any) error {
	return &failure{exit: exitUsage, err: wire.New(wire.CodeInvalidArgument, "", fmt.Sprintf(format, args...))}
}

// unreadable is a file that cannot be read.
func unreadable(file string, err error) error {
	f := &failure{exit: exitUsage, file: file, err: wire.New(wire.CodeInvalidArgument, "", err.Error())}
	var p *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.err = wire.New(wire.CodeNotFound, "", "there is no such file")
	case errors.Is(err, fs.ErrPermission):
		f.err = wire.New(wire.CodeNotAllowed, "", "you may not read or write this file")
	case errors.Is(err, syscall.EISDIR):
		f.err.Message = "this is a directory"
	case errors.As(err, &p):
		f.err.Message = p.Err.Error()
	}
	return f
}

// exits says how the program ends when a controller answers with this code; else with 1.
var exits = map[wire.Code]int{
	wire.CodeMalformed:       exitUsage,
	wire.CodeUnknownField:    exitUsage,
	wire.CodeDuplicate:       exitUsage,
	wire.CodeMissing:         exitUsage,
	wire.CodeBadValue:        exitUsage,
	wire.CodeWrongVersion:    exitUsage,
	wire.CodeTooLarge:        exitUsage,
	wire.CodeInvalidArgument: exitUsage,
	wire.CodeUnavailable:     exitUnreachable,
}

// asFailure makes any error one that can be reported.
func asFailure(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	if u, ok := errors.AsType[*client.Unreachable](err); ok {
		return &failure{exit: exitUnreachable, where: u.Where, err: wire.New(wire.CodeUnavailable, "", "no controller answers: "+u.Hint)}
	}
	if e, ok := errors.AsType[*wire.Error](err); ok {
		f := &failure{exit: exitRefused, err: e}
		if n, ok := exits[e.Code]; ok {
			f.exit = n
		}
		return f
	}
	if errors.Is(err, context.Canceled) {
		return &failure{exit: exitUnreachable, err: wire.New(wire.CodeUnavailable, "", "interrupted before the controller had answered")}
	}
	return &failure{exit: exitRefused, err: wire.New(wire.CodeInternal, "", err.Error())}
}

// maxShown bounds the problems that are printed one by one.
const maxShown = 20

// report writes a failure to standard error.
func (a *app) report(f *failure) {
	var b strings.Builder
	if a.json {
		type placed struct {
			*wire.Error
			File string `json:"file,omitempty"` // if it is not that of all
		}
		problem := struct {
			Error    *wire.Error `json:"error"`
			File     string      `json:"file,omitempty"`
			Problems []placed    `json:"problems,omitempty"`
		}{Error: f.err, File: f.of(0).file}
		for i, e := range f.problems {
			p := placed{Error: e}
			if len(f.origins) > 0 {
				p.File = f.of(i).file
			}
			problem.Problems = append(problem.Problems, p)
		}
		line, err := json.Marshal(problem, json.Deterministic(true))
		if err != nil {
			line = []byte(`{"error":{"code":"internal","message":"the error cannot be written as JSON"}}`)
		}
		b.Write(escaped(line))
		b.WriteByte('\n')
	} else {
		all := f.problems
		if len(all) == 0 {
			all = []*wire.Error{f.err}
		}
		for i, e := range all {
			if i == maxShown {
				fmt.Fprintf(&b, "tandem: and %d more\n", len(all)-i)
				break
			}
			from := f.of(i)
			b.WriteString("tandem: " + sentence(e, from.file, f.where) + "\n")
			b.WriteString(excerpt(from.source, e.Line, e.Column))
		}
	}
	if _, err := a.Err.Write([]byte(b.String())); err != nil {
		return // nobody is listening any more
	}
}

// sentence renders "CODE: message (where)".
func sentence(e *wire.Error, file, where string) string {
	var places []string
	switch {
	case file != "" && e.Line > 0:
		places = append(places, fmt.Sprintf("%s:%d:%d", file, e.Line, e.Column))
	case file != "":
		places = append(places, file)
	case e.Line > 0:
		places = append(places, fmt.Sprintf("line %d, column %d", e.Line, e.Column))
	}
	if e.Path != "" {
		places = append(places, "at "+e.Path)
	}
	if e.Node != "" {
		places = append(places, "node "+e.Node)
	}
	if where != "" {
		places = append(places, where)
	}
	s := string(e.Code) + ": " + e.Message
	if len(places) > 0 {
		s += " (" + strings.Join(places, ", ") + ")"
	}
	return multiline(s)
}

// brief renders an error for a table.
func brief(e *wire.Error) string {
	if e == nil {
		return ""
	}
	return clean(sentence(e, "", ""))
}
