package apitest

import (
	"fmt"
	"strings"
	"time"

	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// SetOf is a set of workloads: of each service@node an instance, whose configuration is named after it, or a job if it
// begins with "job:".
func SetOf(slots ...string) []byte {
	var all []string
	for _, s := range slots {
		slot, job := strings.CutPrefix(s, "job:")
		class := "Instance"
		if job {
			class = "Job"
		}
		service, _, _ := strings.Cut(slot, "@")
		all = append(all, fmt.Sprintf(`{"@class":%q,"slot":%q,"configurationId":%q,"resources":{"iss_hook_start":`+
			`{"@class":"Resource","uuid":"u","urls":["http://127.0.0.1/w"],"size":0,`+
			`"verification":{"checksum":"EMPTY:","checkPeriod":"0d0h0m"}}}}`, class, slot, service+"-2"))
	}
	return []byte("[" + strings.Join(all, ",") + "]")
}

// running is a slot that does as it should.
func running(service, node string, since time.Time) wire.WorkloadSlot {
	return wire.WorkloadSlot{Slot: service + "@" + node, ID: service + "-2", State: wire.WorkloadRunning, Since: since,
		Confined: "landlock"}
}

// Work has a node report that it has its newest document of workloads, and its slots.
func (r *Rig) Work(node string, slots ...wire.WorkloadSlot) {
	r.Report(node, wire.KindWorkloads, wire.StateInstalled, nil, wire.Encode(&wire.Workloads{Slots: slots}))
}

// Working gives a sample workloads: slots in every state.
func (r *Rig) Working() {
	const first = "old@node-2"
	apply := func(version string, document []byte, who string, lenient bool) {
		r.Submit(view.Submission{Kind: wire.KindWorkloads, Version: version, Document: document, Who: who, Via: "cli",
			Lenient: lenient})
	}
	apply("1.0.0", SetOf(first), Alice, false)
	r.Refuse("node-3", wire.New(wire.CodeNotSupported, "", "this agent does not know documents of this kind"))
	apply("1.0.1", SetOf(first, "web@node-3"), Ann, false)
	r.Refuse("node-3", nil)
	apply("1.0.1", SetOf("web@node-1", "camera@node-1", "map@node-2", "job:clean@node-2", "radio@node-2", "web@node-4",
		"web@node-9"), Alice, true)
	since := r.Now().Add(-10 * time.Minute)
	web, camera, mapped := running("web", "node-1", since), running("camera", "node-1", since),
		running("map", "node-2", since)
	clean, radio, old := running("clean", "node-2", since), running("radio", "node-2", since),
		running("old", "node-2", since)
	camera.State, camera.Restarts, camera.Next = wire.WorkloadRestarting, 7, r.Now().Add(8*time.Second)
	camera.Exit = &wire.WorkloadExit{Code: 3, At: r.Now().Add(-time.Minute)}
	mapped.ID, mapped.Wanted, mapped.Doing = "map-1", "map-2", "fetch"
	mapped.Resources = []wire.WorkloadResource{{Name: "tiles", State: "fetching", Done: 12 << 20, Size: 40 << 20},
		{Name: "style", State: "waiting"}}
	clean.State, clean.Job = wire.WorkloadCompleted, true
	radio.State, radio.Error = wire.WorkloadFailed, wire.New(wire.CodeNotSupported,
		"/resources/iss_hook_start/urls/0", "this agent was built without BitTorrent")
	old.State = wire.WorkloadStopped
	r.Work("node-1", camera, web)
	r.Work("node-2", clean, mapped, old, radio)
	r.Log("started\nlistening on 8080\n")
}
