package rollout

import (
	"fmt"
	"maps"
	"slices"
)

// RankOf is the place of a node in the order.
func RankOf(salt, node string) [32]byte { return rankOf(salt, node) }

// Durable is what records make of a set, as text.
func Durable(s *Set) (all []string) {
	for _, id := range slices.Sorted(maps.Keys(s.all)) {
		r := s.all[id]
		all = append(all, fmt.Sprintf("%s %s wave %d open %v override %v revert %v %v canaries %d pause %v by %q\n",
			id, r.phase, r.wave, r.waveOpen, r.override, r.revert, r.now, r.canaries, r.pause, r.by))
		for _, name := range slices.Sorted(maps.Keys(r.parts)) {
			p := r.parts[name]
			if p.status == Queued && p.wave < 0 && !p.initial {
				continue
			}
			all = append(all, fmt.Sprintf(" %s %s %v wave %d %s@%d before %s %v issued %v tries %d excused %v %q %d\n",
				name, p.status, p.initial, p.wave, p.hash, p.rev, p.before, p.baseline, p.issuedAt.Unix(), p.tries,
				p.excused, p.reason, p.ended))
		}
		for _, p := range r.back {
			all = append(all, " back "+p.Node)
		}
	}
	return all
}

// Ours is how many nodes of the whole unit a rollout has made unavailable, and how many it may.
func Ours(s *Set, id string) (ours, limit int) {
	r := s.all[id]
	return r.groups[0].ours, r.limit(0)
}
