// Package policytest plays a node as far as management policies go, for tests of both sides: what decides is the
// agent's own machine, with a disk that fails and power that goes; its document, its downloads and its agent slots are
// played. Time is virtual: nothing waits.
package policytest

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/nodeagent/internal/policy"
	"tandem.internal/shared/clock"
	"tandem.internal/shared/wire"
)

// Node is a node. Make it with New.
type Node struct {
	Name    string
	Bad     func(version string) bool // it fails its trial
	Smooth  bool                      // no download fails, and the agent does not crash when it orders a trial
	Running string                    // version of the agent in force
	Events  []wire.PolicyStatus       // that were kept, the oldest first
	Broken  []string                  // rules that the machine broke
	Tried   []string                  // versions, the oldest first
	Fetched []string                  // versions of which the download was begun

	chance *rand.Rand
	wall   time.Time
	boot   time.Time
	state  policy.State
	disk   []byte // the plan, as it was saved
	full   bool   // nothing can be saved
	dirty  bool   // the newest plan is not saved
	body   []byte // the document in force; nil: none
	stamp  uint64 // of it
	update policy.Update
	trial  *trial
	fetch  *wire.AgentRelease
	later  []later
}

// trial is a version on trial.
type trial struct {
	number  uint64
	version string
	hash    string
}

// later is something that is to happen.
type later struct {
	at   time.Time
	life time.Time // only in the life of the agent that began then; zero: whatever happens to it
	do   func()
}

// New returns a node that runs a version, and begins at a time.
func New(name, version string, at time.Time, chance *rand.Rand) *Node {
	n := &Node{Name: name, Running: version, chance: chance, wall: at, Bad: func(string) bool { return false }}
	n.update.Slots = true
	n.start()
	return n
}

// start starts the agent with what is on the disk.
func (n *Node) start() {
	var saved policy.Durable
	if n.disk != nil {
		if err := json.Unmarshal(n.disk, &saved); err != nil {
			n.broke("the plan cannot be read: %v", err)
		}
	}
	n.boot, n.state, n.fetch, n.dirty = n.wall, policy.New(saved), nil, false
	before := saved.Plan
	events := []policy.Event{n.document(), policy.Updated{Update: n.status()}}
	if n.chance.IntN(2) == 0 {
		slices.Reverse(events)
	}
	for _, ev := range events {
		n.step(ev)
	}
	after := n.state.Plan
	if same := before.Policy == after.Policy && before.Rev == after.Rev; same && before.State == wire.PolicyWaiting &&
		before.At.After(n.wall) && !after.At.Equal(before.At) {
		n.broke("after a restart %s begins at %v, not %v", before.Policy, after.At, before.At)
	}
}

func (n *Node) broke(format string, a ...any) {
	n.Broken = append(n.Broken, n.Name+": "+fmt.Sprintf(format, a...))
}

func (n *Node) document() policy.Document {
	if n.body == nil {
		return policy.Document{}
	}
	doc, err := wire.Decode[wire.Policies](n.body)
	if err != nil {
		n.broke("the document cannot be read: %v", err)
	}
	return policy.Document{Policies: doc}
}

// status is how the agent's own update stands.
func (n *Node) status() policy.Update {
	u := n.update
	u.Running = n.Running
	u.Quarantine, u.Ended = slices.Clone(u.Quarantine), slices.Clone(u.Ended)
	return u
}

// Deliver brings a document; one that is not newer is passed over.
func (n *Node) Deliver(stamp uint64, body []byte) {
	if stamp <= n.stamp {
		return
	}
	n.stamp, n.body = stamp, body
	n.step(n.document())
}

// Crash cuts the power for a time.
func (n *Node) Crash(off time.Duration) {
	n.later = slices.DeleteFunc(n.later, func(l later) bool { return !l.life.IsZero() })
	n.wall = n.wall.Add(off)
	n.start()
}

// Full says whether the disk takes nothing from now on.
func (n *Node) Full(yes bool) { n.full = yes }

