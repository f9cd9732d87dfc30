package env

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	controller "tandem.internal/controller/app"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/fault"
)

// Calm ends every fault, starts whatever does not run, and waits until the unit is where it should
// be; then it checks everything that must hold in calm.
func (e *Env) Calm() {
	e.Helper()
	e.Note("calm")
	e.Controller.Machine.Disarm()
	e.Controller.Machine.Fill(false)
	if e.Broker != nil && e.Broker.down() {
		e.Broker.Start()
	}
	if !e.Controller.Running() {
		e.Controller.Restart()
	}
	if e.Controller.road != nil {
		e.Controller.road.Clear()
		if e.Controller.road.Mixed() {
			e.Controller.road.Cut() // the next session finds out what the broker retains
		}
	}
	for _, n := range e.nodes {
		n.Machine.Disarm()
		n.Machine.Fill(false)
		n.road.Clear()
		if n.road.Mixed() {
			n.road.Cut() // likewise: the broker may retain an older report than the newest
		}
		if !n.Running() {
			n.Restart()
		}
	}
	var s controller.SourceStatus
	e.Until(patience, "the controller takes orders", func() (ok bool) {
		s, ok = e.TryStatus()
		return ok
	})
	if s.State == "failed" && s.Version != "" {
		if err := e.Restore(); err != nil {
			e.Wrong("restore: %v", err)
		}
	} else if s.State == "failed" {
		e.Apply(Doc("1000000.0.0")) // nothing to restore, but any valid configuration recovers
	}
	why := ""
	if !e.Within(3*time.Hour, func() bool { why = e.unsettled(); return why == "" }) {
		e.Wrong("three hours of calm, and %s", why)
		e.noteJournal(60)
	}
	e.Check()
}

func (b *Broker) down() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now == nil
}

// unsettled says what is not as it should be yet, "" if nothing.
func (e *Env) unsettled() string {
	s, ok := e.TryStatus()
	if !ok {
		return "the controller does not answer"
	}
	if s.Trial != nil {
		return "a trial is on until " + s.Trial.Deadline.String()
	}
	for _, n := range e.nodes {
		if why := e.astray(n); why != "" {
			return n.Name + ": " + why
		}
	}
	return ""
}

// noteJournal copies the end of the journal into the diary.
func (e *Env) noteJournal(n int) {
	all, err := ask(e, func(ctx context.Context, u controller.Unit) ([]controller.Entry, error) {
		return u.Entries(ctx, controller.EntryFilter{Limit: n, Reverse: true})
	})
	if err != nil {
		e.Note("the journal: %v", err)
	}
	for _, r := range slices.Backward(all) {
		e.Note("%4d %v %s %s %s %.300s", r.Seq, r.At.Sub(e.began).Round(time.Millisecond), r.Type, r.Node, r.Kind,
			r.Data)
	}
}

// astray says how a node differs from what it should be in calm.
func (e *Env) astray(n *Node) string {
	v, ok := e.View(n.Name)
	switch {
	case !ok:
		return "the controller has not heard of it"
	case !v.Online:
		return "it counts as offline"
	case v.Type != n.spec.Type:
		return fmt.Sprintf("its type is %s, the controller knows %s", n.spec.Type, v.Type)
	}
	d := v.Documents[wire.KindConfig]
	want, err := ask(e, func(ctx context.Context, u controller.Unit) (want resolved, err error) {
		r, err := u.Resolved(ctx, controller.ResolveIn{Node: n.Name})
		return resolved{r.Document, r.Hash}, err
	})
	if err != nil { // nothing is installed: nothing is to be there
		if d.Desired != nil {
			return fmt.Sprintf("it should have nothing, but %v is issued to it", d.Desired)
		}
		if d.Running == nil && n.File() != nil {
			return "it runs nothing but has a config.json"
		}
		return ""
	}
	last := n.Last()
	switch {
	case d.Desired == nil || d.Desired.Hash != want.hash || d.Desired.Mode != wire.ModeApply && !confirmed(d):
		return fmt.Sprintf("%v was issued, the configuration says %s", d.Desired, want.hash)
	case last == nil || last.Stamp() != d.Desired.Stamp():
		return fmt.Sprintf("%v was issued, it last tried %v", d.Desired, last)
	case d.Last == nil || d.Last.Stamp() != last.Stamp() || d.Last.State != last.State:
		return fmt.Sprintf("it is at %v, the controller knows %v", last, d.Last)
	}
	if e.Broker != nil {
		if got, ok := e.retained(n); !ok || got != d.Desired.Stamp() {
			return fmt.Sprintf("%v was issued, the broker retains %v", d.Desired.Stamp(), got)
		}
	}
	file := wire.Hash(n.File())
	if n.accepts(want.body) {
		if last.State != wire.StateInstalled || !v.InSync || d.Running == nil ||
			d.Running.Stamp() != d.Desired.Stamp() || file != want.hash {
			return fmt.Sprintf("it should run %s, is %s and runs %v", d.Desired.Version, last.State, d.Running)
		}
		return ""
	}
	if last.State != wire.StateRejected && last.State != wire.StateFailed {
		return fmt.Sprintf("it should refuse %s, but it is %s", d.Desired.Version, last.State)
	}
	n.mu.Lock()
	committed, hash := n.running, n.hashes[n.running]
	n.mu.Unlock()
	switch {
	case committed.IsZero():
		if d.Running != nil || n.File() != nil {
			return "it refused all it was given but runs something"
		}
	case d.Running == nil || d.Running.Stamp() != committed || file != hash:
		return fmt.Sprintf("it refused the newest; it should run %v as before, and runs %v", committed, d.Running)
	}
	return ""
}

