package rollout

// Phases counts the rollouts that are known, by their phase.
func (s *Set) Phases() map[Phase]int {
	all := map[Phase]int{}
	for _, r := range s.all {
		all[r.currentPhase()]++
	}
	return all
}
