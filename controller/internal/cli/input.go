package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// input is a unit configuration that was read here.
type input struct {
	name     string // for people
	document []byte
	config   *unitconfig.UnitConfig
}

// read reads and parses a file, or standard input for "-". What is malformed is a failure that
// names every place.
func (a *app) read(file string) (*input, error) {
	in := &input{name: file}
	var err error
	if file == "-" {
		in.name = "standard input"
		in.document, err = io.ReadAll(io.LimitReader(a.In, unitconfig.MaxDocument+1))
	} else {
		in.document, err = readFile(file)
	}
	if err != nil {
		return nil, unreadable(in.name, err)
	}
	if len(in.document) > unitconfig.MaxDocument {
		return nil, tooLarge(in.name)
	}
	var problems unitconfig.Problems
	if in.config, problems = unitconfig.Parse(in.document); len(problems) > 0 {
		return nil, &failure{exit: exitUsage, err: problems[0], problems: problems, file: in.name, source: in.document}
	}
	return in, nil
}

// tooLarge is the failure for a file of which no more was read than tells that.
func tooLarge(file string) error {
	return &failure{exit: exitUsage, file: file, err: wire.New(wire.CodeTooLarge, "", fmt.Sprintf("the document is larger than %s", size(unitconfig.MaxDocument)))}
}

// readFile reads no more of a file than tells that it is too large.
func readFile(file string) (data []byte, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.LimitReader(f, unitconfig.MaxDocument+1))
}

// isFile says whether an argument of diff is a file and not a version.
func isFile(arg string) bool {
	if arg == "-" {
		return true
	}
	_, err := unitconfig.Compare(arg, arg)
	return err != nil
}

// documentProblems is the failure for problems that the controller found and we did not.
func documentProblems(problems []*wire.Error, in *input) *failure {
	f := &failure{exit: exitUsage, err: problems[0], problems: problems}
	if in != nil {
		f.file, f.source = in.name, in.document
	}
	return f
}
