package fleet

import (
	"strings"
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/shared/wire"
)

// canaryThenAll is the plan of the stories.
const canaryThenAll = `{"waves":[{"count":1,"canary":true},{"percent":100}],"gate":{"soak":"PT1M"},` +
	`"maxUnavailable":{"count":9}}`

// policyEvent reads the events of the stories about policies.
func (s *script) policyEvent(what string, flags []string, options map[string]string) Event {
	s.tickets++
	switch what {
	case "policy":
		d := record.PolicyData{Name: flags[0], AllNodes: true}
		switch verb := flags[1]; verb {
		case "enable", "disable":
			d.Enabled = new(verb == "enable")
		case "remove":
			d.Removed = true
		default:
			waves := ""
			if len(flags) > 2 {
				waves = canaryThenAll
			}
			d.Document = []byte(policyDocument(everyNode, verb, waves))
		}
		return Change{Ticket: s.tickets, Source: wire.KindPolicies, Data: d, Who: "ann"}
	case "acts": // the report of a node's policies, and of its health
		rep := &wire.Reported{V: wire.Version, Node: flags[0], Kind: wire.KindPolicies, Boot: flags[1],
			Seq: number(s.t, flags[2])}
		if in := options["running"]; in != "" {
			stamp, version, _ := strings.Cut(in, ":")
			rep.Running = s.ref(flags[0], rep.Kind, stamp, version)
			rep.Last = &wire.Attempt{Epoch: rep.Running.Epoch, Rev: rep.Running.Rev, Version: version,
				Hash: rep.Running.Hash, Attempt: 1, At: origin, State: wire.StateInstalled}
		}
		var all []wire.PolicyStatus
		for _, text := range flags[3:] {
			parts := strings.Split(text, ":")
			st := wire.PolicyStatus{Name: parts[0], Rev: number(s.t, parts[1]), State: wire.PolicyState(parts[2])}
			if len(parts) > 3 {
				st.Error = wire.New(wire.Code(parts[3]), "", "for a reason")
			}
			all = append(all, st)
		}
		rep.Detail = wire.Encode(&wire.PoliciesReport{Policies: all})
		return s.heard(flags[0], rep)
	case "quiet":
		d, err := time.ParseDuration(options["for"])
		if err != nil {
			s.t.Fatal(err)
		}
		h, span := told(s.world, []string{"contact"}, nil), wire.SpanOf(d)
		h.Quiet = &wire.HealthQuiet{Alerts: span, Checks: span, Restarts: span, Workloads: span,
			Revs: map[wire.Kind]uint64{wire.KindPolicies: number(s.t, options["since"])}}
		return s.heard(flags[0], &wire.Reported{V: wire.Version, Node: flags[0], Kind: wire.KindHealth, Boot: flags[1],
			Seq: number(s.t, flags[2]), Detail: wire.Encode(h)})
	case "abort":
		return RolloutOrder{Ticket: s.tickets, Who: "ann",
			Order: rollout.Abort{ID: flags[0], How: plan.OnAbort(flags[1])}}
	}
	panic("fleet: " + what)
}
