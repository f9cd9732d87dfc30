package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tandem.internal/shared/wire"
)

// line takes one event of a script, and writes what follows from it.
func (s *script) line(line string) {
	words := strings.Fields(line)
	after, err := time.ParseDuration(words[0])
	if err != nil {
		s.t.Fatalf("%s: %v", line, err)
	}
	views := map[string]func() []string{"show": s.seen, "list": s.listed, "nodes": s.nodes, "trouble": s.live.Trouble}
	if seen := views[words[1]]; seen != nil {
		for _, line := range seen() {
			fmt.Fprintf(s.text, "    %s\n", line)
		}
		return
	}
	if words[1] == "restart" {
		s.restart()
		return
	}
	ev := s.event(words[1], words[2:])
	if ev == nil {
		return
	}
	records, effects := s.step(origin.Add(after), ev)
	for _, r := range records {
		fmt.Fprintf(s.text, "    %d %s", r.Seq, r.Type)
		for _, w := range []string{r.Node, r.Kind, r.Who} {
			if w != "" {
				fmt.Fprintf(s.text, " %s", w)
			}
		}
		fmt.Fprintf(s.text, " %s\n", shortHashes(r.Data))
	}
	for _, e := range effects {
		if _, greet := e.(Greet); greet {
			continue // whenever a node comes; TestWhoComesIsGreeted
		}
		fmt.Fprintf(s.text, "    => %s\n", s.effect(e))
	}
	if next, ok := s.live.NextDeadline(); ok {
		fmt.Fprintf(s.text, "    due at %v\n", next.Sub(origin))
	}
	s.check()
}

// script is a world that is told what happens in words.
type script struct {
	*world
	text   *strings.Builder
	newest string // ID of the newest check
	order  string // of the newest order, with the node's name
	query  string // of the newest question for logs, likewise
	events string // of the newest question for events
	show   string // of the newest question for a signature, with the node's name
}

