package keep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"tandem.internal/shared/durable"
)

// Serving is the configuration of Serve.
type Serving struct {
	Dir     string // the keeper's own directory
	Version string // of this program
	// Ready is where one line says that the keeper listens, that another one has the directory, or why it
	// cannot; nil: nowhere. Serve closes it.
	Ready *os.File
	Idle  time.Duration // without a run and a client for so long, it ends; 0: a minute
	// called when it ends and has no process left, while nobody else can have the directory; nil: nothing
	Last  func() error
	Steps durable.Steps // a seam for tests; nil: none
	// Users are given to slots. The process has to be one that Bound has started, with the same.
	Users Users
	Plain bool // a seam for tests: nothing is confined, as on a kernel that cannot
}

// Pauses.
const (
	defaultIdle = time.Minute
	saveAgain   = time.Second
)

// errBusy says that another keeper has the directory.
var errBusy = errors.New("another keeper has the directory")

// keeper is a keeper that runs. All of it belongs to the goroutine of loop, but for living and the channels.
type keeper struct {
	cfg     Serving
	mark    string // the first part of its runs' marks
	boot    string
	records records
	words   *logWriter // what it says
	living  *living

	calls  chan call
	overs  chan over
	people chan int // +1: a client came; -1: it went
	closed chan struct{}

	runs      map[string]*run
	domains   map[string]*domain // by directory; of each a run goes on
	users     *slotUsers         // nil: all runs are of the keeper's own user
	followers map[*follower]struct{}
	clients   int
	idleSince time.Time
	quitting  bool
	group     sync.WaitGroup // all goroutines that it started
}

// call is a request on its way to the loop.
type call struct {
	request  request
	follower *follower   // of opFollow
	leave    bool        // the follower goes; nothing is answered
	answer   chan answer // has room for one
}

// Serve is the keeper: it listens in its directory until it is told to end, or has nothing to do. When ctx
// ends, it stops every run within its StopGrace, and then ends. It takes over all children of the
// process, so that the process can have no other purpose.
func Serve(ctx context.Context, cfg Serving) (err error) {
	say := func(line string) error {
		if cfg.Ready == nil {
			return nil
		}
		_, err := cfg.Ready.WriteString(strings.ReplaceAll(line, "\n", " ") + "\n")
		err = errors.Join(err, cfg.Ready.Close())
		cfg.Ready = nil
		if errors.Is(err, syscall.EPIPE) {
			return nil // who started it has gone
		}
		return err
	}
	k, listener, unlock, err := open(cfg)
	if errors.Is(err, errBusy) && cfg.Ready != nil {
		return say(sayBusy)
	}
	if err != nil {
		return errors.Join(err, say(err.Error()))
	}
	defer func() { err = errors.Join(err, unlock()) }()
	defer k.words.Close()
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	defer signal.Stop(children)
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	k.note("keeper %s started, version %s, process %d, %d runs of before", k.mark, cfg.Version, os.Getpid(),
		len(k.runs))
	for _, r := range k.runs {
		if r.status.State == Running {
			k.lose(work, r)
		}
	}
	k.group.Go(func() { k.accept(work, listener) })
	if err = say(sayReady); err == nil {
		k.loop(ctx, work, children)
		if cfg.Last != nil {
			if err := cfg.Last(); err != nil {
				k.note("%v", err)
			}
		}
	}
	err = errors.Join(err, listener.Close()) // first, so that whoever is hung up on finds nobody
	cancel()
	close(k.closed)
	k.group.Wait()
	k.note("keeper %s ends", k.mark)
	return err
}

