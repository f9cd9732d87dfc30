package workloads

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/shared/workload"
)

// No hook is started with a tree that is damaged and cannot be made anew; it is tried again.
func TestNoStartWithADamagedTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.spoiled["web-data"] = true
		a := w.agent()
		a.Manager.Want([]workload.Config{config("web", "one", "")})
		settled(time.Minute)
		e := w.slot("web").Exit
		if w.starts() != "" || e == nil || !strings.Contains(e.Text, `the resource "data": trouble`) {
			t.Errorf("started %q, the end: %+v", w.starts(), e)
		}
		w.lock(func() { w.spoiled = map[string]bool{} })
		settled(2 * time.Minute)
		w.only(map[string]string{"web": "one"})
		a.end()
	})
}

// A tree of which several resources are is looked at once for a hook: each look walks all of it.
func TestOneLookAtATree(t *testing.T) {
	w := newWorld(t)
	m := w.agent()
	defer m.end()
	c := config("web", "one", "")
	for _, name := range []string{"files", "hook_start", "hook_stop"} {
		c.Resources[name] = workload.Artifact{UUID: "web/" + name, Unpack: &workload.Unpack{DiffID: "x", Size: 1}}
	}
	c.Resources["other"] = workload.Artifact{UUID: "other", Unpack: &workload.Unpack{DiffID: "y", Size: 1}}
	if err := m.Manager.whole(c); err != nil {
		t.Fatal(err)
	}
	w.lock(func() {
		if w.looks["web/files"] != 1 || w.looks["web/hook_start"]+w.looks["web/hook_stop"] != 0 ||
			w.looks["other"] != 1 {
			t.Errorf("looked %v", w.looks)
		}
	})
}

// Who runs with a tree may list it, and read what lies beside it if the name is known; so of no other resource.
func TestRoomOfATree(t *testing.T) {
	w := newWorld(t)
	m := w.agent()
	defer m.end()
	c := config("web", "one", "")
	c.Resources["layer"] = workload.Artifact{UUID: "layers/ab/tree", Unpack: &workload.Unpack{DiffID: "x", Size: 1}}
	for _, a := range c.Resources {
		w.lock(func() { w.wanted = append(w.wanted, a) })
	}
	room := m.Manager.confine("/slot", c).Room
	slices.Sort(room.Known)
	if !slices.Contains(room.Read, "/store/copies/layers/ab/tree") ||
		slices.Contains(room.Read, "/store/copies/web-data") ||
		!slices.Equal(room.Known, []string{"/store/copies", "/store/copies/layers"}) {
		t.Errorf("%+v", room)
	}
}
