// Package tree keeps unpacked layers: gzip-compressed ustar archives of files, directories and links, each unpacked
// once below one directory, by the digest of the archive (in OCI's terms its diff ID), for all that use it.
//
// It guarantees
//   - that a layer is there whole, flushed to the disk and with the digests that were asked for, or not at all;
//   - that whatever an archive says, nothing outside of its own tree is written, read or changed;
//   - that files of a tree give nobody rights: no owners, no set-user-ID bits, no devices; everybody may read all of
//     it, and only the agent may write;
//   - that a tree is not removed between Use and its release. Containers that run do not Use their layers: a tree
//     that is made anew goes from under them.
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

// Store is a directory of trees. All of its methods may be called at the same time; one layer at a time is added.
type Store struct {
	Dir    string
	Limits Limits
	Around durable.Around // a seam for tests; nil: none

	turn chan struct{} // whoever has put a value into it adds a layer

	mu    sync.Mutex
	used  map[string]int           // by the digits of a diff ID: by how many
	going map[string]chan struct{} // that are being removed; closed when that has ended
}

// Names in the directory: HEX/tree is a layer's tree, HEX/whiteouts what it hides. What begins with a dot is on its way
// in or out; after a crash Open removes it.
const (
	treeName      = "tree"
	whiteoutsName = "whiteouts"
	newPrefix     = ".new-"
	oldPrefix     = ".old-"
)

// Open opens a directory of trees, which is made if it is missing, and removes what a crash has left half done. Users
// other than the agent's may pass through the directory to trees whose path they know if somebody lets them; they
// cannot list it.
func Open(dir string) (*Store, error) {
	s := &Store{Dir: dir, turn: make(chan struct{}, 1), used: map[string]int{}, going: map[string]chan struct{}{}}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("layers: %w", err)
	}
	info, err := os.Stat(dir)
	if err == nil { // the keeper may have let users of slots pass
		err = os.Chmod(dir, 0o700|info.Mode().Perm()&0o011)
	}
	if err != nil {
		return nil, fmt.Errorf("layers: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("layers: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), newPrefix) || strings.HasPrefix(e.Name(), oldPrefix) {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return nil, fmt.Errorf("layers: %w", err)
			}
		}
	}
	return s, nil
}

// Path is the tree of a layer, if it is there.
func (s *Store) Path(diffID string) (string, bool) {
	digits, err := digitsOf(diffID)
	if err != nil {
		return "", false
	}
	s.mu.Lock()
	going := s.going[digits]
	s.mu.Unlock()
	if going != nil {
		return "", false
	}
	path := filepath.Join(s.Dir, digits, treeName)
	info, err := os.Lstat(path)
	return path, err == nil && info.IsDir()
}

// Use keeps a layer from being removed until release is called, and returns its tree. Its error is ErrAbsent if there
// is none.
func (s *Store) Use(diffID string) (path string, release func(), err error) {
	digits, err := digitsOf(diffID)
	if err != nil {
		return "", nil, err
	}
	release, going := s.use(digits)
	if going == nil {
		if path, ok := s.Path(diffID); ok {
			return path, release, nil
		}
		release()
	}
	return "", nil, fmt.Errorf("%s: %w", diffID, ErrAbsent)
}

// use counts a use of a layer, unless it is being removed: then it returns what is closed when that has ended.
func (s *Store) use(digits string) (release func(), going <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if going := s.going[digits]; going != nil {
		return nil, going
	}
	s.used[digits]++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.used[digits]--; s.used[digits] == 0 {
			delete(s.used, digits)
		}
	}), nil
}

// Whiteouts are the paths that the layer with this tree hides of all layers below it, in order, each without a slash
// before it; "." hides all.
func Whiteouts(path string) ([]string, error) {
	data, err := os.ReadFile(filepath.Join(filepath.Dir(path), whiteoutsName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("what a layer hides: %w", err)
	}
	return strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00"), nil
}

// Keep removes all layers but those that are named, used, or being added.
func (s *Store) Keep(diffIDs []string) error {
	keep := map[string]bool{}
	for _, id := range diffIDs {
		digits, err := digitsOf(id)
		if err != nil {
			return err
		}
		keep[digits] = true
	}
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return fmt.Errorf("layers: %w", err)
	}
	for _, e := range entries {
		digits := e.Name()
		if keep[digits] || !isDigits(digits) || !s.goes(digits) {
			continue
		}
		if err := s.remove(digits); err != nil {
			return err
		}
	}
	return nil
}

// Remove removes a layer, unless it is used.
func (s *Store) Remove(diffID string) error {
	digits, err := digitsOf(diffID)
	if err != nil || !s.goes(digits) {
		return err
	}
	return s.remove(digits)
}

// goes marks a layer as one that is being removed, unless it is used, or is marked already.
func (s *Store) goes(digits string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used[digits] > 0 || s.going[digits] != nil {
		return false
	}
	s.going[digits] = make(chan struct{})
	return true
}

// remove removes a layer. It loses its name first: what a crash leaves of it has none.
func (s *Store) remove(digits string) error {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		close(s.going[digits])
		delete(s.going, digits)
	}()
	old := filepath.Join(s.Dir, oldPrefix+digits)
	err := os.RemoveAll(old) // of a removal that failed
	if err == nil {
		err = s.Around.Do(durable.Rename, func() error { return os.Rename(filepath.Join(s.Dir, digits), old) })
	}
	if err == nil {
		err = s.Around.Do(durable.SyncDir, func() error { return durable.SettleDir(s.Dir) })
	}
	if err == nil {
		err = s.Around.Do(durable.Delete, func() error { return os.RemoveAll(old) })
	}
	if err != nil {
		return fmt.Errorf("remove a layer: %w", err)
	}
	return nil
}

// Add unpacks a layer, and returns its tree, which whoever needs it then Uses. A layer that is there is not read again.
// After an error there is nothing of it; one exception: if only the last flush failed, it is there, and may be gone
// after a power cut.
func (s *Store) Add(ctx context.Context, blob io.Reader, want Ref) (path string, err error) {
	digits, err := digitsOf(want.DiffID)
	if err != nil {
		return "", err
	}
	if _, err := digitsOf(want.Digest); err != nil {
		return "", err
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	release, going := s.use(digits)
	for going != nil {
		select {
		case <-going:
			release, going = s.use(digits)
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	defer release()
	if path, ok := s.Path(want.DiffID); ok {
		return path, nil
	}
	temp := filepath.Join(s.Dir, newPrefix+digits)
	if err := s.fill(ctx, temp, blob, want); err != nil {
		// No defer: a panic of a test's seam leaves the disk as a crash would.
		return "", errors.Join(fmt.Errorf("unpack %s: %w", want.DiffID, err), os.RemoveAll(temp))
	}
	final := filepath.Join(s.Dir, digits)
	if err := s.Around.Do(durable.Rename, func() error { return os.Rename(temp, final) }); err != nil {
		return "", errors.Join(fmt.Errorf("unpack %s: %w", want.DiffID, err), os.RemoveAll(temp))
	}
	if err := s.Around.Do(durable.SyncDir, func() error { return durable.SettleDir(s.Dir) }); err != nil {
		return "", fmt.Errorf("unpack %s: %w", want.DiffID, err)
	}
	return filepath.Join(final, treeName), nil
}

// fill unpacks a layer to the directory temp, and flushes it.
func (s *Store) fill(ctx context.Context, temp string, blob io.Reader, want Ref) error {
	if err := os.RemoveAll(temp); err != nil { // of a removal that failed
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
