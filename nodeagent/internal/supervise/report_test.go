package supervise

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tandem.internal/shared/clock"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// How configurations differ decides whether a process is restarted, told, or left alone.
func TestCompare(t *testing.T) {
	const base = "v1 static=1 data=1 prop=1 cpu=1 notify"
	artifact := func(uuid, sum, url string) workload.Artifact {
		a := workload.Artifact{Class: workload.Resource, UUID: uuid, Verification: workload.Verification{Checksum: sum}}
		if url != "" {
			a.URLs = []string{url}
		}
		return a
	}
	one, two := "MD5:"+strings.Repeat("0a", 16), "MD5:"+strings.Repeat("0b", 16)
	with := func(uuid, sum, url string) func(*workload.Config) {
		return func(c *workload.Config) { c.Resources["bin"] = artifact(uuid, sum, url) }
	}
	none := func(*workload.Config) {}
	contained := func(runtime, network string) func(*workload.Config) {
		return func(c *workload.Config) { c.Container = &workload.Container{Runtime: runtime, Network: network} }
	}
	for _, test := range []struct {
		name     string
		from, to string
		a, b     func(*workload.Config)
		want     int
	}{
		{"nothing", base, base, none, none, same},
		{"ID", base, strings.Replace(base, "v1", "v2", 1), none, none, quiet},
		{"ID of a job", base + " job", strings.Replace(base, "v1", "v2", 1) + " job", none, none, other},
		{"class", base, base + " job", none, none, other},
		{"limits", base, base + ` limit=start:{"minRestartPeriodMs":1}`, none, none, quiet},
		{"limits of a job", base + " job", base + ` job limit=start:{"minRestartPeriodMs":1}`, none, none, quiet},
		{"url", base + " url=a", base + " url=b", none, none, quiet},
		{"size", base, base + " size", none, none, quiet},
		{"cached", base, base + " cached", none, none, quiet},
		{"checkPeriod", base, base + " period", none, none, quiet},
		{"property", base, strings.Replace(base, "prop=1", "prop=2", 1), none, none, other},
		{"property gone", base, strings.Replace(base, "prop=1", "", 1), none, none, other},
		{"no properties, in two ways", "v1", "v1", none, func(c *workload.Config) { c.Properties = nil }, quiet},
		{"constraint", base, strings.Replace(base, "cpu=1", "cpu=2", 1), none, none, other},
		{"constraints gone", base, strings.Replace(base, "cpu=1", "", 1), none, none, other},
		{"empty container", "v1", "v1", none, func(c *workload.Config) { c.Container = &workload.Container{} }, quiet},
		{"container", "v1", "v1", none, contained("crun", ""), other},
		{"the same container", "v1", "v1", contained("crun", "node"), contained("crun", "node"), same},
		{"runtime", "v1", "v1", contained("crun", ""), contained("runc", ""), other},
		{"network", "v1", "v1", contained("crun", ""), contained("crun", "node"), other},
		{"static", base, strings.Replace(base, "static=1", "static=2", 1), none, none, other},
		{"static gone", base, strings.Replace(base, "static=1", "", 1), none, none, other},
		{"static new", "v1", "v1 static=1", none, none, other},
		{"hook new", base, base + " stop", none, none, other},
		{"dynamic", base, strings.Replace(base, "data=1", "data=2", 1), none, none, dynamic},
		{"dynamic gone", base, strings.Replace(base, "data=1", "", 1), none, none, dynamic},
		{"dynamic new", "v1", "v1 data=1", none, none, dynamic},
		{"dynamic of a job", base + " job", strings.Replace(base, "data=1", "data=2", 1) + " job", none, none, dynamic},
		{"dynamic hook", base + " status=dynamic", base, none, none, dynamic},
		{"dynamic and ID", base, "v2 static=1 data=2 prop=1 cpu=1 notify", none, none, dynamic},
		{"dynamic and static", base, "v1 static=2 data=2 prop=1 cpu=1 notify", none, none, other},
		{"dynamic becomes static", base + " status=dynamic", base + " status", none, none, other},
		{"same uuid, checksum new", base, base, with("u", "", ""), with("u", one, ""), quiet},
		{"same uuid, EMPTY:", base, base, with("u", "EMPTY:", ""), with("u", "", ""), quiet},
		{"same uuid, another checksum", base, base, with("u", one, ""), with("u", two, ""), other},
		{"another uuid, same checksum", base, base, with("u", one, ""), with("w", one, ""), quiet},
		{"another uuid, one checksum", base, base, with("u", one, ""), with("w", "", ""), other},
		{"checksum in capitals", base, base, with("", one, ""), with("", "MD5:"+strings.ToUpper(one[4:]), ""), quiet},
		{"only addresses, the same", base, base + " cached", with("", "EMPTY:", "http://a"),
			with("", "EMPTY:", "http://a"), quiet},
		{"only addresses, others", base, base, with("", "EMPTY:", "http://a"), with("", "EMPTY:", "http://b"), other},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, b := configOf(t, strings.Fields(test.from)), configOf(t, strings.Fields(test.to))
			test.a(&a)
			test.b(&b)
			if got := compare(a, b); got != test.want {
				t.Errorf("there: %d, want %d", got, test.want)
			}
			if got := compare(b, a); got != test.want {
				t.Errorf("and back: %d, want %d", got, test.want)
			}
		})
	}
}

