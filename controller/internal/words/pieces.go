package words

import (
	"fmt"
	"strconv"
	"strings"

	"tandem.internal/controller/internal/phrase"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Whom names the nodes that settings are for.
func Whom(s *view.Scope) string {
	switch {
	case s.All:
		return "all nodes"
	case len(s.Types) > 0:
		return "nodes of type " + phrase.List(s.Types)
	}
	return phrase.List(s.Nodes)
}

// Amount renders a measured value: a fraction, or bytes per second.
func Amount(v float64) string {
	if v >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(float64(int64(v*10000+0.5))/10000, 'f', -1, 64)
}

// SettingsText renders settings of health in one line.
func SettingsText(h *wire.HealthSettings) string {
	var parts []string
	for _, f := range []struct {
		name string
		span wire.Span
	}{
		{"reset", h.Reset}, {"fallback", h.Fallback}, {"test", h.Test},
		{"deadline", h.Deadline}, {"contact", h.Contact}, {"watchdog", h.Watchdog},
	} {
		if f.span != 0 {
			parts = append(parts, f.name+" "+phrase.Exact(f.span.Std()))
		}
	}
	for _, f := range []struct {
		name  string
		value *bool
	}{{"approval", h.Approval}, {"reboot", h.Reboot}} {
		if f.value != nil {
			parts = append(parts, f.name+" "+phrase.YesNo(*f.value))
		}
	}
	if c := h.Checks; c != nil {
		for _, f := range []struct {
			name  string
			limit *wire.HealthLimit
		}{{"cpu", c.CPU}, {"ram", c.RAM}, {"disk", c.Disk}, {"network", c.Network}} {
			if f.limit == nil {
				continue
			}
			text := f.name + " above " + Amount(f.limit.Max)
			if f.limit.For != 0 {
				text += " for " + phrase.Exact(f.limit.For.Std())
			}
			parts = append(parts, text)
		}
	}
	if len(parts) == 0 {
		return "nothing: the node's own settings, and the defaults"
	}
	return strings.Join(parts, ", ")
}

// Size is a number of bytes for people.
func Size(n int64) string { return phrase.Size(uint64(max(n, 0))) }

// Sentence renders an error as "CODE: message (places)": where in which file it is, if that is known, and where more.
func Sentence(e *wire.Error, file, where string) string {
	var places []string
	switch {
	case file != "" && e.Line > 0:
		places = append(places, fmt.Sprintf("%s:%d:%d", file, e.Line, e.Column))
	case file != "":
		places = append(places, file)
	case e.Line > 0:
		places = append(places, fmt.Sprintf("line %d, column %d", e.Line, e.Column))
	}
	if e.Path != "" {
		places = append(places, "at "+e.Path)
	}
	if e.Node != "" {
		places = append(places, "node "+e.Node)
	}
	if where != "" {
		places = append(places, where)
	}
	return phrase.CleanLines(phrase.Remark(string(e.Code)+": "+e.Message, strings.Join(places, ", ")))
}

// Brief renders an error on one line; "" for nil.
func Brief(e *wire.Error) string {
	if e == nil {
		return ""
	}
	return phrase.Clean(Sentence(e, "", ""))
}