// event reads an event:
//
//	opened [EPOCH] | tick | confirm | restore | retry | epoch E
//	live NODE BOOT SESSION up|down [KIND=SEQ]… [events=N]
//	info NODE BOOT SEQ TYPE [error=CODE]    (in error)
//	report NODE BOOT SEQ [running=E.R:VERSION[:HASHED]] [last=E.R:VERSION:STATE[:CODE]]
//	event NODE BOOT SEQ TYPE [lost=N]
//	sends|expired NODE    (agrees to, or refuses, the newest question for events)
//	submit ID VERSION [try=DURATION] [dry] [offline] [LABEL]…
//	agree NODE | refuse NODE CODE    (answers the newest check)
//	copy missing | same | older | altered | unreadable
//	bad NODE CODE
//	set|unset all|type:T|node:N [reset=DURATION]
//	health NODE BOOT SEQ [running=…] [last=…] [contact] [trial=VERSION] [left=DURATION] [waits=CODE] [check=NAME]
//	    [restart=REASON] [silent]
//	order NODE reboot|try|approve WORD
//	done NODE [CODE]    (answers the newest order)
//	maintain DURATION | end
//	alert NODE BOOT SEQ PARAMETER raise|continue|fall VALUE
//	workloads ID [version=V] [dry] [offline] [SLOT:CONFIGURATION[:job]]… [filler]
//	old-agent NODE    (answers the newest check: it does not know the kind)
//	slots NODE BOOT SEQ [running=…] [last=…] [more] [SLOT:ID:STATE[:WORD[:WORD]]]…
//	logs NODE SERVICE [who=WHO]
//	says NODE [CODE]    (answers the newest question for logs)
//	enrol|join NODE TOKEN | revoke NODE
//	forget NODE… [force]
//	retained EVENT…    (as the broker had kept it)
//	live|info|report|event … heard=E@DURATION    (proved, with the beacon of an epoch and time)
//	shows NODE E.R:VERSION [by=KEY] [for=NODE]    (answers the newest question for a signature, by a key or key 1)
//	hides NODE CODE    (refuses that)
//	policy NAME enable|disable|remove|VERSION [waves]    (for every node; by the plan canaryThenAll)
//	acts NODE BOOT SEQ [running=E.R:VERSION] [POLICY:REV:STATE[:CODE]]…
//	quiet NODE BOOT SEQ for=DURATION since=REV    (in good health, with this document of policies)
//	abort ROLLOUT leave|take-back
//	restart (of the controller, on what its journal holds)
//	show    (what operators see of health)
//	list    (and of workloads)
//	nodes    (in a list)
//	trouble    (and in words)
func (s *script) event(what string, args []string) Event {
	if i := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "heard=") }); i >= 0 {
		return s.proved(s.event(what, slices.Delete(slices.Clone(args), i, i+1)).(Heard), args[i])
	}
	options := map[string]string{}
	var flags []string
	for _, a := range args {
		if k, v, ok := strings.Cut(a, "="); ok {
			options[k] = v
		} else {
			flags = append(flags, a)
		}
	}
	has := func(flag string) bool {
		for i, f := range flags {
			if f == flag {
				flags = append(flags[:i:i], flags[i+1:]...)
				return true
			}
		}
		return false
	}
	switch what {
	case "opened":
		if len(flags) > 0 {
			s.opt.Epoch = number(s.t, flags[0])
			s.live.opt.Epoch = s.opt.Epoch // another run, on a journal whose epoch has risen
		}
		return Opened{Version: "1.0.0"}
	case "tick":
		return Tick{}
	case "confirm":
		s.tickets++
		return Confirm{Ticket: s.tickets, Source: wire.KindConfig, Who: "ann"}
	case "retry":
		s.tickets++
		return Retry{Ticket: s.tickets, Source: wire.KindConfig, Who: "ann"}
	case "restore":
		s.tickets++
		return Restore{Ticket: s.tickets, Who: "ann"}
	case "epoch":
		s.opt.Epoch = number(s.t, flags[0])
		return EpochRaised{Epoch: s.opt.Epoch, Why: "a node knew newer documents than this journal"}
	case "live":
		l := &wire.Live{V: wire.Version, Node: flags[0], Boot: flags[1], Session: number(s.t, flags[2]),
			Up: flags[3] == "up"}
		for k, v := range options {
			if k == "events" {
				l.Events = number(s.t, v)
				continue
			}
			if l.Seqs == nil {
				l.Seqs = map[wire.Kind]uint64{}
			}
			l.Seqs[wire.Kind(k)] = number(s.t, v)
		}
		return s.heard(flags[0], l)
	case "info":
		return s.infoWith(flags[0], flags[1], number(s.t, flags[2]), flags[3], wire.Code(options["error"]))
	case "shows", "hides":
		return s.shows(what, flags, options)
	case "enrol", "join", "revoke", "forget", "retained":
		return s.memberEvent(what, args, has)
	case "set", "unset", "health", "order", "done", "maintain", "alert", "proves":
		return s.healthEvent(what, flags, options)
	case "workloads", "slots", "old-agent", "logs", "says":
		return s.workloadEvent(what, flags, options)
	case "policy", "acts", "quiet", "abort":
		return s.policyEvent(what, flags, options)
	case "report":
		return s.report(wire.KindConfig, flags, options)
	case "event":
		e := &wire.Event{V: wire.Version, Node: flags[0], Boot: flags[1], Seq: number(s.t, flags[2]), At: origin,
			Type: flags[3]}
		if lost := options["lost"]; lost != "" {
			e.Lost = number(s.t, lost)
		}
		return s.heard(flags[0], e)
	case "sends": // the node's answer to a question for events
		return s.heard(flags[0], &wire.Reply{V: wire.Version, Node: flags[0], ID: s.events + flags[0],
			Result: []byte("null")})
	case "expired": // likewise, from one whose clock is wrong
		return s.heard(flags[0], &wire.Reply{V: wire.Version, Node: flags[0], ID: s.events + flags[0],
			Error: wire.New(wire.CodeExpired, "/notAfter", "too late")})
	case "submit":
		dry, offline, force := has("dry"), has("offline"), has("force")
		sub := s.submit(flags[0], flags[1], flags[2:]...)
		sub.Sub.DryRun, sub.Sub.Offline, sub.Sub.Force = dry, offline, force
		if within := options["try"]; within != "" {
			d, err := time.ParseDuration(within)
			if err != nil {
				s.t.Fatal(err)
			}
			sub.Sub.Mode, sub.Sub.ConfirmWithin = wire.ModeTry, d
		}
		return sub
	case "agree":
		return s.heard(flags[0], &wire.Reply{V: wire.Version, Node: flags[0], ID: s.newest + flags[0],
			Result: []byte(`{"ok":true}`)})
	case "refuse":
		result := wire.CheckResult{Errors: []*wire.Error{wire.New(wire.Code(flags[1]), "/labels/0", "not here")}}
		return s.heard(flags[0], &wire.Reply{V: wire.Version, Node: flags[0], ID: s.newest + flags[0],
			Result: wire.Encode(&result)})
	case "copy":
		switch flags[0] {
		case "missing":
			return Copy{Missing: true}
		case "same":
			return Copy{Hash: s.live.State(wire.KindConfig).Hash, Known: true}
		case "older":
			return Copy{Hash: "sha256:older", Known: true}
		case "altered":
			return Copy{Hash: "sha256:altered"}
		case "unreadable":
			return Copy{Hash: "sha256:bad", Error: wire.New(wire.CodeMalformed, "", "no JSON")}
		}
	case "bad":
		return Bad{Node: flags[0], Topic: "odd", Err: wire.New(wire.Code(flags[1]), "", "garbage"),
			Again: slices.Contains(flags, "again")}
	}
	s.t.Fatalf("no such event: %s %v", what, args)
	return nil
}

