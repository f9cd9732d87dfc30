package apitest

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/op"
	"tandem.internal/shared/link"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// road is the core's link: what the core sends to a node is dealt with at once.
type road struct{ *Rig }

// Run implements link.Link.
func (r road) Run(ctx context.Context) error {
	<-ctx.Done()
	r.handler.Down(1, ctx.Err())
	return nil
}

// Publish implements link.Link. Of what the core says, requests are answered. Documents are not looked at: nodes report
// about those that the core's own state names.
func (r road) Publish(_ context.Context, to string, payload []byte, _ bool) error {
	t, err := topic.Parse(to)
	if err != nil || t.Leaf != topic.Request {
		return nil
	}
	q, err := wire.Decode[wire.Request](payload)
	if err != nil {
		return err
	}
	if r.isSilent(q.Node) {
		r.settle() // those who were asked before have answered
		switch q.Method {
		case wire.MethodReport, wire.MethodEvents, wire.MethodConfirm: // nobody waits for it
		case wire.MethodCheck:
			r.Advance(checkTimeout)
		default:
			r.Advance(orderTimeout)
		}
		return nil
	}
	reply := wire.Reply{V: wire.Version, Node: q.Node, ID: q.ID}
	result, werr := r.obey(q)
	if reply.Error = werr; werr == nil {
		reply.Result = result
	}
	r.say(topic.ForNode(unit, q.Node).Reply(), wire.Encode(&reply))
	return nil
}

// say returns when what a node says is in the journal.
func (r *Rig) say(to string, payload []byte) {
	r.handler.Message(link.Message{Topic: to, Payload: payload})
}

func (r *Rig) isSilent(node string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.silent[node]
}

// Silence has a node not answer any more: the clock moves on instead until it is not waited for. Of nodes that are
// asked together it is the last.
func (r *Rig) Silence(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.silent[node] = true
}

// Refuse has a node have something against every document that it is asked about. With wire.CodeNotSupported it does
// not know their kind.
func (r *Rig) Refuse(node string, err *wire.Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse[node] = err
}

// Log is what every slot has written, and what it writes before each further look.
func (r *Rig) Log(text string, grows ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log, r.grows = text, grows
}

// obey does what a request asks for.
func (r *Rig) obey(q *wire.Request) (jsontext.Value, *wire.Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	refused := r.refuse[q.Node]
	switch q.Method {
	case wire.MethodCheck:
		switch {
		case refused == nil:
			return wire.Encode(&wire.CheckResult{OK: true}), nil
		case refused.Code == wire.CodeNotSupported:
			return nil, refused
		}
		return wire.Encode(&wire.CheckResult{Errors: []*wire.Error{refused}}), nil
	case wire.MethodTry:
		p := must(wire.Decode[wire.TryParams](q.Params))
		if p.Component != "" && p.Component != "os" {
			return nil, wire.New(wire.CodeNotFound, "/component",
				"the settings of this node's agent name no component "+p.Component)
		}
		if p.Version != "" && p.Version != "1.5.0" {
			return nil, wire.New(wire.CodeWrongState, "", "version 1.5.0 is staged, not "+p.Version)
		}
	case wire.MethodRestart:
		return jsontext.Value("null"), noSlot(must(wire.Decode[wire.RestartParams](q.Params)).Service)
	case wire.MethodLogs:
		p := must(wire.Decode[wire.LogsParams](q.Params))
		if err := noSlot(p.Service); err != nil {
			return nil, err
		}
		return wire.Encode(r.logs(p)), nil
	case wire.MethodSamples:
		if q.Node == "node-2" {
			return nil, wire.New(wire.CodeNotSupported, "/method", `this agent does not know the method "samples"`)
		}
		unknown := wire.Measured(math.NaN())
		at := Now.Add(-20 * time.Second).UnixMilli()
		return wire.Encode(&wire.Samples{Period: "PT10S", Parameters: []string{"cpu", "ram", "download", "upload",
			"partition:state", "inodes:state"}, At: []int64{at, at + 10_000, at + 20_000},
			Values: [][]wire.Measured{{0.25, 0.314, 0.9}, {0.5, 0.502, 0.51}, {1200, unknown, 12.5e6},
				{300, unknown, 0}, {0.413, 0.413, 0.42}, {0.02, 0.02, 0.02}}}), nil
	case wire.MethodAgentLog:
		p := must(wire.Decode[wire.AgentLogParams](q.Params))
		if q.Node == "node-2" {
			return nil, wire.New(wire.CodeNotSupported, "/method", `this agent does not know the method "agent-log"`)
		}
		return wire.Encode(r.agentLog(q.Node, p)), nil
	}
	return jsontext.Value("null"), nil
}

// noSlot says that there is no slot of a service; every node has one of web.
func noSlot(service string) *wire.Error {
	if service == "web" {
		return nil
	}
	return wire.New(wire.CodeNotFound, "", "there is no slot of the service "+service)
}

// logs reads the log; a cursor is an offset.
func (r *Rig) logs(p *wire.LogsParams) *wire.LogsResult {
	if p.Hook != "" && p.Hook != workload.HookStart {
		l := &wire.LogsResult{Cursor: "0", Hook: p.Hook}
		if p.Hook == workload.HookValidate && p.Cursor == "" {
			l.Data = []byte("port 80 is taken\n")
		}
		return l
	}
	from, skipped := 0, false
	var process *wire.WorkloadProcess
	if p.Cursor == "" {
		process = &wire.WorkloadProcess{PID: 4711, Processes: 3, Memory: 12 << 20, CPUMs: 61_250}
	}
	if p.Tail > 0 {
		from = max(0, len(r.log)-p.Tail)
	}
	if p.Cursor != "" {
		if len(r.grows) > 0 {
			r.log, r.grows = r.log+r.grows[0], r.grows[1:]
		}
		n, err := strconv.Atoi(p.Cursor)
		if from = n; err != nil || n > len(r.log) {
			from, skipped = 0, true
		}
	}
	return &wire.LogsResult{Data: []byte(r.log[from:]), Cursor: strconv.Itoa(len(r.log)), Skipped: skipped,
		Hook: p.Hook, Process: process}
}

