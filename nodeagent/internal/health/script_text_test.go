package health

import (
	"fmt"
	"strings"
	"time"

	"tandem.internal/shared/wire"
)

func (s *script) say(at time.Duration, format string, a ...any) {
	prefix := ""
	if s.running {
		prefix = short(at) + ": "
	}
	fmt.Fprintf(s.out, "  "+prefix+format+"\n", a...)
}

// deadline says when a tick is wanted, if that is news.
func (s *script) deadline() {
	text := "wants no tick"
	if at, ok := s.state.NextDeadline(); ok {
		text = "wants a tick at " + short(s.base+at)
	}
	if text != s.wants {
		s.wants = text
		fmt.Fprintf(s.out, "  %s\n", text)
	}
}

// short writes days, too.
func short(d time.Duration) string {
	if days := d / (24 * time.Hour); days > 0 {
		return fmt.Sprintf("%dd%v", days, d%(24*time.Hour))
	}
	return d.String()
}

func reportOf(h wire.Health) string {
	out := fmt.Sprintf("%d, contact %v", h.Indicator, map[bool]string{true: "yes", false: "no"}[h.Contact.In])
	if h.Current != "" {
		out += ", runs " + h.Current
	}
	if t := h.Trial; t != nil {
		if t.Component != "" {
			out += ", " + t.Component
		}
		out += " on trial"
		if t.Offline {
			out += " (offline before)"
		}
		if t.Approval != "" {
			out += ", approval " + t.Approval
		}
		var waits []string
		for _, w := range t.WaitsFor {
			waits = append(waits, strings.TrimSpace(string(w.Code)+" "+w.Name))
		}
		out += ", waits for " + strings.Join(waits, " + ")
	}
	if h.Restart != nil {
		out += fmt.Sprintf(", restart wanted: %s", h.Restart.Reason)
	}
	if !h.Maintenance.IsZero() {
		out += ", maintenance"
	}
	for _, c := range h.Checks {
		if !c.OK {
			out += fmt.Sprintf(", %s bad: %s", c.Name, c.Message)
		}
	}
	return out
}
