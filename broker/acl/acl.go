// Package acl decides who may write and read which topic. Its pure functions of a unit name, an identity and a topic
// follow the column "writer" of the wire contract (shared/docs/wire.md, Topics).
//
// At most one role may write a topic; the controller may also clear what nodes left retained. A node may use only the
// topics below its own ID and the beacon. Nobody may use topics of another unit, $SYS, or shared subscriptions. What no
// rule permits is denied. The package does not authenticate: the caller gives the identity.
//
//tandem:pure
package acl

import (
	"strings"
	"unicode/utf8"

	"tandem.internal/shared/topic"
)

// MaxFilter is the most bytes of a topic or filter. No topic of the contract is longer.
const MaxFilter = 256

// Rules are the access rules of one unit.
type Rules struct{ Unit string }

// Grants are the rules of one unit for one identity. They are computed once for a connection, so that a check needs no
// hashing. The zero value permits nothing.
type Grants struct {
	role   Role
	unit   string // the unit's name
	prefix string // beginning of the unit's topics: "tandem/1/u1/"
	node   string // beginning of the node's topics: "tandem/1/u1/node/ab/n1/"; only for Node
}

// For returns the grants of id. With an invalid unit or node name they permit nothing.
func (r Rules) For(id Identity) Grants {
	if !topic.ValidName(r.Unit) {
		return Grants{}
	}
	g := Grants{role: id.Role, unit: r.Unit, prefix: topic.Root + r.Unit + "/"}
	if id.Role == Node {
		if !topic.ValidName(id.Name) {
			return Grants{}
		}
		g.node = strings.TrimSuffix(topic.ForNode(r.Unit, id.Name).Live(), string(topic.Live))
	}
	return g
}

// Publish reports whether the topic may be written, and returns its leaf if so.
func (g Grants) Publish(name string) (topic.Leaf, bool) {
	if len(name) > MaxFilter {
		return "", false
	}
	switch g.role {
	case Node:
		return g.nodePublish(name)
	case Controller, Cloud:
		t, err := topic.Parse(name)
		if err != nil || t.Unit != g.unit || writer(t.Leaf) != g.role {
			return "", false
		}
		return t.Leaf, true
	}
	return "", false
}

// Clear reports whether what is retained on a topic may be taken away, by an empty retained message, although another
// role writes it, and returns its leaf if so: the controller takes away what a node left.
func (g Grants) Clear(name string) (topic.Leaf, bool) {
	if g.role != Controller || len(name) > MaxFilter {
		return "", false
	}
	t, err := topic.Parse(name)
	if err != nil || t.Unit != g.unit || t.Leaf != topic.Reported && t.Leaf != topic.Live {
		return "", false
	}
	return t.Leaf, true
}

// nodePublish is Publish for a node.
func (g Grants) nodePublish(name string) (topic.Leaf, bool) {
	rest, ok := strings.CutPrefix(name, g.node)
	if !ok {
		return "", false
	}
	if kind, ok := strings.CutPrefix(rest, string(topic.Reported)+"/"); ok {
		return topic.Reported, topic.ValidName(kind)
	}
	switch leaf := topic.Leaf(rest); leaf {
	case topic.Live, topic.Reply, topic.Event:
		return leaf, true
	}
	return "", false
}

// writer returns the role that may write topics of a leaf.
func writer(leaf topic.Leaf) Role {
	switch leaf {
	case topic.Beacon, topic.Desired, topic.Request, topic.Outbox:
		return Controller
	case topic.Reported, topic.Live, topic.Event, topic.Reply:
		return Node
	case topic.Inbox:
		return Cloud
	}
	return Anonymous
}

// Retained reports whether messages on topics of this leaf may be retained.
func Retained(leaf topic.Leaf) bool {
	switch leaf {
	case topic.Beacon, topic.Desired, topic.Reported, topic.Live, topic.Outbox:
		return true
	}
	return false
}

// Subscribe reports whether all topics that the filter can match may be read.
func (g Grants) Subscribe(filter string) bool {
	if len(filter) > MaxFilter {
		return false
	}
	rest, ok := strings.CutPrefix(filter, g.prefix)
	if !ok || g.prefix == "" {
		return false
	}
	switch g.role {
	case Controller, Operator:
		return validFilter(rest)
	case Cloud:
		what, ok := strings.CutPrefix(rest, string(topic.Outbox)+"/")
		return ok && oneName(what) || rest == string(topic.Beacon)
	case Node:
		if rest == string(topic.Beacon) {
			return true
		}
		rest, ok := strings.CutPrefix(filter, g.node)
		if !ok {
			return false
		}
		kind, ok := strings.CutPrefix(rest, string(topic.Desired)+"/")
		return ok && oneName(kind) || rest == string(topic.Request)
	}
	return false
}

// oneName reports whether s is a name, or the wildcard for one level.
func oneName(s string) bool { return s == "+" || topic.ValidName(s) }

// validFilter reports whether s is a valid topic filter (MQTT 3.1.1, section 4.7) without empty levels, which no topic
// of the contract has.
func validFilter(s string) bool {
	if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
		return false
	}
	for more := true; more; {
		var level string
		level, s, more = strings.Cut(s, "/")
		switch {
		case level == "", level == "#" && more:
			return false
		case level == "+", level == "#":
		case strings.ContainsAny(level, "+#"):
			return false
		}
	}
	return true
}
