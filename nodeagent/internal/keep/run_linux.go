package keep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"tandem.internal/nodeagent/internal/cgroup"
	"tandem.internal/nodeagent/internal/confine"
	"tandem.internal/nodeagent/internal/container"
)

// run is one run as the keeper has it. It belongs to the keeper's loop, but for spec, which is never
// changed.
type run struct {
	spec   Run // without Argv, Env and Confine once it was started
	status Status
	mine   bool // this keeper started it
	boot   string
	ticks  uint64
	mark   string
	ooms   uint64 // of its groups before it
	out    *output
	domain *domain // nil: it is not confined, or has ended
	uid    uint32  // of its slot; 0: the keeper's own
	groups []uint32

	maxAt, killAt time.Time // when it is killed: MaxExecution, the end of a grace; zero: not
	ending        bool      // the main process is gone, and what is left is being ended
	saveAt        time.Time // when the record, which the disk did not take, is written again; zero: it is written
}

func (r *run) record() record {
	return record{
		Format: recordFormat, Boot: r.boot, Ticks: r.ticks,
		Cgroups: r.spec.Cgroups, Log: r.spec.Log, StopGrace: r.spec.StopGrace, Status: r.status,
	}
}

// now is the status as it is told. The keeper's own runs began at a time that has its monotonic clock.
func (r *run) now() Status {
	s := r.status
	if r.mine && s.State == Running {
		s.Up = time.Since(s.Started)
	}
	return s
}

// output reads what a run writes, for as long as anything of it can write.
type output struct {
	r      *os.File
	closed chan struct{} // when there is no more
	log    *logWriter    // the goroutine's until closed
}

// drainLimit is how long output is waited for after everything of a run was killed.
const drainLimit = time.Second

// buffers are used only while there is something to read: most runs are silent.
var buffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// startOutput returns the writing end, for the process alone, whose user is uid; 0: the keeper's own.
func startOutput(log Log, uid uint32) (o *output, w int, err error) {
	var p [2]int
	if err := syscall.Pipe2(p[:], syscall.O_CLOEXEC); err != nil {
		return nil, 0, os.NewSyscallError("pipe2", err)
	}
	if err := syscall.SetNonblock(p[0], true); err != nil {
		return nil, 0, errors.Join(os.NewSyscallError("fcntl", err), syscall.Close(p[0]), syscall.Close(p[1]))
	}
	if uid != 0 { // which may open it again by its name, as /dev/stderr
		if err := syscall.Fchown(p[1], int(uid), int(uid)); err != nil {
			return nil, 0, errors.Join(os.NewSyscallError("fchown", err), syscall.Close(p[0]), syscall.Close(p[1]))
		}
	}
	o = &output{r: os.NewFile(uintptr(p[0]), "output"), closed: make(chan struct{}), log: newLogWriter(log)}
	go o.read()
	return o, p[1], nil
}

func (o *output) read() {
	defer close(o.closed)
	defer o.log.Close()
	raw, err := o.r.SyscallConn()
	for more := true; more && err == nil; {
		err = raw.Read(func(fd uintptr) bool {
			b, _ := buffers.Get().(*[]byte)
			defer buffers.Put(b)
			n, rerr := syscall.Read(int(fd), *b)
			if rerr == syscall.EAGAIN {
				return false
			}
			if rerr != syscall.EINTR {
				more = n > 0
			}
			o.log.Write((*b)[:max(0, n)])
			return true
		})
	}
}

// finish waits for the rest and says how much was lost of it.
func (o *output) finish(ctx context.Context) (dropped int64) {
	ctx, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	select {
	case <-o.closed:
	case <-ctx.Done(): // something that cannot be killed holds it
	}
	_ = o.r.Close() // ends the reading, if it goes on
	<-o.closed
	return o.log.dropped
}

// busyTries is how often a program is tried that somebody still writes: who made it may have forked
// with it open.
const busyTries = 5

