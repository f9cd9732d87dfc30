package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/nodeagent/app"
	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/nodeagent/internal/update"
	"tandem.internal/nodeagent/internal/update/disk"
	"tandem.internal/shared/owner"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/settings"
	"tandem.internal/shared/wire"
)

// slotConfig is the configuration of every tandem-node slot command.
type slotConfig struct {
	StateDir string `name:"state-dir" default:"/var/lib/tandem-node"`
	JSON     bool   `name:"json"`
	// Component is one that the agent's own --component names.
	Component string `name:"component"`
}

// Help describes the settings.
func (*slotConfig) Help() map[string]string {
	return map[string]string{
		"state-dir": "state directory of the agent",
		"json":      "print JSON",
		"component": "the component that is meant; empty: the agent itself",
	}
}

type stageConfig struct {
	slotConfig
	Version string `name:"want-version"`
	Hash    string `name:"hash"`
	Force   bool   `name:"force"`
	// Signature is a file.
	Signature string `name:"signature"`
}

// Help describes the settings.
func (*stageConfig) Help() map[string]string {
	return map[string]string{
		"want-version": "version that the binary has to say it is, empty: any; or that a component's file holds; may " +
			"be written --version",
		"hash": "hash that the file has to have, sha256:… as sha256sum prints it; empty: any",
		"signature": "file with a publisher's signature of the file, by minisign or tandem publisher sign-file; " +
			"empty: FILE.minisig, if it is there",
		"force": "also if the same content has failed here before",
	}
}

type tryConfig struct {
	slotConfig
	Tries   int    `name:"tries" default:"3"`
	Version string `name:"want-version"`
	Force   bool   `name:"force"`
}

// Help describes the settings.
func (*tryConfig) Help() map[string]string {
	return map[string]string{
		"tries":        "starts without a commit after which the good slot runs again, 1 to 10",
		"want-version": "of a component: version that must be staged, may be written --version; empty: any",
		"force":        "also if the same content has failed here before",
	}
}

type clearConfig struct {
	slotConfig
	Version string `name:"want-version"`
}

// Help describes the settings.
func (*clearConfig) Help() map[string]string {
	return map[string]string{
		"want-version": "version that is cleared, may be written --version; empty: all",
	}
}

type rollbackConfig struct {
	slotConfig
	Why string `name:"why" default:"by hand"`
}

// Help describes the settings.
func (*rollbackConfig) Help() map[string]string {
	return map[string]string{
		"why": "what to remember as the reason",
	}
}

const slotUsage = `Usage: tandem-node slot stage FILE [--version V] [--hash H] [--signature FILE] [--force]
       tandem-node slot try [SLOT] [--tries N] [--force]
       tandem-node slot status [--json]
       tandem-node slot approve|commit
       tandem-node slot rollback [--why TEXT]
       tandem-node slot clear [--version V]
       tandem-node slot adopt|upgrade
       tandem-node slot stage|try|approve|commit|rollback|clear --component os ...

Works on the A/B slots of this node, also while the agent runs. stage writes a binary to the free slot,
verifies it and lets it say its version. try lets the next start of the agent be a trial of it: unless it
is committed, the good slot runs again after the tries. approve lets the agent commit it once it has
proven itself, also where no controller was ever heard. commit keeps the slot on trial now, rollback
leaves it; without a trial, rollback goes back to the slot before. An agent that runs sees that within a
minute, and restarts itself for a trial and after its rollback; systemctl restart tandem-node does so at
once. Run it as the user of the agent, or as root, which acts as the owner of the state directory.

What has failed on trial is in quarantine: it is staged and tried again with --force only, until it or a
newer version is committed. clear forgets what has failed; status lists it.

If the agent has publishers' keys, what is staged needs a signature of this version by one of their
owners: FILE.minisig, or what --signature names.

A package calls adopt before it replaces this program, which keeps it in a slot, and upgrade afterwards,
which has the new one tried, if it is newer than what is in force.

With --component it is about another part of the node, which the agent updates by a program: if it runs,
it sees within seconds what is wanted; status tells what became of it.

Example:
  tandem-node slot stage ./tandem-node --version 1.4.0 && tandem-node slot try && systemctl restart tandem-node
`

var slotVerbs = []string{"stage", "try", "status", "approve", "commit", "rollback", "clear", "adopt", "upgrade"}

// Usage opens the help of tandem-node slot.
func (*slotConfig) Usage() string { return slotUsage }

// wantVersion renames the flag --version, which is every program's own.
func wantVersion(args []string) {
	for i, a := range args {
		if a == "--version" || strings.HasPrefix(a, "--version=") {
			args[i] = "--want-" + strings.TrimPrefix(a, "--")
		}
	}
}

