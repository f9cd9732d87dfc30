package rollout

import "slices"

// pool are the parts that a wave may take or count: planned, selected by it, and not gone; absent ones only if a wave
// had them before.
func (r *Rollout) pool(wave int) (free, taken []*part) {
	w := &r.plan.Waves[wave]
	last := wave == len(r.plan.Waves)-1
	for _, p := range r.parts {
		switch {
		case p.target == "" || p.Revoked || !w.Takes(p.Type, p.Labels) || !p.initial && !last:
		case p.wave >= 0:
			taken = append(taken, p)
		case !p.has.absent:
			free = append(free, p)
		}
	}
	slices.SortFunc(free, byRank)
	return free, taken
}

// members are the names of the nodes of a wave that is about to open, in the order of the rollout.
func (r *Rollout) members(wave int) []string {
	w := &r.plan.Waves[wave]
	free, taken := r.pool(wave)
	take := len(free)
	switch {
	case wave == len(r.plan.Waves)-1: // takes what waves before have left, too
		for _, p := range taken {
			if p.wants() && !p.has.absent {
				free = append(free, p)
			}
		}
		slices.SortFunc(free, byRank)
		take = len(free)
	case w.PerType:
		free = perType(free, w.Count)
		take = len(free)
	case w.Count > 0:
		take = w.Count
	case w.Percent > 0:
		all := len(free) + len(taken)
		take = (w.Percent*all+99)/100 - len(taken)
	}
	return names(free[:max(0, min(take, len(free)))])
}

// perType keeps the first few of each type.
func perType(all []*part, most int) (kept []*part) {
	have := map[string]int{}
	for _, p := range all {
		if have[p.Type]++; have[p.Type] <= most {
			kept = append(kept, p)
		}
	}
	return kept
}

// choose returns the next few nodes by order that a wave may take.
func (r *Rollout) choose(wave, most int) []string {
	if most == 0 {
		return nil
	}
	free, _ := r.pool(wave)
	return names(free[:min(most, len(free))])
}

func names(parts []*part) (all []string) {
	for _, p := range parts {
		all = append(all, p.Node)
	}
	return all
}
