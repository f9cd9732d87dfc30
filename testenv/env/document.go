package env

import (
	"tandem.internal/shared/unitconfig"
)

// Entry is one entry of a unit configuration.
type Entry struct {
	Node     string // "": for every node of the type
	Type     string // "": mainType
	Priority uint32
	Labels   []string
	Rules    unitconfig.AlertRules
}

// Boom is a label that makes a node's software refuse its configuration: the on-apply command
// fails for it.
const Boom = "boom"

// Main is the node type of a NodeSpec that names none.
const Main = "mainType"

// Doc makes a unit configuration. Without entries it has one for mainType.
func Doc(version string, entries ...Entry) []byte {
	uc := &unitconfig.UnitConfig{FormatVersion: unitconfig.FormatVersion, Version: version}
	if len(entries) == 0 {
		entries = []Entry{{Labels: []string{"all"}}}
	}
	for _, e := range entries {
		if e.Type == "" {
			e.Type = Main
		}
		n := unitconfig.NodeEntry{NodeGroupSubject: unitconfig.Identity{Codename: e.Type}, Labels: e.Labels,
			Priority: e.Priority, AlertRules: e.Rules}
		if e.Node != "" {
			n.Node = &unitconfig.Identity{Codename: e.Node}
		}
		uc.Nodes = append(uc.Nodes, n)
	}
	return unitconfig.Encode(uc)
}
