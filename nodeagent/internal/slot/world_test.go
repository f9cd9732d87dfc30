package slot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/nodeagent/internal/boot"
	"tandem.internal/nodeagent/internal/slot/record"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/race"
	"tandem.internal/shared/wire"
)

// world is one node: its disk, its kernel, and what runs.
type world struct {
	disk   *simDisk
	kernel int
}

// makerKeys are demanded in each world.
var makerKeys = func() publisher.Keys {
	k, err := publisher.ParseKey(maker.Public())
	if err != nil {
		panic(err)
	}
	return publisher.Keys{k}
}()

// binary is what version v of the agent consists of.
func binary(v string) []byte {
	return []byte("agent " + v + "\n" + strings.Repeat("code of "+v+" ", 20))
}

// content finds out which version a slot holds, whole; "" if none.
func (w *world) content(id ID) string {
	if id == record.Factory {
		return "factory"
	}
	n, err := w.disk.file(filepath.Join(string(id), binaryFile))
	if err != nil {
		return ""
	}
	line, _, _ := bytes.Cut(n.data, []byte("\n"))
	v := strings.TrimPrefix(string(line), "agent ")
	if !bytes.Equal(n.data, binary(v)) {
		return ""
	}
	return v
}

func (w *world) store() *Store {
	return Open(Config{Dir: "/slots", Disk: w.disk, Publishers: makerKeys,
		SelfTest: func(_ context.Context, path string) (string, error) {
			if v := w.content(ID(filepath.Base(filepath.Dir(path)))); v != "" {
				return v, nil
			}
			return "", errors.New("it does not run")
		},
		Machine: func() boot.Evidence { return boot.Evidence{Kernel: fmt.Sprint("kernel ", w.kernel)} },
	})
}

// view is what a test wants to know of a node.
type view struct {
	good, trying  string // versions; "" if none is on trial
	tries, spared int
	seq           uint64
}

func (w *world) view() (view, Status, error) {
	r, notes, err := w.store().load()
	st := status(r, notes)
	if err != nil {
		return view{}, st, err
	}
	v := view{good: "factory", tries: r.Tries, spared: r.Spared, seq: r.Seq}
	if r.Good != record.Factory {
		v.good = r.Slot(r.Good).Version
	}
	if r.Trying != record.None {
		v.trying = r.Slot(r.Trying).Version
	}
	return v, st, nil
}

// op is one thing that happens to a node.
type op struct {
	name string
	do   func(w *world) error
}

func opStage(v string) op {
	return op{"stage " + v, func(w *world) error {
		out, err := w.store().StageFrom(context.Background(), bytes.NewReader(binary(v)), Source{Version: v,
			Signature: maker.SignAs(binary(v), "tandem-node "+v)})
		if err == nil && w.content(out.Slot) != v {
			return fmt.Errorf("slot %s does not hold %s", out.Slot, v)
		}
		return err
	}}
}

// opArm arms the slot that holds v.
func opArm(v string, tries int) op {
	return op{fmt.Sprintf("arm %s %d", v, tries), func(w *world) error {
		for _, id := range record.Writable {
			if w.content(id) == v {
				return w.store().Arm(id, tries)
			}
		}
		return fmt.Errorf("no slot holds %s", v)
	}}
}

func opCommit() op {
	return op{"commit", func(w *world) error {
		st, err := w.store().Status()
		if err != nil {
			return err
		}
		return w.store().Commit(st.Running)
	}}
}

func opRollback() op {
	return op{"rollback", func(w *world) error {
		r, _, err := w.store().load()
		if err != nil {
			return err
		}
		from := r.Good
		if r.Trying != record.None {
			from = r.Trying
		}
		_, err = w.store().Rollback(from, wire.BootFallback, "a test")
		return err
	}}
}

func opPlanned() op {
	return op{"planned", func(w *world) error {
		_, err := w.store().Planned(wire.BootReboot, "an order")
		return err
	}}
}

func opReported() op {
	return op{"reported", func(w *world) error {
		boots, _, err := w.store().BootReason()
		if err != nil || len(boots) == 0 {
			return err
		}
		return w.store().Reported(boots[len(boots)-1].Number)
	}}
}

// opBoot is a start of the agent by the launcher; want, if not empty, is the version that has to start.
func opBoot(want string) op {
	return op{"boot " + want, func(w *world) error {
		l, err := w.store().Starting().Next(nil)
		if err != nil {
			return err
		}
		if got := w.content(l.Slot); want != "" && got != want {
			return fmt.Errorf("slot %s with %q was started: %+v", l.Slot, got, l)
		}
		return nil
	}}
}

// opFailingExec is a start whose first choice does not execute.
func opFailingExec(want string) op {
	return op{"failing exec, then " + want, func(w *world) error {
		b := w.store().Starting()
		l, err := b.Next(nil)
		if err != nil {
			return err
		}
		if l, err = b.Next(errors.New("exec format error")); err != nil {
			return err
		}
		if got := w.content(l.Slot); got != want {
			return fmt.Errorf("slot %s with %q was started: %+v", l.Slot, got, l)
		}
		return nil
	}}
}

