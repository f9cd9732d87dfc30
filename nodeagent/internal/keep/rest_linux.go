package keep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"tandem.internal/nodeagent/internal/cgroup"
	"tandem.internal/nodeagent/internal/confine"
)

// Limits of ending what is left of a run.
const (
	restLimit   = 30 * time.Second // then what cannot be killed is left to the kernel
	unsureLimit = 2 * time.Second  // then whose process it is that shows nothing of itself is not waited for
	firstPause  = time.Millisecond
	lastPause   = 200 * time.Millisecond
)

// rest is what may be left of a run whose main process has ended, or whose keeper has.
type rest struct {
	mark    string // of the run, as in the environment
	cgroups []string
	pid     int    // of the main process; 0: not known
	ticks   uint64 // when that began; 0: not known
	dir     string // the directory of the keeper, of which one that was killed may have just made a process; "": not
	uid     uint32 // of its slot, which nobody else has; 0: the keeper's own
	nobody  uint32 // with uid, a user that no process has
	ours    bool   // it was this keeper's child, so what it left is below this keeper
}

// end kills all of it, again until nothing is left. left is what could not be killed in time.
//
// One look is not enough to see that nothing is left: a process can make another one after the processes
// were listed, and be gone before it is looked at. Nor can it be seen whose a process is while it changes
// from one program to another.
func (r rest) end(ctx context.Context, living *living) (left int, err error) {
	if r.uid == 0 || r.ours {
		return r.endHere(ctx, living)
	}
	// What an earlier keeper has started is in another user namespace, over which this one has no power: it is killed
	// by a thread of its user. The thread's files stay the agent's.
	confine.Apart(func() {
		if err = actAs(r.uid, os.Geteuid()); err == nil {
			left, err = r.endHere(ctx, living)
		}
	})
	return left, err
}

// actAs has this thread send signals as a slot's user, in whose processes' reach it is not: these could end the keeper
// by any thread of it whose real or saved user is theirs (kill(2)). Those are other, and files are still the other's.
func actAs(uid uint32, other int) error {
	id := uintptr(other)
	setresuid, setfsuid := uintptr(syscall.SYS_SETRESUID), uintptr(syscall.SYS_SETFSUID)
	if runtime.GOARCH == "386" || runtime.GOARCH == "arm" { // where those take 16 bits only
		setresuid, setfsuid = 208, 215
	}
	if _, _, e := syscall.RawSyscall(setresuid, id, uintptr(uid), id); e != 0 {
		return fmt.Errorf("act as the user %d: %w", uid, e)
	}
	_, _, _ = syscall.RawSyscall(setfsuid, id, 0, 0) // it tells no error, and this user may
	return nil
}

