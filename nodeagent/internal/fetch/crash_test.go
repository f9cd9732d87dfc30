package fetch

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/fetch/plan"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/filetest"
	"tandem.internal/shared/wire"
)

// freezer counts the steps of a store and stops the disk before one of them: nothing is changed on
// it from then on, as if the machine had died.
type freezer struct {
	at      int
	frozen  chan struct{}
	release chan struct{}

	mu    sync.Mutex
	count int
	names map[durable.Step]int
}

func newFreezer(at int) *freezer {
	return &freezer{at: at, frozen: make(chan struct{}), release: make(chan struct{}), names: map[durable.Step]int{}}
}

var errDead = errors.New("the machine is dead")

func (f *freezer) step(s durable.Step) error {
	f.mu.Lock()
	f.count++
	f.names[s]++
	if f.count == f.at {
		close(f.frozen)
	}
	dead := f.at > 0 && f.count >= f.at
	f.mu.Unlock()
	if !dead {
		return nil
	}
	<-f.release
	return errDead
}

// crashWorld is what the story is about.
type crashWorld struct {
	site     *site
	first    wants
	second   wants
	contents map[string][]byte // by file name
}

func newCrashWorld(t testing.TB) *crashWorld {
	w := &crashWorld{site: newSite(t), contents: map[string][]byte{}}
	add := func(seed uint64, size int, kind string) int {
		data := content(seed, size)
		f := &flaky{data: data, tag: `"a"`}
		if kind == "sealed" {
			f.data = sealed(data, "n1")
		}
		if size > 70_000 {
			f.breaks = 1
		}
		a := artifact(map[string]string{"sha": sha(data), "md": md(data), "uuid": "", "sealed": sha(data)}[kind], size,
			w.site.put("/"+kind, f.ServeHTTP))
		a.UUID = kind
		w.first = append(w.first, a)
		key := plan.Key(strings.ToLower(a.Verification.Checksum[:strings.Index(a.Verification.Checksum+":", ":")])) +
			plan.Key(strings.TrimPrefix(a.Verification.Checksum, strings.SplitN(a.Verification.Checksum, ":", 2)[0]))
		switch kind {
		case "uuid":
			key = "uuid:uuid"
		case "sealed":
			w.first[len(w.first)-1].Encrypted = &wire.Encrypted{Digest: wire.Hash(f.data), Size: int64(len(f.data))}
			key = plan.KeyOf(w.first[len(w.first)-1])
		}
		w.contents[key.Name()] = data
		return len(w.first) - 1
	}
	add(1, 80_000, "sha")
	w.first[add(2, 2000, "md")].Cached = true
	add(3, 75_000, "uuid")
	add(4, 3000, "sealed")
	w.second = wants{w.first[2]}
	return w
}

// sound holds that what is visible is right.
func (w *crashWorld) sound(t testing.TB, dir string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, copies))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !isName(e.Name()) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, copies, e.Name()))
		if err != nil || !bytes.Equal(data, w.contents[e.Name()]) {
			t.Fatalf("a wrong file of %d bytes is visible: %v", len(data), err)
		}
		if info, err := e.Info(); err != nil || info.Mode() != 0o555 {
			t.Fatalf("%v %v", info, err)
		}
	}
}

// story fetches all, then lets go of all but one, of which one is kept for later.
func (w *crashWorld) story(n *node, until <-chan struct{}) {
	n.Want(w.first)
	for _, a := range w.first {
		if !reach(n, until, func() bool { return n.Status(a).State == Ready }) {
			return
		}
	}
	n.Want(w.second)
	reach(n, until, func() bool {
		_, err := os.Lstat(n.where(w.first[0]))
		return err != nil
	})
}

// reach waits for ok; false: the disk was frozen before.
func reach(n *node, until <-chan struct{}, ok func() bool) bool {
	for !ok() {
		select {
		case <-until:
			return false
		case <-n.Updates():
		case <-time.After(time.Hour):
			n.t.Fatal("the story does not end")
		}
	}
	return true
}

// A crash before any step of the disk leaves nothing wrong to be seen, and the next start comes to
// the same end.
func TestCrashAtEveryStep(t *testing.T) {
	steps := 0
	for at := 1; ; at++ {
		over := false
		synctest.Test(t, func(t *testing.T) {
			w := newCrashWorld(t)
			f := newFreezer(at)
			n := start(t, Config{Dir: filetest.MemoryDir(t), Client: w.site.client(), Steps: f.step, Log: zap.NewNop(),
				Parallel: 1, Decrypt: unseal("n1")})
			w.story(n, f.frozen)
			synctest.Wait()
			select {
			case <-f.frozen:
			default:
				over, steps = true, f.count
			}
			killed, cut := clone(t, n.Dir), clone(t, n.Dir)
			close(f.release)
			n.stop()
			garble(t, filepath.Join(cut, parts)) // what was not synced yet is not what was written
			for _, dir := range []string{killed, cut} {
				w.sound(t, dir)
				n := start(t, Config{Dir: dir, Client: w.site.client(), Log: zap.NewNop(), Decrypt: unseal("n1")})
				for line := range strings.Lines(files(t, dir)) {
					if name := filepath.Base(strings.TrimSpace(line)); !isName(strings.TrimSuffix(name, asJSON)) {
						t.Errorf("step %d: %s is left", at, name)
					}
				}
				w.story(n, nil)
				n.ready(w.second[0], w.contents[filepath.Base(n.where(w.second[0]))])
				synctest.Wait()
				if got := files(t, dir); strings.Count(got, "\n") != 4 { // one wanted, one cached
					t.Errorf("step %d:\n%s", at, got)
				}
				w.sound(t, dir)
				n.stop()
			}
		})
		if over {
			break
		}
	}
	if steps < 40 {
		t.Errorf("only %d steps", steps)
	}
	t.Logf("%d steps", steps)
}

// clone copies a store, with the times of its files.
func clone(t testing.TB, from string) string {
	t.Helper()
	to := filetest.MemoryDir(t)
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(files(t, from)) {
		name := strings.TrimSpace(line)
		info, err := os.Lstat(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Chmod(filepath.Join(to, name), info.Mode().Perm()),
			os.Chtimes(filepath.Join(to, name), time.Time{}, info.ModTime())); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// garble replaces the parts by zeros of the same length.
func garble(t testing.TB, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if isName(e.Name()) {
			path := filepath.Join(dir, e.Name())
			if err := os.Chmod(path, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, make([]byte, info.Size()), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Whatever step fails once, it is tried again and comes to the same end.
func TestEveryStepFailsOnce(t *testing.T) {
	for at := 1; ; at++ {
		over := false
		synctest.Test(t, func(t *testing.T) {
			w := newCrashWorld(t)
			var mu sync.Mutex
			count := 0
			c := Config{Dir: filetest.MemoryDir(t), Client: w.site.client(), Log: zap.NewNop(), Parallel: 1,
				Decrypt: unseal("n1"), Steps: func(durable.Step) error {
					mu.Lock()
					defer mu.Unlock()
					if count++; count == at {
						return errDead
					}
					return nil
				}}
			n := start(t, c)
			w.story(n, nil)
			n.ready(w.second[0], w.contents[filepath.Base(n.where(w.second[0]))])
			w.sound(t, n.Dir)
			mu.Lock()
			over = count < at
			mu.Unlock()
		})
		if over {
			return
		}
	}
}
