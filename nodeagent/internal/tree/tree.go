// Package tree keeps unpacked layers: gzip-compressed ustar archives of files, directories and links, each unpacked
// once below one directory, by the digest of the archive (in OCI's terms its diff ID), for all that use it.
//
// It guarantees
//   - that a layer is there whole, flushed to the disk and with the digests that were asked for, or not at all;
//   - that whatever an archive says, nothing outside of its own tree is written, read or changed;
//   - that files of a tree give nobody rights: no owners, no set-user-ID bits, no devices; everybody may read all of
//     it, and only the agent may write;
//   - that a tree stays where it is as long as somebody uses it, over restarts of the agent too: one that is damaged is
//     set aside, and the new one is put beside it;
//   - that room is asked for before it is taken.
//
// What a layer hides of the layers below it (OCI's whiteouts) is in a list beside the tree: a tree by itself has
// nothing below it. It must not decide which layers are wanted. Only one process uses a directory.
package tree

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"tandem.internal/shared/durable"
)

// Ref says which layer is meant.
type Ref struct {
	Digest string // of the compressed archive: "sha256:" and 64 hexadecimal digits
	DiffID string // of the archive
	Size   int64  // bytes of the compressed archive
}

// Limits bound what one layer may take. Zero is the default.
type Limits struct {
	Bytes     int64 // of the archive, unpacked; 4 GiB
	Entries   int   // with the directories that only paths name; 200,000
	Depth     int   // directories in each other; 64
	Name      int   // bytes of a name; 255
	Whiteouts int   // 4096, of 1 MiB together
	// Room is asked for bytes on the disk before they are taken: for each entry 4.5 KiB, and what is in it, rounded up
	// to blocks of 4 KiB. Its error is an ENOSPC. Nil: nobody is.
	Room func(bytes int64) error
	// Full is told how many bytes at least a layer has taken when there was no room for more. Nil: nobody is.
	Full func(taken int64)
}

func (l Limits) resolved() Limits {
	if l.Bytes == 0 {
		l.Bytes = 4 << 30
	}
	if l.Entries == 0 {
		l.Entries = 200_000
	}
	if l.Depth == 0 {
		l.Depth = 64
	}
	if l.Name == 0 {
		l.Name = 255
	}
	if l.Whiteouts == 0 {
		l.Whiteouts = 4096
	}
	return l
}

// Errors of Add that say whose fault it is; any other is the disk's, the reader's, or ctx's.
var (
	// ErrDamaged says that the blob is not what Ref says: another attempt to get it may help.
	ErrDamaged = errors.New("the layer is damaged")
	// ErrRefused says that the blob is the one that Ref names, and is not unpacked: it never will be.
	ErrRefused = errors.New("the layer is refused")
	// ErrAbsent says that a layer is not there.
	ErrAbsent = errors.New("the layer is not there")
)

// Store is a directory of trees. Its methods may be called at the same time, but for Add, Keep and Remove: one after
// the other.
type Store struct {
	Dir    string
	Limits Limits
	Around durable.Around // a seam for tests; nil: none

	mu    sync.Mutex
	trees map[string]placed // by the digits of a diff ID
	old   map[string]placed // set aside: by the names of their directories
}

// placed is a layer that is there.
type placed struct {
	name  string          // of its directory
	users map[string]bool // who uses it; false: has used it before the store was opened, and may be gone
}

// Names in the directory: HEX/tree is a layer's tree, HEX/whiteouts what it hides; HEX.1, HEX.1.1 and so on are those
// that took the place of one that was set aside, and HEX/users, by line, is who used that then. What begins with a dot
// is on its way in or out; after a crash Open removes it.
const (
	treeName      = "tree"
	whiteoutsName = "whiteouts"
	usersName     = "users"
	newPrefix     = ".new-"
	oldPrefix     = ".old-"
)

// Open opens a directory of trees, which is made if it is missing, and removes what a crash has left half done. Users
// other than the agent's may pass through the directory to trees whose path they know if somebody lets them; they
// cannot list it.
func Open(dir string) (*Store, error) {
	s := &Store{Dir: dir, trees: map[string]placed{}, old: map[string]placed{}}
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("layers: %w", err)
	}
	return s, nil
}

func (s *Store) open() error {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(s.Dir)
	if err == nil { // the keeper may have let users of slots pass
		err = os.Chmod(s.Dir, 0o700|info.Mode().Perm()&0o011)
	}
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(s.Dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), newPrefix) || strings.HasPrefix(e.Name(), oldPrefix) {
			if removeAll(filepath.Join(s.Dir, e.Name())) != nil {
				s.old[e.Name()] = placed{name: e.Name()} // Keep tries it again, and says why not
			}
			continue
		}
		s.found(e.Name())
	}
	return err
}

