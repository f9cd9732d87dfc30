package distribute_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// seedWork is what a node's agent has of workloads. All that it is to run runs at once.
type seedWork struct {
	running *wire.DocRef
	last    *wire.Attempt
	slots   []wire.WorkloadSlot
	got     []string // documents, as the slots and configurations in them
	asked   []string // services that were restarted
	log     string
	looks   int    // how often it was asked what it has measured
	level   string // what the agent was last told to log, and for how long
}

// desiredWork takes a document of workloads, or refuses it as an agent that does not know the kind does.
func (n *seedNode) desiredWork(d *wire.Desired) {
	n.mu.Lock()
	w := n.work
	if w == nil {
		n.mu.Unlock()
		n.say(wire.KindWorkloads,
			&wire.Reported{Last: &wire.Attempt{Epoch: d.Epoch, Rev: d.Rev, Version: d.Version, Hash: d.Hash,
				State: wire.StateRejected, Attempt: 1, At: time.Now(),
				Error: wire.New(wire.CodeNotSupported, "", "this agent does not know documents of this kind")}})
		return
	}
	if w.last != nil && d.Stamp().Compare(w.last.Stamp()) <= 0 {
		n.mu.Unlock()
		return
	}
	configs, errs := workload.ParseDocument(d.Body, n.name)
	if errs != nil {
		n.u.Errorf("node %s: %v", n.name, errs[0])
	}
	w.last = &wire.Attempt{Epoch: d.Epoch, Rev: d.Rev, Version: d.Version, Hash: d.Hash, State: wire.StateInstalled,
		Attempt: 1, At: time.Now()}
	w.running = &wire.DocRef{Epoch: d.Epoch, Rev: d.Rev, Version: d.Version, Hash: d.Hash}
	w.slots = nil
	var names []string
	for _, c := range configs {
		name, state := c.Slot.Service+":"+c.ConfigurationID, wire.WorkloadRunning
		if c.Stopped {
			name, state = name+" stopped", wire.WorkloadStopped
		}
		names = append(names, name)
		w.slots = append(w.slots,
			wire.WorkloadSlot{Slot: c.Slot.String(), ID: c.ConfigurationID, State: state, Since: time.Now()})
	}
	w.got = append(w.got, d.Version+"["+strings.Join(names, " ")+"]")
	n.mu.Unlock()
	w.report(n)
}

func (w *seedWork) report(n *seedNode) {
	n.mu.Lock()
	r := wire.Reported{Running: w.running, Last: w.last,
		Detail: wire.Encode(&wire.Workloads{Slots: append([]wire.WorkloadSlot{}, w.slots...)})}
	n.mu.Unlock()
	n.say(wire.KindWorkloads, &r)
}

// check judges a document: a property "refuse" is what this node has something against.
func (w *seedWork) check(n *seedNode, id string, p *wire.CheckParams) *wire.Reply {
	r := &wire.Reply{V: wire.Version, Node: n.name, ID: id}
	if w == nil {
		r.Error = wire.New(wire.CodeNotSupported, "/params/kind",
			`this agent does not know documents of kind "workloads"`)
		return r
	}
	result := wire.CheckResult{OK: true}
	configs, errs := workload.ParseDocument(p.Body, n.name)
	for _, c := range configs {
		if c.Properties["refuse"] != "" {
			errs = append(errs, wire.New(wire.CodeNotSupported, "/workloads/0/container",
				"memory.limit_in_bytes cannot be enforced here"))
		}
	}
	if errs != nil {
		result = wire.CheckResult{Errors: errs}
	}
	r.Result = wire.Encode(&result)
	return r
}