type resolved struct {
	body []byte
	hash string
}

// confirmed reports whether a tried document stays because its trial was confirmed.
func confirmed(d controller.Document) bool {
	return d.Running != nil && d.Running.Stamp() == d.Desired.Stamp() ||
		d.Last != nil && d.Last.State != wire.StateTrying
}

// accepts reports whether a node takes a document, by its own rules and its software's.
func (n *Node) accepts(body []byte) bool {
	nc, problems := unitconfig.ParseNode(body)
	if len(problems) > 0 {
		n.e.Wrong("%s was given what is no configuration: %v", n.Name, problems)
		return false
	}
	return (n.spec.MaxPriority == 0 || int(nc.Priority) <= n.spec.MaxPriority) && !slices.Contains(nc.Labels, Boom)
}

// retained is the stamp of the document that the broker retains for a node.
func (e *Env) retained(n *Node) (wire.Stamp, bool) {
	payload, ok := e.Broker.Retained(topic.ForNode(Unit, n.Name).Desired(wire.KindConfig))
	if !ok {
		return wire.Stamp{}, false
	}
	d, err := wire.Decode[wire.Desired](payload)
	if err != nil {
		e.Wrong("the broker retains for %s what is no document: %v", n.Name, err)
		return wire.Stamp{}, false
	}
	return d.Stamp(), true
}

// Check checks what must hold at any time at which the controller can be asked: the journal is
// whole, replaying it leads to the live state, and nothing that was acknowledged is missing.
func (e *Env) Check() {
	e.Helper()
	ctx := context.Background()
	u := e.Controller.Unit()
	if u == nil {
		e.Wrong("nobody can be checked: the controller is down")
		return
	}
	for _, m := range e.Machines() {
		if left := m.Leftovers(); len(left) > 0 && !m.Dead() && !m.Armed() && !m.Full() {
			e.Wrong("left behind: %v", left)
		}
	}
	if err := e.Controller.app.Audit(ctx); err != nil {
		e.Wrong("%v", err)
	}
	if v, err := u.Verify(ctx); err != nil || !v.OK {
		e.Wrong("the journal: %v %s", err, v.Report)
	}
	history, err := u.History(ctx, wire.KindConfig)
	if err != nil {
		e.Wrong("history: %v", err)
	}
	for _, version := range e.Acknowledged() {
		if !slices.ContainsFunc(history.Versions, func(v controller.Version) bool {
			return v.Version == version && v.State == "accepted"
		}) {
			e.Wrong("%s was acknowledged and is forgotten", version)
		}
	}
	if !e.Controller.forgetful {
		e.checkIssued()
	}
	s, err := u.Status(ctx)
	if err != nil {
		e.Wrong("status: %v", err)
	} else if s.Epoch < e.Controller.highest {
		e.Wrong("the epoch went back from %d to %d", e.Controller.highest, s.Epoch)
	} else {
		e.Controller.highest = s.Epoch
	}
}

// checkIssued makes sure that whatever reached a node had been journaled: journal, then publish.
func (e *Env) checkIssued() {
	type issue struct {
		stamp wire.Stamp
		node  string
	}
	issued := map[issue]string{}
	for _, r := range e.Entries("issued") {
		var d struct {
			Epoch uint64 `json:"epoch"`
			Docs  []struct {
				Hash  string   `json:"hash"`
				Nodes []string `json:"nodes"`
			} `json:"docs"`
		}
		if err := json.Unmarshal(r.Data, &d); err != nil {
			e.Wrong("record %d: %v", r.Seq, err)
		}
		for _, doc := range d.Docs {
			for _, n := range doc.Nodes {
				issued[issue{wire.Stamp{Epoch: d.Epoch, Rev: r.Seq}, n}] = doc.Hash
			}
		}
	}
	for _, n := range e.nodes {
		n.mu.Lock()
		heard := maps.Clone(n.heard)
		n.mu.Unlock()
		for stamp, hash := range heard {
			if issued[issue{stamp, n.Name}] != hash {
				e.Wrong("%s was sent document %v (%s), which is not in the journal", n.Name, stamp, hash)
			}
		}
	}
}

// Machines lists all machines, the controller's first.
func (e *Env) Machines() []*fault.Machine {
	all := []*fault.Machine{e.Controller.Machine}
	for _, n := range e.nodes {
		all = append(all, n.Machine)
	}
	return all
}
