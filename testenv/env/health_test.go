package env_test

import (
	"context"
	"sync"
	"testing"
	"time"

	controller "tandem.internal/controller/app"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/env"
)

// probe is an agent that does nothing but take settings of health, tell its health, and answer orders: what
// the controller makes of health does not depend on what an agent does about it.
type probe struct {
	e     *env.Env
	link  *env.Client
	own   topic.Node
	alone sync.Mutex // one message at a time

	boot    string
	session int
	seq     map[wire.Kind]uint64
	events  uint64
	doc     *wire.Desired // the newest settings
	away    time.Time     // the newest beacon's maintenance
	refuse  *wire.Error   // the answer to orders
	mute    bool          // orders are not answered
	ordered []wire.Method
}

const probeName, probeType = "p1", "probeType"

// asked asks the controller with an operator's patience.
func asked[T any](e *env.Env, f func(context.Context, controller.Unit) (T, error)) (T, error) {
	u := e.Controller.Unit()
	if u == nil {
		var none T
		return none, env.ErrDown
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	return f(ctx, u)
}

func setProbes(e *env.Env, h *wire.HealthSettings) error {
	_, err := asked(e, func(ctx context.Context, u controller.Unit) (any, error) {
		return u.SetHealth(controller.As(ctx, "ann"), controller.SetHealth{
			Scope: controller.Scope{Types: []string{probeType}}, Settings: h,
		})
	})
	return err
}

func rebootProbe(e *env.Env) error {
	_, err := asked(e, func(ctx context.Context, u controller.Unit) (any, error) {
		return u.Reboot(controller.As(ctx, "ann"), controller.RebootIn{
			NodeIn: controller.NodeIn{Node: probeName}, Reboot: controller.Reboot{Reason: "a new kernel"},
		})
	})
	return err
}

// probeHealth is the probe's health as the controller sees it.
func probeHealth(e *env.Env) (controller.NodeHealth, bool) {
	h, err := asked(e, func(ctx context.Context, u controller.Unit) (controller.NodeHealth, error) {
		return u.NodeHealth(ctx, controller.NodeIn{Node: probeName})
	})
	return h, err == nil
}

func newProbe(e *env.Env) *probe {
	own := topic.ForNode(env.Unit, probeName)
	p := &probe{e: e, own: own, boot: "b1", seq: map[wire.Kind]uint64{}}
	p.link = e.Client("node/"+probeName, own.Desired(wire.KindHealth), own.Request(), topic.ForController(env.Unit))
	p.say()
	return p
}

// say is what a node says first of all, and when it is asked.
func (p *probe) say() {
	p.session = p.link.Sessions()
	p.live(true)
	info := wire.NodeInfo{Type: probeType, OS: "linux", Arch: "arm64", CPUs: 1, RAM: 1 << 30, AgentVersion: "1"}
	p.report(wire.KindInfo, nil, wire.Encode(&info))
	p.tell(nil)
}

func (p *probe) live(up bool) {
	p.send(p.own.Live(),
		wire.Encode(&wire.Live{V: wire.Version, Node: probeName, Boot: p.boot, Session: uint64(p.session), Up: up,
			Events: p.events}))
}

func (p *probe) send(name string, payload []byte) { p.link.Insist(name, payload) }

func (p *probe) report(kind wire.Kind, doc *wire.Desired, detail []byte) {
	p.seq[kind]++
	r := wire.Reported{V: wire.Version, Node: probeName, Kind: kind, Boot: p.boot, Seq: p.seq[kind], Detail: detail}
	if doc != nil {
		r.Running = &wire.DocRef{Epoch: doc.Epoch, Rev: doc.Rev, Version: doc.Version, Hash: doc.Hash}
		r.Last = &wire.Attempt{Epoch: doc.Epoch, Rev: doc.Rev, Version: doc.Version, Hash: doc.Hash,
			State: wire.StateInstalled, Attempt: 1, At: time.Now().UTC()}
	}
	p.send(p.own.Reported(kind), wire.Encode(&r))
}

// tell reports health, with a trial if there is one.
func (p *probe) tell(trial *wire.HealthTrial) {
	h := wire.Health{Indicator: wire.IndicatorContact, Text: "x", Contact: wire.HealthContact{In: true}, Trial: trial,
		Boot:     wire.HealthBoot{Reason: wire.BootStop, At: time.Now().UTC()},
		Settings: wire.HealthSettings{FormatVersion: wire.HealthFormat}.Complete()}
	p.report(wire.KindHealth, p.doc, wire.Encode(&h))
}

func (p *probe) event(kind, detail string) {
	p.events++
	p.send(p.own.Event(),
		wire.Encode(&wire.Event{V: wire.Version, Node: probeName, Boot: p.boot, Seq: p.events, At: time.Now().UTC(),
			Type: kind, Detail: []byte(detail)}))
}

// hear acts on what came since.
func (p *probe) hear() {
	p.e.Helper()
	p.alone.Lock()
	defer p.alone.Unlock()
	if p.link.Sessions() != p.session {
		p.say()
	}
	for _, m := range p.link.Heard() {
		if len(m.Payload) == 0 {
			continue
		}
		switch m.Topic {
		case topic.ForController(env.Unit):
			if b, err := wire.Decode[wire.Beacon](m.Payload); err != nil {
				p.e.Errorf("a beacon: %v", err)
			} else {
				p.away = b.Maintenance
			}
		case p.own.Desired(wire.KindHealth):
			d, err := wire.Decode[wire.Desired](m.Payload)
			if err != nil {
				p.e.Errorf("a document: %v", err)
			} else if p.doc == nil || d.Stamp().Compare(p.doc.Stamp()) > 0 {
				p.doc = d
				p.tell(nil)
			}
		case p.own.Request():
			p.request(m.Payload)
		}
	}
}

func (p *probe) request(payload []byte) {
	r, err := wire.Decode[wire.Request](payload)
	if err != nil {
		p.e.Errorf("a request: %v", err)
		return
	}
	switch r.Method {
	case wire.MethodReport:
		p.say()
	case wire.MethodReboot:
		p.ordered = append(p.ordered, r.Method)
		if !p.mute {
			p.send(p.own.Reply(), wire.Encode(&wire.Reply{V: wire.Version, Node: probeName, ID: r.ID, Error: p.refuse}))
		}
	}
}

// until hears and waits.
func (p *probe) until(what string, cond func() bool) {
	p.e.Helper()
	p.e.Until(5*time.Minute, what, func() bool {
		p.hear()
		return cond()
	})
}

func (p *probe) has(reset time.Duration) func() bool {
	return func() bool {
		if p.doc == nil {
			return false
		}
		h, err := wire.Decode[wire.HealthSettings](p.doc.Body)
		v, ok := p.e.View(probeName)
		return err == nil && h.Reset.Std() == reset && ok && v.InSync
	}
}

func (p *probe) set(reset time.Duration) {
	p.e.Helper()
	if err := setProbes(p.e, &wire.HealthSettings{FormatVersion: wire.HealthFormat,
		Reset: wire.SpanOf(reset)}); err != nil {
		p.e.Fatal(err)
	}
}

// reboot orders a reboot and returns what came of it.
func (p *probe) reboot() error {
	done := make(chan error, 1)
	go func() { done <- rebootProbe(p.e) }()
	for {
		select {
		case err := <-done:
			return err
		case <-time.After(time.Second):
			p.hear()
		}
	}
}

// TestHealthOfANode: settings reach a node, also when a broker has lost them and when the controller has started
// anew; what the node tells is shown; orders are answered and journaled; a maintenance is in the beacon until it is
// over.
func TestHealthOfANode(t *testing.T) {
	both(t, func(t *testing.T, s env.Setup) {
		env.Run(t, s, func(e *env.Env) {
			p := newProbe(e)
			p.until("the controller knows the probe",
				func() bool { v, ok := e.View(probeName); return ok && v.Online && v.Type == probeType })
			p.set(24 * time.Hour)
			p.until("the settings are there", p.has(24*time.Hour))
			p.tell(&wire.HealthTrial{Slot: "b", Version: "1.5.0", Since: time.Now().UTC(),
				Remaining: wire.SpanOf(4 * time.Minute)})
			p.until("its health is shown",
				func() bool { h, ok := probeHealth(e); return ok && h.Health.Text == "trial 1.5.0 4m left" })
			p.event("alert", `{"tag":"systemQuotaAlert","parameter":"cpu","value":0.97,"state":"raise",`+
				`"since":"2026-01-01T00:00:00Z","minThreshold":0.5,"maxThreshold":0.9}`)
			p.until("the alert is shown",
				func() bool { h, _ := probeHealth(e); return len(h.Raised) == 1 && h.Raised[0].Value == 0.97 })
			_, err := asked(e, func(ctx context.Context, u controller.Unit) (any, error) {
				return u.Maintain(controller.As(ctx, "ann"), controller.Maintain{
					For: duration.Format(2 * time.Hour), Reason: "a switch",
				})
			})
			if err != nil {
				t.Fatal(err)
			}
			p.until("the maintenance is announced", func() bool { return p.away.After(time.Now().Add(time.Hour)) })

			if err := p.reboot(); err != nil {
				t.Errorf("an order: %v", err)
			}
			p.refuse = wire.New(wire.CodeNotAllowed, "", "not here")
			if err := wire.AsError(p.reboot()); err.Code != wire.CodeNotAllowed || err.Node != probeName {
				t.Errorf("a refusal: %v", err)
			}
			p.mute = true
			if err := wire.AsError(p.reboot()); err.Code != wire.CodeNoAnswer {
				t.Errorf("no answer: %v", err)
			}
			if n := len(e.Entries("request")); len(p.ordered) != 3 || n != 3 || len(e.Entries("reply")) != 3 {
				t.Errorf("%d orders came, %d are in the journal with %d answers", len(p.ordered),
					n, len(e.Entries("reply")))
			}

			e.Controller.Restart()
			p.until("the controller knows the probe again",
				func() bool { v, ok := e.View(probeName); return ok && v.Online })
			p.until("the settings are still there", p.has(24*time.Hour))
			if h, ok := probeHealth(e); !ok || len(h.Raised) != 1 {
				t.Errorf("after a restart: %+v", h)
			}
			p.until("the maintenance is still announced",
				func() bool { return p.away.After(time.Now().Add(time.Hour)) })
			p.event("alert", `{"tag":"systemQuotaAlert","parameter":"cpu","value":0.1,"state":"fall",`+
				`"since":"2026-01-01T00:00:00Z"}`)
			p.until("the alert has fallen", func() bool { h, ok := probeHealth(e); return ok && len(h.Raised) == 0 })
			if e.Broker != nil {
				e.Broker.Wipe()
			}
			p.set(48 * time.Hour)
			p.until("newer settings are there", p.has(48*time.Hour))
			if err := setProbes(e, nil); err != nil {
				t.Fatal(err)
			}
			p.until("its own settings count", p.has(0))
			e.Pass(2 * time.Hour)
			p.until("the maintenance is over", func() bool { return p.away.IsZero() })
			if v, ok := e.View("n1"); !ok || v.Documents[wire.KindHealth].Desired != nil {
				t.Errorf("n1 got what was not for it: %+v", v.Documents)
			}

			p.live(false)
			p.link.Close()
			e.Until(5*time.Minute, "the probe is known to be away",
				func() bool { v, ok := e.View(probeName); return ok && !v.Online })
			if err := wire.AsError(rebootProbe(e)); err.Code != wire.CodeWrongState {
				t.Errorf("an order to nobody: %v", err)
			}
			e.Check()
		})
	})
}
