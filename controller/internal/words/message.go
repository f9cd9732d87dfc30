package words

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/phrase"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/event"
	"tandem.internal/shared/wire"
)

// report renders a node's report: the state of the newest document, the running version if it is another one, and
// the detail in brief.
func (s say) report(e view.Entry) (string, bool) {
	text, ok := read(e.Data, func(r wire.Reported) string {
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
		if detail := s.detail(r); detail != "" {
			parts = append(parts, detail)
		}
		return string(r.Kind) + ": " + cmp.Or(strings.Join(parts, "; "), "nothing yet")
	})
	return text, ok && text != ""
}

// detail renders the detail of a report, as its kind says.
func (s say) detail(r wire.Reported) string {
	k := s.kinds.Kind(r.Kind)
	if k == nil || k.Words == nil {
		return ""
	}
	text, err := k.Words(r.Detail)
	return withError(text, err)
}

// nodeEvent is what is read of an event from a node.
type nodeEvent struct {
	Error  *wire.Error    `json:"error"`
	Detail jsontext.Value `json:"detail"`
}

// event renders an event of a node. It returns false for an event that is not known.
func happened(e view.Entry) (string, bool) {
	text, ok := read(e.Data, func(ev nodeEvent) string {
		detail, err := event.Decode(e.Kind, ev.Detail)
		if err != nil {
			return ""
		}
		switch d := detail.(type) {
		case *event.AlertDetail:
			return alert(d)
		case *event.WatchdogDetail:
			return watchdog(d)
		case *event.HealthDetail:
			return withError(health(e.Kind, d), ev.Error)
		case *event.WorkloadDetail:
			return joined(nil, d.Suppressed, withError(colon(strings.TrimSpace(d.Slot+" "+d.ID), d.Text), ev.Error))
		case *event.DocumentDetail:
			version := ""
			if d.DocRef != nil {
				version = d.Version
			}
			return joined(ev.Error, d.Suppressed, strings.TrimSpace(string(d.Kind)+" "+version))
		case *event.MessageDetail:
			return joined(ev.Error, d.Suppressed, d.Topic)
		case *event.KeysDetail:
			return joined(ev.Error, 0,
				prefixed("believes ", phrase.List(d.Keys)), prefixed("not any more ", phrase.List(d.Dropped)))
		case *event.CertificateDetail:
			return joined(ev.Error, 0, prefixed("certificate until ", until(d)))
		case *event.PolicyDetail:
			return joined(nil, d.Suppressed, withError(status(&d.PolicyStatus), ev.Error))
		case *event.StateDetail:
			return joined(ev.Error, 0, d.Reason, prefixed("kept as ", d.Kept), stateTrust(d.Trust))
		}
		return joined(ev.Error, 0)
	})
	return text, ok && text != ""
}

// stateTrust says what a node that lost its state knows of what was before.
func stateTrust(from string) string {
	switch from {
	case event.TrustMarks:
		return "it knows from a copy whom to believe and what is old"
	case event.TrustJoin:
		return "it knows from its join whom to believe, and takes what was issued since for new"
	case event.TrustUnitKey:
		return "it believes its --unit-key, and takes all that it has signed for new"
	case event.TrustFirst:
		return "it believes the first controller that it hears"
	}
	return from
}

func until(d *event.CertificateDetail) string {
	if d.Expires.IsZero() {
		return ""
	}
	return instant(d.Expires)
}

// prefixed is text with a prefix; "" if there is no text.
func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// joined joins parts, an error, and how many more events like this one there were; empty ones are left out.
func joined(err *wire.Error, suppressed uint64, parts ...string) string {
	parts = append(parts, Brief(err))
	if suppressed > 0 {
		parts = append(parts, fmt.Sprintf("%d more like it before", suppressed))
	}
	text := ""
	for _, p := range parts {
		if p != "" {
			text += "; " + p
		}
	}
	return strings.TrimPrefix(text, "; ")
}

// colon is "before: after", or the one that is not empty.
func colon(before, after string) string {
	if before == "" || after == "" {
		return before + after
	}
	return before + ": " + after
}

func alert(d *event.AlertDetail) string {
	since := ", raised " + instant(d.Since)
	value := Amount(d.Value)
	if d.State == "fall" {
		if d.Reason == "rule-removed" {
			return "fall " + d.Parameter + ": the rule is gone" + since
		}
		return fmt.Sprintf("fall %s %s < %s%s", d.Parameter, value, Amount(d.Min), since)
	}
	if d.State == "raise" {
		since = " since " + instant(d.Since)
	}
	sign := "≥"
	if d.Value < d.Max {
		sign = "<" // it is on its way down, and not below its fall yet
	}
	return fmt.Sprintf("%s %s %s %s %s%s", d.State, d.Parameter, value, sign, Amount(d.Max), since)
}

func watchdog(d *event.WatchdogDetail) string {
	text := "the agent's loop " + d.Name
	if d.Program {
		text = "program " + d.Name
	}
	text += ": " + d.Verdict
	if d.For > 0 {
		text += ", " + phrase.Span(d.For.Std()) + " without a sign of life"
	}
	return colon(text, d.Text)
}

func health(kind string, d *event.HealthDetail) string {
	what := words(d.Version, prefixed("in slot ", d.Slot), prefixed("of ", d.Component), d.Check, string(d.Reason))
	text := colon(what, d.Text)
	if kind == event.Boot && d.Restarts > 0 {
		text = strings.TrimPrefix(fmt.Sprintf("%s; start number %d", text, d.Restarts), "; ")
	}
	return text
}
