package container

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/go-json-experiment/json"

	"tandem.internal/shared/durable"
)

// In the directory: what the runtime keeps of containers, bundles by ID, and in which boot that was.
const (
	stateName  = "state"
	bundleName = "bundles"
	bootName   = "boot"
	maxBoot    = 1 << 10      // bytes
	stageFile  = "stage.json" // in a bundle
)

// Open opens a directory of containers. What is in it of before the machine was started is removed: of that nothing
// runs.
func Open(h Home) (*Home, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err == nil && !filepath.IsAbs(h.Dir) {
		err = fmt.Errorf("%s is no absolute path", h.Dir)
	}
	if err != nil {
		return nil, fmt.Errorf("containers: %w", err)
	}
	file := filepath.Join(h.Dir, bootName)
	was, err := durable.ReadFile(file, maxBoot)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !bytes.Equal(was, boot) {
		if err := errors.Join(os.RemoveAll(h.state()), os.RemoveAll(filepath.Join(h.Dir, bundleName))); err != nil {
			return nil, fmt.Errorf("containers: %w", err)
		}
	} else if err != nil {
		return nil, fmt.Errorf("containers: %w", err)
	}
	for _, dir := range []string{h.Dir, h.state(), filepath.Join(h.Dir, bundleName)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("containers: %w", err)
		}
	}
	// What is right is not written: on a full disk that could lose it, and with it what runs.
	if !bytes.Equal(was, boot) {
		if err := errors.Join(durable.Clean(file), durable.WriteFile(file, boot, 0o600, nil)); err != nil {
			return nil, fmt.Errorf("containers: %w", err)
		}
	}
	return &h, nil
}

func (h *Home) state() string            { return filepath.Join(h.Dir, stateName) }
func (h *Home) bundle(id string) string  { return filepath.Join(h.Dir, bundleName, id) }
func (h *Home) running(id string) string { return filepath.Join(h.state(), id) }

// goodID is what both runtimes take for an ID, and can be a file's name.
var goodID = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+-]{0,199}$`)

// ErrExists says that there is something of a container of this name.
var ErrExists = errors.New("there is a container of this name")

// Prepare makes what a container is made of, and returns the arguments with which this program, started as Attr says,
// becomes its runtime: that stays until the container's main process has ended, gives on to it the signals that it gets
// itself, and ends with its exit status, or 128 and the number of the signal. The container writes where that process
// does, and is in its control groups. After an error nothing of it is left; else it is Deleted, whether that was
// started or not.
func (h *Home) Prepare(ctx context.Context, id string, s Spec) (args []string, err error) {
	if !goodID.MatchString(id) {
		return nil, fmt.Errorf("%.100q cannot be the name of a container", id)
	}
	if _, err := os.Lstat(h.running(id)); err == nil {
		return nil, ErrExists
	}
	if err := os.Mkdir(h.bundle(id), 0o711); errors.Is(err, fs.ErrExist) {
		return nil, ErrExists
	} else if err != nil {
		return nil, err
	}
	if err := h.fill(id, s); err != nil {
		return nil, errors.Join(err, h.Delete(context.WithoutCancel(ctx), id))
	}
	return []string{stageName, filepath.Join(h.bundle(id), stageFile)}, nil
}

// fill fills a bundle.
func (h *Home) fill(id string, s Spec) error {
	switch {
	case h.Runtime.Name != "runc":
		s.Group = ""
	case s.Group == "":
		return errors.New("runc needs a control group for each container")
	case s.StopSignal == int(syscall.SIGWINCH):
		return errors.New("its image asks to be ended by SIGWINCH, which runc does not hand on; crun does")
	}
	err := s.check()
	if err != nil {
		return err
	}
	bundle := h.bundle(id)
	args := []string{"--bundle", bundle, "--no-new-keyring"}
	if h.Runtime.Name == "runc" && h.Runtime.keeps() {
		args = append(args, "--keep") // and with it what its control group has counted
	}
	st := stage{Bundle: bundle, Argv: h.argv("run", append(args, id)...),
		Mark: mark(bundle), Group: s.Group, NoGroups: h.Runtime.Name == "crun", Spec: s,
		Rootless: os.Geteuid() != 0}
	if st.Lowers, err = s.lowers(bundle); err != nil {
		return err
	}
	if !h.Runtime.Overlay {
		if err := linkAll(st.Lowers, filepath.Join(bundle, rootName)); err != nil {
			return fmt.Errorf("put the layers together: %w", err)
		}
		st.Lowers = nil
	}
	plan, err := json.Marshal(st)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(bundle, stageFile), plan, 0o600)
}

// Attr has a process begin in a mount namespace of its own; where this process is not root, in a user namespace too, in
// which it is root over itself.
func Attr(sys *syscall.SysProcAttr) {
	sys.Cloneflags |= syscall.CLONE_NEWNS
	if uid := os.Geteuid(); uid != 0 {
		sys.Cloneflags |= syscall.CLONE_NEWUSER
		sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
}

// The variables by which processes of a container are found: its own mark, and that of the keeper's run.
const (
	ownEnv    = "TANDEM_CONTAINER"
	keeperEnv = "TANDEM_RUN" // keep.Mark
)

// mark is the variable that a container's runtime has, and the container itself. It does not tell it where it is kept.
func mark(bundle string) string {
	sum := sha256.Sum256([]byte(bundle))
	return ownEnv + "=" + hex.EncodeToString(sum[:16])
}

const runtimePath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// argv calls the runtime.
func (h *Home) argv(verb string, args ...string) []string {
	argv := []string{h.Runtime.Path, "--root", h.state()}
	if h.Runtime.Name == "crun" {
		argv = append(argv, "--cgroup-manager=disabled")
	}
	return append(append(argv, verb), args...)
}

// keeps reports whether runc can leave a container that has ended: since 1.1.
func (rt Runtime) keeps() bool {
	return !strings.HasPrefix(rt.Version, "0.") && !strings.HasPrefix(rt.Version, "1.0")
}

// call calls the runtime for a container.
func (h *Home) call(ctx context.Context, verb string, args ...string) error {
	argv := h.argv(verb, args...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = []string{runtimePath}, "/"
	if err := run(cmd); err != nil {
		return fmt.Errorf("%s %s: %w", h.Runtime.Name, verb, err)
	}
	return nil
}

// Delete ends a container, if it runs, and removes all that is left of it, also of one that was never quite made. That
// there is none is no error. The control groups in which it was stay, empty.
func (h *Home) Delete(ctx context.Context, id string) error {
	if !goodID.MatchString(id) {
		return nil
	}
	if _, err := os.Lstat(h.running(id)); err == nil {
		p, err := h.process(id)
		if err == nil {
			err = p.kill()
		}
		if err != nil {
			return err
		}
		// Of what was never quite made the runtime may know nothing: then its files go as they are.
		err = h.call(ctx, "delete", "--force", id)
		if rerr := os.RemoveAll(h.running(id)); rerr != nil {
			return errors.Join(err, rerr)
		}
	}
	if err := h.clear(ctx, id); err != nil {
		return fmt.Errorf("remove container %s: %w", id, err)
	}
	if err := os.RemoveAll(h.bundle(id)); err != nil {
		return fmt.Errorf("remove container %s: %w", id, err)
	}
	return nil
}

// List names all containers of which something is there, in order.
func (h *Home) List() (ids []string, err error) {
	for _, dir := range []string{h.state(), filepath.Join(h.Dir, bundleName)} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("list containers: %w", err)
		}
		for _, e := range entries {
			if goodID.MatchString(e.Name()) {
				ids = append(ids, e.Name())
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}