// reply answers a question for logs, and an order to restart.
func (w *seedWork) reply(n *seedNode, q *wire.Request) *wire.Reply {
	r := &wire.Reply{V: wire.Version, Node: n.name, ID: q.ID}
	if w == nil {
		r.Error = wire.New(wire.CodeNotSupported, "/method",
			fmt.Sprintf("this agent does not know the method %.64q", q.Method))
		return r
	}
	if q.Method == wire.MethodSamples {
		w.looks++
		r.Result = wire.Encode(&wire.Samples{Period: "PT10S", Parameters: []string{"cpu"}, At: []int64{int64(w.looks)},
			Values: [][]wire.Measured{{wire.Measured(math.NaN())}}})
		return r
	}
	if q.Method == wire.MethodAgentLog || q.Method == wire.MethodLogLevel {
		r.Result, r.Error = w.ownLog(n, q)
		return r
	}
	if q.Method == wire.MethodRestart {
		p, err := wire.Decode[wire.RestartParams](q.Params)
		if err != nil {
			n.u.Error(err)
		} else if w.asked = append(w.asked, p.Service); p.Service != "web" {
			r.Error = wire.New(wire.CodeNotFound, "/service", "there is no such slot")
		}
		return r
	}
	p, err := wire.Decode[wire.LogsParams](q.Params)
	if err != nil {
		n.u.Error(err)
		return r
	}
	l := wire.LogsResult{Cursor: fmt.Sprint("1:", len(w.log))}
	if p.Hook == workload.HookStatus { // of the others it knows nothing, as an old agent
		l.Hook, l.Data = p.Hook, []byte("well\n")
	} else if p.Cursor == "" {
		l.Data = []byte(w.log[max(0, len(w.log)-p.Tail):])
	}
	r.Result = wire.Encode(&l)
	return r
}

// worker brings up a node whose agent runs workloads.
func (u *seedUnit) worker(name string) *seedNode {
	n := &seedNode{u: u, name: name, kind: "mainType", topics: topic.ForNode(seedName, name),
		work: &seedWork{log: "started\nlistening\n"}}
	n.start()
	u.nodes = append(u.nodes, n)
	return n
}

// gets lists the documents of workloads that reached the node, and forgets them.
func (n *seedNode) gets() string {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	all := strings.Join(n.work.got, " ")
	n.work.got = nil
	return all
}

// strictly is the strict document of a set that is read leniently.
func strictly(t *testing.T, sloppy []byte) []byte {
	t.Helper()
	strict, _, ps := workload.Strict(sloppy)
	if ps != nil {
		t.Fatal(ps)
	}
	return strict
}

// setOf is a set of instances "service@node:configuration", with what else is said of each.
func setOf(entries ...string) []byte {
	var all []string
	for _, e := range entries {
		slot, rest, _ := strings.Cut(e, ":")
		id, more, _ := strings.Cut(rest, ",")
		if more != "" {
			more += ","
		}
		all = append(all, fmt.Sprintf(`{"@class":"Instance","configurationId":%q,"slot":%q,%s"resources":`+
			`{"iss_hook_start":{"@class":"Resource","uuid":%q,"urls":["http://127.0.0.1/x"],"size":0,`+
			`"verification":{"checksum":"EMPTY:","checkPeriod":"0d0h0m"}}}}`, id, slot, more, id))
	}
	return []byte("[" + strings.Join(all, ",") + "]")
}

func (u *seedUnit) workloads(s view.Submission) view.Result {
	u.Helper()
	s.Kind = wire.KindWorkloads
	return u.submission(s)
}

// told is how far the slots have come, in a line.
func (u *seedUnit) told() string {
	u.Helper()
	synctest.Wait()
	st, err := u.core.SourceStatus(u.Context(), wire.KindWorkloads)
	if err != nil {
		u.Fatal(err)
	}
	slots, err := u.core.Slots(u.Context(), op.SlotsIn{})
	if err != nil {
		u.Fatal(err)
	}
	var all []string
	for _, s := range slots.Slots {
		text := s.Slot + " " + s.State
		if s.Why != "" {
			text += " (" + s.Why + ")"
		}
		all = append(all, text)
	}
	return fmt.Sprintf("%s %d/%d: %s", st.Version, st.Slots.Running, st.Slots.Slots, strings.Join(all, ", "))
}

// audit makes sure that replay leads to the live state.
func (u *seedUnit) audit() {
	u.Helper()
	if err := u.core.Audit(u.Context()); err != nil {
		u.Error(err)
	}
}