// nodes is what a list of nodes shows of the unit configuration, one line each, and how it counts.
func (s *script) nodes() (lines []string) {
	for _, v := range s.live.Views(anyName) {
		d := v.Documents[wire.KindConfig]
		line := v.Node
		if d.Running != nil {
			line += fmt.Sprintf(" runs %d.%d:%s", d.Running.Epoch, d.Running.Rev, d.Running.Version)
		}
		if d.Desired != nil {
			line += fmt.Sprintf(" of %d.%d:%s", d.Desired.Epoch, d.Desired.Rev, d.Desired.Version)
		}
		if d.Last != nil {
			line += fmt.Sprintf(", %s", d.Last.State)
		}
		if d.Error != nil {
			line += fmt.Sprintf(" (%v)", d.Error)
		}
		lines = append(lines, fmt.Sprintf("%s, in step: %v", line, v.InSync))
	}
	return append(lines, fmt.Sprintf("%+v", s.live.Progress(wire.KindConfig)))
}

// effect says an effect in one line.
func (s *script) effect(e Effect) string {
	switch e := e.(type) {
	case Publish:
		if e.Doc == nil {
			return fmt.Sprintf("withdraw %s from %v", e.Kind, e.Nodes)
		}
		return fmt.Sprintf("publish %s %d.%d %s %s to %v", e.Kind, e.Doc.Epoch, e.Doc.Rev, e.Doc.Version, e.Doc.Mode,
			e.Nodes)
	case Ask:
		switch e.Method {
		case wire.MethodCheck:
			s.newest = e.ID
		case wire.MethodEvents:
			s.events = e.ID
		case wire.MethodShow:
			s.show = e.ID + e.Nodes[0]
		case wire.MethodReboot, wire.MethodTry, wire.MethodApprove, wire.MethodRestart:
			s.order = e.ID + e.Nodes[0]
		case wire.MethodLogs:
			s.query = e.ID + e.Nodes[0]
		}
		params := ""
		if e.Params != nil {
			params = " " + string(shortHashes(e.Params(e.Nodes[0])))
		}
		return fmt.Sprintf("ask %v to %s%s", e.Nodes, e.Method, params)
	case Answer:
		if e.Err != nil {
			return fmt.Sprintf("answer %d: %v", e.Ticket, e.Err)
		}
		if e.Data != nil {
			return fmt.Sprintf("answer %d: %s", e.Ticket, e.Data)
		}
		r := e.Result
		if q := r.Quarantined; q != nil {
			return fmt.Sprintf("answer %d: %s %s, but %v", e.Ticket, r.State, r.Version, q)
		}
		if p := r.Placed; p != nil {
			return fmt.Sprintf("answer %d: %s %s rev %d, issued %d, placed %+v, checks %+v, error %v", e.Ticket,
				r.State, r.Version, r.Rev, r.Issued, *p, r.Checks, r.Error)
		}
		return fmt.Sprintf("answer %d: %s %s %s rev %d, issued %d, checks %+v, error %v", e.Ticket, r.State, r.Version,
			r.Mode, r.Rev, r.Issued, r.Checks, r.Error)
	case WriteCopy:
		return fmt.Sprintf("write the copy (given: %v)", e.Document != nil)
	case RaiseEpoch:
		return fmt.Sprintf("raise the epoch above %d", e.Above)
	case Clear:
		return fmt.Sprintf("clear %v", e.Topics)
	}
	return fmt.Sprintf("%#v", e)
}

// shortHashes leaves 6 digits of every hash.
func shortHashes(data []byte) []byte {
	parts := strings.Split(string(data), wire.HashPrefix)
	for i := 1; i < len(parts); i++ {
		if len(parts[i]) >= 64 {
			parts[i] = parts[i][:6] + parts[i][64:]
		}
	}
	return []byte(strings.Join(parts, wire.HashPrefix))
}
