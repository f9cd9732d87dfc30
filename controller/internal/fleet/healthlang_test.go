package fleet

import (
	"fmt"
	"strings"
	"time"

	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/kinds/health"
	"tandem.internal/shared/wire"
)

// report makes a report of a kind from the words of a script.
func (s *script) report(kind wire.Kind, flags []string, options map[string]string) Heard {
	r := &wire.Reported{V: wire.Version, Node: flags[0], Kind: kind, Boot: flags[1], Seq: number(s.t, flags[2])}
	if doc := strings.Split(options["running"], ":"); len(doc) >= 2 {
		r.Running = s.ref(flags[0], kind, doc[0], doc[1])
		if len(doc) > 2 {
			r.Running.Hash = wire.Hash([]byte(doc[2]))
		}
	}
	if doc := strings.Split(options["last"], ":"); len(doc) >= 3 {
		d := s.ref(flags[0], kind, doc[0], doc[1])
		r.Last = &wire.Attempt{Epoch: d.Epoch, Rev: d.Rev, Version: d.Version, Hash: d.Hash, State: wire.State(doc[2]),
			Attempt: 1, At: origin}
		if len(doc) == 4 {
			r.Last.Error = wire.New(wire.Code(doc[3]), "", "for a reason")
		}
	}
	if kind == wire.KindHealth && (len(flags) < 4 || flags[3] != "silent") {
		r.Detail = wire.Encode(told(s.world, flags[3:], options))
	}
	return s.heard(flags[0], r)
}

// told is a node's health.
func told(w *world, flags []string, options map[string]string) *wire.Health {
	h := &wire.Health{Indicator: wire.IndicatorNoContact, Text: "x",
		Boot: wire.HealthBoot{Reason: wire.BootStop, At: origin}, Settings: wire.HealthSettings{FormatVersion: "1"}}
	if len(flags) > 0 && flags[0] == "contact" {
		h.Indicator, h.Contact.In = wire.IndicatorContact, true
	}
	if v := options["trial"]; v != "" {
		h.Trial = &wire.HealthTrial{Slot: "b", Version: v, Since: origin}
		if left := options["left"]; left != "" {
			d, err := time.ParseDuration(left)
			if err != nil {
				w.t.Fatal(err)
			}
			h.Trial.Remaining = wire.SpanOf(d)
		}
		if code := options["waits"]; code != "" {
			h.Trial.WaitsFor = []wire.HealthWait{{Code: wire.WaitCode(code), Name: options["check"], Text: "x"}}
			if code == string(wire.WaitApproval) {
				h.Trial.Approval = wire.ApprovalNeeded
			}
		}
	}
	if c := options["check"]; c != "" {
		h.Indicator, h.Checks = wire.IndicatorCheck,
			[]wire.HealthCheck{{Name: "fine", OK: true, Since: origin}, {Name: c, Since: origin}}
	}
	if v := options["staged"]; v != "" {
		h.Slots = []wire.HealthSlot{{ID: "b", State: wire.SlotUpdating, Version: v, Hash: wire.Hash([]byte(v))}}
	}
	if v := options["os"]; v != "" {
		h.Components = []wire.HealthComponent{{Name: "os", State: wire.SlotUpdating, Next: v,
			Hash: wire.Hash([]byte(v))}}
	}
	for _, part := range []string{"", "os"} {
		if v := options["failed"+part]; v != "" {
			h.Quarantine = append(h.Quarantine, wire.HealthFailed{Component: part, Version: v,
				Hash: wire.Hash([]byte(v)), Text: "no contact", At: origin})
		}
	}
	if r := options["restart"]; r != "" {
		h.Restart = &wire.HealthRestart{Reason: wire.BootReason(r), At: origin}
	}
	return h
}

