package workloads

import (
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/shared/wire"
)

// troubles are the slots that do not stay up.
func troubles(detail any) (all []rollout.Trouble) {
	w, ok := detail.(*wire.Workloads)
	if !ok {
		return nil
	}
	for i := range w.Slots {
		if s := &w.Slots[i]; s.State == wire.WorkloadFailed || s.State == wire.WorkloadRestarting {
			all = append(all, rollout.Trouble{Aspect: plan.Workloads, Name: s.Slot})
		}
	}
	return all
}
