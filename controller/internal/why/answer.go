package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"tandem.internal/controller/internal/phrase"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// answer finds the first thing that stands between what a slot should run and its process.
func (f *Facts) answer() (reason, sentence string) {
	s, r, node := &f.Slot, f.Slot.Report, f.Slot.Node
	say := func(reason, format string, a ...any) (string, string) {
		return reason, f.subject() + fmt.Sprintf(format, a...)
	}
	switch id := f.Node.Identity; {
	case id != nil && id.State == "revoked":
		return say(Revoked, ": the node %s was revoked%s, and gets nothing any more", node, phrase.By(id.RevokedBy))
	case !f.Known:
		return say(UnknownNode, ": the node %s was never heard of; it gets its document when it comes", node)
	case s.State == view.SlotAway:
		return Offline, fmt.Sprintf("whether %s still runs is not known: its node is offline for %s; it was %s when "+
			"it was last heard", s.Slot, phrase.Span(f.Now.Sub(s.Since)), r.State)
	case s.Settled && s.Desired == "":
		return NotWanted, s.Slot + " has stopped: it is " + NotInSet
	case s.Settled && r.State == wire.WorkloadCompleted:
		return Completed, fmt.Sprintf("%s has completed, %s ago", s.Slot, phrase.Span(f.Now.Sub(r.Since)))
	case s.Stopped != nil && (s.Settled || r == nil):
		return Stopped, fmt.Sprintf("%s is stopped, by %s, for %s", s.Slot, s.Stopped.Who,
			phrase.Span(f.Now.Sub(s.Stopped.At)))
	case s.Settled:
		return Runs, fmt.Sprintf("%s runs what it should, for %s", s.Slot, phrase.Span(f.Now.Sub(r.Since)))
	case !s.Online && (r == nil || r.State != wire.WorkloadFailed):
		return say(Offline, ": its node %s is offline for %s", node, phrase.Span(f.Now.Sub(f.Node.Since)))
	case s.Desired == "":
		return NotWanted, s.Slot + " is being stopped: it is " + NotInSet
	}
	d := f.Doc
	switch {
	case d.Desired == nil:
		return say(NotIssued, ": no document was issued to its node %s yet", node)
	case !d.InSync && refused(d) != nil:
		return say(Refused, ": its node %s did not take the document %s: %s", node, d.Desired.Version,
			Brief(refused(d)))
	case !d.InSync:
		return say(NotApplied, ": its node %s has not put the document %s in force yet%s", node, d.Desired.Version,
			during(d))
	case s.State == view.SlotUntold:
		return say(NotReported, ": its node's report had no room for it")
	case r == nil, r.ID != s.Desired && r.Wanted != s.Desired:
		return say(NotReported, ": its node %s has the document, and has not told of it yet", node)
	}
	return f.onNode(r)
}

// onNode is answer for a slot of whose configuration its node has told.
func (f *Facts) onNode(r *wire.WorkloadSlot) (reason, sentence string) {
	say := func(reason, format string, a ...any) (string, string) {
		return reason, f.subject() + ": " + fmt.Sprintf(format, a...)
	}
	hook := strings.HasPrefix(r.Doing, "iss_hook_")
	switch {
	case f.Slot.Stopped != nil:
		return say(Stopping, "its process is being stopped")
	case r.State == wire.WorkloadStopped:
		return say(Stopping, "what has run there is being stopped")
	case r.State == wire.WorkloadRunning && r.ID == f.Slot.Desired && r.Doing == "" && r.Error != nil:
		return Damaged, fmt.Sprintf("%s runs, but: %s", f.Slot.Slot, Brief(r.Error))
	case r.Doing == "fetch" && failing(r) != nil && failing(r).Error.Code == wire.CodeExpired:
		return say(Unfetched, "its resource %q is not put in force: %s", failing(r).Name, Brief(failing(r).Error))
	case r.Doing == "fetch" && failing(r) != nil && failing(r).State == "failed" && failing(r).Next.IsZero():
		return say(Unfetched, "its resource %q is refused: %s", failing(r).Name, Brief(failing(r).Error))
	case r.Doing == "fetch" && failing(r) != nil:
		res := failing(r)
		return say(Unfetched, "its resource %q cannot be fetched: %s; next try %s", res.Name, Brief(res.Error),
			f.next(res.Next))
	case r.Doing == "fetch":
		return say(Fetching, "%s", fetching(r))
	case hook && r.Error != nil:
		return say(HookFailed, "its %s has failed, and is run again: %s", r.Doing, Brief(r.Error))
	case hook:
		return say(Hook, "its %s is under way", r.Doing)
	case r.Doing == "needs":
		return say(Needing, "it waits for %s", Waits(r.Waits))
	case r.Doing != "" && r.Error != nil:
		return say(Preparing, "%s, but: %s", step(r.Doing), Brief(r.Error))
	case r.Doing != "":
		return say(Preparing, "%s", step(r.Doing))
	case r.State == wire.WorkloadRestarting && r.Exit != nil:
		return say(Pause, "its process has ended (%s); it is started again %s", r.Exit.Words(), f.next(r.Next))
	case r.State == wire.WorkloadRestarting:
		return say(Pause, "its process is started again %s", f.next(r.Next))
	case r.Error != nil:
		return say(Failed, "it failed, and is not tried again until it changes or is restarted: %s", Brief(r.Error))
	}
	return say(Failed, "its state is %s", r.State)
}

