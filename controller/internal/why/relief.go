package why

import (
	"fmt"
	"strconv"
	"strings"

	"tandem.internal/controller/internal/desired"
	"tandem.internal/controller/internal/phrase"
)

// Relief says in one sentence what can be done for a node that is overloaded.
func Relief(r *desired.Relief) string {
	text := Overload(&r.Overload) + ": "
	if m := r.Move; m != nil {
		return text + fmt.Sprintf("%s of %s, instance %d, goes to %s", m.Codename, m.Subject, m.Index, m.To)
	}
	if len(r.Stays) == 0 {
		return text + "no service runs there"
	}
	return text + "no service may leave it"
}

// Move says which service leaves a node that is overloaded.
func Move(m *desired.ReliefMove) string {
	return fmt.Sprintf("%s of %s, instance %d, goes from %s to %s: %s", m.Codename, m.Subject, m.Index, m.From, m.To,
		Overload(&m.Because))
}

// Overload says what is used of a node, and what is allowed.
func Overload(o *desired.Overload) string {
	share := func(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }
	return fmt.Sprintf("%s is overloaded: %s of its %s is used on average for %s, and the maximum is %s", o.Node,
		share(o.Average), strings.ToUpper(string(o.Parameter)), phrase.Exact(o.For.Std()), share(o.Max))
}

// Stay says why a service does not leave a node that is overloaded.
func Stay(s *desired.Stay) string {
	text := fmt.Sprintf("%s of %s, instance %d, stays: ", s.Codename, s.Subject, s.Index)
	switch s.Stuck {
	case desired.NotBalanced:
		return text + "its metadata says so"
	case desired.NotAnew:
		return text + "it is deprecated, and not deployed anew"
	case desired.Pinned:
		return text + "its subject is attached to this node only"
	case desired.Rests:
		return text + "it was moved a while ago, and rests"
	case desired.Idle:
		return text + "it would relieve nothing, as far as is known"
	}
	text += filtered(s.Emptied)
	if len(s.Refusals) > 0 {
		text += "; " + Refusal(&s.Refusals[0])
	}
	return text
}

// underLoad says why the filter of load refuses a node.
func underLoad(f *desired.Refusal) string {
	switch f.About {
	case desired.Settling:
		return "another move has gone to it, or from it, a moment ago"
	case desired.Unmeasured:
		return "what is used of the node is not known"
	case string(desired.CPU):
		return fmt.Sprintf("it uses %d DMIPS, and %d are left below the minimum", f.Needed, f.Available)
	}
	return fmt.Sprintf("it uses %d bytes of RAM, and %d are left below the minimum", f.Needed, f.Available)
}
