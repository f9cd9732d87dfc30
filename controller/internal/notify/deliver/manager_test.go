package deliver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

func add(t *testing.T, m *Manager, in op.NewNotice) view.NoticeGrant {
	t.Helper()
	if in.URL == "" {
		in.URL = "https://" + in.Name + ".example/secret"
	}
	g, err := m.Add(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A receiver that is down across a restart: nothing is lost, nothing comes twice, nothing out of order.
func TestDownAcrossARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := newBook(), newTown()
		cfg := Config{Dir: t.TempDir(), Unit: "u1", Journal: b, NewSender: o.sender}
		l := begin(t, cfg)
		add(t, l.Manager, op.NewNotice{Name: "r"}) // its note is record 1
		b.happen(5)
		time.Sleep(3 * time.Second)
		o.setDown("r", "connection refused")
		b.happen(5)
		time.Sleep(time.Minute)
		v, err := l.Show(t.Context(), op.NoticeIn{Receiver: "r"})
		if err != nil || v.State != "failing" || v.Error != "connection refused" || v.Cursor != 6 || v.Lag != 5 ||
			v.Tries < 5 || !v.NextTry.After(time.Now()) || v.Waiting == 0 {
			t.Errorf("while it is down: %+v %v", v, err)
		}
		l.end(t)
		b.happen(5)
		l = begin(t, cfg)
		b.happen(5)
		time.Sleep(time.Minute)
		o.setDown("r", "")
		time.Sleep(20 * time.Minute)
		l.end(t)
		sameIDs(t, "r", o.ids("r"), from(2, 21))
	})
}

// A receiver that is slow, or down, delays only itself.
func TestSlowReceiverDelaysOnlyItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := newBook(), newTown()
		l := begin(t, Config{Dir: t.TempDir(), Unit: "u1", Journal: b, NewSender: o.sender})
		defer l.end(t)
		for _, name := range []string{"slow", "down", "good"} {
			add(t, l.Manager, op.NewNotice{Name: name})
		}
		o.slow["slow"] = 9 * time.Second
		o.setDown("down", "down")
		b.happen(20)
		time.Sleep(time.Second)
		sameIDs(t, "good", o.ids("good"), from(4, 23))
		if n := len(o.ids("slow")); n != 0 {
			t.Errorf("slow has %d", n)
		}
		time.Sleep(20 * 9 * time.Second)
		sameIDs(t, "slow", o.ids("slow"), from(4, 23))
	})
}

// An answer that is lost: the same comes again, and nothing after it before.
func TestLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := newBook(), newTown()
		l := begin(t, Config{Dir: t.TempDir(), Unit: "u1", Journal: b, NewSender: o.sender})
		defer l.end(t)
		add(t, l.Manager, op.NewNotice{Name: "r"})
		o.lost["r"] = 2
		b.happen(2)
		time.Sleep(time.Minute)
		sameIDs(t, "r", o.ids("r"), []string{"2", "2", "2", "3"})
	})
}

// A receiver is told what comes after it was added, or after the record that was named, and nothing once it is removed,
// also if it is in the middle of something. A later one of the same name begins anew.
func TestAddAndRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := newBook(), newTown()
		dir := t.TempDir()
		cfg := Config{Dir: dir, Unit: "u1", Journal: b, NewSender: o.sender}
		l := begin(t, cfg)
		b.happen(5)
		after := uint64(2)
		g := add(t, l.Manager, op.NewNotice{Name: "r", After: &after})
		if g.URL != "https://r.example" || !strings.HasPrefix(g.Secret, "whsec_") {
			t.Errorf("%+v", g)
		}
		add(t, l.Manager, op.NewNotice{Name: "late"})
		time.Sleep(time.Second)
		sameIDs(t, "r", o.ids("r"), from(3, 5))
		o.slow["r"] = 8 * time.Second
		b.happen(1)
		time.Sleep(2 * time.Second)
		if v, err := l.Remove(t.Context(), op.NoticeIn{Receiver: "r"}); err != nil || v.State != "stopped" ||
			v.Error != "" || v.Tries != 0 {
			t.Errorf("%+v %v", v, err)
		}
		if _, there := files(t, dir)["notice-r.json"]; there || o.closed != 1 {
			t.Errorf("how far it had come is there: %v; %d closed", there, o.closed)
		}
		if _, err := l.Show(t.Context(), op.NoticeIn{Receiver: "r"}); wire.AsError(err).Code != wire.CodeNotFound {
			t.Errorf("after its removal: %v", err)
		}
		if _, err := l.Remove(t.Context(), op.NoticeIn{Receiver: "r"}); wire.AsError(err).Code != wire.CodeNotFound {
			t.Errorf("removed twice: %v", err)
		}
		delete(o.slow, "r")
		b.happen(1)
		time.Sleep(time.Minute)
		sameIDs(t, "r", o.ids("r"), from(3, 5))
		sameIDs(t, "late", o.ids("late"), []string{"8", "10"})
		if again := add(t, l.Manager, op.NewNotice{Name: "r"}); again.Secret == g.Secret {
			t.Error("the same secret again")
		}
		b.happen(1)
		time.Sleep(time.Minute)
		sameIDs(t, "r", o.ids("r"), append(from(3, 5), "12"))
		l.end(t)
		for name, text := range files(t, dir) {
			if name != FileName && strings.Contains(text, "whsec_") {
				t.Errorf("%s has a secret", name)
			}
		}
		sameIDs(t, "files", sorted(files(t, dir)), []string{"notice-late.json", "notice-r.json", "notices.json"})
	})
}

