package supervise

import (
	"slices"
	"time"

	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// Needs are what the configurations of the slot need of others, to be judged by the shell, which says it with Met.
func (s State) Needs() (all []workload.Need) {
	for _, p := range []*Place{s.Main, s.Next} {
		if p == nil {
			continue
		}
		for _, n := range p.Config.Needs {
			if !slices.Contains(all, n) {
				all = append(all, n)
			}
		}
	}
	return all
}

// Met are those needs that were met when the slot was told last.
func (s State) Met() []workload.Need { return s.met }

// unmet are the needs of a configuration of which it is not known that they are met.
func (s State) unmet(p *Place) (all []workload.Need) {
	for _, n := range p.Config.Needs {
		if !slices.Contains(s.met, n) {
			all = append(all, n)
		}
	}
	return all
}

// Contained are the configurations of the slot that take a container runtime, in force or to be that. The shell says
// with Met which of them have it.
func (s State) Contained() (all []*Place) {
	for _, p := range []*Place{s.Main, s.Next, s.Before} {
		if p != nil && p.Config.Contained() {
			all = append(all, p)
		}
	}
	return all
}

// Able are the directories of those that could be made when the slot was told last.
func (s State) Able() []string { return s.able }

// can says whether what runs a configuration is known to be there.
func can(able []string, p *Place) bool { return !p.Config.Contained() || slices.Contains(able, p.Dir) }

// waits are the needs for which the process of what is in force is not started.
func (s State) waits() []workload.Need {
	p := s.Main
	if p == nil || p.Run != "" || p.Stopping != "" || p.Done || s.Stopped || s.Wanted == nil {
		return nil
	}
	return s.unmet(p)
}

// Meets reports whether the slot is what another one needs it to be. An instance is that whichever of its
// configurations runs; a job is that with the one that is wanted. What is weak does not wait for what nobody starts.
func (s State) Meets(c workload.Condition) bool {
	p := s.Main
	switch {
	case c.Weak() && (s.Wanted == nil || s.Stopped || p == nil && s.Next == nil && s.Refused != nil):
		return true
	case p == nil || s.Wanted == nil:
		return false
	case p.Config.Class == workload.Job && (s.Next != nil || compare(p.Config, *s.Wanted) > quiet):
		return false
	case p.Done:
		return true
	case c == workload.Completed || p.Run == "" || p.Run != s.up || p.Stopping != "":
		return false
	case c != workload.Healthy:
		return true
	case has(p.Config, workload.HookStatus):
		return s.bad < 0
	}
	return s.now.Mono >= s.passed
}

// Window is when the process that runs will have stayed up, which others may wait for; false: it has, or it is not
// known to run.
func (s State) Window() (time.Duration, bool) {
	return s.passed, s.passed > s.now.Mono && s.passed != never
}

// shown are needs as the node tells of them.
func shown(needs []workload.Need) (all []wire.WorkloadNeed) {
	for _, n := range needs {
		all = append(all, wire.WorkloadNeed{Slot: n.Slot.String(), Condition: string(n.Condition)})
	}
	return all
}
