package brokers

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	controller "tandem.internal/controller/app"
	"tandem.internal/shared/link"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/cloud"
	"tandem.internal/testenv/proc"
)

// suite is what a unit must do on any broker.
func suite(t *testing.T, b broker, is traits) {
	r := newRig(t, b, is)
	for _, c := range []struct {
		name string
		run  func(*rig)
	}{
		{"apply", apply},
		{"check", check},
		{"offline", offline},
		{"last will", lastWill},
		{"trials", trials},
		{"inbox off", inboxOff},
		{"inbox", inbox},
		{"restart", restart},
		{"empty broker", emptyBroker},
		{"stale broker", staleBroker},
		{"lost report", lostReport},
		{"controller restart", controllerRestart},
		{"events once", eventsOnce},
		{"dots in names", dots},
		{"forgotten", forgotten},
	} {
		began := time.Now()
		if !t.Run(c.name, func(t *testing.T) {
			r.T = t
			c.run(r)
		}) {
			break // the next ones build on it
		}
		r.T = t
		t.Logf("%-20s %v", c.name, time.Since(began).Round(time.Millisecond))
	}
}

// apply: a document reaches every node, and every node's report the controller.
func apply(r *rig) {
	for _, name := range r.first {
		r.startNode(name)
	}
	for _, name := range r.first {
		r.awaitOnline(name, true)
	}
	r.awaitVersion(r.apply(), r.first...)
	if n, err := r.node("n2"); err != nil || n.Type != "second" || n.Info == nil || n.Info.CPUs != 2 {
		r.Errorf("what the controller knows of n2: %+v %v", n, err)
	}
}

// check: the nodes are asked before anything is accepted, and one that says no is heard.
func check(r *rig) {
	res := r.submit(controller.Submission{Kind: "config", Document: proc.Document(r.next(), 5000), DryRun: true})
	if res.State != "refused" || res.Checks.Asked != 3 || res.Checks.Agreed != 2 || len(res.Checks.Refused) != 1 ||
		res.Checks.Refused[0].Node != "n2" {
		r.Errorf("a priority that n2 does not take: %+v", res)
	}
	res = r.submit(controller.Submission{Kind: "config", Document: proc.Document(r.next(), 7), DryRun: true})
	if res.State != "acceptable" || res.Checks.Agreed != 3 {
		r.Errorf("one that all take: %+v", res)
	}
}

// offline: a node that stopped in good order is told of as offline and catches up later.
func offline(r *rig) {
	r.stopNode("n2")
	r.awaitOnline("n2", false)
	v := r.apply()
	r.awaitVersion(v, "n1", r.first[2])
	r.apply()
	v = r.apply()
	r.awaitVersion(v, "n1", r.first[2])
	r.startNode("n2")
	r.awaitVersion(v, r.first...)
}

// lastWill: a node whose connection breaks is offline at once, works on, and comes back.
func lastWill(r *rig) {
	m := r.nodes["n1"]
	m.road.close()
	r.awaitOnline("n1", false)
	v := r.apply()
	r.awaitVersion(v, "n2", r.first[2])
	if r.onDisk("n1", v) {
		r.Error("the broken road carries")
	}
	m.road.heal()
	r.awaitOnline("n1", true)
	r.awaitVersion(v, r.first...)
}