// slotCommand runs one tandem-node slot command.
func slotCommand(ctx context.Context, args []string, stdout io.Writer, fail func(int, error) int) int {
	verb := "--help"
	if len(args) > 0 {
		verb, args = args[0], args[1:]
	}
	var (
		cfg   settings.Config
		base  *slotConfig
		stage stageConfig
		try   tryConfig
		back  rollbackConfig
		clean clearConfig
		plain slotConfig
		file  string // that is to be staged
	)
	least, most := 0, 0 // arguments
	switch verb {
	case "stage":
		cfg, base, least, most = &stage, &stage.slotConfig, 1, 1
	case "try":
		cfg, base, most = &try, &try.slotConfig, 1
	case "rollback":
		cfg, base = &back, &back.slotConfig
	case "clear":
		cfg, base = &clean, &clean.slotConfig
	case "adopt", "upgrade":
		cfg, base, file = &stage, &stage.slotConfig, "/proc/self/exe"
	case "status", "commit", "approve":
		cfg, base = &plain, &plain
	case "help", "--help", "-h":
		cfg, base, args = &plain, &plain, []string{"--help"}
	default:
		return fail(exitUsage, settings.Unexpected([]string{verb}, slotVerbs))
	}
	if verb == "stage" || verb == "try" || verb == "clear" {
		wantVersion(args)
	}
	rest, err := settings.Load("tandem-node slot "+verb, cfg, args, stateDirOnly, stdout)
	if errors.Is(err, settings.ErrPrinted) {
		return exitOK
	}
	if err == nil && len(rest) < least {
		err = fmt.Errorf("slot %s needs the name of a file; --help shows the usage", verb)
	} else if err == nil {
		err = settings.Unexpected(rest[min(most, len(rest)):], nil)
	}
	if err != nil {
		return fail(exitUsage, err)
	}
	file += strings.Join(rest[:least], "")
	s, from, err := openSlots(base.StateDir, file, stage.Signature)
	var on target
	if err == nil {
		defer from.close()
		on, err = openTarget(s, *base, printer{stdout, base.JSON})
	}
	if err == nil {
		switch verb {
		case "stage":
			err = on.stage(ctx, from, stage)
		case "try":
			err = on.try(rest, try)
		case "status":
			err = on.status()
		case "adopt", "upgrade":
			a, is := on.(agentTarget)
			if err = settings.Unexpected([]string{base.Component}, nil); is {
				err = a.packaged(ctx, verb, from, stage)
			}
		case "clear":
			err = on.clear(clean.Version)
		default:
			err = on.end(update.What(verb), back.Why)
		}
	}
	if err != nil {
		return fail(exitError, advise(err))
	}
	return exitOK
}

// where is the option that names the state directory again, unless it is the usual one.
func (c slotConfig) where() string {
	usual, _ := reflect.TypeFor[slotConfig]().FieldByName("StateDir")
	if c.StateDir == usual.Tag.Get("default") {
		return ""
	}
	return " --state-dir " + c.StateDir
}

// target is what a verb works on: the agent itself, or another component.
type target interface {
	stage(ctx context.Context, from source, cfg stageConfig) error
	try(rest []string, cfg tryConfig) error
	end(what update.What, why string) error // approve, commit or roll back
	clear(version string) error             // the quarantine
	status() error
}

func openTarget(s slots, cfg slotConfig, out printer) (target, error) {
	if cfg.Component == "" || cfg.Component == update.Name {
		return agentTarget{s.Store, cfg.StateDir, out}, nil
	}
	return openComponent(s, cfg.StateDir, cfg.Component, out)
}

// slots are those of a state directory, and who has to have signed what is staged there.
type slots struct {
	*slot.Store
	publishers publisher.Keys
}

// openSlots opens the slots in a state directory, as the user who owns it if root runs this, and what is to be staged,
// which perhaps only root may read; file is "" if that is nothing.
func openSlots(stateDir, file, signature string) (s slots, from source, err error) {
	dir, err := filepath.Abs(stateDir)
	if err != nil {
		return s, from, fmt.Errorf("state directory: %w", err)
	}
	if _, err := os.Stat(dir); err != nil {
		return s, from, advise(fmt.Errorf("state directory: %w; --state-dir names the agent's", err))
	}
	from.open(file, signature, owner.Open)
	if err = becomeOwner(dir, slot.Dir, disk.Dir); err == nil {
		err = from.openAsOwner(file, signature)
	}
	var floor string
	if err == nil {
		if s.publishers, floor, err = app.SharedPublishers(dir); err != nil {
			err = fmt.Errorf("the publishers' keys of the agent's newest start: %w", err)
		}
	}
	if err != nil {
		from.close()
		return s, from, advise(err)
	}
	s.Store = slot.Open(slot.Config{Dir: filepath.Join(dir, slot.Dir), Publishers: s.publishers,
		Floor: floor, Busy: func() error { return disk.Busy(dir, "") }})
	return s, from, nil
}

// advise adds to an error what to do about it.
func advise(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; run this as the user of the agent, and who runs it as root acts as that user", err)
	case errors.Is(err, slot.ErrChanged):
		return fmt.Errorf("%w; look at it (tandem-node slot status), and order it again if it is still wanted", err)
	case errors.Is(err, slot.ErrLocked):
		return fmt.Errorf("%w; wait for it and try again", err)
	}
	return err
}

// printer prints an answer for people or for programs.
type printer struct {
	w    io.Writer
	json bool
}

func (p printer) say(v any, format string, args ...any) error {
	if !p.json {
		_, err := fmt.Fprintf(p.w, format+"\n", args...)
		return err
	}
	data, err := json.Marshal(v, jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.w, "%s\n", data)
	return err
}

// wholeHash is a hash as sha256sum prints it, or as the wire has it.
func wholeHash(hash string) string {
	if hash == "" || strings.HasPrefix(hash, wire.HashPrefix) {
		return hash
	}
	return wire.HashPrefix + strings.ToLower(hash)
}

func colon(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}
