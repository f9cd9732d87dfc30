package keep

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"tandem.internal/nodeagent/internal/confine"
)

// domain is the confined thread that starts the runs of one directory: a slot's hooks have to be in one domain to
// signal its process. It is the keeper's loop's.
type domain struct {
	*confine.Thread
	runs  int  // that go on
	ended bool // it starts nothing any more
}

// enter gives a run the domain of its directory, if it is to be confined. After an error, leave takes it back.
func (k *keeper) enter(r *run) error {
	c := r.spec.Confine
	if r.spec.Contain {
		r.status.Confined = confine.Container
	}
	if c == nil {
		return nil
	}
	d := k.domains[r.spec.Dir]
	if d == nil || d.ended {
		allot(threadMemory)
		d = &domain{Thread: k.thread(c.Room)}
		k.domains[r.spec.Dir] = d
		if d.Why != nil {
			k.note("what runs in %s is confined to %q: %v", r.spec.Dir, d.Level, d.Why)
		}
	}
	d.runs++
	r.domain, r.status.Confined = d, d.Level
	if r.uid != 0 {
		var err error
		if d.Do(func() { err = confine.Disarm() }); err != nil {
			return err
		}
		r.status.Confined = r.status.Confined.With(confine.User)
		if k.users.net {
			r.status.Confined = r.status.Confined.With(confine.Net)
		}
	}
	if r.status.Confined.AtLeast(c.Least) {
		return nil
	}
	err := fmt.Errorf("it has to be confined to %q at least, and this keeper can do %q", c.Least, r.status.Confined)
	if d.Why != nil {
		err = fmt.Errorf("%w: %w", err, d.Why)
	}
	return err
}

func (k *keeper) thread(room confine.Room) *confine.Thread {
	if k.cfg.Plain {
		return confine.PlainThread()
	}
	return confine.NewThread(room)
}

// leave ends a domain with its last run: the next one may get another room.
func (k *keeper) leave(r *run) {
	d := r.domain
	if d == nil {
		return
	}
	r.domain = nil
	if d.runs--; d.runs > 0 {
		return
	}
	d.end()
	if k.domains[r.spec.Dir] == d {
		delete(k.domains, r.spec.Dir)
	}
}

func (d *domain) end() {
	if !d.ended {
		d.ended = true
		d.End()
		allot(-threadMemory)
	}
}

// threadMemory is what the runtime has for a thread, in bytes: two stacks, of which the limit of its memory knows.
const threadMemory = 64 << 10

// allot raises the limit of the runtime's memory, if there is one: with many domains it would do nothing but collect.
func allot(bytes int64) {
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		debug.SetMemoryLimit(limit + bytes)
	}
}

// forkExec is syscall.ForkExec on the domain's thread; of nil on any.
func (d *domain) forkExec(program string, argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	if d == nil {
		return syscall.ForkExec(program, argv, attr)
	}
	d.Do(func() { pid, err = syscall.ForkExec(program, argv, attr) })
	return pid, err
}

// inside calls fork, which makes a process on the domain's thread, while that is in groups of cgroup v1.
func (d *domain) inside(dirs []string, fork func() (int, error)) (pid int, err error) {
	for _, dir := range dirs {
		if err = enter(dir, d.TID); err != nil {
			break
		}
	}
	if err == nil {
		pid, err = fork()
	}
	for _, dir := range dirs {
		if back := enter(top(dir), d.TID); back != nil {
			// The group is not to be found with a thread of the keeper's in it.
			d.end()
			awaitThread(d.TID)
			break
		}
	}
	return pid, err
}

// top is the group above all others in a group's hierarchy of cgroup v1, as far as this process sees it.
func top(dir string) string {
	for {
		above := filepath.Dir(dir)
		if _, err := os.Stat(filepath.Join(above, tasksFile)); err != nil {
			return dir
		}
		dir = above
	}
}
