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
	"time"

	"filippo.io/age"

	"tandem.internal/controller/app"
	"tandem.internal/controller/internal/backup"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/term"
	"tandem.internal/shared/owner"
	"tandem.internal/shared/settings"
)

const backupUsage = `Usage: tandem-controller backup verify FILE --identity KEYS
       tandem-controller backup restore FILE --identity KEYS [--state-dir DIR] [--revoked NAME]...
       tandem-controller backup create FILE --unit UNIT [--to KEY]... [--final]

Works on a backup of a unit (tandem backup create), and on state directories on which no controller
runs. Instead of a file of secret keys of age, --passphrase-file FILE, or the terminal, has a passphrase.

verify   reads all of a backup and says what it has; exit status 1: it is damaged
restore  brings the unit back, in an empty state directory; root's acts as the user who owns it
create   writes one of a stopped controller; with --final the unit is to go on elsewhere, and no
         controller starts on the directory any more

Each verb has --help.
`

var backupVerbs = []string{"verify", "restore", "create"}

// backupCommand carries out what follows the word backup and returns the exit status.
func backupCommand(ctx context.Context, args []string, stdin *os.File, stdout, stderr io.Writer) int {
	err := onBackup(ctx, args, &terminal{stdin, stderr}, stdout)
	if err == nil || errors.Is(err, settings.ErrPrinted) {
		return 0
	}
	fmt.Fprintln(stderr, "tandem-controller:", err)
	if errors.Is(err, backup.ErrDamaged) {
		return 1
	}
	_, flags := errors.AsType[*settings.Error](err)
	_, config := errors.AsType[*app.UsageError](err)
	if _, usage := errors.AsType[usageError](err); usage || flags || config || errors.Is(err, fs.ErrNotExist) ||
		errors.Is(err, fs.ErrPermission) || errors.Is(err, backup.ErrKey) || errors.Is(err, journal.ErrNotJournal) {
		return 2
	}
	return 1
}

func onBackup(ctx context.Context, args []string, t *terminal, stdout io.Writer) error {
	if len(args) == 0 || args[0] == "--help" || args[0] == "-h" {
		_, err := io.WriteString(stdout, backupUsage)
		return err
	}
	switch args[0] {
	case "verify":
		return verifyBackup(ctx, args[1:], t, stdout)
	case "restore":
		return restoreBackup(ctx, args[1:], t, stdout)
	case "create":
		return createBackup(ctx, args[1:], t, stdout)
	}
	return usageError{settings.Unexpected(args, backupVerbs)}
}

// load reads the flags of a verb, and the one file that it works on.
func load(verb string, cfg settings.Config, args []string, stdout io.Writer) (file string, err error) {
	rest, err := settings.Load("tandem-controller backup "+verb, cfg, args, os.LookupEnv, stdout)
	if err != nil {
		return "", err
	}
	if len(rest) != 1 {
		return "", usageError{fmt.Errorf("backup %s needs one file name, not %d; --help shows the usage", verb,
			len(rest))}
	}
	return rest[0], nil
}

// keys say what opens a backup.
type keys struct {
	Identity   string `name:"identity"`
	Passphrase string `name:"passphrase-file"`
	JSON       bool   `name:"json"`
}

func (*keys) Help() map[string]string {
	return map[string]string{
		"identity": "file of secret keys of age, as age-keygen writes it",
		"passphrase-file": "file whose first line is the passphrase, - for standard input (empty, and no --identity: " +
			"it is asked for)",
		"json": "print the outcome as JSON",
	}
}

func (k *keys) identities(t *terminal) ([]age.Identity, error) {
	if k.Identity != "" && k.Passphrase != "" {
		return nil, usageError{errors.New("--identity and --passphrase-file exclude each other")}
	}
	if k.Identity == "" {
		text, err := t.passphrase(k.Passphrase, false)
		if err != nil {
			return nil, err
		}
		return backup.Identities("", text)
	}
	text, err := term.SecretFile(k.Identity, t.in)
	if err != nil {
		return nil, err
	}
	all, err := backup.Identities(string(text), "")
	if err != nil {
		return nil, usageError{fmt.Errorf("--identity %s: %w", k.Identity, err)}
	}
	return all, nil
}

