package keep

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/go-json-experiment/json"

	"tandem.internal/shared/durable"
)

// slotUsers says which slot has which user. It is the keeper's loop's, and lies in users.json.
type slotUsers struct {
	path  string
	state string // the agent's state directory
	steps durable.Steps
	users Users
	net   bool // the kernel keeps them from loopback addresses
	shut  bool // what else is in the state directory
	file  usersFile
}

type usersFile struct {
	Format int        `json:"format"`
	Slots  []slotUser `json:"slots"` // the one that has had its user for longest first
}

// slotUser is the user of a slot.
type slotUser struct {
	Slot string `json:"slot"`
	UID  uint32 `json:"uid"`
	// the directory that the directories of its runs are in, from the agent's state directory if it is in that
	Home string `json:"home"`
}

// openUsers reads which slots have users. A file that cannot be read is an error: to begin anew would give a slot what
// is another's.
func openUsers(dir string, users Users, steps durable.Steps) (*slotUsers, error) {
	if users.None() {
		return nil, nil
	}
	if err := bounded(users); err != nil {
		return nil, err
	}
	return loadUsers(dir, users, steps)
}

func loadUsers(dir string, users Users, steps durable.Steps) (*slotUsers, error) {
	s := &slotUsers{path: filepath.Join(dir, "users.json"), state: filepath.Dir(dir), steps: steps,
		users: users, net: os.Getenv(netEnv) != "", file: usersFile{Format: 1}}
	data, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &s.file)
	}
	if err == nil && s.file.Format != 1 {
		err = fmt.Errorf("its format is %d, and this program reads 1", s.file.Format)
	}
	if err != nil {
		return nil, fmt.Errorf("users of slots: %s: %w", s.path, err)
	}
	for _, u := range s.file.Slots {
		if !s.has(u.UID) && !s.gone(u) {
			return nil, fmt.Errorf("users of slots: %q has the user %d, which is none of %s: take the slot from the "+
				"node before its user", u.Slot, u.UID, users)
		}
	}
	s.file.Slots = slices.DeleteFunc(s.file.Slots, func(u slotUser) bool { return !s.has(u.UID) })
	return s, nil
}

// has says whether a number is one that a slot can have.
func (s *slotUsers) has(uid uint32) bool { return s.users.Has(uid) && uid != s.users.Group() }

// of is the user of a slot whose runs have their directories in home. One that has none gets one, which is on the disk
// before anybody uses it: the least that no slot has ever had; if there is none, that of the slot that got its own
// first, of those of which no file and no process is there any more.
func (s *slotUsers) of(slot, home string) (uint32, error) {
	if rel, err := filepath.Rel(s.state, home); err == nil && filepath.IsLocal(rel) {
		home = rel
	}
	next := usersFile{Format: 1, Slots: slices.Clone(s.file.Slots)}
	var uid uint32
	var err error
	if i := slices.IndexFunc(next.Slots, func(u slotUser) bool { return u.Slot == slot }); i >= 0 {
		uid = next.Slots[i].UID
		if next.Slots[i].Home == home {
			return uid, nil
		}
		next.Slots[i].Home = home // the agent keeps them elsewhere now
	} else {
		if uid, err = s.free(); err != nil {
			return 0, err
		}
		next.Slots = slices.DeleteFunc(next.Slots, func(u slotUser) bool { return u.UID == uid })
		next.Slots = append(next.Slots, slotUser{slot, uid, home})
	}
	data, err := json.Marshal(next)
	if err == nil {
		err = durable.WriteFile(s.path, append(data, '\n'), 0o600, s.steps)
	}
	if err != nil {
		return 0, fmt.Errorf("the slot's user cannot be noted: %w", err)
	}
	s.file = next
	return uid, nil
}

// gone says that no files of a slot are where its runs had them.
func (s *slotUsers) gone(u slotUser) bool {
	home := u.Home
	if !filepath.IsAbs(home) {
		home = filepath.Join(s.state, home)
	}
	_, err := os.Lstat(home)
	return errors.Is(err, fs.ErrNotExist)
}

// free is a user that can be given.
func (s *slotUsers) free() (uint32, error) {
	given := map[uint32]bool{}
	for _, u := range s.file.Slots {
		given[u.UID] = true
	}
	for uid := s.users.Group() + 1; s.has(uid); uid++ {
		if !given[uid] {
			return uid, nil
		}
	}
	for _, u := range s.file.Slots {
		if !s.gone(u) {
			continue
		}
		all, err := processes()
		if err != nil {
			return 0, err
		}
		busy := false
		for pid := range all {
			busy = busy || owned(pid, u.UID)
		}
		if !busy {
			return u.UID, nil
		}
	}
	return 0, fmt.Errorf("each user of %s has a slot: more are needed (--workload-users)", s.users)
}

