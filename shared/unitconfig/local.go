package unitconfig

import (
	"fmt"
	"slices"
	"strconv"

	"tandem.internal/shared/near"
	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// LocalRules are a node's own limits of configurations, in addition to those of the format. The zero value has none.
type LocalRules struct {
	MaxPriority   *uint32  // nil: any priority
	AllowedLabels []string // nil: any label; empty: none
	Partitions    []string // names of the node's partitions; nil: not checked, empty: there is none
}

// Check returns the problems that nc has by the node's own rules, in document order: with code not-allowed for labels
// and the priority, and not-found for an alert rule of a partition that the node does not have. The problems have JSON
// pointers into nc, and no lines.
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
