// Package configfile puts documents of kind config in place: it keeps the node's config.json,
// and tells the node's software by running the on-apply command.
//
// It guarantees that config.json is the exact body of one document, whole, with permissions 0600,
// at every moment. It decides nothing: what is put in place, and what is put back, the inbox says.
package configfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"time"

	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

// Mode is what the on-apply command reads in TANDEM_MODE.
type Mode string

// The modes.
const (
	ModeApply    Mode = "apply"    // the document is new, and stays if the command succeeds
	ModeTry      Mode = "try"      // the document is new, and is rolled back unless it is confirmed
	ModeRollback Mode = "rollback" // the last good document is back; without one, the file is gone
	ModeRepair   Mode = "repair"   // the file was missing or altered and has been rewritten
)

// Applier puts config documents in place. Its fields are set once.
type Applier struct {
	Path    string // of config.json, absolute
	ID      inbox.Identity
	Command []string      // on-apply; empty: none
	Timeout time.Duration // of one run of it
	Observe bool          // Verify only says what it finds
	Steps   durable.Steps // nil: no faults; a removal is the step "remove"
	Run     Run           // runs the command
}

// Run runs a command and returns nil if it succeeds. env is added to the agent's own. The
// error's text may hold the end of the command's output.
type Run func(ctx context.Context, env, argv []string) error

// Apply puts a document in place.
func (a *Applier) Apply(ctx context.Context, job inbox.Apply) inbox.Applied {
	out := inbox.Applied{Stamp: job.Doc.Stamp}
	if err := durable.WriteFile(a.Path, job.Doc.Body, 0o600, a.Steps); err != nil {
		out.Err, out.Transient = wire.New(wire.CodeStorage, "", err.Error()), true
		return out
	}
	mode := ModeApply
	if job.Doc.Mode == wire.ModeTry {
		mode = ModeTry
	}
	out.Ran = len(a.Command) > 0
	out.Err, out.Transient = a.tell(ctx, mode, job.Doc, job.Previous)
	return out
}

// Restore puts the last good document back.
func (a *Applier) Restore(ctx context.Context, job inbox.Restore) inbox.Restored {
	out := inbox.Restored{Stamp: job.From.Stamp}
	if err := a.ensure(job.Good); err != nil {
		out.Err = wire.New(wire.CodeStorage, "", err.Error())
		return out
	}
	if !job.Tell {
		return out
	}
	if err, transient := a.tell(ctx, ModeRollback, job.Good, job.From); transient {
		out.Err = err
	} else if err != nil {
		out.Note = "and for the last good document: " + err.Message
	}
	return out
}

// Verify looks whether a document is in place, and puts it there if it is not and may do so.
func (a *Applier) Verify(ctx context.Context, job inbox.Verify) inbox.Verified {
	what := a.differs(job.Want)
	out := inbox.Verified{Drifted: what != "", What: what}
	if what == "" || a.Observe {
		return out
	}
	if err := a.ensure(job.Want); err != nil {
		out.Err = wire.New(wire.CodeStorage, "", err.Error())
		return out
	}
	out.Repaired = true
	if err, _ := a.tell(ctx, ModeRepair, job.Want, inbox.Doc{}); err != nil {
		out.What += "; " + err.Message
	}
	return out
}

// differs says what is wrong with config.json if its body should be want's, or it should not be there if want is
// none; "": nothing. However much somebody wrote there, it reads no more than the body has.
func (a *Applier) differs(want inbox.Doc) string {
	f, err := os.OpenFile(a.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO does not hold it up
	switch {
	case errors.Is(err, fs.ErrNotExist) && !want.Exists():
		return ""
	case errors.Is(err, fs.ErrNotExist):
		return "config.json was missing"
	case err != nil:
		return "config.json cannot be read: " + err.Error()
	}
	info, err := f.Stat()
	var there []byte
	if err == nil && info.Mode().IsRegular() {
		there, err = io.ReadAll(io.LimitReader(f, int64(len(want.Body))))
	}
	switch err = errors.Join(err, f.Close()); {
	case !want.Exists():
		return "config.json was there without a document"
	case err != nil:
		return "config.json cannot be read: " + err.Error()
	case !info.Mode().IsRegular():
		return "config.json was no regular file"
	case info.Size() == int64(len(want.Body)) && bytes.Equal(there, want.Body):
		return ""
	}
	same := 0
	for same < len(there) && there[same] == want.Body[same] {
		same++
	}
	return fmt.Sprintf("config.json was altered: it had %d bytes instead of %d, others from byte %d on", info.Size(),
		len(want.Body), same+1)
}

// ensure makes config.json the body of want, or removes it if want is none.
func (a *Applier) ensure(want inbox.Doc) error {
	switch {
	case a.differs(want) == "":
		return nil
	case want.Exists():
		return durable.WriteFile(a.Path, want.Body, 0o600, a.Steps)
	case a.Steps != nil:
		if err := a.Steps("remove"); err != nil {
			return fmt.Errorf("remove %s: %w", a.Path, err)
		}
	}
	return durable.Remove(a.Path)
}

// tell runs the on-apply command. A transient error is not the document's fault.
func (a *Applier) tell(ctx context.Context, mode Mode, doc, previous inbox.Doc) (err *wire.Error, transient bool) {
	if len(a.Command) == 0 {
		return nil, false
	}
	limited, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	failed := a.Run(limited, a.env(mode, doc, previous), a.Command)
	switch {
	case failed == nil:
		return nil, false
	case ctx.Err() != nil:
		return wire.New(wire.CodeInterrupted, "", "the agent stopped while the on-apply command ran"), true
	case limited.Err() != nil:
		return wire.New(wire.CodeTimeout, "",
			fmt.Sprintf("the on-apply command did not end within %v and was killed", a.Timeout)), false
	case errors.Is(failed, syscall.EAGAIN), errors.Is(failed, syscall.ENOMEM), errors.Is(failed, syscall.EMFILE),
		errors.Is(failed, syscall.ENFILE):
		return wire.New(wire.CodeUnavailable, "", "the on-apply command cannot be started now: "+failed.Error()), true
	}
	return wire.New(wire.CodeApplyFailed, "", "the on-apply command failed: "+failed.Error()), false
}

// env is what the command finds in its environment. With nothing to roll back to, TANDEM_VERSION
// is empty and TANDEM_CONFIG_FILE names a file that is not there.
func (a *Applier) env(mode Mode, doc, previous inbox.Doc) []string {
	return []string{
		"TANDEM_MODE=" + string(mode),
		"TANDEM_CONFIG_FILE=" + a.Path,
		"TANDEM_VERSION=" + doc.Version,
		"TANDEM_PREVIOUS_VERSION=" + previous.Version,
		"TANDEM_EPOCH=" + strconv.FormatUint(doc.Stamp.Epoch, 10),
		"TANDEM_REV=" + strconv.FormatUint(doc.Stamp.Rev, 10),
		"TANDEM_UNIT=" + a.ID.Unit,
		"TANDEM_NODE=" + a.ID.Node,
	}
}