// subject begins the sentence: what the slot does instead of what it should.
func (f *Facts) subject() string {
	r := f.Slot.Report
	if f.Slot.Stopped != nil {
		return fmt.Sprintf("%s was stopped by %s, and may still run", f.Slot.Slot, f.Slot.Stopped.Who)
	}
	if r != nil && r.State == wire.WorkloadRunning && f.Slot.Online && r.ID != f.Slot.Desired {
		return fmt.Sprintf("%s runs %s, not %s", f.Slot.Slot, r.ID, f.Slot.Desired)
	}
	return f.Slot.Slot + " is not running"
}

// refused returns why the node did not take its newest document; nil: it has not said no.
func refused(d view.Document) *wire.Error {
	if d.Error != nil {
		return d.Error
	}
	l := d.Last
	if l == nil || l.Stamp() != d.Desired.Stamp() || !l.State.Settled() || l.State == wire.StateInstalled {
		return nil
	}
	return cmp.Or(l.Error, wire.New(wire.CodeApplyFailed, "", string(l.State)))
}

// during says how far a node has come with its newest document.
func during(d view.Document) string {
	if l := d.Last; l != nil && l.Stamp() == d.Desired.Stamp() {
		return ": it is " + string(l.State)
	}
	return ""
}

// failing returns the first resource whose newest attempt has failed.
func failing(r *wire.WorkloadSlot) *wire.WorkloadResource {
	for i := range r.Resources {
		if res := &r.Resources[i]; res.Error != nil {
			return res
		}
	}
	return nil
}

// fetching says which resources are on their way.
func fetching(r *wire.WorkloadSlot) string {
	var names []string
	for _, res := range r.Resources {
		names = append(names, fmt.Sprintf("%q", res.Name))
	}
	verb := "fetched"
	if len(r.Resources) > 0 && !slices.ContainsFunc(r.Resources,
		func(res wire.WorkloadResource) bool { return res.State != "unpacking" }) {
		verb = "unpacked"
	}
	text := "its resources are being " + verb
	switch len(names) {
	case 0:
	case 1:
		text = "its resource " + names[0] + " is being " + verb
	default:
		text = "its resources " + strings.Join(names, ", ") + " are being " + verb
	}
	if done := Progress(r.Resources); done != "" {
		text += ":" + done
	}
	return text
}

// Waits says what a slot waits for.
func Waits(needs []wire.WorkloadNeed) string {
	var all []string
	for _, n := range needs {
		what := n.Condition
		if what == string(workload.After) {
			what = string(workload.Started) // which it waits for, as it is there
		}
		all = append(all, n.Slot+" to be "+what)
	}
	return strings.Join(all, ", ")
}

// step names what is being done before a process can start.
func step(doing string) string {
	switch doing {
	case "link":
		return "its directory is being made"
	case "ready":
		return "what has run before is to end first"
	}
	return doing
}

func (f *Facts) next(at time.Time) string {
	if left := at.Sub(f.Now); !at.IsZero() && left >= time.Second {
		return "in " + phrase.Ahead(left)
	}
	return "now"
}

// Brief is an error without its place.
func Brief(err *wire.Error) string {
	if err.Message == "" {
		return string(err.Code)
	}
	return string(err.Code) + ": " + err.Message
}

// Progress sums up resources that are on their way: " 12 of 40 MiB".
func Progress(all []wire.WorkloadResource) string {
	var done, size int64
	for _, r := range all {
		done, size = done+r.Done, size+max(r.Size, r.Done)
	}
	if size == 0 {
		return ""
	}
	const mib = 1 << 20
	if size < mib {
		return fmt.Sprintf(" %d of %d bytes", done, size)
	}
	return fmt.Sprintf(" %d of %d MiB", done/mib, size/mib)
}
