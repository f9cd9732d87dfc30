package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/wire"
)

// nodeEvent is what is read of an event from a node: the details of alerts and of health.
type nodeEvent struct {
	Error  *wire.Error `json:"error"`
	Detail eventDetail `json:"detail"`
}

type eventDetail struct {
	// An alert (shared/docs/alerts.md).
	Parameter string    `json:"parameter"`
	Value     float64   `json:"value"`
	State     string    `json:"state"`
	Since     time.Time `json:"since"`
	Min       float64   `json:"minThreshold"`
	Max       float64   `json:"maxThreshold"`

	// Health (shared/docs/health.md).
	Slot      string `json:"slot"`
	Component string `json:"component"`
	Version   string `json:"version"`
	Check     string `json:"check"`
	Reason    string `json:"reason"` // of an alert's fall, too
	Text      string `json:"text"`
	Restarts  uint64 `json:"restarts"`

	// The watchdog (shared/docs/alerts.md).
	Name    string            `json:"name"`
	Program bool              `json:"program"` // else a loop of the agent
	Verdict string            `json:"verdict"`
	For     duration.Duration `json:"for"`

	// Workloads: Slot is one of theirs.
	ID string `json:"id"` // configurationId
}

// workloadEvents are the types whose detail is read as one about a slot of workloads.
var workloadEvents = map[string]bool{
	"workload-exit": true, "workload-completed": true, "workload-installed": true, "workload-back": true, "workload-refused": true, "workload-undone": true,
}

// healthEvents are the types whose detail is read as one about health.
var healthEvents = map[string]bool{
	"boot": true, "contact-lost": true, "contact-back": true, "check-failed": true, "check-recovered": true, "maintenance": true,
	"trial-started": true, "trial-committed": true, "trial-rolled-back": true, "commit-failed": true,
	"component-staged": true, "component-refused": true, "component-ended": true,
	"restart-planned": true, "restart-refused": true, "restart-failed": true,
}

// what says in words what an entry has, or shows its data if it cannot.
func (a *app) what(e view.Entry) string {
	text, ok := "", false
	switch e.Type {
	case "event":
		text, ok = a.eventText(e)
	case "settings":
		text, ok = said(e.Data, func(d struct {
			view.Scope
			Settings *wire.HealthSettings `json:"settings"`
		}) string {
			if d.Settings == nil {
				return named(e.Kind, "unset for "+whom(&d.Scope))
			}
			return named(e.Kind, "for ") + whom(&d.Scope) + ": " + settingsText(d.Settings)
		})
	case "unit-maintenance":
		if len(e.Data) == 0 {
			return "over"
		}
		text, ok = said(e.Data, func(d struct {
			Until  time.Time `json:"until"`
			Reason string    `json:"reason"`
		}) string {
			if d.Until.IsZero() {
				return with("over", d.Reason)
			}
			return with("until "+a.clock(d.Until), d.Reason)
		})
	case "request":
		text, ok = said(e.Data, func(d struct {
			Method string `json:"method"`
			Params struct {
				Reason    string `json:"reason"`
				Component string `json:"component"`
				Version   string `json:"version"`
				Service   string `json:"service"`
			} `json:"params"`
		}) string {
			p := d.Params
			return with(d.Method, strings.Join(strings.Fields(strings.Join([]string{p.Service, p.Component, p.Version, p.Reason}, " ")), " "))
		})
	case "note":
		text, ok = said(e.Data, func(d view.Remark) string { return d.Text })
	case "reply":
		text, ok = said(e.Data, func(d struct {
			Method string      `json:"method"`
			Error  *wire.Error `json:"error"`
		}) string {
			if d.Error == nil {
				return d.Method + ": agreed"
			}
			return d.Method + ": " + brief(d.Error)
		})
	default:
		text, ok = a.recordText(e)
	}
	if !ok {
		return string(e.Data)
	}
	return text
}

// said reads data and says it.
func said[T any](data jsontext.Value, say func(T) string) (string, bool) {
	var d T
	if len(data) == 0 || json.Unmarshal(data, &d) != nil {
		return "", false
	}
	return say(d), true
}

// eventText says what a node tells; false: it is not one of the known events.
func (a *app) eventText(e view.Entry) (string, bool) {
	alert, watchdog := e.Kind == "alert", e.Kind == "watchdog"
	if !alert && !watchdog && !healthEvents[e.Kind] && !workloadEvents[e.Kind] {
		return a.otherEvent(e)
	}
	return said(e.Data, func(ev nodeEvent) string {
		d := ev.Detail
		switch {
		case alert:
			return a.alertText(&d)
		case watchdog:
			return watchdogText(&d)
		case workloadEvents[e.Kind]:
			return workloadEventText(&d, ev.Error)
		}
		return healthEventText(e.Kind, &d, ev.Error)
	})
}

func (a *app) alertText(d *eventDetail) string {
	since := ", raised " + a.clock(d.Since)
	if d.State == "fall" {
		if d.Reason == "rule-removed" {
			return "fall " + d.Parameter + ": the rule is gone" + since
		}
		return fmt.Sprintf("fall %s %s < %s%s", d.Parameter, amount(d.Value), amount(d.Min), since)
	}
	if d.State == "raise" {
		since = " since " + a.clock(d.Since)
	}
	sign, limit := "≥", d.Max
	if d.Value < d.Max {
		sign = "<" // it is on its way down, and not below its fall yet
	}
	return fmt.Sprintf("%s %s %s %s %s%s", d.State, d.Parameter, amount(d.Value), sign, amount(limit), since)
}

func watchdogText(d *eventDetail) string {
	text := "the agent's loop " + d.Name
	if d.Program {
		text = "program " + d.Name
	}
	text += ": " + d.Verdict
	if d.For > 0 {
		text += ", " + span(d.For.Std()) + " without a sign of life"
	}
	if d.Text != "" {
		text += ": " + d.Text
	}
	return text
}

func workloadEventText(d *eventDetail, err *wire.Error) string {
	parts := []string{strings.TrimSpace(d.Slot + " " + d.ID)}
	if d.Text != "" {
		parts = append(parts, d.Text)
	}
	if err != nil {
		parts = append(parts, brief(err))
	}
	return strings.Join(parts, ": ")
}

func healthEventText(kind string, d *eventDetail, err *wire.Error) string {
	var parts []string
	add := func(s string) {
		if s != "" {
			parts = append(parts, s)
		}
	}
	add(d.Version)
	if d.Slot != "" {
		add("in slot " + d.Slot)
	}
	if d.Component != "" {
		add("of " + d.Component)
	}
	add(d.Check)
	add(d.Reason)
	text := strings.Join(parts, " ")
	if d.Text != "" {
		text = strings.TrimPrefix(text+": "+d.Text, ": ")
	}
	if kind == "boot" && d.Restarts > 0 {
		text = strings.TrimPrefix(fmt.Sprintf("%s; start number %d", text, d.Restarts), "; ")
	}
	if err != nil {
		text = strings.TrimPrefix(text+": "+brief(err), ": ")
	}
	return text
}