// killAll kills every process of a slot's user in one step of the kernel's, in which none can make another one, while
// idle says that none of them is wanted. nobody is a user that no process has.
func (l *living) killAll(uid, nobody uint32) (err error) {
	confine.Apart(func() {
		if err = actAs(uid, int(nobody)); err != nil {
			return
		}
		if err = confine.PowerlessThread(); err != nil { // else those of all users would be killed
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.hasLocked(uid) {
			return
		}
		if e := syscall.Kill(-1, syscall.SIGKILL); e != nil && e != syscall.ESRCH && e != syscall.EPERM {
			err = fmt.Errorf("kill the processes of the user %d: %w", uid, e)
		}
	})
	return err
}

// endHere is end, by the rights of this thread.
func (r rest) endHere(ctx context.Context, living *living) (left int, err error) {
	ctx, cancel := context.WithTimeout(ctx, restLimit)
	defer cancel()
	pause, began := firstPause, time.Now()
	for clean := 0; ; {
		cerr := cgroup.Kill(ctx, r.cgroups)
		living.looks <- struct{}{}
		found, unsure, err := r.kill(living)
		<-living.looks
		if err = errors.Join(cerr, err); err != nil {
			return found, err
		}
		if found == 0 && (!unsure || time.Since(began) > unsureLimit) {
			if clean++; clean == 2 {
				return 0, nil
			}
			continue
		}
		clean = 0
		select {
		case <-ctx.Done():
			return found, nil
		case <-time.After(pause):
		}
		pause = min(2*pause, lastPause)
	}
}

// kill kills what is there now, and counts it.
func (r rest) kill(living *living) (found int, unsure bool, err error) {
	forks := living.count()
	all, err := processes()
	if err != nil {
		return 0, false, err
	}
	alone := r.uid != 0 && !living.has(r.uid) // since before they were listed
	if alone && r.nobody != 0 {
		if err := living.killAll(r.uid, r.nobody); err != nil {
			return 0, false, err
		}
	}
	main, there := all[r.pid]
	there = there && r.ticks != 0 && main.ticks == r.ticks
	var victims, strays []process
	for _, p := range all {
		if p.dead || p.kernel || p.pid == living.self || r.ticks != 0 && p.ticks < r.ticks {
			continue
		}
		below := r.ours && living.below(all, p)
		mark, changing := marked(p.pid, r.dir)
		switch {
		case mark == r.mark,
			alone && owned(p.pid, r.uid),
			there && p.session == r.pid, // its session is that of a process that is there
			below && p.session == r.pid && !living.marks(mark) && living.run(r.pid) == nil:
			victims = append(victims, p)
		case changing:
			unsure = true
		case below && !living.marks(mark):
			strays = append(strays, p)
		}
	}
	victims = append(victims, living.unclaimed(all, strays, forks)...)
	for _, p := range victims {
		if err := p.kill(); err != nil {
			return len(victims), unsure, err
		}
	}
	return len(victims), unsure, nil
}

// living is what all who end runs have to know of the runs that go on. Its methods are for any goroutine.
type living struct {
	self  int           // the keeper's process
	looks chan struct{} // has room for as many as may look at all processes at once

	mu    sync.Mutex
	forks int  // odd while a process is made: it looks like a stray of the keeper's until it has its own program
	next  *run // of which it is made; nil: none is
	runs  map[int]*run
}

func newLiving(self int) *living {
	return &living{self: self, looks: make(chan struct{}, 2), runs: map[int]*run{}}
}

// fork calls f, which makes the process of r.
func (l *living) fork(r *run, f func() (int, error)) (pid int, err error) {
	l.mu.Lock()
	l.forks++
	l.next = r
	l.mu.Unlock()
	pid, err = f()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forks++
	l.next = nil
	if err == nil {
		l.runs[pid] = r
	}
	return pid, err
}

// gone takes note that the main process with this PID has ended.
func (l *living) gone(pid int) *run {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.runs[pid]
	delete(l.runs, pid)
	return r
}

// run is the run whose main process has this PID, nil if there is none.
func (l *living) run(pid int) *run {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.runs[pid]
}

// marks says whether a mark is that of a run that goes on. Any other is as good as none: a process gives
// itself whatever environment it likes.
func (l *living) marks(mark string) (is bool) {
	l.mu.Lock()
	for _, r := range l.runs {
		is = is || r.mark == mark
	}
	l.mu.Unlock()
	return is
}

// has says whether a run of a slot's user goes on, or is being started.
func (l *living) has(uid uint32) (is bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hasLocked(uid)
}

func (l *living) hasLocked(uid uint32) (is bool) {
	for _, r := range l.runs {
		is = is || r.uid == uid
	}
	return is || l.next != nil && l.next.uid == uid
}

func (l *living) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.forks
}

// below says whether a process descends from the keeper.
func (l *living) below(all map[int]process, p process) bool {
	for range len(all) {
		if p.parent == l.self {
			return true
		}
		next, ok := all[p.parent]
		if !ok {
			return false
		}
		p = next
	}
	return false
}

// unclaimed are those of some processes without a mark of such a run that can belong to none: they have
// emptied or forged their environment and left their session. What descends from the main process of a run is that
// run's, wherever its control groups are (runc has others). forks is the count of before they were looked for.
func (l *living) unclaimed(all map[int]process, strays []process, forks int) (list []process) {
	if len(strays) == 0 {
		return nil
	}
	l.mu.Lock()
	unsure := forks%2 != 0 || l.forks != forks
	var mains []int
	var groups []string
	for pid, r := range l.runs {
		mains = append(mains, pid)
		groups = append(groups, r.spec.Cgroups...)
		unsure = unsure || len(r.spec.Cgroups) == 0 // and any of them may be its own
	}
	l.mu.Unlock()
	if unsure {
		return nil // they are looked for again when the next run ends
	}
	claimed, err := cgroup.Processes(groups)
	if err != nil {
		return nil // the same
	}
	for _, p := range strays {
		own := slices.Contains(mains, p.session) || slices.Contains(claimed, p.pid)
		above := p
		for range len(all) { // what was listed one after the other may look like a circle
			own = own || slices.Contains(mains, above.pid)
			above = all[above.parent]
		}
		if !own {
			list = append(list, p)
		}
	}
	return list
}
