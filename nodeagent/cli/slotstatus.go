package cli

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/nodeagent/internal/slot/record"
	"tandem.internal/shared/settings"
	"tandem.internal/shared/wire"
)

// status prints what there is to know of the component.
func (h handed) status() error {
	list, err := components(h.stateDir, h.Name)
	if err != nil {
		return err
	}
	if h.out.json {
		return h.out.say(list[0], "")
	}
	return sayComponents(list, h.out)
}

// status prints what there is to know of the slots, and of the components.
func (a agentTarget) status() error {
	parts, err := components(a.stateDir, "")
	if err != nil {
		return err
	}
	out := a.out
	st, err := a.Status()
	if err != nil {
		return err
	}
	failed, unread := a.quarantine(st.Last)
	brings := a.brings(&st)
	if out.json {
		return out.say(struct {
			slot.Status
			Components []componentStatus    `json:"components,omitempty"`
			Quarantine []wire.HealthFailed  `json:"quarantine,omitempty"`
			Brings     map[slot.ID][]string `json:"brings,omitempty"` // settings
		}{st, parts, failed, brings}, "")
	}
	err = saySlots(st, out)
	say := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(out.w, format+"\n", args...)
		}
	}
	b := st.Boot
	if b.Number == 0 {
		say("the agent has not been started through the slots yet")
	} else {
		say("start %d: slot %s, because of %s%s", b.Number, b.Slot, b.Reason, colon(b.Detail))
		if b.Note != "" && b.Note != b.Detail {
			say("  %s", b.Note)
		}
	}
	for _, x := range st.Slots {
		if names := brings[x.Slot]; len(names) > 0 {
			say("version %s in slot %s brings settings: %s", x.Version, x.Slot, strings.Join(names, ", "))
		}
	}
	if st.Trying != record.None {
		say("slot %s %s", st.Trying, trying(st))
	}
	text := ""
	if st.Previous != active(st) {
		text = "; a rollback goes to slot " + string(st.Previous)
	}
	say("slot %s is active: %s%s", active(st), st.Why, text)
	switch {
	case st.Floor == "":
	case st.Floor == st.Signed:
		say("no version below %s is tried: a publisher has signed that", st.Floor)
	case st.Signed == "":
		say("no version below %s is tried: the setting --floor says so", st.Floor)
	default:
		say("no version below %s is tried: the setting --floor says so; a publisher has signed %s", st.Floor, st.Signed)
	}
	if l := st.Last; l.Seq != 0 && !l.Committed {
		say("version %s in slot %s was given up: %s%s", l.Version, l.Slot, l.Reason, colon(l.Detail))
	}
	if st.Next != nil {
		say("the next start will be because of %s%s", st.Next.Reason, colon(st.Next.Detail))
	}
	for _, n := range st.Notes {
		say("note: %s", n)
	}
	if unread != nil {
		say("note: %v", unread)
	}
	if err == nil {
		err = sayQuarantine("", failed, out)
	}
	if err == nil && len(parts) > 0 {
		err = sayComponents(parts, out)
	}
	return err
}

// brings lists the settings that come with what the slots hold. What cannot be read is noted.
func (a agentTarget) brings(st *slot.Status) map[slot.ID][]string {
	all := map[slot.ID][]string{}
	for _, x := range st.Slots {
		if x.Hash == "" {
			continue
		}
		b, err := a.Brings(x.Slot)
		var names []string
		if err == nil {
			names, err = b.Layer().Names()
		}
		if err != nil {
			st.Notes = append(st.Notes, fmt.Sprintf("which settings slot %s brings is not known: %v", x.Slot, err))
		} else if len(names) > 0 {
			all[x.Slot] = names
		}
	}
	return all
}

func saySlots(st slot.Status, out printer) (err error) {
	w := tabwriter.NewWriter(out.w, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(w, format+"\n", args...)
		}
	}
	line("SLOT\tSTATE\tVERSION\tVERDICT\t")
	for _, x := range st.Slots {
		version, verdict := x.Version, string(x.Verdict)
		if x.Slot == record.Factory {
			version = settings.Version + " (as installed)"
		} else if version == "" {
			version = "-"
		} else if verdict == "" {
			verdict = "untried"
		}
		line("%s\t%s\t%s\t%s\t", x.Slot, x.State, version, verdict)
	}
	if err == nil {
		err = w.Flush()
	}
	return err
}

// sayQuarantine lists what has failed of the agent, or of a component.
func sayQuarantine(component string, list []wire.HealthFailed, out printer) error {
	for _, q := range list {
		name := strings.TrimSpace(component + " " + q.Version)
		if _, err := fmt.Fprintf(out.w, "in quarantine: %s (%s): %s\n", name, q.Hash, q.Text); err != nil {
			return err
		}
	}
	return nil
}

// trying says how far the trial is.
func trying(st slot.Status) string {
	starts := fmt.Sprintf("%d starts", st.TriesLeft)
	if st.TriesLeft == 1 {
		starts = "1 start"
	}
	booted := slices.ContainsFunc(st.Slots, func(x slot.SlotStatus) bool { return x.State == record.InProgress })
	switch {
	case !booted:
		return "is tried with the next start of the agent: " + starts + " at most"
	case st.Approved != "":
		return "runs on trial, and is approved by " + st.Approved + ", but not committed yet: " + starts +
			" left after this one"
	case st.Trial:
		return "runs on trial, and is not committed: " + starts + " left after this one"
	}
	return "is on trial, and does not run now: " + starts + " left"
}