// Whatever a configuration and an exit have in them, the wire takes the report.
func TestReportIsPlain(t *testing.T) {
	text := rapid.OneOf(rapid.StringN(1, 400, -1),
		rapid.SampledFrom([]string{"\t", "a\nb", "\xff", strings.Repeat("é", 200)}))
	rapid.Check(t, func(t *rapid.T) {
		c := config(1, 1, rapid.IntRange(0, 255).Draw(t, "hooks"), false, "a")
		c.ConfigurationID = text.Draw(t, "id")
		d := c
		d.ConfigurationID, d.Properties = text.Draw(t, "id of the next"), nil
		s, now := New(Durable{Slot: c.Slot, Born: "b"}, rules), clock.Now{Wall: epoch}
		exit := wire.WorkloadExit{Code: 1, Signal: text.Draw(t, "signal"), Text: text.Draw(t, "text"),
			Output: text.Draw(t, "said")}
		step := func(ev Event) {
			now.Mono += time.Second
			s, _ = s.Step(now, ev)
			if s.Empty() {
				return
			}
			list := wire.Workloads{Slots: []wire.WorkloadSlot{s.Report()}}
			if _, err := wire.Decode[wire.Workloads](wire.Encode(&list)); err != nil {
				t.Fatalf("%T: %v", ev, err)
			}
		}
		step(Started{})
		step(Want{Config: &c})
		step(Fetched{"c1"})
		step(Linked{Dir: "c1"})
		for range 3 {
			for _, id := range s.RunIDs() {
				if s.Main == nil {
					step(Ended{Run: id, Exit: wire.WorkloadExit{At: epoch}})
				} else {
					step(Ended{Run: id, Exit: exit})
				}
			}
			step(Restart{})
		}
		step(Want{Config: &d})
		for _, id := range s.RunIDs() {
			step(Ended{Run: id, Exit: exit})
		}
		step(Want{})
	})
}

// since holds the report to it that a slot runs since its process was begun, also when that took the
// place of another one.
func (s *script) since(at time.Duration) {
	id := s.state.running()
	if _, known := s.began[id]; !known {
		s.began[id] = epoch.Add(at).Truncate(time.Second)
	}
	if r := s.state.Report(); r.State == wire.WorkloadRunning && !r.Since.Equal(s.began[id]) {
		s.t.Errorf("at %v: %s runs since %v, not since %v", at, id, s.began[id], r.Since)
	}
}

// What runs goes on until what takes its place, prepared before, has a container runtime.
func TestReadyWaitsForARuntime(t *testing.T) {
	old := config(1, 1, 0, false, "a")
	box := config(1, 2, 0, false, "a")
	box.Container = &workload.Container{Runtime: "crun"}
	s := New(Durable{Slot: old.Slot, Born: "b", Wanted: &box, Dirs: 2, Runs: 1,
		Main: &Place{Config: old, Dir: "c1", Phase: Ready, Run: "web.b.start.1"},
		Next: &Place{Config: box, Dir: "c2", Phase: Ready}}, rules)
	now := clock.Now{Wall: epoch}
	s, _ = s.Step(now, Started{})
	if s.Main.Stopping != "" {
		t.Errorf("stopped for what cannot run: %+v", s.Main)
	}
	if s, _ = s.Step(now, Met{Able: []string{"c2"}}); s.Main.Stopping != Replace {
		t.Errorf("%+v", s.Main)
	}
}
