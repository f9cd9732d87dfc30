package supervise

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/shared/workload"
)

// configOf makes a configuration of words: its ID; "job"; hooks, with a version; and what it has.
func configOf(t *testing.T, words []string) workload.Config {
	c := workload.Config{Class: workload.Instance, ConfigurationID: words[0],
		Slot: workload.Slot{Service: "web", Node: "n1"}, Properties: map[string]string{},
		Resources:  map[string]workload.Artifact{workload.HookStart: {Class: workload.Resource, UUID: "start"}},
		TimeLimits: map[string]workload.Limit{}}
	for _, word := range words[1:] {
		k, v, _ := strings.Cut(word, "=")
		hook := "iss_hook_" + k
		start := c.Resources[workload.HookStart]
		switch {
		case k == "job":
			c.Class = workload.Job
		case slices.Contains(workload.Hooks, hook):
			c.Resources[hook] = workload.Artifact{Class: workload.Resource, UUID: k + v}
			if v == "dynamic" {
				c.Resources[hook] = workload.Artifact{Class: workload.DynamicResource, UUID: k}
			}
		case k == "static":
			c.Resources["bin"] = workload.Artifact{Class: workload.Resource, UUID: "bin" + v}
		case k == "tree": // tree=DIFFID:SIZE
			c.Resources["tree"] = workload.Artifact{Class: workload.Resource, UUID: "tree"}
			if diffID, size, unpacked := strings.Cut(v, ":"); unpacked {
				n, _ := strconv.ParseInt(size, 10, 64)
				a := c.Resources["tree"]
				a.Unpack = &workload.Unpack{DiffID: diffID, Size: n}
				c.Resources["tree"] = a
			}
		case k == "data":
			c.Resources["data"] = workload.Artifact{Class: workload.DynamicResource, UUID: "data" + v}
		case k == "prop":
			c.Properties["p"] = v
		case k == "cpu":
			c.Container = &workload.Container{Constraints: map[string]string{"cpu.shares": v}}
		case k == "url":
			start.URLs = []string{"http://" + v}
		case k == "size":
			start.Size = 1000
		case k == "needs":
			c.Needs = needsOf(strings.Split(strings.ReplaceAll(v, ":", "="), ","))
		case k == "cached":
			start.Cached = true
		case k == "period":
			start.Verification.CheckPeriod = workload.CheckPeriod(time.Hour)
		case k == "limit": // limit=start:{…}
			hook, text, _ := strings.Cut(v, ":")
			var l workload.Limit
			if err := json.Unmarshal([]byte(text), &l); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			c.TimeLimits["iss_hook_"+hook] = l
		default:
			t.Fatalf("a configuration has no %q", word)
		}
		if slices.Contains([]string{"url", "size", "cached", "period"}, k) {
			c.Resources[workload.HookStart] = start
		}
	}
	return c
}

func needsOf(words []string) (all []workload.Need) {
	for _, word := range words {
		service, condition, _ := strings.Cut(word, "=")
		all = append(all, workload.Need{Slot: workload.Slot{Service: service, Node: "n1"},
			Condition: workload.Condition(condition)})
	}
	return all
}
