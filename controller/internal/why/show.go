package why

import (
	"fmt"
	"time"

	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Versions says which version of its document a rollout brings.
type Versions func(id string) string

// Rollouts shows all rollouts.
func Rollouts(set *rollout.Set, now time.Time, of Versions) view.Rollouts {
	v := view.Rollouts{Rollouts: []view.Rollout{}}
	for _, id := range set.IDs() {
		if one, err := OneRollout(set, now, id, of); err == nil {
			v.Rollouts = append(v.Rollouts, one)
		}
	}
	return v
}

// OneRollout shows a rollout, without its nodes. There may be none of that ID.
func OneRollout(set *rollout.Set, now time.Time, id string, of Versions) (view.Rollout, *wire.Error) {
	v, known := set.Show(now, id)
	if !known {
		return view.Rollout{}, wire.New(wire.CodeNotFound, "", fmt.Sprintf("there is no rollout %.100q", id))
	}
	return view.Rollout{View: v, Version: of(id), Why: Ended(now, &v)}, nil
}

// RolloutDetail shows a rollout with at most so many of its nodes; those in one status, or all if that is "".
func RolloutDetail(
	set *rollout.Set, now time.Time, id string, of Versions, only rollout.Status, most int,
) (v view.RolloutDetail, err *wire.Error) {
	if v.Rollout, err = OneRollout(set, now, id, of); err != nil {
		return v, err
	}
	v.Plan = set.Plan(id)
	v.Warnings = v.Plan.Warnings()
	var nodes []rollout.NodeView
	nodes, v.Omitted = set.Members(now, id, only, most)
	v.List = make([]view.RolloutNode, len(nodes))
	for i := range nodes {
		v.List[i] = view.RolloutNode{NodeView: nodes[i], Why: RolloutNode(now, &nodes[i])}
	}
	return v, nil
}
