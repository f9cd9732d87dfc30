package keep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"tandem.internal/shared/wire"
)

// lose ends what is left of a run whose keeper was killed. If the machine was started since, nothing is, and
// what has its process ID or its groups now is another's.
func (k *keeper) lose(ctx context.Context, r *run) {
	r.status.Ended = time.Now()
	if r.boot != "" && r.boot != k.boot {
		k.over(over{run: r})
		return
	}
	r.ending = true
	k.end(ctx, r, rest{mark: r.mark, cgroups: r.spec.Cgroups, pid: r.status.PID, ticks: r.ticks, dir: k.cfg.Dir,
		uid: r.uid, nobody: k.nobody()})
}

// nobody is a user that no process has: the number of the group of all slots.
func (k *keeper) nobody() uint32 {
	if k.users == nil {
		return 0
	}
	return k.users.users.Group()
}

// end has what is left of a run ended.
func (k *keeper) end(ctx context.Context, r *run, left rest) {
	k.group.Go(func() {
		o := r.finish(ctx, left, k.living)
		select {
		case k.overs <- o:
		case <-k.closed:
		}
	})
}

// reap takes leave of every child that has ended: main processes, and orphans.
func (k *keeper) reap(ctx context.Context) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		r := k.living.gone(pid)
		if r == nil {
			continue
		}
		r.ending = true
		r.maxAt, r.killAt = time.Time{}, time.Time{}
		r.status.Ended = time.Now()
		if status.Signaled() {
			r.status.Signal = int(status.Signal())
		} else {
			r.status.ExitCode = status.ExitStatus()
		}
		k.end(ctx, r, rest{mark: r.mark, cgroups: r.spec.Cgroups, pid: pid, ticks: r.ticks, ours: true, uid: r.uid,
			nobody: k.nobody()})
	}
}

// over takes note that nothing is left of a run.
func (k *keeper) over(o over) {
	r := o.run
	if o.left > 0 || o.err != nil {
		k.note("run %s: %d processes of it cannot be killed: %v", r.spec.ID, o.left, o.err)
	}
	r.ending = false
	r.out = nil
	r.status.Left = o.left
	r.status.Dropped, r.status.OOMKills = o.dropped, o.ooms
	r.status.State = Exited
	if !r.mine {
		r.status.State = Lost
	}
	k.leave(r)
	k.note("run %s has ended: %s, code %d, signal %d, cause %q", r.spec.ID, r.status.State, r.status.ExitCode,
		r.status.Signal, r.status.Cause)
	k.save(r)
	k.tell(r)
	k.idleSince = time.Now()
}

// save writes a run's record, or has it written again later.
func (k *keeper) save(r *run) {
	r.saveAt = time.Time{}
	if err := k.records.save(r.record()); err != nil {
		r.saveAt = time.Now().Add(saveAgain)
		k.note("run %s: %v", r.spec.ID, err)
	}
}

// tell tells the followers how a run is.
func (k *keeper) tell(r *run) {
	for f := range k.followers {
		f.add(r.now())
	}
}