type verifyIn struct{ keys }

func (*verifyIn) Help() map[string]string { return nil }

func (*verifyIn) Usage() string {
	return `Usage: tandem-controller backup verify FILE [flags]

Reads all of a backup, and checks each entry, artefacts, and the journal's chain; reads keys, tokens, lists
and settings as a controller does, and compares the keys with those that the journal names. It prints their
fingerprints: compare them with what you have on paper. The journal is put into a temporary directory for
that ($TMPDIR). Verify backups where the key is, not on the gateway.

Example:
  tandem-controller backup verify line4.age --identity backup.key

`
}

func verifyBackup(ctx context.Context, args []string, t *terminal, stdout io.Writer) (err error) {
	var in verifyIn
	file, err := load("verify", &in, args, stdout)
	if err != nil {
		return err
	}
	ids, err := in.identities(t)
	if err != nil {
		return err
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close() // it was only read
	v, err := app.VerifyBackup(ctx, f, ids, "")
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	o := outcomeOf(v.Proof)
	o.Keys, o.CAs, o.Root, o.Mistakes = v.Keys, v.CAs, v.Root, v.Mistakes
	if err := show(stdout, in.JSON, o, describe(v.Proof)+prints(v)); err != nil || len(v.Mistakes) == 0 {
		return err
	}
	return fmt.Errorf("%s: no controller could go on with it as the unit:\n  %s", file,
		term.CleanLines(strings.Join(v.Mistakes, "\n  ")))
}

// prints says which keys a backup has, for a look at what is on paper.
func prints(v app.Verified) string {
	var b strings.Builder
	for _, l := range []struct {
		what string
		all  []app.Trusted
	}{{"signing key", v.Keys}, {"CA", v.CAs}} {
		for _, k := range l.all {
			fmt.Fprintf(&b, "\n%s %s, %s", l.what, k.ID, k.State)
		}
	}
	for _, id := range v.Root {
		fmt.Fprintf(&b, "\nroot key %s", id)
	}
	return term.CleanLines(b.String())
}

// outcome is what verify and restore print with --json.
type outcome struct {
	Backup    backup.Manifest `json:"backup"`
	Journal   string          `json:"journal"`
	Damaged   []backup.Left   `json:"damaged"`
	Keys      []app.Trusted   `json:"keys,omitempty"`     // verify: signing keys
	CAs       []app.Trusted   `json:"cas,omitempty"`      // verify
	Root      []string        `json:"root,omitempty"`     // verify: IDs of root keys
	Mistakes  []string        `json:"mistakes,omitempty"` // verify: why no controller could go on with it
	StateDir  string          `json:"stateDir,omitempty"` // restored
	LostSince time.Time       `json:"lostSince,omitzero"` // restored: what happened since is lost
	Unheard   []string        `json:"unheard,omitempty"`  // restored: of --revoked, whom the backup does not know
	// restored: this machine's clock stands before the backup
	ClockBehind bool `json:"clockBehind,omitempty"`
}

func outcomeOf(p backup.Proof) outcome {
	return outcome{Backup: p.Manifest, Journal: p.Journal, Damaged: append([]backup.Left{}, p.Bad...)}
}

// describe says in words what a backup has.
func describe(p backup.Proof) string {
	var b strings.Builder
	m := p.Manifest
	var size int64
	artefacts := 0
	for _, f := range m.Files {
		size += f.Size
		if strings.HasPrefix(f.Name, "artefacts/") {
			artefacts++
		}
	}
	fmt.Fprintf(&b, "backup of the unit %s, made %s by version %s, up to record %d of epoch %d", m.Unit,
		m.At.Format(time.RFC3339), m.Program, m.Seq, m.Epoch)
	if m.Final {
		b.WriteString(": the last of its machine")
	}
	fmt.Fprintf(&b, "\n%s, %s of them artefacts; %s", term.Plural(len(m.Files), "file"), fmt.Sprint(artefacts),
		term.Size(uint64(size)))
	fmt.Fprintf(&b, "\njournal: %s", strings.Join(strings.Fields(p.Journal), " "))
	for _, l := range slices.Concat(m.Left, p.Bad) {
		fmt.Fprintf(&b, "\nnot in it: %s: %s", l.Name, l.Why)
	}
	return term.CleanLines(b.String())
}

type restoreIn struct {
	keys
	StateDir string   `name:"state-dir" default:"/var/lib/tandem/controller"`
	Revoked  []string `name:"revoked"`
}

func (*restoreIn) Help() map[string]string {
	return map[string]string{
		"state-dir": "the empty directory into which the unit is restored",
		"revoked": "who was revoked since the backup was made, which nobody else knows any more: a node, or " +
			"operator/NAME, cloud/NAME, broker/NAME, token/NAME",
	}
}

func (*restoreIn) Usage() string {
	return `Usage: tandem-controller backup restore FILE [flags]

Brings a unit back from a backup, on any machine: a controller that starts on the directory has its keys
and CAs, so that nodes trust it, and the journal, in a higher epoch. Name everybody who was revoked since the
backup. If root runs this, make the directory first, as its user's:

  install -d -m 0700 -o tandem-controller -g tandem /var/lib/tandem/controller

Example:
  tandem-controller backup restore line4.age --identity backup.key --revoked press-3

`
}

func restoreBackup(ctx context.Context, args []string, t *terminal, stdout io.Writer) (err error) {
	var in restoreIn
	file, err := load("restore", &in, args, stdout)
	if err != nil {
		return err
	}
	r := backup.Restore{Dir: in.StateDir, Now: time.Now}
	for _, name := range in.Revoked {
		subject, err := backup.ParseRevoked(name)
		if err != nil {
			return usageError{fmt.Errorf("--revoked: %w", err)}
		}
		r.Revoked = append(r.Revoked, subject)
	}
	ids, err := in.identities(t)
	if err != nil {
		return err
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close() // it was only read
	if err := owner.Become(in.StateDir); errors.Is(err, fs.ErrNotExist) && os.Geteuid() == 0 {
		return usageError{fmt.Errorf("%s is not there: make it, as the user's who runs the controller: install "+
			"-d -m 0700 -o tandem-controller -g tandem %s", in.StateDir, in.StateDir)}
	} else if errors.Is(err, owner.ErrUnsafe) {
		return usageError{err}
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	p, err := r.Run(ctx, f, ids)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	unheard, err := app.Unheard(in.StateDir, p.Manifest.Unit, r.Revoked)
	if err != nil {
		return fmt.Errorf("the unit is restored, but whether it knows those of --revoked cannot be told: %w", err)
	}
	o := outcomeOf(p)
	o.Unheard = unheard
	o.StateDir, o.LostSince, o.ClockBehind = in.StateDir, p.Manifest.At, p.Behind
	return show(stdout, in.JSON, o, describe(p)+"\n"+restored(in.StateDir, p, unheard))
}

// restored says what is to be done, and what was lost.
func restored(dir string, p backup.Proof, unheard []string) string {
	m := p.Manifest
	text := fmt.Sprintf("restored into %s; the settings are in %s: put them where they belong, and remove that "+
		"directory\n", dir, filepath.Join(dir, backup.SettingsDir))
	if m.Final {
		text += "nothing was lost, if no controller has run for this unit since; else:\n"
	}
	text += fmt.Sprintf(`lost is what happened after %s, record %d: what was submitted, made, enrolled or revoked
whoever was revoked since counts again, unless named with --revoked
open join tokens and links to the dashboard do not count any more`, m.At.Format(time.RFC3339), m.Seq)
	if p.Behind {
		text += `
warning: the clock of this machine stands before the backup: set it before you start the controller; nodes that
joined or renewed since the backup may have to join anew`
	}
	for _, subject := range unheard {
		text += fmt.Sprintf("\nwarning: the backup has never heard of %s: it is revoked all the same, but look "+
			"whether that is how it is spelt; if not, tandem node revoke the right one after the start", subject)
	}
	return text
}
