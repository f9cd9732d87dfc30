package browser

import (
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/app"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/fleet"
)

// asked counts the questions for samples. The nodes answer as agents that have measured nothing yet, or as older ones,
// if they are to.
type asked struct {
	samples   atomic.Int64
	none, old atomic.Bool
}

// answer answers for the nodes what they do not know by themselves: what they have measured, and what their workloads
// use.
func (a *asked) answer(_ string, q *wire.Request) ([]byte, *wire.Error) {
	switch q.Method {
	case wire.MethodSamples:
		a.samples.Add(1)
		if a.old.Load() {
			break
		}
		if a.none.Load() {
			return wire.Encode(&wire.Samples{Period: "PT10S", Parameters: []string{"cpu"}, At: []int64{},
				Values: [][]wire.Measured{{}}}), nil
		}
		return wire.Encode(measured(time.Now())), nil
	case wire.MethodLogs:
		p, err := wire.Decode[wire.LogsParams](q.Params)
		if err != nil {
			return nil, wire.AsError(err)
		}
		memory := map[string]uint64{"camera": 1400 << 20, "map": 96 << 20, "web": 31 << 20}[p.Service]
		return wire.Encode(&wire.LogsResult{Cursor: "1", Data: []byte("it has begun\n"), Process: &wire.WorkloadProcess{
			PID: 4711, Processes: 3, Memory: memory, CPUMs: 61_250}}), nil
	}
	return nil, wire.New(wire.CodeNotSupported, "/method", "no such method here")
}

// highSince is how long ago the processors of the nodes became busy.
const highSince = 8 * time.Minute

// measured is an hour of a node whose processors are busy, were busy for a while half an hour ago, and which slept for
// some minutes.
func measured(now time.Time) *wire.Samples {
	const n = 330
	s := &wire.Samples{Period: "PT10S", Parameters: []string{"cpu", "ram", "download", "upload", "partition:services",
		"inodes:services"}, Values: make([][]wire.Measured, 6)}
	for i := range n {
		age := time.Duration(n-1-i) * 10 * time.Second
		if age > 45*time.Minute {
			age += 5 * time.Minute
		}
		s.At = append(s.At, now.Add(-age).UnixMilli())
		x := float64(i)
		cpu := 0.34 + 0.06*math.Sin(x/9) + 0.04*math.Sin(x*2.7)
		if age < highSince || age > 28*time.Minute && age < 33*time.Minute {
			cpu += 0.48
		}
		traffic := 1.5e6 * math.Pow(math.Sin(x/25), 2) * (1 + 0.3*math.Sin(x*1.9))
		for k, v := range []float64{cpu, 0.45 + x/1500 + 0.01*math.Sin(x), traffic, traffic / 9, 0.6 + x/4000, 0.12} {
			s.Values[k] = append(s.Values[k], wire.Measured(v))
		}
	}
	s.Values[2][200] = wire.Measured(math.NaN())
	return s
}

// refuse is why every third node refuses version 1.1.0, once they are to.
func (r *rig) refuse(node string, d *wire.Desired) *wire.Error {
	if !r.refuses.Load() || d.Version != "1.1.0" || strings.TrimRight(node, "147") == node {
		return nil
	}
	return wire.New(wire.CodeBadValue, "/alertRules/partitions/0/name", `there is no partition "services" on this node`)
}

// busy has node-00000 tell its health, with an alert that was raised and fell and one that is raised.
func (r *rig) busy() {
	r.t.Helper()
	now := time.Now().UTC()
	alert := func(state string, value float64, since, at time.Time) {
		detail := fmt.Sprintf(`{"timestamp":%q,"tag":"systemQuotaAlert","parameter":"cpu","value":%.2f,"state":%q,`+
			`"since":%q,"minThreshold":0.5,"maxThreshold":0.8}`, at.Format(time.RFC3339), value, state,
			since.Format(time.RFC3339))
		r.ok(r.nodes.Tell(0, wire.Event{At: at, Type: "alert", Detail: jsontext.Value(detail)}))
	}
	past := now.Add(-33 * time.Minute)
	alert("raise", 0.86, past, past)
	alert("fall", 0.41, past, now.Add(-27*time.Minute))
	alert("raise", 0.89, now.Add(-highSince), now.Add(-highSince))
	r.well(0)
}

// well has a node tell that its health is good.
func (r *rig) well(i int) {
	r.t.Helper()
	now := time.Now().UTC()
	h := wire.Health{Indicator: wire.IndicatorContact, Text: wire.IndicatorTexts[wire.IndicatorContact],
		Contact:  wire.HealthContact{In: true},
		Boot:     wire.HealthBoot{Reason: wire.BootPowerFail, At: now.Add(-3 * time.Hour)},
		Settings: wire.HealthSettings{}.Complete(), Load: &wire.HealthLoad{CPU: 0.4, RAM: 0.6}}
	r.ok(r.nodes.Say(i, wire.Reported{Kind: wire.KindHealth, Detail: jsontext.Value(wire.Encode(&h))}))
}

// works has three workloads run on node-00000.
func (r *rig) works() {
	r.t.Helper()
	const slot = `{"@class":"Instance","slot":"%s@node-00000","configurationId":"%[1]s-2","resources":{` +
		`"iss_hook_start":{"@class":"Resource","uuid":"u","urls":["http://127.0.0.1/w"],"size":0,` +
		`"verification":{"checksum":"EMPTY:","checkPeriod":"0d0h0m"}}}}`
	set := "[" + fmt.Sprintf(slot, "web") + "," + fmt.Sprintf(slot, "camera") + "," + fmt.Sprintf(slot, "map") + "]"
	res, err := r.app.Unit().Submit(r.ctx, app.Submission{Kind: "workloads", Version: "1.0.0", Document: []byte(set),
		Who: "uid:1000(ann)", Via: "cli"})
	if err != nil || res.State != "accepted" {
		r.t.Fatalf("%+v %v", res, err)
	}
	n, err := r.app.Unit().Node(r.ctx, app.NodeIn{Node: fleet.Name(0)})
	r.ok(err)
	ref := n.Documents[wire.KindWorkloads].Desired.DocRef
	w := &wire.Workloads{}
	for _, service := range []string{"camera", "map", "web"} {
		w.Slots = append(w.Slots, wire.WorkloadSlot{Slot: service + "@node-00000", ID: service + "-2",
			State: wire.WorkloadRunning, Since: time.Now().Add(-time.Hour).UTC(), Confined: "landlock"})
	}
	last := &wire.Attempt{Epoch: ref.Epoch, Rev: ref.Rev, Version: ref.Version, Hash: ref.Hash,
		State: wire.StateInstalled, Attempt: 1, At: time.Now().UTC()}
	r.ok(r.nodes.Say(0, wire.Reported{Kind: wire.KindWorkloads, Running: &ref, Last: last,
		Detail: jsontext.Value(wire.Encode(w))}))
}

func (r *rig) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}
