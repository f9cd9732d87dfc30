package workloads

import (
	"bytes"
	"context"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/nodeagent/internal/fetch"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// files gives the world a store of resources that runs until end is called.
func (w *world) files(dir string, client *http.Client) (end func()) {
	w.t.Helper()
	files, err := fetch.Open(fetch.Config{Dir: dir, Client: client, Chance: func() float64 { return 0 },
		Space: func(string) (uint64, error) { return 100 << 20, nil }})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- files.Run(ctx) }()
	w.fetches = store{files}
	return func() {
		cancel()
		if err := <-ran; err != nil {
			w.t.Error(err)
		}
	}
}

// spoil writes something else into each copy on the disk.
func spoil(t *testing.T, dir string, data []byte) {
	t.Helper()
	spoilt := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		had, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(had, data) {
			return err
		}
		spoilt++
		if err := os.Chmod(path, 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, bytes.ToUpper(data), 0o755)
	})
	if err != nil || spoilt != 1 {
		t.Fatalf("%d copies, %v", spoilt, err)
	}
}

// A process whose resource is damaged on the disk runs on. The node tells that the resource cannot be fetched again,
// once, until it can; an ordered restart does not wait for the next try.
func TestDamagedWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, client, end := serve(t)
		defer end()
		w := newWorld(t)
		dir := filepath.Join(w.dir, "resources")
		defer w.files(dir, client)()
		a := w.agent()
		defer a.end()
		data := bytes.Repeat([]byte("0123456789abcdef"), 100)
		all := fetched("one", "/data", data)
		hour := all[0].Resources[workload.HookStart]
		hour.Verification.CheckPeriod = workload.CheckPeriod(time.Hour)
		all[0].Resources[workload.HookStart] = hour
		s.put("/data", sound(data))
		a.Manager.Want(all)
		settled(time.Minute)
		w.only(map[string]string{"web": "one"})
		damaged := func() (n int) {
			w.lock(func() {
				for _, e := range w.events {
					if strings.HasPrefix(e, "workload-damaged web@n1 one") {
						n++
					}
				}
			})
			return n
		}

		spoil(t, dir, data)
		settled(2 * time.Hour) // it is found, and made good
		if r := w.report().Slots[0]; r.Error != nil || r.Resources != nil || damaged() != 0 || s.asked("/data") != 2 {
			t.Errorf("fetched again: %+v, %d events, asked %d times", r, damaged(), s.asked("/data"))
		}

		s.put("/data", sound(bytes.ToUpper(data)))
		spoil(t, dir, data)
		settled(6 * time.Hour)
		r := w.report().Slots[0]
		if r.State != wire.WorkloadRunning || r.Restarts != 0 || w.hooks("web") != "start" {
			t.Errorf("it does not run on: %+v, %s", r, w.hooks("web"))
		}
		if r.Error == nil || r.Error.Code != wire.CodeHashMismatch || r.Error.Path != "/resources/iss_hook_start" ||
			!strings.Contains(r.Error.Message, "cannot be fetched again") || len(r.Resources) != 1 ||
			r.Resources[0].Name != workload.HookStart {
			t.Errorf("told of it: %v, %+v", r.Error, r.Resources)
		}
		if n := damaged(); n != 1 {
			t.Errorf("%d events", n)
		}

		s.put("/data", sound(data))
		if err := a.Manager.Restart("web"); err != nil {
			t.Fatal(err)
		}
		settled(10 * time.Second)
		if r := w.report().Slots[0]; r.State != wire.WorkloadRunning || r.Error != nil || r.Resources != nil {
			t.Errorf("after a restart was ordered: %+v", r)
		}
	})
}

// What a slot waits for is fetched at once when a restart is ordered, and when its size is corrected.
func TestRetriedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, client, end := serve(t)
		defer end()
		w := newWorld(t)
		defer w.files(filepath.Join(w.dir, "resources"), client)()
		a := w.agent()
		defer a.end()
		data := bytes.Repeat([]byte("0123456789abcdef"), 200_000) // 3.2 MB
		s.put("/data", sound(bytes.ToUpper(data)))
		all := fetched("one", "/data", data)
		a.Manager.Want(all)
		settled(5 * time.Second)
		s.put("/data", sound(data))
		settled(5 * time.Second)
		if n := s.asked("/data"); n != 1 {
			t.Fatalf("asked %d times: nothing has to wait", n)
		}
		if err := a.Manager.Restart("web"); err != nil {
			t.Fatal(err)
		}
		settled(5 * time.Second)
		w.only(map[string]string{"web": "one"})

		s.put("/next", sound(data[16:]))
		next := fetched("two", "/next", data[16:])
		small := next[0].Resources[workload.HookStart]
		right := small.Size
		small.Size = 1000
		next[0].Resources[workload.HookStart] = small
		a.Manager.Want(next)
		settled(5 * time.Second)
		if r := w.report().Slots[0]; len(r.Resources) != 1 || r.Resources[0].State != "failed" {
			t.Fatalf("with a wrong size: %+v", r)
		}
		next = slices.Clone(next)
		small.Size = right
		next[0].Resources = map[string]workload.Artifact{workload.HookStart: small}
		a.Manager.Want(next)
		settled(5 * time.Second)
		if got := w.report().Slots[0]; got.ID != "two" {
			t.Errorf("with the size corrected: %+v", got)
		}
	})
}
