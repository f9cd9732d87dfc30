package container

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"
)

// stageName is the word by which this program knows that it is to become a runtime.
const stageName = "tandem-container"

// stage is what is to be mounted before the runtime is executed, in a mount namespace of its own. It is a process, and
// not a thread of the agent's: without root it is in a user namespace of its own, too, which threads cannot enter.
type stage struct {
	Bundle   string   `json:"bundle"`
	Lowers   []lower  `json:"lowers"`          // the lowest first; none: the root is there
	Argv     []string `json:"argv"`            // the runtime
	Mark     string   `json:"mark"`            // a variable of the runtime's and the container's
	Group    string   `json:"group,omitempty"` // for who cleans up
	Spec     Spec     `json:"spec"`
	Rootless bool     `json:"rootless"`
	// NoGroups hides the control groups from the runtime. crun does not use them, and refuses to run where it finds
	// those of v1 and v2 side by side.
	NoGroups bool `json:"noGroups"`
}

// Stage has this process become the runtime, if that is what it was started for; it returns only if not. A program that
// makes containers calls it first of all.
func Stage() {
	if len(os.Args) != 3 || os.Args[1] != stageName {
		return
	}
	var s stage
	data, err := os.ReadFile(os.Args[2])
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err == nil {
		err = s.enter()
	}
	_, _ = fmt.Fprintln(os.Stderr, err) // nobody else can be told
	os.Exit(stageFailed)
}

// stageFailed is the exit status of a process that could not become the runtime.
const stageFailed = 125

// enter writes config.json, mounts, and becomes the runtime. What is left of a container is found by its environment.
func (s stage) enter() error {
	marks := []string{s.Mark}
	if run, ok := os.LookupEnv(keeperEnv); ok {
		marks = append(marks, keeperEnv+"="+run)
	}
	text, err := s.Spec.config(s.Rootless, marks)
	if err == nil {
		err = os.WriteFile(filepath.Join(s.Bundle, "config.json"), []byte(text), 0o600)
	}
	if err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("a mount namespace of its own: %w", err)
	}
	if s.NoGroups && groups() == hybrid {
		if err := unix.Mount("none", groupRoot, "tmpfs", unix.MS_RDONLY, "size=4096"); err != nil {
			return fmt.Errorf("hide the control groups: %w", err)
		}
	}
	if len(s.Lowers) > 0 {
		if err := s.overlay(); err != nil {
			return fmt.Errorf("put the layers together: %w", err)
		}
	}
	if err := os.Chdir(s.Bundle); err != nil {
		return err
	}
	return fmt.Errorf("execute %s: %w", s.Argv[0], unix.Exec(s.Argv[0], s.Argv, append(marks, runtimePath)))
}

// overlay mounts the layers at the bundle's root. What a layer hides is in a layer of its own, right below it: there,
// everything that is hidden is a device 0:0, which overlayfs takes for "nothing, and nothing below". Options of a mount
// are a page at most, so layers have numbers.
func (s stage) overlay() error {
	work, root := filepath.Join(s.Bundle, "lower"), filepath.Join(s.Bundle, rootName)
	if err := errors.Join(ignoreExisting(os.Mkdir(work, 0o700)), ignoreExisting(os.Mkdir(root, 0o755))); err != nil {
		return err
	}
	if err := unix.Mount("none", work, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=755"); err != nil {
		return err
	}
	if err := os.Chdir(work); err != nil {
		return err
	}
	var names []string
	add := func(f func(name string) error) error {
		name := strconv.Itoa(len(names))
		names = append(names, name)
		return f(name)
	}
	all := s.Lowers
	for i := len(all) - 1; i >= 0; i-- {
		l := all[i]
		if err := add(func(name string) error { return os.Symlink(l.Dir, name) }); err != nil {
			return err
		}
		if slices.Contains(l.Hidden, ".") {
			break
		}
		if len(l.Hidden) > 0 {
			if err := add(func(name string) error { return mask(name, l.Hidden) }); err != nil {
				return err
			}
		}
	}
	return unix.Mount("overlay", root, "overlay", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV,
		"lowerdir="+strings.Join(names, ":"))
}

// mask makes a layer of what another one hides. The names are in order: a directory comes before what is in it.
func mask(dir string, hidden []string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	done := map[string]bool{}
	for _, name := range hidden {
		above := path.Dir(name)
		for above != "." && !done[above] {
			above = path.Dir(above)
		}
		if done[above] {
			continue // with its directory
		}
		done[name] = true
		place := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
			return err
		}
		if err := unix.Mknod(place, unix.S_IFCHR, 0); err != nil {
			return &os.PathError{Op: "mknod", Path: place, Err: err}
		}
	}
	return nil
}

func ignoreExisting(err error) error {
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}
