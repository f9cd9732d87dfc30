package store

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"

	"tandem.internal/controller/internal/artefact"
	"tandem.internal/controller/internal/op"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

// How a step goes wrong.
const (
	undone     = "not done"
	doneAfter  = "done, and an error returned"
	killBefore = "killed before"
	killAfter  = "killed after"
	powerCut   = "power cut after"
)

var errFault = fmt.Errorf("fault: %w", syscall.ENOSPC)

type killed struct{}

// faults has one step of many go wrong.
type faults struct {
	mu     sync.Mutex
	at     int // number of the step, from 0; -1: none
	how    string
	steps  []durable.Step
	synced func()
}

func (f *faults) around(step durable.Step, do func() error) error {
	f.mu.Lock()
	now := len(f.steps) == f.at
	f.steps = append(f.steps, step)
	f.mu.Unlock()
	if now {
		switch f.how {
		case undone:
			return errFault
		case killBefore:
			panic(killed{})
		}
	}
	err := do()
	if err == nil && step == durable.Sync && f.synced != nil && (!now || f.how != doneAfter) {
		f.synced()
	}
	if now && err == nil {
		switch f.how {
		case doneAfter:
			return errFault
		case killAfter, powerCut:
			panic(killed{})
		}
	}
	return err
}

// life runs what a program does until it is killed, or has ended.
func life(do func() error) (err error, wasKilled bool) {
	defer func() {
		if p := recover(); p != nil {
			if p != (killed{}) {
				panic(p)
			}
			wasKilled = true
		}
	}()
	return do(), false
}

// now completes an upload on this goroutine, so that it can be killed.
func (s *Store) now(r *rig, b []byte) error {
	s.mu.Lock()
	v := &verification{done: make(chan struct{})}
	ctx, leave := s.take(r.Context(), digest(b), v)
	s.mu.Unlock()
	defer leave()
	return s.finish(ctx, digest(b), v)
}

// scenario is a life of an artefact: it is uploaded in two pieces, of which an offset is answered, completed and
// removed. told is the offset that was answered.
func (r *rig) scenario(b []byte, told *int64, removes bool) error {
	ctx := r.Context()
	half := len(b) / 2
	if _, err := r.Begin(ctx, op.NewArtefact{Digest: digest(b), Size: int64(len(b))}); err != nil {
		return err
	}
	v, err := r.Write(ctx, digest(b), 0, whole(b[:half]))
	if err != nil {
		return err
	}
	*told = v.Offset
	if v, err = r.Write(ctx, digest(b), v.Offset, whole(b[half:])); err != nil {
		return err
	}
	*told = v.Offset
	if err := r.now(r, b); err != nil {
		return err
	}
	*told = -1
	if !removes {
		return nil
	}
	return r.end(ctx, "ann", digest(b), artefact.Remove{Digest: digest(b)})
}

// TestFaultAtEveryStep: whatever step fails, or whenever the program or the machine stops, an artefact is there whole
// or not at all, an offset that was answered holds, the files are those that the ledger names, and it can be done
// again.
func TestFaultAtEveryStep(t *testing.T) {
	b := content(9000, 5)
	count := &faults{at: -1}
	dry := newRig(t)
	dry.arm(count)
	var told int64
	if err := dry.scenario(b, &told, true); err != nil {
		t.Fatal(err)
	}
	if len(count.steps) < 25 {
		t.Fatalf("only %d steps: %v", len(count.steps), count.steps)
	}
	for at, step := range count.steps {
		for _, how := range []string{undone, doneAfter, killBefore, killAfter, powerCut} {
			for _, again := range []bool{false, true} {
				if again && how != undone && how != doneAfter {
					continue // a program that was killed starts again in any case
				}
				t.Run(fmt.Sprintf("%d-%s/%s/again=%v", at, step, how, again), func(t *testing.T) {
					faultAt(t, b, at, how, again)
				})
			}
		}
	}
}

// arm has the store and the ledger meet faults.
func (r *rig) arm(f *faults) {
	r.around, r.ledger.around, r.cfg.Flush = nil, nil, 2000
	if f != nil {
		r.around, r.ledger.around = f.around, f.around
	}
	r.cfg.Around = r.around
}

