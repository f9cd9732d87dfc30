package container

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/nodeagent/internal/cgroup"
)

// clear ends what a runtime that was killed has left of a container before it noted it: what has the container's mark
// in its environment, or, of runc's, is in its control group.
func (h *Home) clear(ctx context.Context, id string) error {
	data, err := os.ReadFile(filepath.Join(h.bundle(id), stageFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the runtime was not called
	}
	if err != nil {
		return err
	}
	var s stage
	if json.Unmarshal(data, &s) != nil {
		return nil // nor with half of this
	}
	if s.Group != "" {
		dirs, err := groupDirs(s.Group)
		if err != nil {
			return err
		}
		err = cgroup.Kill(ctx, dirs)
		if errors.Is(err, fs.ErrNotExist) { // the runtime has just removed some of them
			err = cgroup.Kill(ctx, dirs)
		}
		if err != nil {
			return err
		}
		for _, dir := range dirs {
			if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) &&
				!errors.Is(err, syscall.EBUSY) { // until those that have ended are reaped: it goes with the group above
				return err
			}
			// runc makes it in all hierarchies, and so what is above it in those that the workload has no limits in.
			if above := filepath.Dir(dir); strings.HasPrefix(filepath.Base(dir), groupName) && os.Remove(above) == nil {
				_ = os.Remove(filepath.Dir(above)) // unless others are in it
			}
		}
	}
	mark := []byte(mark(h.bundle(id)))
	for pause, clean := time.Millisecond, 0; clean < 2; pause = min(2*pause, 100*time.Millisecond) {
		left, err := marked(mark)
		if err != nil {
			return err
		}
		if clean++; len(left) == 0 {
			continue // one look may miss what another process has just started
		}
		clean = 0
		for _, p := range left {
			if err := p.kill(); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
	return nil
}

// Group names a control group for the container of a run with this ID, beside that which the run has in these
// directories; "": they are none, or not the same in all hierarchies. No other run has it: whoever removes what is left
// of an earlier one ends nothing of the next.
func Group(run []string, id string) (name string) {
	for _, dir := range run {
		above, ok := strings.CutPrefix(filepath.Dir(dir), groupRoot)
		if groups() != v2 {
			_, above, ok = strings.Cut(strings.TrimPrefix(above, "/"), "/")
			above = "/" + above
		}
		above += "/" + groupName + id
		if !ok || name != "" && name != above {
			return ""
		}
		name = above
	}
	return name
}

// Beside are the directories of the Group that belongs to these. runc leaves it until the container is Deleted.
func Beside(run []string, id string) (dirs []string) {
	for _, dir := range run {
		dirs = append(dirs, filepath.Join(filepath.Dir(dir), groupName+id))
	}
	return dirs
}

const groupName = "container-"

// groupDirs are the directories of a control group: of v2 one, of v1 one in each hierarchy.
func groupDirs(group string) (dirs []string, err error) {
	if groups() == v2 {
		return []string{filepath.Join(groupRoot, group)}, nil
	}
	hierarchies, err := os.ReadDir(groupRoot)
	for _, e := range hierarchies {
		dirs = append(dirs, filepath.Join(groupRoot, e.Name(), group))
	}
	return dirs, err
}

// marked are the processes that have a variable in their environment.
func marked(variable []byte) (found []Process, err error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	names, err := d.Readdirnames(-1)
	if err = errors.Join(err, d.Close()); err != nil {
		return nil, err
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == os.Getpid() {
			continue
		}
		ticks, ok := ticksOf(pid)
		environ, err := os.ReadFile("/proc/" + name + "/environ")
		if err != nil || !ok {
			continue // it has ended, or is another user's
		}
		for v := range bytes.SplitSeq(environ, []byte{0}) {
			if bytes.Equal(v, variable) {
				found = append(found, Process{pid, ticks})
			}
		}
	}
	return found, nil
}