// trials: confirmed, it stays; left alone, it goes back.
func trials(r *rig) {
	try := func(within time.Duration) string {
		v := r.next()
		res := r.submit(controller.Submission{Kind: "config", Document: proc.Document(v, r.minor), Mode: wire.ModeTry,
			ConfirmWithin: within})
		if res.State != "accepted" {
			r.Fatalf("%+v", res)
		}
		r.until("every node tries "+v, func() string {
			for _, name := range r.first {
				n, err := r.node(name)
				if err != nil {
					return err.Error()
				}
				if last := n.Documents[wire.KindConfig].Last; last == nil || last.Version != v ||
					last.State != wire.StateTrying {
					return fmt.Sprintf("%s: %+v", name, last)
				}
			}
			return ""
		})
		return v
	}
	kept := try(time.Minute)
	res, err := r.app.Unit().Confirm(controller.As(r.Context(), "test"), wire.KindConfig)
	if err != nil || res.State != "accepted" {
		r.Fatalf("%+v %v", res, err)
	}
	r.awaitVersion(kept, r.first...)
	try(2 * time.Second)
	r.until("the trial is over", func() string {
		st, err := r.app.Unit().SourceStatus(r.Context(), wire.KindConfig)
		if err != nil {
			return err.Error()
		}
		if st.Trial != nil || st.Version != kept {
			return fmt.Sprintf("%+v", st)
		}
		return ""
	})
	r.awaitVersion(kept, r.first...)
}

// inboxOff: without --inbox nothing that is published there changes anything, or is answered.
func inboxOff(r *rig) {
	cloud := r.newProbe("cloud/c1", topic.ForOutbox(unit, "config"), topic.ForOutbox(unit, "workloads"))
	before := r.entries("accepted", "refused")
	v := r.next()
	workload := `[{"@class":"Instance","configurationId":"a","slot":"web@n1",
		"resources":{"iss_hook_start":{"@class":"Resource","uuid":"s","urls":["http://127.0.0.1/x"],"size":0,
		"verification":{"checksum":"EMPTY:","checkPeriod":"0d0h0m"}}}}]`
	for what, document := range map[string]string{"config": string(proc.Document(v, r.minor)), "workloads": workload} {
		s := wire.Submission{V: wire.Version, ID: "s-off", From: "cloud", Document: jsontext.Value(document)}
		for _, payload := range [][]byte{wire.Encode(&s), []byte("garbage")} {
			if err := cloud.Publish(r.Context(), topic.ForInbox(unit, what), payload, false); err != nil {
				r.Fatal(err)
			}
		}
	}
	r.awaitVersion(r.apply(), r.first...) // above v: had v been taken, it would be in the history now
	for _, what := range []string{"config", "workloads"} {
		if all := cloud.heard(topic.ForOutbox(unit, what)); len(all) > 0 {
			r.Errorf("answered: %q", all)
		}
	}
	if err := cloud.life.stop(); err != nil {
		r.Error(err)
	}
	r.restartController() // the end of the controller waits for what is under way
	after := r.entries("accepted", "refused")
	if len(after) != len(before)+1 || after[len(after)-1].Type != "accepted" {
		r.Errorf("the journal has %+v after %+v", after, before)
	}
	for _, e := range r.entries("trouble") {
		if bytes.Contains(e.Data, []byte("inbox")) {
			r.Errorf("the journal has %+v", e)
		}
	}
}

// inbox: the cloud side submits over the broker and is answered there, once for each ID.
func inbox(r *rig) {
	r.cloud = cloud.New(r)
	r.restartController()
	cloud := r.newProbe("cloud/c1", topic.ForOutbox(unit, "config"), topic.ForOutbox(unit, "status"))
	defer func() {
		if err := cloud.life.stop(); err != nil {
			r.Error(err)
		}
	}()
	v := r.next()
	sign := func(id string, document []byte) []byte {
		s := wire.Submission{V: wire.Version, ID: id, From: "cloud", Document: jsontext.Value(document)}
		return r.cloud.Sign(unit, "config", &s, time.Now())
	}
	submission := sign("s-"+v, proc.Document(v, r.minor))
	send := func(payload []byte) {
		r.Helper()
		if err := cloud.Publish(r.Context(), topic.ForInbox(unit, "config"), payload, false); err != nil {
			r.Fatal(err)
		}
	}
	answered := func(id, state string) {
		r.Helper()
		r.until("the answer to "+id, func() string { // answers to different IDs come in any order
			all := cloud.heard(topic.ForOutbox(unit, "config"))
			for _, payload := range all {
				a, err := wire.Decode[wire.Answer](payload)
				if err != nil {
					return err.Error()
				}
				if a.ID == id && a.State == state {
					return ""
				}
			}
			return fmt.Sprintf("heard %q", all)
		})
	}
	send(submission)
	answered("s-"+v, "accepted")
	r.awaitVersion(v, r.first...)
	send(submission) // delivered twice, as QoS 1 may
	send(sign("s-bad", []byte(`{"formatVersion":"6"}`)))
	answered("s-bad", "refused")
	send([]byte(`{"v":1,"id":"s-bare","from":"cloud","document":{"formatVersion":"6"}}`))
	answered("s-bare", "refused")
	history, err := r.app.Unit().History(r.Context(), wire.KindConfig)
	if err != nil {
		r.Fatal(err)
	}
	times := 0
	for _, h := range history.Versions {
		if h.Version == v {
			times++
		}
	}
	if times != 1 {
		r.Errorf("%s is %d times in the history", v, times)
	}
	r.until("the unit's status on the outbox", func() string {
		for _, status := range cloud.heard(topic.ForOutbox(unit, "status")) {
			if bytes.Contains(status, []byte(v)) {
				return ""
			}
		}
		return "not there"
	})
}