// open makes a keeper that has the directory for itself.
func open(cfg Serving) (_ *keeper, _ *listener, unlock func() error, err error) {
	if cfg.Idle == 0 {
		cfg.Idle = defaultIdle
	}
	if cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil {
		return nil, nil, nil, fmt.Errorf("keeper's directory: %w", err)
	}
	if err := makeDir(cfg.Dir); err != nil {
		return nil, nil, nil, err
	}
	lock, err := os.OpenFile(filepath.Join(cfg.Dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("keeper's directory: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, nil, nil, errBusy
	} else if err != nil {
		return nil, nil, nil, fmt.Errorf("lock the keeper's directory: %w", err)
	}
	k := &keeper{
		cfg: cfg, records: records{filepath.Join(cfg.Dir, "runs"), cfg.Steps},
		words:  newLogWriter(Log{Path: filepath.Join(cfg.Dir, "log"), Bytes: 128 << 10, Files: 2}),
		living: newLiving(os.Getpid()),
		calls:  make(chan call), overs: make(chan over), people: make(chan int), closed: make(chan struct{}),
		runs: map[string]*run{}, domains: map[string]*domain{}, followers: map[*follower]struct{}{},
		idleSince: time.Now(),
	}
	if k.mark, err = identity(cfg.Dir, cfg.Steps); err != nil {
		return nil, nil, nil, err
	}
	if k.boot, err = bootID(); err != nil {
		return nil, nil, nil, err
	}
	if err := errors.Join(closeOnExec(), adoptOrphans()); err != nil {
		return nil, nil, nil, err
	}
	// The first use of a handle on a process makes a child, which must not meet the reaping of runs.
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return nil, nil, nil, err
	}
	if err := self.Release(); err != nil {
		return nil, nil, nil, err
	}
	if k.users, err = openUsers(cfg.Dir, cfg.Users, cfg.Steps); err != nil {
		return nil, nil, nil, err
	}
	all, err := k.records.load()
	if err != nil {
		return nil, nil, nil, err
	}
	for _, rec := range all {
		k.runs[rec.Status.ID] = &run{
			spec:   Run{ID: rec.Status.ID, Cgroups: rec.Cgroups, Log: rec.Log, StopGrace: rec.StopGrace},
			status: rec.Status, boot: rec.Boot, ticks: rec.Ticks, mark: k.markOf(rec.Status.ID),
			uid: rec.Status.UID,
		}
	}
	l, err := listen(cfg.Dir)
	if err != nil {
		return nil, nil, nil, err
	}
	return k, l, lock.Close, nil
}

func (k *keeper) markOf(id string) string { return k.mark + "/" + id }

// note says something in the keeper's own log.
func (k *keeper) note(format string, args ...any) {
	k.words.Write(fmt.Appendf(nil, time.Now().UTC().Format("2006-01-02T15:04:05.000Z ")+format+"\n", args...))
}

// loop does everything in turn until the keeper is to end.
func (k *keeper) loop(ctx, work context.Context, children <-chan os.Signal) {
	stop := ctx.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for !k.finished(time.Now()) {
		timer.Reset(time.Until(k.next()))
		select {
		case <-stop:
			stop = nil
			k.note("told to end")
			k.quit(true)
		case <-children:
			k.reap(work)
		case o := <-k.overs:
			k.over(o)
		case n := <-k.people:
			k.clients += n
			k.idleSince = time.Now()
		case c := <-k.calls:
			k.call(c)
		case <-timer.C:
			k.due(time.Now())
		}
	}
}

// finished says whether the keeper can end now.
func (k *keeper) finished(now time.Time) bool {
	if k.quitting {
		return !k.running()
	}
	return k.idle() && now.Sub(k.idleSince) >= k.cfg.Idle
}

// idle says whether there is nothing to do, and nobody to do it for.
func (k *keeper) idle() bool {
	for _, r := range k.runs {
		if !r.saveAt.IsZero() {
			return false
		}
	}
	return k.clients == 0 && !k.running()
}

// next is when something is due.
func (k *keeper) next() time.Time {
	next := time.Now().Add(time.Hour)
	if k.idle() {
		next = k.idleSince.Add(k.cfg.Idle)
	}
	for _, r := range k.runs {
		for _, t := range []time.Time{r.maxAt, r.killAt, r.saveAt} {
			if !t.IsZero() && t.Before(next) {
				next = t
			}
		}
	}
	return next
}

// due does what is due.
func (k *keeper) due(now time.Time) {
	for _, r := range k.runs {
		if !r.saveAt.IsZero() && !now.Before(r.saveAt) {
			k.save(r)
		}
		max, grace := !r.maxAt.IsZero() && !now.Before(r.maxAt), !r.killAt.IsZero() && !now.Before(r.killAt)
		if max && r.status.Cause == "" {
			r.status.Cause = CauseTimeout
			k.note("run %s takes longer than it may", r.spec.ID)
		}
		if max || grace {
			r.maxAt, r.killAt = time.Time{}, time.Time{}
			k.signal(r, syscall.SIGKILL) // what is left is found when the main process has ended
			k.tell(r)
		}
	}
}

// signal sends a signal to the process group of a run. The main process has not been waited for, so the
// group is there and no other.
func (k *keeper) signal(r *run, sig syscall.Signal) {
	if r.ending || r.status.PID == 0 {
		return
	}
	err := syscall.Kill(-r.status.PID, sig)
	if errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.EPERM) { // it has left its group
		err = syscall.Kill(r.status.PID, sig)
	}
	if err != nil && !errors.Is(err, syscall.ESRCH) {
		k.note("run %s: signal %d: %v", r.spec.ID, sig, err)
	}
}
