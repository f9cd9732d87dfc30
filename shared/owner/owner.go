// Package owner has a command that root runs on the directory of a service act as that service's user.
//
// Whoever may write in a directory can lead a program by links and swapped files to whatever the program may reach. A
// command of root's that has become the directory's owner reaches nothing that the owner does not.
package owner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrUnsafe says that root does not work in a directory, because others may write there.
var ErrUnsafe = errors.New("root does not work there")

// Become makes this process, if it is root's, for good one of the user who owns dir: user and group, no other groups,
// and no_new_privs. It has to come before anything in dir is opened, and before others may have read what root may.
//
// The error is ErrUnsafe if others than the owner may write in dir. If the owner is root itself, nothing changes, and
// the error is also ErrUnsafe if one of these directories in dir is another user's: that user may put links there. dir
// itself may be reached by links.
func Become(dir string, parts ...string) error { return become(dir, parts) }

// Open opens a file that somebody has named on the command line, for reading, before Become. With root's rights it
// follows no links, and opens nothing but a regular file: others may have put the link there, and what root alone may
// read is not to come into a directory of theirs. ok is false if it is to be opened as the owner instead.
func Open(file string) (f *os.File, ok bool) { return open(file) }

// refuse is the error about a path.
func refuse(path, why string) error { return fmt.Errorf("%s: %w: %s", path, ErrUnsafe, why) }

// check looks at what stays root's. uid is that of dir, mode its permissions.
func check(dir string, mode os.FileMode, uid uint32, parts []string) error {
	if mode&0o022 != 0 {
		return refuse(dir, "others than its owner may write in it (chmod go-w)")
	}
	if uid != 0 {
		return nil
	}
	for _, part := range parts {
		path := filepath.Join(dir, part)
		if whose, ok := ownerOf(path); ok && whose != 0 {
			return refuse(path, fmt.Sprintf("it belongs to user %d, and the directory to root", whose))
		}
	}
	return nil
}