// restart: the broker goes away and comes back with what it had.
func restart(r *rig) {
	r.restartBroker(r.b.stop)
	for _, name := range r.first {
		r.awaitOnline(name, true)
	}
	r.awaitVersion(r.apply(), r.first...)
}

// emptyBroker: it comes back with nothing; the controller fills it, also for a node that nobody
// has ever seen.
func emptyBroker(r *rig) {
	r.restartBroker(r.b.stop, r.b.wipe)
	r.refilled(r.first...)
	r.startNode("late")
	r.awaitOnline("late", true)
	r.awaitVersion(r.apply(), append(slices.Clone(r.first), "late")...)
}

// refilled waits until the broker retains the newest document of each node, as a client that
// subscribes from then on sees it.
func (r *rig) refilled(names ...string) {
	r.Helper()
	if r.is.embedded {
		return // nobody else can look; that nodes get it is seen elsewhere
	}
	filters := []string{topic.ForController(unit)}
	for _, name := range names {
		filters = append(filters, topic.ForNode(unit, name).Desired(wire.KindConfig))
	}
	for _, name := range names {
		// A subscription may just miss a document: one broker is not done retaining it when it has
		// passed it on. So look again now and then.
		var p *probe
		var since time.Time
		leave := func() {
			if p == nil {
				return
			}
			if err := p.life.stop(); err != nil {
				r.Error(err)
			}
		}
		r.until("the broker has the document of "+name, func() string {
			if p == nil || time.Since(since) > time.Second {
				leave()
				p, since = r.newProbe("operator/o1", filters...), time.Now()
			}
			n, err := r.node(name)
			if err != nil {
				return err.Error()
			}
			want := n.Documents[wire.KindConfig].Desired
			all := p.heard(topic.ForNode(unit, name).Desired(wire.KindConfig)) // in any order
			for _, payload := range all {
				d, err := wire.Decode[wire.Desired](payload)
				if err != nil {
					return err.Error()
				}
				if want != nil && d.Stamp() == want.Stamp() {
					return ""
				}
			}
			return fmt.Sprintf("heard %q", all)
		})
		leave()
	}
}

// staleBroker: it comes back with what it had long ago. No node goes back to that, and the
// controller puts it right.
func staleBroker(r *rig) {
	if !r.is.keeps {
		r.Skip("this broker keeps nothing")
	}
	r.restartBroker(r.b.stop) // saves
	all := append(slices.Clone(r.first), "late")
	for _, name := range all {
		r.awaitOnline(name, true)
	}
	v := r.apply()
	r.awaitVersion(v, all...)
	r.restartBroker(r.b.kill) // what came since may be lost
	for _, name := range all {
		r.awaitOnline(name, true)
	}
	r.refilled(all...)
	r.awaitVersion(v, all...)
	r.awaitVersion(r.apply(), all...)
}

