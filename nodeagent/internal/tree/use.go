package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tandem.internal/shared/durable"
)

// maxUsers bounds the file of who uses a tree, in bytes.
const maxUsers = 4 << 20

// nobody is not the name of a user.
const nobody = ""

// found takes in a directory that is there when the store is opened.
func (s *Store) found(name string) {
	digits, _, _ := strings.Cut(name, ".")
	if !isDigits(digits) {
		return
	}
	data, err := durable.ReadFile(filepath.Join(s.Dir, name, usersName), maxUsers)
	l := placed{name, map[string]bool{}}
	for _, by := range strings.Fields(string(data)) {
		l.users[by] = false
	}
	listed := !errors.Is(err, fs.ErrNotExist)
	if listed && (err != nil || len(l.users) == 0) {
		l.users[nobody] = true // it is not known who has it: it stays until that can be read
	}
	if _, there := s.trees[digits]; there || listed {
		s.old[name] = l
		return
	}
	s.trees[digits] = l
}

// Use keeps the tree of a layer, as it is now, for somebody, until Leave. Who has used it since before the store was
// opened says so before the first Keep, and has the tree of then. Its error is ErrAbsent if there is none.
func (s *Store) Use(diffID, by string, since bool) (path string, err error) {
	digits := strings.TrimPrefix(diffID, scheme)
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.trees[digits]
	for name, old := range s.old {
		if _, was := old.users[by]; was && strings.HasPrefix(name, digits) {
			delete(old.users, by)
			if since {
				l = old
			}
		}
	}
	if l.users == nil {
		return "", ErrAbsent
	}
	l.users[by] = true
	return filepath.Join(s.Dir, l.name, treeName), nil
}

// Leave says that somebody uses no layer any more.
func (s *Store) Leave(by string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.trees {
		delete(l.users, by)
	}
	for _, l := range s.old {
		delete(l.users, by)
	}
}

// Old is the directory of a tree that was set aside, and that somebody uses; "": there is none.
func (s *Store) Old(by string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, l := range s.old {
		if l.users[by] {
			return name
		}
	}
	return ""
}

// Keep removes all layers but those that are named or used, and what was set aside and is not used any more.
func (s *Store) Keep(diffIDs []string) error {
	keep := map[string]bool{}
	for _, id := range diffIDs {
		keep[strings.TrimPrefix(id, scheme)] = true
	}
	var gone []string
	s.mu.Lock()
	for digits, l := range s.trees {
		if !keep[digits] && len(l.users) == 0 {
			delete(s.trees, digits)
			s.old[l.name] = l
		}
	}
	for name, l := range s.old {
		used := false
		for _, is := range l.users {
			used = used || is
		}
		if !used {
			gone = append(gone, name)
		}
	}
	s.mu.Unlock()
	for _, name := range gone {
		if err := s.remove(name); err != nil {
			return err
		}
	}
	return nil
}

// Remove has a layer not be there any more. Its tree goes, unless others than but use it: then it is set aside.
func (s *Store) Remove(diffID, but string) error {
	digits := strings.TrimPrefix(diffID, scheme)
	for written := ""; ; {
		name, users := s.setAside(digits, but, written)
		switch {
		case name == "" || users != "" && users == written:
			return nil
		case users == "":
			return s.remove(name)
		}
		if err := durable.WriteFile(filepath.Join(s.Dir, name, usersName), []byte(users), 0o600, nil); err != nil {
			return err
		}
		written = users
	}
}

// setAside sets the tree of a layer aside if nobody but one uses it, or if it is those who use it that are written
// down, each in a line. It returns the name of its directory, "" if there is none, and who uses it.
func (s *Store) setAside(digits, but, written string) (name, users string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, there := s.trees[digits]
	if !there {
		return "", ""
	}
	delete(l.users, but)
	for _, by := range slices.Sorted(maps.Keys(l.users)) {
		users += by + "\n"
	}
	if users == "" || users == written {
		delete(s.trees, digits)
		s.old[l.name] = l
	}
	return l.name, users
}

// remove removes what was set aside. It loses its name first: what a crash leaves of it has none. After an error Keep
// tries it again.
func (s *Store) remove(name string) error {
	old := filepath.Join(s.Dir, oldPrefix+strings.TrimPrefix(name, oldPrefix))
	err := removeAll(old) // of a removal that failed
	if err == nil {
		err = s.Around.Do(durable.Rename, func() error { return os.Rename(filepath.Join(s.Dir, name), old) })
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = s.Around.Do(durable.SyncDir, func() error { return durable.SettleDir(s.Dir) })
	}
	if err == nil {
		err = s.Around.Do(durable.Delete, func() error { return removeAll(old) })
	}
	if err != nil {
		return fmt.Errorf("remove a layer: %w", err)
	}
	s.mu.Lock()
	delete(s.old, name)
	s.mu.Unlock()
	return nil
}

// removeAll removes all that is below a path, also what is in directories that somebody has closed to the agent.
func removeAll(path string) error {
	err := os.RemoveAll(path)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if err := filepath.WalkDir(path, func(at string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			err = os.Chmod(at, 0o700) // before it is read
		}
		return err
	}); err != nil {
		return err
	}
	return os.RemoveAll(path)
}
