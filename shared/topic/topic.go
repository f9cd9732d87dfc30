// Package topic builds and parses the topics of the wire (shared/docs/wire.md, Topics). Every
// topic has exactly one writer. The package is pure.
//
//tandem:pure
package topic

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"tandem.internal/shared/wire"
)

// Root begins every topic: the product and its wire version.
const Root = "tandem/1/"

// MaxName is the longest unit or node name, in bytes.
const MaxName = 63

// ValidName reports whether s may name a unit or a node: [A-Za-z0-9][A-Za-z0-9._-]{0,62}.
func ValidName(s string) bool { return wire.ValidName(s) }

// Shard returns the first two hex digits of SHA-256(node), "00" to "ff".
func Shard(node string) string {
	h := sha256.Sum256([]byte(node))
	return hex.EncodeToString(h[:1])
}

// ofShard reports whether shard == Shard(node), without an allocation: it runs for every message of a node.
func ofShard(shard, node string) bool {
	var buf [MaxName]byte // node is a ValidName
	h := sha256.Sum256(append(buf[:0], node...))
	const digits = "0123456789abcdef"
	return len(shard) == 2 && shard[0] == digits[h[0]>>4] && shard[1] == digits[h[0]&15]
}

// Shards lists all 256 shards in order.
func Shards() []string {
	s := make([]string, 256)
	for i := range s {
		s[i] = fmt.Sprintf("%02x", i)
	}
	return s
}

// Leaf names the content of a topic.
type Leaf string

// The leaves of the topic tree.
const (
	Beacon   Leaf = "controller"
	Desired  Leaf = "desired"
	Request  Leaf = "request"
	Reply    Leaf = "reply"
	Reported Leaf = "reported"
	Live     Leaf = "live"
	Event    Leaf = "event"
	Inbox    Leaf = "inbox"
	Outbox   Leaf = "outbox"
)

// Topic is a parsed topic. Kind is set for Desired and Reported, What for Inbox and Outbox, Node
// for everything below a node.
type Topic struct {
	Unit string
	Node string
	Leaf Leaf
	Kind wire.Kind
	What string
}

// ForController returns the beacon's topic.
func ForController(unit string) string { return Root + unit + "/controller" }

// ForInbox and ForOutbox return the topics of the cloud side.
func ForInbox(unit, what string) string  { return Root + unit + "/inbox/" + what }
func ForOutbox(unit, what string) string { return Root + unit + "/outbox/" + what }

// Node holds one node's prefix, so that its topics are built without hashing again.
type Node struct{ prefix string }

// ForNode returns the topics of one node.
func ForNode(unit, node string) Node {
	return Node{Root + unit + "/node/" + Shard(node) + "/" + node + "/"}
}

func (n Node) Desired(k wire.Kind) string  { return n.prefix + "desired/" + string(k) }
func (n Node) DesiredFilter() string       { return n.prefix + "desired/+" }
func (n Node) Request() string             { return n.prefix + "request" }
func (n Node) Reply() string               { return n.prefix + "reply" }
func (n Node) Reported(k wire.Kind) string { return n.prefix + "reported/" + string(k) }
func (n Node) Live() string                { return n.prefix + "live" }
func (n Node) Event() string               { return n.prefix + "event" }

// ShardFilters returns what a controller subscribes to for one shard of a unit: what nodes write.
func ShardFilters(unit, shard string) []string {
	p := Root + unit + "/node/" + shard + "/+/"
	return []string{p + "live", p + "reported/+", p + "reply", p + "event"}
}

// ShardDesired returns the filter that matches every desired document of one shard.
func ShardDesired(unit, shard string) string {
	return Root + unit + "/node/" + shard + "/+/desired/+"
}

// Parse takes a topic apart. It accepts exactly what the builders make: a wrong shard, a bad
// name or a leaf that does not exist is an error.
func Parse(s string) (Topic, error) {
	bad := func(why string) (Topic, error) {
		return Topic{}, fmt.Errorf("topic %.200q: %s", s, why)
	}
	rest, ok := strings.CutPrefix(s, Root)
	if !ok {
		return bad("does not begin with " + Root)
	}
	unit, rest, ok := strings.Cut(rest, "/")
	if !ok || !ValidName(unit) {
		return bad("bad unit name")
	}
	head, rest, more := strings.Cut(rest, "/")
	switch Leaf(head) {
	case Beacon:
		if more {
			return bad("the beacon has no topics below it")
		}
		return Topic{Unit: unit, Leaf: Beacon}, nil
	case Inbox, Outbox:
		if !ValidName(rest) {
			return bad("bad name after " + head)
		}
		return Topic{Unit: unit, Leaf: Leaf(head), What: rest}, nil
	case "node":
	default:
		return bad("unknown branch")
	}
	shard, rest, _ := strings.Cut(rest, "/")
	node, rest, _ := strings.Cut(rest, "/")
	if !ValidName(node) {
		return bad("bad node name")
	}
	if !ofShard(shard, node) {
		return bad("the shard is not the node's")
	}
	t := Topic{Unit: unit, Node: node}
	leaf, kind, more := strings.Cut(rest, "/")
	t.Leaf = Leaf(leaf)
	switch t.Leaf {
	case Desired, Reported:
		if !ValidName(kind) {
			return bad("bad document kind")
		}
		t.Kind = wire.Kind(kind)
	case Request, Reply, Live, Event:
		if more {
			return bad(leaf + " has no topics below it")
		}
	default:
		return bad("unknown leaf")
	}
	return t, nil
}