// healthEvent reads the events of the stories about settings, orders, maintenance and alerts.
func (s *script) healthEvent(what string, flags []string, options map[string]string) Event {
	s.tickets++
	switch what {
	case "set", "unset":
		var ev health.Change
		switch rule, name, _ := strings.Cut(flags[0], ":"); rule {
		case "all":
			ev.Scope.All = true
		case "type":
			ev.Scope.Types = strings.Split(name, ",")
		case "node":
			ev.Scope.Nodes = strings.Split(name, ",")
		}
		if what == "set" {
			ev.Settings = &wire.HealthSettings{FormatVersion: "1"}
			if reset := options["reset"]; reset != "" {
				d, err := time.ParseDuration(reset)
				if err != nil {
					s.t.Fatal(err)
				}
				ev.Settings.Reset = wire.SpanOf(d)
			}
		}
		return Change{Ticket: s.tickets, Source: wire.KindHealth, Data: ev, Who: "ann"}
	case "proves":
		serials := s.live.enrolled.Lookup("node/" + flags[0]).Serials()
		return Enrolment{Event: enrol.Prove{Subject: "node/" + flags[0], Serial: serials[len(serials)-1]}}
	case "health":
		return s.report(wire.KindHealth, flags, options)
	case "order":
		params := map[string][]byte{
			"reboot": wire.Encode(&wire.RebootParams{Reason: flags[2]}),
			"try": wire.Encode(&wire.TryParams{Version: flags[2], Component: options["component"],
				Force: options["force"] != ""}),
			"approve": wire.Encode(&wire.ApproveParams{Version: flags[2]}),
			"restart": wire.Encode(&wire.RestartParams{Service: flags[2]}),
		}[flags[1]]
		return Order{Ticket: s.tickets, Node: flags[0], Method: wire.Method(flags[1]), Params: params, Who: "ann"}
	case "done":
		r := &wire.Reply{V: wire.Version, Node: flags[0], ID: s.order}
		if len(flags) > 1 {
			r.Error = wire.New(wire.Code(flags[1]), "", "not now")
		}
		return s.heard(flags[0], r)
	case "maintain":
		if flags[0] == "end" {
			return Maintain{Ticket: s.tickets, Who: "ann"}
		}
		d, err := time.ParseDuration(flags[0])
		if err != nil {
			s.t.Fatal(err)
		}
		return Maintain{Ticket: s.tickets, For: d, Reason: "a switch", Who: "ann"}
	case "alert":
		detail := fmt.Sprintf(
			`{"tag":"systemQuotaAlert","parameter":%q,"value":%s,"state":%q,"since":"2026-01-01T00:00:00Z",`+
				`"minThreshold":0.5,"maxThreshold":0.9}`, flags[3], flags[5], flags[4])
		return s.heard(flags[0],
			&wire.Event{V: wire.Version, Node: flags[0], Boot: flags[1], Seq: number(s.t, flags[2]), At: origin,
				Type: "alert", Detail: []byte(detail)})
	}
	s.t.Fatalf("no such event: %s", what)
	return nil
}

// seen is what operators see of the unit's health, one line each.
func (s *script) seen() []string {
	var lines []string
	for _, v := range s.live.Views(anyName) {
		if v.Health == nil {
			continue
		}
		line := fmt.Sprintf("%s: %s, %s", v.Node, v.Health.State, v.Health.Text)
		for _, a := range s.live.Lookup(v.Node).Alerts {
			line += fmt.Sprintf(", %s %v", a.Parameter, a.Value)
		}
		lines = append(lines, line)
	}
	if m := s.live.MaintenanceView(); m != nil {
		lines = append(lines, fmt.Sprintf("maintenance until %v: %s, %s", m.Until.Sub(origin), m.Reason, m.Who))
	}
	return append(lines, s.live.output(wire.KindHealth).Trouble(s.live)...)
}

// restart goes on from the journal, as another run of the controller does.
func (s *script) restart() {
	live := s.replayed(0, New(s.opt))
	s.load(live)
	s.live = live
}

func anyName(string) bool { return true }
