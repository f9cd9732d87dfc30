package unitconfig

import (
	"strconv"

	"tandem.internal/shared/wire"
)

// Rule is a step of the resolution: how the entry of a node was found (seed 000, Node Resolution Logic).
type Rule string

// The three steps, in order of precedence.
const (
	ByNode  Rule = "node"    // an entry names the node
	ByType  Rule = "type"    // the first entry without a node that names the node's type
	Default Rule = "default" // there is no such entry: an empty configuration
)

// Source is the entry that a node's configuration comes from, and the rule that found it.
type Source struct {
	Rule  Rule `json:"rule"`
	Entry int  `json:"entry"` // index into nodes; -1 with Default
}

// Pointer returns the JSON pointer of the entry in the unit configuration, or "" with Default.
func (s Source) Pointer() string {
	if s.Entry < 0 {
		return ""
	}
	return "/nodes/" + strconv.Itoa(s.Entry)
}

// Resolver returns the configuration of each node from one unit configuration. NewResolver indexes and encodes all
// entries once; after that a node costs two map look-ups. A Resolver does not change and is safe for concurrent use.
type Resolver struct {
	version string
	byNode  map[string]int // index of an entry, by node ID
	byType  map[string]int // index of an entry, by node type
	entries []resolved
}

// resolved is the configuration that an entry gives its nodes.
type resolved struct {
	config NodeConfig
	body   []byte
	hash   string
}

// NewResolver indexes uc, which must not be changed while the Resolver is used.
func NewResolver(uc *UnitConfig) *Resolver {
	r := &Resolver{
		version: uc.Version,
		byNode:  make(map[string]int),
		byType:  make(map[string]int),
		entries: make([]resolved, len(uc.Nodes)),
	}
	for i := range uc.Nodes {
		e := &uc.Nodes[i]
		index, name := r.byType, e.NodeGroupSubject.Codename
		if e.Node != nil {
			index, name = r.byNode, e.Node.Codename
		}
		if _, taken := index[name]; !taken { // the first entry wins
			index[name] = i
		}
		c := fromEntry(uc.Version, e)
		body := EncodeNode(c)
		r.entries[i] = resolved{c, body, wire.Hash(body)}
	}
	return r
}

// Source returns the entry of a node.
func (r *Resolver) Source(nodeID, nodeType string) Source {
	if i, ok := r.byNode[nodeID]; ok {
		return Source{ByNode, i}
	}
	if i, ok := r.byType[nodeType]; ok {
		return Source{ByType, i}
	}
	return Source{Default, -1}
}

// Config returns the configuration of a node. It shares slices and pointers with the unit configuration: do not write
// to them.
func (r *Resolver) Config(nodeID, nodeType string) (NodeConfig, Source) {
	src := r.Source(nodeID, nodeType)
	if src.Rule == Default {
		return empty(r.version, nodeID), src
	}
	return r.entries[src.Entry].config, src
}

// Body returns the configuration of a node as EncodeNode writes it, and its hash: "sha256:" and 64 hexadecimal digits.
// All nodes of one entry get the same slice: do not write to it.
func (r *Resolver) Body(nodeID, nodeType string) (body []byte, hash string, src Source) {
	src = r.Source(nodeID, nodeType)
	if src.Rule == Default {
		body = EncodeNode(empty(r.version, nodeID))
		return body, wire.Hash(body), src
	}
	e := &r.entries[src.Entry]
	return e.body, e.hash, src
}

// Resolve returns the configuration of one node: by node ID, else by node type, else the default. For many nodes use a
// Resolver. The result shares memory with uc.
func Resolve(uc *UnitConfig, nodeID, nodeType string) (NodeConfig, Source) {
	byType := -1
	for i := range uc.Nodes {
		e := &uc.Nodes[i]
		switch {
		case e.Node != nil && e.Node.Codename == nodeID:
			return fromEntry(uc.Version, e), Source{ByNode, i}
		case e.Node == nil && byType < 0 && e.NodeGroupSubject.Codename == nodeType:
			byType = i
		}
	}
	if byType >= 0 {
		return fromEntry(uc.Version, &uc.Nodes[byType]), Source{ByType, byType}
	}
	return empty(uc.Version, nodeID), Source{Default, -1}
}

// fromEntry returns the configuration that an entry gives its nodes: with the unit configuration's version, and with
// defaults for absent ratios.
func fromEntry(version string, e *NodeEntry) NodeConfig {
	c := NodeConfig{
		FormatVersion:    FormatVersion,
		Version:          version,
		Node:             e.Node,
		NodeGroupSubject: &e.NodeGroupSubject,
		AlertRules:       e.AlertRules,
		Labels:           e.Labels,
		Priority:         e.Priority,
	}
	if e.ResourceRatios != nil {
		ratios := e.ResourceRatios.Resolved()
		c.ResourceRatios = &ratios
	}
	return c
}

// empty returns the default configuration: the unit configuration's version and the node ID, nothing else.
func empty(version, nodeID string) NodeConfig {
	return NodeConfig{FormatVersion: FormatVersion, Version: version, Node: &Identity{Codename: nodeID}}
}