// Path is the tree of a layer, if it is there.
func (s *Store) Path(diffID string) (string, bool) {
	digits, err := digitsOf(diffID)
	if err != nil {
		return "", false
	}
	s.mu.Lock()
	l, there := s.trees[digits]
	s.mu.Unlock()
	if !there {
		return "", false
	}
	path := filepath.Join(s.Dir, l.name, treeName)
	info, err := os.Lstat(path)
	return path, err == nil && info.IsDir()
}

// Whiteouts are the paths that the layer with this tree hides of all layers below it, in order, each without a slash
// before it; "." hides all.
func Whiteouts(path string) ([]string, error) {
	data, err := durable.ReadFile(filepath.Join(filepath.Dir(path), whiteoutsName), whiteoutBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("what a layer hides: %w", err)
	}
	return strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00"), nil
}

// Add unpacks a layer, and returns its tree, which whoever needs it then Uses. A layer that is there is not unpacked
// again: whether it is in the blob is found out by reading that. Else, after an error, there is nothing of it; one
// exception: if only the last flush failed, it is there, and may be gone after a power cut.
func (s *Store) Add(ctx context.Context, blob io.Reader, want Ref) (path string, err error) {
	digits, err := digitsOf(want.DiffID)
	if err != nil {
		return "", err
	}
	if _, err := digitsOf(want.Digest); err != nil {
		return "", err
	}
	if path, ok := s.Path(want.DiffID); ok {
		u := &unpacker{ctx: ctx, limits: s.Limits.resolved()}
		return path, u.verified(blob, want)
	}
	name := digits
	for s.old[name].name != "" { // nobody else changes old now
		name += ".1"
	}
	temp := filepath.Join(s.Dir, newPrefix+name)
	if err := s.fill(ctx, temp, blob, want); err != nil {
		// No defer: a panic of a test's seam leaves the disk as a crash would.
		err = s.full(err, temp)
		return "", errors.Join(fmt.Errorf("unpack %s: %w", want.DiffID, err), removeAll(temp))
	}
	final := filepath.Join(s.Dir, name)
	err = removeAll(final) // what is there has no tree
	if err == nil {
		err = s.Around.Do(durable.Rename, func() error { return os.Rename(temp, final) })
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("unpack %s: %w", want.DiffID, err), removeAll(temp))
	}
	s.mu.Lock()
	s.trees[digits] = placed{name, map[string]bool{}}
	s.mu.Unlock()
	if err := s.Around.Do(durable.SyncDir, func() error { return durable.SettleDir(s.Dir) }); err != nil {
		return "", fmt.Errorf("unpack %s: %w", want.DiffID, err)
	}
	return filepath.Join(final, treeName), nil
}

// fill unpacks a layer to the directory temp, and flushes it.
func (s *Store) fill(ctx context.Context, temp string, blob io.Reader, want Ref) error {
	if err := removeAll(temp); err != nil { // of a removal that failed
		return err
	}
	inner := filepath.Join(temp, treeName)
	if err := s.Around.Do(durable.MakeDir, func() error {
		return errors.Join(os.Mkdir(temp, 0o700), os.Mkdir(inner, 0o700), os.Chmod(inner, 0o755), os.Chmod(temp, 0o711))
	}); err != nil {
		return err
	}
	root, err := os.OpenRoot(inner)
	if err != nil {
		return err
	}
	u := &unpacker{ctx: ctx, root: root, limits: s.Limits.resolved(), around: s.Around, parent: "."}
	err = u.verified(blob, want)
	if err = errors.Join(err, root.Close()); err != nil {
		return err
	}
	if len(u.hidden) > 0 {
		slices.Sort(u.hidden)
		text := strings.Join(slices.Compact(u.hidden), "\x00") + "\x00"
		if err := os.WriteFile(filepath.Join(temp, whiteoutsName), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return s.Around.Do(durable.Sync, func() error { return settle(temp) })
}

const scheme = "sha256:"

// digitsOf are the 64 digits of a digest: what else it says, a path for example, is an error.
func digitsOf(digest string) (string, error) {
	digits, ok := strings.CutPrefix(digest, scheme)
	if !ok || !isDigits(digits) {
		return "", fmt.Errorf("%.100q is no digest: sha256: and 64 hexadecimal digits", digest)
	}
	return digits, nil
}

func isDigits(s string) bool {
	return len(s) == 2*sha256.Size && strings.Trim(s, "0123456789abcdef") == ""
}
