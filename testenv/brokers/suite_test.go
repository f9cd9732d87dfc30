package brokers

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	controller "tandem.internal/controller/app"
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
