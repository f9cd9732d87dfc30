package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"filippo.io/age"

	"tandem.internal/controller/app"
	"tandem.internal/controller/internal/backup"
	"tandem.internal/controller/internal/passphrase"
	"tandem.internal/controller/internal/term"
	"tandem.internal/shared/durable"
)

type createIn struct {
	app.Config
	To               []string `name:"to"`
	Passphrase       string   `name:"passphrase-file"`
	WithoutArtefacts bool     `name:"without-artefacts"`
	Final            bool     `name:"final"`
}

func (*createIn) Help() map[string]string {
	return map[string]string{
		"to": "public keys of age, age1…, for whom the backup is encrypted (none: --backup-to; without that: for a " +
			"passphrase)",
		"passphrase-file":   "file whose first line is the passphrase, - for standard input",
		"without-artefacts": "leave the artefacts out: nodes that need one wait until the same file is added again",
		"final": "the unit goes on on another machine: no controller starts on the state directory any " +
			"more",
	}
}

func (*createIn) Usage() string {
	return `Usage: tandem-controller backup create FILE [flags]

Writes a backup of a unit whose controller is stopped; for one that runs there is "tandem backup create".
The settings are those with which the controller is started. With --final the unit moves: when the backup
is whole and on the disk, no controller starts here any more, and the two never contradict each other.

Example:
  systemctl disable --now tandem-controller
  tandem-controller backup create line4.age --config /etc/tandem/controller.yaml --to age1… --final

`
}

func createBackup(ctx context.Context, args []string, t *terminal, stdout io.Writer) (err error) {
	var in createIn
	file, err := load("create", &in, args, stdout)
	if err != nil {
		return err
	}
	to, err := in.recipients(t)
	if err != nil {
		return err
	}
	if info, err := os.Lstat(file); err == nil {
		return usageError{fmt.Errorf("%s is there already (%v) and was left alone", file, info.Mode())}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); !errors.Is(cerr, fs.ErrClosed) {
			err = errors.Join(err, cerr)
		}
		if rerr := os.Remove(f.Name()); !errors.Is(rerr, fs.ErrNotExist) { // it has another name, if all went well
			err = errors.Join(err, rerr)
		}
	}()
	done := func() error {
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
		return durable.Replace(f.Name(), file)
	}
	m, err := app.BackupStopped(ctx, in.Config, f, to, !in.WithoutArtefacts, in.Final, time.Now(), file, done)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("wrote %s, up to record %d", file, m.Seq)
	if in.Final {
		text += "; no controller starts on " + in.StateDir + " any more"
	}
	return show(stdout, false, nil, text)
}

func (in *createIn) recipients(t *terminal) ([]age.Recipient, error) {
	keys := in.To
	if len(keys) == 0 && in.Passphrase == "" {
		keys = in.BackupTo
	}
	if len(keys) > 0 {
		if in.Passphrase != "" {
			return nil, usageError{errors.New("--to and --passphrase-file exclude each other")}
		}
		all, err := backup.Recipients(keys)
		if err != nil {
			err = usageError{fmt.Errorf("--to: %w", err)}
		}
		return all, err
	}
	text, err := t.passphrase(in.Passphrase, true)
	if err != nil {
		return nil, err
	}
	one, err := passphrase.Recipient(text)
	return []age.Recipient{one}, err
}

// terminal is where a passphrase is asked for.
type terminal struct {
	in  *os.File
	out io.Writer
}

// passphrase reads the first line of a file, - for standard input, or asks; twice if a slip would go unnoticed.
func (t *terminal) passphrase(file string, twice bool) (string, error) {
	if file != "" {
		line, err := term.SecretLine(file, t.in)
		if errors.Is(err, term.ErrEmpty) {
			err = usageError{fmt.Errorf("--passphrase-file: %w", err)}
		}
		return line, err
	}
	if !term.IsTerminal(t.in) {
		return "", usageError{errors.New("the key or the passphrase of the backup is needed; --help shows the flags")}
	}
	first, err := term.AskSecret(t.in, t.out, "Passphrase of the backup")
	if err == nil && first == "" {
		err = usageError{errors.New("an empty passphrase protects nothing")}
	}
	if err != nil || !twice {
		return first, err
	}
	if again, err := term.AskSecret(t.in, t.out, "Once more"); err != nil || again != first {
		return "", errors.Join(err, usageError{errors.New("the two passphrases differ")})
	}
	return first, nil
}