// start starts a run, unless it is known.
func (k *keeper) start(spec Run) (Status, *wire.Error) {
	if err := spec.Check(); err != nil {
		return Status{}, err
	}
	if r := k.runs[spec.ID]; r != nil {
		return r.now(), nil
	}
	if k.quitting {
		return Status{}, wire.New(wire.CodeUnavailable, "", "the keeper is about to end")
	}
	if len(k.runs) >= MaxRuns {
		return Status{}, wire.New(wire.CodeTooLarge, "", fmt.Sprintf("the keeper remembers %d runs; forget those "+
			"that have ended", len(k.runs)))
	}
	for _, o := range k.runs {
		switch {
		case o.status.State != Running:
		case spec.Log.Path != "" && o.spec.Log.Path == spec.Log.Path:
			return Status{}, wire.New(wire.CodeWrongState, "/log/path", fmt.Sprintf("run %s still writes this log",
				o.spec.ID))
		case slices.ContainsFunc(spec.Cgroups, func(dir string) bool { return slices.Contains(o.spec.Cgroups, dir) }):
			return Status{}, wire.New(wire.CodeWrongState, "/cgroups",
				fmt.Sprintf("run %s is still in this control group", o.spec.ID))
		}
	}
	r := &run{
		spec: spec, boot: k.boot, mark: k.markOf(spec.ID), mine: true,
		status: Status{ID: spec.ID, State: Running, Started: time.Now()},
	}
	// From here on the ID is used up: whoever finds this record and no process does not start it again.
	if err := k.records.save(r.record()); err != nil {
		return Status{}, wire.New(wire.CodeStorage, "", "the run cannot be noted, so it is not started: "+err.Error())
	}
	k.runs[spec.ID] = r
	if err := k.begin(r); err != nil {
		k.leave(r)
		r.status.State, r.status.PID = Exited, 0
		r.status.Ended = time.Now()
		r.status.Error = wire.New(wire.CodeApplyFailed, "", err.Error()).Message
		k.note("run %s cannot be started: %v", spec.ID, err)
	} else {
		k.note("run %s started: process %d", spec.ID, r.status.PID)
	}
	r.spec.Argv, r.spec.Env, r.spec.Confine = nil, nil, nil
	k.save(r)
	k.tell(r)
	return r.now(), nil
}

// begin makes the process of a run and what belongs to it.
func (k *keeper) begin(r *run) (err error) {
	if err := k.admit(r); err != nil {
		return fmt.Errorf("a user of its own: %w", err)
	}
	if err := k.enter(r); err != nil {
		return err
	}
	env := slices.DeleteFunc(slices.Clone(r.spec.Env), func(v string) bool { return strings.HasPrefix(v, Mark+"=") })
	r.spec.Env = append(env, Mark+"="+r.mark)
	r.ooms = r.oomKills()
	w := -1
	if r.spec.Log.Path != "" {
		if r.out, w, err = startOutput(r.spec.Log, r.uid); err != nil {
			return err
		}
	}
	was, perr := unprotect()
	pid, err := k.living.fork(r, func() (int, error) { return launch(r, w) })
	if perr = errors.Join(perr, protect(was)); perr != nil {
		k.note("run %s: whom to spare when memory runs out: %v", r.spec.ID, perr)
	}
	if w >= 0 {
		err = errors.Join(err, os.NewSyscallError("close", syscall.Close(w)))
	}
	if err != nil && pid == 0 {
		if r.out != nil {
			r.out.finish(context.Background()) // at once: nobody has the other end
			r.out = nil
		}
		return err
	}
	r.status.PID = pid
	if p, ok := lookAt(pid); ok { // it is there until it is waited for, dead or alive
		r.ticks = p.ticks
	}
	if d := r.spec.MaxExecution; d > 0 {
		r.maxAt = time.Now().Add(d)
	}
	return nil
}

// stop begins to end a run.
func (k *keeper) stop(r *run, cause Cause, grace time.Duration) {
	if r.status.State != Running || r.ending {
		return
	}
	if r.status.Cause == "" {
		r.status.Cause = cause
		k.note("run %s is stopped within %v: %s", r.spec.ID, grace, cause)
	}
	if grace > 0 {
		k.signal(r, cmp.Or(syscall.Signal(r.spec.StopSignal), syscall.SIGTERM))
	}
	if at := time.Now().Add(grace); r.killAt.IsZero() || at.Before(r.killAt) {
		r.killAt = at
	}
	k.tell(r)
}

// quit ends the keeper when nothing runs any more; force sees to that.
func (k *keeper) quit(force bool) *wire.Error {
	if !force && k.running() {
		return wire.New(wire.CodeWrongState, "", "runs are left")
	}
	k.quitting = true
	for _, r := range k.runs {
		k.stop(r, CauseQuit, r.spec.StopGrace)
	}
	return nil
}

// running says whether anything runs.
func (k *keeper) running() bool {
	for _, r := range k.runs {
		if r.status.State == Running {
			return true
		}
	}
	return false
}