// Wait lets time pass.
func (n *Node) Wait(d time.Duration) {
	for end := n.wall.Add(d); ; {
		next := end
		mono, due := n.state.NextDeadline(n.now().Now)
		if at := n.boot.Add(mono); due && at.Before(next) {
			next = at
		} else {
			due = false
		}
		i := -1
		for j, l := range n.later {
			if !l.at.After(next) {
				next, i = l.at, j
			}
		}
		switch {
		case i >= 0:
			do := n.later[i].do
			n.later = slices.Delete(n.later, i, i+1)
			n.wall = latest(n.wall, next)
			do()
		case due:
			n.wall = latest(n.wall.Add(time.Millisecond), next)
			n.step(policy.Tick{})
		default:
			n.wall = end
			if n.dirty {
				n.step(policy.Tick{})
			}
			return
		}
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (n *Node) after(d time.Duration, survives bool, do func()) {
	l := later{at: n.wall.Add(d), life: n.boot, do: do}
	if survives {
		l.life = time.Time{}
	}
	n.later = append(n.later, l)
}

func (n *Node) now() policy.Now {
	return policy.Now{Now: clock.Now{Mono: n.wall.Sub(n.boot), Wall: n.wall}, Chance: n.chance.Float64()}
}

// step takes the machine over one event as the kind does: step, save, act.
func (n *Node) step(ev policy.Event) {
	now := n.now()
	next, effects := n.state.Step(now, ev)
	if n.dirty || !next.Durable.Equal(n.state.Durable) {
		data, err := json.Marshal(next.Durable)
		if err != nil {
			n.broke("the plan cannot be saved: %v", err)
		}
		if n.full {
			n.state, _ = next.Step(now, policy.Dropped{})
			n.dirty = true
			return
		}
		n.disk = data
	}
	n.state, n.dirty = next, false
	for _, e := range effects {
		n.do(e)
	}
}

func (n *Node) do(e policy.Effect) {
	switch e := e.(type) {
	case policy.Log:
		n.Events = append(n.Events, e.Detail.PolicyStatus)
	case policy.Fetch:
		n.fetch = e.Release
		if e.Release == nil {
			return
		}
		n.asks(e.Release.Version, e.Release.Hash)
		n.Fetched = append(n.Fetched, e.Release.Version)
		n.download(*e.Release)
	case policy.Stage:
		n.asks(e.Release.Version, e.Release.Hash)
		n.after(n.between(time.Second, time.Minute), false, func() { n.stage(e.Release) })
	}
}

// asks holds what is asked for against the rules: only a policy that decides asks for something, and never for what is
// known to be bad.
func (n *Node) asks(version, hash string) {
	if doc := n.document().Policies; doc == nil || !slices.ContainsFunc(doc.Policies, func(p wire.NodePolicy) bool {
		return p.Agent != nil && p.DecidedBy == ""
	}) {
		n.broke("no policy decides, and %s is asked for", version)
	}
	if n.isBad(hash) {
		n.broke("%s failed before, and is asked for again", version)
	}
}

func (n *Node) isBad(hash string) bool {
	return slices.ContainsFunc(n.update.Quarantine, func(q wire.HealthFailed) bool { return q.Hash == hash })
}

func (n *Node) between(from, to time.Duration) time.Duration {
	return from + time.Duration(n.chance.Int64N(int64(to-from)))
}

// download ends well or badly, after a while, and is repeated.
func (n *Node) download(r wire.AgentRelease) {
	n.after(n.between(time.Second, 5*time.Minute), false, func() {
		if n.fetch == nil || n.fetch.Hash != r.Hash {
			return
		}
		if !n.Smooth && n.chance.IntN(3) == 0 {
			n.step(policy.Fetched{Hash: r.Hash, Err: wire.New(wire.CodeUnavailable, "", "away")})
			n.download(r)
			return
		}
		n.step(policy.Fetched{Hash: r.Hash, Done: true})
	})
}

// stage stages a release and orders its trial, as the agent does.
func (n *Node) stage(r wire.AgentRelease) {
	answer := policy.Staged{Hash: r.Hash}
	switch {
	case n.trial != nil:
		answer.Err = wire.New(wire.CodeWrongState, "", "a trial is under way")
	case n.isBad(r.Hash):
		answer.Err, answer.Final = wire.New(wire.CodeQuarantined, "", "it failed"), true
	default:
		n.update.Number++
		n.update.GivenUp, n.update.Note = false, ""
		n.trial = &trial{n.update.Number, r.Version, r.Hash}
		n.Tried = append(n.Tried, r.Version)
		answer.Number = n.update.Number
		n.after(n.between(time.Minute, 10*time.Minute), true, n.judge)
		if !n.Smooth && n.chance.IntN(4) == 0 { // it restarts before the answer is heard
			n.Crash(time.Second)
			return
		}
	}
	n.step(answer)
}

// judge ends the trial: the agent restarts, and what it tried is kept or given up.
func (n *Node) judge() {
	t := n.trial
	if n.Bad(t.version) && !n.update.GivenUp {
		n.update.GivenUp = true
		if n.chance.IntN(3) == 0 {
			n.update.Note = "disk full"
		}
		n.after(n.between(time.Second, time.Minute), true, n.judge)
		n.step(policy.Updated{Update: n.status()})
		return
	}
	o := policy.Outcome{Number: t.number, Tried: true, Version: t.version, Kept: !n.update.GivenUp}
	if o.Kept {
		n.Running = t.version
	} else {
		o.Why = "three starts"
		n.update.Quarantine = append(n.update.Quarantine, wire.HealthFailed{Version: t.version, Hash: t.hash,
			Text: o.Why})
	}
	n.trial, n.update.GivenUp, n.update.Note = nil, false, ""
	n.update.Ended = append([]policy.Outcome{o}, n.update.Ended...)
	n.update.Ended = n.update.Ended[:min(2, len(n.update.Ended))]
	n.Crash(time.Second)
}

// Report is what the node reports.
func (n *Node) Report() []wire.PolicyStatus { return n.state.Status() }

// Idle reports whether nothing is fetched and nothing on trial.
func (n *Node) Idle() bool { return n.fetch == nil && n.trial == nil }

// Wall is the node's time.
func (n *Node) Wall() time.Time { return n.wall }

// Says is the report in words: "p waiting, q conflict behind p".
func (n *Node) Says() string {
	var all []string
	for _, st := range n.state.Status() {
		text := st.Name + " " + string(st.State)
		if st.Version != "" {
			text += " " + st.Version
		}
		if st.DecidedBy != "" {
			text += " behind " + st.DecidedBy
		}
		all = append(all, text)
	}
	return cmp.Or(strings.Join(all, ", "), "nothing")
}

// Lost is what the events say of conflicts: the newest of each policy, by its name; the value is who decides.
func (n *Node) Lost() map[string]string {
	all := map[string]string{}
	for _, st := range n.Events {
		if st.State == wire.PolicyConflict {
			all[st.Name] = st.DecidedBy
		}
	}
	return maps.Clone(all)
}
