package unitconfig

import (
	"fmt"
	"slices"
	"strconv"

	"tandem.internal/shared/near"
	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// LocalRules are a node's own limits on the configurations that it takes, stricter than the format.
// The zero value allows everything.
type LocalRules struct {
	MaxPriority   *uint32  // nil: any priority
	AllowedLabels []string // nil: any label; empty: none
	Partitions    []string // names of the node's partitions; nil: not checked, empty: there is none
}

// Check lists what the node's own rules do not permit in nc, in document order: not-allowed for its
// labels and its priority, not-found for an alert rule on a partition that the node has not. The
// problems have a JSON pointer into the node document but no line.
func (r LocalRules) Check(nc *NodeConfig) Problems {
	var ps Problems
	if r.Partitions != nil {
		for i, p := range nc.AlertRules.Partitions {
			if !slices.Contains(r.Partitions, p.Name) {
				ps = append(ps, wire.New(wire.CodeNotFound, "/alertRules/partitions/"+strconv.Itoa(i)+"/name",
					fmt.Sprintf("this node has no partition %s; it has %s%s", strictjson.Show(p.Name),
						strictjson.Among(r.Partitions), near.Hint(p.Name, r.Partitions))))
			}
		}
	}
	if r.AllowedLabels != nil {
		for i, l := range nc.Labels {
			if !slices.Contains(r.AllowedLabels, l) {
				ps = append(ps, wire.New(wire.CodeNotAllowed, "/labels/"+strconv.Itoa(i),
					fmt.Sprintf("this node does not allow the label %s; it allows %s%s", strictjson.Show(l),
						strictjson.Among(r.AllowedLabels), near.Hint(l, r.AllowedLabels))))
			}
		}
	}
	if r.MaxPriority != nil && nc.Priority > *r.MaxPriority {
		ps = append(ps, wire.New(wire.CodeNotAllowed, "/priority",
			fmt.Sprintf("priority %d is above this node's highest, %d", nc.Priority, *r.MaxPriority)))
	}
	return ps
}
