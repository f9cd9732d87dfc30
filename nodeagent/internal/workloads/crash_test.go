package workloads

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/nodeagent/internal/keep"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// The agent is killed, or the seam fails once, before and after each thing that leaves a mark. In the end
// what is wanted runs once, and nothing else is left.
func TestTroubleAtEveryStep(t *testing.T) {
	hooks := []string{workload.HookInstall, workload.HookValidate, workload.HookStop, workload.HookNotify,
		workload.HookUninstall}
	one, two, three := config("web", "one", "", hooks...), config("web", "two", "", hooks...),
		config("web", "two", "+", hooks...)
	plain := config("web", "three", "")
	job, again := config("web", "job", ""), config("web", "job2", "")
	job.Class, again.Class = workload.Job, workload.Job
	scripts := map[string][]*workload.Config{
		"replace":   {&one, &two},
		"links":     {&two, &three},
		"bad":       {&one, &two, &one},
		"jobs":      {&job, &again},
		"come back": {&one, nil, &plain},
	}
	for name, script := range scripts {
		for _, die := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", dies ", die), func(t *testing.T) {
				t.Parallel()
				for at := 1; trouble(t, name, script, die, at) && !t.Failed(); at++ {
				}
			})
		}
	}
}

// trouble plays a script with trouble at one point, and reports whether it came so far.
func trouble(t *testing.T, name string, script []*workload.Config, die bool, at int) (came bool) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.at, w.die = at, die
		if name == "bad" { // the second does not stay up
			w.ends["two/"+workload.HookStart] = keep.Status{ExitCode: 3}
		}
		if name == "jobs" {
			w.ends[workload.HookStart] = keep.Status{}
		}
		a := w.agent()
		for _, c := range script {
			var configs []workload.Config
			if c != nil {
				configs = append(configs, *c)
			}
			a.Manager.Want(configs)
			settled(time.Minute)
			if a.dead {
				a.end()
				a = w.agent()
				a.Manager.Want(configs)
				settled(time.Minute)
			}
		}
		a.end()
		last := script[len(script)-1]
		switch {
		case name == "links":
			w.only(map[string]string{"web": "two"}) // as it was told when it was started
			if to, err := os.Readlink(a.Manager.dir("web", "c1/data")); err != nil || to != "/store/copies/web-data+" {
				t.Errorf("the link leads to %s, %v", to, err)
			}
		case name == "replace" && !die && strings.Contains(w.where, "enter c2") && len(w.running()["web"]) == 1 &&
			w.running()["web"][0] == "one":
			w.only(map[string]string{"web": "one"}) // the new one cannot be started, so the old one comes back
		case name == "jobs":
			n := map[string]int{}
			for _, id := range w.started {
				n[strings.Split(id, ".")[2]]++
			}
			if r := w.reports[len(w.reports)-1]; n["start"] != 2 || len(w.runs) != 0 || len(r.Slots) != 1 ||
				r.Slots[0].State != wire.WorkloadCompleted || r.Slots[0].ID != "job2" {
				t.Errorf("runs %v, left %v, %+v", w.started, w.runs, r)
			}
		case last == nil:
			w.only(map[string]string{})
		default:
			w.only(map[string]string{"web": last.ConfigurationID})
		}
		if t.Failed() {
			t.Errorf("this was %s %s, point %d, dies: %v", name, w.where, at, die)
		}
		if w.where == "" && at < 20 {
			t.Errorf("the script has %d points only", at)
		}
		if came = w.where != ""; !came {
			t.Logf("%s has %d points", name, w.point)
		}
	})
	return came
}