// run does an op and says whether the process died in it.
func (w *world) run(o op) (dead bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			if r != (died{}) {
				panic(r)
			}
			dead = true
		}
	}()
	return false, o.do(w)
}

// opAdopt puts what is staged in force as the installed program.
func opAdopt(content string) op {
	return op{"adopt " + content, func(w *world) error {
		for _, id := range record.Writable {
			if w.content(id) == content {
				return w.store().Adopt(id)
			}
		}
		return errors.New("it is not staged")
	}}
}

// story is a life with everything in it, from the first start on.
func story() []op {
	return []op{
		opBoot("factory"), opReported(),
		opStage("v1"), opArm("v1", 3), opBoot("v1"), opPlanned(), opBoot("v1"), opCommit(), opBoot("v1"),
		opStage("v2"), opArm("v2", 2), opBoot("v2"), opBoot("v2"), opBoot("v1"), // crashes until it falls back
		opStage("v3"), opArm("v3", 1), opBoot("v3"), opCommit(), opReported(),
		// given up before it started
		opStage("v4"), opStage("v5"), opArm("v5", 2), opArm("v5", 3), opRollback(), opBoot("v3"),
		opStage("v6"), opArm("v6", 3), opBoot("v6"), opRollback(), opBoot("v3"), // its health failed
		opArm("v6", 2), opFailingExec("v3"), opBoot("v3"),
		opStage("v7"), opArm("v7", 2), opBoot("v7"), opCommit(), opBoot("v7"),
		opRollback(), opBoot("v3"), opPlanned(), opBoot("v3"), // an operator goes back
		opRollback(), opBoot("factory"), opStage("v8"), opArm("v8", 1), opBoot("v8"), opCommit(), opBoot("v8"),
		// the installed program is in force once more, and is replaced by a package
		opRollback(), opBoot("factory"), opStage("v9"), opAdopt("v9"), opBoot("v9"), opStage("v10"), opArm("v10", 1),
		opBoot("v10"), opBoot("v9"),
	}
}

// lives runs the story and shows each op with the world before it.
//
// Nothing here is concurrent: under the race detector, ten times slower, only the beginning is told.
func lives(t *testing.T, visit func(i int, o op, before *simDisk, kernel int)) {
	t.Helper()
	w := &world{disk: newSim(), kernel: 1}
	ops := story()
	if race.Enabled {
		ops = ops[:8]
	}
	for i, o := range ops {
		before := w.disk.killed()
		if dead, err := w.run(o); err != nil || dead {
			t.Fatalf("%d, %s: %v\n%s", i, o.name, err, w.disk.dump())
		}
		if n := len(w.disk.choices()); n != 0 {
			t.Fatalf("%d, %s: %d changes are not for good when it is reported as done", i, o.name, n)
		}
		visit(i, o, before, w.kernel)
	}
}

// sane checks what holds at every moment: one slot is active, at most one is on its way.
func sane(st Status) error {
	count := map[State]int{}
	for _, s := range st.Slots {
		count[s.State]++
	}
	if count[record.Active] != 1 || count[record.Updating]+count[record.InProgress] > 1 {
		return fmt.Errorf("states %v", count)
	}
	return nil
}

// recordForGood says whether the record is as it seems to be after a power cut, too.
func (w *world) recordForGood() bool {
	for _, name := range copies {
		if n := w.disk.root.kids[name]; n == nil || n != w.disk.root.durable[name] || !bytes.Equal(n.data, n.kept) {
			return false
		}
	}
	return true
}

// start starts the agent and checks what always has to hold of a start: a verified slot of one of the
// allowed versions, a reason, and tries that have been written down before.
func (w *world) start(before view, allowed map[string]bool) error {
	l, err := w.store().Starting().Next(nil)
	if err != nil {
		return err
	}
	after, st, err := w.view()
	if err != nil {
		return err
	}
	v := w.content(l.Slot)
	switch {
	case !w.recordForGood():
		return fmt.Errorf("%s is started before what is written down about it is for good", v)
	case v == "":
		return fmt.Errorf("slot %s was started and holds nothing that is whole", l.Slot)
	case !allowed[v]:
		return fmt.Errorf("%s was started; allowed is %v", v, allowed)
	case !boot.Known(l.Reason) || l.Number == 0 || st.Why == "":
		return fmt.Errorf("it does not say why: %+v", l.Start)
	case st.Running != l.Slot || st.Trial != l.Trial || !l.Saved:
		return fmt.Errorf("status %+v of %+v", st, l)
	case l.Trial && after.tries >= before.tries && after.spared <= before.spared && before.trying == after.trying:
		return fmt.Errorf("a trial was started without a try: %+v, then %+v", before, after)
	case !l.Trial && v != after.good:
		return fmt.Errorf("%s was started and is neither on trial nor good", v)
	case len(st.Unreported) == 0 || st.Unreported[len(st.Unreported)-1].Number != l.Number:
		return fmt.Errorf("the start is not among those to be reported: %+v", st.Unreported)
	}
	return sane(st)
}
