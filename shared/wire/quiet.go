package wire

import "strconv"

// HealthQuiet says by the aspects of health for how long, by the node's monotonic clock, there was no change: since the
// agent was started, a document was installed, or a trouble of the aspect began or ended, whichever was last. Whole
// seconds, rounded down; absent: less than one.
type HealthQuiet struct {
	Alerts    Span            `json:"alerts,omitzero"`    // an alert is raised or falls
	Checks    Span            `json:"checks,omitzero"`    // a functional check fails or recovers
	Restarts  Span            `json:"restarts,omitzero"`  // the agent, or the node, is started
	Workloads Span            `json:"workloads,omitzero"` // a slot fails, restarts, or runs again
	Revs      map[Kind]uint64 `json:"revs,omitempty"`     // of the documents that were installed all that time
}

func (q *HealthQuiet) check() error {
	if q == nil {
		return nil
	}
	if len(q.Revs) > maxList {
		return New(CodeTooLarge, "/quiet/revs", "more than "+strconv.Itoa(maxList))
	}
	for kind := range q.Revs {
		if err := name("/quiet/revs", string(kind)); err != nil {
			return err
		}
	}
	return nil
}