func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", e.Name(), info.Mode(), err)
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(text)
	}
	return all
}

// Added during a maintenance, a receiver is left in peace as the others are.
func TestAddedDuringMaintenance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := newBook(), newTown()
		l := begin(t, Config{Dir: t.TempDir(), Unit: "u1", Journal: b, NewSender: o.sender})
		defer l.end(t)
		b.quiet = time.Now().Add(time.Hour)
		add(t, l.Manager, op.NewNotice{Name: "r"})
		b.happen(3)
		time.Sleep(time.Minute)
		if v, err := l.Show(t.Context(), op.NoticeIn{Receiver: "r"}); err != nil || v.LeftOut != 3 || v.Quiet.IsZero() {
			t.Errorf("%+v %v", v, err)
		}
		b.add(record.Maintenance, record.MaintenanceData{Reason: "over"})
		b.happen(1)
		time.Sleep(time.Minute)
		sameIDs(t, "r", o.ids("r"), []string{"quiet", "6"})
	})
}

// A test is answered at once, beside what waits; that is tried again if the receiver is well.
func TestTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := newBook(), newTown()
		l := begin(t, Config{Dir: t.TempDir(), Unit: "u1", Journal: b, NewSender: o.sender})
		defer l.end(t)
		add(t, l.Manager, op.NewNotice{Name: "r"})
		time.Sleep(time.Minute) // it has read that it was added
		o.setDown("r", "down")
		b.happen(1)
		time.Sleep(2 * time.Hour)
		tries := l.workers["r"].shown.Load().Tries
		if r, err := l.Test(t.Context(), op.NoticeIn{Receiver: "r"}); err != nil || r.OK || r.Error != "down" {
			t.Errorf("%+v %v", r, err)
		}
		if synctest.Wait(); l.workers["r"].shown.Load().Tries != tries {
			t.Error("what waits is tried although the test did not arrive")
		}
		if all := l.Trouble(); len(all) != 1 || !strings.Contains(all[0], "do not reach r, 1 record behind") {
			t.Errorf("%q", all)
		}
		o.setDown("r", "")
		if r, err := l.Test(t.Context(), op.NoticeIn{Receiver: "r"}); err != nil || !r.OK || r.Status != 200 {
			t.Errorf("%+v %v", r, err)
		}
		time.Sleep(time.Second)
		sameIDs(t, "r", o.ids("r"), []string{"test", "2"})
		if all := l.Trouble(); len(all) != 0 {
			t.Errorf("%q", all)
		}
	})
}

// The journal cannot be read for a while, or the disk takes nothing: it goes on when that is over.
func TestTroubleOfTheUnit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := newBook(), newTown()
		var full atomic.Bool
		l := begin(t, Config{Dir: t.TempDir(), Unit: "u1", Journal: b, NewSender: o.sender,
			Steps: func(durable.Step) error {
				if full.Load() {
					return errors.New("disk full")
				}
				return nil
			}})
		add(t, l.Manager, op.NewNotice{Name: "r"})
		time.Sleep(time.Second)
		b.mu.Lock()
		b.broken = errors.New("broken")
		b.mu.Unlock()
		b.happen(1)
		time.Sleep(time.Minute)
		if s := *l.workers["r"].shown.Load(); s.State != "failing" || !strings.Contains(s.Error, "broken") {
			t.Errorf("%+v", s)
		}
		b.mu.Lock()
		b.broken = nil
		b.mu.Unlock()
		full.Store(true)
		time.Sleep(time.Minute)
		if s := *l.workers["r"].shown.Load(); !strings.Contains(s.Error, "cannot be written") || s.Delivered != 1 {
			t.Errorf("%+v", s)
		}
		_, err := l.Add(t.Context(), op.NewNotice{Name: "x", URL: "https://x"})
		if wire.AsError(err).Code != wire.CodeStorage {
			t.Errorf("added although the disk is full: %v", err)
		}
		if _, err := l.Remove(t.Context(), op.NoticeIn{Receiver: "r"}); wire.AsError(err).Code != wire.CodeStorage {
			t.Errorf("removed although the disk is full: %v", err)
		}
		full.Store(false)
		time.Sleep(time.Minute)
		if s := *l.workers["r"].shown.Load(); s.State != "ok" || s.Error != "" {
			t.Errorf("%+v", s)
		}
		l.end(t)
	})
}

