package rollout

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/shared/wire"
)

// saved is what records have made of a rollout, for a checkpoint.
type saved struct {
	ID       string      `json:"id"`
	Open     bool        `json:"open,omitzero"`
	Who      string      `json:"who,omitempty"`
	Kind     wire.Kind   `json:"kind"`
	Salt     string      `json:"salt"`
	Plan     *plan.Plan  `json:"plan"`
	At       time.Time   `json:"at"`
	Planned  int         `json:"planned"`
	Canaries int         `json:"canaries,omitzero"`
	Phase    Phase       `json:"phase"`
	Wave     int         `json:"wave"`
	WaveOpen bool        `json:"waveOpen,omitzero"`
	Override bool        `json:"override,omitzero"`
	Revert   bool        `json:"revert,omitzero"`
	Now      bool        `json:"now,omitzero"`
	Pause    PausedData  `json:"pause,omitzero"`
	PausedAt time.Time   `json:"pausedAt,omitzero"`
	By       string      `json:"by,omitempty"`
	EndedAt  time.Time   `json:"endedAt,omitzero"`
	Parts    []savedPart `json:"parts,omitempty"` // by name
	Back     []string    `json:"back,omitempty"`
}

type savedPart struct {
	Node     string    `json:"node"`
	Status   Status    `json:"status"`
	Initial  bool      `json:"initial,omitzero"`
	Wave     int       `json:"wave"`
	Hash     string    `json:"hash,omitempty"`
	Rev      uint64    `json:"rev,omitzero"`
	Before   string    `json:"before,omitempty"`
	Baseline []Trouble `json:"baseline,omitempty"`
	IssuedAt time.Time `json:"issuedAt,omitzero"`
	Tries    int       `json:"tries,omitzero"`
	Excused  bool      `json:"excused,omitzero"`
	Reason   string    `json:"reason,omitempty"`
	Ended    uint64    `json:"ended,omitzero"`
}

// Checkpoint returns what records have made of the set, the oldest rollout first. Replay may go on from there.
func (s *Set) Checkpoint() ([]byte, error) {
	var all []saved
	for _, id := range s.IDs() {
		r := s.all[id]
		v := saved{
			ID: r.id, Open: !r.over(), Who: r.who, Kind: r.kind, Salt: r.salt, Plan: r.plan, At: r.at,
			Planned: r.planned, Canaries: r.canaries, Phase: r.phase, Wave: r.wave, WaveOpen: r.waveOpen,
			Override: r.override, Revert: r.revert, Now: r.now, Pause: r.pause, PausedAt: r.pausedAt, By: r.by,
			EndedAt: r.endedAt, Back: names(r.back),
		}
		for _, name := range slices.Sorted(maps.Keys(r.parts)) {
			p := r.parts[name]
			if p.status == Queued && p.wave < 0 && !p.initial {
				continue // only facts speak of it
			}
			v.Parts = append(v.Parts, savedPart{
				p.Node, p.status, p.initial, p.wave, p.hash, p.rev, p.before, p.baseline, p.issuedAt, p.tries,
				p.excused, p.reason, p.ended,
			})
		}
		all = append(all, v)
	}
	return json.Marshal(all, json.Deterministic(true))
}

// over reports whether a rollout has ended and nothing is in flight, as its records say.
func (r *Rollout) over() bool {
	if !r.ended() {
		return false
	}
	for _, p := range r.parts {
		if p.status.inFlight() {
			return false
		}
	}
	return true
}

// Load returns the set of a checkpoint. As after Replay, facts come next, then Opened.
func Load(zones plan.Zones, checkpoint []byte) (*Set, error) {
	var all []saved
	if err := json.Unmarshal(checkpoint, &all); err != nil {
		return nil, fmt.Errorf("rollouts: %w", err)
	}
	s := NewSet(zones)
	s.stale = true
	for i := range all {
		if err := s.restore(&all[i]); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Set) restore(v *saved) error {
	if err := s.checkPlan(v.Plan); err != nil {
		return fmt.Errorf("the rollout %q: %w", v.ID, err)
	}
	windows, err := v.Plan.Open(s.zones)
	if err != nil {
		return fmt.Errorf("the rollout %q: %w", v.ID, err)
	}
	if v.Wave < -1 || v.Wave >= len(v.Plan.Waves) {
		return fmt.Errorf("the rollout %q is in wave %d of %d", v.ID, v.Wave, len(v.Plan.Waves))
	}
	r := s.add(v.ID, v.Kind, v.Salt, v.Plan, windows)
	r.who, r.at, r.planned, r.canaries, r.phase, r.wave = v.Who, v.At, v.Planned, v.Canaries, v.Phase, v.Wave
	r.waveOpen, r.override, r.revert, r.now, r.pause = v.WaveOpen, v.Override, v.Revert, v.Now, v.Pause
	r.pausedAt, r.by, r.endedAt = v.PausedAt, v.By, v.EndedAt
	for _, d := range v.Parts {
		p := r.named(d.Node)
		p.status, p.initial, p.wave, p.hash, p.rev, p.before = d.Status, d.Initial, d.Wave, d.Hash, d.Rev, d.Before
		p.baseline, p.issuedAt, p.tries, p.excused = d.Baseline, d.IssuedAt, d.Tries, d.Excused
		p.reason, p.ended = d.Reason, d.Ended
		if v.Open { // else nothing is in flight any more, but on nodes that were revoked then
			p.hold(v.At)
		}
	}
	for _, name := range v.Back {
		r.back = append(r.back, r.named(name))
	}
	if !v.Open {
		s.leave(r)
		s.open = slices.DeleteFunc(s.open, func(o *Rollout) bool { return o == r })
	}
	r.refreshAll(v.At)
	return nil
}
