package slot

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"tandem.internal/nodeagent/internal/slot/record"
	"tandem.internal/shared/race"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Kills the process, and cuts the power, before every single step of every op of the story; a cut
// leaves every combination of what was not synced. The start after that dies at every step in the same
// ways, but for disks that were seen already, and the one after that has to find a verified slot, say why it is that
// one, and go on.
func TestCrashAtEveryStep(t *testing.T) {
	deaths, starts := 0, 0
	lives(t, func(i int, o op, before *simDisk, kernel int) {
		w := &world{disk: before.killed(), kernel: kernel}
		was, _, err := w.view()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.run(o); err != nil {
			t.Fatal(err)
		}
		is, _, err := w.view()
		if err != nil {
			t.Fatal(err)
		}
		allowed := map[string]bool{was.good: true, is.good: true}
		for _, v := range []string{was.trying, is.trying} {
			if v != "" {
				allowed[v] = true
			}
		}
		tries := map[string]int{was.trying: was.tries}
		if is.trying != was.trying || o.name[:3] == "arm" {
			tries[is.trying] = max(tries[is.trying], is.tries)
		}
		seen, again := map[[32]byte]bool{}, map[[32]byte]bool{}
		w = &world{disk: before.killed(), kernel: kernel}
		w.disk.watch = func() {
			deaths++
			at := w.disk.count
			w.disk.aftermath(seen, func(how string, rebooted bool, after *simDisk) {
				starts += checkAfter(t, fmt.Sprintf("op %d, %s, step %d, %s", i, o.name, at, how), after, kernel,
					rebooted, allowed, tries, again)
			})
		}
		if _, err := w.run(o); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%d deaths, %d starts after them", deaths, starts)
	if !race.Enabled && (deaths < 300 || starts < 10000) {
		t.Errorf("only %d deaths and %d starts: the story is not told", deaths, starts)
	}
}

// checkAfter starts the agent on what a crash left, undisturbed and with a second crash at each step.
func checkAfter(t *testing.T, where string, after *simDisk, kernel int, rebooted bool, allowed map[string]bool,
	tries map[string]int, again map[[32]byte]bool) (starts int) {
	t.Helper()
	if rebooted {
		kernel++
	}
	w := &world{disk: after.killed(), kernel: kernel}
	now, _, err := w.view()
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	if now.trying != "" && now.tries > tries[now.trying] {
		t.Fatalf("%s: the tries rose from %d to %d", where, tries[now.trying], now.tries)
	}
	if err := w.start(now, allowed); err != nil {
		t.Fatalf("%s: %v\n%s", where, err, w.disk.dump())
	}
	starts++
	if err := alive(w); err != nil {
		t.Fatalf("%s: afterwards: %v\n%s", where, err, w.disk.dump())
	}
	first := &world{disk: after.killed(), kernel: kernel}
	first.disk.watch = func() {
		at := first.disk.count
		first.disk.aftermath(again, func(how string, rebooted bool, last *simDisk) {
			k := kernel
			if rebooted {
				k++
			}
			w := &world{disk: last, kernel: k}
			then, _, err := w.view()
			if err != nil {
				t.Fatalf("%s: %v", where, err)
			}
			// Nothing was started yet, so a try that was only half written down may come back.
			if then.trying != "" && then.tries > tries[then.trying] {
				t.Fatalf("%s, then step %d of the start, %s: the tries rose from %d to %d", where, at, how,
					tries[then.trying], then.tries)
			}
			if err := w.start(then, allowed); err != nil {
				t.Fatalf("%s, then step %d of the start, %s: %v\n%s", where, at, how, err, w.disk.dump())
			}
			starts++
		})
	}
	if _, err := first.run(opBoot("")); err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	return starts
}

// alive lets a node that has just started go through a whole update.
func alive(w *world) error {
	w = &world{disk: w.disk.killed(), kernel: w.kernel}
	st, err := w.store().Status()
	if err != nil {
		return err
	}
	ops := []op{opStage("v99"), opArm("v99", 1), opBoot("v99"), opCommit(), opBoot("v99")}
	for _, s := range st.Slots {
		if s.State == record.InProgress || s.State == record.Updating && st.TriesLeft > 0 {
			ops = append([]op{opRollback(), opBoot("")}, ops...)
		}
	}
	for _, o := range ops {
		if _, err := w.run(o); err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
	}
	return nil
}

// Damages the files in every combination between the ops of the story.
func TestDamage(t *testing.T) {
	type damage struct {
		name string
		do   func(data []byte) []byte // nil: the file is gone
	}
	whole := damage{"whole", func(b []byte) []byte { return b }}
	flip := damage{"flipped", func(b []byte) []byte { b[len(b)/2] ^= 4; return b }}
	gone := damage{"gone", func([]byte) []byte { return nil }}
	empty := damage{"empty", func([]byte) []byte { return []byte{} }}
	short := damage{"short", func(b []byte) []byte { return b[:len(b)*2/3] }}
	apply := func(d *simDisk, name string, x damage) {
		dir, base, err := d.find(name)
		if err != nil || dir.kids[base] == nil {
			return
		}
		data := x.do(bytes.Clone(dir.kids[base].data))
		if data == nil {
			delete(dir.kids, base)
		} else {
			dir.kids[base] = &simNode{data: data, kept: bytes.Clone(data)}
		}
		dir.durable = maps.Clone(dir.kids)
	}
	starts := 0
	lives(t, func(i int, o op, before *simDisk, kernel int) {
		w := &world{disk: before.killed(), kernel: kernel}
		was, wasStatus, err := w.view()
		if err != nil {
			t.Fatal(err)
		}
		for _, r0 := range []damage{whole, flip, gone, empty, short} {
			for _, r1 := range []damage{whole, flip, gone, empty, short} {
				for _, a := range []damage{whole, flip, gone} {
					for _, b := range []damage{whole, flip, gone} {
						for _, m := range []damage{whole, flip} {
							if m.name != "whole" && (r0.name == "whole" || r1.name == "whole") {
								continue // nobody asks the manifests
							}
							w := &world{disk: before.killed(), kernel: kernel}
							apply(w.disk, "record.0", r0)
							apply(w.disk, "record.1", r1)
							apply(w.disk, "a/tandem-node", a)
							apply(w.disk, "b/tandem-node", b)
							apply(w.disk, "a/manifest", m)
							apply(w.disk, "b/manifest", m)
							where := fmt.Sprintf("before op %d, %s: records %s and %s, slots %s and %s, manifests %s",
								i, o.name, r0.name, r1.name, a.name, b.name, m.name)
							then, _, err := w.view()
							if err != nil {
								t.Fatalf("%s: %v", where, err)
							}
							// A slot that never was in force may stand in for nothing but a trial that was armed.
							allowed := map[string]bool{"factory": true, then.good: true, was.good: true}
							for _, s := range wasStatus.Slots {
								allowed[s.Version] = allowed[s.Version] || s.Verdict == record.Good
							}
							allowed[was.trying] = true
							if err := w.start(then, allowed); err != nil {
								t.Fatalf("%s: %v\n%s", where, err, w.disk.dump())
							}
							starts++
							_, st, err := w.view()
							if err != nil {
								t.Fatalf("%s: %v", where, err)
							}
							intact := a.name == "whole" && b.name == "whole"
							if running := w.content(st.Running); intact && m.name == "whole" && running != was.good &&
								running != was.trying {
								t.Fatalf("%s: %s runs instead of %s\n%s", where, running, was.good, w.disk.dump())
							}
							if a.name != b.name || m.name == "flipped" {
								continue // a whole life for each of the others is enough
							}
							if err := alive(w); err != nil {
								t.Fatalf("%s: afterwards: %v\n%s", where, err, w.disk.dump())
							}
						}
					}
				}
			}
		}
	})
	t.Logf("%d starts", starts)
}

// Random lives: ops in any order, crashes anywhere.
func TestRandomLives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{disk: newSim(), kernel: 1}
		if _, err := w.run(opBoot("factory")); err != nil {
			t.Fatal(err)
		}
		version := 0
		var armed view
		boots := 0 // starts of the current trial
		for range rapid.IntRange(1, 40).Draw(t, "ops") {
			was, st, err := w.view()
			if err != nil {
				t.Fatal(err)
			}
			var o op
			switch rapid.IntRange(0, 6).Draw(t, "op") {
			case 0:
				version++
				o = opStage(fmt.Sprint("r", version))
			case 1:
				id := rapid.SampledFrom(record.Writable).Draw(t, "slot")
				tries := rapid.IntRange(1, 4).Draw(t, "tries")
				o = op{"arm", func(w *world) error { return w.store().Arm(id, tries) }}
			case 2:
				o = opCommit()
			case 3:
				o = opRollback()
			case 4:
				o = opPlanned()
			default:
				o = opBoot("")
			}
			if rapid.Bool().Draw(t, "crash") {
				w.disk.at = w.disk.count + rapid.IntRange(1, 45).Draw(t, "step")
			}
			dead, err := w.run(o)
			refused := errors.Is(err, record.ErrTrial) || errors.Is(err, record.ErrNoTrial) ||
				errors.Is(err, record.ErrNoPrevious) || errors.Is(err, record.ErrEmpty) ||
				errors.Is(err, record.ErrNotStarted)
			if err != nil && !refused && o.name != "arm" && o.name[:5] != "stage" {
				t.Fatalf("%s: %v", o.name, err)
			}
			w.disk.at = 0
			if dead {
				if pick := w.disk.choices(); rapid.Bool().Draw(t, "cut") {
					w.kernel++
					for i, n := range pick {
						pick[i] = rapid.IntRange(0, n-1).Draw(t, "left")
					}
					w.disk = w.disk.cut(pick)
				} else {
					w.disk = w.disk.killed()
				}
			}
			is, st2, err := w.view()
			if err != nil {
				t.Fatal(err)
			}
			if err := sane(st2); err != nil {
				t.Fatal(err)
			}
			if o.name != "arm" && is.trying != "" && (is.trying != was.trying || is.tries > was.tries) {
				t.Fatalf("%s: %+v became %+v", o.name, was, is)
			}
			if o.name == "arm" && is.trying != "" && is.seq != was.seq {
				armed, boots = is, 0
			}
			allowed := map[string]bool{is.good: true}
			if is.trying != "" {
				allowed[is.trying] = true
			}
			if dead || o.name == "boot " && is.trying != "" && st.Seq != st2.Seq {
				if dead {
					if err := w.start(is, allowed); err != nil {
						t.Fatalf("after a crash in %s: %v\n%s", o.name, err, w.disk.dump())
					}
				}
				boots++
				now, _, err := w.view()
				if err != nil {
					t.Fatal(err)
				}
				if now.trying != "" && now.trying == armed.trying && boots > armed.tries+record.MaxSpared+1 {
					t.Fatalf("%d starts of a trial with %d tries", boots, armed.tries)
				}
			}
		}
	})
}
