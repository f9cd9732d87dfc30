package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/wire"
)

// submissionData is what is read of the records accepted and refused.
type submissionData struct {
	Via     string            `json:"via"`
	Version string            `json:"version"`
	Mode    wire.Mode         `json:"mode"`
	Within  duration.Duration `json:"within"`
	Error   *wire.Error       `json:"error"`
	Checks  view.Checks       `json:"checks"`
}

// issuedData is what is read of the records issued and withdrawn.
type issuedData struct {
	Version string    `json:"version"`
	Mode    wire.Mode `json:"mode"`
	Reason  string    `json:"reason"`
	Nodes   []string  `json:"nodes"` // withdrawn
	Docs    []struct {
		Nodes []string `json:"nodes"`
	} `json:"docs"`
}

// identityData is what is read of the records of who belongs to the unit.
type identityData struct {
	Subject string      `json:"subject"`
	Expires time.Time   `json:"expires"`
	From    string      `json:"from"`
	Reason  string      `json:"reason"`
	Error   *wire.Error `json:"error"`
	Count   int         `json:"count"`
}

// recordText says what a record of the unit's own has, or of a node's state; false: it is told otherwise, or not known.
func (a *app) recordText(e view.Entry) (string, bool) {
	switch e.Type {
	case "opened":
		return said(e.Data, func(d struct {
			Version string `json:"version"`
			Epoch   uint64 `json:"epoch"`
			Reason  string `json:"reason"`
		}) string {
			return with(strings.TrimSpace(fmt.Sprintf("controller %s, epoch %d", d.Version, d.Epoch)), d.Reason)
		})
	case "accepted", "refused":
		return said(e.Data, func(d submissionData) string { return submissionText(e.Kind, &d) })
	case "issued", "withdrawn":
		return said(e.Data, func(d issuedData) string { return issuedText(e.Kind, &d) })
	case "confirm", "rolledback":
		return said(e.Data, func(d struct {
			Version string `json:"version"`
		}) string {
			return named(e.Kind, d.Version) + map[string]string{"confirm": " stays", "rolledback": " was not confirmed in time"}[e.Type]
		})
	case "state":
		return said(e.Data, func(d struct {
			State  string      `json:"state"`
			Error  *wire.Error `json:"error"`
			Reason string      `json:"reason"`
		}) string {
			return withError(with(named(e.Kind, d.State), d.Reason), d.Error)
		})
	case "report":
		return reportText(e)
	case "live":
		return said(e.Data, func(l wire.Live) string {
			return map[bool]string{true: "online", false: "offline"}[l.Up]
		})
	case "trouble":
		return said(e.Data, func(d struct {
			Topic   string      `json:"topic"`
			Error   *wire.Error `json:"error"`
			Skipped int         `json:"skipped"`
		}) string {
			text := withError(d.Topic, d.Error)
			if d.Skipped > 0 {
				text += fmt.Sprintf(", and %d more before", d.Skipped)
			}
			return text
		})
	case "enrol", "joined", "renewed", "revoked", "join-refused":
		return said(e.Data, func(d identityData) string { return a.identityText(e.Type, &d) })
	case "keys":
		return said(e.Data, func(d struct {
			Did     string   `json:"did"`
			Key     string   `json:"key"`
			Forced  bool     `json:"forced"`
			Missing []string `json:"missing"`
		}) string {
			text := d.Key + " " + d.Did
			if d.Forced {
				text += ", forced: not known to be believed by " + listed(d.Missing)
			}
			return text
		})
	}
	return "", false
}

// named puts the kind of document before what is said of one.
func named(kind, what string) string { return strings.TrimPrefix(kind+" "+what, " ") }

// withError appends an error, if there is one.
func withError(text string, err *wire.Error) string {
	if err == nil {
		return text
	}
	return strings.TrimPrefix(text+": "+brief(err), ": ")
}

func submissionText(kind string, d *submissionData) string {
	text := named(kind, cmp.Or(d.Version, "that cannot be read"))
	if d.Mode == wire.ModeTry {
		text += ", on trial for " + span(d.Within.Std())
	}
	if d.Via != "" {
		text += ", via " + d.Via
	}
	if d.Error != nil {
		return withError(text, d.Error)
	}
	c := &d.Checks
	if c.Asked > 0 {
		text += fmt.Sprintf("; %d of %s agreed", c.Agreed, plural(c.Asked, "node"))
	}
	if len(c.Silent) > 0 {
		text += "; silent: " + listed(c.Silent)
	}
	if len(c.Unchecked) > 0 {
		text += "; offline: " + listed(c.Unchecked)
	}
	return text
}

