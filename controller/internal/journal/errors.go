package journal

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"

	"tandem.internal/shared/wire"
)

// The kinds of failure. Every error that carries one of them also carries a *wire.Error with a
// code and a message for people, and its cause.
var (
	ErrLocked     = errors.New("journal is locked by another process")   // code unavailable
	ErrNotJournal = errors.New("not a journal")                          // code malformed
	ErrNotExport  = errors.New("not an export")                          // code malformed
	ErrNewer      = errors.New("journal was written by a newer version") // code wrong-version
	// code wrong-version; old file opened read-only
	ErrOlder    = errors.New("journal must be upgraded first")
	ErrDamaged  = errors.New("journal is damaged")                         // code storage
	ErrBroken   = errors.New("journal stopped after a failed write")       // code storage; reopen to go on
	ErrReadOnly = errors.New("journal is open read-only")                  // code not-allowed
	ErrClosed   = errors.New("journal is closed")                          // code unavailable
	ErrInvalid  = errors.New("batch breaks the journal's rules")           // code invalid-argument; nothing is written
	ErrStop     = errors.New("stop reading the journal without an error")  // returned by callbacks, never to callers
	errMoved    = errors.New("the file was replaced while waiting for it") // Open tries again
	errNoMeta   = errors.New("no meta bucket")                             // a bbolt file of something else
)

// failure ties a kind to what people and programs are told, and to the cause.
type failure struct {
	kind  error
	wire  *wire.Error
	cause error // may be nil
}

func fail(kind error, code wire.Code, cause error, message string) error {
	return &failure{kind: kind, wire: wire.New(code, "", message), cause: cause}
}

// Error renders the code and the message for people.
func (f *failure) Error() string { return f.wire.Error() }

// Unwrap gives the kind, the *wire.Error and the cause to errors.Is and errors.As.
func (f *failure) Unwrap() []error {
	if f.cause == nil {
		return []error{f.kind, f.wire}
	}
	return []error{f.kind, f.wire, f.cause}
}

// reason says in a few words what the operating system refused.
func reason(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), strings.Contains(err.Error(), syscall.ENOSPC.Error()):
		return "the disk is full"
	case errors.Is(err, syscall.EDQUOT):
		return "the disk quota is used up"
	case errors.Is(err, syscall.EROFS):
		return "the file system is read-only"
	case errors.Is(err, syscall.EIO):
		return "the disk reports an I/O error"
	case errors.Is(err, fs.ErrPermission):
		return "permission denied"
	}
	return err.Error()
}