// owned says whether a process has a user, as any of those that a process has (proc_pid_status(5)).
func owned(pid int, uid uint32) bool {
	data, err := readSome(pid, "status")
	if err != nil {
		return false // it is gone
	}
	for line := range strings.Lines(string(data)) {
		if ids, ok := strings.CutPrefix(line, "Uid:"); ok {
			return slices.Contains(strings.Fields(ids), strconv.FormatUint(uint64(uid), 10))
		}
	}
	return false
}

// admit gives a run the user of its slot, whose group has the run's directory, and lets that user get there and to its
// resources. Only what belongs to the agent is given, and only in its state directory.
func (k *keeper) admit(r *run) error {
	if k.users == nil {
		if r.spec.Slot == "" || r.spec.Confine == nil || !r.spec.Confine.Least.Has("user") {
			return nil
		}
		return errors.New("this keeper has no users for slots (--workload-users)")
	}
	if r.spec.Contain {
		return errors.New("this keeper makes no containers: each slot has a user of its own (--workload-users)")
	}
	if r.spec.Slot == "" || r.spec.Confine == nil || r.spec.User != nil {
		return errors.New("this keeper runs nothing but slots, each as a user of its own")
	}
	if info, err := os.Lstat(r.spec.Dir); err != nil || !info.IsDir() {
		return errors.Join(fmt.Errorf("%s is no directory", r.spec.Dir), err)
	}
	home := filepath.Dir(r.spec.Dir)
	uid, err := k.users.of(r.spec.Slot, home)
	if err != nil {
		return err
	}
	r.uid, r.status.UID, r.groups = uid, uid, []uint32{k.users.users.Group()}
	r.spec.User = &User{UID: uid, GID: uid}
	state := filepath.Dir(k.cfg.Dir)
	shared := r.spec.Confine.Room.Known
	if !k.users.shut {
		if err := shut(state, append([]string{r.spec.Dir}, shared...)); err != nil {
			return err
		}
		k.users.shut = true
	}
	for _, dir := range append([]string{r.spec.Dir}, shared...) {
		for ; dir != state && within(state, dir); dir = filepath.Dir(dir) {
			group, mode := -1, fs.FileMode(0o711)
			switch {
			case dir == r.spec.Dir:
				group, mode = int(uid), 0o770
			case dir == home:
				group, mode = int(uid), 0o710
			case slices.Contains(shared, dir):
				group, mode = int(k.users.users.Group()), 0o710
			}
			if err := give(dir, group, mode, 0); err != nil {
				return err
			}
		}
	}
	return give(state, -1, 0o711, 0o777)
}

// shut takes the rights of others from what is in the state directory, before they may pass through it: one who may
// only read a file can hold its lock (flock(2)). What leads to one of ways is left alone, and so is what is not the
// agent's.
func shut(state string, ways []string) error {
	entries, err := os.ReadDir(state)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(state, e.Name())
		if slices.ContainsFunc(ways, func(way string) bool { return within(path, way) }) {
			continue
		}
		if err := shutOne(path); err != nil {
			return err
		}
	}
	return nil
}

func shutOne(path string) (err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil { // a link or a socket, another user's, or gone: nothing that has a lock of the agent's
		return nil
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o007 == 0 {
		return nil
	}
	return f.Chmod(info.Mode().Perm() &^ 0o007)
}

// within says whether a directory is another one, or in it.
func within(above, dir string) bool {
	rel, err := filepath.Rel(above, dir)
	return err == nil && filepath.IsLocal(rel)
}

// give gives a directory of this user to a group, and to everybody the rights of mode, beside those of had that they
// have; -1: the group stays.
func give(dir string, group int, mode, had fs.FileMode) (err error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s is not the agent's", dir)
	}
	mode |= info.Mode().Perm() & had
	if info.Mode().Perm() != mode { // before the group has it
		if err := f.Chmod(mode &^ 0o070); err != nil {
			return err
		}
	}
	if group >= 0 && int(st.Gid) != group {
		if err := f.Chown(-1, group); err != nil {
			return err
		}
	}
	if info.Mode().Perm() != mode {
		return f.Chmod(mode)
	}
	return nil
}
