package workloads

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/nodeagent/internal/keep"
	"tandem.internal/shared/publisher/publishertest"
	"tandem.internal/shared/workload"
)

// What a publisher has signed for containers starts nothing outside of one: whoever has the controller could run a
// shell of an image as a hook. Where nobody demands signatures, none is looked at.
func TestPartsOfImagesAreNoHooks(t *testing.T) {
	for _, demanded := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.lenient = !demanded
			c := config("web", "one", "")
			data := c.Resources["data"]
			data.Verification.Minisign = publishertest.New(1).SignAs(nil, "sensor 1.4.0 for:container")
			c.Resources["data"] = data
			a := w.agent()
			a.Manager.Want([]workload.Config{c})
			settled(time.Minute)
			if s := w.slot("web"); (len(w.running()) == 0) != demanded ||
				demanded && (s.Exit == nil || !strings.Contains(s.Exit.Text, "for containers alone")) {
				t.Errorf("demanded %v: %+v", demanded, s)
			}
			a.end()
		})
	}
}

// A node that is given publishers' keys lets a process of before go on, and starts nothing with a resource that nobody
// has signed: not the process again, and not a hook, be it another one's file. When it is signed, all goes on.
func TestNothingUnsignedIsStarted(t *testing.T) {
	for _, forged := range []string{"web-one-iss_hook_start", "web-data"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			one := config("web", "one", "", workload.HookStatus)
			a := w.agent()
			a.Manager.Want([]workload.Config{one})
			settled(15 * time.Second)
			a.end()
			before := w.hooks("web")
			w.lock(func() { w.forged[forged] = true })
			a = w.agent()
			a.Manager.Want([]workload.Config{one})
			settled(time.Minute)
			if got := w.hooks("web"); got != before || len(w.running()["web"]) != 1 {
				t.Errorf("%s: while it runs: %s; %v run", forged, got, w.running())
			}
			if e := a.world.report().Slots[0].Error; e == nil || !strings.Contains(e.Message, "it is not signed") {
				t.Errorf("%s: it is told: %v", forged, e)
			}
			w.exit("web", keep.Status{ExitCode: 1})
			settled(10 * time.Minute)
			if got := w.hooks("web"); got != before || len(w.running()["web"]) != 0 {
				t.Errorf("%s: when it has ended: %s; %v run", forged, got, w.running())
			}
			if s := a.world.report().Slots[0]; s.Exit == nil || !strings.Contains(s.Exit.Text, "it is not signed") {
				t.Errorf("%s: why: %+v", forged, s)
			}
			w.lock(func() { clear(w.forged); w.update() })
			settled(time.Hour)
			if got := w.hooks("web"); !strings.HasPrefix(got, before+" start") {
				t.Errorf("%s: signed: %s", forged, got)
			}
			a.end()
		})
	}
}