// launch makes the process of a run. It returns its PID, and the reason for people if there is none.
func launch(r *run, out int) (pid int, err error) {
	spec := r.spec
	if info, err := os.Stat(spec.Dir); err != nil {
		return 0, fmt.Errorf("its directory: %w", err)
	} else if !info.IsDir() {
		return 0, fmt.Errorf("its directory: %s is none", spec.Dir)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer func() { _ = null.Close() }() // only used by the child
	if out < 0 {
		out = int(null.Fd())
	}
	sys := &syscall.SysProcAttr{Setsid: true}
	if u := spec.User; u != nil {
		sys.Credential = &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: r.groups}
	}
	attr := &syscall.ProcAttr{Dir: spec.Dir, Env: spec.Env, Files: []uintptr{null.Fd(), uintptr(out), uintptr(out)},
		Sys: sys}
	if spec.Contain {
		container.Attr(sys)
	}
	late := "" // the group of cgroup v2
	forkExec := r.domain.forkExec
	fork := func() (pid int, err error) {
		for try := 1; ; try++ {
			pid, err = forkExec(spec.Argv[0], spec.Argv, attr)
			// before Linux 5.7, in containers that forbid it, and when it is confined
			if sys.UseCgroupFD && errors.Is(err, syscall.ENOSYS) {
				sys.UseCgroupFD = false
				pid, err = forkExec(spec.Argv[0], spec.Argv, attr)
				if err == nil {
					err = enterLate(late, pid, r.mark)
				}
			}
			if err == nil {
				return pid, nil
			}
			if !errors.Is(err, syscall.ETXTBSY) || try == busyTries {
				err = notStarted(spec.Argv[0], spec.Dir, err)
				if r.domain != nil && errors.Is(err, syscall.EACCES) {
					err = fmt.Errorf("%w; perhaps what it needs is not in the files that it is confined to", err)
				}
				return 0, fmt.Errorf("start %s: %w", spec.Argv[0], err)
			}
			time.Sleep(10 * time.Millisecond) // nothing tells when it is closed
		}
	}
	var v1 []string
	for _, dir := range spec.Cgroups {
		if _, err := os.Stat(filepath.Join(dir, tasksFile)); err == nil {
			v1 = append(v1, dir)
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return 0, fmt.Errorf("its control group: %w", err)
		}
		if sys.UseCgroupFD {
			return 0, errors.New("its control group: a process can be in one group of cgroup v2 only")
		}
		d, err := os.Open(dir)
		if err != nil {
			return 0, fmt.Errorf("its control group: %w", err)
		}
		defer func() { _ = d.Close() }() // only used by the child
		sys.UseCgroupFD, sys.CgroupFD, late = true, int(d.Fd()), dir
	}
	if len(v1) > 0 && r.domain != nil {
		return r.domain.inside(v1, fork)
	}
	if len(v1) > 0 {
		return forkInside(v1, fork)
	}
	return fork()
}

// tasksFile lists the threads of a group of cgroup v1; v2 has none.
const tasksFile = "tasks"

// forkInside calls fork in groups of cgroup v1, where each thread can have its own and a child has that of
// the thread that made it. The thread is used up by it.
func forkInside(dirs []string, fork func() (int, error)) (pid int, err error) {
	tid := confine.Apart(func() {
		for _, dir := range dirs {
			if err = enter(dir, syscall.Gettid()); err != nil {
				return
			}
		}
		pid, err = fork()
	})
	awaitThread(tid) // the group is not to be found with a thread of the keeper's in it
	return pid, err
}

// awaitThread waits until a thread that is about to end has ended.
func awaitThread(tid int) {
	for range 1000 {
		if _, err := os.Stat("/proc/self/task/" + strconv.Itoa(tid)); errors.Is(err, fs.ErrNotExist) {
			return
		}
		time.Sleep(200 * time.Microsecond) // nothing tells when a thread has ended
	}
}

// enter puts a thread into a group of cgroup v1.
func enter(dir string, tid int) error { return put(filepath.Join(dir, tasksFile), tid) }

