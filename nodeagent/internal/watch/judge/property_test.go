package judge

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever is seen: a ping goes out if and only if no loop has been without a beat for too long; reports
// of one thing alternate between trouble and its end; the end of the process is decided once.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := Settings{Tick: 10 * time.Second, Time: time.Minute}
		if rapid.Bool().Draw(t, "supervised") {
			set.Supervisor = 40 * time.Second
		}
		s := New(set)
		type key struct {
			program bool
			name    string
		}
		trouble := map[key]Verdict{}
		fatal := false
		now := time.Duration(0)
		loops := map[string]*Loop{}
		without := map[string]time.Duration{}
		names := []string{"a", "b", "c"}
		for i := range rapid.IntRange(1, 60).Draw(t, "looks") {
			gap := rapid.SampledFrom([]time.Duration{10 * time.Second, 10 * time.Second, 12 * time.Second, time.Hour,
				-time.Second}).Draw(t, "gap")
			now += gap
			if i == 0 {
				gap = 0
			}
			var seen Seen
			for _, n := range names {
				without[n] += min(max(0, gap), 2*set.Tick)
				switch rapid.IntRange(0, 9).Draw(t, "loop "+n) {
				case 0:
					delete(loops, n)
				case 1:
					loops[n] = &Loop{ID: uint64(i*10) + uint64(n[0]), Name: n, Period: 10 * time.Second}
					without[n] = 0
				case 2, 3, 4, 5:
					if l := loops[n]; l != nil {
						l.Beats++
						without[n] = 0
					}
				}
				if l := loops[n]; l != nil {
					seen.Loops = append(seen.Loops, *l)
				}
				if rapid.IntRange(0, 9).Draw(t, "program "+n) > 0 {
					seen.Programs = append(seen.Programs,
						Program{Name: n, Touched: rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "touched"),
							Process: Process{PID: rapid.IntRange(0, 1).Draw(t, "pid"),
								Start: uint64(rapid.IntRange(0, 2).Draw(t, "start"))},
							Trouble: rapid.SampledFrom([]string{"", "", "bad"}).Draw(t, "trouble")})
				}
			}
			var effects []Effect
			s, effects = s.Step(now, seen)
			pinged := false
			for _, e := range effects {
				switch e := e.(type) {
				case Ping:
					pinged = true
				case Fatal:
					if fatal {
						t.Fatal("fatal twice")
					}
					if without[e.Loop] < set.HungAfter(10*time.Second) {
						t.Fatalf("fatal after %v", without[e.Loop])
					}
					fatal = true
				case Tell:
					k := key{e.Report.Program, e.Report.Name}
					if r := e.Report.Verdict; r == Back || r == Gone {
						if trouble[k] == "" {
							t.Fatalf("%+v without trouble before", e.Report)
						}
						delete(trouble, k)
					} else if trouble[k] == r {
						t.Fatalf("%+v twice", e.Report)
					} else {
						trouble[k] = r
					}
				}
			}
			well := !slices.ContainsFunc(seen.Loops,
				func(l Loop) bool { return without[l.Name] >= set.LateAfter(l.Period) })
			if pinged != (well && !fatal) {
				t.Fatalf("pinged %v, well %v, fatal %v", pinged, well, fatal)
			}
		}
	})
}

// Whatever the supervisor allows, our own verdict comes before its.
func TestBeforeTheSupervisor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		supervisor := time.Duration(rapid.IntRange(1, 600).Draw(t, "supervisor")) * time.Second
		set := Settings{Tick: min(DefaultTick, supervisor/4), Time: DefaultTime, Supervisor: supervisor}
		period := time.Duration(rapid.IntRange(1, 600).Draw(t, "period")) * time.Second
		s, stuck := New(set), Seen{Loops: []Loop{{ID: 1, Name: "l", Period: period}}}
		lastPing := time.Duration(0)
		for now := time.Duration(0); ; now += set.Tick {
			var effects []Effect
			s, effects = s.Step(now, stuck)
			for _, e := range effects {
				switch e.(type) {
				case Ping:
					lastPing = now
				case Fatal:
					if now-lastPing >= supervisor {
						t.Fatalf("our verdict at %v, the last ping at %v", now, lastPing)
					}
					return
				}
			}
		}
	})
}