// lostReport: a report that the controller never heard, and of which the broker has no trace, is
// asked for.
func lostReport(r *rig) {
	if !r.is.open {
		r.Skip("this broker lets nobody take a node's report away")
	}
	m := r.nodes["n1"]
	m.road.close()
	r.awaitOnline("n1", false)
	v := r.apply()
	r.refilled("n1")
	r.stopController()
	m.road.heal()
	reported := topic.ForNode(unit, "n1").Reported(wire.KindConfig)
	thief := r.newProbe("thief", reported)
	defer func() {
		if err := thief.life.stop(); err != nil {
			r.Error(err)
		}
	}()
	r.until("n1 has reported "+v, func() string {
		for _, got := range thief.heard(reported) {
			if bytes.Contains(got, []byte(`"installed"`)) && bytes.Contains(got, []byte(v)) {
				return ""
			}
		}
		return "not yet"
	})
	if err := thief.Publish(r.Context(), reported, nil, true); err != nil {
		r.Fatal(err)
	}
	r.until("the report is gone", func() string {
		p := r.newProbe("looker", reported)
		left := p.heard(reported)
		if err := p.life.stop(); err != nil {
			r.Error(err)
		}
		return string(bytes.Join(left, nil))
	})
	r.startController()
	r.awaitVersion(v, append(slices.Clone(r.first), "late")...)
}

// controllerRestart: what happened while it was away is known afterwards.
func controllerRestart(r *rig) {
	r.stopController()
	r.stopNode("n2")
	r.startController()
	r.awaitOnline("n1", true)
	r.awaitOnline("n2", false)
	v := r.apply()
	r.startNode("n2")
	r.awaitVersion(v, append(slices.Clone(r.first), "late")...)
	if v, err := r.app.Unit().Verify(r.Context()); err != nil || !v.OK {
		r.Errorf("the journal: %s %v", v.Report, err)
	}
}

// eventsOnce: after all these sessions, every event of every node is in the journal once.
func eventsOnce(r *rig) {
	for _, name := range append(slices.Clone(r.first), "late") {
		var seqs []uint64
		r.until("the events of "+name, func() string {
			entries, err := r.app.Unit().Entries(r.Context(),
				controller.EntryFilter{Node: name, Types: []string{"event"}, Limit: 10000})
			if err != nil {
				return err.Error()
			}
			seqs = nil
			for _, e := range entries {
				var ev struct {
					Seq uint64 `json:"seq"`
				}
				if err := json.Unmarshal(e.Data, &ev); err != nil {
					return fmt.Sprintf("%s: %v", e.Data, err)
				}
				seqs = append(seqs, ev.Seq)
			}
			if len(seqs) == 0 {
				return "there are none"
			}
			return ""
		})
		for i, seq := range seqs {
			if seq != uint64(i+1) {
				r.Fatalf("the events of %s in the journal: %v", name, seqs)
			}
		}
	}
}

// dots: a broker that cannot carry a node's name says so at once, in the words that the node logs.
// Elsewhere such a node is among those of every test above.
func dots(r *rig) {
	if !r.is.noDots {
		return
	}
	p := &probe{all: map[string][][]byte{}, downs: make(chan error, 1)}
	l, err := link.Dial(link.Config{Broker: "tcp://" + r.b.address(), ClientID: "node/ecu-3.b_x",
		SubscribeQoS: link.AtMostOnce, Backoff: backoff}, p)
	if err != nil {
		r.Fatal(err)
	}
	p.life = live(l.Run)
	select {
	case err := <-p.downs:
		if !strings.Contains(err.Error(), "refuses the client ID") {
			r.Errorf("%v", err)
		}
	case <-time.After(proc.Patience):
		r.Error("the broker takes a client ID with a dot: it is time to give it the node names that others get")
	}
	if err := p.life.stop(); err != nil {
		r.Error(err)
	}
}
