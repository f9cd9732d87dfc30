package unitconfig

import (
	"strconv"

	"tandem.internal/shared/wire"
)

// Rule names a step of the resolution (seed 000, Node Resolution Logic).
type Rule string

// The three steps, in order of precedence.
const (
	ByNode  Rule = "node"    // an entry names the node
	ByType  Rule = "type"    // the first entry without a node that names the node's type
	Default Rule = "default" // neither: an empty configuration
)

// Source says where a node's configuration comes from.
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

// Resolver answers what each node gets from one unit configuration. Everything is indexed and
// encoded once, when it is made, so that asking for ten thousand nodes costs ten thousand map
// look-ups. It is not changed after that and may be used from several goroutines.
type Resolver struct {
	version string
	byNode  map[string]int
	byType  map[string]int
	entries []resolved
}

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

// Source says which step and entry serve a node.
func (r *Resolver) Source(nodeID, nodeType string) Source {
	if i, ok := r.byNode[nodeID]; ok {
		return Source{ByNode, i}
	}
	if i, ok := r.byType[nodeType]; ok {
		return Source{ByType, i}
	}
	return Source{Default, -1}
}

// Config returns what a node gets. Slices and pointers in it are shared with the unit
// configuration: do not write to them.
func (r *Resolver) Config(nodeID, nodeType string) (NodeConfig, Source) {
	src := r.Source(nodeID, nodeType)
	if src.Rule == Default {
		return empty(r.version, nodeID), src
	}
	return r.entries[src.Entry].config, src
}

// Body returns what a node gets as EncodeNode writes it, and its hash, "sha256:" and 64 hex
// digits. All nodes that one entry serves get the same slice: do not write to it.
func (r *Resolver) Body(nodeID, nodeType string) (body []byte, hash string, src Source) {
	src = r.Source(nodeID, nodeType)
	if src.Rule == Default {
		body = EncodeNode(empty(r.version, nodeID))
		return body, wire.Hash(body), src
	}
	e := &r.entries[src.Entry]
	return e.body, e.hash, src
}

// Resolve returns what one node gets: by node ID, else by node type, else the default. For many
// nodes make a Resolver. The result shares memory with uc.
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

// fromEntry is the entry as a node gets it: the unit configuration's version, defaults filled in.
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

// empty is the default: the unit configuration's version and the target node ID, nothing else.
func empty(version, nodeID string) NodeConfig {
	return NodeConfig{FormatVersion: FormatVersion, Version: version, Node: &Identity{Codename: nodeID}}
}
