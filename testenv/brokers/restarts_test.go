package brokers

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	controller "tandem.internal/controller/app"
	"tandem.internal/shared/link"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/proc"
)

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