// enterLate puts a process that runs already into a group of cgroup v2, with what it has started meanwhile. One that
// cannot be there is not to run at all.
func enterLate(dir string, pid int, mark string) error {
	err := put(filepath.Join(dir, procsFile), pid)
	if err == nil || errors.Is(err, syscall.ESRCH) { // it has ended
		if err = bringIn(dir, pid, mark); err == nil {
			return nil
		}
	}
	kerr := syscall.Kill(-pid, syscall.SIGKILL)
	_, werr := syscall.Wait4(pid, nil, 0, nil)
	return errors.Join(err, os.NewSyscallError("kill", kerr), os.NewSyscallError("wait4", werr))
}

// procsFile takes processes into a group.
const procsFile = "cgroup.procs"

// maxPasses is how often processes are looked for that were started outside their group; more means that somebody
// starts them faster than they can be put there.
const maxPasses = 1000

// bringIn puts those processes into a group that a process has made before it was there itself: they are in the
// keeper's own. One look is not enough to see that there is none left, see rest.end.
func bringIn(dir string, pid int, mark string) error {
	own, err := cgroup.Own()
	if err != nil || own == "" {
		return err
	}
	in := map[int]bool{pid: true}
	first, _ := lookAt(pid) // it is there, dead or alive, until it is waited for
	for clean, pass := 0, 0; clean < 2; pass++ {
		if pass == maxPasses {
			return errors.New("its control group: it starts processes faster than they can be put there")
		}
		clean++
		list, err := cgroup.In(own) // who can go into another one by itself can do so at any time
		if err != nil {
			return err
		}
		// Most have no children yet. What was there before has a lower number, as long as the kernel's numbers have not
		// begun anew; later on nobody knows how often they have.
		quick := pass < 2 && newestPID() >= pid
		for _, other := range list {
			if other == os.Getpid() || quick && other < pid {
				continue
			}
			p, ok := lookAt(other)
			if !ok || p.dead || in[other] || p.ticks < first.ticks { // what is older was not made by it
				continue
			}
			if p.session != pid {
				if its, _ := marked(other, ""); its != mark {
					continue
				}
			}
			if err := put(filepath.Join(dir, procsFile), other); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
			in[other], clean = true, 0
		}
	}
	return nil
}

func put(path string, id int) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("its control group: %w", err)
	}
	_, err = f.WriteString(strconv.Itoa(id))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("its control group: %w", err)
	}
	return nil
}

// ownOOM is how much this process is spared when memory runs out, which what it starts has from it.
const ownOOM = "/proc/self/oom_score_adj"

// unprotect gives up what spares the keeper when memory runs out, until that is given to protect. A process is started
// in between: later, those that it has started already would keep it.
func unprotect() (was []byte, err error) {
	was, err = os.ReadFile(ownOOM)
	if err != nil || len(was) == 0 || was[0] != '-' {
		return nil, err
	}
	return was, os.WriteFile(ownOOM, []byte("0"), 0)
}

// protect has the keeper spared again; whoever was may.
func protect(was []byte) error {
	if was == nil {
		return nil
	}
	return os.WriteFile(ownOOM, was, 0)
}

// over is what became of a run's rest.
type over struct {
	run     *run
	left    int
	err     error
	dropped int64
	ooms    uint64
}

// oomKills counts the processes of a run's groups that were killed for memory, also of that which runc has made.
func (r *run) oomKills() uint64 {
	n := cgroup.OOMKills(r.spec.Cgroups)
	if r.spec.Contain {
		n += cgroup.OOMKills(container.Beside(r.spec.Cgroups, r.spec.ID))
	}
	return n
}

// finish ends what is left of a run and its output.
func (r *run) finish(ctx context.Context, left rest, living *living) over {
	o := over{run: r}
	o.left, o.err = left.end(ctx, living)
	if r.out != nil {
		o.dropped = r.out.finish(ctx)
	}
	if n := r.oomKills(); r.mine && n > r.ooms {
		o.ooms = n - r.ooms
	}
	return o
}