func faultAt(t *testing.T, b []byte, at int, how string, again bool) {
	r := newRig(t)
	f := &faults{at: at, how: how}
	synced := int64(0)
	f.synced = func() {
		if info, err := os.Stat(r.partPath(digest(b))); err == nil {
			synced = info.Size()
		}
	}
	r.arm(f)
	var told int64
	err, wasKilled := life(func() error { return r.scenario(b, &told, true) })
	if !wasKilled && err == nil && how == undone {
		t.Fatal("nothing failed")
	}
	if how == powerCut {
		if info, err := os.Stat(r.partPath(digest(b))); err == nil && info.Size() > synced {
			if err := os.Truncate(r.partPath(digest(b)), synced); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.arm(nil)
	r.ledger.mu = sync.Mutex{} // whoever had it was killed
	if wasKilled || again {
		r.open()
		r.work.Wait() // what the crash stopped has ended
		r.mustOwn(b)
	}
	a, there := r.ledger.state.Artefacts[digest(b)]
	switch {
	case there && a.Size == int64(len(b)):
		r.mustServe(b)
	case wasKilled && told > 0:
		if v, err := r.Upload(r.Context(), digest(b)); err != nil || v.Offset < told {
			t.Errorf("the offset %d was answered; now %+v %v", told, v, err)
		}
	}
	r.add(b)
	r.mustServe(b)
	if err := r.end(r.Context(), "ann", digest(b), artefact.Remove{Digest: digest(b)}); err != nil {
		t.Error(err)
	}
	if left := r.files(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// mustOwn checks that every file belongs to an artefact or a lease.
func (r *rig) mustOwn(b []byte) {
	r.Helper()
	_, there := r.ledger.state.Artefacts[digest(b)]
	_, open := r.ledger.state.Leases[digest(b)]
	if left := r.files(); !there && !open && len(left) > 0 {
		r.Errorf("nothing names %v", left)
	}
}

// TestFailedFlushDiscards: after a failed flush nothing of the part counts, since the next flush could succeed without
// the data.
func TestFailedFlushDiscards(t *testing.T) {
	r := newRig(t)
	b := content(3*Chunk, 5)
	if _, err := r.Begin(t.Context(), op.NewArtefact{Digest: digest(b), Size: int64(len(b))}); err != nil {
		t.Fatal(err)
	}
	flushes := 0
	r.cfg.Around = func(step durable.Step, do func() error) error {
		if step == durable.Sync {
			if flushes++; flushes == 2 {
				return syscall.EIO
			}
		}
		return do()
	}
	v, err := r.Write(t.Context(), digest(b), 0, whole(b))
	if code(err) != wire.CodeStorage || v.Offset != 0 {
		t.Errorf("%+v %v", v, err)
	}
	r.cfg.Around = nil
	if v, err := r.Upload(t.Context(), digest(b)); err != nil || v.Offset != 0 {
		t.Errorf("%+v %v", v, err)
	}
	r.add(b)
	r.mustServe(b)
}

// TestFullDisk: what has come before the disk was full is kept, and the upload goes on when there is room.
func TestFullDisk(t *testing.T) {
	r := newRig(t)
	b := content(3*Chunk, 5)
	if _, err := r.Begin(t.Context(), op.NewArtefact{Digest: digest(b), Size: int64(len(b))}); err != nil {
		t.Fatal(err)
	}
	writes := 0
	r.cfg.Around = func(step durable.Step, do func() error) error {
		if step == durable.Write {
			if writes++; writes > 6 {
				return syscall.ENOSPC
			}
		}
		return do()
	}
	v, err := r.Write(t.Context(), digest(b), 0, whole(b))
	if code(err) != wire.CodeStorage || v.Offset != Chunk {
		t.Errorf("%+v %v", v, err)
	}
	r.cfg.Around = nil
	r.open()
	if v, err := r.Upload(t.Context(), digest(b)); err != nil || v.Offset != Chunk {
		t.Errorf("%+v %v", v, err)
	}
	r.add(b)
	r.mustServe(b)
}
