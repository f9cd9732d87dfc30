package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/owner"
	"tandem.internal/shared/settings"
)

const journalUsage = `Usage: tandem-controller journal verify FILE [--export EXPORT]... [--json]
       tandem-controller journal compact FILE [--json]
       tandem-controller journal export FILE
       tandem-controller journal backup FILE COPY [--replace]

Works on the file of a journal on which no controller runs: of a stopped one, or a backup.

verify   checks that the journal is what was written, and each EXPORT of what was removed from it
         (--keep-export of the controller); exit status 1: one of them is not
compact  makes the file as small as its contents; root's acts as the user who owns the directory
export   prints the records as JSON lines
backup   writes a copy; --replace: also where a file stands
`

var journalVerbs = []string{"verify", "compact", "export", "backup"}

// errDamaged says what to do after verify has printed its findings.
var errDamaged = errors.New("the journal is damaged; restore a backup")

// usageError is a mistake in the arguments, or about the file that they name: exit status 2.
type usageError struct{ error }

// journalCommand carries out what follows the word journal and returns the exit status.
func journalCommand(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := onJournal(ctx, args, stdout)
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "tandem-controller:", err)
	if _, usage := errors.AsType[usageError](err); usage || errors.Is(err, fs.ErrNotExist) ||
		errors.Is(err, fs.ErrPermission) || errors.Is(err, journal.ErrNotJournal) ||
		errors.Is(err, journal.ErrNotExport) {
		return 2
	}
	return 1
}

// journalArgs are the arguments of a verb.
type journalArgs struct {
	files         []string
	exports       []string // of verify
	json, replace bool
}

func onJournal(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) == 0 || slices.ContainsFunc(args[:min(len(args), 2)], func(arg string) bool {
		return arg == "--help" || arg == "-h"
	}) {
		_, err := io.WriteString(stdout, journalUsage)
		return err
	}
	verb := args[0]
	a, err := parseJournalArgs(verb, args[1:])
	if err != nil {
		return usageError{err}
	}
	switch verb {
	case "verify":
		return verifyFile(ctx, a, stdout)
	case "compact":
		return compactFile(a, stdout)
	case "export":
		return openJournal(a.files[0], func(j *journal.Journal) error { return j.Export(stdout, journal.Filter{}) })
	case "backup":
		return backupFile(a, stdout)
	}
	return usageError{settings.Unexpected(args, journalVerbs)}
}

func parseJournalArgs(verb string, args []string) (a journalArgs, err error) {
	want := 1
	if verb == "backup" {
		want = 2
	}
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		export, is := strings.CutPrefix(arg, "--export=")
		switch {
		case verb == "verify" && (is || arg == "--export"):
			if !is && len(args) == 0 {
				return a, errors.New("--export needs the name of a file")
			} else if !is {
				export, args = args[0], args[1:]
			}
			a.exports = append(a.exports, export)
		case arg == "--json" && (verb == "verify" || verb == "compact"):
			a.json = true
		case arg == "--replace" && verb == "backup":
			a.replace = true
		case strings.HasPrefix(arg, "-") || len(a.files) == want:
			return a, settings.Unexpected([]string{arg}, nil)
		default:
			a.files = append(a.files, arg)
		}
	}
	if len(a.files) < want {
		return a, fmt.Errorf("journal %s needs %d file name(s); --help shows the usage", verb, want)
	}
	return a, nil
}

// openJournal opens a file for f, for reading.
func openJournal(file string, f func(*journal.Journal) error) (err error) {
	j, err := journal.Open(file, journal.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	return f(j)
}

// verification is what verify prints with --json.
type verification struct {
	op.Verification
	Exports []journal.ExportProof `json:"exports,omitempty"`
}

func verifyFile(ctx context.Context, a journalArgs, stdout io.Writer) error {
	var v verification
	text, whole := "", true
	err := openJournal(a.files[0], func(j *journal.Journal) error {
		proof, err := j.Verify(ctx)
		v.OK, v.Report = proof.OK(), proof.String()
		text = v.Report
		for _, file := range a.exports {
			if err != nil {
				break
			}
			var e journal.ExportProof
			e, err = j.VerifyExport(ctx, file)
			v.Exports = append(v.Exports, e)
			text, whole = text+"\n"+e.String(), whole && e.OK()
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := show(stdout, a.json, v, term.CleanLines(text)); err != nil {
		return err
	}
	switch {
	case !v.OK:
		return errDamaged
	case !whole:
		return errors.New("an export is not what was written, or not of this journal")
	}
	return nil
}

// compactFile replaces the file. If root runs it, it does so as the user who owns its directory, where it is named and
// where that leads to.
func compactFile(a journalArgs, stdout io.Writer) error {
	for _, find := range []func(string) (string, error){filepath.Abs, filepath.EvalSymlinks} {
		file, err := find(a.files[0])
		if err != nil {
			break // what is not there, the journal says in its own words
		}
		if err := owner.Become(filepath.Dir(file)); errors.Is(err, owner.ErrUnsafe) {
			return usageError{err}
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	before, after, err := journal.CompactFile(a.files[0], journal.Options{})
	if err != nil {
		return err
	}
	size := struct {
		Before int64 `json:"before"` // bytes
		After  int64 `json:"after"`
	}{before, after}
	return show(stdout, a.json, size,
		fmt.Sprintf("%s: %s, was %s", a.files[0], term.Size(uint64(after)), term.Size(uint64(before))))
}

func backupFile(a journalArgs, stdout io.Writer) error {
	to := a.files[1]
	if info, err := os.Lstat(to); err == nil && !durable.Replaceable(info) {
		return usageError{fmt.Errorf("%s is not a regular file and was left alone", to)}
	} else if err == nil && !a.replace {
		return usageError{fmt.Errorf("%s exists and was left alone; --replace replaces it", to)}
	}
	if err := openJournal(a.files[0], func(j *journal.Journal) error { return j.BackupFile(to) }); err != nil {
		return err
	}
	return show(stdout, false, nil, "wrote "+to)
}

// show prints v as JSON, or the text.
func show(stdout io.Writer, asJSON bool, v any, text string) error {
	if asJSON {
		line, err := json.Marshal(v)
		if err != nil {
			return err
		}
		text = string(line)
	}
	_, err := fmt.Fprintln(stdout, text)
	return err
}
