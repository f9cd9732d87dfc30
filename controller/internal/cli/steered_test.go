package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/op"
	"tandem.internal/shared/wire"
)

// TestDesiredOnAController runs the commands about what should run, one after the other on one unit that items and
// subjects steer, for people and as JSON.
func TestDesiredOnAController(t *testing.T) {
	for _, suffix := range []string{"", "-json"} {
		u := apitest.StartSteered(t)
		b := newBench(t, u)
		b.write("start", "#!/bin/sh\n")
		b.write("sensor.json", `{"codename":"sensor","type":"service","version":"1.4.0","runtimes":["process"],`+
			`"env":{"LEVEL":"info"},"quotas":{"cpu":400}}`)
		b.write("base.json", `{"codename":"base","type":"component","version":"7.0.0","runtimes":["boot"]}`)
		b.write("line.json", `{"codename":"line","type":"group","nodes":["node-1","node-3"],"items":[`+
			`{"type":"service","codename":"sensor","instances":2},{"type":"component","codename":"base"},`+
			`{"type":"service","codename":"view"}]}`)
		b.write("typo.json", `{"codename":"typo","type":"group","nodes":["node-1","nod-2"]}`)
		b.write("none.json", "[]")
		b.write("plan.json", `{"waves":[{"count":1,"canary":true},{"percent":100}]}`)
		b.write("list.json", `{"formatVersion":"1"}`)
		for _, c := range []struct{ name, args string }{
			{"show-none", "desired show"},
			{"plan-none", "desired plan"},
			{"apply-none", "desired apply --dry-run"},
			{"", "item create DIR/sensor.json"},
			{"", "item create DIR/base.json"},
			{"", "item release DIR/sensor.json DIR/start --ready"},
			{"", "item release DIR/base.json DIR/start --ready"},
			{"", "subject apply DIR/line.json"},
			{"plan-no-place", "desired plan"},
			{"OFFERS", ""},
			{"plan", "desired plan"},
			{"why", "desired why node-1 sensor"},
			{"why-component", "desired why node-1 base"},
			{"why-elsewhere", "desired why node-3 sensor --evict-after 1h"},
			{"why-node", "desired why node-7 sensor"},
			{"why-item", "desired why node-1 senser"},
			{"unknown-node", "subject apply DIR/typo.json"},
			{"why-type", "desired why node-1 sensor --type thing"},
			{"apply-only", "desired apply --only things"},
			{"apply-dry", "desired apply --dry-run --skip-nodes"},
			{"apply", "desired apply --skip-nodes"},
			{"show", "desired show"},
			{"show-node", "desired show --node node-3"},
			{"plan-done", "desired plan --all"},
			{"again", "desired apply --skip-nodes --only workloads"},
			{"again-in-waves", "desired apply --skip-nodes --rollout DIR/plan.json"},
			{"by-hand", "workload apply DIR/none.json"},
			{"component-by-hand", "component apply DIR/list.json"},
			{"component-show", "component show"},
			{"workload-list", "workload list"},
			{"deprecate", "item deprecate sensor 1.4.0"},
			{"remove-used", "item remove sensor 1.4.0"},
			{"history", "workload history"},
			{"FAILS", ""},
			{"apply-wait-fails", "desired apply --skip-nodes --wait"},
			{"INSTALLED", ""},
			{"apply-wait", "desired apply --skip-nodes --wait --only components"},
			{"component-status", "component status"},
			{"why-other-type", "desired why node-1 component/sensor"},
			{"why-two-types", "desired why node-1 component/sensor --type service"},
			{"why-typed", "desired why node-1 service/sensor"},
			{"unknown-item", "subject attach line --item service/sensr"},
		} {
			switch c.name {
			case "OFFERS":
				u.Offers("node-1")
				continue
			case "FAILS":
				broken := wire.New(wire.CodeApplyFailed, "", "it does not start")
				base(u, wire.ComponentFailed, broken)
				list, err := u.Core.Slots(t.Context(), op.SlotsIn{Node: "node-1"})
				if err != nil {
					t.Fatal(err)
				}
				var slots []wire.WorkloadSlot
				for _, s := range list.Slots {
					slots = append(slots, wire.WorkloadSlot{Slot: s.Slot, ID: s.Desired, Wanted: s.Desired,
						State: wire.WorkloadFailed, Error: broken, Since: u.Now()})
				}
				u.Work("node-1", slots...)
				continue
			case "INSTALLED":
				base(u, wire.ComponentInstalled, nil)
				continue
			}
			args := strings.Fields(strings.ReplaceAll(c.args, "DIR", b.dir))
			if suffix != "" {
				args = append(args, "--json")
			}
			got := b.transcript("", args...)
			if c.name != "" {
				golden(t, "desired-unit-"+c.name+suffix, got)
			}
		}
	}
}

// base has node-1 tell of its component.
func base(u *apitest.Rig, state wire.ComponentState, why *wire.Error) {
	u.Report("node-1", wire.KindComponents, wire.StateInstalled, nil, wire.Encode(&wire.ComponentsReport{
		Components: []wire.ComponentStatus{{Name: "boot-1", Item: "base", Version: "7.0.0", State: state,
			Error: why}}}))
}

// TestDesiredIsNotSteered: where sets of workloads are submitted by people, nothing is decided, but a plan may be made.
func TestDesiredIsNotSteered(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	golden(t, "desired-unit-not", b.transcript("", "desired", "apply"))
	golden(t, "desired-unit-not-dry", b.transcript("", "desired", "apply", "--dry-run", "--skip-nodes"))
}

// TestOverloadedNodeIsRelieved: on a controller that is told to, a service leaves a node by itself once that has been
// overloaded for long enough, and goes where there is room.
func TestOverloadedNodeIsRelieved(t *testing.T) {
	u := apitest.StartRelieving(t)
	b := newBench(t, u)
	b.write("start", "#!/bin/sh\n")
	b.write("sensor.json", `{"codename":"sensor","type":"service","version":"1.4.0","quotas":{"ram":67108864}}`)
	b.write("line.json", `{"codename":"line","type":"group","nodes":["node-1","node-3"],"items":[`+
		`{"type":"service","codename":"sensor"}]}`)
	u.Offers("node-1")
	u.Offers("node-3")
	for _, args := range []string{"item create DIR/sensor.json", "item release DIR/sensor.json DIR/start --ready",
		"subject apply DIR/line.json", "desired apply --skip-nodes"} {
		b.transcript("", strings.Fields(strings.ReplaceAll(args, "DIR", b.dir))...)
	}
	show := func() string { return b.transcript("", "desired", "show") }
	if got := show(); !strings.Contains(got, "node-1  service sensor") {
		t.Fatal(got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for !strings.Contains(show(), "node-3  service sensor") {
		if ctx.Err() != nil {
			t.Fatalf("it does not leave\n%s\n%s", show(), b.transcript("", "desired", "plan"))
		}
		u.Load("node-1", 0.1, 0.95)
		u.Load("node-3", 0.1, 0.1)
		u.Advance(time.Second)
	}
	want := []string{"move of sensor of line, instance 0, from node-1 to node-3 decided: 0.95 of its RAM was used",
		"move of sensor of line, instance 0, from node-1 to node-3: arrived"}
	for _, text := range want {
		for all := ""; !strings.Contains(all, text); all = b.transcript("", "events", "--limit", "50") {
			if ctx.Err() != nil {
				t.Fatalf("no %q in\n%s", text, all)
			}
		}
	}
}