func issuedText(kind string, d *issuedData) string {
	nodes := d.Nodes
	for _, doc := range d.Docs {
		nodes = append(nodes, doc.Nodes...)
	}
	slices.Sort(nodes)
	text := strings.TrimSpace(named(kind, d.Version))
	switch {
	case len(nodes) == 0:
		text += " to nobody"
	case d.Docs == nil:
		text += " from " + listed(nodes)
	default:
		text += " to " + listed(nodes)
	}
	if d.Mode == wire.ModeTry {
		text += ", on trial"
	}
	if d.Reason == "accepted "+d.Version {
		return text
	}
	return with(text, d.Reason)
}

// reportText says what a node reports: the newest document and what became of it, what runs if that is another one,
// and of kinds that tell more, that in brief.
func reportText(e view.Entry) (string, bool) {
	text, ok := said(e.Data, func(r wire.Reported) string {
		if r.Boot == "" {
			return "" // it is no report
		}
		var parts []string
		if l := r.Last; l != nil {
			parts = append(parts, withError(l.Version+" "+string(l.State), l.Error))
		}
		switch {
		case r.Running == nil && r.Last != nil:
			parts = append(parts, "nothing runs")
		case r.Running != nil && (r.Last == nil || r.Running.Version != r.Last.Version):
			parts = append(parts, r.Running.Version+" runs")
		}
		if detail := detailText(r); detail != "" {
			parts = append(parts, detail)
		}
		if len(parts) == 0 {
			parts = append(parts, "nothing yet")
		}
		return string(r.Kind) + ": " + strings.Join(parts, "; ")
	})
	return text, ok && text != ""
}

// detailText says what a report tells beside documents.
func detailText(r wire.Reported) (text string) {
	switch r.Kind {
	case wire.KindInfo:
		text, _ = said(r.Detail, func(i wire.NodeInfo) string {
			return withError(fmt.Sprintf("type %s, agent %s, %s on %s", cmp.Or(i.Type, "-"), cmp.Or(i.AgentVersion, "-"), i.OS, i.Arch), i.Error)
		})
	case wire.KindHealth:
		text, _ = said(r.Detail, func(h wire.Health) string { return h.Text })
	case wire.KindWorkloads:
		text, _ = said(r.Detail, func(w wire.Workloads) string {
			var order []string
			count := map[string]int{}
			for _, s := range w.Slots {
				if count[string(s.State)]++; count[string(s.State)] == 1 {
					order = append(order, string(s.State))
				}
			}
			for i, state := range order {
				order[i] = fmt.Sprintf("%d %s", count[state], state)
			}
			if w.More > 0 {
				order = append(order, fmt.Sprintf("%d without room in the report", w.More))
			}
			return strings.Join(order, ", ")
		})
	}
	return text
}

func (a *app) identityText(typ string, d *identityData) string {
	text := d.Subject
	switch typ {
	case "enrol":
		text += " may join until " + a.clock(d.Expires)
	case "joined", "renewed":
		text += ", certificate until " + a.clock(d.Expires)
	}
	if d.From != "" {
		text += ", from " + d.From
	}
	text = withError(with(text, d.Reason), d.Error)
	if d.Count > 1 {
		text += fmt.Sprintf(", %d times", d.Count)
	}
	return text
}

// otherEvents are the types of nodes' events that are neither about health nor about workloads.
var otherEvents = []string{"alert", "watchdog", "drift-repaired", "fork", "stale", "refused-message", "restore-trouble", "clock-skew",
	"key-pinned", "key-dropped", "key-refused", "certificate-renewed", "certificate-not-renewed", "certificate-expired"}

// otherEvent says what an event of a node about documents, keys or its certificate tells; false: nothing that is known.
func (a *app) otherEvent(e view.Entry) (string, bool) {
	text, ok := said(e.Data, func(ev struct {
		Error  *wire.Error `json:"error"`
		Detail struct {
			Kind       string    `json:"kind"`
			Version    string    `json:"version"`
			Topic      string    `json:"topic"`
			Keys       []string  `json:"keys"`
			Dropped    []string  `json:"dropped"`
			Expires    time.Time `json:"expires"`
			Suppressed uint64    `json:"suppressed"`
		} `json:"detail"`
	}) string {
		d, parts := &ev.Detail, []string{}
		add := func(there bool, format string, args ...any) {
			if there {
				parts = append(parts, fmt.Sprintf(format, args...))
			}
		}
		add(d.Kind != "" || d.Version != "", "%s", strings.TrimSpace(d.Kind+" "+d.Version))
		add(d.Topic != "", "%s", d.Topic)
		add(len(d.Keys) > 0, "believes %s", listed(d.Keys))
		add(len(d.Dropped) > 0, "not any more %s", listed(d.Dropped))
		add(!d.Expires.IsZero(), "certificate until %s", a.clock(d.Expires))
		add(ev.Error != nil, "%s", brief(ev.Error))
		add(d.Suppressed > 0, "%d more like it before", d.Suppressed)
		return strings.Join(parts, "; ")
	})
	return text, ok && text != ""
}