// agentLog is what an agent has logged: it is on debug for a while, and has lost some lines.
func (r *Rig) agentLog(node string, p *wire.AgentLogParams) *wire.AgentLog {
	same := `,"unit":"` + unit + `","node":"` + node + `"`
	lines := []string{
		`{"level":"info","time":"2026-11-20T09:59:58Z","msg":"node agent started"` + same + `,"type":"mainType"}`,
		`{"level":"warn","time":"2026-11-20T09:59:59Z","logger":"releases","msg":"certificate not renewed"` + same +
			`,"error":"no \u001b[31mway"}`,
		"a line that is no JSON\a",
	}
	l := &wire.AgentLog{Cursor: "b:3", Level: "debug", Until: Now.Add(30 * time.Minute)}
	switch {
	case p.Cursor != "":
		l.Lost, l.Restarted = 3, true
	case p.Level == "warn":
		lines = lines[1:2]
	case p.Lines > 0:
		lines = lines[max(0, len(lines)-p.Lines):]
	}
	l.Lines = lines
	return l
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // the core asks in the form that it was compiled with
	}
	return v
}

// number counts what nodes say.
func (r *Rig) number() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said++
	return r.said
}

func boot(node string) string { return "b-" + node }

// Connect has a node come, or go.
func (r *Rig) Connect(node string, up bool) {
	live := wire.Live{V: wire.Version, Node: node, Boot: boot(node), Session: r.number(), Up: up}
	r.say(topic.ForNode(unit, node).Live(), wire.Encode(&live))
}

// Say has a node report about one kind of document.
func (r *Rig) Say(node string, kind wire.Kind, rep wire.Reported) {
	rep.V, rep.Node, rep.Kind, rep.Boot, rep.Seq = wire.Version, node, kind, boot(node), r.number()
	r.say(topic.ForNode(unit, node).Reported(kind), wire.Encode(&rep))
}

// Report has a node report what became of its newest document of a kind. Unless that is installed, it runs what it ran
// before. With it goes the detail of the report, if there is one. Without a document the detail is all.
func (r *Rig) Report(node string, kind wire.Kind, state wire.State, why *wire.Error, detail jsontext.Value) {
	n, err := r.Core.Node(context.Background(), op.NodeIn{Node: node})
	if err != nil {
		r.tb.Error(err)
	}
	d := n.Documents[kind]
	if d.Desired == nil {
		r.Say(node, kind, wire.Reported{Detail: detail})
		return
	}
	ref := d.Desired.DocRef
	rep := wire.Reported{Running: d.Running, Detail: detail, Last: &wire.Attempt{Epoch: ref.Epoch, Rev: ref.Rev,
		Version: ref.Version, Hash: ref.Hash, State: state, Error: why, Attempt: 1, At: r.Now()}}
	if state == wire.StateInstalled {
		rep.Running = &ref
	}
	r.Say(node, kind, rep)
}

// Info has a node of the sample describe itself; it believes these keys.
func (r *Rig) Info(node string, keys ...string) {
	r.Say(node, wire.KindInfo, wire.Reported{Detail: wire.Encode(&wire.NodeInfo{Type: types[node], OS: "linux",
		Arch: "arm64", CPUs: 4, RAM: 2 << 30, AgentVersion: "1.0.0", Keys: keys,
		Partitions: []wire.Partition{{Name: "services", Path: "/var/services", Size: 8 << 30}}})})
}

// Offers has a node of the sample tell what it has for update items, too.
func (r *Rig) Offers(node string) {
	r.Say(node, wire.KindInfo, wire.Reported{Detail: wire.Encode(&wire.NodeInfo{Type: types[node], OS: "linux",
		Arch: "arm64", CPUs: 4, RAM: 2 << 30, AgentVersion: "1.0.0", CPU: 1200, Runtimes: []wire.Runtime{
			{ID: "process", Type: "process", Architecture: "arm64", Variant: "v8", OS: "linux", MaxInstances: 8},
			{ID: "boot-1", Type: "boot", Architecture: "amd64", OSFeatures: []string{"sse4"}}},
		Partitions: []wire.Partition{{Name: "services", Path: "/var/services", Size: 8 << 30,
			Types: []string{"storage", "state"}}},
		Resources: []wire.Shared{{Name: "i2c"}}, Devices: []wire.Shared{{Name: "can0", Shared: 1}},
		Subjects: []string{"driver-7", "line-4"}})})
}

// Load has a node tell what is used of it on average.
func (r *Rig) Load(node string, cpu, ram float64) {
	r.Report(node, wire.KindHealth, wire.StateInstalled, nil, wire.Encode(&wire.Health{Indicator: 4, Text: "in contact",
		Boot: wire.HealthBoot{Reason: wire.BootStop, At: r.Now()}, Quiet: &wire.HealthQuiet{},
		Settings: wire.HealthSettings{}.Complete(), Load: &wire.HealthLoad{CPU: cpu, RAM: ram}}))
}

// Event has a node tell of an event, its first ones in order.
func (r *Rig) Event(node string, seq uint64, typ, detail string) {
	e := wire.Event{V: wire.Version, Node: node, Boot: boot(node), Seq: seq, At: r.Now(), Type: typ,
		Detail: jsontext.Value(detail)}
	r.say(topic.ForNode(unit, node).Event(), wire.Encode(&e))
}
