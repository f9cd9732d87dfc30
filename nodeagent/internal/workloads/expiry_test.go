package workloads

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/nodeagent/internal/keep"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/publisher/publishertest"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// until has a configuration signed until a time; zero: for ever.
func until(c workload.Config, at time.Time) workload.Config {
	comment := "for a test"
	if !at.IsZero() {
		comment += " " + publisher.Expiry(at)
	}
	signed := map[string]workload.Artifact{}
	for name, a := range c.Resources {
		a.Verification = workload.Verification{Checksum: "SHA256:" + a.UUID,
			Minisign: publishertest.New(1).SignAs([]byte(a.UUID), comment)}
		signed[name] = a
	}
	c.Resources = signed
	return c
}

// What is signed until a time is put in force until then, and goes on after it: over the end of its process and of
// the agent, and under other properties. The report says that it is overdue. A renewed signature restarts
// nothing, and the report is clean again.
func TestWhatIsInForceDoesNotExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.agent()
		end := time.Now().Add(24 * time.Hour)
		one := until(config("web", "one", ""), end)
		a.Manager.Want([]workload.Config{one})
		settled(time.Hour)
		first := w.hooks("web")
		slot := func() wire.WorkloadSlot { return a.world.report().Slots[0] }
		if s := slot(); s.State != wire.WorkloadRunning || s.Error != nil {
			t.Fatalf("%+v", s)
		}
		settled(25 * time.Hour)
		want := "counted until " + end.UTC().Format(time.RFC3339) + ", and nobody has renewed it"
		if s := slot(); s.State != wire.WorkloadRunning || s.Error == nil || s.Error.Code != wire.CodeExpired ||
			!strings.Contains(s.Error.Message, want) || len(s.Resources) != 0 {
			t.Errorf("after its end: %+v", s)
		}
		w.exit("web", keep.Status{ExitCode: 1})
		settled(time.Hour)
		a.end()
		a = w.agent()
		a.Manager.Want([]workload.Config{one})
		settled(time.Hour)
		if got := w.hooks("web"); got != first+" start" || len(w.running()["web"]) != 1 {
			t.Errorf("started again: %s, before %s", got, first)
		}
		// It ends while there is no agent.
		a.end()
		w.exit("web", keep.Status{ExitCode: -1, Signal: 9})
		a = w.agent()
		a.Manager.Want([]workload.Config{one})
		settled(time.Hour)
		if len(w.running()["web"]) != 1 {
			t.Errorf("after its end without an agent: %v", w.running())
		}
		other := one
		other.Properties, other.ConfigurationID = map[string]string{"more": "x"}, "other"
		a.Manager.Want([]workload.Config{other})
		settled(time.Hour)
		if s := slot(); s.ID != "other" || s.State != wire.WorkloadRunning {
			t.Errorf("with other properties: %+v", s)
		}
		runs := w.hooks("web")
		renewed := until(other, time.Now().Add(24*time.Hour))
		a.Manager.Want([]workload.Config{renewed})
		settled(2 * time.Hour)
		if s := slot(); s.Error != nil || w.hooks("web") != runs {
			t.Errorf("renewed: %+v, %s, before %s", s, w.hooks("web"), runs)
		}
		a.end()
	})
}

// What has expired is not put in force where it was not: what is there goes on, until somebody renews the signature.
func TestWhatHasExpiredIsNotPutInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.agent()
		end := time.Now().Add(time.Hour)
		old, now := until(config("web", "old", ""), end), until(config("web", "now", ""), time.Time{})
		a.Manager.Want([]workload.Config{old})
		settled(time.Minute)
		a.Manager.Want([]workload.Config{now})
		settled(2 * time.Hour)
		before := w.hooks("web")
		a.Manager.Want([]workload.Config{old, until(config("new", "one", ""), end)}) // by a stolen controller, say
		settled(2 * time.Hour)
		slots := a.world.report().Slots
		for _, s := range slots {
			if s.Doing != "fetch" || s.Error == nil || s.Error.Code != wire.CodeExpired || len(s.Resources) == 0 ||
				s.Resources[0].State != "failed" {
				t.Errorf("%+v", s)
			}
		}
		if len(slots) != 2 || slots[1].ID != "now" || w.hooks("web") != before || w.hooks("new") != "" {
			t.Errorf("%+v\n%s, before %s; %s", slots, w.hooks("web"), before, w.hooks("new"))
		}
		// nobody demands signatures: nothing expires
		a.end()
		w.lenient = true
		a = w.agent()
		a.Manager.Want([]workload.Config{old})
		settled(time.Hour)
		if got := a.world.report().Slots[0].ID; got != "old" {
			t.Errorf("%s runs", got)
		}
		a.end()
	})
}
