package policy

import (
	"slices"
	"time"

	"tandem.internal/nodeagent/internal/update"
	"tandem.internal/shared/event"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/wire"
)

// step is one Step on its way.
type step struct {
	State
	now     Now
	effects []Effect
}

// Step takes s over one event.
func (s State) Step(now Now, ev Event) (State, []Effect) {
	t := &step{State: s, now: now}
	if _, dropped := ev.(Dropped); !dropped {
		t.before = t.asked
	}
	switch ev := ev.(type) {
	case Document:
		t.doc, t.read = ev.Policies, true
		t.owed = true
	case Updated:
		t.update, t.started = ev.Update, true
	case Fetched:
		t.fetched(ev)
	case Staged:
		t.staged(ev)
	case Dropped: // the effects of the step before have not happened
		t.asked, t.again, t.owed, t.afresh = t.before, now.Mono+stagePause, true, true
		return t.State, nil
	}
	if t.read {
		t.conflicts()
	}
	if t.started && t.read {
		t.drive()
	}
	st := t.Plan.status()
	if t.owed || st != s.Plan.status() {
		t.do(Report{})
	}
	t.tell()
	t.owed = false
	return t.State, t.effects
}

func (t *step) do(e Effect) { t.effects = append(t.effects, e) }

// conflicts tells of the policies that another one keeps from deciding, once for each (seed 003, NMP Constraint
// Collisions).
func (t *step) conflicts() {
	var lost map[string]string
	if t.doc != nil {
		for _, p := range t.doc.Policies {
			if !p.Conflict {
				continue
			}
			if t.asked.lost[p.Name] != p.DecidedBy {
				t.do(Log{event.PolicyDetail{PolicyStatus: wire.PolicyStatus{Name: p.Name, Rev: p.Rev,
					State: wire.PolicyConflict, DecidedBy: p.DecidedBy}}})
			}
			if lost == nil {
				lost = map[string]string{}
			}
			lost[p.Name] = p.DecidedBy
		}
	}
	t.Lost, t.asked.lost = lost, lost
}

// drive brings the plan to what the policies, the offers, the update and the time want of it.
func (t *step) drive() {
	if t.Plan.ordered() {
		t.watch()
	}
	if !t.Plan.ordered() {
		t.plan()
	}
	t.fetchOnly()
}

// plan makes the plan that of the policy that decides, and does what is due of it.
func (t *step) plan() {
	d := t.decider()
	switch {
	case d == nil:
		t.Plan = Plan{}
		return
	case d.Name != t.Plan.Policy || d.Rev != t.Plan.Rev:
		t.Plan = Plan{Policy: d.Name, Rev: d.Rev, Upgrade: *d.Agent, State: wire.PolicyWaiting}
		t.draw(d.Agent.Start, false)
	}
	t.look()
}

// draw draws when the plan begins: in the policy's window as far as it is not over yet, or, if it is, in a window of
// the same length from now on: those who missed it must not begin all at once. Of a window of a rollout that has begun
// the whole length is left, too. With autoUpgrade neither start nor duration counts: it begins within a heartbeat.
func (t *step) draw(start time.Time, missed bool) {
	length := time.Duration(t.Plan.Upgrade.Duration) * time.Second
	from := start
	if t.Plan.Upgrade.Auto {
		from, length = t.now.Wall, heartbeat
	}
	until := from.Add(length)
	switch {
	case missed, !until.After(t.now.Wall), t.Plan.Upgrade.Whole && from.Before(t.now.Wall):
		from, until = t.now.Wall, t.now.Wall.Add(length)
	case from.Before(t.now.Wall):
		from = t.now.Wall
	}
	t.Plan.At = from.Add(time.Duration(t.now.Chance * float64(until.Sub(from)))).UTC()
}

// look does what is due of a plan whose trial is not ordered.
func (t *step) look() {
	p := &t.Plan
	target, why := pick(&p.Upgrade, t.doc.Agents, t.update.Running)
	switch p.State {
	case wire.PolicyWaiting:
		if why == "" {
			p.Error = nil
		}
		switch {
		case target == nil && why == "" && !p.At.After(t.now.Wall):
			t.over(wire.PolicyNoAction, nil)
		case target == nil && why != "":
			p.is(wire.New(wire.CodeNotFound, "", why))
		case target == nil:
		case p.At.After(t.now.Wall):
		case p.At.Add(heartbeat).Before(t.now.Wall): // it was missed, or there was nothing on offer
			if t.draw(t.now.Wall, true); !p.At.After(t.now.Wall) {
				t.begin(target)
			}
		default:
			t.begin(target)
		}
	case wire.PolicyDownloading, wire.PolicyDownloadFailed, wire.PolicyDownloaded, wire.PolicyPrecheckFailed:
		if target == nil || target.Hash != p.Target.Hash { // another one is wanted by now, or none
			t.anew()
			t.look()
			return
		}
		p.Target = target // its addresses may be others
		if t.knownBad() { // it was tried, and the answer was lost in a crash; or somebody at the node has
			return
		}
		if p.State == wire.PolicyDownloaded && !t.asked.staging && t.now.Mono >= t.again {
			t.stage()
		}
		if p.State == wire.PolicyPrecheckFailed {
			t.precheck()
		}
	default: // it is over: only what is newer than what failed begins it again, or with autoUpgrade what is newer
		failed := p.State != wire.PolicySuccessful && p.State != wire.PolicyNoAction
		c, ok := 0, false
		if target != nil && p.Target != nil {
			c, ok = compare(target.Version, p.Target.Version)
		}
		switch {
		case target == nil:
		case failed && ok && c > 0, !failed && p.Upgrade.Auto:
			t.anew()
		}
	}
}

