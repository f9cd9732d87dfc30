package fleet

import (
	"fmt"
	"strings"
	"time"

	"tandem.internal/controller/internal/kinds/workloads"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// set makes a submission of workloads from "SLOT:CONFIGURATION[:job]" and "filler".
func (w *world) set(id string, entries ...string) Submit {
	w.tickets++
	var all []string
	for _, e := range entries {
		if e == "filler" {
			all = append(all, `{"@class":"InstanceFiller","name":"f",`+
				`"instance":{"properties":{"p":"1"},"resources":{}}}`)
			continue
		}
		parts := strings.Split(e, ":")
		class := "Instance"
		if len(parts) == 3 {
			class = "Job"
		}
		id := ""
		if parts[1] != "" {
			id = fmt.Sprintf(`"configurationId":%q,`, parts[1])
		}
		limits := ""
		if class == "Job" {
			limits = `,"timeLimits":{"iss_hook_start":{"minRestartPeriodMs":1000}}`
		}
		all = append(all, fmt.Sprintf(`{"@class":%q,%s"slot":%q,"resources":{"iss_hook_start":`+
			`{"@class":"Resource","uuid":"u-%s","urls":["http://127.0.0.1/x"],"size":0,`+
			`"verification":{"checksum":"EMPTY:","checkPeriod":"0d0h0m"}}}%s}`,
			class, id, parts[0], parts[1], limits))
	}
	return w.given(id, []byte("["+strings.Join(all, ",")+"]"))
}

func (w *world) given(id string, doc []byte) Submit {
	return submitted(w.tickets, view.Submission{Kind: wire.KindWorkloads, Document: doc, Who: "ann", Via: "http",
		ID: id})
}

// work makes a node's report of its slots from "SLOT:ID:STATE[:WORD]…": a word is wanted=ID,
// doing=WHAT, exit=N, oom, unfetched, done=BYTES or the code of an error.
func work(w *world, slots []string, more bool) *wire.Workloads {
	d := &wire.Workloads{Slots: []wire.WorkloadSlot{}}
	if more {
		d.More = 3
	}
	for _, text := range slots {
		parts := strings.Split(text, ":")
		s := wire.WorkloadSlot{Slot: parts[0], ID: parts[1], State: wire.WorkloadState(parts[2]), Since: origin}
		for _, word := range parts[3:] {
			switch name, value, _ := strings.Cut(word, "~"); name {
			case "wanted":
				s.Wanted = value
			case "doing":
				s.Doing = value
			case "exit":
				s.Exit = &wire.WorkloadExit{Code: int(number(w.t, value)), At: origin}
			case "oom":
				s.Exit = &wire.WorkloadExit{Code: -1, OOM: true, At: origin}
			case "unfetched":
				s.Resources = []wire.WorkloadResource{{Name: "data", State: "waiting",
					Error: wire.New(wire.CodeNotFound, "", "404")}}
			case "done":
				s.Resources = []wire.WorkloadResource{{Name: "data", State: "fetching", Done: int64(number(w.t, value)),
					Size: 1000}}
			default:
				s.Error = wire.New(wire.Code(name), "", "for a reason")
			}
		}
		d.Slots = append(d.Slots, s)
	}
	return d
}

// workloadEvent reads the events of the stories about workloads.
func (s *script) workloadEvent(what string, flags []string, options map[string]string) Event {
	switch what {
	case "workloads":
		var entries []string
		var dry, offline, force bool
		for _, f := range flags[1:] {
			switch f {
			case "dry":
				dry = true
			case "offline":
				offline = true
			case "force":
				force = true
			default:
				entries = append(entries, f)
			}
		}
		sub := s.set(flags[0], entries...)
		sub.Sub.DryRun, sub.Sub.Offline, sub.Sub.Force = dry, offline, force
		sub.Version, sub.Sub.Version = options["version"], options["version"]
		if try := options["try"]; try != "" {
			d, err := time.ParseDuration(try)
			if err != nil {
				s.t.Fatal(err)
			}
			sub.Sub.Mode, sub.Sub.ConfirmWithin = wire.ModeTry, d
		}
		return sub
	case "old-agent":
		return s.heard(flags[0], &wire.Reply{V: wire.Version, Node: flags[0], ID: s.newest + flags[0],
			Error: wire.New(wire.CodeNotSupported, "/params/kind",
				"this agent does not know documents of kind \"workloads\"")})
	case "slots":
		h := s.report(wire.KindWorkloads, flags, options).Reported
		more := false
		var slots []string
		for _, f := range flags[3:] {
			if f == "more" {
				more = true
			} else {
				slots = append(slots, f)
			}
		}
		h.Detail = wire.Encode(work(s.world, slots, more))
		return s.heard(flags[0], h)
	case "logs":
		s.tickets++
		who := options["who"]
		if who == "" {
			who = "ann"
		}
		return Query{Ticket: s.tickets, Node: flags[0], Method: wire.MethodLogs,
			Params: wire.Encode(&wire.LogsParams{Service: flags[1]}), Who: who,
			What: "read the logs of " + flags[1] + "@" + flags[0]}
	case "says":
		r := &wire.Reply{V: wire.Version, Node: flags[0], ID: s.query}
		if len(flags) > 1 {
			r.Error = wire.New(wire.Code(flags[1]), "", "not here")
		} else {
			r.Result = wire.Encode(&wire.LogsResult{Data: []byte("hello\n"), Cursor: "1:6"})
		}
		return s.heard(flags[0], r)
	}
	s.t.Fatalf("no such event: %s", what)
	return nil
}

// listed is what operators see of the unit's workloads, one line each.
func (s *script) listed() []string {
	st := s.live.Status(wire.KindWorkloads)
	lines := []string{fmt.Sprintf("version %q rev %d, nodes %+v", st.Version, st.Rev, st.Progress)}
	for _, slot := range workloads.Slots(s.live, "") {
		line := fmt.Sprintf("%s %s", slot.Slot, slot.State)
		if slot.Report != nil {
			line += " " + slot.Report.ID
		}
		if slot.Desired != "" {
			line += ", wanted " + slot.Desired
		}
		if slot.Settled {
			line += ", as it should be"
		}
		if slot.Why != "" {
			line += ": " + slot.Why
		}
		lines = append(lines, line)
	}
	p := st.Slots
	lines = append(lines,
		fmt.Sprintf("%d slots: %d running, %d completed, %d to come on online nodes, %d failed; unknown %v", p.Slots,
			p.Running, p.Completed, p.OnlineMissing, p.Failed, st.Unknown))
	if a := st.Attempted; a != nil {
		lines = append(lines, fmt.Sprintf("refused: %s by %s: %v", a.Version, a.Who, a.Error))
	}
	return append(lines, s.live.output(wire.KindWorkloads).Trouble(s.live)...)
}