// What is damaged does not keep the unit from starting.
func TestDamagedFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := newBook(), newTown()
		dir := t.TempDir()
		cfg := Config{Dir: dir, Unit: "u1", Journal: b, NewSender: o.sender}
		l := begin(t, cfg)
		add(t, l.Manager, op.NewNotice{Name: "r"})
		b.happen(2)
		time.Sleep(2 * time.Second)
		l.end(t)
		damage := func(name, old, new string) {
			path := filepath.Join(dir, name)
			text, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(text), old) {
				t.Fatalf("%s %v", text, err)
			}
			if err := os.WriteFile(path, []byte(strings.Replace(string(text), old, new, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		damage("notice-r.json", `"seq":3`, `"seq":1`)
		l = begin(t, cfg)
		b.happen(1)
		time.Sleep(2 * time.Second)
		l.end(t)
		sameIDs(t, "r", o.ids("r"), []string{"2", "3", "restored", "4"})
		damage(FileName, "r.example", "x.example")
		l = begin(t, cfg)
		defer l.end(t)
		if all := l.Trouble(); len(all) != 1 || !strings.Contains(all[0], "no notices are sent: ") {
			t.Errorf("%q", all)
		}
		_, err := l.Add(t.Context(), op.NewNotice{Name: "x", URL: "https://x"})
		if wire.AsError(err).Code != wire.CodeStorage {
			t.Errorf("added to a file that is damaged: %v", err)
		}
		if err := os.Chmod(filepath.Join(dir, FileName), 0o640); err != nil {
			t.Fatal(err)
		}
		if _, err := l.readSet(); err == nil || !strings.Contains(err.Error(), "others may read") {
			t.Errorf("%v", err)
		}
	})
}

// crash is a power cut.
type crash struct{}

// A power cut at every write of the files: what was told before is not told again but within the last second, nothing
// is lost, and a receiver is there as a whole or not at all.
func TestPowerCutAtEveryStep(t *testing.T) {
	for at := 1; ; at++ {
		cut := false
		synctest.Test(t, func(t *testing.T) {
			b, o := newBook(), newTown()
			dir := t.TempDir()
			steps := 0
			cfg := Config{Dir: dir, Unit: "u1", Journal: b, NewSender: o.sender, Steps: func(durable.Step) error {
				if steps++; steps == at {
					panic(crash{})
				}
				return nil
			}}
			m, err := Open(cfg)
			if err != nil {
				t.Fatal(err)
			}
			survive := func(do func()) {
				defer func() {
					if e := recover(); e != nil {
						if _, is := e.(crash); !is {
							panic(e)
						}
						cut = true
					}
				}()
				do()
			}
			added := false
			survive(func() {
				_, err := m.Add(context.Background(), op.NewNotice{Name: "r", URL: "https://r"})
				added = err == nil
			})
			b.happen(3)
			if w := m.workers["r"]; w != nil && !cut {
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				survive(func() { w.run(ctx) })
				cancel()
			}
			cfg.Steps = nil
			l := begin(t, cfg)
			time.Sleep(time.Minute)
			l.end(t)
			ids := o.ids("r")
			slices.Sort(ids)
			if once := slices.Compact(slices.Clone(ids)); added && !slices.Equal(once, from(2, 4)) {
				t.Errorf("step %d: told %v", at, ids)
			}
			if slices.Contains(ids, "restored") {
				t.Errorf("step %d: how far it has come is lost: told %v", at, ids)
			}
			if !cut && len(ids) != 3 {
				t.Errorf("without a cut: told %v", ids)
			}
			for name := range files(t, dir) {
				if !slices.Contains([]string{FileName, "notice-r.json"}, name) {
					t.Errorf("step %d has left %s", at, name)
				}
			}
			if _, known := files(t, dir)[FileName]; !known && len(files(t, dir)) > 0 {
				t.Errorf("step %d has left a cursor of nobody", at)
			}
		})
		if !cut {
			if at < 15 {
				t.Errorf("only %d steps", at)
			}
			return
		}
	}
}