// anew plans the same policy once more, in a fresh window.
func (t *step) anew() {
	t.Plan = Plan{Policy: t.Plan.Policy, Rev: t.Plan.Rev, Upgrade: t.Plan.Upgrade, State: wire.PolicyWaiting}
	t.draw(t.now.Wall, true)
}

// begin goes to a release, unless that is known to be in vain.
func (t *step) begin(target *wire.AgentRelease) {
	t.Plan.Target, t.Plan.Began, t.Plan.Error = target, t.now.Wall.UTC(), nil
	if !t.knownBad() {
		t.precheck()
	}
}

// is notes what is wrong, or waited for; what was noted already is no news, which would be saved and reported.
func (p *Plan) is(err *wire.Error) {
	if p.Error == nil || err == nil || *p.Error != *err {
		p.Error = err
	}
}

// knownBad ends the plan if its target has failed here before, or is below the floor, and reports whether it has.
func (t *step) knownBad() bool {
	err := update.Quarantined(t.update.Quarantine, t.Plan.Target.Hash)
	if err == nil {
		err = publisher.BelowFloor(t.Plan.Target.Version, t.update.Floor)
	}
	if err != nil {
		t.over(wire.PolicyFailed, err)
	}
	return err != nil
}

// precheck begins the download, unless the agent cannot be updated.
func (t *step) precheck() {
	if !t.update.Slots {
		t.Plan.State = wire.PolicyPrecheckFailed
		t.Plan.is(wire.New(wire.CodeNotSupported, "",
			"this node has no slots: its agent was not started by the launcher"))
		t.again = t.now.Mono + heartbeat
		return
	}
	t.Plan.State, t.Plan.Error = wire.PolicyDownloading, nil
	t.afresh = true // another plan may have fetched it already
}

// fetchOnly asks for what the plan needs fetched, and for nothing else.
func (t *step) fetchOnly() {
	var want *wire.AgentRelease
	switch t.Plan.State {
	case wire.PolicyDownloading, wire.PolicyDownloadFailed, wire.PolicyDownloaded:
		want = t.Plan.Target
	}
	if !same(want, t.asked.fetches) || want != nil && t.afresh {
		t.asked.fetches, t.afresh = want, false
		t.do(Fetch{want})
	}
}

// same reports whether there is nothing else to fetch, nor from elsewhere.
func same(a, b *wire.AgentRelease) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Hash == b.Hash && a.Size == b.Size && a.Minisign == b.Minisign && slices.Equal(a.URLs, b.URLs)
}

func (t *step) fetched(ev Fetched) {
	p := &t.Plan
	if p.Target == nil || p.Target.Hash != ev.Hash || p.ordered() {
		return
	}
	switch p.State {
	case wire.PolicyDownloading, wire.PolicyDownloadFailed:
	default:
		return
	}
	switch {
	case ev.Done:
		p.State, p.Error, t.again = wire.PolicyDownloaded, nil, t.now.Mono
	case ev.Err != nil:
		p.State = wire.PolicyDownloadFailed
		p.is(ev.Err)
	default:
		p.State = wire.PolicyDownloading
		p.is(ev.Waits)
	}
}

// stage orders the trial.
func (t *step) stage() {
	t.asked.staging = true
	t.do(Stage{*t.Plan.Target})
}

func (t *step) staged(ev Staged) {
	t.asked.staging = false
	p := &t.Plan
	if p.State != wire.PolicyDownloaded || p.Target.Hash != ev.Hash {
		return
	}
	switch {
	case ev.Err == nil:
		p.State, p.Number, p.Error = wire.PolicyInitiated, ev.Number, nil
	case ev.Final:
		t.over(wire.PolicyFailed, ev.Err)
	default: // another trial is under way, or the disk is full
		p.is(ev.Err)
		t.again = t.now.Mono + stagePause
	}
}

// watch follows the update until its end is known.
func (t *step) watch() {
	p, u := &t.Plan, &t.update
	for _, o := range u.Ended {
		if o.Number != p.Number || u.GivenUp && u.Number == p.Number { // what was given up still runs
			continue
		}
		switch {
		case o.Kept:
			t.over(wire.PolicySuccessful, nil)
		case o.Tried:
			t.over(wire.PolicyRollbackSucceeded, wire.New(wire.CodeApplyFailed, "", o.Why))
		default:
			t.over(wire.PolicyFailed, wire.New(wire.CodeApplyFailed, "", o.Why))
		}
		return
	}
	switch {
	case u.Number > p.Number: // somebody at the node has gone on, or the record was lost
		if c, ok := compare(u.Running, p.Target.Version); ok && c == 0 {
			t.over(wire.PolicySuccessful, nil)
			return
		}
		t.over(wire.PolicyFailed, wire.New(wire.CodeInterrupted, "",
			"another update took the place of this one; nobody knows how it ended"))
	case u.Number < p.Number: // it is of before
	case u.GivenUp && u.Note != "":
		p.State = wire.PolicyRollbackFailed
		if p.Rollback == nil || p.Rollback.Message != u.Note {
			p.Rollback = wire.New(wire.CodeApplyFailed, "", u.Note)
		}
	case u.GivenUp:
		p.State, p.Rollback = wire.PolicyRollbackStarted, nil
	}
}

// over ends the plan, as far as is known now. It is told at once: another plan may take its place in the same step.
func (t *step) over(state wire.PolicyState, err *wire.Error) {
	t.Plan.State, t.Plan.Error, t.Plan.Ended = state, err, t.now.Wall.UTC()
	t.tell()
}
