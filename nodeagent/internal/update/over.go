package update

import (
	"cmp"

	"tandem.internal/shared/wire"
)

// settled ends a trial that is over without a word from here: the launcher gave it up, or somebody at the node gave it
// up or kept it.
func (t *step) settled() bool {
	switch {
	case t.Has.Trying == t.Version:
		return false
	case t.Has.Ended.Reason != "":
		t.Tried = true
		t.leave(t.hasEnded())
	case t.Has.Active == t.Version && (t.Phase == Trying || t.own):
		t.Tried = true
		t.finish(true, Why{})
	case t.own:
		t.finish(false, Why{Reason: wire.BootUnknown, Detail: "version " + t.Version + " is not on trial any more"})
	default:
		return false
	}
	return true
}

// hasEnded is why the newest trial is over. Of the agent's slots it may be about another content.
func (t *step) hasEnded() Why {
	why := t.Has.Ended
	why.Failed = why.Failed && (!t.own || t.Hash == t.Has.EndedHash)
	return why
}

// leave ends the update without keeping it; if the version runs still, a restart has to follow.
func (t *step) leave(why Why) {
	if t.Has.Restart == Nothing {
		t.finish(false, why)
		return
	}
	t.over(false, why)
	t.enter(Leaving)
	t.Why = why
	t.restart(why)
}

// adopt takes up what the agent's slots have on trial or staged without a word here: somebody at the node, or an agent
// without this machine, has put it there.
func (t *step) adopt() {
	version := cmp.Or(t.Has.Trying, t.Has.Staged)
	switch {
	case version != "" && (version != t.Version || t.Hash != "" && t.Has.Hash != t.Hash):
		if t.Try != "" {
			why := "version " + version + " was staged in its place"
			t.do(Emit{Type: EventRefused, Version: t.Version, Text: plain(why)})
		}
		number := t.Number
		t.clear()
		t.Number, t.Version, t.Previous, t.shown = number+1, version, t.Has.Active, true
		t.Hash = t.Has.Hash
		t.enter(Staged)
	case version != "":
		t.Hash = t.Has.Hash // a record from before the hash was known
	case version == "" && t.Phase == Staged:
		why := t.hasEnded()
		if why == (Why{}) {
			why = Why{Reason: wire.BootUnknown, Detail: "it is not staged any more"}
		}
		t.finish(t.Has.Active == t.Version, why)
	}
	switch {
	case t.Phase != Staged || t.Has.Trying == "":
	case t.Has.Restart == Nothing:
		t.enter(Trying)
	default:
		t.enter(Restarting)
		t.restart(t.toTry())
	}
}

// noun is what a restart is called.
func (r Restarts) noun() string {
	if r == Node {
		return "reboot"
	}
	return "restart"
}

// done says what has happened after it.
func (r Restarts) done() string {
	if r == Node {
		return "node is rebooted"
	}
	return "agent is restarted"
}
